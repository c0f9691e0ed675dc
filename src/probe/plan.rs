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

/// What is counted of that which tasks dirty and others write later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dirtied {
    /// Nothing.
    #[default]
    No,
    /// Metadata without its origins, and file data: 1 % of the time to create a file (`tools/bench dirtied`).
    Counted,
    /// Metadata by origin, where functions can be hooked: `jbd2_journal_dirty_metadata()` is called some ten times for a file
    /// that is created.
    ByOrigin,
}

/// What the arrays at hand ask for beyond requests on disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// One is a RAID 4, 5 or 6.
    pub stripes: bool,
    /// Some member's bios have to be looked at as md submits them.
    pub md_submits: bool,
    /// One is a RAID 1 or 10.
    pub mirrors: bool,
    /// One is a member of another, or below dm-crypt.
    pub bio_based: bool,
    /// A filesystem of ext4's is known.
    pub ext4: bool,
    /// What is asked for of that which tasks dirty.
    pub dirtied: Dirtied,
    /// A filesystem has quota files of its own.
    pub quota: bool,
    /// Waits for room in the journals of filesystems are counted.
    pub journals: bool,
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
const MD_SUBMIT: Choice = Choice {
    program: "rt_md_submit",
    required: false,
    gives: "reason why RAID 4/5/6 reads and writes (rmw_read, resync)",
    attached: true,
};
const MD_SUBMIT_Q: Choice = Choice {
    program: "rt_md_submit_q",
    ..MD_SUBMIT
};
/// Shadow programs: see `bpf/shadow.bpf.h`.
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
const MD_SUBMIT_SHADOW: Choice = Choice {
    program: "rt_md_submit_2",
    required: false,
    gives: "reason of RAID 4/5/6 IO that is submitted while another task was switched away in rt_md_submit",
    ..MD_SUBMIT
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
const DIRTY_HANDLE: Choice = Choice {
    program: "rt_dirty_handle",
    required: false,
    gives: "metadata blocks that tasks dirty",
    attached: true,
};
const DIRTY_BLOCK: Choice = Choice {
    program: "rt_dirty_block",
    required: false,
    gives: "origins of the metadata blocks that tasks dirty",
    attached: true,
};
const DIRTY_FOLIO: Choice = Choice {
    program: "rt_dirty_folio",
    required: false,
    gives: "file data that tasks dirty",
    attached: true,
};
const DIRTY_PAGE: Choice = Choice {
    program: "rt_dirty_page",
    ..DIRTY_FOLIO
};
const CHECKPOINT: Choice = Choice {
    program: "rt_checkpoint",
    required: false,
    gives: "waits for room in a journal",
    attached: true,
};
const CHECKPOINT_DONE: Choice = Choice {
    program: "rt_checkpoint_done",
    ..CHECKPOINT
};
const LOG_TAIL: Choice = Choice {
    program: "rt_log_tail",
    gives: "flush and superblock write at the end of waits for room in a journal",
    ..CHECKPOINT
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
            plan.programs.extend(need.md_submits.then_some(MD_SUBMIT));
        }
        Some(2) => {
            plan.programs.push(QUEUE_Q);
            plan.programs.extend(need.md_submits.then_some(MD_SUBMIT_Q));
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
    if need.ext4 && need.dirtied != Dirtied::No {
        plan.dirtied(facts, need.dirtied == Dirtied::ByOrigin);
    }
    if need.ext4 && need.journals {
        plan.journals(facts);
    }
    if facts.guarded || facts.preemptible {
        plan.programs.push(Choice {
            // Else when the kernel has first skipped the other one: Probe::attach_needed_shadow.
            attached: facts.several_queues || facts.preemptible,
            ..COMPLETE_AGAIN
        });
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
            plan.programs
                .extend(need.md_submits.then_some(MD_SUBMIT_SHADOW));
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
    /// Blocks one by one for their origins, where their function can be hooked, else all of a handle at once.
    fn dirtied(&mut self, facts: &Facts, by_origin: bool) {
        let typed = facts.handle_stats == Some(8) || facts.jbd2_module_btf;
        if typed && by_origin && facts.ftrace {
            self.programs.push(DIRTY_BLOCK);
        } else if typed {
            self.programs.push(DIRTY_HANDLE);
            if by_origin {
                self.notes.push(format!(
                    "no {}: this kernel does not permit to hook functions",
                    DIRTY_BLOCK.gives
                ));
            }
        } else {
            self.notes.push(format!(
                "no {}: this kernel does not describe the types of its module jbd2",
                DIRTY_HANDLE.gives
            ));
        }
        if facts.dirty_folio == Some(2) {
            self.programs.push(DIRTY_FOLIO);
        } else if facts.dirty_page == Some(2) {
            self.programs.push(DIRTY_PAGE);
        } else {
            self.notes
                .push(format!("no {}: no such tracepoint", DIRTY_FOLIO.gives));
        }
    }

    /// Checkpoints that tasks wait for.
    fn journals(&mut self, facts: &Facts) {
        let typed = (facts.checkpoint, facts.checkpoint_stats) == (Some(2), Some(3));
        if !typed && !facts.jbd2_module_btf {
            self.notes.push(format!(
                "no {}: this kernel does not describe jbd2's tracepoints",
                CHECKPOINT.gives
            ));
            return;
        }
        self.programs.extend([CHECKPOINT, CHECKPOINT_DONE]);
        if facts.log_tail == Some(4) || facts.jbd2_module_btf {
            self.programs.push(LOG_TAIL);
        }
    }

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
mod tests;
