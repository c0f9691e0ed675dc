//! Lists and downloads of written recordings.

use std::fs;
use std::io;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use rustix::fs::OFlags;
use serde::Serialize;
use tokio::fs::OpenOptions;
use tokio::io::AsyncReadExt as _;

use super::app::App;
use crate::commands::serve::dump::is_dump;

/// Bytes read at once.
const CHUNK: usize = 64 << 10;
/// Maximum number of entries in the list, newest first.
const MAX_LISTED: usize = 200;

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DumpEntry {
    name: String,
    bytes: u64,
}

/// `/dumps`: names and sizes, newest first.
pub async fn list(State(app): State<Arc<App>>) -> Response {
    let Some(dir) = &app.dump_dir else {
        return no_dump_dir();
    };
    let Ok(_permit) = app.downloads.try_acquire() else {
        return busy();
    };
    let dir = dir.clone();
    // Do not block the HTTP side: the directory may be on a disk that hangs.
    let read = tokio::task::spawn_blocking(move || entries(&dir)).await;
    match read.unwrap_or_else(|error| Err(io::Error::other(error))) {
        Ok(list) => Json(list).into_response(),
        Err(error) => {
            let text = format!("the directory of --dump-dir cannot be read: {error}\n");
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
        }
    }
}

fn entries(dir: &std::path::Path) -> io::Result<Vec<DumpEntry>> {
    let mut list: Vec<DumpEntry> = fs::read_dir(dir)?
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let found = entry.metadata().ok()?;
            let bytes = found.len();
            (is_dump(&name) && found.is_file()).then_some(DumpEntry { name, bytes })
        })
        .collect();
    list.sort_by(|a, b| b.name.cmp(&a.name));
    list.truncate(MAX_LISTED);
    Ok(list)
}

/// `/dumps/NAME`: a recording.
pub async fn download(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response {
    let Some(dir) = &app.dump_dir else {
        return no_dump_dir();
    };
    if !app.with_paths {
        let text = "recordings contain file paths: start raidtrace serve with --with-paths to \
                    allow downloads\n";
        return (StatusCode::FORBIDDEN, text).into_response();
    }
    // This check also rejects names with a slash.
    if !is_dump(&name) {
        return not_found();
    }
    let Ok(permit) = Arc::clone(&app.downloads).try_acquire_owned() else {
        return busy();
    };
    // Other users may have write access to the directory: do not follow symbolic links, and do not
    // block on a FIFO.
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.read(true).custom_flags(flags.bits().cast_signed());
    let Ok(file) = options.open(dir.join(&name)).await else {
        return not_found();
    };
    if !file.metadata().await.is_ok_and(|found| found.is_file()) {
        return not_found();
    }
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
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}\"")),
    ];
    (headers, Body::from_stream(chunks)).into_response()
}

fn no_dump_dir() -> Response {
    let text = "raidtrace serve runs without --dump-dir\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

fn busy() -> Response {
    let text = "too many downloads or lists: try again later\n";
    (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
}

fn not_found() -> Response {
    let text = "no such recording: /dumps lists all recordings\n";
    (StatusCode::NOT_FOUND, text).into_response()
}

#[cfg(test)]
mod tests {
    #[test]
    fn schema() {
        crate::test_schema::check::<Vec<super::DumpEntry>>("raidtrace.serve-dumps/1");
    }
}
