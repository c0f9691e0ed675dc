//! Advice that shortens the waits found by `raidtrace slow`. Commands are printed, never run.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::quote::quote;
use crate::printable::escape;

/// A change that would help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The change, in words.
    pub text: String,
    /// Commands, in order; empty if the application has to change.
    pub commands: Vec<String>,
    /// Risk and how to undo it.
    pub risk: String,
    /// Case in which the change should not be made.
    pub not_when: String,
    /// Kernel source or document.
    pub source: Cow<'static, str>,
}

/// Settings of an array in /sys/block/ARRAY/md; `None` if a file is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdSettings {
    /// safe_mode_delay in seconds.
    pub safe_mode_delay: Option<String>,
    /// stripe_cache_size in entries.
    pub stripe_cache_size: Option<String>,
    /// sync_speed_max as the kernel prints it: `200000 (system)`, `1500 (local)`, in KiB/s of a
    /// member.
    pub sync_speed_max: Option<String>,
    /// sync_speed_min in the same format.
    pub sync_speed_min: Option<String>,
    /// sync_speed: current speed in KiB/s of a member, or `none`.
    pub sync_speed: Option<String>,
}

/// Limits of dirty memory on the whole host.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirtyLimits {
    /// nr_dirty_threshold of /proc/vmstat in bytes: writers are throttled so that dirty memory
    /// stays below it.
    pub limit: Option<u64>,
    /// nr_dirty_background_threshold in bytes: writeback starts beyond it.
    pub background: Option<u64>,
    /// vm.dirty_bytes; 0 if vm.dirty_ratio applies.
    pub dirty_bytes: u64,
    /// vm.dirty_background_bytes; 0 if vm.dirty_background_ratio applies.
    pub dirty_background_bytes: u64,
}

/// The limit of a cgroup on the IO to one device (io.max).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLimit {
    /// Path below the root of cgroup2: `/system.slice/db.service`. Untrusted.
    pub cgroup: String,
    /// Kernel name of the device.
    pub device: String,
    /// Number of the device: `9:127`.
    pub number: String,
    /// The limits that are set: `wbps=300000 wiops=6`.
    pub limits: String,
}

const MIB: u64 = 1 << 20;

/// md writes superblocks before the first write after `seconds` (md/safe_mode_delay) without a
/// write. `None` if the delay is long already, or unknown.
pub fn md_superblock(array: &str, seconds: Option<&str>) -> Option<Advice> {
    let now: f64 = seconds?.parse().ok()?;
    (now < 5.0).then(|| Advice {
        text: format!("let md keep {array} marked active for longer after a write (now {now} s)"),
        commands: vec![format!("echo 5 > /sys/block/{array}/md/safe_mode_delay")],
        risk: "a crash within those 5 s leaves the array to be resynced, which a write-intent \
               bitmap shortens. Undone with the old value; lost at a reboot"
            .to_owned(),
        not_when: "the array has no write-intent bitmap and a resync would hurt".to_owned(),
        source: "drivers/md/md.c, md_write_start() and safe_delay_store(); \
                 Documentation/admin-guide/md.rst"
            .into(),
    })
}

/// Ordered data of another file, on a mount with dioread_lock and without nodelalloc. `mount` is
/// quoted.
pub fn ordered_data_by_option(mount: &str) -> Advice {
    Advice {
        text: "let writeback allocate unwritten blocks: commits do not wait for their data"
            .to_owned(),
        commands: vec![format!("mount -o remount,dioread_nolock {mount}")],
        risk: "none known; the default since 5.6. Has no effect with nodelalloc. Undone with \
               remount,dioread_lock"
            .to_owned(),
        not_when: "the files have no extents (made by ext3)".to_owned(),
        source: "fs/ext4/inode.c, ext4_map_blocks(); fs/ext4/ext4_jbd2.h, \
                 ext4_should_dioread_nolock()"
            .into(),
    }
}

