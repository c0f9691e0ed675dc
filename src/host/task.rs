//! What a task is: its name now, and its role when it is a kernel thread that storage people know.

use super::sys::Sys;

/// The name of a task now, which for a kworker says what it works on (`kworker/u8:2+flush-9:127`,
/// kernel/workqueue.c, wq_worker_comm()); `None` when it has ended.
pub fn comm(sys: &Sys, pid: u32) -> Option<Vec<u8>> {
    let mut name = std::fs::read(sys.path(format!("/proc/{pid}/comm"))).ok()?;
    if name.last() == Some(&b'\n') {
        name.pop();
    }
    Some(name)
}

/// Whether it runs in the kernel: such a task has no executable. `None` when it has ended.
pub fn is_kernel_thread(sys: &Sys, pid: u32) -> Option<bool> {
    match std::fs::read(sys.path(format!("/proc/{pid}/cmdline"))) {
        Ok(line) => Some(line.is_empty()),
        Err(_) => None,
    }
}

/// What a kernel thread of that name does for storage. `array` names a device by its numbers
/// (`9:127`), as the writeback workers do.
pub fn role(comm: &[u8], device: impl Fn(&str) -> Option<String>) -> Option<String> {
    let name = std::str::from_utf8(comm).ok()?;
    if let Some(journal) = name.strip_prefix("jbd2/") {
        // jbd2/md127-8: device, then the journal's inode (fs/jbd2/journal.c)
        let on = journal.rsplit_once('-').map_or(journal, |(dev, _)| dev);
        return Some(format!("jbd2 journal of {on}"));
    }
    if name.starts_with("kworker/") {
        if let Some((_, dev)) = name.split_once("flush-") {
            let on = device(dev).unwrap_or_else(|| dev.to_owned());
            return Some(format!("writeback of {on}"));
        }
        return Some("kernel worker".to_owned());
    }
    if name.starts_with("ext4lazyinit") {
        return Some("lazy inode table initialisation".to_owned());
    }
    if name.starts_with("kmmpd-") {
        return Some("ext4 multiple mount protection".to_owned());
    }
    if name.starts_with("md") {
        let (array, what) = name.split_once('_')?;
        return Some(match what {
            "resync" => format!("resync of {array}"),
            "reshape" => format!("reshape of {array}"),
            _ => format!("md thread of {array}"),
        });
    }
    if name.starts_with("kswapd") {
        return Some("memory reclaim".to_owned());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::role;

    fn named(comm: &str) -> Option<String> {
        role(comm.as_bytes(), |dev| {
            (dev == "9:127").then(|| "md127".to_owned())
        })
    }

    #[test]
    fn kernel_threads_are_named_as_what_they_are() {
        for (comm, want) in [
            ("jbd2/md127-8", Some("jbd2 journal of md127")),
            ("jbd2/dm-0-8", Some("jbd2 journal of dm-0")),
            ("kworker/u8:2+flush-9:127", Some("writeback of md127")),
            ("kworker/u8:2-flush-8:0", Some("writeback of 8:0")),
            ("kworker/0:1", Some("kernel worker")),
            ("md127_resync", Some("resync of md127")),
            ("md5_raid5", Some("md thread of md5")),
            ("ext4lazyinit", Some("lazy inode table initialisation")),
            ("migration/0", None),
        ] {
            assert_eq!(named(comm).as_deref(), want, "{comm}");
        }
        assert_eq!(role(b"\xff\xfe", |_| None), None);
    }
}
