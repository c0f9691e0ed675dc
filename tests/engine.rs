//! The engine of live commands, with a session on a loop device and a source that can be blocked.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Result, bail};
use common::{Loop, MIB, idle, tracing};
use raidtrace::analysis::snapshot::Snapshot;
use raidtrace::machine::Sys;
use raidtrace::probe::DirtiedCounting;
use raidtrace::session::Session;
use raidtrace::session::engine::{Engine, EngineSource, Tick};
use raidtrace::session::sampler::Sampler;

/// Short enough that many intervals fit into a test.
const PERIOD: Duration = Duration::from_millis(5);

/// Counts the requests of all intervals. Each interval waits for the gate, if there is one.
struct Gated {
    sampler: Sampler,
    gate: Option<Receiver<()>>,
    entered: Sender<()>,
    requests: u64,
}

impl Gated {
    fn start(disk: &str, gate: Option<Receiver<()>>, entered: Sender<()>) -> Result<Self> {
        Ok(Self {
            sampler: Sampler::start(Sys::live(), &[disk.to_owned()], false, DirtiedCounting::No)?,
            gate,
            entered,
            requests: 0,
        })
    }
}

fn requests(snapshot: &Snapshot) -> u64 {
    let members = snapshot.arrays.iter().flat_map(|a| &a.members);
    members.flat_map(|m| &m.io).map(|c| c.requests).sum()
}

impl EngineSource for Gated {
    type Interval = u64;
    type Total = u64;

    fn session(&mut self) -> &mut Session {
        self.sampler.session()
    }

    fn notes(&self) -> Vec<String> {
        self.sampler.notes()
    }

    fn update(&mut self) -> Result<()> {
        self.sampler.update()
    }

    fn interval(&mut self) -> Result<u64> {
        let _ = self.entered.send(());
        if let Some(gate) = &self.gate
            && gate.recv().is_err()
        {
            bail!("the gate is gone");
        }
        let requests = requests(&self.sampler.interval()?);
        self.requests += requests;
        Ok(requests)
    }

    fn finish(self) -> u64 {
        std::thread::sleep(2 * PERIOD);
        self.requests
    }
}

/// The next interval.
async fn interval(engine: &mut Engine<u64, u64>) -> Option<u64> {
    loop {
        match engine.tick().await? {
            Tick::Interval(requests) => return Some(requests),
            Tick::Started { .. } | Tick::Notes(_) => {}
        }
    }
}

/// Writes, and returns the number of requests that the disk has completed meanwhile, flushes
/// included.
fn write(disk: &Loop, count: usize) -> u64 {
    let before = idle(&disk.name);
    let status = std::process::Command::new("dd")
        .args(["if=/dev/zero", "bs=4k", "oflag=direct", "status=none"])
        .arg(format!("of={}", disk.device()))
        .arg(format!("count={count}"))
        .status();
    assert!(status.unwrap().success());
    idle(&disk.name) - before
}

#[tokio::test(flavor = "current_thread")]
async fn an_interval_lasts_until_the_consumer_takes_it() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(8 * MIB);
    let name = disk.name.clone();
    let (entered, ended) = channel();
    let start = move || Gated::start(&name, None, entered);
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    assert!(matches!(engine.tick().await, Some(Tick::Started { .. })));
    // No tick is taken meanwhile: one interval waits, and the next one continues.
    ended.recv().unwrap();
    // Lasts for many periods, because it waits until the disk is idle.
    let completed = write(&disk, 300);
    assert!(ended.try_iter().count() <= 1, "intervals are queued");
    engine.last_interval();
    let mut sum = 0;
    while let Some(requests) = interval(&mut engine).await {
        sum += requests;
    }
    let ended = engine.end(None).unwrap();
    ended.result.unwrap();
    assert!(completed >= 300);
    // After seconds, raidtrace reads the superblock again, because the disk was written to.
    assert!((completed..completed + 3).contains(&sum), "{sum} of {completed}");
    assert_eq!(sum, ended.total);
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_does_not_wait_for_a_session_that_hangs() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(8 * MIB);
    let name = disk.name.clone();
    let (gate, gated) = channel();
    let (entered, hangs) = channel();
    let start = move || Gated::start(&name, Some(gated), entered);
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    assert!(matches!(engine.tick().await, Some(Tick::Started { .. })));
    hangs.recv().unwrap();
    // The session hangs in its interval. Each of these calls returns immediately.
    assert!(engine.try_tick().is_none() && !engine.has_ended());
    engine.set_interval(PERIOD);
    // A signal ends the command after a timeout, to which the paused clock advances.
    tokio::time::pause();
    assert!(engine.tick_or_last(&mut std::future::ready(())).await.is_none());
    let error = engine.end(Some(PERIOD)).unwrap_err().to_string();
    assert!(error.contains("did not end within"), "{error}");
    drop(gate);
}

#[tokio::test(flavor = "current_thread")]
async fn a_command_waits_until_programs_are_detached() {
    if !tracing() {
        return;
    }
    let disk = Loop::new(8 * MIB);
    let name = disk.name.clone();
    let start = move || Gated::start(&name, None, channel().0);
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    assert!(matches!(engine.tick().await, Some(Tick::Started { .. })));
    engine.last_interval();
    while interval(&mut engine).await.is_some() {}
    engine.end(Some(PERIOD)).unwrap().result.unwrap();
}

#[tokio::test(flavor = "current_thread")]
async fn errors_of_a_session_reach_the_command() {
    let start = || Gated::start("no-such-disk", None, channel().0);
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    assert!(engine.tick().await.is_none() && engine.has_ended());
    let error = engine.end(None).unwrap_err().to_string();
    assert!(error.contains("no-such-disk"), "{error}");
    let start = || -> Result<Gated> { panic!("on purpose") };
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    assert!(engine.tick().await.is_none());
    let error = engine.end(None).unwrap_err().to_string();
    assert!(error.contains("panicked"), "{error}");
    if !tracing() {
        return;
    }
    // An interval fails: earlier measurements are kept.
    let disk = Loop::new(8 * MIB);
    let name = disk.name.clone();
    let (gate, gated) = channel();
    let start = move || Gated::start(&name, Some(gated), channel().0);
    let mut engine = Engine::start(start, PERIOD, PERIOD).unwrap();
    gate.send(()).unwrap();
    assert_eq!(interval(&mut engine).await, Some(0));
    drop(gate);
    assert!(interval(&mut engine).await.is_none());
    let ended = engine.end(None).unwrap();
    assert_eq!(ended.total, 0);
    assert!(ended.result.unwrap_err().to_string().contains("gate is gone"));
}
