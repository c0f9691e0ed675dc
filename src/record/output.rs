//! The files of a recording.
//!
//! FILE is made when everything is attached, so that what fails before leaves nothing behind; with --force, the old one is
//! replaced then, in one step. With --rotate there are pieces beside it, FILE.0001.part and so on, each a recording of
//! its own; at the end they become FILE.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _, Read, Seek as _, SeekFrom, Write};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};
use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::io::Errno;

use crate::trace::writer::Output;

/// A piece lasts a tenth of what is kept, and between these.
const PIECE_LEAST: Duration = Duration::from_secs(1);
const PIECE_MOST: Duration = Duration::from_secs(60);
/// Behind the batches of an Arrow stream: a message of length 0.
const END: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// Where a recording goes.
pub struct Files {
    path: PathBuf,
    force: bool,
    kind: Kind,
}

enum Kind {
    Stdout,
    /// A pipe, a terminal, /dev/null: open, until it has begun. A FIFO waits for its reader when it is opened, which a
    /// signal must be able to end.
    Special(Option<File>),
    File,
    Pieces(Pieces),
}

struct Pieces {
    /// How much is kept, and how long a piece lasts.
    keep: Duration,
    each: Duration,
    /// The last one is being written.
    all: VecDeque<Piece>,
    next: u32,
}

struct Piece {
    path: PathBuf,
    since: Instant,
}

/// An open file, or what is not one.
pub struct Sink {
    file: File,
    is_file: bool,
}

