//! Facts -> which programs to load, and why not. Pure.

use super::Facts;

/// A program of the object, by its C name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// C name.
    pub program: &'static str,
    /// Without it there is nothing to show.
    pub required: bool,
    /// What is missing on the screen without it.
    pub gives: &'static str,
    /// Else it is loaded only, to be at hand.
    pub attached: bool,
}

/// What the arrays at hand ask for beyond requests on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// One is a RAID 4, 5 or 6.
    pub stripes: bool,
    /// Some member's bios have to be looked at as md submits them.
    pub judged: bool,
    /// One is a RAID 1 or 10.
    pub mirrors: bool,
    /// One is a member of another, or below dm-crypt.
    pub bio_based: bool,
    /// A filesystem has quota files of its own.
    pub quota: bool,
}

/// What to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Programs to load.
    pub programs: Vec<Choice>,
    /// What this kernel cannot give, one line each, said once at start.
    pub notes: Vec<String>,
}

const ISSUE: Choice = Choice {
    program: "rt_rq_issue",
    required: true,
    gives: "device times",
    attached: true,
};
const ISSUE_Q: Choice = Choice {
    program: "rt_rq_issue_q",
    ..ISSUE
};
const COMPLETE: Choice = Choice {
    program: "rt_rq_complete",
    required: true,
    gives: "requests",
    attached: true,
};
const QUEUE: Choice = Choice {
    program: "rt_bio_queue",
    required: false,
    gives: "processes, and directory, extent_tree and xattr blocks as they are written",
    attached: true,
};
const QUEUE_Q: Choice = Choice {
    program: "rt_bio_queue_q",
    ..QUEUE
};
const JUDGE: Choice = Choice {
    program: "rt_bio_judge",
    required: false,
    gives: "reason why RAID 4/5/6 reads and writes (rmw_read, resync)",
    attached: true,
};
const JUDGE_Q: Choice = Choice {
    program: "rt_bio_judge_q",
    ..JUDGE
};
/// Twins: see `bpf/again.bpf.h`.
const ISSUE_AGAIN: Choice = Choice {
    program: "rt_rq_issue_2",
    required: false,
    gives: "device times of what is issued while another task was switched away in rt_rq_issue",
    ..ISSUE
};
const QUEUE_AGAIN: Choice = Choice {
    program: "rt_bio_queue_2",
    required: false,
    gives: "processes of what is submitted while another task was switched away in rt_bio_queue",
    ..QUEUE
};
const JUDGE_AGAIN: Choice = Choice {
    program: "rt_bio_judge_2",
    required: false,
    gives: "reason of RAID 4/5/6 IO that is submitted while another task was switched away in rt_bio_judge",
    ..JUDGE
};
const COMPLETE_AGAIN: Choice = Choice {
    program: "rt_rq_complete_2",
    required: false,
    gives: "requests that complete in an interrupt of another's completion",
    ..COMPLETE
};
const BIO_COMPLETE_AGAIN: Choice = Choice {
    program: "rt_bio_complete_2",
    gives: "IO of arrays that are members of others which completes in the middle of another's completion",
    ..BIO_COMPLETE
};
const REFUSED: Choice = Choice {
    program: "rt_bio_refused",
    required: false,
    gives: "difference between bios and those that md refuses (REQ_NOWAIT), which are submitted again",
    attached: true,
};
const QUOTA: Choice = Choice {
    program: "rt_quota_blocks",
    required: false,
    gives: "blocks by which quota files grow",
    attached: true,
};
const FREE: Choice = Choice {
    program: "rt_free_blocks",
    required: false,
    gives: "directory, extent_tree and xattr blocks that were freed",
    attached: true,
};

const BIO_COMPLETE: Choice = Choice {
    program: "rt_bio_complete",
    required: false,
    gives: "IO of arrays that are members of others, and directory, extent_tree and xattr blocks that are read through dm-crypt or rebuilt",
    attached: true,
};

