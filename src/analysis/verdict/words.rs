//! The sentence.

use super::actions;
use super::evidence::{Evidence, Explanation};
use super::held::{BITMAP_READS, HANDLES, Held, NO_SPACE};
use super::moment::Load;
use super::paths::SlowPath;
use super::{Action, Cause, CauseKind, Severity, Waiting};
use crate::analysis::around::FullPool;
use crate::analysis::hotspot::skews;
use crate::analysis::snapshot::MemberSnapshot;
use crate::analysis::units;
use crate::origin::{Origin, plural};

fn latency(us: f64) -> String {
    units::latency(Some(us as u64))
}

/// `writes to md0 take 96ms (9.9ms before 22:04:50Z): ...`
pub fn sentence(e: &Evidence<'_>, severity: Severity, waiting: &Waiting, clause: &str) -> String {
    let array = &e.array.info.name;
    let since = e.since.map(|at| at.strftime("%H:%M:%SZ").to_string());
    if severity == Severity::Stalled {
        let seconds = units::seconds_about(std::time::Duration::from_micros(waiting.us));
        let who = match e.last.hung.first() {
            Some(hung) if e.names => {
                format!("{} (pid {}) has waited {seconds} for {array}", hung.comm, hung.pid)
            }
            Some(_) => format!("a task has waited {seconds} for {array}"),
            None if !e.last.full_pools.is_empty() => format!("writes have waited {seconds}"),
            None => format!("{array} has completed nothing for {seconds}"),
        };
        return format!("{who}: {clause}");
    }
    let before = match (e.before_us, since) {
        (Some(us), Some(since)) => format!(" ({} before {since})", latency(us)),
        (Some(us), None) => format!(" ({} before)", latency(us)),
        (None, _) => {
            e.usual.map_or_else(String::new, |(us, when)| format!(" ({} {when})", latency(us)))
        }
    };
    let us = latency(e.wait_us);
    let Some((task, submits)) = &e.asleep else {
        let (op, to) = e.now.waits.op();
        return format!("{op} {to} {array} take {us}{before}: {clause}");
    };
    let who = if e.names { format!("{task} waits") } else { "tasks wait".to_owned() };
    let each = match (submits, e.now.waits.op()) {
        (false, _) => "at a time".to_owned(),
        (true, (op, to)) => format!("for each {} {to} {array}", op.trim_end_matches('s')),
    };
    format!("{who} {us} {each}{before}: {clause}")
}

fn found(cause: Cause, clause: String, actions: Vec<Action>) -> Explanation {
    Explanation { cause, accused: Vec::new(), clause, actions }
}

pub fn suspended_array(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let clause = format!("{array} is suspended (md/suspend_lo, suspend_hi); no member has its IO");
    found(cause, clause, actions::suspended_array(e))
}

pub fn suspended_member(member: &str, cause: Cause) -> Explanation {
    let clause = format!("{member} is suspended by device mapper and holds its requests");
    let actions = actions::suspended_member(member);
    Explanation { accused: vec![member.to_owned()], ..found(cause, clause, actions) }
}

/// For writes that a thin pool without free blocks holds.
pub fn full_pool(pool: &FullPool, cause: Cause) -> Explanation {
    let clause = format!(
        "thin pool {} has no free data blocks, and writes that need one fail after dm_thin_pool's \
         no_space_timeout (by default 60 s)",
        pool.name
    );
    found(cause, clause, actions::full_pool(&pool.name))
}

/// For a task that sleeps in a known function.
pub fn sleeps_in(e: &Evidence<'_>, function: &str, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let (clause, actions) = match cause.name.as_str() {
        "frozen" => ("the filesystem is frozen".to_owned(), actions::frozen()),
        "suspended" => {
            (format!("{array} takes no IO (it sleeps in {function})"), actions::suspended_array(e))
        }
        name => (
            format!("it sleeps in {function} ({})", name.replace('_', " ")),
            actions::show("what it waits for"),
        ),
    };
    found(cause, clause, actions)
}

