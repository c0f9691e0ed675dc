//! Written recordings: a list, and downloads.

use std::fs;
use std::io;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use serde::Serialize;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

use super::app::App;
use crate::commands::serve::dump::is_dump;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Maximum number of entries of the list, newest first.
const LISTED: usize = 200;

#[derive(Serialize)]
struct Entry {
    name: String,
    bytes: u64,
}

/// `/dumps`: names and sizes, newest first.
pub async fn list(State(app): State<Arc<App>>) -> Response {
    let Some(dir) = &app.dump_dir else {
        return nowhere();
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) => {
            let text = format!("the directory of --dump-dir cannot be read: {error}\n");
            return (StatusCode::INTERNAL_SERVER_ERROR, text).into_response();
        }
    };
    let mut list: Vec<Entry> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let found = entry.metadata().ok()?;
            let bytes = found.len();
            (is_dump(&name) && found.is_file()).then_some(Entry { name, bytes })
        })
        .collect();
    list.sort_by(|a, b| b.name.cmp(&a.name));
    list.truncate(LISTED);
    Json(list).into_response()
}

/// `/dumps/NAME`: a recording.
pub async fn download(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some(dir) = &app.dump_dir else {
        return nowhere();
    };
    if !app.with_paths {
        let text = "recordings hold paths of files: start raidtrace serve with --with-paths to permit downloads\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    // Also refuses everything with a slash.
    if !is_dump(&name) {
        return missing();
    }
    let Ok(permit) = Arc::clone(&app.downloads).try_acquire_owned() else {
        let text = "too many downloads at once: try again\n";
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let Ok(file) = File::open(dir.join(&name)).await else {
        return missing();
    };
    let chunks = stream::unfold((file, permit), |(mut file, permit)| async move {
        let mut chunk = vec![0; CHUNK];
        match file.read(&mut chunk).await {
            Ok(0) => None,
            Ok(read) => {
                chunk.truncate(read);
                Some((Ok::<_, io::Error>(Bytes::from(chunk)), (file, permit)))
            }
            Err(error) => Some((Err(error), (file, permit))),
        }
    });
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (
            header::CONTENT_DISPOSITION,
            format!("attachment; filename=\"{name}\""),
        ),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

fn nowhere() -> Response {
    let text = "raidtrace serve runs without --dump-dir\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

fn missing() -> Response {
    let text = "there is no such recording: /dumps lists them\n";
    (StatusCode::NOT_FOUND, text).into_response()
}
