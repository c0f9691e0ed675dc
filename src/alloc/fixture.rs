//! Snapshots for tests: as the machines would give them that this command is for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::figures::{self, FIGURES};
use super::reason::{self, Known};
use crate::doctor::facts::Kernel;
use crate::model::alloc::{
    AllocSnapshot, Counts, Cpu, FileAlloc, Fragmentation, FsAlloc, Groups, Refused, Share, Source,
    TaskAlloc,
};
use crate::model::files::{FileId, FilePlace};
use crate::model::hist::Hist;
use crate::model::snapshot::Overhead;

/// Major 9, minor 3.
pub const DEV: u32 = 9 << 20 | 3;

/// `n` values of `us` each.
pub fn hist(values: &[(u64, u32)]) -> Hist {
    let mut hist = Hist::default();
    for &(us, n) in values {
        (0..n).for_each(|_| hist.record(us));
    }
    hist
}

pub fn groups(values: &[(u64, u64)]) -> Groups {
    let mut groups = Groups::default();
    for &(looked, n) in values {
        groups.0[Groups::bucket(looked)] += n;
    }
    groups
}

fn reasons(of: &[(Refused, u64)]) -> [u64; Refused::ALL.len()] {
    let mut all = [0; Refused::ALL.len()];
    for &(reason, n) in of {
        all[reason as usize] = n;
    }
    all
}

/// `cr0` to `cr3`, or as 6.5 and later name them.
pub fn criteria(named: bool) -> Vec<String> {
    let names: &[&str] = if named {
        &[
            "CR_POWER2_ALIGNED",
            "CR_GOAL_LEN_FAST",
            "CR_BEST_AVAIL_LEN",
            "CR_GOAL_LEN_SLOW",
            "CR_ANY_FREE",
        ]
    } else {
        &["cr0", "cr1", "cr2", "cr3"]
    };
    names.iter().map(|n| (*n).to_owned()).collect()
}

/// A kernel, and whether its lists are on (`None`: it has none); the only ext4 of its machine.
pub fn known(release: &str, lists: Option<bool>) -> Known {
    Known {
        kernel: Kernel {
            release: release.to_owned(),
            new_allocator: false,
        },
        has_lists: Some(lists.is_some()),
        optimised: lists,
        unhooked: None,
        alone: true,
    }
}

fn task(pid: u32, comm: &str, role: Option<&str>, share: Share) -> TaskAlloc {
    TaskAlloc {
        pid,
        comm: comm.as_bytes().to_vec(),
        role: role.map(str::to_owned),
        share,
    }
}

fn file(inode: u64, path: Option<&[u8]>, share: Share) -> FileAlloc {
    FileAlloc {
        id: FileId {
            dev: DEV,
            inode,
            generation: 7,
        },
        place: FilePlace {
            path: path.map(<[u8]>::to_vec),
            device_name: "md3".to_owned(),
            mount: Some("/srv".to_owned()),
            ..FilePlace::default()
        },
        share,
    }
}

fn share(requests: u64, blocks: u64, ms: u64, looked: u64) -> Share {
    Share {
        requests,
        blocks,
        nanoseconds: ms * 1_000_000,
        looked,
    }
}

fn fs(groups: u32, counts: Counts) -> FsAlloc {
    FsAlloc {
        name: "md3".to_owned(),
        mount: Some("/srv".to_owned()),
        dev: DEV,
        block_bytes: 4096,
        groups,
        counts,
        ..FsAlloc::default()
    }
}

