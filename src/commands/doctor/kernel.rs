//! Requirements and features of raidtrace on this kernel: probed, and as root verified by loading
//! the programs.

use serde::Serialize;

use super::rules::plural;
use crate::machine::topology::Topology;
use crate::machine::{Sys, crowded, task};
use crate::probe::{KernelFacts, Need, Plan, Probe, plan, tables::Tables};

/// Modules whose types raidtrace uses.
const MODULES: [&str; 5] = ["raid456", "raid1", "raid10", "dm_crypt", "ext4"];
/// Capabilities needed without root: to read superblocks and tracefs, and to load and attach
/// programs that read kernel memory (include/uapi/linux/capability.h).
const CAPABILITIES: [(u32, &str); 3] =
    [(2, "CAP_DAC_READ_SEARCH"), (38, "CAP_PERFMON"), (39, "CAP_BPF")];
/// Includes [`CAPABILITIES`] 38 and 39, which kernels before 5.8 do not have.
const SYS_ADMIN: u32 = 21;

/// Properties of the kernel and of this process.
#[derive(Clone, Debug, Default)]
pub struct Properties {
    /// `uname -r`.
    pub release: String,
    /// True if the effective user is root.
    pub root: bool,
    /// CapEff of /proc/self/status; `None` if it cannot be read.
    pub capabilities: Option<u64>,
    /// Active mode in /sys/kernel/security/lockdown, which is in brackets; `None` without that
    /// file.
    pub lockdown: Option<String>,
    pub kptr_restrict: Option<u32>,
    /// Tracepoints, types, addresses.
    pub facts: KernelFacts,
    /// Loaded modules of [`MODULES`], and whether their types are available.
    pub modules: Vec<(&'static str, bool)>,
    /// Names of the programs that were loaded, or the error; `None` if it was not tried.
    pub loaded: Option<Result<Vec<&'static str>, String>>,
}

#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct KernelAbility {
    pub name: &'static str,
    /// `None` if it was not checked.
    pub available: Option<bool>,
    /// The fact that `available` was derived from.
    pub evidence: String,
}

/// Requirements and features of raidtrace on this kernel.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Ability {
    /// `uname -r`.
    pub release: String,
    /// True if `raidtrace top` can run; `None` if it was not tried.
    pub can_run: Option<bool>,
    /// Reason for `can_run`, one line.
    pub why: String,
    /// Requirements of `raidtrace top`.
    pub requirements: Vec<KernelAbility>,
    /// Features that depend on the kernel.
    pub features: Vec<KernelAbility>,
    /// Limits on these arrays, one line each, as `top` reports them at startup.
    pub notes: Vec<String>,
}

/// Probes the kernel, and collects notes on the arrays of `topology`. `load` (root only): loads the
/// programs for them and removes them at once, which takes a second or more.
pub fn probe(sys: &Sys, topology: Option<&Topology>, load: bool) -> (Properties, Vec<String>) {
    let modules = MODULES
        .into_iter()
        .filter(|m| sys.path(format!("/sys/module/{m}")).is_dir())
        .map(|m| (m, sys.path(format!("/sys/kernel/btf/{m}")).exists()))
        .collect();
    let mut properties = Properties {
        release: sys.kernel_release(),
        root: rustix::process::geteuid().is_root(),
        capabilities: task::own_mask(sys, "CapEff"),
        lockdown: sys.selected("/sys/kernel/security/lockdown"),
        kptr_restrict: sys.number("/proc/sys/kernel/kptr_restrict"),
        facts: KernelFacts::gather(),
        modules,
        loaded: None,
    };
    let facts = &properties.facts;
    let mut notes = Vec::new();
    if let Some(topology) = topology.filter(|_| properties.root) {
        let host = crowded::leave_out(sys, &[], topology.host.clone());
        let tables = Tables::new(&Topology { host, ..topology.clone() });
        if load {
            let loaded = tables.and_then(|t| load_programs(facts, t, &mut notes));
            properties.loaded = Some(loaded);
        } else if let Ok(tables) = tables {
            notes.extend(plan(facts, tables.need).map_or_else(|_| Vec::new(), |p| p.notes));
            notes.extend(tables.notes);
        }
    }
    (properties, notes)
}

fn load_programs(
    facts: &KernelFacts,
    tables: Tables,
    notes: &mut Vec<String>,
) -> Result<Vec<&'static str>, String> {
    let mut plan = plan(facts, tables.need)?;
    let result = Probe::start(&mut plan, facts, &tables, false, None, None);
    notes.extend(tables.notes);
    notes.append(&mut plan.notes);
    match result {
        Ok(_) => Ok(plan.programs.iter().map(|c| c.program).collect()),
        Err(why) => Err(format!("{why:#}")),
    }
}

