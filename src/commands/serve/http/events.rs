//! Streams of intervals. Pages get the object of `raidtrace top --json` plus alerts and the state
//! of the flight recorder.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{self, Stream, StreamExt as _};
use serde::Serialize;

use super::app::{App, Feed};
use crate::analysis::files::Files;
use crate::analysis::snapshot::Snapshot;
use crate::commands::serve::rules::DumpRule;
use crate::commands::serve::tracing::FlightNow;
use crate::ui::json::{self, JsonInterval};

/// Maximum number of tasks of an array on the page.
const MAX_TASKS: usize = 50;

/// Publishes the text of each interval, as long as the session runs.
pub async fn publish(app: Arc<App>) {
    let mut latest = app.shared.latest.subscribe();
    while latest.changed().await.is_ok() {
        if app.pages.text.receiver_count() > 0 {
            app.pages.text.send_replace(Arc::from(app.text()));
        }
    }
}

impl App {
    /// The last interval as JSON for pages; empty before the first interval.
    fn text(&self) -> String {
        let latest = self.shared.latest.borrow().clone();
        let Some(snapshot) = latest else {
            return String::new();
        };
        let shown = self.shown(&snapshot);
        let mut now = self.shared.flight();
        now.dumps &= self.dump_pause.is_some();
        let serve = ServeState::new(&now, self.with_paths);
        let mut text = Vec::new();
        // Writing to a Vec cannot fail.
        let _ = json::write_value(&mut text, &PageInterval { interval: (&shown).into(), serve });
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Removes tasks and paths unless the options allow them.
    fn shown(&self, snapshot: &Snapshot) -> Snapshot {
        let mut shown = snapshot.clone();
        for array in &mut shown.arrays {
            array.tasks.truncate(if self.with_tasks { MAX_TASKS } else { 0 });
            if !self.with_paths {
                array.slow = None;
                array.files = Files::default();
                array.dirtied_files = Files::default();
                for task in &mut array.tasks {
                    task.dirtied_files = Files::default();
                }
            }
        }
        shown
    }
}

/// An interval for pages.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PageInterval<'a> {
    interval: JsonInterval<'a>,
    serve: ServeState<'a>,
}

/// State of the flight recorder.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServeState<'a> {
    /// Rules that have fired, newest first.
    alerts: Vec<PageAlert<'a>>,
    /// Bytes in memory; `None` without a flight recorder.
    bytes: Option<u64>,
    /// True if recordings can be downloaded.
    download: bool,
    /// True if a dump can be requested.
    dumps: bool,
    has_recorder: bool,
    last: Option<LastDump<'a>>,
    /// Time that the recording in memory covers.
    seconds: u64,
    /// True if the programs could not be updated for the last change of the host.
    update_failed: bool,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PageAlert<'a> {
    rule: String,
    time: String,
    why: &'a str,
}

/// File name of the last dump, or the reason that it could not be written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum LastDump<'a> {
    Name(Cow<'a, str>),
    Error(&'a str),
}

impl<'a> ServeState<'a> {
    fn new(now: &'a FlightNow, with_paths: bool) -> Self {
        let alerts = now.alerts.iter().map(|alert| PageAlert {
            rule: alert.rule.to_string(),
            time: alert.time.to_string(),
            why: match alert.rule {
                // The sentence may name a file.
                DumpRule::Slow(_) if !with_paths => "an operation was slow (details: --with-paths)",
                _ => &alert.why,
            },
        });
        let last = now.written.last.as_ref().map(|last| match last {
            Ok(path) => LastDump::Name(path.file_name().unwrap_or_default().to_string_lossy()),
            Err(why) => LastDump::Error(why),
        });
        Self {
            alerts: alerts.collect(),
            bytes: now.bytes,
            download: with_paths,
            dumps: now.dumps,
            has_recorder: now.bytes.is_some(),
            last,
            seconds: now.span.as_secs(),
            update_failed: now.update_failed,
        }
    }
}

/// `/api/interval`: the last interval.
pub async fn interval(State(app): State<Arc<App>>) -> Response {
    match app.text() {
        text if text.is_empty() => (StatusCode::SERVICE_UNAVAILABLE, "starting\n").into_response(),
        text => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
    }
}

/// `/api/events`: sends each interval when it ends. A slow page misses intervals.
pub async fn events(State(app): State<Arc<App>>) -> Response {
    let Some(texts) = subscribe(&app.pages, app.text()) else {
        let why = "too many pages are open: close one, or read /api/interval\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let events = texts.map(|text| Ok::<_, Infallible>(Event::default().data(text)));
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

/// Stream of `first`, unless it is empty, then each text of `feed`. `None` if there are too many
/// subscribers.
fn subscribe(feed: &Feed, first: String) -> Option<impl Stream<Item = String> + use<>> {
    let permit = Arc::clone(&feed.room).try_acquire_owned().ok()?;
    let state = (feed.text.subscribe(), Some(first), permit);
    Some(stream::unfold(state, |(mut receiver, first, permit)| async move {
        let text = match first.filter(|text| !text.is_empty()) {
            Some(text) => text,
            None => {
                receiver.changed().await.ok()?;
                receiver.borrow_and_update().to_string()
            }
        };
        Some((text, (receiver, None, permit)))
    }))
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<super::PageInterval<'_>>("raidtrace.serve-interval/1");
    }
}
