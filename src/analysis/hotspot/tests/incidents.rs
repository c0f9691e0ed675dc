//! Headlines for incidents with figures as from iostat.

use super::HotspotKind;
use super::headline_of;
use crate::analysis::fixture::{array, cell, member};
use crate::analysis::snapshot::{ArraySnapshot, Cell, DiskUse, TaskIo, TaskSnapshot};
use crate::origin::{Op, Origin};

/// An array of `level` with `disks` members; `of(i)`: utilisation and completed IO of each.
fn measured(level: &str, disks: u32, of: impl Fn(usize) -> (f64, Vec<Cell>)) -> ArraySnapshot {
    let members = (0..disks as usize).map(|i| member(i, of(i).1)).collect();
    let mut array = array(members);
    array.info.level = level.to_owned();
    for (i, member) in array.members.iter_mut().enumerate() {
        member.disk =
            Some(DiskUse { in_flight: 1, utilisation: of(i).0, requests: 1, uncounted: 0 });
    }
    array
}

/// `requests` of `kib` each that take `us` in the device, and half as much in the queue.
fn io(origin: Origin, op: Op, requests: u64, kib: u64, us: u64) -> Cell {
    let mut cell = cell(origin, op, requests, (requests * kib) << 10, us);
    cell.queue = crate::analysis::hist::Hist::default();
    (0..requests).for_each(|_| cell.queue.record(us / 2));
    cell
}

fn task(pid: u32, comm: &str, role: Option<&str>, io: &[(Origin, Op, u64, u64)]) -> TaskSnapshot {
    TaskSnapshot {
        pid,
        comm: comm.as_bytes().to_vec(),
        cgroup: None,
        role: role.map(str::to_owned),
        io: io
            .iter()
            .map(|&(origin, op, bios, kib)| TaskIo { origin, op, bios, bytes: (bios * kib) << 10 })
            .collect(),
        dirtied: Vec::new(),
        dirtied_files: crate::analysis::files::Files::default(),
    }
}

