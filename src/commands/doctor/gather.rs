//! Gathers facts from sysfs, /proc and /etc/fstab of this machine, or of a tree of files in a test.
//! `topology` has already read the filesystems.

use rustix::fs::StatVfs;

use super::facts::{ArrayFacts, BitmapFacts, DiskFacts, Facts, FsFacts, Jbd2, Space};
use super::{ata, mounted, openers, upkeep};
use crate::advice::kernel::Kernel;
use crate::analysis::placement::{FsMetadata, PlacementReport, Skews, Target, TargetArray};
use crate::fs::ext4::features::incompat;
use crate::fs::ext4::{Ext4Superblock, FsKind};
use crate::machine::mballoc::{self, MbStats};
use crate::machine::thin;
use crate::machine::topology::{self, Topology};
use crate::machine::{Array, DeviceRole, Filesystem, Member, NotRunning, Sys};

/// First kernel that writes to preallocated blocks in parallel (240930fb7e6b): direct IO is not
/// checked from here on.
const DIRECT_SHARED: (u32, u32) = (6, 3);
/// `EXT4_VALID_FS`: unmounted cleanly.
const VALID_FS: u16 = 1;
/// Maximum runs of bad blocks: the capacity of md's log.
const MAX_BAD_RUNS: usize = 512;

/// Gathers the facts of the arrays in `topology`.
pub fn gather(sys: &Sys, topology: &Topology, not_running: NotRunning) -> Facts {
    let mut facts = Facts {
        kernel: Kernel::running(sys),
        host: upkeep::host(sys),
        not_running,
        notes: topology.notes.clone(),
        ..Facts::default()
    };
    let version = facts.kernel.version();
    let mdstat = sys.text("/proc/mdstat").unwrap_or_default();
    let fstab = sys.text("/etc/fstab").unwrap_or_default();
    for array in &topology.host.arrays {
        let mut array_facts = array_facts(sys, array, &mdstat);
        // The log device of an XFS has no rule of its own.
        let main = |fs: &&Filesystem| fs.role == DeviceRole::Main;
        for mut fs in array.filesystems.iter().filter(main).cloned() {
            if sys.is_live() {
                facts.notes.extend(mounted::drop_covered(&mut fs));
            }
            let fs = filesystem(sys, topology, array, fs, &fstab);
            array_facts.filesystems.push(fs);
        }
        facts.arrays.push(array_facts);
    }
    if version != (0, 0) && version < DIRECT_SHARED {
        facts.notes.extend(openers::find(sys, &mut facts.arrays));
    }
    facts
}

fn array_facts(sys: &Sys, array: &Array, mdstat: &str) -> ArrayFacts {
    let dir = format!("/sys/block/{}", array.name);
    let number = |file: &str| sys.number::<u64>(&format!("{dir}/{file}"));
    ArrayFacts {
        disks: array.members.iter().map(|m| disk(sys, array, m)).collect(),
        bitmap: bitmap(sys, &dir, &array.name, mdstat),
        mismatches: number("md/mismatch_cnt").unwrap_or(0),
        last_sync: sys.text(&format!("{dir}/md/last_sync_action")),
        checked_days: upkeep::checked_days(sys, sys.text(&format!("{dir}/md/uuid")).as_deref()),
        stripe_cache: number("md/stripe_cache_size"),
        threads: number("md/group_thread_cnt"),
        read_ahead_kib: number("queue/read_ahead_kb"),
        discards: number("queue/discard_max_bytes").map(|n| n > 0),
        discards_trusted: sys
            .text("/sys/module/raid456/parameters/devices_handle_discard_safely")
            .map(|t| t == "Y"),
        waits_to_sync: sys.text(&format!("{dir}/md/sync_completed")).as_deref() == Some("delayed"),
        // `none` if no resync is pending.
        resync_from: number("md/resync_start"),
        pools: thin::pools(sys, &array.name)
            .into_iter()
            .filter_map(|pool| Some((pool.mapper_name, thin::status(sys, pool.dev)?)))
            .collect(),
        optimal_io: number("queue/optimal_io_size").unwrap_or(0),
        array: array.clone(),
        filesystems: Vec::new(),
    }
}

