//! Names of the files and directories of a dataset.

use std::collections::HashMap;

use jiff::Timestamp;

use crate::machine::host_id::HostIdentity;
use crate::recording::header::Header;

/// Value of a partition without a value, as in Hive.
const NO_HOST: &str = "__HIVE_DEFAULT_PARTITION__";
/// Maximum length of an encoded host name in bytes: file names have at most 255.
const MAX_HOST: usize = 200;
/// Bytes of a sector, the unit of chunks in a header.
const SECTOR: i64 = 512;

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;

/// A recording, an inventory or rows of `serve`: its identity, and values that are the same in all
/// its rows.
#[derive(Debug)]
pub struct DatasetSource {
    /// Name of the source's files, without a suffix: the start of the recording, and a checksum of
    /// its header. A longer copy of the same recording has the same.
    pub id: String,
    /// Day of the start, counted from 1970.
    pub day: i64,
    /// Encoded name of the host.
    host: String,
    pub host_name: String,
    pub host_id: Option<String>,
    pub kernel: String,
    /// Level and chunk in bytes of each array.
    pub arrays: HashMap<String, (String, i64)>,
    /// Array of each filesystem.
    pub filesystems: HashMap<String, String>,
}

impl DatasetSource {
    pub fn of_recording(header: &Header) -> Self {
        let started = header.started.parse::<Timestamp>().unwrap_or_default();
        let arrays = header.arrays.iter();
        let geometry = arrays
            .map(|a| (a.name.clone(), (a.level.clone(), i64::from(a.chunk_sectors) * SECTOR)));
        let filesystems = header.filesystems.iter();
        Self {
            id: id(started, header.checksum),
            day: day(started.as_microsecond()),
            host: host(&header.host),
            host_name: header.host.clone(),
            host_id: header.host_id.clone(),
            kernel: header.kernel.clone(),
            arrays: geometry.collect(),
            filesystems: filesystems.map(|fs| (fs.name.clone(), fs.array.clone())).collect(),
        }
    }

    /// Rows of a host that begin at `time`; `maker`: `inventory` or `serve`, at the end of `id`.
    /// The name of their files depends on nothing else: rows that come in two files, of which one
    /// was cut, do not count twice.
    pub fn of_host(time: Timestamp, of: &HostIdentity, maker: &str) -> Self {
        let identity = format!("{}\0{:?}\0{}", of.host_name, of.host_id, of.kernel);
        Self {
            id: format!("{}-{maker}", id(time, crc32c::crc32c(identity.as_bytes()))),
            day: day(time.as_microsecond()),
            host: host(&of.host_name),
            host_name: of.host_name.clone(),
            host_id: of.host_id.clone(),
            kernel: of.kernel.clone(),
            arrays: HashMap::new(),
            filesystems: HashMap::new(),
        }
    }

    /// Key of a file: its path in the dataset.
    pub fn key(&self, table: &str, date: &str, file: &str) -> String {
        format!("{table}/{date}/host={}/{file}", self.host)
    }

    pub fn file_name(&self) -> String {
        format!("{}.parquet", self.id)
    }

    /// Name of a file that is being written. Engines skip names that start with a dot.
    pub fn temporary_name(&self) -> String {
        format!(".{}.tmp", self.id)
    }
}

fn id(time: Timestamp, checksum: u32) -> String {
    format!("{}-{checksum:08x}", time.strftime("%Y%m%dT%H%M%S.%6fZ"))
}

/// Day of a time in µs since 1970, counted from 1970.
pub fn day(time_us: i64) -> i64 {
    time_us.div_euclid(DAY_US)
}

/// Name of the directory of a day, counted from 1970.
pub fn date(day: i64) -> String {
    let start = Timestamp::from_microsecond(day.saturating_mul(DAY_US)).unwrap_or_default();
    start.strftime("date=%Y-%m-%d").to_string()
}

/// A host name as the value of a partition. Hive, Spark and DuckDB escape and restore the same
/// characters: those that paths, globs and shells take, as `%` and two hexadecimal digits.
fn host(name: &str) -> String {
    let mut encoded = String::new();
    for c in name.chars() {
        let is_special = c.is_ascii_control() || "\"#%'*/:=?\\{}[]^".contains(c);
        let next = if is_special { format!("%{:02X}", u32::from(c)) } else { c.to_string() };
        if encoded.len() + next.len() > MAX_HOST {
            break;
        }
        encoded += &next;
    }
    if encoded.is_empty() { NO_HOST.to_owned() } else { encoded }
}

#[cfg(test)]
mod tests {
    use super::{MAX_HOST, host};

    #[test]
    fn host_names_are_one_component_of_a_path() {
        for (name, encoded) in [
            ("db-1.example.org", "db-1.example.org"),
            ("", "__HIVE_DEFAULT_PARTITION__"),
            ("../x", "..%2Fx"),
            ("a=b", "a%3Db"),
            ("100%", "100%25"),
            ("\0\n\u{7f}", "%00%0A%7F"),
            ("h\u{f6}st \u{1f600}", "h\u{f6}st \u{1f600}"),
            ("*?[a]{b}", "%2A%3F%5Ba%5D%7Bb%7D"),
        ] {
            assert_eq!(host(name), encoded);
        }
        for long in ["x", "/", "\u{1f600}"] {
            let encoded = host(&long.repeat(1000));
            assert!((MAX_HOST - 4..=MAX_HOST).contains(&encoded.len()), "{encoded}");
        }
    }
}
