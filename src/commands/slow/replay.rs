//! Shows slow operations of a recording (`raidtrace record --slow`).

use std::collections::HashSet;
use std::future::Future;
use std::io::{self};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::args::SlowArgs;
use super::filter::SlowFilter;
use super::state::SlowScreenState;
use super::text;
use super::view::VIEWS;
use crate::analysis::item::Item;
use crate::analysis::slow::history;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::machine::signals::asked_to_end;
use crate::recording::reader::{Reader, WantedColumns};
use crate::recording::slow::SlowInterval;
use crate::session::engine::runtime;
use crate::ui::intervals::{IntervalFormat, Intervals};
use crate::ui::lines::{print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::player::{Playback, Player};
use crate::ui::screen::run_app;
use crate::ui::state::{Position, Replay};

const KIND: IntervalFormat<SlowSnapshot> = IntervalFormat {
    json: |item| match item {
        Item::Slow { time_us, json } => Some((time_us, json)),
        _ => None,
    },
    parse: SlowInterval::parse,
    missing: "no slow operations: record with raidtrace record --slow",
};

/// Shows the operations of the recording `file`: interval by interval as text or JSON, or all at
/// once on the screen.
///
/// # Errors
/// The file cannot be read, or contains no slow operations.
pub fn run(file: &Path, args: &SlowArgs) -> Result<()> {
    let filter = SlowFilter::new(args);
    let mut intervals = Intervals::new(Reader::open(file, WantedColumns::Figures)?, file, KIND);
    if !args.live.on_screen() {
        let mut out = io::stdout().lock();
        let print = |mut snapshot| {
            filter.apply(&mut snapshot);
            text::write_as(args, &mut out, &snapshot)
        };
        if intervals.print(args.live.count, print)? {
            print_new(&intervals.finish()?, &mut HashSet::new());
        }
        return Ok(());
    }
    let mut whole = SlowSnapshot::default();
    for snapshot in intervals.by_ref() {
        let mut snapshot = snapshot?;
        filter.apply(&mut snapshot);
        history::add(&mut whole, &snapshot);
    }
    let notes = intervals.finish()?;
    let end = asked_to_end()?;
    let whole = Arc::new(whole);
    runtime()?.block_on(on_the_screen(Arc::clone(&whole), end))?;
    success_if_nobody_reads(text::write_total(&mut io::stdout().lock(), &whole))?;
    print_new(&notes, &mut HashSet::new());
    Ok(())
}

async fn on_the_screen(whole: Arc<SlowSnapshot>, end: impl Future<Output = ()>) -> Result<()> {
    let state =
        SlowScreenState { is_recording: true, ..SlowScreenState::new(VIEWS.len(), whole.interval) };
    let player = Player::start(WholeRecording(whole))?;
    run_app(state, player, Depth::from_env(), end).await
}

/// A whole recording as one interval.
struct WholeRecording(Arc<SlowSnapshot>);

impl Playback for WholeRecording {
    type Snapshot = SlowSnapshot;

    fn step(&mut self) -> Result<()> {
        Ok(())
    }

    fn act(&mut self, _: Replay, _: &mut dyn FnMut(Option<&Self>) -> bool) -> Result<()> {
        Ok(())
    }

    fn shown(&self) -> Option<Arc<SlowSnapshot>> {
        Some(Arc::clone(&self.0))
    }

    fn position(&self) -> Position {
        Position { ended: true, ..Position::default() }
    }

    fn length(&self) -> Duration {
        self.0.interval
    }
}

#[cfg(test)]
mod tests {
    use super::{Intervals, KIND, Path, Reader, SlowSnapshot, WantedColumns};
    use crate::analysis::item::{Item, State};
    use crate::analysis::slow::fixture;
    use crate::recording;
    use crate::recording::slow::SlowInterval;

    const START: i64 = recording::fixture::START;

    fn intervals(items: Vec<Item>) -> Intervals<SlowSnapshot> {
        let state = State { time_us: START, ..State::default() };
        let mut all = vec![Item::State(Box::new(state))];
        all.extend(items);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), recording::fixture::file_of(&all, 2)).unwrap();
        let reader = Reader::open(file.path(), WantedColumns::Figures).unwrap();
        Intervals::new(reader, Path::new("a.rtrace"), KIND)
    }

    #[test]
    fn an_interval_is_read_from_a_file() {
        let mut snapshot = fixture::interval();
        snapshot.time = jiff::Timestamp::from_microsecond(START + 1_000_000).unwrap();
        let mut read = intervals(vec![SlowInterval::item(&snapshot).unwrap()]);
        let operation = &read.next().unwrap().unwrap().operations[0];
        assert_eq!(operation.waterfall, snapshot.operations[0].waterfall);
        assert!(read.next().is_none());
        assert!(read.finish().unwrap().is_empty());
    }

    #[test]
    fn without_slow_operations_the_error_names_the_option() {
        let mut none = intervals(Vec::new());
        assert!(none.next().is_none());
        let error = none.finish().unwrap_err().to_string();
        assert!(error.contains("record --slow"), "{error}");
    }

    #[test]
    fn an_invalid_interval_ends_the_intervals() {
        let (time_us, json) = (START + 1_000_000, "{".to_owned());
        let mut broken = intervals(vec![Item::Slow { time_us, json }]);
        let error = broken.next().unwrap().unwrap_err().to_string();
        assert!(error.contains("a.rtrace: the interval that ends at"), "{error}");
        assert!(broken.next().is_none());
    }
}