/// Ordered data of another file, on a mount with nodelalloc, as with ext3.
pub fn ordered_data_without_delay(mount: &str) -> Advice {
    Advice {
        text: format!(
            "mount {mount} without nodelalloc: blocks are then allocated when data is written, \
             and not with every write. Where old data in a file after a crash is acceptable, \
             data=writeback"
        ),
        commands: Vec::new(),
        risk: "without nodelalloc, the data of a file that was renamed over another one without \
               fsync reaches the disk later. With data=writeback, blocks that were allocated \
               shortly before a crash can have their old content"
            .to_owned(),
        not_when: "the application relies on data that reaches the disk every 5 seconds without \
                   fsync"
            .to_owned(),
        source: "Documentation/admin-guide/ext4.rst, delalloc and data=; fs/jbd2/commit.c, \
                 journal_submit_data_buffers()"
            .into(),
    }
}

/// Ordered data of another file, on any other mount.
pub fn ordered_data(file: &str, dirty: &DirtyLimits) -> Advice {
    const BACKGROUND: u64 = 64 * MIB;
    let starts_earlier = dirty.background.is_none_or(|now| now > BACKGROUND);
    Advice {
        text: format!(
            "keep less dirty data of {file}: its writer can call sync_file_range(2) more often, \
             or write to another filesystem"
        ),
        commands: starts_earlier
            .then(|| format!("sysctl vm.dirty_background_bytes={BACKGROUND}"))
            .into_iter()
            .collect(),
        risk: if starts_earlier {
            format!(
                "writeback starts earlier on the whole host. Undone with {}",
                dirty.old_background()
            )
        } else {
            "the writer waits for its data more often".to_owned()
        },
        not_when: "files are usually removed before they are written".to_owned(),
        source: Cow::Borrowed(
            "fs/jbd2/commit.c, journal_finish_inode_data_buffers(); \
             Documentation/admin-guide/sysctl/vm.rst",
        ),
    }
}

/// Direct writes that take the inode's lock exclusively because they extend the file. `version` of
/// the kernel.
pub fn extending_writes(version: (u32, u32)) -> Advice {
    let ahead = if version >= (6, 3) {
        "allocate the file ahead (fallocate, with its size)"
    } else {
        "allocate the file ahead and write it once from start to end: before 6.3 writes to \
         unwritten blocks take the lock, too"
    };
    Advice {
        text: format!("{ahead}: direct writes within the file share the lock"),
        commands: Vec::new(),
        risk: "the application must not take the file's size as the amount of its data".to_owned(),
        not_when: "the file is only appended to, and nobody reads it meanwhile".to_owned(),
        source: "fs/ext4/file.c, ext4_dio_write_checks(); Linux 6.3, 240930fb7e6b".into(),
    }
}

/// Direct writes to blocks that are not written yet, or to several extents. `version` of the
/// kernel.
pub fn first_writes(version: (u32, u32)) -> Advice {
    let what = if version >= (6, 3) {
        "direct writes into holes and across the ends of extents"
    } else {
        "direct writes into holes and to blocks that fallocate(2) has allocated, the first time,"
    };
    Advice {
        text: format!(
            "write new files once from start to end before they are in use: {what} take the \
             inode's lock exclusively, and share it afterwards (not across the end of an extent)"
        ),
        commands: Vec::new(),
        risk: "creating a file takes as long as writing it".to_owned(),
        not_when: "the blocks are written once, as in a log or a backup".to_owned(),
        source: "fs/ext4/file.c, ext4_dio_write_checks() and ext4_overwrite_io(); Linux 6.3, \
                 240930fb7e6b"
            .into(),
    }
}

/// Direct writes that are not aligned to blocks.
pub fn unaligned_writes(version: (u32, u32)) -> Advice {
    let where_ = if version >= (6, 5) { " to blocks that are not written yet" } else { "" };
    Advice {
        text: format!(
            "align direct writes to the filesystem's blocks (mostly 4096 bytes): unaligned \
             writes{where_} take the inode's lock exclusively"
        ),
        commands: Vec::new(),
        risk: "none".to_owned(),
        not_when: "the file has one writer and no reader".to_owned(),
        source: "fs/ext4/file.c, ext4_dio_write_checks(), ext4_unaligned_io()".into(),
    }
}