/// One second at 99 Hz on eight CPUs, `samples` of them in the allocator, all on CPU 5.
fn snapshot(filesystem: FsAlloc, named: bool, samples: u64, hottest: &str) -> AllocSnapshot {
    let cpu = |possible, busy, allocator: u64| Cpu {
        possible,
        busy,
        allocator,
        hottest: (allocator > 0).then(|| (hottest.to_owned(), (allocator * 9).div_ceil(10))),
    };
    let mut sources: BTreeMap<&'static str, Source> =
        FIGURES.map(|f| (f, Source::Tracepoint)).into();
    for (figure, source) in [
        (figures::GROUPS, Source::Fentry),
        (figures::REASONS, Source::Fentry),
        (figures::WAITS, Source::Fentry),
        (figures::FRAGMENTATION, Source::MbGroups),
        (figures::CPU, Source::Samples),
    ] {
        sources.insert(figure, source);
    }
    AllocSnapshot {
        time: "2026-11-20T12:00:01Z".parse().unwrap(),
        interval: Duration::from_secs(1),
        filesystems: vec![filesystem],
        criteria: criteria(named),
        cpu: Some(cpu(8 * 99, 30 + samples, samples)),
        cpus: [(2, cpu(99, 30, 0)), (5, cpu(99, samples.max(1), samples))].into(),
        on_cpu: vec![
            (
                4711,
                b"kworker/u32:1+flush-9:3".to_vec(),
                cpu(99, samples.max(1), samples),
            ),
            (901, b"nginx".to_vec(), cpu(99, 30, 0)),
        ],
        sources,
        lost: 0,
        overhead: Overhead {
            bpf_ns: 4_200_000,
            bpf_events: 61_000,
            ..Overhead::default()
        },
        notes: Vec::new(),
    }
}

/// `snapshot` with what stands out.
pub fn judged(mut snapshot: AllocSnapshot, known: Known) -> AllocSnapshot {
    let known = snapshot
        .filesystems
        .iter()
        .map(|f| {
            let alone = known.alone && snapshot.filesystems.len() == 1;
            (
                f.dev,
                Known {
                    alone,
                    ..known.clone()
                },
            )
        })
        .collect();
    reason::judge(&mut snapshot, &known);
    snapshot
}

/// 6.12, plenty of room: thousands of files a second, each search served by the first group that a list proposes.
pub fn healthy() -> AllocSnapshot {
    let counts = Counts {
        requests: 5120,
        asked: 20_480,
        given: 5120,
        got: 20_480,
        latency: hist(&[(3, 4800), (7, 300), (180, 20)]),
        nanoseconds: 24_100_000,
        searches: 420,
        goal: 420 * 512,
        preallocated: 4700,
        criteria: [400, 20, 0, 0, 0],
        scanned: 431,
        groups: groups(&[(1, 80), (2, 310), (6, 30)]),
        looked: [820, 60, 0, 0, 0],
        refused: [9, 30, 0, 0, 0],
        reasons: reasons(&[(Refused::Order, 30), (Refused::Average, 9)]),
        bitmaps: 3,
        buddies: 3,
        reads: 0,
        prefetches: 64,
        waits: Hist::default(),
        discards: 12,
    };
    let fragmentation = Fragmentation {
        largest: vec![0, 0, 0, 1, 2, 5, 9, 14, 30, 61, 130, 420, 1890, 6400],
        extents: None,
        average: None,
        groups: 8962,
        optimised: Some(true),
    };
    let mut fs = FsAlloc {
        tasks: vec![
            task(
                812,
                "kworker/u32:3+flush-9:3",
                Some("writeback"),
                share(4900, 19_600, 22, 840),
            ),
            task(4000, "tar", None, share(220, 880, 2, 40)),
        ],
        files: vec![
            file(
                131_073,
                Some(b"/srv/db/base/2619"),
                share(900, 3600, 4, 150),
            ),
            file(131_074, Some(b"/srv/db/base/2620"), share(400, 1600, 2, 60)),
        ],
        fragmentation: Some(fragmentation),
        members: vec![("sda1".to_owned(), 64, 64 * 4096, hist(&[(900, 64)]))],
        ..fs(9594, counts)
    };
    fs.stripe = 0;
    let mut snapshot = snapshot(fs, true, 2, "ext4_mb_mark_diskspace_used");
    snapshot.sources.insert("fragmentation", Source::MbStructs);
    judged(snapshot, known("6.12.107+deb13-amd64", Some(true)))
}

