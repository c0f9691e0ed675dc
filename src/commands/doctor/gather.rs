//! Facts of this machine, or of a tree of files that looks like one. Reads sysfs, /proc and /etc/fstab; the filesystems
//! have been read by `topology`. Judges nothing.

use super::facts::{ArrayFacts, Bitmap, Disk, Facts, FsFacts, Jbd2};
use super::{ata, mounted, openers, upkeep};
use crate::advice::kernel::Kernel;
use crate::analysis::placement::geometry::Typed;
use crate::analysis::placement::{Below, Filesystem, Report, Spread, Target};
use crate::fs::ext4::features::incompat;
use crate::fs::ext4::{FsKind, Superblock};
use crate::machine::mballoc;
use crate::machine::mballoc::MbStats;
use crate::machine::topology;
use crate::machine::topology::Topology;
use crate::machine::{Array, Filesystem as Place, Member, Sys};

/// Direct writes into preallocated blocks share the inode's lock from here on (240930fb7e6b).
const DIRECT_SHARED: (u32, u32) = (6, 3);
/// `EXT4_VALID_FS`: unmounted cleanly.
const VALID_FS: u16 = 1;
/// Sectors of bad blocks that are read: md's own log has room for 512 runs.
const BAD_RUNS: usize = 512;

/// Everything, of the arrays that `topology` has. `stopped`: those that do not run.
pub fn gather(sys: &Sys, topology: &Topology, stopped: Vec<(String, String)>) -> Facts {
    let mut facts = Facts {
        kernel: Kernel::running(sys),
        host: upkeep::host(sys),
        stopped,
        notes: topology.notes.clone(),
        ..Facts::default()
    };
    let version = facts.kernel.version();
    let mdstat = sys.text("/proc/mdstat").unwrap_or_default();
    let fstab = sys.text("/etc/fstab").unwrap_or_default();
    for array in &topology.host.arrays {
        let mut of = array_facts(sys, array, &mdstat);
        for place in &array.filesystems {
            let mut place = place.clone();
            if sys.is_live() {
                facts.notes.extend(mounted::drop_covered(&mut place));
            }
            let fs = filesystem(sys, topology, array, &place, &fstab);
            of.filesystems.push(fs);
        }
        facts.arrays.push(of);
    }
    if version != (0, 0) && version < DIRECT_SHARED {
        let cut = openers::find(sys, &mut facts.arrays);
        facts.notes.extend(cut);
    }
    facts
}

fn array_facts(sys: &Sys, array: &Array, mdstat: &str) -> ArrayFacts {
    let dir = format!("/sys/block/{}", array.name);
    let disks = array
        .members
        .iter()
        .map(|m| disk(sys, array, m))
        .collect::<Vec<_>>();
    let number = |what: &str| sys.number::<u64>(&format!("{dir}/{what}"));
    ArrayFacts {
        disks,
        bitmap: if array.is_md() {
            bitmap(sys, &dir, &array.name, mdstat)
        } else {
            Bitmap::None
        },
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
        // `none` where nothing is to be resynced.
        resync_from: number("md/resync_start"),
        optimal_io: number("queue/optimal_io_size").unwrap_or(0),
        array: array.clone(),
        filesystems: Vec::new(),
    }
}

fn bitmap(sys: &Sys, dir: &str, name: &str, mdstat: &str) -> Bitmap {
    let of = |what: &str| sys.text(&format!("{dir}/md/bitmap/{what}"));
    let number = |what: &str| of(what).and_then(|t| t.parse().ok()).unwrap_or(0);
    let kind = sys
        .text(&format!("{dir}/md/bitmap_type"))
        .unwrap_or_default();
    match of("location").as_deref() {
        _ if kind.contains("[llbitmap]") => Bitmap::Lockless,
        None | Some("none") => Bitmap::None,
        Some("file") => Bitmap::File {
            path: bitmap_file(mdstat, name).unwrap_or_default(),
        },
        Some(_) => Bitmap::Internal {
            chunk: number("chunksize"),
            time_base: number("time_base"),
        },
    }
}

/// `bitmap: 0/1 pages [0KB], 65536KB chunk, file: /var/md0.bitmap`, in the lines of one array.
fn bitmap_file(mdstat: &str, name: &str) -> Option<String> {
    let mut lines = mdstat.lines();
    lines.find(|l| l.split_once(" : ").is_some_and(|(n, _)| n == name))?;
    let mut own = lines.take_while(|l| l.starts_with(' '));
    own.find_map(|l| Some(l.split_once("file: ")?.1.trim().to_owned()))
}