fn bitmap(sys: &Sys, dir: &str, name: &str, mdstat: &str) -> BitmapFacts {
    let text = |file: &str| sys.text(&format!("{dir}/md/{file}"));
    let number = |file: &str| sys.number(&format!("{dir}/md/bitmap/{file}")).unwrap_or(0);
    let kind = text("bitmap_type");
    match text("bitmap/location").as_deref() {
        _ if kind.is_some_and(|k| k.contains("[llbitmap]")) => BitmapFacts::Lockless,
        None | Some("none") => BitmapFacts::None,
        Some("file") => BitmapFacts::File { path: bitmap_file(mdstat, name).unwrap_or_default() },
        Some(_) => {
            BitmapFacts::Internal { chunk: number("chunksize"), time_base: number("time_base") }
        }
    }
}

/// Path in `bitmap: 0/1 pages [0KB], 65536KB chunk, file: /var/md0.bitmap`, from the lines of one
/// array.
fn bitmap_file(mdstat: &str, name: &str) -> Option<String> {
    let mut lines = mdstat.lines();
    lines.find(|l| l.split_once(" : ").is_some_and(|(n, _)| n == name))?;
    lines
        .take_while(|l| l.starts_with(' '))
        .find_map(|l| Some(l.split_once("file: ")?.1.trim().to_owned()))
}

fn disk(sys: &Sys, array: &Array, member: &Member) -> DiskFacts {
    let dir = format!("/sys/block/{}", member.disk_name);
    let md = format!("/sys/block/{}/md/dev-{}", array.name, member.name);
    let number = |file: &str| sys.number(&format!("{dir}/{file}")).unwrap_or(0);
    let text = |file: &str| sys.text(&format!("{dir}/{file}")).unwrap_or_default();
    let bad = sys.text(&format!("{md}/bad_blocks")).unwrap_or_default();
    let run = |line: &str| {
        let (first, count) = line.trim().split_once(' ')?;
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    DiskFacts {
        model: text("device/model"),
        firmware: ["rev", "firmware_rev", "fwrev"]
            .into_iter()
            .find_map(|file| sys.text(&format!("{dir}/device/{file}")))
            .unwrap_or_default(),
        logical_block: number("queue/logical_block_size"),
        physical_block: number("queue/physical_block_size"),
        alignment_offset: number("alignment_offset"),
        max_kib: number("queue/max_sectors_kb"),
        requests: number("queue/nr_requests"),
        timeout: sys.number(&format!("{dir}/device/timeout")),
        is_ata: text("device/vendor") == "ATA",
        discards: number("queue/discard_max_bytes") > 0,
        recovery_control: ata::recovery_control(sys, &member.disk_name),
        write_cache: text("queue/write_cache"),
        bad_blocks: bad.lines().filter_map(run).take(MAX_BAD_RUNS).collect(),
        read_errors: sys.number(&format!("{md}/errors")).unwrap_or(0),
    }
}

fn filesystem(
    sys: &Sys,
    topology: &Topology,
    array: &Array,
    fs: Filesystem,
    fstab: &str,
) -> FsFacts {
    let name = &fs.name;
    let proc = format!("/proc/fs/ext4/{name}");
    let text = |file: &str| sys.text(&format!("/sys/fs/ext4/{name}/{file}"));
    let options = sys.text(&format!("{proc}/options")).unwrap_or_default();
    let layout = topology.layouts.get(&fs.dev).and_then(|l| l.ext4());
    // An external journal has no groups, and no rule applies to it.
    let layout = layout.filter(|l| l.kind != FsKind::JournalDevice);
    let superblock = layout.and_then(|l| l.superblock.clone());
    let placed = match topology.layouts.get(&fs.dev).and_then(|l| l.xfs()) {
        Some(layout) => Some(FsMetadata::from_xfs(layout.clone())),
        None => layout.map(|l| FsMetadata::new(l.clone())),
    };
    let placed = placed.map(|placed| placement(array, &fs, placed));
    let (report, before) = placed.unwrap_or_default();
    let statfs = statfs(sys, &fs);
    let (inodes, used) =
        in_use(sys, &fs, statfs.as_ref(), !options.is_empty(), superblock.as_ref());
    let error = text("last_error_func").map(|func| {
        let line = text("last_error_line").unwrap_or_default();
        format!("{func}:{line}")
    });
    FsFacts {
        report,
        before,
        options: options
            .lines()
            .map(|line| match line.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (line.to_owned(), String::new()),
            })
            .collect(),
        fstab: fs.mounts.iter().find_map(|m| fstab_options(fstab, &m.path)),
        optimised: mballoc::optimises(sys, name),
        no_lists: text("mb_group_prealloc").is_some()
            && text("mb_max_linear_groups").is_none()
            && !sys.path(format!("{proc}/mb_structs_summary")).exists(),
        mb_stats: MbStats::read(sys, name),
        errors: sys.number(&format!("/sys/fs/ext4/{name}/errors_count")).unwrap_or(0),
        last_error: error.unwrap_or_default(),
        inodes,
        used,
        space: statfs.map(|s| space(&s)),
        direct: Vec::new(),
        journal: layout.map(|l| l.journal),
        jbd2: superblock.as_ref().and_then(|sb| {
            let info = format!("/proc/fs/jbd2/{name}-{}/info", sb.journal_inum);
            jbd2(&sys.text(&info)?)
        }),
        superblock,
        fs,
    }
}

