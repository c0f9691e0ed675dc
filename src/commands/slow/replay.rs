//! Shows slow operations of a recording (`raidtrace record --slow`).

use std::collections::HashSet;
use std::future::Future;
use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::args::Slow;
use super::filter::Filter;
use super::state::State;
use super::view::VIEWS;
use super::{json, text};
use crate::analysis::item::Item;
use crate::analysis::slow::history;
use crate::analysis::slow::snapshot::SlowSnapshot;
use crate::analysis::time;
use crate::machine::signals::asked_to_end;
use crate::recording::reader::{Reader, Wanted};
use crate::recording::slow::Interval;
use crate::ui::lines::{is_last, print_new, success_if_nobody_reads};
use crate::ui::palette::Depth;
use crate::ui::player::{Playback, Player};
use crate::ui::screen::run_app;
use crate::ui::state::{Position, Replay};

/// Shows the operations of the recording `file`: interval by interval as text or JSON, or all at once on the screen.
///
/// # Errors
/// The file cannot be read, or contains no slow operations.
pub fn run(file: &Path, args: &Slow) -> Result<()> {
    let filter = Filter::new(args);
    let mut intervals = Intervals {
        reader: Reader::open(file, Wanted::Figures)?,
        name: file.display().to_string(),
        count: 0,
        failed: false,
    };
    if args.batch || args.json || !io::stdout().is_terminal() {
        let mut out = io::stdout().lock();
        let mut left = args.count;
        for snapshot in intervals.by_ref() {
            let mut snapshot = snapshot?;
            filter.apply(&mut snapshot);
            let written = if args.json {
                json::write(&mut out, &snapshot)
            } else {
                text::write(&mut out, &snapshot)
            };
            if matches!(&written, Err(e) if e.kind() == io::ErrorKind::BrokenPipe) {
                return Ok(());
            }
            success_if_nobody_reads(written)?;
            if is_last(&mut left) {
                break;
            }
        }
        print_new(&intervals.finish()?, &mut HashSet::new());
        return Ok(());
    }
    let mut whole = SlowSnapshot::default();
    for snapshot in intervals.by_ref() {
        let mut snapshot = snapshot?;
        filter.apply(&mut snapshot);
        history::add(&mut whole, &snapshot);
    }
    let notes = intervals.finish()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let end = asked_to_end()?;
    let whole = Arc::new(whole);
    runtime.block_on(on_the_screen(Arc::clone(&whole), end))?;
    success_if_nobody_reads(text::write_total(&mut io::stdout().lock(), &whole))?;
    print_new(&notes, &mut HashSet::new());
    Ok(())
}

async fn on_the_screen(whole: Arc<SlowSnapshot>, end: impl Future<Output = ()>) -> Result<()> {
    let state = State {
        is_recording: true,
        ..State::new(VIEWS.len(), whole.interval)
    };
    let player = Player::start(Whole(whole))?;
    run_app(state, player, Depth::from_env(), end).await
}

/// A whole recording as one interval.
struct Whole(Arc<SlowSnapshot>);

impl Playback for Whole {
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
        Position {
            ended: true,
            ..Position::default()
        }
    }

    fn length(&self) -> Duration {
        self.0.interval
    }
}

/// The intervals of a recording, in order. An error is the last item.
struct Intervals {
    reader: Reader,
    name: String,
    count: u64,
    failed: bool,
}

impl Intervals {
    /// Notes about the file, after the last interval.
    fn finish(&self) -> Result<Vec<String>> {
        let ending = self.reader.ending();
        if self.count == 0 {
            bail!(
                "{}: contains no slow operations: record with raidtrace record --slow; {ending}",
                self.name
            );
        }
        let cut = ending.is_cut().then(|| ending.to_string());
        let note = self.reader.note().map(str::to_owned);
        Ok(note.into_iter().chain(cut).collect())
    }
}

impl Iterator for Intervals {
    type Item = Result<SlowSnapshot>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed {
            let Item::Slow { time_us, json } = self.reader.next_item()? else {
                continue;
            };
            self.count += 1;
            return Some(Interval::parse(time_us, &json).map_err(|why| {
                self.failed = true;
                let time = time::rfc3339(time_us);
                anyhow!(
                    "{}: the interval that ends at {time} cannot be read: {why}",
                    self.name
                )
            }));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Intervals, Reader, Wanted};
    use crate::analysis::item::{Item, State};
    use crate::analysis::slow::fixture;
    use crate::recording;
    use crate::recording::slow::Interval;

    const START: i64 = recording::fixture::START;

    fn intervals(items: Vec<Item>) -> Intervals {
        let state = State {
            time_us: START,
            ..State::default()
        };
        let mut all = vec![Item::State(Box::new(state))];
        all.extend(items);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), recording::fixture::file_of(&all, 2)).unwrap();
        Intervals {
            reader: Reader::open(file.path(), Wanted::Figures).unwrap(),
            name: "a.rtrace".to_owned(),
            count: 0,
            failed: false,
        }
    }

    #[test]
    fn an_interval_is_read_from_a_file() {
        let mut snapshot = fixture::interval();
        snapshot.time = jiff::Timestamp::from_microsecond(START + 1_000_000).unwrap();
        let mut read = intervals(vec![Interval::item(&snapshot).unwrap()]);
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
        assert!(
            error.contains("a.rtrace: the interval that ends at"),
            "{error}"
        );
        assert!(broken.next().is_none());
    }
}