fn disk(sys: &Sys, array: &Array, member: &Member) -> Disk {
    let dir = format!("/sys/block/{}", member.disk_name);
    let md = format!("/sys/block/{}/md/dev-{}", array.name, member.name);
    let number = |what: &str| sys.number(&format!("{dir}/{what}")).unwrap_or(0);
    let text = |what: &str| sys.text(&format!("{dir}/{what}")).unwrap_or_default();
    let bad = sys.text(&format!("{md}/bad_blocks")).unwrap_or_default();
    let run = |line: &str| {
        let (first, count) = line.trim().split_once(' ')?;
        Some((first.parse().ok()?, count.parse().ok()?))
    };
    Disk {
        model: text("device/model"),
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
        bad_blocks: bad.lines().filter_map(run).take(BAD_RUNS).collect(),
        read_errors: sys.number(&format!("{md}/errors")).unwrap_or(0),
    }
}

fn filesystem(
    sys: &Sys,
    topology: &Topology,
    array: &Array,
    place: &Place,
    fstab: &str,
) -> FsFacts {
    let proc = format!("/proc/fs/ext4/{}", place.name);
    let dir = format!("/sys/fs/ext4/{}", place.name);
    let of = |what: &str| sys.text(&format!("{dir}/{what}"));
    let options = sys.text(&format!("{proc}/options")).unwrap_or_default();
    let layout = topology.layouts.get(&place.dev);
    // An external journal has no groups, and nothing about it can be advised.
    let layout = layout.filter(|l| l.kind != FsKind::JournalDevice);
    let superblock = layout.and_then(|l| l.superblock.clone());
    let (report, before) = layout.map_or((None, None), |l| {
        spread(array, place, Filesystem::of(l.clone()))
    });
    let (inodes, used) = in_use(sys, place, !options.is_empty(), superblock.as_ref());
    let error = of("last_error_func").map(|func| {
        let line = of("last_error_line").unwrap_or_default();
        format!("{func}:{line}")
    });
    FsFacts {
        fs: place.clone(),
        report,
        before,
        options: options
            .lines()
            .map(|line| match line.split_once('=') {
                Some((name, value)) => (name.to_owned(), value.to_owned()),
                None => (line.to_owned(), String::new()),
            })
            .collect(),
        fstab: place
            .mounts
            .iter()
            .find_map(|m| fstab_options(fstab, &m.path)),
        optimised: mballoc::optimises(sys, &place.name),
        no_lists: of("mb_group_prealloc").is_some()
            && of("mb_max_linear_groups").is_none()
            && !sys.path(format!("{proc}/mb_structs_summary")).exists(),
        scanned: MbStats::read(sys, &place.name),
        errors: of("errors_count").and_then(|t| t.parse().ok()).unwrap_or(0),
        last_error: error.unwrap_or_default(),
        inodes,
        used,
        direct: Vec::new(),
        journal: layout.map(|l| l.journal),
        jbd2: superblock.as_ref().and_then(|sb| {
            let info = format!("/proc/fs/jbd2/{}-{}/info", place.name, sb.journal_inum);
            jbd2(&sys.text(&info)?)
        }),
        superblock,
    }
}

/// `812 transactions (810 requested), each up to 256 blocks`, then averages, a line each: `  14 logged blocks per transaction`.
fn jbd2(info: &str) -> Option<Jbd2> {
    let number = |text: &str| -> Option<u64> {
        let digits = text.trim().split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    };
    let first = info.lines().next()?;
    let average = |what: &str| info.lines().find(|l| l.ends_with(what)).and_then(number);
    Some(Jbd2 {
        transactions: number(first)?,
        largest: number(first.split_once("each up to ")?.1)?,
        logged: average(" logged blocks per transaction")?,
        request_delay_ms: average("ms request delay")?,
    })
}

