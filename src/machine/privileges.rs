//! Capabilities (capabilities(7)) that raidtrace needs, and capabilities that a thread gives up.
//!
//! Each thread has its own capabilities. A new thread inherits those of the thread that starts it.

use std::env;

use rustix::process::geteuid;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs,
};

/// Needed capabilities: BPF and PERFMON to load and attach the programs, DAC_READ_SEARCH to read
/// superblocks and to find paths (open_by_handle_at(2)), SYSLOG for the kernel's addresses
/// (/proc/kallsyms).
pub const NEEDED: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG);

/// [`NEEDED`], and capabilities that are used while programs may be loaded again: SYS_ADMIN for
/// device mapper's tables, the BTF of kernel modules and the programs' run times; SYS_RESOURCE to
/// lock memory for maps (kernels up to 5.10); SYS_NICE to raise the priority of the threads that
/// drain events and write the recording; DAC_OVERRIDE for files in directories of other users.
const RELOAD: CapabilitySet = NEEDED
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Capabilities to open files of other users.
const FILES: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::DAC_OVERRIDE);

const NAMES: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::BPF, "cap_bpf"),
    (CapabilitySet::PERFMON, "cap_perfmon"),
    (CapabilitySet::DAC_READ_SEARCH, "cap_dac_read_search"),
    (CapabilitySet::SYSLOG, "cap_syslog"),
];

/// True if this thread has all `wanted` capabilities.
pub fn has(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(wanted))
}

/// Error message if capabilities to load programs are missing: one line that names them and says
/// how to grant them. `None` if none is missing. `subcommand`: for example `top`. SYS_ADMIN implies
/// BPF and PERFMON (bpf_capable() and perfmon_capable(), include/linux/capability.h). The other two
/// of [`NEEDED`] are not required: without them raidtrace traces less, and notes say so.
pub fn missing_message(subcommand: &str) -> Option<String> {
    if has(CapabilitySet::SYS_ADMIN) {
        return None;
    }
    let for_loading = CapabilitySet::BPF.union(CapabilitySet::PERFMON);
    let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    let missing = names(for_loading.difference(has))?;
    let executable = env::current_exe().unwrap_or_else(|_| "raidtrace".into());
    Some(format!(
        "raidtrace {subcommand} needs root, or capabilities, to load programs into the kernel and \
         to read the filesystem's layout (missing: {missing}): sudo raidtrace {subcommand}; or \
         grant them to every user who may run it: sudo setcap {}=ep {}",
        names(NEEDED).unwrap_or_default(),
        executable.display()
    ))
}

fn names(set: CapabilitySet) -> Option<String> {
    let names: Vec<&str> = NAMES
        .iter()
        .filter(|(capability, _)| set.contains(*capability))
        .map(|(_, name)| *name)
        .collect();
    (!names.is_empty()).then(|| names.join(","))
}

/// Gives up, in this thread and the threads that it starts, all capabilities except those needed to
/// load the programs and to read the machine.
pub fn keep_for_reload() {
    keep(RELOAD);
}

/// The same without those that only `record` needs: to write in directories of other users.
pub fn keep_for_serving() {
    keep(RELOAD.difference(CapabilitySet::DAC_OVERRIDE));
}

/// Gives up all capabilities except those of a thread that writes a recording.
pub fn keep_for_writing() {
    keep(CapabilitySet::DAC_OVERRIDE);
}

/// Keeps what [`keep_for_reload`] keeps, and the capability to signal another user's command.
pub fn keep_for_command() {
    keep(RELOAD.union(CapabilitySet::KILL));
}

/// For a command that reads only files that the user names: root keeps access to files of other
/// users, another user keeps nothing.
pub fn keep_for_files() {
    keep(if geteuid().is_root() { FILES } else { CapabilitySet::empty() });
}

/// Makes capabilities on files ineffective, unless this is root. Files that the user names are then
/// opened with the rights of the user, also if the binary or the service has CAP_DAC_READ_SEARCH.
pub fn lower() {
    if !geteuid().is_root() {
        set_effective(|sets| sets.effective.difference(FILES));
    }
}

/// Makes capabilities on files effective in this thread, to read devices, tracefs and paths of
/// files.
pub fn raise() {
    set_effective(|sets| sets.effective.union(sets.permitted.intersection(FILES)));
}

/// Calls `read`, which opens no file that the user names, with capabilities on files.
pub fn with_files<T>(read: impl FnOnce() -> T) -> T {
    raise();
    let result = read();
    lower();
    result
}

fn set_effective(effective: impl FnOnce(&CapabilitySets) -> CapabilitySet) {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective = effective(&sets);
        let _ = set_capabilities(None, sets);
    }
}

/// Gives up all capabilities, in this thread and the threads that it starts.
pub fn keep_none() {
    keep(CapabilitySet::empty());
}

/// Ignores errors: a thread may always give up capabilities.
fn keep(kept: CapabilitySet) {
    if let Ok(mut sets) = capabilities(None) {
        sets.effective &= kept;
        sets.permitted &= kept;
        sets.inheritable = CapabilitySet::empty();
        let _ = set_capabilities(None, sets);
    }
    let _ = set_no_new_privs(true);
}

#[cfg(test)]
mod tests {
    use super::{CapabilitySet, NEEDED, has, keep_for_reload, keep_none, names};

    #[test]
    fn names_are_those_of_setcap() {
        assert_eq!(
            names(NEEDED).as_deref(),
            Some("cap_bpf,cap_perfmon,cap_dac_read_search,cap_syslog")
        );
        assert_eq!(names(CapabilitySet::NET_ADMIN), None);
    }

    #[test]
    fn a_thread_gives_up_capabilities() {
        let of_thread = std::thread::spawn(|| {
            keep_for_reload();
            let network = has(CapabilitySet::NET_ADMIN);
            keep_none();
            (network, has(CapabilitySet::BPF))
        });
        assert_eq!(of_thread.join().expect("a thread"), (false, false));
    }
}
