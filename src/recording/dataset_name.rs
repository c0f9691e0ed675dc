//! The name of a dataset on the command line.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;

/// Maximum length of a prefix in bytes. A key has at most 1024, of which names below the prefix
/// take up to 300.
const MAX_PREFIX: usize = 700;

/// A directory, or `s3://BUCKET/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DatasetName {
    Directory(PathBuf),
    /// A bucket of object storage with the protocol of S3; `prefix` may be empty.
    Bucket {
        bucket: String,
        prefix: String,
    },
}

impl DatasetName {
    /// Parses an argument.
    ///
    /// # Errors
    /// It is empty, or a URL of another kind, or a malformed one. The message has no part of a URL
    /// that may be a password.
    pub fn parse(argument: &OsStr) -> Result<Self, String> {
        let text = argument.to_string_lossy();
        let Some((scheme, rest)) = text.split_once("://") else {
            if text.is_empty() {
                return Err("the name of the dataset is empty".to_owned());
            }
            return Ok(Self::Directory(argument.into()));
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        if bucket.contains([':', '@']) {
            return Err("a URL of a dataset is s3://BUCKET/PREFIX, without keys and ports: set \
                        AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL in the \
                        environment"
                .to_owned());
        }
        if !scheme.eq_ignore_ascii_case("s3") {
            return Err(format!(
                "{text}: unknown kind of storage: name a directory, or s3://BUCKET/PREFIX"
            ));
        }
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
        if !(3..=255).contains(&bucket.len()) || !bucket.chars().all(is_valid) {
            return Err(format!("{text}: not the name of a bucket: s3://BUCKET/PREFIX"));
        }
        let is_segment = |part: &str| {
            !matches!(part, "" | "." | "..")
                && !part.contains(|c: char| c.is_control() || c == char::REPLACEMENT_CHARACTER)
        };
        let is_prefix = prefix.is_empty() || prefix.split('/').all(is_segment);
        if !is_prefix || prefix.len() > MAX_PREFIX {
            return Err(format!(
                "{text}: the prefix must be names with / between them, of at most {MAX_PREFIX} \
                 bytes: s3://BUCKET/PREFIX"
            ));
        }
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for DatasetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Bucket { bucket, prefix } if prefix.is_empty() => write!(f, "s3://{bucket}"),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::{DatasetName, MAX_PREFIX};

    fn parse(text: &str) -> Result<String, String> {
        DatasetName::parse(OsStr::new(text)).map(|name| name.to_string())
    }

    #[test]
    fn directories_and_buckets() {
        for (text, name) in [
            ("fleet", "fleet"),
            ("s3:/fleet", "s3:/fleet"),
            ("s3://fleet", "s3://fleet"),
            ("S3://fleet/", "s3://fleet"),
            ("s3://fleet.example/a/b=c%/", "s3://fleet.example/a/b=c%"),
        ] {
            assert_eq!(parse(text).as_deref(), Ok(name));
            let is_bucket = name.starts_with("s3://");
            let parsed = DatasetName::parse(OsStr::new(text)).unwrap();
            assert_eq!(matches!(parsed, DatasetName::Bucket { .. }), is_bucket, "{text}");
        }
        let bytes = OsStr::from_bytes(b"/mnt/\xff");
        assert_eq!(DatasetName::parse(bytes), Ok(DatasetName::Directory(bytes.into())));
    }

    #[test]
    fn malformed_urls() {
        for (text, why) in [
            ("", "empty"),
            ("gs://fleet", "gs://fleet: unknown kind"),
            ("http://host/fleet", "unknown kind"),
            ("s3://", "not the name of a bucket"),
            ("s3:///fleet", "not the name of a bucket"),
            ("s3://f", "not the name of a bucket"),
            ("s3://fl eet", "not the name of a bucket"),
            ("s3://fleet//a", "the prefix"),
            ("s3://fleet/a/../b", "the prefix"),
            ("s3://fleet/a\nb", "the prefix"),
        ] {
            assert!(parse(text).unwrap_err().contains(why), "{text}: {:?}", parse(text));
        }
        assert!(parse(&format!("s3://fleet/{}", "a".repeat(MAX_PREFIX + 1))).is_err());
        let bytes = OsStr::from_bytes(b"s3://fleet/\xff");
        assert!(DatasetName::parse(bytes).is_err());
    }

    #[test]
    fn keys_in_a_url_are_refused_and_not_repeated() {
        for text in ["s3://ID:secret@fleet", "s3n://ID:sec/ret@fleet/a", "s3://secret@fleet"] {
            let why = parse(text).unwrap_err();
            assert!(why.contains("AWS_ACCESS_KEY_ID") && !why.contains("sec"), "{why}");
        }
    }
}
