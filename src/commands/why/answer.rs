//! The answer: a verdict in at most ten lines for the worst array, and one line for each other.

use std::io::{self, Write};

use serde::Serialize;

use crate::analysis::snapshot::{ArraySnapshot, Snapshot};
use crate::analysis::units;
use crate::analysis::verdict::{Severity, Verdict};
use crate::ui::json::{Losses, round, write_line};
use crate::ui::text::clean;

/// Actions that are printed.
const ACTIONS: usize = 3;
/// Least share of a part of the time that is printed.
const PART: f64 = 0.05;

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

/// `md0 is fast: tasks wait 3.1ms for a read or write (mean), and nothing hangs`
fn fast(array: &ArraySnapshot, verdict: &Verdict) -> String {
    let name = &array.info.name;
    match verdict.waiting.us {
        0 => format!("{name} is fast: no task waits for it"),
        us => format!(
            "{name} is fast: tasks wait {} for a read or write (mean), and nothing hangs",
            units::latency(Some(us))
        ),
    }
}

/// Writes the answer as text.
pub fn write(out: &mut impl Write, whole: &Snapshot) -> io::Result<()> {
    let Some((array, verdict)) = worst(whole) else {
        return writeln!(out, "no array has statistics to judge by");
    };
    let names: Vec<&str> = array.info.filesystems.iter().map(String::as_str).collect();
    let on = if names.is_empty() { String::new() } else { format!(", {}", names.join("; ")) };
    let state = match verdict.severity {
        Severity::None => "FAST",
        Severity::Slow => "SLOW",
        Severity::Stalled => "STALLED",
    };
    let line = |out: &mut dyn Write, text: &str| writeln!(out, "{}", clean(text));
    line(out, &format!("{state}  {} ({}{on})", array.info.name, array.info.level))?;
    if verdict.severity == Severity::None {
        line(out, &fast(array, verdict))?;
    } else {
        line(out, &verdict.sentence)?;
        if !verdict.waiting.tasks.is_empty() {
            line(out, &format!("waits: {}", verdict.waiting.tasks.join(", ")))?;
        }
        let all = verdict.waiting.us.max(1) as f64;
        let parts = verdict.account.iter().filter(|p| p.us as f64 >= PART * all);
        let parts: Vec<String> = parts
            .map(|p| format!("{} {}", p.part.replace('_', ", "), units::percent(p.us as f64 / all)))
            .collect();
        line(out, &format!("where the time goes: {}", parts.join("; ")))?;
        for (n, action) in verdict.actions.iter().take(ACTIONS).enumerate() {
            line(out, &format!("{} {action}", if n == 0 { "do:" } else { "or:" }))?;
        }
    }
    for (other, verdict) in verdicts(whole).filter(|(a, _)| a.info.name != array.info.name).take(3)
    {
        let slow = verdict.severity > Severity::None;
        line(out, &if slow { verdict.sentence.clone() } else { fast(other, verdict) })?;
    }
    line(out, &measured(whole))
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
