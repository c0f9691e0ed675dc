//! `raidtrace doctor`: facts -> findings -> text or JSON, and an exit status by the worst of them.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use super::args::Doctor;
use super::facts::Facts;
use super::finding::{Finding, Severity};
use super::kernel::{self, Ability, Works};
use super::live;
use super::parts::{self, Part};
use super::select::{self, Diagnosis, Selection};
use super::{gather, json, load, rules, table};
use crate::analysis::snapshot::Snapshot;
use crate::machine::topology::Topology;
use crate::machine::{Sys, resolve, resolve_all};
use crate::session::sampler::Sampler;
use crate::ui::screen::asked_to_end;

/// Exit status of a warning; 2 is usage.
const WARNING: u8 = 3;
/// Of something critical.
const CRITICAL: u8 = 4;

/// Looks at everything once and prints what was found.
///
/// # Errors
/// Where a target is not there, or the output cannot be written.
pub fn run(args: &Doctor) -> Result<ExitCode> {
    let sys = Sys::live();
    if args.kernel {
        return of_kernel(&sys, args);
    }
    // First of all: a file that cannot be read is no reason to wait for --live.
    let selection = Selection {
        ignore: args.ignore.clone(),
        least: args.min_severity,
        acknowledged: args
            .acknowledged
            .as_deref()
            .map_or(Ok(Vec::new()), select::read)?,
    };
    let (host, stopped) = if args.targets.is_empty() {
        resolve_all(&sys)?
    } else {
        (resolve(&args.targets, &sys)?, Vec::new())
    };
    let root = rustix::process::geteuid().is_root();
    let topology = if root {
        Topology::new(host)
    } else {
        // A mounted filesystem would tell anyone, but reads every bitmap from the disk for it.
        Topology {
            notes: [
                &["what is inside the filesystems was not looked at: that takes root".to_owned()],
                &host.notes[..],
            ]
            .concat(),
            host,
            ..Topology::default()
        }
    };
    let mut facts = gather::gather(&sys, &topology, stopped);
    let (asked, notes) = kernel::ask(&sys, Some(&topology), false);
    let able = kernel::judge(&asked, notes);
    let mut found = rules::check(&facts);
    found.extend(cannot(&able));
    let mut live = None;
    if let Some((what, measured)) = measured(args, &sys, &facts) {
        match measured {
            Ok((snapshot, parts)) => {
                facts.notes.extend(snapshot.notes.iter().cloned());
                let (mut seen, mut more) = live::compare(&facts, &snapshot);
                parts::speak(&mut more, parts);
                seen.recording = args.load.as_ref().map(|f| f.display().to_string());
                live::raise(&mut found, &more);
                found.extend(more);
                live = Some(seen);
            }
            // A file that was named has to be read; without programs in the kernel the rest is worth having all the same.
            Err(why) if args.load.is_some() => return Err(why.context(what)),
            Err(why) => facts.notes.push(format!("{what}: {why:#}")),
        }
    }
    found.sort_by_key(|f| std::cmp::Reverse(f.severity));
    let (found, left_out, notes) = selection.apply(found);
    facts.notes.extend(notes);
    print(
        args,
        &Diagnosis {
            facts: &facts,
            found: &found,
            able: &able,
            live: live.as_ref(),
            left_out,
        },
    )?;
    let worst = found.iter().map(|f| f.severity).max();
    Ok(match worst {
        None | Some(Severity::Info) => ExitCode::SUCCESS,
        Some(Severity::Warning) => ExitCode::from(WARNING),
        Some(Severity::Critical) => ExitCode::from(CRITICAL),
    })
}

fn of_kernel(sys: &Sys, args: &Doctor) -> Result<ExitCode> {
    let topology = resolve(&args.targets, sys).map(Topology::new);
    let (asked, notes) = kernel::ask(sys, topology.as_ref().ok(), true);
    let able = kernel::judge(&asked, notes);
    let mut out = io::stdout().lock();
    finish(if args.json {
        serde_json::to_writer(&mut out, &json::kernel(&able))
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out))
    } else {
        table::kernel(&mut out, &able)
    })?;
    Ok(match able.can {
        Works::No => ExitCode::from(WARNING),
        Works::Yes | Works::NotChecked => ExitCode::SUCCESS,
    })
}

/// What the members did, and what has to be said of parts of the time.
type Measured = (Snapshot, Vec<Part>);

/// By the option that asks for it.
fn measured(args: &Doctor, sys: &Sys, facts: &Facts) -> Option<(&'static str, Result<Measured>)> {
    if let Some(file) = &args.load {
        let host = sys.text("/proc/sys/kernel/hostname").unwrap_or_default();
        return Some(("--load", load::load(file, facts, &host)));
    }
    let period = args.live?;
    Some(("--live", watch(facts, period).map(|s| (s, Vec::new()))))
}

/// All that happens within a period, or until a signal ends it.
fn watch(facts: &Facts, period: Duration) -> Result<Snapshot> {
    if !rustix::process::geteuid().is_root() {
        bail!("it takes root to load programs into the kernel");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the runtime")?;
    let end = runtime.block_on(async { asked_to_end() })?;
    let names: Vec<String> = facts.arrays.iter().map(|a| a.array.name.clone()).collect();
    let mut sampler = Sampler::start(Sys::live(), &names, false, crate::probe::Dirtied::No)?;
    runtime.block_on(async {
        tokio::select! {
            () = tokio::time::sleep(period) => {}
            () = end => {}
        }
    });
    let mut snapshot = sampler.snapshot()?;
    snapshot.notes = sampler.notes();
    Ok(snapshot)
}

fn print(args: &Doctor, diagnosis: &Diagnosis<'_>) -> Result<()> {
    let mut out = io::stdout().lock();
    finish(if args.json {
        json::write(&mut out, diagnosis)
    } else {
        table::write(&mut out, diagnosis)
    })
}

/// The reader of a pipe that has had enough (`| head`) is no failure.
fn finish(written: io::Result<()>) -> Result<()> {
    match written.and_then(|()| io::stdout().flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(e).context("writing the findings"),
        _ => Ok(()),
    }
}

/// That nothing can be traced here is a finding too.
fn cannot(able: &Ability) -> Option<Finding> {
    if able.can != Works::No {
        return None;
    }
    let finding = Finding::new(
        "kernel-refuses",
        Severity::Warning,
        "raidtrace top cannot run on this kernel",
    )
    .seen(able.why.clone())
    .why("which disk is busy with what can only be seen with its programs in the kernel")
    .source("docs/attribution.md");
    let missing = able.needs.iter().filter(|l| l.1 == Works::No);
    Some(missing.fold(finding, |f, (what, _, how)| {
        f.seen(format!("{what}: {how}"))
    }))
}
