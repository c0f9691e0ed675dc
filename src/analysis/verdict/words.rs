//! The sentence.

use super::actions;
use super::evidence::{Evidence, Explanation};
use super::held::Held;
use super::moment::Load;
use super::paths::SlowPath;
use super::texts::{self, said};
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
    if severity == Severity::Stalled {
        let seconds = units::seconds_about(std::time::Duration::from_micros(waiting.us));
        let of = |name, task: &str, pid| {
            said!(name, task = task, pid = pid, seconds = seconds, array = array, clause = clause)
        };
        return match e.last.hung.first() {
            Some(hung) if e.names => of("stalled_named", &hung.comm, hung.pid),
            Some(_) => of("stalled", "", 0),
            None if !e.last.full_pools.is_empty() => of("stalled_pool", "", 0),
            None => of("stalled_array", "", 0),
        };
    }
    let since = e.since.map(|at| at.strftime("%H:%M:%SZ").to_string());
    let before = match (e.before_us, since) {
        (Some(us), Some(since)) => said!("before_since", us = latency(us), since = since),
        (Some(us), None) => said!("before", us = latency(us)),
        (None, _) => e
            .usual
            .map_or_else(String::new, |(us, when)| said!("usual", us = latency(us), when = when)),
    };
    let us = latency(e.wait_us);
    let (op, to) = e.now.waits.op();
    let Some((task, submits)) = &e.asleep else {
        let op = format!("{op} {to}");
        return said!("take", op = op, array = array, us = us, before = before, clause = clause);
    };
    let each = if *submits {
        said!("for_each", op = op.trim_end_matches('s'), to = to, array = array)
    } else {
        said!("at_a_time")
    };
    let name = if e.names { "wait_named" } else { "wait" };
    said!(name, task = task, us = us, each = each, before = before, clause = clause)
}

fn found(cause: Cause, clause: String, actions: Vec<Action>) -> Explanation {
    Explanation { cause, accused: Vec::new(), clause, actions }
}

pub fn suspended_array(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let clause = said!("suspended_array", array = e.array.info.name);
    found(cause, clause, actions::suspended_array(e))
}

pub fn suspended_member(member: &str, cause: Cause) -> Explanation {
    let clause = said!("suspended_member", member = member);
    let actions = actions::suspended_member(member);
    Explanation { accused: vec![member.to_owned()], ..found(cause, clause, actions) }
}

/// For writes that a thin pool without free blocks holds.
pub fn full_pool(pool: &FullPool, cause: Cause) -> Explanation {
    let clause = said!("full_pool", pool = pool.name);
    found(cause, clause, actions::full_pool(&pool.name))
}

/// For a task that sleeps in a known function.
pub fn sleeps_in(e: &Evidence<'_>, function: &str, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let (clause, actions) = match cause.name.as_str() {
        "frozen" => (texts::held(CauseKind::Filesystem, "frozen"), actions::frozen()),
        "suspended" => {
            let clause = said!("takes_no_io", array = array, function = function);
            (clause, actions::suspended_array(e))
        }
        name => {
            let clause = said!("sleeps_in", function = function, name = name.replace('_', " "));
            (clause, actions::show("what it waits for"))
        }
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
    let more = grown.map_or(String::new(), |(name, part)| {
        let (who, part) = (if e.names { name } else { "one task" }, units::percent(part));
        said!("grown", who = who, part = part, array = e.array.info.name)
    });
    let is_allocator = cause.kind == CauseKind::Allocator;
    let (what, share) = (texts::held(held.by.1, held.by.2), units::percent(held.share));
    let clause = said!(
        if is_allocator { "held_allocator" } else { "held" },
        what = what,
        share = share,
        more = more
    );
    let task = grown.filter(|_| e.names).map(|(name, _)| name);
    found(cause, clause, actions::held(held.by.1, held.by.2, task))
}

/// For a task that sleeps while nothing is in flight.
pub fn before_the_array(array: &str, cause: Cause) -> Explanation {
    let clause = said!("before_the_array", array = array);
    found(cause, clause, actions::before_the_array())
}

pub fn hangs(member: &Load, e: &Evidence<'_>, cause: Cause) -> Explanation {
    let is_alone = e.now.members.len() < 2;
    let count = member.in_flight;
    let requests = format!("{count} {}", if count == 1 { "request" } else { "requests" });
    let clause = said!(
        if is_alone { "hangs" } else { "hangs_beside" },
        member = member.name,
        requests = requests
    );
    Explanation {
        accused: vec![member.name.clone()],
        ..found(cause, clause, actions::look_at(&member.disk))
    }
}

pub fn all_hang(members: &[&Load], cause: Cause) -> Explanation {
    let names: Vec<&str> = members.iter().map(|m| m.name.as_str()).collect();
    let clause = said!("all_hang", members = units::list(&names));
    found(cause, clause, actions::all_hang())
}

