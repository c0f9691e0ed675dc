//! Capabilities (capabilities(7)) that raidtrace needs, and capabilities that a thread gives up.
//!
//! Each thread has its own capabilities. A new thread inherits those of the thread that starts it.

use std::mem::replace;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::{env, io};

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, capabilities, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
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
/// drain events and write the recording; SYS_PTRACE for kernel stacks of tasks that hang, and to
/// find processes that use a member's disk; DAC_OVERRIDE for files in directories of other users.
const RELOAD: CapabilitySet = NEEDED
    .union(CapabilitySet::SYS_ADMIN)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::DAC_OVERRIDE);

/// Capabilities that stay effective in a thread that keeps them: up to Linux 5.18 each read of a
/// map needs CAP_BPF. None of these opens files.
const EFFECTIVE: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::SYS_NICE);

/// uid and gid of nobody on every distribution (the kernel's overflowuid).
const NOBODY: u32 = 65534;

const NAMES: [(CapabilitySet, &str); 4] = [
    (CapabilitySet::BPF, "cap_bpf"),
    (CapabilitySet::PERFMON, "cap_perfmon"),
    (CapabilitySet::DAC_READ_SEARCH, "cap_dac_read_search"),
    (CapabilitySet::SYSLOG, "cap_syslog"),
];

/// True if this thread has all `wanted` capabilities, effective or not.
pub fn has(wanted: CapabilitySet) -> bool {
    capabilities(None).is_ok_and(|sets| sets.permitted.contains(wanted))
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
    let has = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
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
/// load the programs and to read the machine. Those that open files are effective only in
/// [`raised`].
pub fn keep_for_reload() {
    keep(RELOAD, EFFECTIVE);
}

/// The same without those that only `record` needs: to write in directories of other users.
pub fn keep_for_serving() {
    keep(RELOAD.difference(CapabilitySet::DAC_OVERRIDE), EFFECTIVE);
}

/// Gives up all capabilities except that of root to write files in directories of other users.
pub fn keep_for_writing() {
    keep(of_root(CapabilitySet::DAC_OVERRIDE), CapabilitySet::all());
}

/// Capabilities to use for files that the user names: those of root, but not those that the binary
/// or a service has.
fn of_root(capabilities: CapabilitySet) -> CapabilitySet {
    if geteuid().is_root() { capabilities } else { CapabilitySet::empty() }
}

/// Keeps only the capabilities to enable and to read the run times of programs.
pub fn keep_for_statistics() {
    keep(CapabilitySet::SYS_ADMIN.union(CapabilitySet::BPF), EFFECTIVE);
}

/// Keeps only the capability to find paths of files, for [`raised`].
pub fn keep_for_paths() {
    keep(CapabilitySet::DAC_READ_SEARCH, EFFECTIVE);
}

/// Keeps only the capabilities to signal another user's command, and to remove an incomplete file.
pub fn keep_for_command() {
    keep(CapabilitySet::KILL.union(of_root(CapabilitySet::DAC_OVERRIDE)), CapabilitySet::all());
}

/// For a command that reads only files that the user names: root keeps access to files of other
/// users, another user keeps nothing.
pub fn keep_for_files() {
    let files = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::DAC_OVERRIDE);
    keep(of_root(files), files);
}

/// Makes all capabilities ineffective, unless this is root. Files that the user names are then
/// opened with the rights of the user, also if the binary or the service has CAP_DAC_READ_SEARCH.
pub fn lower() {
    if !geteuid().is_root() {
        let _ = set_effective(CapabilitySet::empty());
    }
}

/// Calls `call`, which opens no file that the user names, with all capabilities of this thread:
/// for devices, tracefs, symbols, paths of files, and programs.
pub fn raised<T>(call: impl FnOnce() -> T) -> T {
    with(CapabilitySet::all(), call)
}

/// Calls `write`, which writes files in directories of other users, if this is root.
pub fn writing<T>(write: impl FnOnce() -> T) -> T {
    with(of_root(CapabilitySet::DAC_OVERRIDE), write)
}

fn with<T>(wanted: CapabilitySet, call: impl FnOnce() -> T) -> T {
    let before = set_effective(wanted);
    let result = call();
    if let Ok(before) = before {
        let _ = set_effective(before);
    }
    result
}

/// Makes those of `wanted` effective that are permitted. Returns those that were effective.
fn set_effective(wanted: CapabilitySet) -> rustix::io::Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    let before = replace(&mut sets.effective, wanted & sets.permitted);
    set_capabilities(None, sets)?;
    Ok(before)
}

/// Makes this thread, and the threads that it starts, run as the owner of `dir`, or as nobody
/// without one, if this is root. Other threads keep their user: glibc's setuid() changes all.
///
/// # Errors
/// CAP_SETUID or CAP_SETGID is missing.
pub fn leave_root(dir: Option<&Path>) -> io::Result<()> {
    let owner = dir.and_then(|dir| dir.metadata().ok());
    let (uid, gid) = owner.map_or((NOBODY, NOBODY), |of| (of.uid(), of.gid()));
    if uid != 0 && geteuid().is_root() {
        let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
        set_thread_groups(&[])?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
    }
    Ok(())
}

/// Gives up all capabilities, in this thread and the threads that it starts.
pub fn keep_none() {
    keep(CapabilitySet::empty(), CapabilitySet::empty());
}

/// Keeps those of `kept`, and makes those of `effective` effective. Ignores errors: a thread may
/// always give up capabilities.
fn keep(kept: CapabilitySet, effective: CapabilitySet) {
    if let Ok(mut sets) = capabilities(None) {
        sets.permitted &= kept;
        sets.effective = sets.permitted & effective;
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