/// For tasks that are held most of the time before their IO reaches the array. `grown`: a task that
/// does more than before, and its share of the array's work.
pub fn held(
    e: &Evidence<'_>,
    held: &Held,
    grown: Option<(&str, f64)>,
    cause: Cause,
) -> Explanation {
    let array = &e.array.info.name;
    let what = match (held.by.1, held.by.2) {
        (CauseKind::Filesystem, "frozen") => "the filesystem is frozen",
        (CauseKind::Filesystem, NO_SPACE) => {
            "no free block was found, and freed ones can be used after the next commit, which it \
             waits for"
        }
        (CauseKind::Filesystem, _) => "the limit of dirty pages holds it (balance_dirty_pages)",
        (CauseKind::Journal, "full") => "the journal has no room for a new handle",
        (CauseKind::Journal, "commit") => "it waits for commits of the journal",
        (CauseKind::Journal, HANDLES) => {
            "the commit of the journal waits for a handle that a task holds"
        }
        (CauseKind::Journal, "locked") => "a commit of the journal lets no handle start",
        (CauseKind::Journal, _) => {
            "the commit of the journal waits for data of files, as data=ordered writes them first"
        }
        (CauseKind::Allocator, BITMAP_READS) => {
            "ext4's allocator reads block bitmaps in its search for free blocks"
        }
        (CauseKind::Allocator, _) => "ext4's allocator searches groups for free blocks on a CPU",
        (CauseKind::Lock, _) => "it waits for the lock of a file or directory that others hold",
        (CauseKind::Md, "stripe_cache") => "no stripe of md's stripe cache is free",
        (CauseKind::Md, "barrier") => "md's barrier holds it",
        (CauseKind::Md, "superblock") => "md writes its superblocks first",
        (CauseKind::Md, "flush") => "md flushes one at a time",
        _ => "",
    };
    let what = if what.is_empty() {
        format!("{} holds it", held.by.2.replace('_', " "))
    } else {
        what.to_owned()
    };
    let share = units::percent(held.share);
    let more = grown.map_or(String::new(), |(name, part)| {
        let who = if e.names { name } else { "one task" };
        format!("; {who} does {} of {array}'s work, more than before", units::percent(part))
    });
    let when = if cause.kind == CauseKind::Allocator { "there or asleep" } else { "asleep" };
    let clause = format!("{what} ({share} of the time {when}){more}");
    let task = grown.filter(|_| e.names).map(|(name, _)| name);
    found(cause, clause, actions::held(held.by.1, held.by.2, task))
}

/// For a task that sleeps while nothing is in flight.
pub fn before_the_array(array: &str, cause: Cause) -> Explanation {
    let clause = format!(
        "nothing is in flight on {array}, so it waits before its IO gets there: for a frozen \
         filesystem (fsfreeze, a snapshot), a lock, or a limit of its cgroup"
    );
    found(cause, clause, actions::before_the_array())
}

pub fn hangs(member: &Load, e: &Evidence<'_>, cause: Cause) -> Explanation {
    let others = e.now.members.len().saturating_sub(1);
    let beside = if others > 0 { ", the other members are not" } else { "" };
    let requests = if member.in_flight == 1 { "request" } else { "requests" };
    let clause = format!(
        "{} has {} {requests} in flight and completes none{beside}",
        member.name, member.in_flight
    );
    Explanation {
        accused: vec![member.name.clone()],
        ..found(cause, clause, actions::look_at(&member.disk))
    }
}

pub fn all_hang(members: &[&Load], cause: Cause) -> Explanation {
    let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
    let clause = format!("{} complete nothing: look at what they share", units::list(&names));
    found(cause, clause, actions::path("check the host adapter, cables or SAN path; dmesg"))
}

/// `share`: of the waited time.
pub fn slow_members(members: &[&Load], e: &Evidence<'_>, share: f64) -> Explanation {
    let time = |m: &Load| latency(e.mean_us(m).unwrap_or(0.0));
    let accused: Vec<String> = members.iter().map(|m| m.name.clone()).collect();
    let others = e.now.members.iter().filter(|m| !accused.contains(&m.name));
    let others = others.filter_map(|m| e.mean_us(m)).reduce(f64::max);
    let beside = others.map_or_else(
        || ", with no more work than before".to_owned(),
        |most| format!(", the other members in {} or less, with no less work", latency(most)),
    );
    let each: Vec<String> = members.iter().map(|m| format!("{} in {}", m.name, time(m))).collect();
    let clause = match members {
        [one] => format!("{} answers in {}{beside}", one.name, time(one)),
        _ => format!("these members are slow: {}{beside}", units::list(&each)),
    };
    let disk = members.first().map_or("", |m| m.disk.as_str());
    let cause = Cause { kind: CauseKind::Member, name: units::list(&accused), share };
    Explanation { accused, ..found(cause, clause, actions::look_at(disk)) }
}

