//! What is answered on which path.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;

use super::app::App;
use super::guard::{Guard, guard};
use super::{dumps, events};
use crate::commands::serve::exposition::{Figures, FlightFigures, open_metrics, plain};
use crate::machine::own::OwnUse;
use crate::session::remote::message;

/// Bytes of a request's body. None has one that is read.
const BODY: usize = 4096;
/// Age of the last interval up to which the session is healthy.
const FRESH: Duration = Duration::from_secs(10);

/// The routes behind `rules`.
pub fn router(app: Arc<App>, rules: Guard) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/page.js", get(script))
        .route("/page.css", get(style))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/api/interval", get(events::interval))
        .route("/api/events", get(events::events))
        .route(message::PATH, get(events::snapshots))
        .route("/api/timeline", get(timeline))
        .route("/api/dump", post(dump))
        .route("/dumps", get(dumps::list))
        .route("/dumps/{name}", get(dumps::download))
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(Arc::new(rules), guard))
        .with_state(app)
}

fn typed(content_type: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

async fn page() -> Response {
    typed(
        "text/html; charset=utf-8",
        include_str!("../page/page.html"),
    )
}

async fn script() -> Response {
    typed(
        "text/javascript; charset=utf-8",
        include_str!("../page/page.js"),
    )
}

async fn style() -> Response {
    typed("text/css; charset=utf-8", include_str!("../page/page.css"))
}

async fn unknown() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not here: there are / (page), /metrics, /healthz, /dumps, /api/interval, /api/events and /api/timeline\n",
    )
}

/// OpenMetrics if the client accepts it, as Prometheus does; else the older text format.
async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let flight = app.shared.flight();
    let figures = Figures {
        totals: app.shared.totals(),
        flight: flight.bytes.map(|bytes| FlightFigures {
            bytes,
            seconds: flight.span.as_secs_f64(),
            dumps: flight.written.dumps,
            errors: flight.written.errors,
        }),
        own: OwnUse::now(),
        update_failed: flight.update_failed,
        connections: app.open.load(Ordering::Relaxed),
    };
    let Ok(text) = open_metrics(figures) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    let accept = headers.get_all(header::ACCEPT).iter();
    let accepts = accept
        .filter_map(|a| a.to_str().ok())
        .any(|a| a.contains("application/openmetrics-text"));
    if accepts {
        typed(
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            text,
        )
    } else {
        typed("text/plain; version=0.0.4; charset=utf-8", plain(&text))
    }
}

/// 200 as long as intervals end.
async fn health(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    let latest = app.shared.latest.borrow().clone();
    let age = latest.map(|s| jiff::Timestamp::now().duration_since(s.time));
    match age {
        Some(age) if age.unsigned_abs() < FRESH => (StatusCode::OK, "ok\n"),
        Some(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "no interval has ended for 10 s: a device or sysfs does not answer\n",
        ),
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
    }
}

#[derive(Deserialize)]
struct Since {
    /// Points that end after this second since 1970.
    #[serde(default)]
    since: i64,
}

async fn timeline(
    State(app): State<Arc<App>>,
    since: Result<Query<Since>, QueryRejection>,
) -> Response {
    match since {
        Ok(Query(Since { since })) => Json(app.shared.timeline().since(since)).into_response(),
        Err(_) => (
            StatusCode::BAD_REQUEST,
            "since is a number of seconds since 1970\n",
        )
            .into_response(),
    }
}

async fn dump(State(app): State<Arc<App>>) -> Response {
    match app.shared.ask_for_dump("a request from the page") {
        Ok(()) => (StatusCode::ACCEPTED, "the last minutes are being written\n").into_response(),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}
