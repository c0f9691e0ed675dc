//! `raidtrace doctor`: facts -> findings -> text or JSON, and an exit status from the worst
//! finding.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::DoctorArgs;
use super::facts::Facts;
use super::finding::{Finding, FindingSeverity};
use super::kernel::{self, Ability};
use super::live;
use super::parts::{self, WorstPart};
use super::rules::{self, allocator};
use super::select::{self, Diagnosis, FindingSelection};
use super::{gather, json, load, table};
use crate::analysis::snapshot::Snapshot;
use crate::machine::mballoc;
use crate::machine::privileges;
use crate::machine::topology::Topology;
use crate::machine::{HostError, HostTopology, NotRunning, Sys, not_running, resolve, resolve_all};
use crate::session::period;
use crate::session::sampler::Sampler;
use crate::ui::lines::success_if_closed;

/// Exit status for a warning; 2 is usage.
const WARNING: u8 = 3;
/// Exit status for a critical finding.
const CRITICAL: u8 = 4;

/// Runs `doctor`.
///
/// # Errors
/// If a target does not exist, a file cannot be read, or the output cannot be written.
pub fn run(args: &DoctorArgs) -> Result<ExitCode> {
    let sys = Sys::live();
    if args.kernel {
        return privileges::raised(|| report_kernel(&sys, args));
    }
    // Read the file first: an error should not come after the wait of --live.
    let acknowledged = args.acknowledged.as_deref();
    let selection = FindingSelection {
        ignore: args.ignore.clone(),
        least: args.min_severity,
        acknowledged: acknowledged.map_or(Ok(Vec::new()), select::read)?,
    };
    let Examined { mut facts, mut able, mut found } = examine(&sys, &args.targets, false)?;
    let mut live = None;
    if let Some((option, measured)) = measure(args, &sys, &facts) {
        match measured {
            Ok((snapshot, parts)) => {
                facts.notes.extend(snapshot.notes.iter().cloned());
                let (mut table, mut more) = live::compare(&facts, &snapshot);
                parts::merge(&mut more, parts);
                table.recording = args.load.as_ref().map(|f| f.display().to_string());
                live::raise_severity(&mut found, &more);
                found.extend(more);
                live = Some(table);
            }
            // An unreadable file is an error; without tracing, the other findings are still useful.
            Err(why) if args.load.is_some() => return Err(why.context(option)),
            Err(why) => facts.notes.push(format!("{option}: {why:#}")),
        }
    }
    found.sort_by_key(|f| Reverse(f.severity));
    let (found, left_out, notes) = selection.apply(found);
    facts.notes.extend(notes);
    drop_repeated(&mut facts.notes, &mut able.notes);
    let diagnosis =
        Diagnosis { facts: &facts, found: &found, able: &able, live: live.as_ref(), left_out };
    let mut out = io::stdout().lock();
    finish(if args.json {
        json::write(&mut out, &json::object(&diagnosis))
    } else {
        table::write(&mut out, &diagnosis)
    })?;
    Ok(match diagnosis.worst() {
        None | Some(FindingSeverity::Info) => ExitCode::SUCCESS,
        Some(FindingSeverity::Warning) => ExitCode::from(WARNING),
        Some(FindingSeverity::Critical) => ExitCode::from(CRITICAL),
    })
}

/// Facts of this machine, and findings.
pub(super) struct Examined {
    pub(super) facts: Facts,
    pub(super) able: Ability,
    pub(super) found: Vec<Finding>,
}

