//! The actions that a verdict advises for each cause, best first, with their risk and `not_when`.
//! Actions that the figures contradict are left out.

use super::evidence::Evidence;
use super::held::NO_SPACE;
use super::texts::action;
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

/// For a disk that is said to be at fault.
pub fn look_at(disk: &str) -> Vec<Action> {
    vec![action!("disk", disk = disk)]
}

/// For members that complete nothing: what they share.
pub fn all_hang() -> Vec<Action> {
    vec![action!("all_hang")]
}

/// For members that are all slow: what they share.
pub fn shared() -> Vec<Action> {
    vec![action!("shared")]
}

/// For paths of these NVMe drives, which are not at fault themselves.
pub fn slow_paths(drives: &[&str]) -> Vec<Action> {
    let policy = |drive| format!("echo queue-depth > /sys/block/{drive}/device/iopolicy");
    let commands: Vec<String> = drives.iter().map(policy).collect();
    vec![action!("path"), action!("queue_depth", commands = commands.join("; "))]
}

/// For waits that `raidtrace slow` explains.
pub fn show(what: &str) -> Vec<Action> {
    vec![action!("slow", what = what)]
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

/// For an array that lost too many members.
pub fn failed(array: &ArrayInfo) -> Vec<Action> {
    let lvm = of_device_mapper(&array.name);
    vec![action!(if lvm { "failed_lvm" } else { "failed" }, array = array.name)]
}

/// For members that are missing.
pub fn replace(gone: &[&str], array: &ArrayInfo) -> Vec<Action> {
    let names = gone.join(" ");
    let then = if of_device_mapper(&array.name) {
        lvconvert("--repair", array)
    } else {
        format!("mdadm /dev/{} --add NEW_DISK", array.name)
    };
    vec![action!("replace", names = names, then = then)]
}

/// For a cgroup whose limit (io.max, blkio.throttle) holds IO back.
pub fn lift_limit() -> Vec<Action> {
    vec![action!("lift_limit")]
}

pub fn suspended_array(e: &Evidence<'_>) -> Vec<Action> {
    let md = format!("/sys/block/{}/md", e.array.info.name);
    // The reshape itself suspends what it moves.
    let is_reshape = e.around.sync_action.as_deref() == Some("reshape");
    vec![action!(if is_reshape { "reshape" } else { "suspended_array" }, md = md)]
}

pub fn suspended_member(member: &str) -> Vec<Action> {
    vec![action!("suspended_member", member = member)]
}

pub fn full_pool(pool: &str) -> Vec<Action> {
    vec![match lvm_pool(pool) {
        Some(lv) => action!("full_pool_lvm", pool = quote(lv)),
        None => action!("full_pool", pool = quote(format!("/dev/mapper/{pool}"))),
    }]
}

pub fn frozen() -> Vec<Action> {
    vec![action!("frozen")]
}

pub fn before_the_array() -> Vec<Action> {
    vec![action!("before_the_array")]
}

/// For waits before IO reaches the array. `grown`: a task that does more than before.
pub fn held(kind: CauseKind, by: &str, grown: Option<&str>) -> Vec<Action> {
    let mut actions = match (kind, by) {
        (CauseKind::Journal, "full" | "locked") => vec![action!("larger_journal")],
        (CauseKind::Filesystem, "frozen") => frozen(),
        (CauseKind::Filesystem, NO_SPACE) => vec![action!("no_space")],
        (CauseKind::Filesystem, _) => vec![action!("dirty_pages")],
        (CauseKind::Allocator, _) => vec![action!("allocator")],
        (CauseKind::Lock, _) => show("the lock's file, who holds it and for how long"),
        _ => show("what the tasks wait for"),
    };
    if let Some(name) = grown {
        actions.splice(0..0, load(name));
    }
    actions
}

pub fn load(who: &str) -> Vec<Action> {
    vec![action!("limit", who = who)]
}

/// For blocks that few members hold.
pub fn spread(array: &str) -> Action {
    action!("spread", array = array)
}

/// `name` and `user`: the device with the other work, and who uses it.
pub fn neighbour(name: &str, user: &str, array: &str) -> Vec<Action> {
    vec![if user.starts_with("md") {
        action!("neighbour_array", user = user, array = array)
    } else {
        action!("neighbour", name = name)
    }]
}

/// `name`: md's sync_action.
pub fn resync(e: &Evidence<'_>, name: &str) -> Vec<Action> {
    let array = &e.array.info.name;
    let slower = e.around.settings.as_ref().and_then(|md| advice::resync(array, md));
    let mut actions: Vec<Action> = slower.map(Action::from).into_iter().collect();
    if matches!(name, "check" | "repair") {
        let stop = if of_device_mapper(array) { "stop_sync_lvm" } else { "stop_sync" };
        actions.push(action!(stop, array = array, name = name));
    }
    actions
}

pub fn bitmap(array: &ArrayInfo) -> Vec<Action> {
    let commands = if of_device_mapper(&array.name) {
        lvconvert("--regionsize 64M", array)
    } else {
        advice::larger_bitmap_chunks(&format!("/dev/{}", array.name)).join(" && ")
    };
    vec![action!("larger_bitmap_chunks", commands = commands)]
}

pub fn journal(array: &str) -> Vec<Action> {
    vec![action!("journal", array = array)]
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
