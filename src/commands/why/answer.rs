//! The answer: a verdict in at most ten lines for the worst array, and one line for each other.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::units::{self, round};
use crate::analysis::verdict::{Severity, Verdict};
use crate::ui::json::{Losses, write_line};
use crate::ui::text::{clean, wrap};

/// Width of the text: that of the narrowest usual terminal.
const COLUMNS: usize = 80;
/// Number of lines that more actions and other arrays do not exceed.
const MAX_LINES: usize = 10;
/// Shortest wait that may be slow if no faster time is known, µs.
const MIN_UNSURE_US: u64 = 20_000;
/// Least share of a part of the time that is printed.
const MIN_PART: f64 = 0.05;

fn verdicts(whole: &Snapshot) -> impl Iterator<Item = (&ArraySnapshot, &Verdict)> {
    whole.arrays.iter().filter_map(|array| Some((array, array.verdict.as_ref()?)))
}

fn worst(whole: &Snapshot) -> Option<(&ArraySnapshot, &Verdict)> {
    verdicts(whole).max_by_key(|(_, verdict)| (verdict.severity, verdict.waiting.us))
}

/// The severity of the worst array.
pub fn severity(whole: &Snapshot) -> Severity {
    worst(whole).map_or(Severity::None, |(_, verdict)| verdict.severity)
}

/// True for waits that are long for flash and usual for busy disks, if no faster time is known.
fn is_unsure(verdict: &Verdict) -> bool {
    let waiting = &verdict.waiting;
    verdict.severity == Severity::None
        && waiting.us >= MIN_UNSURE_US
        && waiting.before_us.is_none_or(|before| before > waiting.us / 2)
}

/// `md0 is fast: tasks wait 3.1ms for a read or write (mean), and nothing hangs`
fn fast(array: &ArraySnapshot, verdict: &Verdict) -> String {
    let name = &array.info.name;
    match verdict.waiting.us {
        0 => format!("{name} is fast: no task waits for it"),
        us if is_unsure(verdict) => format!(
            "tasks wait {} for a read or write of {name} (mean), and nothing hangs; no faster \
             time was measured, so this may be usual here",
            units::latency(Some(us))
        ),
        us => format!(
            "{name} is fast: tasks wait {} for a read or write (mean), and nothing hangs",
            units::latency(Some(us))
        ),
    }
}

