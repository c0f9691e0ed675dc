//! Enables ext4's allocator statistics (/sys/fs/ext4/DEV/mb_stats), and restores the old value even
//! after raidtrace was killed.
//!
//! While mb_stats is enabled, the state file /run/raidtrace/mb_stats/DEV is locked. It holds the id
//! of the mount and the old value, which is always 0. A file without a lock was left by a killed
//! process; [`restore`] restores its value.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use rustix::fs::{FlockOperation, OFlags, flock};

use super::super::sys::Sys;

/// Directory of state files, named after each filesystem's device.
const STATE: &str = "/run/raidtrace/mb_stats";
/// Maximum number of bytes read from a state file.
const MAX_STATE_BYTES: u64 = 64;

/// Enables mb_stats for a filesystem and restores the old value on drop.
#[derive(Debug)]
pub struct MbStatsSwitch {
    switch: PathBuf,
    state: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl MbStatsSwitch {
    /// Enables mb_stats; `None` if another program has enabled it.
    ///
    /// # Errors
    /// The kernel has no mb_stats, it is not writable, or the state file cannot be created.
    pub fn on(sys: &Sys, name: &str) -> io::Result<Option<Self>> {
        let switch = switch(sys, name);
        let current = fs::read_to_string(&switch)?;
        let folder = sys.path(STATE);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        let state = folder.join(name);
        let Some(mut file) = lock(&state)? else {
            return Ok(None);
        };
        let left_by_killed_process = was_off(&mut file, sys, name);
        if current.trim() != "0" && !left_by_killed_process {
            let _ = fs::remove_file(&state);
            return Ok(None);
        }
        file.set_len(0)?;
        io::Seek::rewind(&mut file)?;
        writeln!(file, "{} 0", mount_id(sys, name)?)?;
        if let Err(e) = fs::write(&switch, "1") {
            let _ = fs::remove_file(&state);
            return Err(e);
        }
        Ok(Some(Self { switch, state, _file: file }))
    }
}

impl Drop for MbStatsSwitch {
    fn drop(&mut self) {
        // Fails after an unmount, which removes the switch.
        let _ = fs::write(&self.switch, "0");
        let _ = fs::remove_file(&self.state);
    }
}

/// Disables mb_stats of all filesystems for which a killed process left it on. Returns a note for
/// each.
pub fn restore(sys: &Sys) -> Vec<String> {
    let note = |name| format!("{name}: a killed raidtrace left mb_stats on; it is off again");
    left_on(sys, true).into_iter().map(note).collect()
}

/// Kernel names of all filesystems for which a killed process left mb_stats on. Disables it if
/// `restore`.
pub fn left_on(sys: &Sys, restore: bool) -> Vec<String> {
    let mut names = Vec::new();
    for name in sys.names(STATE) {
        let state = sys.path(format!("{STATE}/{name}"));
        // Locked files are in use.
        let Ok(Some(mut file)) = lock(&state) else {
            continue;
        };
        let was_off = was_off(&mut file, sys, &name);
        if was_off && (!restore || fs::write(switch(sys, &name), "0").is_ok()) {
            names.push(name);
        }
        if restore {
            let _ = fs::remove_file(&state);
        }
    }
    names
}

fn switch(sys: &Sys, name: &str) -> PathBuf {
    sys.path(format!("/sys/fs/ext4/{name}/mb_stats"))
}

/// Identifies a mount of a filesystem by the inode of its sysfs directory. Each new mount starts
/// with mb_stats off.
fn mount_id(sys: &Sys, name: &str) -> io::Result<u64> {
    Ok(fs::metadata(sys.path(format!("/sys/fs/ext4/{name}")))?.ino())
}

/// True if the state file records, for the current mount, that mb_stats was off.
fn was_off(file: &mut File, sys: &Sys, name: &str) -> bool {
    let mut text = String::new();
    let read = file.take(MAX_STATE_BYTES).read_to_string(&mut text);
    let (Ok(_), Ok(now)) = (read, mount_id(sys, name)) else {
        return false;
    };
    text.trim_end()
        .split_once(' ')
        .is_some_and(|(mount, was)| mount.parse() == Ok(now) && was == "0")
}

/// Creates and locks a state file; `None` while another process holds the lock.
fn lock(path: &PathBuf) -> io::Result<Option<File>> {
    // Try twice: the previous holder may just have removed the file.
    for _ in 0..2 {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
            .open(path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        let found = file.metadata()?;
        if !found.is_file() {
            return Ok(None);
        }
        if found.nlink() > 0 {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{MbStatsSwitch, left_on, restore};
    use crate::machine::tests::tree::Tree;

    const SWITCH: &str = "sys/fs/ext4/sda1/mb_stats";
    const STATE: &str = "run/raidtrace/mb_stats/sda1";

    fn value(tree: &Tree) -> String {
        fs::read_to_string(tree.path(SWITCH)).unwrap().trim().to_owned()
    }

    #[test]
    fn the_old_value_is_restored() {
        let tree = Tree::new("");
        tree.write(SWITCH, "0\n");
        let on = MbStatsSwitch::on(&tree.sys(), "sda1").unwrap().unwrap();
        assert_eq!((value(&tree).as_str(), tree.path(STATE).exists()), ("1", true));
        // A second switch neither disables mb_stats nor treats the locked state file as stale.
        assert!(MbStatsSwitch::on(&tree.sys(), "sda1").unwrap().is_none());
        assert!(restore(&tree.sys()).is_empty());
        assert_eq!(value(&tree), "1");
        drop(on);
        assert_eq!((value(&tree).as_str(), tree.path(STATE).exists()), ("0", false));
        // mb_stats enabled by another program stays on.
        tree.write(SWITCH, "1\n");
        assert!(MbStatsSwitch::on(&tree.sys(), "sda1").unwrap().is_none());
        assert!(restore(&tree.sys()).is_empty() && !tree.path(STATE).exists());
        assert_eq!(value(&tree), "1");
    }

    /// The state left by a killed process: no drop, no lock.
    fn killed(tree: &Tree) {
        tree.write(SWITCH, "0\n");
        let on = MbStatsSwitch::on(&tree.sys(), "sda1").unwrap().unwrap();
        let text = fs::read(tree.path(STATE)).unwrap();
        drop(on);
        tree.write(SWITCH, "1\n");
        tree.write(STATE, text);
    }

    #[test]
    fn the_old_value_is_restored_after_a_kill() {
        let tree = Tree::new("");
        killed(&tree);
        assert_eq!(left_on(&tree.sys(), false), ["sda1"]);
        let notes = restore(&tree.sys());
        assert_eq!(notes, ["sda1: a killed raidtrace left mb_stats on; it is off again"]);
        assert_eq!((value(&tree).as_str(), tree.path(STATE).exists()), ("0", false));
        assert!(restore(&tree.sys()).is_empty());
        // A new switch also takes the old value from the state file.
        killed(&tree);
        drop(MbStatsSwitch::on(&tree.sys(), "sda1").unwrap().unwrap());
        assert_eq!(value(&tree), "0");
    }

    #[test]
    fn state_files_of_other_mounts_and_invalid_ones_are_not_restored() {
        let tree = Tree::new("");
        killed(&tree);
        for odd in ["", "7 0\n", "0\n", "x 0\n", "\u{0}\u{0}", "1 1"] {
            tree.write(STATE, odd);
            assert!(restore(&tree.sys()).is_empty(), "{odd:?}");
            assert_eq!((value(&tree).as_str(), tree.path(STATE).exists()), ("1", false));
        }
        fs::create_dir(tree.path(STATE)).unwrap();
        tree.write("run/raidtrace/mb_stats/gone", "5 0\n");
        assert!(restore(&tree.sys()).is_empty());
    }
}
