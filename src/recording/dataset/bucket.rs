//! A dataset in object storage with the protocol of S3. A file becomes visible when all of it has
//! been received.
//!
//! Every request has a timeout and few retries: a server that does not answer is an error.

use std::error::Error;
use std::io::{self, ErrorKind, Read as _, Seek as _};
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{HttpError, HttpErrorKind};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _, RetryConfig};
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use tempfile::SpooledTempFile;
use tokio::runtime::Runtime;

use super::columns::TABLES;
use super::extent::Extent;
use super::source::{DatasetSource, date};

/// Maximum number of retries of a request, and the time after which none begins.
const RETRIES: usize = 5;
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of a request that uploads a part of a file.
const PART: u64 = 8 << 20;
/// Bytes at the end of a file that are read for its metadata. Files with many row groups have more.
const FOOTER: usize = 64 << 10;
/// Maximum number of requests at once. Each only asks if a file exists.
const REQUESTS: usize = 16;
/// Maximum length in characters of a server's message.
const MAX_MESSAGE: usize = 300;

/// A bucket.
pub struct Bucket {
    store: AmazonS3,
    prefix: String,
    runtime: Runtime,
}

impl Bucket {
    /// Takes keys, region and endpoint from the environment, as the AWS tools do.
    pub fn open(bucket: &str, prefix: &str) -> io::Result<Self> {
        let retry = RetryConfig {
            max_retries: RETRIES,
            retry_timeout: RETRY_TIMEOUT,
            ..RetryConfig::default()
        };
        let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
        let store = builder.build().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(Self { store, prefix: prefix.to_owned(), runtime })
    }

    fn path(&self, key: &str) -> io::Result<Path> {
        Path::parse(format!("{}/{key}", self.prefix)).map_err(io::Error::other)
    }

    /// Lists the tables.
    pub fn list(&self) -> io::Result<()> {
        let prefix = self.path("")?;
        self.runtime.block_on(self.store.list_with_delimiter(Some(&prefix))).map_err(failed)?;
        Ok(())
    }

    pub fn stored(
        &self,
        source: &DatasetSource,
        first: i64,
    ) -> io::Result<Vec<(String, Option<Extent>)>> {
        let (first, name) = (date(first), source.file_name());
        self.runtime.block_on(async {
            let dates = stream::iter(TABLES).map(async |table| {
                let listed = self.store.list_with_delimiter(Some(&self.path(table)?)).await;
                let prefixes = listed.map_err(failed)?.common_prefixes.into_iter();
                let dates = prefixes.filter_map(|path| path.filename().map(str::to_owned));
                let dates = dates.filter(|date| *date >= first);
                io::Result::Ok(dates.map(|date| source.key(table, &date, &name)).collect())
            });
            let keys: Vec<Vec<String>> = dates.buffered(REQUESTS).try_collect().await?;
            let found = stream::iter(keys.into_iter().flatten()).map(async |key| {
                let found = self.extent(&key).await;
                found.map(|extent| extent.map(|extent| (key, extent)))
            });
            let found = found.buffered(REQUESTS).try_filter_map(async |found| Ok(found));
            found.try_collect().await
        })
    }

    /// The extent of a file; `None` if there is no such file, `Some(None)` if it is damaged.
    async fn extent(&self, key: &str) -> io::Result<Option<Option<Extent>>> {
        let path = self.path(key)?;
        let mut wanted = FOOTER;
        loop {
            let range = Some(GetRange::Suffix(wanted as u64));
            let options = GetOptions { range, ..GetOptions::default() };
            let found = match self.store.get_opts(&path, options).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(None),
                found => found.map_err(failed)?,
            };
            let size = found.meta.size;
            let end = found.bytes().await.map_err(failed)?;
            let mut reader = ParquetMetaDataReader::new();
            match reader.try_parse_sized(&end, size) {
                Err(ParquetError::NeedMoreData(more)) if more > wanted && more as u64 <= size => {
                    wanted = more;
                }
                parsed => {
                    let metadata = parsed.and_then(|()| reader.finish()).ok();
                    return Ok(Some(metadata.and_then(|found| Extent::from_metadata(&found))));
                }
            }
        }
    }

    /// Uploads a file, a large one in parts, which become visible together.
    pub fn put(&self, key: &str, file: &mut SpooledTempFile) -> io::Result<()> {
        let path = self.path(key)?;
        file.rewind()?;
        let mut part = next_part(file)?;
        self.runtime.block_on(async {
            if (part.len() as u64) < PART {
                return self.store.put(&path, part.into()).await.map(|_| ()).map_err(failed);
            }
            let mut upload = self.store.put_multipart(&path).await.map_err(failed)?;
            let sent = async {
                while !part.is_empty() {
                    upload.put_part(part.into()).await.map_err(failed)?;
                    part = next_part(file)?;
                }
                upload.complete().await.map(|_| ()).map_err(failed)
            };
            let sent = sent.await;
            if sent.is_err() {
                let _ = upload.abort().await;
            }
            sent
        })
    }

    pub fn remove(&self, key: &str) -> io::Result<()> {
        let path = self.path(key)?;
        self.runtime.block_on(self.store.delete(&path)).map_err(failed)
    }
}

fn next_part(file: &mut SpooledTempFile) -> io::Result<Vec<u8>> {
    let mut part = Vec::new();
    file.take(PART).read_to_end(&mut part)?;
    Ok(part)
}

/// An error of the server or the network in one sentence, which has no URL: that of an endpoint may
/// have a password. The body of an answer can repeat headers, one of which is the session token:
/// only its code and message are shown.
fn failed(error: object_store::Error) -> io::Error {
    let all = error.to_string();
    if all.contains("169.254.169.254") {
        let why = "no keys in the environment, and no role of this instance";
        return io::Error::new(ErrorKind::PermissionDenied, why);
    }
    let (mut cause, mut kind): (&dyn Error, _) = (&error, ErrorKind::Other);
    while let Some(next) = cause.source() {
        cause = next;
        kind = match cause.downcast_ref::<HttpError>().map(HttpError::kind) {
            Some(HttpErrorKind::Connect) => ErrorKind::NotConnected,
            Some(HttpErrorKind::Timeout) => ErrorKind::TimedOut,
            _ => kind,
        };
    }
    let last = cause.to_string();
    let Some(answer) = last.strip_prefix("Server returned ") else {
        return io::Error::new(kind, shortened(&last));
    };
    let status = answer.strip_prefix("non-2xx status code: ").unwrap_or("an error");
    let status = status.split(':').next().unwrap_or_default();
    let element = |name: &str| {
        let (_, after) = answer.split_once(&format!("<{name}>"))?;
        after.split_once(&format!("</{name}>")).map(|(text, _)| text)
    };
    let code = element("Code").unwrap_or_default();
    let is_full = ["Quota", "Full", "Insufficient"].iter().any(|word| code.contains(word));
    let kind = match &status[..status.len().min(3)] {
        "507" => ErrorKind::StorageFull,
        _ if is_full => ErrorKind::StorageFull,
        "401" | "403" => ErrorKind::PermissionDenied,
        "404" => ErrorKind::NotFound,
        _ => kind,
    };
    let message = element("Message").unwrap_or_default().trim_end_matches('.');
    let status = format!("the server answers {status}");
    let parts = [status.as_str(), code, message];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    io::Error::new(kind, shortened(&parts.join(": ")))
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_MESSAGE).collect()
}