/// `paths`: at least one.
pub fn slow_paths(paths: &[SlowPath<'_>], cause: Cause) -> Explanation {
    let others = latency(paths.iter().map(|path| path.others_us).fold(0.0, f64::max));
    let clause = match paths {
        [one] => format!(
            "path {} of {} takes {}, its other paths {others} or less",
            one.name,
            one.member.name,
            latency(one.us)
        ),
        all => {
            let each: Vec<_> =
                all.iter().map(|path| format!("{} ({})", path.name, latency(path.us))).collect();
            format!(
                "paths are slow: {}; the other paths of these drives take {others} or less",
                units::list(&each)
            )
        }
    };
    let drives: Vec<&str> = paths.iter().map(|path| path.member.disk.as_str()).collect();
    found(cause, clause, actions::slow_paths(&drives))
}

pub fn neighbour(member: &Load, e: &Evidence<'_>, cause: Cause) -> Explanation {
    let user = member.neighbours.get(&cause.name).map_or("", |n| n.0.as_str());
    // A process is a task, too.
    let user = if e.names || !user.contains("(pid ") { user } else { "" };
    let who = match user {
        "" if cause.name == member.disk => format!("IO that is not {}'s", e.array.info.name),
        user if cause.name == member.disk => {
            format!("IO that is not {}'s (open in {user})", e.array.info.name)
        }
        "" => cause.name.clone(),
        user => format!("{} ({user})", cause.name),
    };
    let whose = if member.name == member.disk {
        String::new()
    } else {
        format!(", which {} shares", member.name)
    };
    let clause = format!(
        "{who} has {} of the work of the disk {}{whose}",
        units::percent(cause.share),
        member.disk
    );
    let actions = actions::neighbour(&cause.name, user, &e.array.info.name);
    found(cause, clause, actions)
}

/// `at_barrier`: it holds IO in md, and does little work.
pub fn resync(e: &Evidence<'_>, at_barrier: bool, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let name = e.around.sync_action.as_deref().unwrap_or_default();
    let what = match name {
        "recover" => "rebuild (recovery)",
        other => other,
    };
    let health = e.array.info.health.as_deref();
    let done = health.map_or(String::new(), |h| format!(" ({h})"));
    let share = units::percent(cause.share);
    let clause = if at_barrier {
        format!("the {what} of {array}{done} holds IO at its barrier ({share} of the time)")
    } else {
        format!("the {what} of {array} does {share} of its members' work{done}")
    };
    found(cause, clause, actions::resync(e, name))
}

pub fn stripe_cache(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let clause = format!(
        "all stripes of its stripe cache are in use ({} of the time in md)",
        units::percent(cause.share)
    );
    found(cause, clause, actions::stripe_cache(e))
}

/// For writes that precede those of the data, or repeat them.
pub fn extra(e: &Evidence<'_>, origin: Origin, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let is_bitmap = origin == Origin::MdBitmap;
    let (what, why) = if is_bitmap {
        ("write-intent bitmap", "writes wait for it first")
    } else {
        ("journal", "data goes there, too (data=journal), or many more files change")
    };
    let clause = format!(
        "the {what} of {array} does {} of its members' work, more than before: {why}",
        units::percent(cause.share)
    );
    let actions = if is_bitmap { actions::bitmap(&e.array.info) } else { actions::journal(array) };
    found(cause, clause, actions)
}

/// For an array that lost `gone` in the slow time.
pub fn degraded(gone: &[&str], e: &Evidence<'_>, cause: Cause) -> Explanation {
    let (names, array) = (units::list(gone), &e.array.info.name);
    let (is, whose) = if gone.len() == 1 { ("is", "its") } else { ("are", "their") };
    let clause =
        format!("{names} {is} missing ({array} is degraded): the other members do {whose} work");
    found(cause, clause, actions::replace(gone, &e.array.info))
}

pub fn in_md(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let us = e.now.members.iter().filter_map(|m| m.waited.mean_us()).fold(0.0, f64::max);
    let clause = format!("its members answer in {}, the rest of the time is in md", latency(us));
    found(cause, clause, actions::show("what in md"))
}

/// `; up to 400ms on vda and vde, with 97 % of inode_table writes, 8ms on the others`, if a few
/// members take longest and have more of some origins' work, a quarter of theirs, in the last
/// interval; else empty.
pub fn carriers(e: &Evidence<'_>) -> String {
    let us = |name: &str| e.now.member(name).and_then(|m| e.mean_us(m)).unwrap_or(0.0);
    let members = &e.array.members;
    let longest = members.iter().map(|m| us(&m.name)).fold(0.0, f64::max);
    let (slow, others): (Vec<_>, Vec<_>) =
        members.iter().partition(|m| us(&m.name) >= longest / 2.0);
    if slow.is_empty() || 2 * slow.len() > members.len() {
        return String::new();
    }
    let fair = slow.len() as f64 / members.len() as f64;
    let (mut most, mut sum) = (None, 0.0);
    for (origin, op, _) in skews(e.array) {
        let of = |these: &[&MemberSnapshot]| -> u64 {
            let cells = these.iter().flat_map(|m| &m.io);
            cells.filter(|c| (c.origin, c.op) == (origin, op)).map(|c| c.requests).sum()
        };
        let (here, all) = (of(&slow) as f64, (of(&slow) + of(&others)) as f64);
        let excess = here - fair * all;
        let is_skewed = here >= 2.0 * fair * all;
        sum += if is_skewed { here } else { 0.0 };
        if is_skewed && most.as_ref().is_none_or(|(least, _)| excess > *least) {
            let what = format!("{} of {origin} {}", units::percent(here / all), plural(op));
            most = Some((excess, what));
        }
    }
    let all: u64 = slow.iter().flat_map(|m| &m.io).map(|c| c.requests).sum();
    let Some((_, what)) = most.filter(|_| 4.0 * sum >= all as f64) else { return String::new() };
    let names: Vec<&str> = slow.iter().map(|m| m.name.as_str()).collect();
    let rest = others.iter().map(|m| us(&m.name)).fold(0.0, f64::max);
    format!(
        "; up to {} on {}, with {what}, {} on the others",
        latency(longest),
        units::list(&names),
        latency(rest)
    )
}

/// `has_grown`: the task does more than before.
pub fn load(e: &Evidence<'_>, has_grown: bool, cause: Cause) -> Explanation {
    let who = if e.names { cause.name.as_str() } else { "one of its tasks" };
    let more = if has_grown { ", more than before" } else { "" };
    // The headline of a skew names a task, too.
    let skew =
        e.array.hotspot.as_ref().filter(|h| e.names && h.is_warning() && !h.origins.is_empty());
    let why = skew.map_or_else(|| carriers(e), |h| format!("; {}", h.headline));
    let part = units::percent(cause.share);
    let clause = format!("{who} does {part} of the array's work{more}{why}");
    let mut actions = actions::load(who);
    if !why.is_empty() {
        actions.push(actions::spread(&e.array.info.name));
    }
    found(cause, clause, actions)
}

pub fn path(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let mut each: Vec<f64> = e.now.members.iter().filter_map(|m| m.waited.mean_us()).collect();
    each.sort_by(f64::total_cmp);
    let (least, most) = (each.first().copied().unwrap_or(0.0), each.last().copied().unwrap_or(0.0));
    let clause = format!(
        "all {} members answer slowly ({} to {}), with no more work than before",
        each.len(),
        latency(least),
        latency(most)
    );
    let look = "look at what the disks share: host adapter, SAN, hypervisor, CPU time";
    found(cause, clause, actions::path(look))
}

pub fn unexplained(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let io = e.now.waits.mean_us().filter(|_| e.asleep.is_some());
    let clause = io.map_or_else(
        || "the figures do not show why".to_owned(),
        |us| format!("its reads and writes take {}, the rest is before them", latency(us)),
    );
    found(cause, clause, actions::show("what the tasks wait for"))
}
