//! Whether raidtrace can run here, and what this kernel cannot give: asked of the kernel, and, by root, by loading the
//! programs.

use super::rules::plural;
use crate::machine::Sys;
use crate::machine::topology::Topology;
use crate::probe::{Facts, Need, Plan, Probe, plan, tables::Tables};

/// Modules that raidtrace asks for their types.
const MODULES: [&str; 5] = ["raid456", "raid1", "raid10", "dm_crypt", "ext4"];
/// Needed to load and attach programs that read the kernel's memory, by number (include/uapi/linux/capability.h).
const CAPABILITIES: [(u32, &str); 3] = [
    (2, "CAP_DAC_READ_SEARCH"),
    (38, "CAP_PERFMON"),
    (39, "CAP_BPF"),
];
/// Stands for [`CAPABILITIES`] 38 and 39, and is what kernels before 5.8 ask for.
const SYS_ADMIN: u32 = 21;

/// What the kernel answered.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// `uname -r`.
    pub release: String,
    /// Effective user is root.
    pub root: bool,
    /// CapEff of /proc/self/status; `None` where that cannot be read.
    pub capabilities: Option<u64>,
    /// What /sys/kernel/security/lockdown has in brackets; `None` without it.
    pub lockdown: Option<String>,
    /// kernel.kptr_restrict.
    pub kptr_restrict: Option<u32>,
    /// Tracepoints, types, addresses.
    pub facts: Facts,
    /// Modules that are loaded, and whether their types are known.
    pub modules: Vec<(&'static str, bool)>,
    /// Programs that were loaded, or why they were not; `None`: not tried.
    pub loaded: Option<Result<Vec<&'static str>, String>>,
}

/// Whether something works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Works {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// Nobody could say.
    NotChecked,
}

impl Works {
    /// For people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::No => "no",
            Self::NotChecked => "?",
        }
    }

    /// For JSON.
    pub const fn value(self) -> Option<bool> {
        match self {
            Self::Yes => Some(true),
            Self::No => Some(false),
            Self::NotChecked => None,
        }
    }

    const fn of(yes: bool) -> Self {
        if yes { Self::Yes } else { Self::No }
    }
}

/// One line: what it gives, whether it does here, and how that is known.
pub type Line = (&'static str, Works, String);

/// The answer.
#[derive(Clone, Debug)]
pub struct Ability {
    /// `uname -r`.
    pub release: String,
    /// Whether `raidtrace top` can run.
    pub can: Works,
    /// One line: why it cannot, or why nobody knows, or how it is known.
    pub why: String,
    /// What it needs.
    pub needs: Vec<Line>,
    /// What it can show.
    pub gives: Vec<Line>,
    /// What the arrays at hand will not show, one line each, as `top` says it at its start.
    pub notes: Vec<String>,
}

/// Asks; and says what the arrays of `topology` will not show. `loads`: root has the programs loaded for them, and removed at
/// once, which takes a second or more.
pub fn ask(sys: &Sys, topology: Option<&Topology>, loads: bool) -> (Asked, Vec<String>) {
    let status = sys.text("/proc/self/status").unwrap_or_default();
    let capabilities = status
        .lines()
        .find_map(|l| u64::from_str_radix(l.strip_prefix("CapEff:")?.trim(), 16).ok());
    let lockdown = sys
        .text("/sys/kernel/security/lockdown")
        .and_then(|t| Some(t.split_once('[')?.1.split_once(']')?.0.to_owned()));
    let facts = Facts::gather();
    let modules = MODULES
        .into_iter()
        .filter(|m| sys.path(format!("/sys/module/{m}")).is_dir())
        .map(|m| (m, sys.path(format!("/sys/kernel/btf/{m}")).exists()))
        .collect();
    let mut asked = Asked {
        release: sys.text("/proc/sys/kernel/osrelease").unwrap_or_default(),
        root: rustix::process::geteuid().is_root(),
        capabilities,
        lockdown,
        kptr_restrict: sys.number("/proc/sys/kernel/kptr_restrict"),
        facts,
        modules,
        loaded: None,
    };
    let mut notes = Vec::new();
    if let Some(topology) = topology.filter(|_| asked.root) {
        let tables = Tables::new(topology);
        if loads {
            let tables = tables.and_then(|t| load(&asked.facts, t, &mut notes));
            asked.loaded = Some(tables);
        } else if let Ok(tables) = tables {
            notes.extend(plan(&asked.facts, tables.need).map_or_else(|_| Vec::new(), |p| p.notes));
            notes.extend(tables.notes);
        }
    }
    (asked, notes)
}

fn load(
    facts: &Facts,
    tables: Tables,
    notes: &mut Vec<String>,
) -> Result<Vec<&'static str>, String> {
    let mut plan = plan(facts, tables.need)?;
    let result = Probe::start(&mut plan, facts, &tables, false, None);
    notes.extend(tables.notes);
    notes.append(&mut plan.notes);
    match result {
        Ok(_) => Ok(plan.programs.iter().map(|c| c.program).collect()),
        Err(why) => Err(format!("{why:#}")),
    }
}