/// 27 TB in 221,184 groups, 80 % full of small files, 5.10 without lists: each search asks every group twice.
pub fn linear() -> AllocSnapshot {
    let all = 221_184;
    let counts = Counts {
        requests: 22,
        asked: 22 * 512,
        given: 21,
        got: 21 * 380,
        latency: hist(&[(38_000, 15), (52_000, 5), (81_000, 1)]),
        nanoseconds: 911_000_000,
        searches: 21,
        goal: 21 * 512,
        preallocated: 0,
        criteria: [0, 1, 20, 0, 0],
        scanned: 24,
        groups: groups(&[(442_000, 20), (190_000, 1)]),
        looked: [21 * all, 20 * all + 91_000, 4_100, 0, 0],
        refused: [21 * all, 20 * all + 90_999, 4_080, 0, 0],
        reasons: reasons(&[(Refused::Order, 4640), (Refused::Average, 4440)]),
        bitmaps: 0,
        buddies: 0,
        reads: 0,
        prefetches: 0,
        waits: Hist::default(),
        discards: 0,
    };
    let fragmentation = Fragmentation {
        largest: vec![
            9, 700, 9800, 31_000, 52_000, 61_000, 40_000, 19_000, 5200, 900, 610, 200, 50, 10,
        ],
        extents: Some(vec![
            9_100_000, 4_800_000, 2_100_000, 900_000, 310_000, 120_000, 41_000, 19_000, 5400, 920,
            615, 201, 50, 10,
        ]),
        average: Some(vec![120, 31_000, 88_000, 76_000, 20_000, 3000, 800, 200]),
        groups: all,
        optimised: None,
    };
    let fs = FsAlloc {
        tasks: vec![task(
            4711,
            "kworker/u32:1+flush-9:3",
            Some("writeback"),
            share(21, 21 * 380, 911, 41 * all + 95_100),
        )],
        files: vec![
            file(
                88_080_401,
                Some(b"/srv/mail/0a/3f/1700000000.eml"),
                share(3, 900, 130, 1_327_000),
            ),
            file(88_080_402, None, share(2, 760, 88, 884_000)),
        ],
        fragmentation: Some(fragmentation),
        ..fs(all as u32, counts)
    };
    judged(
        snapshot(fs, false, 97, "ext4_mb_good_group"),
        known("5.10.0-34-amd64", None),
    )
}

/// 6.1 with stripe=640: the same group is proposed again and again.
pub fn livelock() -> AllocSnapshot {
    let all = 65_536;
    let counts = Counts {
        requests: 3,
        asked: 1920,
        given: 2,
        got: 1280,
        latency: hist(&[(310_000, 2)]),
        nanoseconds: 604_000_000,
        searches: 2,
        goal: 2 * 640,
        preallocated: 0,
        criteria: [0, 1, 1, 0, 0],
        scanned: 2 * 65_530,
        groups: groups(&[(131_092, 2)]),
        looked: [40, 2 * 131_070, 3, 0, 0],
        refused: [3, 120, 1, 0, 0],
        reasons: [0; Refused::ALL.len()],
        ..Counts::default()
    };
    let fs = FsAlloc {
        stripe: 640,
        tasks: vec![task(
            77,
            "kworker/u8:2+flush-9:3",
            Some("writeback"),
            share(2, 1280, 604, 262_183),
        )],
        ..fs(all, counts)
    };
    let mut snapshot = snapshot(fs, false, 98, "ext4_mb_scan_aligned");
    snapshot.sources.insert("fragmentation", Source::MbStructs);
    judged(snapshot, known("6.1.0-41-amd64", Some(true)))
}

/// Mounted a minute ago, nearly full: the search reads bitmap after bitmap, all from one member.
pub fn cold() -> AllocSnapshot {
    let counts = Counts {
        requests: 9,
        asked: 9 * 8,
        given: 8,
        got: 64,
        latency: hist(&[(90_000, 7), (190_000, 1)]),
        nanoseconds: 790_000_000,
        searches: 8,
        goal: 8 * 512,
        criteria: [0, 0, 0, 7, 1],
        scanned: 71,
        groups: groups(&[(9, 4), (30, 4)]),
        looked: [16, 16, 0, 124, 8],
        refused: [16, 16, 0, 60, 0],
        reasons: reasons(&[(Refused::Full, 92)]),
        bitmaps: 96,
        buddies: 96,
        reads: 96,
        prefetches: 0,
        waits: hist(&[(7800, 90), (14_000, 6)]),
        ..Counts::default()
    };
    let fs = FsAlloc {
        tasks: vec![task(5150, "postgres", None, share(8, 64, 790, 164))],
        members: vec![
            (
                "loop5".to_owned(),
                93,
                93 * 4096,
                hist(&[(7700, 88), (13_900, 5)]),
            ),
            ("loop9".to_owned(), 3, 3 * 4096, hist(&[(4000, 3)])),
        ],
        ..fs(9594, counts)
    };
    judged(
        snapshot(fs, true, 1, "ext4_mb_init_cache"),
        known("6.12.107+deb13-amd64", Some(true)),
    )
}

