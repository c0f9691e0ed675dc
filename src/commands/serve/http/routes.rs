//! Routes and their request handlers.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::app::App;
use super::guard::{AccessRules, guard};
use super::{dumps, events};
use crate::commands::serve::exposition::{MetricValues, open_metrics, plain};
use crate::commands::serve::tracing::MAX_FRESH_AGE;
use crate::machine::own::OwnUse;
use crate::ui::html::page::THEME;

/// Maximum size of a request body. No handler reads a body.
const MAX_BODY_BYTES: usize = 4096;

/// All routes, protected by `rules`.
pub fn router(app: Arc<App>, rules: AccessRules) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/page.js", get(script))
        .route("/page.css", get(style))
        .route("/favicon.ico", get(|| async { StatusCode::NO_CONTENT }))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .route("/api/interval", get(events::interval))
        .route("/api/events", get(events::events))
        .route("/api/timeline", get(timeline))
        .route("/api/dump", post(dump))
        .route("/dumps", get(dumps::list))
        .route("/dumps/{name}", get(dumps::download))
        .fallback(unknown)
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(middleware::from_fn_with_state(Arc::new(rules), guard))
        .with_state(app)
}

fn typed(content_type: &'static str, text: impl IntoResponse) -> Response {
    ([(header::CONTENT_TYPE, content_type)], text).into_response()
}

async fn page() -> Response {
    let text = include_str!("../page/page.html");
    typed("text/html; charset=utf-8", text)
}

async fn script() -> Response {
    let text = include_str!("../page/page.js");
    typed("text/javascript; charset=utf-8", text)
}

async fn style() -> Response {
    let text = [THEME, include_str!("../page/page.css")].concat();
    typed("text/css; charset=utf-8", text)
}

async fn unknown() -> (StatusCode, &'static str) {
    (
        StatusCode::NOT_FOUND,
        "not found: use / (page), /metrics, /healthz, /dumps, /api/interval, /api/events or \
         /api/timeline\n",
    )
}

/// Returns OpenMetrics if the client accepts it, as Prometheus does, else the older text format.
async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let figures = MetricValues {
        totals: app.shared.totals(),
        flight: app.shared.flight(),
        own: OwnUse::now(),
        connections: app.open.load(Ordering::Relaxed),
    };
    let accept = headers.get_all(header::ACCEPT).iter();
    let accepts =
        accept.filter_map(|a| a.to_str().ok()).any(|a| a.contains("application/openmetrics-text"));
    // Writing to a String cannot fail.
    let text = || open_metrics(figures).unwrap_or_default();
    if accepts {
        let content_type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        app.large(content_type, text).await
    } else {
        let content_type = "text/plain; version=0.0.4; charset=utf-8";
        app.large(content_type, || plain(&text())).await
    }
}

/// Returns 200 as long as intervals end in time.
async fn health(State(app): State<Arc<App>>) -> (StatusCode, &'static str) {
    match app.shared.age() {
        Some(age) if age < MAX_FRESH_AGE => (StatusCode::OK, "ok\n"),
        Some(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "no interval has ended for 10 s: a device or sysfs does not respond\n",
        ),
        None => (StatusCode::SERVICE_UNAVAILABLE, "starting\n"),
    }
}

#[derive(Deserialize)]
struct After {
    /// Return points with larger numbers than this.
    #[serde(default)]
    after: u64,
}

async fn timeline(
    State(app): State<Arc<App>>,
    after: Result<Query<After>, QueryRejection>,
) -> Response {
    match after {
        Ok(Query(After { after })) => {
            let points = app.shared.timeline().after(after);
            let text = || serde_json::to_string(&points).unwrap_or_default();
            app.large("application/json", text).await
        }
        Err(_) => {
            (StatusCode::BAD_REQUEST, "after must be the number of a point, or 0 for all points\n")
                .into_response()
        }
    }
}

async fn dump(State(app): State<Arc<App>>) -> Response {
    let Some(pause) = app.dump_pause else {
        let why = "raidtrace serve runs with --no-dump-requests\n";
        return (StatusCode::FORBIDDEN, why).into_response();
    };
    match app.shared.request_dump("a request from the page", pause) {
        Ok(()) => (StatusCode::ACCEPTED, "the last minutes are being written\n").into_response(),
        Err(why) => (StatusCode::CONFLICT, format!("{why}\n")).into_response(),
    }
}
