//! Watches arrays for a time, and returns it as one interval with its worst verdicts.

use std::time::Duration;

use anyhow::{Context as _, Result};

use super::engine::{Engine, MAX_LAST_WAIT, Tick, runtime};
use super::sampler::Sampler;
use crate::analysis::snapshot::Snapshot;
use crate::analysis::verdict::Worst;
use crate::analysis::window;
use crate::machine::privileges;
use crate::machine::signals::asked_to_end;

/// Length of an interval.
const SECOND: Duration = Duration::from_secs(1);

/// Traces for `duration`, or until a signal. `start` starts the source, and `tell` is called with
/// each note.
///
/// # Errors
/// The programs cannot be loaded, or it ended before the first second.
pub fn watch(
    start: impl FnOnce() -> Result<Sampler> + Send + 'static,
    duration: Duration,
    mut tell: impl FnMut(&[String]),
) -> Result<Snapshot> {
    let runtime = runtime()?;
    let mut end = asked_to_end()?;
    let mut engine = Engine::start(start, SECOND.min(duration), SECOND)?;
    privileges::keep_none();
    let (mut whole, mut worst): (Option<Snapshot>, _) = (None, Worst::default());
    runtime.block_on(async {
        while let Some(tick) = engine.tick_or_last(&mut end).await {
            let snapshot = match tick {
                Tick::Started { notes, .. } | Tick::Notes(notes) => {
                    tell(&notes);
                    continue;
                }
                Tick::Interval(snapshot) => snapshot,
            };
            worst.add(&snapshot);
            let whole = match &mut whole {
                Some(whole) => {
                    window::join(whole, &snapshot, window::alike);
                    whole
                }
                None => whole.insert(snapshot),
            };
            if whole.interval + SECOND / 2 >= duration {
                break;
            }
        }
    });
    engine.end(Some(MAX_LAST_WAIT))?.result?;
    let mut whole = whole.context("ended before the first second")?;
    worst.lead(&mut whole.arrays);
    Ok(whole)
}