/// One member is much slower than the others. `disk` is quoted.
pub fn slow_member(disk: &str, name: &str) -> Advice {
    Advice {
        text: format!("find out why a flush takes longer on {name} than on the other members"),
        commands: vec![
            // A partition has the queue of its disk.
            format!("cat /sys/class/block/{name}/{{,../}}queue/write_cache 2>/dev/null"),
            format!("smartctl -x {disk}"),
        ],
        risk: "none: both only report".to_owned(),
        not_when: "the other members serve less load, see raidtrace top".to_owned(),
        source: "Documentation/ABI/stable/sysfs-block, queue/write_cache; smartctl(8)".into(),
    }
}

/// A handle of a truncation held the transaction.
pub fn long_truncation() -> Advice {
    Advice {
        text: "remove large or fragmented files in steps".to_owned(),
        commands: vec![
            "truncate -s -1G FILE    # repeat until it is empty, then rm FILE".to_owned(),
        ],
        risk: "the file loses its content from the end".to_owned(),
        not_when: "the file is in use".to_owned(),
        source: "fs/ext4/inode.c, ext4_truncate(): a handle for as many blocks as a transaction \
                 has credits"
            .into(),
    }
}

/// The journal has no room.
pub fn log_space(mount: &str) -> Advice {
    Advice {
        text: "make the journal larger; doctor advises a size and how".to_owned(),
        commands: vec![format!("raidtrace doctor {mount} --live 60")],
        risk: "none: it only reports".to_owned(),
        not_when: "the load is a one-off, such as a restore".to_owned(),
        source: "fs/jbd2/checkpoint.c, __jbd2_log_wait_for_space()".into(),
    }
}

/// The log of an XFS has no room. `mount` is quoted.
pub fn xfs_log_space(mount: &str) -> Advice {
    Advice {
        text: "make the filesystem again with a larger log (mkfs.xfs -l size=, up to 2038m), or \
               put the log on another device: the size of a log cannot be changed"
            .to_owned(),
        commands: vec![format!("xfs_info {mount}    # log: blocks= times bsize= is its size now")],
        risk: "none: it only reports".to_owned(),
        not_when: "the load is a one-off, such as a restore; or the log has some 2 GiB already, \
                   mkfs.xfs's default from 4 TiB on: then only another, faster device helps"
            .to_owned(),
        source: "fs/xfs/xfs_log.c, xlog_grant_head_wait(); mkfs.xfs(8)".into(),
    }
}

/// Direct writes to XFS that begin after the end of the file.
pub fn xfs_writes_after_end() -> Advice {
    Advice {
        text: "write the file from start to end without gaps, or set its size ahead (truncate): \
               direct writes that begin after its end take the inode's lock exclusively, wait for \
               all direct IO of the file, and zero the gap"
            .to_owned(),
        commands: Vec::new(),
        risk: "the application must not take the file's size as the amount of its data".to_owned(),
        not_when: "the file has one writer and no reader".to_owned(),
        source: "fs/xfs/xfs_file.c, xfs_file_write_checks()".into(),
    }
}

/// Direct writes to XFS that are not aligned to blocks.
pub fn xfs_unaligned_writes() -> Advice {
    Advice {
        text: "align direct writes to the filesystem's blocks (mostly 4096 bytes): unaligned \
               writes to blocks that are not written yet or at the end of the file take the \
               inode's lock exclusively and wait for all direct IO of the file"
            .to_owned(),
        commands: Vec::new(),
        risk: "none".to_owned(),
        not_when: "the file has one writer and no reader".to_owned(),
        source: "fs/xfs/xfs_file.c, xfs_file_dio_write_unaligned()".into(),
    }
}

pub fn xfs_buffered_writes() -> Advice {
    Advice {
        text: "write the file in smaller pieces, or with O_DIRECT: a buffered write takes the \
               inode's lock exclusively, so all reads and writes of the file wait for it; aligned \
               direct writes share the lock"
            .to_owned(),
        commands: Vec::new(),
        risk: "a reader can see one part of a large write without the other".to_owned(),
        not_when: "readers rely on atomic writes".to_owned(),
        source: "fs/xfs/xfs_file.c, xfs_file_buffered_write() and xfs_file_dio_write_aligned()"
            .into(),
    }
}