/// 6.12 with the lists on, 95 % full in small pieces: no list has what is asked for.
pub fn fragmented() -> AllocSnapshot {
    let mut s = linear();
    let fs = &mut s.filesystems[0];
    let c = &mut fs.counts;
    c.criteria = [0, 3, 5, 13, 0];
    c.looked = [60, 120, 220, 21 * 41_000, 0];
    c.refused = [10, 30, 60, 21 * 40_990, 0];
    c.groups = groups(&[(41_000, 21)]);
    s.criteria = criteria(true);
    judged(s, known("6.12.107+deb13-amd64", Some(true)))
}

/// Neither fentry nor kprobes: tracepoints and samples of the machine of [`linear`].
pub fn degraded() -> AllocSnapshot {
    let mut s = linear();
    let fs = &mut s.filesystems[0];
    let c = &mut fs.counts;
    c.groups = Groups::default();
    c.looked = [0; 5];
    c.refused = [0; 5];
    c.reasons = [0; Refused::ALL.len()];
    fs.fragmentation = None;
    fs.tasks[0].share.looked = 0;
    fs.files.iter_mut().for_each(|f| f.share.looked = 0);
    for figure in [
        figures::GROUPS,
        figures::REASONS,
        figures::WAITS,
        figures::FRAGMENTATION,
    ] {
        s.sources.insert(figure, Source::None);
    }
    s.notes =
        vec!["groups looked at are not counted: fentry and kprobes are refused here".to_owned()];
    let known = Known {
        unhooked: Some("fentry and kprobes are refused".to_owned()),
        ..known("5.10.0-34-amd64", None)
    };
    judged(s, known)
}

/// Nothing was allocated.
pub fn empty() -> AllocSnapshot {
    let mut s = snapshot(fs(9594, Counts::default()), true, 0, "");
    s.on_cpu.clear();
    s.cpus.clear();
    judged(s, known("6.12.107+deb13-amd64", Some(true)))
}

/// 64 CPUs, 500 tasks, files and three filesystems, with names that nobody should draw as they are.
pub fn huge() -> AllocSnapshot {
    let mut s = linear();
    let evil = b"\x1b]0;rm -rf\x07\xff\xe2\x80\xae".to_vec();
    let fs = &mut s.filesystems[0];
    let one = fs.files[0].clone();
    for i in 0..500u32 {
        let ms = u64::from(900 / (i + 1));
        let comm = format!("writer-{i}");
        fs.tasks
            .push(task(10_000 + i, &comm, None, share(1, 8, ms, 9)));
        let path = format!("/srv/a-very-long-name-of-a-directory/and-another/{i:08}.data");
        let mut file = file(
            u64::from(i) + 9000,
            Some(path.as_bytes()),
            share(1, 8, ms, 9),
        );
        file.place.deleted = i % 9 == 0;
        fs.files.push(file);
    }
    fs.tasks[1].comm.clone_from(&evil);
    fs.files[1].place.path = Some(evil.clone());
    fs.files[2] = one;
    let mut second = fs.clone();
    (second.name, second.dev) = ("dm-17".to_owned(), 253 << 20 | 17);
    second.mount = Some("/mnt/\u{202e}evil\x1b[2J".to_owned());
    let mut third = second.clone();
    (third.name, third.dev, third.mount) = ("nvme0n1p2".to_owned(), 259 << 20 | 2, None);
    s.filesystems.extend([second, third]);
    for i in 0..64 {
        let allocator = u64::from(i) % 50;
        s.cpus.insert(
            i,
            Cpu {
                possible: 99,
                busy: allocator + 40,
                allocator,
                hottest: None,
            },
        );
        s.on_cpu.push((
            10_000 + i,
            evil.clone(),
            Cpu {
                possible: 99,
                busy: allocator + 40,
                allocator,
                hottest: None,
            },
        ));
    }
    s.cpu = Some(Cpu {
        possible: 64 * 99,
        busy: 4200,
        allocator: 1500,
        hottest: Some(("ext4_mb_good_group".to_owned(), 1200)),
    });
    s.lost = 1200;
    s.notes = vec![
        "symbols are hidden (kernel.kptr_restrict): functions have no names\x1b[2J".to_owned(),
    ];
    judged(s, known("5.10.0-34-amd64", None))
}