#[test]
fn incidents() {
    use Op::{Discard, Flush, Read, Write};
    use Origin::{BlockBitmap, FileData, Journal, MdBitmap, Parity, Resync, RmwRead};

    let mut resync = measured("raid5", 4, |i| {
        let copies = if i == 3 {
            io(Resync, Write, 900, 512, 9_000)
        } else {
            io(Resync, Read, 900, 512, 9_000)
        };
        (0.98, vec![io(FileData, Read, 600, 16, 30_000), copies])
    });
    resync.tasks = vec![task(42, "postgres", None, &[(FileData, Read, 2400, 16)])];

    let mut fragmented = measured("raid0", 12, |i| {
        let bitmaps = if i % 4 == 0 { 300 } else { 0 };
        (
            if i % 4 == 0 { 0.35 } else { 0.05 },
            vec![io(BlockBitmap, Read, bitmaps, 4, 8_000), io(FileData, Write, 60, 64, 2_000)],
        )
    });
    fragmented.tasks = vec![task(77, "rsync", None, &[(BlockBitmap, Read, 900, 4)])];

    let mut fstrim = measured("raid10", 4, |_| {
        (1.0, vec![io(FileData, Discard, 80, 65_536, 120_000), io(FileData, Read, 400, 16, 40_000)])
    });
    fstrim.tasks = vec![
        task(99, "fstrim", None, &[(FileData, Discard, 320, 65_536)]),
        task(42, "postgres", None, &[(FileData, Read, 1600, 16)]),
    ];

    let mut flushes = measured("raid1", 2, |_| {
        (
            0.97,
            vec![
                io(Journal, Flush, 400, 0, 22_000),
                io(Journal, Write, 400, 8, 500),
                io(FileData, Write, 500, 16, 800),
            ],
        )
    });
    flushes.tasks = vec![
        task(
            7,
            "jbd2/md127-8",
            Some("jbd2 journal of md127"),
            &[(Journal, Flush, 400, 0), (Journal, Write, 400, 8)],
        ),
        task(42, "mysqld", None, &[(FileData, Write, 500, 16)]),
    ];

    let mut bitmap = measured("raid1", 2, |_| {
        (0.96, vec![io(MdBitmap, Write, 480, 4, 9_000), io(FileData, Write, 500, 4, 9_000)])
    });
    bitmap.submitted = [((FileData, Write), 500 * 4096)].into();
    bitmap.tasks = vec![task(42, "postgres", None, &[(FileData, Write, 500, 4)])];

    let mut journal = measured("raid0", 6, |i| {
        if i == 2 {
            (0.97, vec![io(FileData, Write, 100, 16, 4_000), io(Journal, Write, 2_000, 12, 4_500)])
        } else {
            (0.06, vec![io(FileData, Write, 100, 16, 900), io(Journal, Write, 0, 12, 0)])
        }
    });
    journal.tasks = vec![task(
        7,
        "jbd2/md127-8",
        Some("jbd2 journal of md127"),
        &[(Journal, Write, 2_000, 12)],
    )];

    let mut writeback = measured("raid10", 4, |_| {
        (1.0, vec![io(FileData, Write, 900, 512, 30_000), io(FileData, Read, 120, 16, 90_000)])
    });
    writeback.tasks = vec![
        task(
            9,
            "kworker/u8:1+flush-9:127",
            Some("writeback of md127"),
            &[(FileData, Write, 1_800, 512)],
        ),
        task(42, "postgres", None, &[(FileData, Read, 480, 16)]),
    ];

    let idle = measured("raid6", 8, |_| (0.0, vec![]));

    let mut degraded = measured("raid5", 4, |_| (0.95, vec![io(FileData, Read, 900, 64, 20_000)]));
    degraded.members.remove(2);
    degraded.tasks = vec![task(42, "postgres", None, &[(FileData, Read, 1_400, 64)])];

    let mut small_writes = measured("raid6", 6, |_| {
        (
            0.99,
            vec![
                io(RmwRead, Read, 900, 4, 12_000),
                io(Parity, Write, 600, 4, 8_000),
                io(FileData, Write, 300, 4, 8_000),
            ],
        )
    });
    small_writes.submitted = [((FileData, Write), 1_800 * 4096)].into();
    small_writes.tasks = vec![
        task(42, "mysqld", None, &[(FileData, Write, 1_800, 4)]),
        task(43, "backup", None, &[(FileData, Read, 3_000, 64)]),
    ];

    for (what, array, kind, headline) in [
        (
            "a database beside a resync",
            resync,
            HotspotKind::Saturated,
            "the array is saturated: all 4 members are busy 98 % of the time or more, evenly; \
             mostly resync reads (73 % of the bytes); reads take 57ms (mean)",
        ),
        (
            "a full filesystem: bitmaps are read to find space",
            fragmented,
            HotspotKind::Uneven,
            "no member is saturated: the busiest, loop9, is busy 35 % of the time; block_bitmap \
             reads: loop1, loop5 and loop9 carry all of them, 4.0x the mean; ext4 reads block \
             bitmaps to find free space, see raidtrace alloc",
        ),
        (
            "fstrim",
            fstrim,
            HotspotKind::Saturated,
            "the array is saturated: all 4 members are busy 100 % of the time, evenly; mostly \
             free_space discards (in the device 100 % of the time), from fstrim (pid 99); reads \
             take 72ms (mean)",
        ),
        (
            "a storm of fsync",
            flushes,
            HotspotKind::Saturated,
            "the array is saturated: both members are busy 97 % of the time or more, evenly; \
             mostly journal flushes (in the device 100 % of the time), from jbd2 journal of md127 \
             (jbd2/md127-8)",
        ),
        (
            "a write-intent bitmap with every write",
            bitmap,
            HotspotKind::Saturated,
            "the array is saturated: both members are busy 96 % of the time or more, evenly; \
             mostly file_data writes (51 % of the bytes), from postgres (pid 42); writes cost \
             3.9x, 1.9x of it the write-intent bitmap",
        ),
        (
            "the journal is on one member",
            journal,
            HotspotKind::Saturated,
            "loop3 is busy 97 % of the time, the others 6 %: it carries all the journal writes, \
             6.0x the mean, from jbd2 journal of md127 (jbd2/md127-8)",
        ),
        (
            "reads suffer while a dirty cache is written back",
            writeback,
            HotspotKind::Saturated,
            "the array is saturated: all 4 members are busy 100 % of the time, evenly; mostly \
             file_data writes (99 % of the bytes), from writeback of md127 \
             (kworker/u8:1+flush-9:127); reads take 161ms (mean)",
        ),
        ("no IO", idle, HotspotKind::Idle, "idle: no IO on the members in the last 10 s"),
        (
            "one slot is missing",
            degraded,
            HotspotKind::Saturated,
            "the array is saturated: 1 of 4 members is missing, the other 3 are busy 95 % of the \
             time or more, evenly; mostly file_data reads (100 % of the bytes), from postgres \
             (pid 42)",
        ),
        (
            "small writes on RAID 6, beside a reader",
            small_writes,
            HotspotKind::Saturated,
            "the array is saturated: all 6 members are busy 99 % of the time or more, evenly; \
             mostly rmw_read reads (50 % of the bytes), from mysqld (pid 42); writes cost 6.0x, \
             3.0x of it pre-reads",
        ),
    ] {
        let hotspot = headline_of(&array);
        assert_eq!(hotspot.headline, headline, "{what}");
        assert_eq!(hotspot.kind, kind, "{what}");
    }
}