/// The stripe cache is full. `entries`: md/stripe_cache_size now. `None` if it is unknown, or has
/// the largest size (raid5_set_cache_size()).
pub fn stripe_cache(array: &str, entries: Option<&str>) -> Option<Advice> {
    const LARGEST: u64 = 32768;
    let now: u64 = entries?.parse().ok()?;
    let larger = now.saturating_mul(2).clamp(4096, LARGEST);
    (larger > now).then(|| Advice {
        text: format!("enlarge the stripe cache of {array} (now {now} entries)"),
        commands: vec![format!("echo {larger} > /sys/block/{array}/md/stripe_cache_size")],
        risk: "takes a page of memory per entry and member, at once. Undone with the old value; \
               lost at a reboot"
            .to_owned(),
        not_when: "the members are busy all the time: more stripes then only wait longer"
            .to_owned(),
        source: "drivers/md/raid5.c, raid5_get_active_stripe(); Documentation/admin-guide/md.rst"
            .into(),
    })
}

/// A resync, recovery, check or reshape holds requests back.
/// `None` if none runs any more.
pub fn resync(array: &str, md: &MdSettings) -> Option<Advice> {
    if md.sync_speed.as_deref() == Some("none") {
        return None;
    }
    const SLOW: u64 = 10_000;
    let number =
        |value: &Option<String>| -> Option<u64> { value.as_ref()?.split(' ').next()?.parse().ok() };
    let limit = number(&md.sync_speed_max);
    let speed = number(&md.sync_speed).filter(|n| *n > 0);
    let now = [limit, speed].into_iter().flatten().min();
    let slower = now.map_or(SLOW, |now| (now / 2).clamp(1, SLOW));
    let path = format!("/sys/block/{array}/md");
    let undo = |file: &str, value: &Option<String>| {
        let old = value.as_deref().unwrap_or_default().strip_suffix(" (local)");
        // In a recording it can be any text.
        let old = old.filter(|old| old.parse::<u64>().is_ok()).unwrap_or("system");
        format!("echo {old} > {path}/{file}")
    };
    let mut commands = vec![format!("echo {slower} > {path}/sync_speed_max")];
    let mut undone = undo("sync_speed_max", &md.sync_speed_max);
    // md_do_sync() does not pause below sync_speed_min.
    if number(&md.sync_speed_min).is_some_and(|min| min > slower) {
        commands.insert(0, format!("echo {slower} > {path}/sync_speed_min"));
        undone = format!("{undone}; {}", undo("sync_speed_min", &md.sync_speed_min));
    }
    let now = match (speed, limit) {
        (Some(speed), _) => format!(" (now {speed} KiB/s)"),
        (None, Some(limit)) => format!(" (limit {limit} KiB/s)"),
        (None, None) => String::new(),
    };
    Some(Advice {
        text: format!("slow the resync of {array} down while the load lasts{now}"),
        commands,
        risk: format!(
            "it takes longer until the array is in sync, without full redundancy if a member is \
             being rebuilt. Undone with: {undone}"
        ),
        not_when: "another disk may fail soon".to_owned(),
        source: Cow::Borrowed(
            "drivers/md/md.c, md_do_sync(); drivers/md/raid1.c, wait_barrier(); \
             Documentation/admin-guide/md.rst",
        ),
    })
}

