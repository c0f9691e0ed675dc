//! Rules on filesystems, mounts and the kernel below them.

use super::Machine;
use crate::commands::doctor::finding::FindingSeverity;
use crate::fs::ext4::OnError;

const BASE: &str = "rw\ndelalloc\ndioread_nolock\nerrors=remount-ro";

fn with_options(machine: Machine, options: &str) -> Machine {
    machine.options(&format!("{BASE}\n{options}"));
    machine
}

fn on_kernel(release: &str) -> Machine {
    Machine::raid6().with(&format!("file proc/sys/kernel/osrelease {release}"))
}

#[test]
fn errors() {
    let found = Machine::raid6()
        .with(
            "file sys/fs/ext4/md0/errors_count 2
            file sys/fs/ext4/md0/last_error_func ext4_lookup
            file sys/fs/ext4/md0/last_error_line 1705",
        )
        .only("fs-errors");
    assert_eq!(found.severity, FindingSeverity::Critical);
    assert!(found.seen.iter().any(|s| s.contains("ext4_lookup:1705")));
    assert_eq!(found.commands, ["umount /srv", "e2fsck -fn /dev/md0"]);
    Machine::raid6().sb(|sb| sb.state |= 2).only("fs-errors");

    let continues = Machine::raid6();
    continues.options("rw\nerrors=continue\nstripe=640");
    assert_eq!(continues.only("fs-errors-continue").severity, FindingSeverity::Info);
    // The mount option overrides the superblock.
    Machine::raid6().sb(|sb| sb.errors = OnError::Continue).no_findings();
}

#[test]
fn stripe_in_force() {
    for (stride, width, stripe, id) in [
        (128, 640, 640, None),
        (128, 640, 1280, None),
        (128, 640, 0, None),
        (0, 0, 640, None),
        (0, 0, 0, Some("stripe-missing")),
        (128, 0, 128, Some("stripe-from-stride")),
        (128, 384, 384, Some("stripe-wrong")),
        (16, 80, 80, Some("stripe-wrong")),
        (16, 80, 640, None),
    ] {
        let machine = with_options(Machine::raid6(), &format!("stripe={stripe}")).sb(|sb| {
            sb.raid_stride = stride;
            sb.raid_stripe_width = width;
        });
        match id {
            None => machine.no_findings(),
            Some(id) => {
                let found = machine.only(id);
                assert_eq!(
                    found.commands,
                    [
                        "tune2fs -E stride=128,stripe_width=640 /dev/md0",
                        "mount -o remount,stripe=640 /srv"
                    ],
                    "{id}"
                );
            }
        }
    }
}

#[test]
fn a_stripe_larger_than_a_group() {
    // 7 disks with 64 MiB chunks: 5 x 16384 blocks do not fit into 32768.
    let machine = with_options(Machine::raid6(), "stripe=16384")
        .with("file sys/block/md0/md/chunk_size 67108864")
        .sb(|sb| {
            sb.raid_stride = 16384;
            sb.raid_stripe_width = 81920;
        });
    let found = machine.findings();
    let found = found.iter().find(|f| f.id == "stripe-from-stride").unwrap();
    assert!(found.seen[0].contains("81920, more than the 32768 blocks"), "{:?}", found.seen);
    assert_eq!(found.commands, ["tune2fs -E stride=0,stripe_width=0 /dev/md0"]);
}

#[test]
fn stripe_0_in_fstab_is_ignored() {
    let fstab = |options: &str| {
        Machine::raid6().with(&format!("file etc/fstab /dev/md0 /srv ext4 {options} 0 2"))
    };
    let found = fstab("noatime,stripe=0").only("stripe-zero-ignored");
    assert!(found.title.contains("640"));
    assert!(!found.commands.iter().any(|c| c.starts_with("mount -o stripe=0")));
    fstab("noatime,stripe=640").no_findings();
    with_options(fstab("stripe=0"), "stripe=0").no_findings();
    Machine::raid6()
        .sb(|sb| sb.mount_opts = "nodelalloc,stripe=0".to_owned())
        .only("stripe-zero-ignored");
}

#[test]
fn the_livelock_of_6_0_to_6_7() {
    for release in ["6.0.0", "6.1.0-56-amd64", "6.5.3", "6.6.93"] {
        let found = on_kernel(release).only("alloc-stripe-livelock");
        assert_eq!(found.severity, FindingSeverity::Warning);
        assert_eq!(found.commands[0], "mount -o remount,stripe=0 /srv");
        let off = with_options(on_kernel(release), "stripe=0").ids();
        assert!(off.is_empty(), "{off:?}");
    }
    for release in ["5.10.0-46-amd64", "5.15.0", "6.8.0", "6.12.1", "7.2", "garbage"] {
        on_kernel(release).no_findings();
    }
    // Distributions backport the new allocator, and the lists can be disabled.
    on_kernel("6.1.0-99")
        .with("file proc/kallsyms ffffffff81000000 t ext4_mb_scan_groups_xa_range")
        .no_findings();
    on_kernel("6.1.0-56")
        .with("file proc/fs/ext4/md0/mb_structs_summary optimize_scan: 0")
        .no_findings();
    // mb_stats as measured in the lab, scaled to this filesystem.
    let measured = on_kernel("6.1.0-56-amd64");
    measured.tree.write(
        "proc/fs/ext4/md0/mb_stats",
        "mballoc:\n\treqs: 301\n\tgroups_scanned: 10194\n\tcr1_stats:\n\t\tgroups_considered: \
         11000\n\t\tbad_suggestions: 10187\n",
    );
    assert_eq!(measured.only("alloc-stripe-livelock").severity, FindingSeverity::Critical);
}

