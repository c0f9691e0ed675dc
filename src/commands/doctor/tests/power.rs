//! Rules on data at risk in a power failure.

use super::Machine;
use crate::commands::doctor::finding::FindingSeverity;

fn mounted(options: &str) -> Machine {
    let machine = Machine::raid6();
    machine.options(&format!("rw\nerrors=remount-ro\nstripe=640\n{options}"));
    machine
}

#[test]
fn barriers_off_on_disks_with_a_cache() {
    let found = mounted("nobarrier").only("fs-nobarrier");
    assert_eq!(found.severity, FindingSeverity::Critical);
    assert_eq!(found.figures["disks_with_volatile_cache"], 7);
    assert_eq!(found.commands, ["mount -o remount,barrier=1 /srv"]);
    mounted("barrier").no_findings();
    // Write-through caches lose nothing.
    let through = (0..7).fold(mounted("nobarrier"), |m, i| {
        m.with(&format!("file sys/block/{}/queue/write_cache write through", super::name(i)))
    });
    through.no_findings();
    // The origin of the option is part of the evidence, as a remount lasts only until the next
    // mount.
    let fstab = |options: &str| {
        let machine =
            mounted("nobarrier").with(&format!("file etc/fstab /dev/md0 /srv ext4 {options} 0 2"));
        machine.only("fs-nobarrier").seen.join("; ")
    };
    assert!(fstab("noatime,barrier=0").contains("from /etc/fstab"));
    assert!(!fstab("noatime").contains("from"));
    let stored = mounted("nobarrier").sb(|sb| sb.default_mount_opts |= 0x100);
    assert_eq!(stored.only("fs-nobarrier").commands[1], "tune2fs -o ^nobarrier /dev/md0");
}

#[test]
fn asynchronous_commits() {
    let found = mounted("data=writeback\njournal_async_commit").only("fs-async-commit");
    assert_eq!(found.severity, FindingSeverity::Warning);
    assert_eq!(found.commands, ["umount /srv", "mount -o data=ordered /dev/md0 /srv"]);
    mounted("data=writeback\njournal_checksum").no_findings();
}