/// blk-throttle delays the bios of the task's cgroup before they enter the array.
pub fn io_limit(limit: &IoLimit) -> Advice {
    let IoLimit { cgroup, device, number, limits } = limit;
    let file = quote(format!("/sys/fs/cgroup{cgroup}/io.max"));
    let keys = limits.split(' ').filter_map(|word| word.split_once('='));
    let lifted: Vec<String> = keys.map(|(key, _)| format!("{key}=max")).collect();
    Advice {
        text: format!(
            "raise the I/O limit of cgroup {} on {device} ({limits}): it can delay the task's IO \
             above the members, of which none was seen to take half of the time for a request",
            escape(cgroup.as_bytes())
        ),
        commands: vec![format!("echo '{number} {}' > {file}", lifted.join(" "))],
        risk: format!(
            "the cgroup can take the throughput of all others. Undone with: echo '{number} \
             {limits}' > the same file; systemd sets it again (IOWriteBandwidthMax=, \
             IOReadIOPSMax=)"
        ),
        not_when: "the limit protects other tasks on purpose".to_owned(),
        source: Cow::Borrowed(
            "block/blk-throttle.c; Documentation/admin-guide/cgroup-v2.rst, io.max",
        ),
    }
}

/// Commands that replace the write-intent bitmap of an array by an internal one with large chunks.
pub fn larger_bitmap_chunks(array: &str) -> [String; 2] {
    [
        format!("mdadm --grow --bitmap=none {array}"),
        format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {array}"),
    ]
}

/// A limit of the task's cgroup holds its requests back, on a member. `files` configure it.
pub fn cgroup_limit(limit: &str, files: &str, pid: u32) -> Advice {
    Advice {
        text: format!("look at {limit} of the cgroups: it holds this task's requests back"),
        commands: vec![
            format!("cat /proc/{pid}/cgroup"),
            format!("grep -rs . --include='{files}' /sys/fs/cgroup"),
        ],
        risk: "none: the commands only read".to_owned(),
        not_when: "the limit protects other tasks on purpose".to_owned(),
        source: "block/blk-iocost.c, blk-iolatency.c; Documentation/admin-guide/cgroup-v2.rst"
            .into(),
    }
}

impl DirtyLimits {
    /// The setting that restores the limit of writeback.
    fn old_background(&self) -> String {
        old("dirty_background", self.dirty_background_bytes)
    }

    /// How to undo a change of both limits.
    fn undo(&self) -> String {
        let limit = old("dirty", self.dirty_bytes);
        format!("Undone with {limit} and {}", self.old_background())
    }
}

/// The setting in force: `vm.NAME_bytes=BYTES`, or the ratio if `bytes` is 0.
fn old(name: &str, bytes: u64) -> String {
    match bytes {
        0 => format!("vm.{name}_ratio and its old value"),
        bytes => format!("vm.{name}_bytes={bytes}"),
    }
}

/// A buffered writer is throttled.
pub fn throttled(dirty: &DirtyLimits) -> Advice {
    /// Below this limit a single burst of a writer is throttled.
    const SMALL: u64 = 64 * MIB;
    let (text, commands, risk) = match dirty.limit {
        // A small share (vm.dirty_ratio) means little memory that can be dirty: a limit in bytes
        // could exceed it.
        Some(now) if now < SMALL && dirty.dirty_bytes != 0 => (
            format!(
                "allow more dirty data: the host's limit is {:.1} MiB (nr_dirty_threshold in \
                 /proc/vmstat), so a short burst is throttled. If the writer is faster than the \
                 disks all the time, limit its rate",
                now as f64 / MIB as f64
            ),
            vec![format!("sysctl vm.dirty_bytes={} vm.dirty_background_bytes={SMALL}", 4 * SMALL)],
            format!(
                "affects the whole host: more data is lost at a crash, and a sync takes longer. {}",
                dirty.undo()
            ),
        ),
        // balance_dirty_pages() pauses for at most MAX_PAUSE (200 ms) at a time, whatever the
        // limit.
        _ => (
            "the writer dirties data faster than the disks write it: limit its rate. A lower \
             vm.dirty_bytes throttles it earlier, and shortens only what waits for its data \
             (fsync, umount)"
                .to_owned(),
            Vec::new(),
            "the writer takes longer".to_owned(),
        ),
    };
    Advice {
        text,
        commands,
        risk,
        not_when: "the throttled writer is in a cgroup with its own memory limit, which applies \
                   first"
            .to_owned(),
        source: Cow::Borrowed(
            "mm/page-writeback.c, balance_dirty_pages(); Documentation/admin-guide/sysctl/vm.rst",
        ),
    }
}