#[test]
fn many_groups_searched_one_by_one() {
    let old = |used: u64| {
        let machine = on_kernel("5.10.0-46-amd64").sb(|sb| {
            sb.groups = 221_184;
            sb.free_blocks_count = sb.blocks_count / 100 * (100 - used);
        });
        for file in ["sys/fs/ext4/md0/mb_max_linear_groups", "proc/fs/ext4/md0/mb_structs_summary"]
        {
            std::fs::remove_file(machine.tree.path(file)).unwrap();
        }
        machine
    };
    // A mount makes the superblock's figures unknown only on a live machine.
    let found = old(80).only("alloc-linear");
    assert_eq!(found.severity, FindingSeverity::Warning);
    // No command: a smaller mb_group_prealloc helps only with some files.
    assert!(found.commands.is_empty(), "{:?}", found.commands);
    old(50).no_findings();
    old(90).sb(|sb| sb.groups = 10_000).no_findings();
    let off = Machine::raid6()
        .with("file proc/fs/ext4/md0/mb_structs_summary optimize_scan: 0")
        .sb(|sb| {
            sb.groups = 221_184;
            sb.free_blocks_count = 0;
        });
    let found = off.only("alloc-linear");
    assert!(found.commands[1].contains("mb_optimize_scan=1"), "{:?}", found.commands);
    assert!(!found.commands.iter().any(|c| c.contains("remount")));
    let measured = old(10);
    measured.tree.write(
        "proc/fs/ext4/md0/mb_stats",
        "mballoc:\n\treqs: 200\n\tgroups_scanned: 200\n\tcr0_stats:\n\t\tgroups_considered: \
         44236800\n",
    );
    assert_eq!(measured.only("alloc-linear").severity, FindingSeverity::Critical);
}

#[test]
fn spreading_of_5_18() {
    on_kernel("5.19.0").only("alloc-spreading");
    on_kernel("5.18.3")
        .with("file proc/fs/ext4/md0/mb_structs_summary optimize_scan: 0")
        .no_findings();
    on_kernel("5.17.0").no_findings();
}

#[test]
fn stripes_on_ssds() {
    let ssds = || {
        let threads = Machine::raid6().with("file sys/block/md0/md/group_thread_cnt 4");
        (0..7).fold(threads, |m, i| {
            m.with(&format!("file sys/block/{}/queue/rotational 0", super::name(i)))
        })
    };
    assert_eq!(ssds().only("alloc-stripe-ssd").severity, FindingSeverity::Info);
    with_options(ssds(), "stripe=0").no_findings();
}

#[test]
fn direct_io() {
    let flags = libc::O_RDWR | libc::O_DIRECT;
    let open = |release: &str, flags: i32| {
        let machine = on_kernel(release);
        machine
            .tree
            .write("proc/4242/fdinfo/7", format!("pos:\t0\nflags:\t0{flags:o}\nmnt_id:\t30\n"));
        machine.tree.write("proc/4242/comm", "postgres\n");
        machine.with("link proc/4242/fd/7 /srv/base/1")
    };
    let found = open("5.4.0", flags).only("dio-exclusive");
    assert!(found.seen[0].contains("postgres (4242) writes /srv/base/1"), "{:?}", found.seen);
    open("5.10.0-46-amd64", flags).only("dio-unwritten");
    open("6.3.0", flags).ids().iter().for_each(|i| assert!(!i.contains("dio"), "{i}"));
    open("5.10.0-46-amd64", libc::O_RDWR).no_findings();
    open("5.10.0-46-amd64", libc::O_DIRECT).no_findings();

    let machine = Machine::raid6();
    machine.options("rw\nnodelalloc\ndioread_nolock\nerrors=remount-ro\nstripe=640");
    machine.only("dio-nolock-inert");
}

#[test]
fn alignment() {
    // A disk with blocks of 4 KiB and a member that begins at sector 63.
    let part = |start: u64| {
        Machine::raid6().with(&format!(
            "part sdh1 8:113 536870912 disk=sdh number=1 start={start}
            disk sdh 8:112 600000000 queue/iostats=1 queue/rotational=1 \
             queue/scheduler=[mq-deadline] queue/max_sectors_kb=1280 queue/nr_requests=256 \
             queue/write_cache=write~back queue/logical_block_size=512 \
             queue/physical_block_size=4096 device/model=HUH721212ALE601
            file sys/block/md0/md/dev-sda/slot none
            file sys/block/md0/md/dev-sda/state spare
            member md0 sdh1 slot=0 state=in_sync offset=264192 new_offset=264192 size=268435456"
        ))
    };
    part(2048).no_findings();
    let found = part(63).only("misaligned-blocks");
    assert!(found.seen[0].contains("sdh"), "{:?}", found.seen);

    let on = Machine::partition;
    on(0).no_findings();
    on(5120).no_findings();
    let found = on(2048).only("misaligned-stripes");
    assert_eq!(found.severity, FindingSeverity::Warning);
    assert!(found.title.contains("1 MiB into a stripe of 2.5 MiB"), "{}", found.title);
    on(63).only("misaligned-blocks");
}