impl Sink {
    /// No pipe or the like.
    pub fn is_file(&self) -> bool {
        self.is_file
    }
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Output for Sink {
    fn sync(&mut self) -> io::Result<()> {
        if self.is_file {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }
}

impl Files {
    /// Checks what can be checked before anything is loaded. `-` is stdout.
    pub fn new(path: &Path, force: bool, rotate: Option<Duration>) -> Result<Self> {
        let name = path.display();
        let kind = if path == Path::new("-") {
            if io::stdout().is_terminal() {
                bail!(
                    "a recording is nothing for a terminal: give a file (-o incident.rtrace), or a pipe behind -o -"
                );
            }
            Kind::Stdout
        } else {
            match fs::metadata(path) {
                Ok(there) if there.is_dir() => {
                    bail!("{name} is a directory: name a file in it (-o {name}/incident.rtrace)")
                }
                Ok(there) if there.file_type().is_fifo() || there.file_type().is_char_device() => {
                    Kind::Special(None)
                }
                Ok(there) if !there.is_file() => bail!("{name} is no file: name another"),
                Ok(_) if !force => {
                    bail!("{name} exists: name another file, or have it replaced with --force")
                }
                _ => Kind::File,
            }
        };
        let kind = match (kind, rotate) {
            (kind, None) => kind,
            (Kind::File, Some(keep)) => Kind::Pieces(Pieces {
                keep,
                each: (keep / 10).clamp(PIECE_LEAST, PIECE_MOST),
                all: VecDeque::new(),
                next: 1,
            }),
            (_, Some(_)) => bail!("--rotate needs a file (-o incident.rtrace), not {name}"),
        };
        let mut files = Self {
            path: path.to_owned(),
            force,
            kind,
        };
        if matches!(files.kind, Kind::File | Kind::Pieces(_)) {
            if path.file_name().is_none() {
                bail!("{name} is no name for a file");
            }
            access(files.folder(), Access::WRITE_OK | Access::EXEC_OK).with_context(|| {
                format!("{name} cannot be made in {}", files.folder().display())
            })?;
            if let Some(piece) = files.left_over().first()
                && !force
            {
                bail!(
                    "{} is there, of a recording that was killed: look at it (raidtrace report {name}), name another file, \
                     or have it removed with --force",
                    piece.display()
                );
            }
            let new = files.beside("new");
            if !matches!(files.kind, Kind::File if !force) && new.symlink_metadata().is_ok() {
                bail!(
                    "{} exists, where the recording is to be made before it becomes {name}: name another file, or have \
                     that one out of the way",
                    new.display()
                );
            }
        }
        if let Kind::Special(file) = &mut files.kind {
            let open = OpenOptions::new().write(true).open(path);
            *file = Some(open.with_context(|| format!("{name} cannot be written"))?);
        }
        Ok(files)
    }

    /// The directory that it is in.
    pub fn folder(&self) -> &Path {
        match self.path.parent() {
            Some(dir) if dir != Path::new("") => dir,
            _ => Path::new("."),
        }
    }

    /// The device number that its bytes go to, as the kernel has it; `None`: none.
    pub fn device(&self) -> Option<u32> {
        if matches!(self.kind, Kind::Stdout | Kind::Special(_)) {
            return None;
        }
        let dev = fs::metadata(self.folder()).ok()?.dev();
        Some(rustix::fs::major(dev) << 20 | rustix::fs::minor(dev) & 0xf_ffff)
    }

    /// Whether it is this process's stdout.
    pub fn is_stdout(&self) -> bool {
        matches!(self.kind, Kind::Stdout)
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Stdout => "standard output".to_owned(),
            _ => self.path.display().to_string(),
        }
    }

    /// Everything is attached: `begin` gets the output and writes the beginning of the recording to it. What is to be
    /// replaced is there until that has returned, and stays if it has failed.
    pub fn begin<T>(&mut self, begin: impl FnOnce(Sink) -> io::Result<T>) -> Result<T> {
        let name = self.name();
        let failed = || format!("{name} cannot be written");
        match &mut self.kind {
            Kind::Stdout => {
                let file = io::stdout();
                let file = rustix::io::dup(&file).with_context(failed)?;
                begin(Sink {
                    file: file.into(),
                    is_file: false,
                })
                .with_context(failed)
            }
            Kind::Special(file) => {
                let file = file.take().ok_or(io::ErrorKind::NotFound);
                let file = file.map_err(io::Error::from).with_context(failed)?;
                begin(Sink {
                    file,
                    is_file: false,
                })
                .with_context(failed)
            }
            Kind::File if self.force => self.begin_beside(&self.path, begin).with_context(failed),
            Kind::File => {
                let begun = made(&self.path).with_context(failed)?;
                let begun = begin(begun).with_context(failed);
                if begun.is_err() {
                    // Its header found no room.
                    let _ = fs::remove_file(&self.path);
                }
                self.sync_folder();
                begun
            }
            Kind::Pieces(pieces) => {
                let next = pieces.next;
                let first = self.part(next);
                let begun = self.begin_beside(&first, begin).with_context(failed)?;
                self.began(first);
                Ok(begun)
            }
        }
    }

    /// Begins as FILE.new, which then becomes `path`. Only then what is replaced goes: the file and the pieces of an
    /// earlier recording.
    fn begin_beside<T>(
        &self,
        path: &Path,
        begin: impl FnOnce(Sink) -> io::Result<T>,
    ) -> io::Result<T> {
        let left_over = self.left_over();
        let new = self.beside("new");
        let begun = begin(made(&new)?).and_then(|begun| {
            self.rename(&new, path)?;
            Ok(begun)
        });
        if begun.is_err() {
            let _ = fs::remove_file(&new);
            return begun;
        }
        self.sync_folder();
        if self.force {
            if path != self.path {
                // Readers would take it for this recording.
                let _ = fs::remove_file(&self.path);
            }
            left_over
                .iter()
                .filter(|p| *p != path)
                .for_each(|p| drop(fs::remove_file(p)));
            self.sync_folder();
        }
        begun
    }

    /// Takes the place of what is there only with --force.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.force {
            return fs::rename(from, to);
        }
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every filesystem can. A link never replaces, either.
            Err(Errno::INVAL | Errno::NOSYS) => {
                fs::hard_link(from, to).and_then(|()| fs::remove_file(from))
            }
            renamed => Ok(renamed?),
        }
    }

    /// The output of the next piece, if it is time for one.
    pub fn turn(&mut self) -> io::Result<Option<Sink>> {
        let Kind::Pieces(pieces) = &self.kind else {
            return Ok(None);
        };
        let due = pieces
            .all
            .back()
            .is_none_or(|p| p.since.elapsed() >= pieces.each);
        if due {
            self.piece().map(Some)
        } else {
            Ok(None)
        }
    }

    fn piece(&mut self) -> io::Result<Sink> {
        let Kind::Pieces(pieces) = &self.kind else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let path = self.part(pieces.next);
        let output = made(&path)?;
        self.sync_folder();
        self.began(path);
        Ok(output)
    }

    /// A piece is being written; what is too old goes.
    fn began(&mut self, path: PathBuf) {
        if let Kind::Pieces(pieces) = &mut self.kind {
            pieces.next += 1;
            pieces.all.push_back(Piece {
                path,
                since: Instant::now(),
            });
            // A piece ends where the next begins.
            while pieces
                .all
                .get(1)
                .is_some_and(|next| next.since.elapsed() > pieces.keep)
            {
                if let Some(old) = pieces.all.pop_front() {
                    let _ = fs::remove_file(old.path);
                }
            }
        }
    }

    /// The recording has ended well: pieces become one file. Bytes of the whole, if they have.
    pub fn finish(&mut self) -> Result<Option<u64>> {
        let Kind::Pieces(pieces) = &self.kind else {
            return Ok(None);
        };
        let paths: Vec<PathBuf> = pieces.all.iter().map(|p| p.path.clone()).collect();
        let new = self.beside("new");
        let joined = made(&new).and_then(|sink| {
            let joined = join(&paths, sink.file);
            if joined.is_err() {
                let _ = fs::remove_file(&new);
            }
            joined
        });
        let bytes = joined.with_context(|| {
            format!(
                "{} could not be made of its pieces, which are whole ({} and so on: raidtrace report {} reads them)",
                self.name(),
                paths.first().map_or_else(String::new, |p| p.display().to_string()),
                self.name()
            )
        })?;
        let renamed = self.rename(&new, &self.path);
        self.sync_folder();
        paths.iter().for_each(|p| drop(fs::remove_file(p)));
        if let Err(e) = renamed {
            let wanted = std::mem::replace(&mut self.path, new);
            return Err(Error::new(e).context(format!(
                "the recording is {}, and could not become {}",
                self.name(),
                wanted.display()
            )));
        }
        Ok(Some(bytes))
    }

    fn part(&self, number: u32) -> PathBuf {
        self.beside(&format!("{number:04}.part"))
    }

    /// FILE.what
    fn beside(&self, what: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(what);
        name.into()
    }

    /// Pieces that are there.
    fn left_over(&self) -> Vec<PathBuf> {
        let mut start = self.path.file_name().unwrap_or_default().to_owned();
        start.push(".");
        let entries = fs::read_dir(self.folder()).into_iter().flatten().flatten();
        let mut found: Vec<PathBuf> = entries
            .filter(|e| is_piece(&start, &e.file_name()))
            .map(|e| e.path())
            .collect();
        found.sort();
        found
    }

    /// A new name survives a power cut only then.
    fn sync_folder(&self) {
        if let Ok(dir) = File::open(self.folder()) {
            let _ = dir.sync_all();
        }
    }
}