/// Examines the targets; without any, all arrays. `may_be_none`: a host without arrays and
/// filesystems is no error.
pub(super) fn examine(sys: &Sys, targets: &[String], may_be_none: bool) -> Result<Examined> {
    let (host, not_running) = if targets.is_empty() {
        let not_running = not_running(sys)?;
        match resolve_all(sys) {
            // A host whose only array does not run.
            Err(HostError::Nothing) if may_be_none || !not_running.is_empty() => {
                (HostTopology::default(), not_running)
            }
            host => (host?, not_running),
        }
    } else {
        (resolve(targets, sys)?, NotRunning::default())
    };
    let topology = if rustix::process::geteuid().is_root() {
        Topology::new(host)
    } else {
        // /proc/fs/ext4/*/mb_groups is no substitute, although any user can read it: for that the
        // kernel reads every block bitmap from the disk.
        let mut notes = vec!["filesystems were not examined: that requires root".to_owned()];
        notes.extend(host.notes.iter().cloned());
        Topology { host, notes, ..Topology::default() }
    };
    let facts = gather::gather(sys, &topology, not_running);
    let (properties, notes) = privileges::raised(|| kernel::probe(sys, Some(&topology), false));
    let able = Ability::new(&properties, notes);
    let mut found = rules::check(&facts);
    found.extend(mballoc::left_on(sys, false).iter().map(|name| allocator::counted(name)));
    found.extend(cannot_run(&able));
    Ok(Examined { facts, able, found })
}

/// Keeps the first of equal notes: the session of --live repeats those of [`kernel::probe`].
fn drop_repeated(notes: &mut Vec<String>, more: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for notes in [notes, more] {
        notes.retain(|note| seen.insert(note.clone()));
    }
}

fn report_kernel(sys: &Sys, args: &DoctorArgs) -> Result<ExitCode> {
    let topology = resolve(&args.targets, sys).map(Topology::new);
    let (properties, notes) = kernel::probe(sys, topology.as_ref().ok(), true);
    let able = Ability::new(&properties, notes);
    let mut out = io::stdout().lock();
    finish(if args.json { json::write(&mut out, &able) } else { table::kernel(&mut out, &able) })?;
    Ok(match able.can_run {
        Some(false) => ExitCode::from(WARNING),
        Some(true) | None => ExitCode::SUCCESS,
    })
}

/// A measured interval and, for --load, the time spans of the recording with the worst findings.
type Measured = (Snapshot, Vec<WorstPart>);

/// Measures writes with --load or --live. Returns the name of the option with the result; `None`
/// without either.
fn measure(
    args: &DoctorArgs,
    sys: &Sys,
    facts: &Facts,
) -> Option<(&'static str, Result<Measured>)> {
    if let Some(file) = &args.load {
        let host = sys.text("/proc/sys/kernel/hostname").unwrap_or_default();
        return Some(("--load", load::load(file, facts, &host)));
    }
    let period = args.live?;
    Some(("--live", watch(facts, period).map(|s| (s, Vec::new()))))
}

/// Traces the arrays for `period`, or until a signal ends it.
fn watch(facts: &Facts, period: Duration) -> Result<Snapshot> {
    if !rustix::process::geteuid().is_root() {
        bail!("loading programs into the kernel requires root");
    }
    let names: Vec<String> = facts.arrays.iter().map(|a| a.array.name.clone()).collect();
    let start =
        move || Sampler::start(Sys::live(), &names, false, crate::probe::DirtiedCounting::No);
    period::watch(start, period, |_| {})
}

/// Flushes the output. A closed pipe (`| head`) is not an error.
fn finish(written: io::Result<()>) -> Result<()> {
    let written = written.and_then(|()| io::stdout().flush());
    success_if_closed(written, || "writing the findings".to_owned())
}

/// A finding if raidtrace cannot run on this kernel.
fn cannot_run(able: &Ability) -> Option<Finding> {
    let missing = able.requirements.iter().filter(|l| l.available == Some(false));
    let finding = Finding::warning("kernel-refuses", "raidtrace top cannot run on this kernel")
        .seen(able.why.clone())
        .seen_all(missing.map(|l| format!("{}: {}", l.name, l.evidence)));
    (able.can_run == Some(false)).then_some(finding)
}

#[cfg(test)]
mod tests {
    use super::drop_repeated;

    #[test]
    fn a_note_is_printed_once() {
        let notes = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let (mut facts, mut able) = (notes("a b a"), notes("b c"));
        drop_repeated(&mut facts, &mut able);
        assert_eq!((facts, able), (notes("a b"), notes("c")));
    }
}