/// Judges the answers. Pure.
pub fn judge(asked: &Asked, notes: Vec<String>) -> Ability {
    let facts = &asked.facts;
    let plan: Result<Plan, String> = plan(facts, Need::default());
    let confidential = asked.lockdown.as_deref() == Some("confidentiality");
    let (can, why) = match (&asked.loaded, &plan) {
        (_, Err(why)) => (Works::No, why.clone()),
        (Some(Err(why)), _) => (Works::No, why.clone()),
        (Some(Ok(programs)), _) => (
            Works::Yes,
            format!(
                "{} programs were loaded, attached and removed",
                programs.len()
            ),
        ),
        (None, Ok(_)) if confidential => (
            Works::No,
            "the kernel is locked down to confidentiality, which forbids to read its memory"
                .to_owned(),
        ),
        (None, Ok(_)) if !asked.root => (
            Works::NotChecked,
            "only root can load programs: sudo raidtrace doctor".to_owned(),
        ),
        (None, Ok(_)) => (
            Works::NotChecked,
            "it has what raidtrace asks for; doctor --kernel loads the programs to be sure"
                .to_owned(),
        ),
    };
    Ability {
        release: asked.release.clone(),
        can,
        why,
        needs: needs(asked),
        gives: gives(asked),
        notes,
    }
}

fn needs(asked: &Asked) -> Vec<Line> {
    let facts = &asked.facts;
    let has = |bit: u32| asked.capabilities.is_some_and(|c| c >> bit & 1 == 1);
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| !has(*bit) && (*bit < 38 || !has(SYS_ADMIN)))
        .map(|(_, name)| *name)
        .collect();
    let capabilities = match (asked.capabilities, missing.as_slice()) {
        (None, _) => (
            Works::NotChecked,
            "/proc/self/status does not say".to_owned(),
        ),
        (_, []) => (Works::Yes, "all that it takes".to_owned()),
        (_, missing) => (Works::No, format!("not effective: {}", missing.join(", "))),
    };
    let lockdown = match asked.lockdown.as_deref() {
        None => (Works::Yes, "this kernel has none".to_owned()),
        Some("confidentiality") => (
            Works::No,
            "confidentiality: programs may not read the kernel's memory".to_owned(),
        ),
        Some(mode) => (Works::Yes, format!("{mode}, which does not matter here")),
    };
    let addresses = match asked.kptr_restrict {
        Some(n) if n >= 2 => (
            Works::No,
            format!("kernel.kptr_restrict is {n}: sysctl kernel.kptr_restrict=1"),
        ),
        Some(n) => (Works::Yes, format!("kernel.kptr_restrict is {n}")),
        None => (
            Works::NotChecked,
            "kernel.kptr_restrict cannot be read".to_owned(),
        ),
    };
    let tracepoint = |found: Option<usize>, expected: &[usize], name: &str, shape: &str| {
        let fits = found.is_some_and(|n| expected.contains(&n));
        let has = arguments(found, name);
        (
            Works::of(fits),
            if fits {
                has
            } else {
                format!("{has}; raidtrace knows {shape}")
            },
        )
    };
    let issue = tracepoint(
        facts.rq_issue,
        &[1, 2],
        "block_rq_issue",
        "(rq) and (q, rq)",
    );
    let complete = tracepoint(
        facts.rq_complete,
        &[3],
        "block_rq_complete",
        "(rq, error, nr_bytes)",
    );
    vec![
        (
            "types of the kernel (BTF)",
            Works::of(facts.btf),
            if facts.btf {
                "/sys/kernel/btf/vmlinux".to_owned()
            } else {
                "no /sys/kernel/btf/vmlinux: a kernel with CONFIG_DEBUG_INFO_BTF=y".to_owned()
            },
        ),
        ("requests issued", issue.0, issue.1),
        ("requests completed", complete.0, complete.1),
        ("capabilities", capabilities.0, capabilities.1),
        ("no lockdown", lockdown.0, lockdown.1),
        ("addresses of functions", addresses.0, addresses.1),
    ]
}

fn arguments(found: Option<usize>, tracepoint: &str) -> String {
    match found {
        Some(n) => format!("{tracepoint} has {}", plural(n, "argument")),
        None => format!("no type of {tracepoint}"),
    }
}