/// Where fixed places fall; and how evenly they would on the array that a reshape comes from.
fn spread(
    array: &Array,
    place: &Place,
    fs: Filesystem,
) -> (Option<Report>, Option<crate::analysis::placement::Skews>) {
    if !array.is_md() || place.segments.is_empty() {
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
        Some(Spread::new(&fs, &geometry, &place.segments).skews())
    });
    let Ok(geometry) = topology::geometry(array) else {
        return (None, before);
    };
    let name = |slot| {
        let member = array.members.iter().find(|m| m.slot == Some(slot));
        member.map_or_else(|| format!("slot {slot}"), |m| m.name.clone())
    };
    let members = (0..geometry.disks()).map(name).collect();
    let report = Report::new(Target {
        name: place.name.clone(),
        fs,
        segments: place.segments.clone(),
        array: Below {
            name: Some(array.name.clone()),
            geometry,
            members,
            shape: Typed::of(array).unwrap_or_default(),
        },
        notes: Vec::new(),
    });
    (Some(report), before)
}

/// Inodes in use and the share of blocks in use. What the superblock says holds only where the filesystem was unmounted
/// cleanly: while mounted, here or in a container, it is as old as the mount.
fn in_use(
    sys: &Sys,
    place: &Place,
    mounted: bool,
    sb: Option<&Superblock>,
) -> (Option<u64>, Option<f64>) {
    let share = |free: u64, all: u64| (all > 0).then(|| 1.0 - free.min(all) as f64 / all as f64);
    if let Some(mount) = place.mounts.first().filter(|_| sys.is_live()) {
        // Asked of the directory that was opened: the path may lead elsewhere by now.
        let root = mounted::open(&mount.path, place.dev);
        return match root.and_then(|fd| rustix::fs::fstatvfs(fd).ok()) {
            Some(s) => (
                Some(s.f_files.saturating_sub(s.f_ffree)),
                share(s.f_bfree, s.f_blocks),
            ),
            None => (None, None),
        };
    }
    let clean = |sb: &&Superblock| sb.state & VALID_FS != 0 && !sb.has_incompat(incompat::RECOVER);
    if mounted && sys.is_live() {
        return (None, None);
    }
    sb.filter(clean).map_or((None, None), |sb| {
        (
            Some(u64::from(
                sb.inodes_count.saturating_sub(sb.free_inodes_count),
            )),
            share(sb.free_blocks_count, sb.blocks_count),
        )
    })
}

/// The fourth field of the line whose second is this mount point (fstab(5)).
fn fstab_options(fstab: &str, mount: &std::path::Path) -> Option<String> {
    fstab.lines().find_map(|line| {
        let mut fields = line.split_whitespace();
        let (device, point) = (fields.next()?, fields.next()?);
        let point = point
            .replace("\\040", " ")
            .replace("\\011", "\t")
            .replace("\\134", "\\");
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
        let mdstat = "Personalities : [raid1]\nmd1 : active raid1 sdb[1] sda[0]\n      10 blocks\n      bitmap: 0/1 pages [0KB], 65536KB chunk\n\n\
            md0 : active raid1 sdd[1] sdc[0]\n      10 blocks\n      bitmap: 0/1 pages [0KB], 64KB chunk, file: /var/md0 bitmap\n\nunused devices: <none>";
        assert_eq!(
            bitmap_file(mdstat, "md0").as_deref(),
            Some("/var/md0 bitmap")
        );
        assert_eq!(bitmap_file(mdstat, "md1"), None);
        assert_eq!(bitmap_file(mdstat, "md"), None);
    }

    #[test]
    fn averages_of_jbd2() {
        let info = "812 transactions (810 requested), each up to 256 blocks\naverage: \n  0ms waiting for transaction\n  3ms request delay\n  \
            4ms running transaction\n  0ms transaction was being locked\n  9us average transaction commit time\n  61 handles per transaction\n  \
            15 blocks per transaction\n  17 logged blocks per transaction";
        let expected = Jbd2 {
            transactions: 812,
            largest: 256,
            logged: 17,
            request_delay_ms: 3,
        };
        assert_eq!(jbd2(info), Some(expected));
        // A journal without a transaction has no averages.
        let none = "0 transactions (0 requested), each up to 256 blocks";
        assert_eq!((jbd2(none), jbd2("\u{0}"), jbd2("")), (None, None, None));
    }

    #[test]
    fn lines_of_fstab() {
        let fstab = "# comment\n#/dev/md0 /srv ext4 stripe=1\n/dev/md0\t/srv  ext4 noatime,stripe=0 0 2\nLABEL=x /two\\040words ext4\n";
        assert_eq!(
            fstab_options(fstab, Path::new("/srv")).as_deref(),
            Some("noatime,stripe=0")
        );
        assert_eq!(fstab_options(fstab, Path::new("/two words")), None);
        assert_eq!(fstab_options("", Path::new("/")), None);
    }
}
