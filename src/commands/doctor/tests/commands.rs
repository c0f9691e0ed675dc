//! Commands are safe to paste: none that can destroy data names an existing device.

use std::collections::BTreeSet;

use super::Machine;
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::rules::IDS;

/// Prefixes of commands that keep the content of a device. Other commands must not name a device,
/// except for placeholders (`/dev/NEW_...`).
const HARMLESS: &[&str] = &[
    "umount ",
    "mount -o ",
    "mount /dev/",
    "e2fsck -fn ",
    "tune2fs -E stride=",
    "tune2fs -e remount-ro ",
    "tune2fs -o ^nobarrier ",
    "smartctl -x ",
    "smartctl -l scterc ",
    "mdadm --detail ",
    "mdadm --run ",
    "mdadm --readwrite ",
    "mdadm --examine-badblocks ",
    "mdadm --grow --bitmap=",
    "mdadm --grow /dev/md0 --size=max",
    "mdadm --manage /dev/md0 --remove ",
    "mdadm --manage /dev/md0 --add /dev/NEW_DISK",
    "mdadm --manage /dev/md127 --add /dev/NEW_DISK",
    "systemctl enable --now mdmonitor",
];
/// Files in sysfs and /proc/sys that `echo` may write.
const FILES: &[&str] = &[
    "md/sync_action",
    "/state",
    "queue/scheduler",
    "queue/max_sectors_kb",
    "queue/nr_requests",
    "queue/iostats",
    "queue/read_ahead_kb",
    "device/timeout",
    "md/bitmap/time_base",
    "md/bitmap/location",
    "md/stripe_cache_size",
    "md/group_thread_cnt",
    "mb_group_prealloc",
    "vm/dirty_bytes",
    "vm/dirty_background_bytes",
    "module/raid456/parameters/devices_handle_discard_safely",
];
const NEVER: &[&str] = &[
    "--force",
    "--create",
    "--build",
    "--zero",
    "--raid-devices",
    "--assume",
    "repair",
    "faulty",
    "&",
    "|",
    "`",
    "$(",
];

fn check_line(line: &str) -> Result<(), String> {
    line.split(" && ").try_for_each(check_command)
}

fn check_command(command: &str) -> Result<(), String> {
    let complain = |why: &str| Err(format!("{why}: {command}"));
    if let Some(word) = NEVER.iter().find(|w| command.contains(**w)) {
        return complain(word);
    }
    if let Some(rest) = command.strip_prefix("echo ") {
        let Some((_, file)) = rest.split_once(" > ") else {
            return complain("echo to nowhere");
        };
        let known = ["/sys/", "/proc/sys/"].iter().any(|d| file.starts_with(d))
            && FILES.iter().any(|f| file.ends_with(f));
        return if known { Ok(()) } else { complain("a file not known to be harmless") };
    }
    // Names a member, whose content is kept; the disk that is overwritten is a placeholder.
    let replaces = command.starts_with("mdadm --manage /dev/md0 --replace ")
        && command.ends_with(" --with /dev/NEW_DISK");
    let named = command
        .split([' ', '=', '\''])
        .any(|word| word.starts_with("/dev/") && !word.starts_with("/dev/NEW_"));
    if !named || replaces || HARMLESS.iter().any(|h| command.starts_with(h)) {
        return Ok(());
    }
    complain("it names a device and is not known to be harmless")
}

/// Asserts that the commands of the findings are safe to paste.
#[track_caller]
pub fn may_be_pasted(found: &[Finding]) {
    for finding in found {
        assert!(IDS.contains(&finding.id), "{} is not in rules::IDS", finding.id);
        for command in &finding.commands {
            if let Err(why) = check_line(command) {
                panic!("{}: {why}", finding.id);
            }
        }
    }
}

#[test]
fn destructive_commands_are_rejected() {
    for bad in [
        "mkfs.ext4 -g 32744 /dev/md0",
        "mkfs.ext4 -g 32744 '/dev/md0'",
        "wipefs -a /dev/sda",
        "e2fsck -f /dev/md0",
        "e2fsck -fy /dev/md0",
        "mdadm --create /dev/md1 --level=5",
        "mdadm --manage /dev/md0 --add /dev/sdb",
        "mdadm --zero-superblock /dev/sdb",
        "mdadm --grow /dev/md0 --raid-devices=7",
        "mdadm --grow /dev/md0 --size=1000",
        "mdadm --manage /dev/md0 --fail /dev/sda",
        "echo repair > /sys/block/md0/md/sync_action",
        "echo 1000 > /sys/block/md0/md/component_size",
        "echo faulty > /sys/block/md0/md/dev-sda/state",
        "echo x > /dev/sda",
        "dd if=/dev/zero of=/dev/md0",
        "tune2fs -O ^has_journal /dev/md0",
        "resize2fs /dev/md0 1G",
    ] {
        assert!(check_line(bad).is_err(), "{bad}");
    }
    for good in [
        "mkfs.ext4 -g 32744 /dev/NEW_ARRAY",
        "echo check > /sys/block/md0/md/sync_action",
        "mdadm --manage /dev/md0 --add /dev/NEW_DISK",
        "mdadm --manage /dev/md127 --add /dev/NEW_DISK",
    ] {
        assert_eq!(check_line(good), Ok(()));
    }
}

/// Rules listed in docs/doctor.md: ids in the first cell of a row.
fn documented() -> BTreeSet<String> {
    let text = include_str!("../../../../docs/doctor.md");
    let rules = text.split("## JSON").next().unwrap();
    let cell = |line: &str| {
        let id = line.strip_prefix("| `")?.split_once("` |")?.0;
        id.contains('-').then(|| id.to_owned())
    };
    rules.lines().filter_map(cell).collect()
}

/// A machine with many problems at once.
fn faulty() -> Machine {
    let machine = Machine::new("raid6", 8, None)
        .with(
            "file sys/block/md0/md/degraded 1
                file sys/block/md0/md/dev-sdc/slot none
                file sys/block/md0/md/dev-sdc/state faulty
                file sys/block/md0/md/dev-sdd/bad_blocks 4096 8
                file sys/block/md0/md/dev-sde/errors 3
                file sys/block/md0/md/mismatch_cnt 128
                file sys/block/md0/md/last_sync_action check
                file sys/block/md0/md/sync_action frozen
                file sys/block/sde/queue/rotational 0
                file sys/block/sde/queue/scheduler [none]
                file sys/block/sde/queue/max_sectors_kb 128
                file sys/block/sde/queue/nr_requests 64
                file sys/block/sde/queue/iostats 0
                file sys/block/sde/device/model OTHER
                file sys/fs/ext4/md0/errors_count 2
                file etc/fstab /dev/md0 /srv ext4 stripe=0 0 2
                md md7 9:7 0 level=raid1 array_state=inactive
                disk sdx 65:0 1000
                member md7 sdx slot=0 state=spare",
        )
        .sb(|sb| {
            sb.raid_stripe_width = 384;
            sb.state |= 2;
        });
    machine.options("rw\nerrors=continue\nstripe=384\nnodelalloc\ndioread_nolock");
    machine
}

#[test]
fn each_rule_is_listed_once_and_documented() {
    let ids: BTreeSet<String> = IDS.iter().map(|id| (*id).to_owned()).collect();
    assert!(IDS.is_sorted() && ids.len() == IDS.len());
    assert_eq!(ids, documented());
}

#[test]
fn commands_of_a_faulty_machine() {
    let found = faulty().findings().len();
    assert!(found > 15, "{found}");
}