/// `share`: of the waited time.
pub fn slow_members(members: &[&Load], e: &Evidence<'_>, share: f64) -> Explanation {
    let time = |m: &Load| latency(e.mean_us(m).unwrap_or(0.0));
    let accused: Vec<String> = members.iter().map(|m| m.name.clone()).collect();
    let others = e.now.members.iter().filter(|m| !accused.contains(&m.name));
    let others = others.filter_map(|m| e.mean_us(m)).reduce(f64::max);
    let beside =
        others.map_or_else(|| said!("beside_none"), |most| said!("beside", us = latency(most)));
    let each = |name, m: &Load| said!(name, member = m.name, us = time(m), beside = beside);
    let clause = match members {
        [one] => each("one_slow_member", one),
        all => {
            let all: Vec<String> = all.iter().map(|m| each("slow_member", m)).collect();
            said!("slow_members", members = units::list(&all), beside = beside)
        }
    };
    let disk = members.first().map_or("", |m| m.disk.as_str());
    let cause = Cause { kind: CauseKind::Member, name: units::list(&accused), share };
    Explanation { accused, ..found(cause, clause, actions::look_at(disk)) }
}

/// `paths`: at least one.
pub fn slow_paths(paths: &[SlowPath<'_>], cause: Cause) -> Explanation {
    let others = latency(paths.iter().map(|path| path.others_us).fold(0.0, f64::max));
    let clause = match paths {
        [one] => {
            let (drive, us) = (&one.member.name, latency(one.us));
            said!("slow_path", path = one.name, drive = drive, us = us, others = others)
        }
        all => {
            let each: Vec<_> =
                all.iter().map(|path| format!("{} ({})", path.name, latency(path.us))).collect();
            said!("slow_paths", paths = units::list(&each), others = others)
        }
    };
    let drives: Vec<&str> = paths.iter().map(|path| path.member.disk.as_str()).collect();
    found(cause, clause, actions::slow_paths(&drives))
}

pub fn neighbour(member: &Load, e: &Evidence<'_>, cause: Cause) -> Explanation {
    let user = member.neighbours.get(&cause.name).map_or("", |n| n.0.as_str());
    // A process is a task, too.
    let user = if e.names || !user.contains("(pid ") { user } else { "" };
    let array = &e.array.info.name;
    let who = match user {
        "" if cause.name == member.disk => said!("not_ours", array = array),
        user if cause.name == member.disk => {
            said!("not_ours_of", array = array, user = user)
        }
        "" => cause.name.clone(),
        user => format!("{} ({user})", cause.name),
    };
    let whose = if member.name == member.disk {
        String::new()
    } else {
        said!("shares", member = member.name)
    };
    let share = units::percent(cause.share);
    let clause = said!("neighbour", who = who, share = share, disk = member.disk, whose = whose);
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
    let clause = said!(
        if at_barrier { "resync_barrier" } else { "resync" },
        what = what,
        array = array,
        done = done,
        share = share
    );
    found(cause, clause, actions::resync(e, name))
}

pub fn stripe_cache(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let clause = said!("stripe_cache", share = units::percent(cause.share));
    found(cause, clause, actions::stripe_cache(e))
}

/// For writes that precede those of the data, or repeat them.
pub fn extra(e: &Evidence<'_>, origin: Origin, cause: Cause) -> Explanation {
    let array = &e.array.info.name;
    let is_bitmap = origin == Origin::MdBitmap;
    let clause = said!(
        if is_bitmap { "extra_bitmap" } else { "extra_journal" },
        array = array,
        share = units::percent(cause.share)
    );
    let actions = if is_bitmap { actions::bitmap(&e.array.info) } else { actions::journal(array) };
    found(cause, clause, actions)
}

/// For an array that lost `gone` in the slow time.
pub fn degraded(gone: &[&str], e: &Evidence<'_>, cause: Cause) -> Explanation {
    let (names, array) = (units::list(gone), &e.array.info.name);
    let clause = match gone {
        [one] => said!("missing", member = one, array = array),
        _ => said!("missing_members", members = names, array = array),
    };
    found(cause, clause, actions::replace(gone, &e.array.info))
}

pub fn in_md(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let us = e.now.members.iter().filter_map(|m| m.waited.mean_us()).fold(0.0, f64::max);
    let clause = said!("in_md", us = latency(us));
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
    let (longest, rest) = (latency(longest), latency(rest));
    said!("carriers", longest = longest, members = units::list(&names), what = what, rest = rest)
}

/// `has_grown`: the task does more than before.
pub fn load(e: &Evidence<'_>, has_grown: bool, cause: Cause) -> Explanation {
    let who = if e.names { cause.name.as_str() } else { "one of its tasks" };
    let more = if has_grown { said!("more") } else { String::new() };
    // The headline of a skew names a task, too.
    let skew =
        e.array.hotspot.as_ref().filter(|h| e.names && h.is_warning() && !h.origins.is_empty());
    let why = skew.map_or_else(|| carriers(e), |h| format!("; {}", h.headline));
    let part = units::percent(cause.share);
    let clause = said!("load", who = who, part = part, more = more, why = why);
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
    let (least, most) = (latency(least), latency(most));
    let clause = said!("path", count = each.len(), least = least, most = most);
    found(cause, clause, actions::shared())
}

pub fn unexplained(e: &Evidence<'_>, cause: Cause) -> Explanation {
    let io = e.now.waits.mean_us().filter(|_| e.asleep.is_some());
    let clause =
        io.map_or_else(|| said!("unexplained"), |us| said!("unexplained_before", us = latency(us)));
    found(cause, clause, actions::show("what the tasks wait for"))
}
