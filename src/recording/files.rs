//! Files of a recording.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _};
use std::path::{Path, PathBuf};

use super::error::TraceError;

/// Files of the recording at `path`: the file itself or, if it does not exist, its parts in order.
/// If `path` is a part: that part and all later ones.
pub fn list(path: &Path) -> Vec<PathBuf> {
    if path.exists() {
        let mut all = whole(path).map_or_else(Vec::new, |whole| parts(&whole));
        let same = |part: &PathBuf| part.file_name() == path.file_name();
        let first = all.iter().position(same);
        all = first.map_or_else(Vec::new, |first| all.split_off(first));
        return if all.is_empty() { vec![path.to_owned()] } else { all };
    }
    let parts = parts(path);
    if parts.is_empty() {
        // Opening it returns the error.
        return vec![path.to_owned()];
    }
    parts
}

/// Parts of the recording at `path` (`path.0001.part`, `path.0002.part`, ...), sorted by number.
pub fn parts(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().unwrap_or_default();
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut parts: Vec<(u64, PathBuf)> =
        paths.filter_map(|part| Some((number(&part, name.as_bytes())?, part))).collect();
    parts.sort();
    parts.into_iter().map(|part| part.1).collect()
}

pub fn part(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number:04}.part"));
    name.into()
}

/// Path of the recording that `part` belongs to.
fn whole(part: &Path) -> Option<PathBuf> {
    let name = part.file_name()?.as_bytes().strip_suffix(b".part")?;
    let dot = name.iter().rposition(|&b| b == b'.').filter(|&dot| dot > 0)?;
    let name = std::ffi::OsStr::from_bytes(name.get(..dot)?);
    number(part, name.as_bytes()).map(|_| part.with_file_name(name))
}

/// Number of a part (`NAME.0001.part`). Numbers above 9999 have more than four digits.
fn number(path: &Path, name: &[u8]) -> Option<u64> {
    let rest = path.file_name()?.as_bytes().strip_prefix(name)?.strip_prefix(b".")?;
    let digits = rest.strip_suffix(b".part")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let all = digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|_| all)
}

/// Opens a regular file. Rejects a FIFO, because opening it would wait for a writer, and a device,
/// because it has no end.
pub fn open(path: &Path) -> Result<File, TraceError> {
    let io = |error| TraceError::Io(path.to_owned(), error);
    let metadata = match path.metadata() {
        Err(_) if path.as_os_str() == "-" => {
            return Err(TraceError::NoFile(path.to_owned(), "standard input"));
        }
        other => other.map_err(io)?,
    };
    let kind = metadata.file_type();
    let other = match () {
        () if kind.is_file() => return File::open(path).map_err(io),
        () if kind.is_dir() => "a directory",
        () if kind.is_fifo() => "a pipe",
        () if kind.is_socket() => "a socket",
        () => "a device",
    };
    Err(TraceError::NoFile(path.to_owned(), other))
}

/// True if the file ends with the end marker of an Arrow stream.
pub fn has_end_marker(path: &Path) -> bool {
    let mut end = [0; 8];
    let read = open(path).is_ok_and(|file| {
        let size = file.metadata().map_or(0, |m| m.len());
        file.read_exact_at(&mut end, size.saturating_sub(8)).is_ok()
    });
    read && end == [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]
}

#[cfg(test)]
mod tests {
    use super::{list, part, parts};

    #[test]
    fn parts_are_ordered_by_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let all = [1, 2, 9999, 10_000, 123_456].map(|number| part(&path, number));
        for (name, found) in [("a.10000.part", &all[3]), ("a.0001.part", &all[0])] {
            assert_eq!(found, &folder.path().join(name));
        }
        for other in ["a.001.part", "a.000x.part", "b.0001.part", "a.0001.partly"] {
            std::fs::write(folder.path().join(other), "").unwrap();
        }
        for part in &all {
            std::fs::write(part, "").unwrap();
        }
        assert_eq!(parts(&path), all);
        assert_eq!(list(&path), all);
        assert_eq!(list(&all[2]), all[2..]);
    }
}