/// Parses `812 transactions (810 requested), each up to 256 blocks`, followed by averages: `  14
/// logged blocks per transaction`.
fn jbd2(info: &str) -> Option<Jbd2> {
    let number = |text: &str| -> Option<u64> {
        text.trim().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    let first = info.lines().next()?;
    let average = |name: &str| info.lines().find(|l| l.ends_with(name)).and_then(number);
    Some(Jbd2 {
        transactions: number(first)?,
        largest: number(first.split_once("each up to ")?.1)?,
        logged: average(" logged blocks per transaction")?,
        request_delay_ms: average("ms request delay")?,
    })
}

/// Placement of fixed metadata on the members, and its skews with the geometry before a running
/// reshape.
fn placement(
    array: &Array,
    location: &Filesystem,
    fs: FsMetadata,
) -> (Option<PlacementReport>, Option<Skews>) {
    if !array.is_md() || location.segments.is_empty() {
        return (None, None);
    }
    let before = array.before_reshape.and_then(|b| {
        let old = Array {
            layout: b.layout,
            chunk_sectors: b.chunk_sectors,
            raid_disks: b.raid_disks,
            ..array.clone()
        };
        let geometry = topology::geometry(&old).ok()?;
        Some(Skews::new(&fs, &geometry, &location.segments))
    });
    let report = TargetArray::from_array(array).ok().map(|array| {
        PlacementReport::new(Target {
            name: location.name.clone(),
            fs,
            segments: location.segments.clone(),
            array,
            notes: Vec::new(),
        })
    });
    (report, before)
}

/// statfs(2) of a mounted filesystem.
fn statfs(sys: &Sys, fs: &Filesystem) -> Option<StatVfs> {
    let mount = fs.mounts.first().filter(|_| sys.is_live())?;
    // Use the opened directory: the path may lead elsewhere by now.
    let root = mounted::open(&mount.path, fs.dev)?;
    rustix::fs::fstatvfs(root).ok()
}

fn space(s: &StatVfs) -> Space {
    let bytes = |blocks: u64| blocks.saturating_mul(s.f_frsize);
    Space {
        bytes: bytes(s.f_blocks),
        free: bytes(s.f_bfree),
        available: bytes(s.f_bavail),
        inodes: (s.f_files > 0).then_some(s.f_ffree),
    }
}

/// Number of inodes in use and used share of the blocks. The superblock has them only after a clean
/// unmount: while mounted, here or in a container, its values are out of date.
fn in_use(
    sys: &Sys,
    fs: &Filesystem,
    statfs: Option<&StatVfs>,
    mounted: bool,
    sb: Option<&Ext4Superblock>,
) -> (Option<u64>, Option<f64>) {
    let (inodes, free_inodes, blocks, free_blocks) = if !fs.mounts.is_empty() && sys.is_live() {
        let Some(s) = statfs else {
            return (None, None);
        };
        (s.f_files, s.f_ffree, s.f_blocks, s.f_bfree)
    } else {
        let clean =
            |sb: &&Ext4Superblock| sb.state & VALID_FS != 0 && !sb.has_incompat(incompat::RECOVER);
        let Some(sb) = sb.filter(clean).filter(|_| !mounted || !sys.is_live()) else {
            return (None, None);
        };
        let inodes = [sb.inodes_count, sb.free_inodes_count].map(u64::from);
        (inodes[0], inodes[1], sb.blocks_count, sb.free_blocks_count)
    };
    let used = (blocks > 0).then(|| 1.0 - free_blocks.min(blocks) as f64 / blocks as f64);
    (Some(inodes.saturating_sub(free_inodes)), used)
}

/// Mount options of a mount point: the fourth field of its line (fstab(5)).
fn fstab_options(fstab: &str, mount: &std::path::Path) -> Option<String> {
    fstab.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (device, point) = (fields.next()?, fields.next()?);
        let point = point.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\");
        if device.starts_with('#') || std::path::Path::new(&point) != mount {
            return None;
        }
        fields.nth(1).map(str::to_owned)
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{bitmap_file, fstab_options, jbd2};
    use crate::commands::doctor::facts::Jbd2;

    #[test]
    fn the_bitmap_file_of_the_right_array() {
        let mdstat = "Personalities : [raid1]\nmd1 : active raid1 sdb[1] sda[0]\n      10 \
                      blocks\n      bitmap: 0/1 pages [0KB], 65536KB chunk\n\nmd0 : active raid1 \
                      sdd[1] sdc[0]\n      10 blocks\n      bitmap: 0/1 pages [0KB], 64KB chunk, \
                      file: /var/md0 bitmap\n\nunused devices: <none>";
        assert_eq!(bitmap_file(mdstat, "md0").as_deref(), Some("/var/md0 bitmap"));
        assert_eq!(bitmap_file(mdstat, "md1"), None);
        assert_eq!(bitmap_file(mdstat, "md"), None);
    }

    #[test]
    fn averages_of_jbd2() {
        let info = "812 transactions (810 requested), each up to 256 blocks\naverage: \n  0ms \
                    waiting for transaction\n  3ms request delay\n  4ms running transaction\n  \
                    0ms transaction was being locked\n  9us average transaction commit time\n  61 \
                    handles per transaction\n  15 blocks per transaction\n  17 logged blocks per \
                    transaction";
        let expected = Jbd2 { transactions: 812, largest: 256, logged: 17, request_delay_ms: 3 };
        assert_eq!(jbd2(info), Some(expected));
        // A journal without a transaction has no averages.
        let none = "0 transactions (0 requested), each up to 256 blocks";
        assert_eq!((jbd2(none), jbd2("\u{0}"), jbd2("")), (None, None, None));
    }

    #[test]
    fn lines_of_fstab() {
        let fstab = "# comment\n#/dev/md0 /srv ext4 stripe=1\n/dev/md0\t/srv  ext4 \
                     noatime,stripe=0 0 2\nLABEL=x /two\\040words ext4\n";
        assert_eq!(fstab_options(fstab, Path::new("/srv")).as_deref(), Some("noatime,stripe=0"));
        assert_eq!(fstab_options(fstab, Path::new("/two words")), None);
        assert_eq!(fstab_options("", Path::new("/")), None);
    }
}