/// Decides. `Err` is one line: what is missing, why, and what to do.
pub fn plan(facts: &Facts, need: Need) -> Result<Plan, String> {
    if !facts.btf {
        return Err(
            "this kernel does not describe its types (no /sys/kernel/btf/vmlinux): raidtrace needs \
             a kernel built with CONFIG_DEBUG_INFO_BTF=y, as Debian's are from Debian 11 on"
                .to_owned(),
        );
    }
    let mut plan = Plan::default();
    for (name, found, expected) in [
        ("block_rq_issue", facts.rq_issue, 1..=2),
        ("block_rq_complete", facts.rq_complete, 3..=3),
    ] {
        match found {
            Some(n) if expected.contains(&n) => {}
            Some(n) => {
                return Err(format!(
                    "this kernel's tracepoint {name} has {n} arguments where raidtrace knows \
                     {}: please report the kernel ({})",
                    expected.end(),
                    rustix::system::uname().release().to_string_lossy()
                ));
            }
            None => {
                return Err(format!(
                    "this kernel has no tracepoint {name}: raidtrace needs CONFIG_TRACEPOINTS and \
                     CONFIG_BLOCK"
                ));
            }
        }
    }
    let issue = if facts.rq_issue == Some(2) {
        ISSUE_Q
    } else {
        ISSUE
    };
    plan.programs.extend([issue, COMPLETE]);
    match facts.bio_queue {
        Some(1) => {
            plan.programs.push(QUEUE);
            plan.programs.extend(need.judged.then_some(JUDGE));
        }
        Some(2) => {
            plan.programs.push(QUEUE_Q);
            plan.programs.extend(need.judged.then_some(JUDGE_Q));
        }
        other => plan.notes.push(format!(
            "no {}: the tracepoint block_bio_queue has {} here",
            QUEUE.gives,
            match other {
                Some(n) => format!("{n} arguments"),
                None => "no type".to_owned(),
            }
        )),
    }
    if matches!(facts.dio_end_io, 0 | u64::MAX) && facts.bio_queue.is_some() {
        plan.notes.push(
            "the files of direct IO are not told: the address of iomap_dio_bio_end_io is hidden \
             (kernel.kptr_restrict) or not there"
                .to_owned(),
        );
    }
    if facts.free_blocks == Some(4) || facts.ext4_module_btf {
        plan.programs.push(FREE);
    } else {
        plan.notes.push(
            "blocks that ext4 frees are not seen here (no types for its tracepoints): a file that \
             reuses a directory's block may show as directory"
                .to_owned(),
        );
    }
    // A RAID 4/5/6 needs it as soon as a member fails.
    if need.bio_based || need.stripes {
        match facts.bio_complete {
            Some(2) => plan.programs.push(Choice {
                attached: need.bio_based,
                ..BIO_COMPLETE
            }),
            _ if !need.bio_based => {}
            _ => plan.notes.push(format!(
                "no {}: the tracepoint block_bio_complete is not as raidtrace knows it",
                BIO_COMPLETE.gives
            )),
        }
    }
    if need.mirrors && facts.bio_complete == Some(2) {
        plan.programs.push(REFUSED);
    }
    if need.quota && (facts.free_blocks == Some(4) || facts.ext4_module_btf) {
        plan.programs.push(QUOTA);
    }
    if facts.guarded || facts.preemptible {
        plan.programs.push(COMPLETE_AGAIN);
        let first = |c: &&Choice| c.program == BIO_COMPLETE.program;
        if let Some(first) = plan.programs.iter().find(first) {
            let attached = first.attached;
            plan.programs.push(Choice {
                attached,
                ..BIO_COMPLETE_AGAIN
            });
        }
    }
    if facts.preemptible {
        // Behind their first ones, which is the order in which the kernel calls them.
        plan.programs.push(ISSUE_AGAIN);
        if facts.bio_queue == Some(1) {
            plan.programs.push(QUEUE_AGAIN);
            plan.programs.extend(need.judged.then_some(JUDGE_AGAIN));
        }
    }
    let hidden = "the kernel hides the addresses of its functions even from root (kernel.kptr_restrict is 2): \
                  sysctl kernel.kptr_restrict=1";
    if need.stripes && !facts.md.knows_stripes() {
        plan.notes.push(format!(
            "RAID 4/5/6: why md reads is not known: reads of its stripe cache are rmw_read while the array is whole \
             and idle, and unknown otherwise ({})",
            if facts.md.hidden {
                hidden
            } else {
                "this kernel does not describe the types of its modules (no /sys/kernel/btf/raid456)"
            }
        ));
    }
    if need.mirrors && !facts.md.knows_sync() && facts.md.hidden {
        plan.notes.push(format!(
            "RAID 1/10: a resync cannot be told from what users do ({hidden})"
        ));
    }
    Ok(plan)
}

impl Plan {
    /// Drops an optional program that this kernel refused; `false` when it is required or not in.
    pub fn without(&mut self, program: &str, why: &str) -> bool {
        let Some(at) = self
            .programs
            .iter()
            .position(|c| c.program == program && !c.required)
        else {
            return false;
        };
        let gone = self.programs.remove(at);
        self.notes.push(format!(
            "no {}: this kernel refused {program} ({why})",
            gone.gives
        ));
        true
    }

    /// The last optional program, the first to try without.
    pub fn last_optional(&self) -> Option<&'static str> {
        self.programs
            .iter()
            .rev()
            .find(|c| !c.required)
            .map(|c| c.program)
    }
}

#[cfg(test)]
mod tests {
    use super::super::md::Md;
    use super::{Facts, Need, plan};

