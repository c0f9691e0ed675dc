//! The actions that a verdict advises for each cause, best first, with their risk and `not_when`.
//! Actions that the figures contradict are left out.

use super::evidence::Evidence;
use super::held::NO_SPACE;
use super::{Action, CauseKind};
use crate::advice::quote::quote;
use crate::advice::slow::{self as advice, Advice};
use crate::analysis::snapshot::{ArrayInfo, DiskUse};
use crate::machine::dm::lvm_pool;

/// Share of the time that a member is busy from which on more stripes only wait longer.
const MIN_BUSY: f64 = 0.9;

impl From<Advice> for Action {
    fn from(advice: Advice) -> Self {
        let text = format!("{}: {}", advice.text, advice.commands.join(" && "));
        Self { text, risk: advice.risk, not_when: advice.not_when }
    }
}

fn look(text: impl Into<String>) -> Action {
    Action { text: text.into(), ..Action::default() }
}

fn change(text: String, not_when: &str) -> Action {
    Action { text, not_when: not_when.to_owned(), ..Action::default() }
}

/// For a disk that is said to be at fault.
pub fn look_at(disk: &str) -> Vec<Action> {
    vec![look(format!("look at the disk itself: smartctl -a /dev/{disk}; dmesg"))]
}

/// For what the disks share.
pub fn path(text: &str) -> Vec<Action> {
    vec![look(text)]
}

/// For paths of these NVMe drives, which are not at fault themselves.
pub fn slow_paths(drives: &[&str]) -> Vec<Action> {
    let policy = |drive| format!("echo queue-depth > /sys/block/{drive}/device/iopolicy");
    let commands: Vec<String> = drives.iter().map(policy).collect();
    vec![
        look(
            "look at the path, not the drive: nvme list-subsys; its adapter, switch, cable; dmesg",
        ),
        Action {
            text: format!(
                "until then, send fewer requests there (Linux 6.11 or later): {}",
                commands.join("; ")
            ),
            risk: "to undo, write the previous policy to that file".to_owned(),
            not_when: "the paths have different costs on purpose (ANA)".to_owned(),
        },
    ]
}

/// For waits that `raidtrace slow` explains.
pub fn show(what: &str) -> Vec<Action> {
    vec![look(format!("raidtrace slow shows {what}"))]
}

/// True for the kernel name of an array that LVM manages, not mdadm.
fn of_device_mapper(array: &str) -> bool {
    array.starts_with("dm-")
}

/// `lvconvert OPTIONS vg/lv`. A volume that LVM did not make has no slash in its name.
fn lvconvert(options: &str, array: &ArrayInfo) -> String {
    match array.volume.as_deref() {
        Some(volume) if volume.contains('/') => format!("lvconvert {options} {}", quote(volume)),
        Some(name) => {
            format!("reload the table of {} with dmsetup, as lvconvert {options} does", quote(name))
        }
        None => format!("lvconvert {options} of the volume that lvs -a shows"),
    }
}

/// For members that are missing.
pub fn replace(gone: &[&str], array: &ArrayInfo) -> Vec<Action> {
    let names = gone.join(" ");
    let then = if of_device_mapper(&array.name) {
        lvconvert("--repair", array)
    } else {
        format!("mdadm /dev/{} --add NEW_DISK", array.name)
    };
    let text = format!("find out why {names} went away (dmesg), then: {then}");
    vec![change(text, "another disk reports errors: copy the data first")]
}

/// For a cgroup whose limit (io.max, blkio.throttle) holds IO back.
pub fn lift_limit() -> Vec<Action> {
    let text = "raise or remove the limit of that cgroup: io.max, or blkio.throttle.* of cgroup v1 \
                (systemctl show UNIT -p IOReadBandwidthMax -p IOWriteBandwidthMax -p \
                IOReadIOPSMax -p IOWriteIOPSMax)";
    vec![change(
        text.to_owned(),
        "the limit protects others on the disks: then it does what it is for",
    )]
}

pub fn suspended_array(e: &Evidence<'_>) -> Vec<Action> {
    let md = format!("/sys/block/{}/md", e.array.info.name);
    // The reshape itself suspends what it moves.
    if e.around.sync_action.as_deref() == Some("reshape") {
        let text =
            format!("wait for the reshape; if it stands still: {md}/reshape_position, dmesg");
        return vec![look(text)];
    }
    let text = format!(
        "find what suspended it (mdadm --grow?); if nothing does: echo 0 > {md}/suspend_hi"
    );
    vec![change(text, "mdadm still runs: it moves the data of that range")]
}

pub fn suspended_member(member: &str) -> Vec<Action> {
    let text = format!(
        "find what suspended it (lvm, a snapshot?); if nothing does: dmsetup resume /dev/{member}"
    );
    vec![change(text, "lvm still runs: it may be in the middle of a change of tables")]
}

pub fn full_pool(pool: &str) -> Vec<Action> {
    let text = match lvm_pool(pool) {
        Some(lv) => format!(
            "enlarge the pool: lvextend --extents +20%LV {}; or remove volumes and snapshots \
             that nobody needs (lvremove)",
            quote(lv)
        ),
        None => format!(
            "enlarge the data device of {} and reload its table",
            quote(format!("/dev/mapper/{pool}"))
        ),
    };
    vec![change(text, "the volume group has no space: add a disk first (vgextend)")]
}