/// By what the kernel says of itself; addresses are hidden from all but root.
fn gives(asked: &Asked) -> Vec<Line> {
    let f = &asked.facts;
    let loaded = |module: &str| asked.modules.iter().find(|(m, _)| *m == module);
    let address = |known: bool, of: &str| {
        if known {
            (Works::Yes, format!("{of} is known"))
        } else if asked.root {
            (
                Works::No,
                format!("the address of {of} is hidden, or it is not there"),
            )
        } else {
            (
                Works::NotChecked,
                "addresses are hidden from all but root".to_owned(),
            )
        }
    };
    let known = |a: u64| !matches!(a, 0 | u64::MAX);
    let stripes = match loaded("raid456") {
        None => (
            Works::NotChecked,
            "raid456 is not loaded: no such array runs".to_owned(),
        ),
        // Built in, its types are the kernel's own.
        Some((_, false)) if f.md.stripe_syncing == 0 => (
            Works::No,
            "no types of raid456: this kernel does not describe its modules".to_owned(),
        ),
        Some(_) => address(f.md.knows_stripes(), "raid5_end_read_request"),
    };
    let sync = match (loaded("raid1"), loaded("raid10")) {
        (None, None) => (
            Works::NotChecked,
            "raid1 and raid10 are not loaded: no such array runs".to_owned(),
        ),
        _ => address(f.md.knows_sync(), "end_sync_read"),
    };
    let direct = address(known(f.dio_end_io), "iomap_dio_bio_end_io");
    let requests = matches!(f.rq_issue, Some(1 | 2)) && f.rq_complete == Some(3);
    let freed = f.free_blocks == Some(4) || f.ext4_module_btf;
    vec![
        (
            "requests, bytes, times",
            Works::of(requests),
            format!(
                "{}, {}",
                arguments(f.rq_issue, "block_rq_issue"),
                arguments(f.rq_complete, "block_rq_complete")
            ),
        ),
        (
            "processes, directories",
            Works::of(matches!(f.bio_queue, Some(1 | 2))),
            arguments(f.bio_queue, "block_bio_queue"),
        ),
        (
            "blocks that ext4 frees",
            Works::of(freed),
            arguments(f.free_blocks, "ext4_free_blocks"),
        ),
        (
            "arrays in arrays",
            Works::of(f.bio_complete == Some(2)),
            arguments(f.bio_complete, "block_bio_complete"),
        ),
        (
            "waits for a journal",
            Works::of(f.checkpoint_stats == Some(3) || f.jbd2_module_btf),
            arguments(f.checkpoint_stats, "jbd2_checkpoint_stats"),
        ),
        ("why RAID 4/5/6 reads", stripes.0, stripes.1),
        ("resync of RAID 1/10", sync.0, sync.1),
        ("files of direct IO", direct.0, direct.1),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Asked, Works, judge};
    use crate::probe::Facts;

    fn modern() -> Asked {
        Asked {
            release: "6.12".to_owned(),
            root: true,
            capabilities: Some(u64::MAX),
            kptr_restrict: Some(0),
            facts: Facts {
                btf: true,
                rq_issue: Some(1),
                rq_complete: Some(3),
                bio_queue: Some(1),
                bio_complete: Some(2),
                free_blocks: Some(4),
                checkpoint_stats: Some(3),
                dio_end_io: 1,
                ..Facts::default()
            },
            loaded: Some(Ok(vec!["rt_rq_issue"])),
            ..Asked::default()
        }
    }

    #[test]
    fn all_is_well() {
        let able = judge(&modern(), Vec::new());
        assert_eq!(able.can, Works::Yes);
        assert!(able.needs.iter().all(|l| l.1 == Works::Yes));
        assert!(able.gives.iter().all(|l| l.1 != Works::No));
    }

    #[test]
    fn each_thing_that_is_missing_is_named() {
        let no = |asked: &Asked| {
            let able = judge(asked, Vec::new());
            let lines = able.needs.iter().chain(&able.gives);
            lines
                .filter(|l| l.1 == Works::No)
                .map(|l| format!("{}: {}", l.0, l.2))
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(no(&modern()), "");
        let mut asked = modern();
        asked.capabilities = Some(!(1 << 21 | 1 << 38));
        assert!(no(&asked).contains("CAP_PERFMON"), "{}", no(&asked));
        asked.capabilities = Some(!(1 << 38));
        assert_eq!(no(&asked), "", "CAP_SYS_ADMIN does for it");
        asked.kptr_restrict = Some(2);
        assert!(no(&asked).contains("kptr_restrict=1"));
        asked.modules = vec![("raid456", false)];
        assert!(no(&asked).contains("no types of raid456"));
        asked.facts.bio_queue = None;
        assert!(no(&asked).contains("block_bio_queue"));
    }

    #[test]
    fn why_it_cannot() {
        let mut asked = modern();
        asked.loaded = Some(Err("the kernel refused".to_owned()));
        assert_eq!(judge(&asked, Vec::new()).can, Works::No);
        asked.loaded = None;
        asked.lockdown = Some("confidentiality".to_owned());
        assert_eq!(judge(&asked, Vec::new()).can, Works::No);
        asked.lockdown = Some("integrity".to_owned());
        asked.root = false;
        let able = judge(&asked, Vec::new());
        assert_eq!(able.can, Works::NotChecked);
        assert!(able.why.contains("sudo"));
        // A kernel of a vendor's, with other arguments: the requirement that fails has a line of its own.
        asked.facts.rq_complete = Some(2);
        let able = judge(&asked, Vec::new());
        assert_eq!(able.can, Works::No);
        let failed: Vec<_> = able.needs.iter().filter(|n| n.1 == Works::No).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].2.contains("block_rq_complete has 2 arguments"));
        asked.facts.btf = false;
        assert!(
            judge(&asked, Vec::new())
                .why
                .contains("CONFIG_DEBUG_INFO_BTF")
        );
    }
}