    const MODERN: Facts = Facts {
        btf: true,
        rq_issue: Some(1),
        rq_complete: Some(3),
        bio_queue: Some(1),
        free_blocks: Some(4),
        ext4_module_btf: false,
        bio_complete: Some(2),
        md: Md {
            raid5_end_read: 1,
            raid5_end_write: 1,
            raid10_end_read: 1,
            raid10_end_write: 1,
            crypt_end: 1,
            sync_ends: [1; 6],
            stripe_syncing: 8,
            stripe_expanding: 16,
            stripe_expand_source: 32,
            hidden: false,
        },
        vmemmap_base: 0,
        page_offset_base: 0,
        dio_end_io: 1,
        ext4_end_io: 1,
        dm_end_io: 0,
        wait_end_io: 1,
        preemptible: false,
        guarded: true,
    };
    const PLAIN: Need = Need {
        stripes: false,
        judged: false,
        mirrors: false,
        bio_based: false,
        quota: false,
    };

    fn names(facts: &Facts) -> Vec<&'static str> {
        plan(facts, PLAIN)
            .unwrap()
            .programs
            .iter()
            .map(|c| c.program)
            .collect()
    }

    #[test]
    fn a_modern_kernel_gets_everything_and_no_notes() {
        assert_eq!(
            names(&MODERN),
            [
                "rt_rq_issue",
                "rt_rq_complete",
                "rt_bio_queue",
                "rt_free_blocks",
                "rt_rq_complete_2"
            ]
        );
        assert!(plan(&MODERN, PLAIN).unwrap().notes.is_empty());
    }

    #[test]
    fn stripes_ask_for_a_program_more() {
        let need = Need {
            stripes: true,
            judged: true,
            ..PLAIN
        };
        let plan = plan(&MODERN, need).unwrap();
        assert!(plan.programs.iter().any(|c| c.program == "rt_bio_judge"));
        assert!(plan.notes.is_empty(), "{:?}", plan.notes);
    }

    #[test]
    fn twins_come_behind_their_first_ones() {
        let facts = Facts {
            preemptible: true,
            ..MODERN
        };
        let names = names(&facts);
        for first in ["rt_rq_issue", "rt_bio_queue"] {
            let at = |name: &str| names.iter().position(|n| *n == name);
            assert!(at(&format!("{first}_2")) > at(first), "{names:?}");
        }
        assert!(!names.contains(&"rt_bio_judge_2"));
    }

    #[test]
    fn what_a_degraded_array_needs_is_at_hand() {
        let of = |need| {
            let plan = plan(&MODERN, need).unwrap();
            let mut found = plan.programs.into_iter();
            found
                .find(|c| c.program == "rt_bio_complete")
                .map(|c| c.attached)
        };
        let whole = Need {
            stripes: true,
            ..PLAIN
        };
        let degraded = Need {
            bio_based: true,
            ..whole
        };
        assert_eq!(
            [PLAIN, whole, degraded].map(of),
            [None, Some(false), Some(true)]
        );
        let old = Facts {
            bio_complete: None,
            ..MODERN
        };
        assert!(plan(&old, whole).unwrap().notes.is_empty());
        assert!(!plan(&old, degraded).unwrap().notes.is_empty());
    }

    #[test]
    fn two_arguments_mean_the_old_variant() {
        let facts = Facts {
            bio_queue: Some(2),
            rq_issue: Some(2),
            ..MODERN
        };
        let names = names(&facts);
        assert!(names.contains(&"rt_bio_queue_q") && names.contains(&"rt_rq_issue_q"));
        assert!(!names.contains(&"rt_rq_issue"));
    }

    #[test]
    fn what_is_missing_costs_one_feature_and_a_note() {
        let facts = Facts {
            bio_queue: None,
            free_blocks: None,
            ..MODERN
        };
        let plan = plan(&facts, PLAIN).unwrap();
        assert_eq!(plan.programs.len(), 3);
        assert_eq!(plan.notes.len(), 2);
    }

    #[test]
    fn without_btf_or_requests_it_says_what_to_do() {
        assert!(
            plan(&Facts::default(), PLAIN)
                .unwrap_err()
                .contains("CONFIG_DEBUG_INFO_BTF")
        );
        let strange = Facts {
            rq_issue: Some(3),
            ..MODERN
        };
        assert!(
            plan(&strange, PLAIN)
                .unwrap_err()
                .contains("has 3 arguments")
        );
    }

    #[test]
    fn only_optional_programs_can_be_dropped() {
        let mut p = plan(&MODERN, PLAIN).unwrap();
        assert!(!p.without("rt_rq_issue", "EPERM"));
        assert_eq!(p.last_optional(), Some("rt_rq_complete_2"));
        assert!(p.without("rt_free_blocks", "EPERM"));
        assert!(!p.without("rt_free_blocks", "EPERM"));
        assert_eq!(p.notes.len(), 1);
    }
}
