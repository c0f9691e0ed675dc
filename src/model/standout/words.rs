//! The words of the sentences.

use super::spread::Spread;
use crate::model::snapshot::MemberSnapshot;
use crate::model::units;
use crate::origin::{Op, Origin};

/// How many members a sentence names.
const NAMED: usize = 4;

/// `mostly file_data writes (72 %)`: what most bytes (or requests, where there are no bytes) are.
pub fn mostly(members: &[&MemberSnapshot]) -> String {
    let total = Spread::of(members, |_| true);
    let by_bytes = total.bytes() > 0.0;
    let all = if by_bytes {
        total.bytes()
    } else {
        total.requests()
    };
    let of = |origin, op| {
        let part = Spread::of(members, |c| (c.origin, c.op) == (origin, op));
        if by_bytes {
            part.bytes()
        } else {
            part.requests()
        }
    };
    Origin::ALL
        .iter()
        .flat_map(|&origin| Op::ALL.map(|op| (origin, op, of(origin, op))))
        .max_by(|a, b| a.2.total_cmp(&b.2))
        .map_or_else(String::new, |(origin, op, part)| {
            format!(
                "mostly {origin} {} ({} of the {})",
                plural(op),
                units::percent(part / all),
                if by_bytes { "bytes" } else { "requests" }
            )
        })
}

pub fn plural(op: Op) -> &'static str {
    match op {
        Op::Read => "reads",
        Op::Write => "writes",
        Op::Flush => "flushes",
        Op::Discard => "discards",
        Op::WriteZeroes => "zeroing writes",
        Op::Other => "other requests",
    }
}

/// `a`, `a and b`, `a, b and c`.
pub fn and(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

pub fn and_more(members: &[String]) -> String {
    let mut names: Vec<&str> = members.iter().map(String::as_str).take(NAMED).collect();
    let more = format!("{} more", members.len().saturating_sub(NAMED));
    if members.len() > NAMED {
        names.push(&more);
    }
    and(&names)
}