fn is_piece(start: &OsString, name: &OsString) -> bool {
    use std::os::unix::ffi::OsStrExt as _;
    let number = name
        .as_bytes()
        .strip_prefix(start.as_bytes())
        .and_then(|rest| rest.strip_suffix(b".part"));
    number.is_some_and(|n| n.len() >= 4 && n.iter().all(u8::is_ascii_digit))
}

/// A file that was not there.
fn made(path: &Path) -> io::Result<Sink> {
    let file = OpenOptions::new().write(true).create_new(true).open(path)?;
    Ok(Sink {
        file,
        is_file: true,
    })
}

/// Copies the batches of `pieces` behind the schema of the first, which is that of all.
fn join(pieces: &[PathBuf], mut out: File) -> io::Result<u64> {
    let mut first = true;
    for piece in pieces {
        let mut file = File::open(piece)?;
        let mut left = file.metadata()?.len();
        let mut head = [0; 8];
        file.read_exact(&mut head)?;
        if !first {
            let [_, _, _, _, a, b, c, d] = head;
            let schema = 8 + u64::from(u32::from_le_bytes([a, b, c, d]));
            left = left.saturating_sub(schema);
            file.seek(SeekFrom::Start(schema))?;
        } else {
            file.rewind()?;
        }
        let mut end = [0; 8];
        let at = file.stream_position()?;
        if left >= 8 {
            file.seek(SeekFrom::End(-8))?;
            file.read_exact(&mut end)?;
            file.seek(SeekFrom::Start(at))?;
        }
        if end == END {
            left -= 8;
        }
        io::copy(&mut file.take(left), &mut out)?;
        first = false;
    }
    out.write_all(&END)?;
    out.sync_all()?;
    Ok(out.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::{Files, is_piece, join};
    use std::fs;
    use std::io::{ErrorKind, Write as _};
    use std::path::Path;
    use std::time::Duration;

    #[test]
    fn what_is_there_is_not_overwritten_unasked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.rtrace");
        assert!(Files::new(&path, false, None).is_ok());
        fs::write(&path, "old").unwrap();
        let why = |force, rotate| match Files::new(&path, force, rotate) {
            Ok(_) => String::new(),
            Err(e) => e.to_string(),
        };
        assert!(why(false, None).contains("--force"));
        assert_eq!(why(true, None), "");
        // Not before it has begun, and not when it cannot.
        let mut files = Files::new(&path, true, None).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let failed = files.begin::<()>(|_| Err(std::io::ErrorKind::StorageFull.into()));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        files.begin(|mut out| out.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        // Pieces of one that was killed.
        fs::remove_file(&path).unwrap();
        fs::write(dir.path().join("a.rtrace.0003.part"), "x").unwrap();
        assert!(why(false, None).contains("0003.part"));
        assert!(why(false, Some(Duration::from_secs(60))).contains("0003.part"));
    }

    /// What is in the directory, by name.
    fn there(dir: &Path) -> Vec<(String, String)> {
        let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
        let mut found: Vec<_> = entries
            .map(|e| {
                let name = e.file_name().to_str().unwrap().to_owned();
                (name, fs::read_to_string(e.path()).unwrap())
            })
            .collect();
        found.sort();
        found
    }

    fn own(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = |(name, text): &(&str, &str)| ((*name).to_owned(), (*text).to_owned());
        files.iter().map(own).collect()
    }

    #[test]
    fn what_is_replaced_goes_only_when_the_new_one_has_begun() {
        let old = [
            ("a", "old"),
            ("a.0001.part", "left"),
            ("a.0003.part", "left"),
        ];
        for rotate in [None, Some(Duration::from_secs(60))] {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in old {
                fs::write(dir.path().join(name), text).unwrap();
            }
            let mut files = Files::new(&dir.path().join("a"), true, rotate).unwrap();
            let failed = files.begin::<()>(|_| Err(ErrorKind::StorageFull.into()));
            assert!(failed.is_err());
            assert_eq!(there(dir.path()), own(&old));
            files
                .begin(|mut out| {
                    assert_eq!(there(dir.path())[..1], own(&old)[..1]);
                    out.write_all(b"new")
                })
                .unwrap();
            let name = if rotate.is_some() { "a.0001.part" } else { "a" };
            assert_eq!(there(dir.path()), own(&[(name, "new")]));
        }
    }

    #[test]
    fn a_recording_that_does_not_begin_leaves_nothing() {
        for rotate in [None, Some(Duration::from_secs(60))] {
            let dir = tempfile::tempdir().unwrap();
            let mut files = Files::new(&dir.path().join("a"), false, rotate).unwrap();
            let failed = files.begin::<()>(|_| Err(ErrorKind::StorageFull.into()));
            assert!(failed.is_err());
            assert_eq!(there(dir.path()), []);
        }
    }

    #[test]
    fn what_was_made_meanwhile_stays() {
        let piece = b"\xff\xff\xff\xff\x06\0\0\0schema";
        for force in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("a");
            let mut files = Files::new(&path, force, Some(Duration::from_secs(60))).unwrap();
            files.begin(|mut out| out.write_all(piece)).unwrap();
            fs::write(&path, "meanwhile").unwrap();
            let ended = files.finish();
            let names = fs::read_dir(dir.path()).unwrap().count();
            if force {
                ended.unwrap();
                assert_eq!(names, 1);
                assert!(fs::read(&path).unwrap().starts_with(piece));
                continue;
            }
            assert!(ended.unwrap_err().to_string().contains("a.new"));
            assert_eq!(names, 2);
            assert_eq!(fs::read(&path).unwrap(), b"meanwhile");
            let new = fs::read(dir.path().join("a.new")).unwrap();
            assert!(new.starts_with(piece));
        }
    }

    #[test]
    fn a_file_of_somebody_else_is_not_taken() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let new = dir.path().join("a.new");
        let rotate = Some(Duration::from_secs(60));
        let mut replaces = Files::new(&path, true, None).unwrap();
        let mut pieces = Files::new(&path, false, rotate).unwrap();
        pieces.begin(|mut out| out.write_all(b"piece")).unwrap();
        fs::write(&new, "mine").unwrap();
        assert!(replaces.begin(|_| Ok(())).is_err());
        assert!(pieces.finish().is_err());
        let left = [("a.0001.part", "piece"), ("a.new", "mine")];
        assert_eq!(there(dir.path()), own(&left));
        fs::remove_file(dir.path().join("a.0001.part")).unwrap();
        let why = |force, rotate| {
            Files::new(&path, force, rotate)
                .err()
                .map(|e| e.to_string())
        };
        assert!(why(true, None).unwrap().contains("a.new"));
        assert!(why(false, rotate).unwrap().contains("a.new"));
        assert_eq!(why(false, None), None);
    }

    #[test]
    fn places_that_are_none() {
        let dir = tempfile::tempdir().unwrap();
        for wrong in [dir.path(), &dir.path().join("no/such"), "/".as_ref()] {
            assert!(Files::new(wrong, false, None).is_err(), "{wrong:?}");
        }
        assert!(Files::new("/dev/null".as_ref(), false, None).is_ok());
        let rotate = Some(Duration::from_secs(60));
        assert!(Files::new("/dev/null".as_ref(), false, rotate).is_err());
    }

    #[test]
    fn pieces_have_numbers() {
        for (name, is) in [
            ("a.0001.part", true),
            ("a.12345.part", true),
            ("a.001.part", false),
            ("a.000x.part", false),
            ("b.0001.part", false),
            ("a.0001.partly", false),
        ] {
            assert_eq!(is_piece(&"a.".into(), &name.into()), is, "{name}");
        }
    }

    #[test]
    fn pieces_are_joined_behind_one_schema() {
        let dir = tempfile::tempdir().unwrap();
        let piece = |name: &str, batches: &[u8], end: bool| {
            let mut bytes = vec![0xff; 4];
            bytes.extend(6u32.to_le_bytes());
            bytes.extend(b"schema");
            bytes.extend(batches);
            if end {
                bytes.extend(super::END);
            }
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let pieces = [
            piece("1", b"one batch", true),
            piece("2", b"", true),
            piece("3", b"two", false),
        ];
        let new = dir.path().join("new");
        let bytes = join(&pieces, fs::File::create(&new).unwrap()).unwrap();
        let got = fs::read(&new).unwrap();
        assert_eq!(got.len() as u64, bytes);
        assert_eq!(&got[8..], b"schemaone batchtwo\xff\xff\xff\xff\0\0\0\0");
    }
}