/// Writes the answer as text: [`MAX_LINES`] lines, if the first five parts fit.
pub fn write(out: &mut impl Write, whole: &Snapshot) -> io::Result<()> {
    let Some((array, verdict)) = worst(whole) else {
        return writeln!(out, "no array has statistics to judge by");
    };
    let mut lines = Vec::new();
    let on: String = array.info.filesystems.iter().map(|fs| format!(", {fs}")).collect();
    let state = match verdict.severity {
        Severity::None if is_unsure(verdict) => "UNSURE".to_owned(),
        Severity::None => "FAST".to_owned(),
        _ if verdict.is_failed() => "FAILED".to_owned(),
        severity => severity.to_string().to_uppercase(),
    };
    add(&mut lines, &format!("{state}  {} ({}{on})", array.info.name, array.info.level));
    let mut rest = Vec::new();
    if verdict.severity == Severity::None {
        add(&mut lines, &fast(array, verdict));
    } else {
        add(&mut lines, &verdict.sentence);
        if !verdict.waiting.tasks.is_empty() {
            add(&mut lines, &format!("waits: {}", verdict.waiting.tasks.join(", ")));
        }
        let all = verdict.waiting.us.max(1) as f64;
        let parts = verdict.account.iter().filter(|p| p.us as f64 >= MIN_PART * all);
        let parts: Vec<String> = parts
            .map(|p| format!("{} {}", p.part.replace('_', ", "), units::percent(p.us as f64 / all)))
            .collect();
        if !parts.is_empty() {
            add(&mut lines, &format!("where the time goes: {}", parts.join("; ")));
        }
        let mut actions = verdict.actions.iter();
        if let Some(action) = actions.next() {
            add(&mut lines, &format!("do: {action}"));
        }
        rest.extend(actions.map(|action| format!("or: {action}")));
    }
    let others = verdicts(whole).filter(|(other, _)| other.info.name != array.info.name);
    rest.extend(others.map(|(other, verdict)| match verdict.severity {
        Severity::None => fast(other, verdict),
        _ => verdict.sentence.clone(),
    }));
    for text in rest {
        let mut more = Vec::new();
        add(&mut more, &text);
        if lines.len() + more.len() < MAX_LINES {
            lines.append(&mut more);
        }
    }
    add(&mut lines, &measured(whole));
    lines.iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// Adds `text` in lines of [`COLUMNS`], all but the first indented.
fn add(lines: &mut Vec<String>, text: &str) {
    let wrapped = wrap(&clean(text), COLUMNS - 2, usize::MAX);
    let indented = |(n, line): (usize, String)| if n == 0 { line } else { format!("  {line}") };
    lines.extend(wrapped.into_iter().enumerate().map(indented));
}

/// `measured for 15 s, 0.2 % of a CPU, nothing lost`
fn measured(whole: &Snapshot) -> String {
    let seconds = whole.interval.as_secs_f64().max(f64::MIN_POSITIVE);
    let cost = whole.overhead.bpf_ns as f64 / 1e9 / seconds;
    let lost = whole.lost.events();
    let lost = if lost == 0 { "nothing lost".to_owned() } else { format!("{lost} events lost") };
    format!(
        "measured for {}, {} of a CPU, {lost}",
        units::seconds_about(whole.interval),
        units::percent(cost)
    )
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Answer<'a> {
    schema: &'static str,
    time: String,
    interval_s: f64,
    target: Option<&'a str>,
    array: &'a str,
    #[serde(flatten)]
    verdict: &'a Verdict,
    lost: Losses,
}

/// Writes the verdict of the worst array as one JSON object.
pub fn write_json(out: &mut impl Write, whole: &Snapshot, targets: &[String]) -> io::Result<()> {
    let none = Verdict::default();
    let (array, verdict) = worst(whole).map_or(("", &none), |(a, v)| (a.info.name.as_str(), v));
    let answer = Answer {
        schema: "raidtrace.why/1",
        time: whole.time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        interval_s: round(whole.interval.as_secs_f64()),
        target: targets.first().map(String::as_str),
        array,
        verdict,
        lost: Losses::from(whole.lost),
    };
    write_line(out, &answer)
}

#[cfg(test)]
mod tests {
    use super::write;
    use crate::analysis::fixture;
    use crate::analysis::verdict::{AccountPart, Action, CauseKind, Severity, Verdict};

    #[test]
    fn schema() {
        crate::test_schema::check::<super::Answer<'_>>("raidtrace.why/1");
    }

    #[test]
    fn a_long_wait_is_unsure_without_a_faster_time() {
        for (us, before_us, state) in [
            (19_000, None, "FAST"),
            (43_000, None, "UNSURE"),
            (43_000, Some(42_000), "UNSURE"),
            (28_000, Some(12_000), "FAST"),
        ] {
            let mut snapshot = fixture::raid0(4);
            let mut verdict = Verdict::default();
            (verdict.waiting.us, verdict.waiting.before_us) = (us, before_us);
            snapshot.arrays[0].verdict = Some(verdict);
            let mut out = Vec::new();
            write(&mut out, &snapshot).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(text.starts_with(state), "{text}");
            assert_eq!(text.contains("may be usual here"), state == "UNSURE", "{text}");
        }
    }

    #[test]
    fn ten_lines_of_80_columns() {
        let mut snapshot = fixture::raid0(4);
        let mut verdict = Verdict::default();
        verdict.severity = Severity::Slow;
        (verdict.waiting.us, verdict.waiting.tasks) = (96_000, vec!["postgres".to_owned()]);
        verdict.cause.kind = CauseKind::Resync;
        verdict.sentence = "writes to md127 take 96ms (9.9ms before 22:04:50Z): the rebuild \
                            (recovery) of md127 does 90 % of its members' work (degraded)"
            .to_owned();
        let action = |text: &str, n| Action { text: text.repeat(n), ..Action::default() };
        verdict.actions = vec![action("slow the resync down ", 9), action("stop it ", 20)];
        verdict.account = vec![AccountPart { part: "device_resync", us: 96_000 }];
        snapshot.arrays[0].verdict = Some(verdict);
        for n in 0..20 {
            let mut other = snapshot.arrays[0].clone();
            other.info.name = format!("md{n}");
            other.verdict = Some(Verdict::default());
            snapshot.arrays.push(other);
        }
        let mut out = Vec::new();
        write(&mut out, &snapshot).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 10, "{text}");
        assert!(lines.iter().all(|line| line.chars().count() <= 80), "{text}");
        assert!(lines[0].starts_with("SLOW  md127 (raid0"), "{text}");
        assert!(text.contains("where the time goes: device, resync 100 %"), "{text}");
        assert!(lines[9].starts_with("measured for 1 s"), "{text}");
    }
}
