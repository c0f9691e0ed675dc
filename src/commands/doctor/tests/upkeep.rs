//! Rules on parity levels, maintenance, and the page cache.

use super::Machine;
use crate::commands::doctor::finding::FindingSeverity;

fn rotational(value: u32) -> Machine {
    (0..7).fold(Machine::raid6(), |m, i| {
        m.with(&format!("file sys/block/{}/queue/rotational {value}", super::name(i)))
    })
}

#[test]
fn the_write_hole() {
    for policy in ["resync", "bitmap"] {
        let machine =
            Machine::raid6().with(&format!("file sys/block/md0/md/consistency_policy {policy}"));
        let found = machine.only("parity-write-hole");
        assert_eq!(found.severity, FindingSeverity::Info);
        assert!(found.seen[0].contains(policy) && found.commands.is_empty());
    }
    for policy in ["ppl", "journal"] {
        Machine::raid6()
            .with(&format!("file sys/block/md0/md/consistency_policy {policy}"))
            .no_findings();
    }
    // Mirrors have no write hole.
    Machine::new("raid10", 6, None).no_findings();
}

#[test]
fn fast_disks_with_one_thread() {
    let fast = || {
        let machine = rotational(0);
        machine.options("rw\nerrors=remount-ro\nstripe=0");
        machine
    };
    let found = fast().only("parity-stripe-cache");
    assert_eq!(
        found.commands,
        [
            "echo 4 > /sys/block/md0/md/group_thread_cnt",
            "echo 4096 > /sys/block/md0/md/stripe_cache_size"
        ]
    );
    assert!(found.risk.contains("112 MiB"), "{}", found.risk);
    fast().with("file sys/block/md0/md/group_thread_cnt 2").no_findings();
    fast().with("file sys/block/md0/md/stripe_cache_size 8192").no_findings();
    rotational(1).no_findings();
}

#[test]
fn discards_on_parity_levels() {
    let members = |m: Machine| {
        (0..7).fold(m, |m, i| {
            m.with(&format!("file sys/block/{}/queue/discard_max_bytes 4096", super::name(i)))
        })
    };
    let asked = || {
        let machine = members(Machine::raid6());
        machine.options("rw\nerrors=remount-ro\nstripe=640\ndiscard");
        machine
    };
    let found = asked().only("parity-discard-inert");
    assert!(found.seen.iter().any(|s| s.ends_with("devices_handle_discard_safely: N")));
    // Disks without discards; no such mount option.
    let machine = Machine::raid6();
    machine.options("rw\nerrors=remount-ro\nstripe=640\ndiscard");
    machine.no_findings();
    members(Machine::raid6()).no_findings();

    let trusted = || {
        asked()
            .with("file sys/block/md0/queue/discard_max_bytes 4096")
            .with("file sys/module/raid456/parameters/devices_handle_discard_safely Y")
    };
    assert_eq!(trusted().only("parity-discard-trusted").severity, FindingSeverity::Info);
    // Discards may be the reason for mismatches.
    let ids = trusted().with("file sys/block/md0/md/mismatch_cnt 8").ids();
    assert_eq!(ids, ["warning array-mismatch", "warning parity-discard-trusted"]);
}

#[test]
fn no_check_since_assembly() {
    let never = |word: &str| {
        Machine::raid6().with(&format!("file sys/block/md0/md/last_sync_action {word}"))
    };
    for word in ["none", "idle"] {
        let found = never(word).only("array-unchecked");
        assert_eq!(found.severity, FindingSeverity::Info);
        assert_eq!(found.figures["uptime_days"], 100);
        assert_eq!(found.array.as_deref(), Some("md0"));
    }
    // The last check is unknown after any sync, and a host that has just booted has had no time for
    // one.
    for word in ["check", "repair", "resync", "recover"] {
        never(word).no_findings();
    }
    never("none").with("file proc/uptime 86400.5 1.0").no_findings();
    // mdcheck worked on this array today, by its UUID; then on another one.
    let file = |uuid: &str| {
        never("none")
            .with("file sys/block/md0/md/uuid 01234567-89ab-cdef-0123-456789abcdef")
            .with(&format!("file var/lib/mdcheck/Checked_{uuid} x"))
    };
    file("01234567:89abcdef:01234567:89abcdef").no_findings();
    file("ffffffff:89abcdef:01234567:89abcdef").only("array-unchecked");
}

#[test]
fn no_monitor() {
    let without = |machine: Machine| {
        machine.tree.write("proc/77/cmdline", "mdadm\0--monitor\0--oneshot\0");
        machine
    };
    let found = without(Machine::raid6()).only("monitor-none");
    assert_eq!((found.severity, found.array.as_deref()), (FindingSeverity::Info, None));
    // Nothing to monitor.
    without(Machine::new("raid0", 12, Some(32744))).no_findings();
    // A PID namespace does not show the processes of the host.
    without(Machine::raid6()).with("link proc/1/ns/pid pid:[4026532000]").no_findings();
}

#[test]
fn read_ahead_of_less_than_a_stripe() {
    // 5 data disks with chunks of 512 KiB.
    let found =
        Machine::raid6().with("file sys/block/md0/queue/read_ahead_kb 8").only("array-read-ahead");
    assert_eq!(found.commands, ["echo 5120 > /sys/block/md0/queue/read_ahead_kb"]);
    Machine::raid6().with("file sys/block/md0/queue/read_ahead_kb 2560").no_findings();
}

#[test]
fn more_dirty_memory_than_the_disks_can_write() {
    // 16 GiB: 21 s at 5 x 150 MiB/s; 32 GiB: 43 s.
    let limit =
        |bytes: u64| Machine::raid6().with(&format!("file proc/sys/vm/dirty_bytes {bytes}"));
    limit(16 << 30).no_findings();
    let found = limit(32 << 30).only("dirty-limits");
    assert_eq!(found.severity, FindingSeverity::Info);
    assert_eq!(found.figures["seconds"], 43);
    assert_eq!(found.commands.len(), 2);
    // A fifth of the memory that is available.
    let machine = Machine::raid6().with("file proc/meminfo MemAvailable: 268435456 kB");
    let found = machine.only("dirty-limits");
    assert!(found.seen[0].contains("dirty_ratio is 20 %"), "{:?}", found.seen);
    // The rate of SSDs is not assumed.
    let ssds = rotational(0)
        .with("file proc/sys/vm/dirty_bytes 34359738368")
        .with("file sys/block/md0/md/group_thread_cnt 2");
    ssds.options("rw\nerrors=remount-ro\nstripe=0");
    ssds.no_findings();
}