pub fn frozen() -> Vec<Action> {
    let text = "find what froze it (fsfreeze, a snapshot); if nothing does: fsfreeze -u MOUNTPOINT";
    vec![change(text.to_owned(), "a snapshot or a backup is being taken: it would be inconsistent")]
}

pub fn before_the_array() -> Vec<Action> {
    vec![look(
        "cat /proc/PID/stack of that task; if it has percpu_rwsem_wait: fsfreeze -u MOUNTPOINT",
    )]
}

/// For waits before IO reaches the array. `grown`: a task that does more than before.
pub fn held(kind: CauseKind, by: &str, grown: Option<&str>) -> Vec<Action> {
    let mut actions = match (kind, by) {
        (CauseKind::Journal, "full" | "locked") => vec![change(
            "make the journal larger (raidtrace doctor advises a size), or create fewer files"
                .to_owned(),
            "the filesystem cannot be unmounted: tune2fs requires that",
        )],
        (CauseKind::Filesystem, "frozen") => frozen(),
        (CauseKind::Filesystem, NO_SPACE) => vec![look(
            "free some space or enlarge the filesystem (df, resize2fs), and leave a few per cent \
             free",
        )],
        (CauseKind::Filesystem, _) => vec![look(
            "look at vm.dirty_bytes and vm.dirty_ratio (sysctl -a), and memory.high of its cgroup",
        )],
        (CauseKind::Allocator, _) => vec![look(
            "raidtrace alloc shows the searches and their reason (mb_optimize_scan, stripe, free \
             space in small pieces)",
        )],
        (CauseKind::Lock, _) => show("the lock's file, who holds it and for how long"),
        _ => show("what the tasks wait for"),
    };
    if let Some(name) = grown {
        actions.insert(0, limit(name));
    }
    actions
}

fn limit(who: &str) -> Action {
    let text = format!("limit or move the work of {who} (io.max of its cgroup, ionice)");
    change(text, "it is what has to be fast")
}

pub fn load(who: &str) -> Vec<Action> {
    vec![limit(who)]
}

/// For blocks that few members hold.
pub fn spread(array: &str) -> Action {
    let text =
        format!("raidtrace layout {array} shows what the members hold, and how to spread it");
    change(text, "the filesystem cannot be created again")
}

/// `name` and `user`: the device with the other work, and who uses it.
pub fn neighbour(name: &str, user: &str, array: &str) -> Vec<Action> {
    let text = if user.starts_with("md") {
        format!("slow down what uses {user}, or move it to other disks than those of {array}")
    } else {
        format!("stop or limit what uses {name} (io.max of its cgroup), or move it")
    };
    vec![change(text, "it matters more than what waits")]
}

/// `name`: md's sync_action.
pub fn resync(e: &Evidence<'_>, name: &str) -> Vec<Action> {
    let array = &e.array.info.name;
    let slower = e.around.settings.as_ref().and_then(|md| advice::resync(array, md));
    let mut actions: Vec<Action> = slower.map(Action::from).into_iter().collect();
    if matches!(name, "check" | "repair") {
        let (text, risk) = if of_device_mapper(array) {
            let message = format!("dmsetup message /dev/{array} 0");
            let undone = format!("the rest is not checked. Undone with: {message} {name}");
            (format!("stop it: {message} idle"), undone)
        } else {
            let text = format!("stop it: echo idle > /sys/block/{array}/md/sync_action");
            (text, format!("the rest is not checked. Undone with: echo {name} > that file"))
        };
        actions.push(Action { text, risk, not_when: "a disk has reported errors".to_owned() });
    }
    actions
}

pub fn bitmap(array: &ArrayInfo) -> Vec<Action> {
    let commands = if of_device_mapper(&array.name) {
        lvconvert("--regionsize 64M", array)
    } else {
        advice::larger_bitmap_chunks(&format!("/dev/{}", array.name)).join(" && ")
    };
    let text = format!("let a bit cover more: {commands}");
    let risk = "after a crash more is resynced; a crash between the commands resyncs everything";
    let not_when = "a resync runs, or a member is missing";
    vec![Action { text, risk: risk.to_owned(), not_when: not_when.to_owned() }]
}

pub fn journal(array: &str) -> Vec<Action> {
    let text = format!(
        "look for data=journal in the mount options of the filesystem on {array}; without it: \
         raidtrace top, view 3, shows whose files change"
    );
    vec![look(text)]
}

pub fn stripe_cache(e: &Evidence<'_>) -> Vec<Action> {
    let is_busy = |disk: &DiskUse| disk.utilisation >= MIN_BUSY;
    if e.array.members.iter().filter_map(|m| m.disk.as_ref()).any(is_busy) {
        return show("which stripes wait: the members are busy all the time");
    }
    let entries = e.around.settings.as_ref().and_then(|md| md.stripe_cache_size.as_deref());
    let larger = advice::stripe_cache(&e.array.info.name, entries).map(Action::from);
    larger.into_iter().map(|larger| Action { not_when: String::new(), ..larger }).collect()
}