impl Ability {
    /// Derives requirements and features from the properties of the kernel. Pure.
    pub fn new(properties: &Properties, notes: Vec<String>) -> Self {
        let plan: Result<Plan, String> = plan(&properties.facts, Need::default());
        let confidential = properties.lockdown.as_deref() == Some("confidentiality");
        let (can_run, why) = match (&properties.loaded, plan) {
            (_, Err(why)) => (Some(false), why),
            (Some(Err(why)), _) => (Some(false), why.clone()),
            (Some(Ok(programs)), _) => {
                let n = programs.len();
                (Some(true), format!("{n} programs were loaded, attached and removed"))
            }
            (None, Ok(_)) if confidential => (
                Some(false),
                "kernel lockdown is in confidentiality mode, which forbids reading kernel memory"
                    .to_owned(),
            ),
            (None, Ok(_)) if !properties.root => {
                (None, "only root can load programs: sudo raidtrace doctor".to_owned())
            }
            (None, Ok(_)) => (
                None,
                "the programs should load; doctor --kernel loads them to verify it".to_owned(),
            ),
        };
        Self {
            release: properties.release.clone(),
            can_run,
            why,
            requirements: requirements(properties),
            features: features(properties),
            notes,
        }
    }
}

fn line(
    name: &'static str,
    available: impl Into<Option<bool>>,
    evidence: impl Into<String>,
) -> KernelAbility {
    KernelAbility { name, available: available.into(), evidence: evidence.into() }
}

fn requirements(properties: &Properties) -> Vec<KernelAbility> {
    let facts = &properties.facts;
    let tracepoint = |name, found: Option<usize>, expected: &[usize], tracepoint, known| {
        let fits = found.is_some_and(|n| expected.contains(&n));
        let has = arguments(found, tracepoint);
        let expected = if fits { String::new() } else { format!("; raidtrace supports {known}") };
        line(name, fits, has + &expected)
    };
    let btf = "/sys/kernel/btf/vmlinux";
    let (unlocked, lockdown) = match properties.lockdown.as_deref() {
        None => (true, "not supported by this kernel".to_owned()),
        Some(mode @ "confidentiality") => {
            (false, format!("{mode}: programs may not read kernel memory"))
        }
        Some(mode) => (true, format!("{mode}, which allows raidtrace")),
    };
    let kptr = "kernel.kptr_restrict";
    let (visible, addresses) = match properties.kptr_restrict {
        Some(n @ 2..) => (Some(false), format!("{kptr} is {n}: sysctl {kptr}=1")),
        Some(n) => (Some(true), format!("{kptr} is {n}")),
        None => (None, format!("{kptr} cannot be read")),
    };
    vec![
        line(
            "types of the kernel (BTF)",
            facts.btf,
            if facts.btf {
                btf.to_owned()
            } else if std::path::Path::new("/sys/kernel").exists() {
                format!("no {btf}: needs a kernel with CONFIG_DEBUG_INFO_BTF=y")
            } else {
                format!("no {btf}: sysfs is not mounted: mount -t sysfs sysfs /sys")
            },
        ),
        tracepoint(
            "requests issued",
            facts.rq_issue,
            &[1, 2],
            "block_rq_issue",
            "(rq) and (q, rq)",
        ),
        tracepoint(
            "requests completed",
            facts.rq_complete,
            &[3],
            "block_rq_complete",
            "(rq, error, nr_bytes)",
        ),
        capabilities(properties),
        line("no lockdown", unlocked, lockdown),
        line("addresses of functions", visible, addresses),
    ]
}

fn capabilities(properties: &Properties) -> KernelAbility {
    let Some(effective) = properties.capabilities else {
        return line("capabilities", None, "no CapEff in /proc/self/status");
    };
    let has = |bit: u32| effective >> bit & 1 == 1;
    let missing: Vec<&str> = CAPABILITIES
        .iter()
        .filter(|(bit, _)| !has(*bit) && (*bit < 38 || !has(SYS_ADMIN)))
        .map(|(_, name)| *name)
        .collect();
    line(
        "capabilities",
        missing.is_empty(),
        match missing.as_slice() {
            [] => "all that are needed".to_owned(),
            missing => format!("not effective: {}", missing.join(", ")),
        },
    )
}

fn arguments(found: Option<usize>, tracepoint: &str) -> String {
    match found {
        Some(n) => format!("{tracepoint} has {}", plural(n, "argument")),
        None => format!("no type of {tracepoint}"),
    }
}

