//! `--batch`: a summary line for each interval, and each slow operation with its phases.

use std::io::{self, Write};

use super::args::SlowArgs;
use crate::analysis::slow::names::SlowOperation;
use crate::analysis::slow::sentence::{part_words, sentence, subject, time};
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::units;
use crate::printable::{clean, sanitize};
use crate::recording::slow::SlowInterval;
use crate::ui::json::write_line;

/// Maximum number of operations listed per interval, longest first.
const MAX_LISTED: usize = 20;
/// Maximum number of those that have not ended.
const MAX_UNENDED: usize = 5;
/// Maximum number of operations listed in a total.
const MAX_LISTED_IN_TOTAL: usize = 5;

/// Writes the total that the screen prints when it ends: a sentence for each of the longest
/// operations, and advice.
pub fn write_total(out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    writeln!(out, "{}", summary(snapshot))?;
    for slow in snapshot.unended.iter().chain(&snapshot.operations).take(MAX_LISTED_IN_TOTAL) {
        writeln!(out, "  {}", clean(&sentence(slow, &snapshot.names)))?;
    }
    write_advice(out, snapshot)
}

/// Writes an interval, as JSON with `--json`, and flushes it.
pub fn write_as(args: &SlowArgs, out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    match args.live.json {
        true => write_line(out, &SlowInterval::new(snapshot)),
        false => write(out, snapshot).and_then(|()| out.flush()),
    }
}

/// Writes an interval.
pub fn write(out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    let time = snapshot.time.strftime("%H:%M:%SZ");
    writeln!(out, "{time}  {}", summary(snapshot))?;
    for slow in
        snapshot.unended.iter().take(MAX_UNENDED).chain(snapshot.operations.iter().take(MAX_LISTED))
    {
        operation(out, slow, snapshot)?;
    }
    let more = snapshot.operations.len().saturating_sub(MAX_LISTED);
    if more > 0 {
        writeln!(out, "  and {more} shorter ones")?;
    }
    write_advice(out, snapshot)
}

fn write_advice(out: &mut impl Write, snapshot: &SlowSnapshot) -> io::Result<()> {
    for found in &snapshot.advice {
        let advice = &found.advice;
        writeln!(out, "  what would help: {}", clean(&advice.text))?;
        for command in &advice.commands {
            writeln!(out, "      {}", clean(command))?;
        }
        writeln!(out, "    because: {}", clean(&found.evidence))?;
        writeln!(out, "    risk: {}", advice.risk)?;
        writeln!(out, "    not when: {}", advice.not_when)?;
        writeln!(out, "    source: {}", advice.source)?;
    }
    Ok(())
}

/// `1 NOT ENDED; 2 slow (10 ms or more): fsync 2 of 40 (mean 3.1 ms), write 0 of 812 (mean 20 µs);
/// 3 commits; lost 0`.
pub fn summary(snapshot: &SlowSnapshot) -> String {
    let kinds: Vec<String> = snapshot
        .kinds
        .iter()
        .map(|(kind, sum)| {
            let mean = sum.ns / sum.count.max(1);
            format!("{kind} {} of {} (mean {})", sum.slow, sum.count, time(mean))
        })
        .collect();
    let kinds = if kinds.is_empty() { "no operation ended".to_owned() } else { kinds.join(", ") };
    let lost = snapshot.lost.total();
    let commits = match snapshot.commits.len() {
        1 => "1 commit".to_owned(),
        n => format!("{n} commits"),
    };
    let ios = match snapshot.lost.ios {
        0 => String::new(),
        n => format!("; {} IO of members not measured", units::count(n as f64)),
    };
    let lost = match lost {
        0 => (String::new(), "; lost 0"),
        n => (format!("LOST {}; ", units::count(n as f64)), ""),
    };
    let unended = match snapshot.unended_count {
        0 => String::new(),
        n => format!("{} NOT ENDED; ", units::count(n as f64)),
    };
    format!(
        "{}{unended}{} slow ({} or more): {kinds}; {commits}{}{ios}",
        lost.0,
        snapshot.operations.len(),
        time(u64::try_from(snapshot.threshold.as_nanos()).unwrap_or(u64::MAX)),
        lost.1,
    )
}

fn operation(
    out: &mut impl Write,
    slow: &SlowOperation,
    snapshot: &SlowSnapshot,
) -> io::Result<()> {
    let total = slow.operation.total_ns();
    let so_far = if slow.unended { "not ended: " } else { "" };
    writeln!(out, "  {:>7}  {so_far}{}", time(total), subject(slow, &snapshot.names))?;
    let mut rest = (0, 0);
    for (phase, part) in slow.waterfall.longest() {
        if part.ns * 100 < total {
            rest = (rest.0 + 1, rest.1 + part.ns);
            continue;
        }
        let share = units::percent(part.ns as f64 / total.max(1) as f64);
        let words = part_words(phase, part, slow, &snapshot.names);
        writeln!(out, "  {:>15}  {share:>6}  {words}", time(part.ns))?;
        if let Some(stack) = part.stack.as_ref().filter(|s| !s.is_empty()) {
            let functions: Vec<String> = stack.iter().map(|f| sanitize(f.as_bytes())).collect();
            writeln!(out, "  {:>15}          {}", "", functions.join(" < "))?;
        }
    }
    let (phases, ns) = rest;
    if phases > 0 {
        writeln!(
            out,
            "  {:>15}  {:>6}  {}",
            time(ns),
            "",
            match phases {
                1 => "1 shorter phase".to_owned(),
                n => format!("{n} shorter phases"),
            }
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{summary, write, write_total};
    use crate::analysis::slow::fixture::{interval, unended};

    #[test]
    fn a_total_lists_the_longest_operations() {
        let mut out = Vec::new();
        let mut s = interval();
        s.operations = vec![s.operations[0].clone(); 7];
        write_total(&mut out, &s).unwrap();
        let text = String::from_utf8(out).unwrap();
        let sentences = text.matches("fsync of /srv/db/redo.log by mysqld(812)");
        assert_eq!(sentences.count(), 5, "{text}");
    }

    #[test]
    fn operations_that_have_not_ended_come_first() {
        let mut s = interval();
        (s.unended, s.unended_count) = (vec![unended(); 6], 312);
        let mut out = Vec::new();
        write(&mut out, &s).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("312 NOT ENDED; 1 slow"), "{text}");
        assert_eq!(lines[1], "    2.4 s  not ended: fsync of /srv/db/redo.log by mysqld(812)");
        assert_eq!(text.matches("not ended: ").count(), 5, "{text}");
    }

    #[test]
    fn losses_come_first() {
        let mut s = interval();
        assert!(summary(&s).ends_with("lost 0"));
        s.lost.ios = 7;
        assert!(summary(&s).ends_with("lost 0; 7 IO of members not measured"));
        s.lost.slots = 3;
        s.lost.missed = 2;
        assert!(summary(&s).starts_with("LOST 5; 1 slow"), "{}", summary(&s));
    }
}