fn features(properties: &Properties) -> Vec<KernelAbility> {
    let f = &properties.facts;
    let loaded = |module: &str| properties.modules.iter().find(|(m, _)| *m == module);
    // Addresses are hidden from other users than root.
    let address = |name, known: bool, function: &str| match (known, properties.root) {
        (true, _) => line(name, true, format!("address of {function} known")),
        (false, true) => {
            line(name, false, format!("address of {function} hidden, or no such function"))
        }
        (false, false) => line(name, None, "addresses are visible to root only"),
    };
    let stripes = "why RAID 4/5/6 reads";
    let sync = "resync of RAID 1/10";
    let requests = matches!(f.rq_issue, Some(1 | 2)) && f.rq_complete == Some(3);
    vec![
        line(
            "requests, bytes, times",
            requests,
            format!(
                "{}, {}",
                arguments(f.rq_issue, "block_rq_issue"),
                arguments(f.rq_complete, "block_rq_complete")
            ),
        ),
        line(
            "processes, directories",
            matches!(f.bio_queue, Some(1 | 2)),
            arguments(f.bio_queue, "block_bio_queue"),
        ),
        line(
            "blocks that ext4 frees",
            f.free_blocks == Some(4) || f.ext4_module_btf,
            arguments(f.free_blocks, "ext4_free_blocks"),
        ),
        line(
            "arrays in arrays",
            f.bio_complete == Some(2),
            arguments(f.bio_complete, "block_bio_complete"),
        ),
        line(
            "waits for a journal",
            f.checkpoint_stats == Some(3) || f.jbd2_module_btf,
            arguments(f.checkpoint_stats, "jbd2_checkpoint_stats"),
        ),
        match loaded("raid456") {
            None => line(stripes, None, "raid456 is not loaded: no such array is running"),
            // If raid456 is built in, its types are part of vmlinux.
            Some((_, false)) if f.md.stripe_syncing == 0 => {
                line(stripes, false, "no types of raid456: this kernel has no BTF of modules")
            }
            Some(_) => address(stripes, f.md.has_stripes(), "raid5_end_read_request"),
        },
        match loaded("raid1").or(loaded("raid10")) {
            None => line(sync, None, "raid1 and raid10 are not loaded: no such array is running"),
            Some(_) => address(sync, f.md.has_sync(), "end_sync_read"),
        },
        address(
            "files of direct IO",
            !matches!(f.dio_end_io, 0 | u64::MAX),
            "iomap_dio_bio_end_io",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::{Ability, Properties};
    use crate::probe::KernelFacts;

    fn modern() -> Properties {
        Properties {
            release: "6.12".to_owned(),
            root: true,
            capabilities: Some(u64::MAX),
            kptr_restrict: Some(0),
            facts: KernelFacts {
                btf: true,
                rq_issue: Some(1),
                rq_complete: Some(3),
                bio_queue: Some(1),
                bio_complete: Some(2),
                free_blocks: Some(4),
                checkpoint_stats: Some(3),
                dio_end_io: 1,
                ..KernelFacts::default()
            },
            loaded: Some(Ok(vec!["rt_rq_issue"])),
            ..Properties::default()
        }
    }

    #[test]
    fn modern_kernel_meets_all_requirements() {
        let able = Ability::new(&modern(), Vec::new());
        assert_eq!(able.can_run, Some(true));
        assert!(able.requirements.iter().all(|l| l.available == Some(true)));
        assert!(able.features.iter().all(|l| l.available != Some(false)));
    }

    #[test]
    fn missing_requirements_and_features_are_named() {
        let no = |properties: &Properties| {
            let able = Ability::new(properties, Vec::new());
            let lines = able.requirements.iter().chain(&able.features);
            lines
                .filter(|l| l.available == Some(false))
                .map(|l| format!("{}: {}", l.name, l.evidence))
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(no(&modern()), "");
        let mut properties = modern();
        properties.capabilities = Some(!(1 << 21 | 1 << 38));
        assert!(no(&properties).contains("CAP_PERFMON"), "{}", no(&properties));
        properties.capabilities = Some(!(1 << 38));
        assert_eq!(no(&properties), "", "CAP_SYS_ADMIN includes CAP_PERFMON");
        properties.kptr_restrict = Some(2);
        assert!(no(&properties).contains("kptr_restrict=1"));
        properties.modules = vec![("raid456", false)];
        assert!(no(&properties).contains("no types of raid456"));
        properties.facts.bio_queue = None;
        assert!(no(&properties).contains("block_bio_queue"));
    }

    #[test]
    fn schema() {
        crate::test_schema::check::<Ability>("raidtrace.doctor-kernel/1");
    }

    #[test]
    fn reasons_for_not_running() {
        let mut properties = modern();
        properties.loaded = Some(Err("the kernel refused".to_owned()));
        assert_eq!(Ability::new(&properties, Vec::new()).can_run, Some(false));
        properties.loaded = None;
        properties.lockdown = Some("confidentiality".to_owned());
        assert_eq!(Ability::new(&properties, Vec::new()).can_run, Some(false));
        properties.lockdown = Some("integrity".to_owned());
        properties.root = false;
        let able = Ability::new(&properties, Vec::new());
        assert_eq!(able.can_run, None);
        assert!(able.why.contains("sudo"));
        // A vendor kernel with other arguments: a line names the requirement that fails.
        properties.facts.rq_complete = Some(2);
        let able = Ability::new(&properties, Vec::new());
        assert_eq!(able.can_run, Some(false));
        let failed: Vec<_> =
            able.requirements.iter().filter(|n| n.available == Some(false)).collect();
        assert_eq!(failed.len(), 1, "{failed:?}");
        assert!(failed[0].evidence.contains("block_rq_complete has 2 arguments"));
        properties.facts.btf = false;
        assert!(Ability::new(&properties, Vec::new()).why.contains("CONFIG_DEBUG_INFO_BTF"));
    }
}
