//! The files of a recording.
//!
//! FILE is made when everything is attached, so that what fails before leaves nothing behind; with --force, the old one is
//! replaced then, in one step. With --rotate there are pieces beside it, FILE.0001.part and so on, each a recording of
//! its own; at the end they become FILE.

mod pieces;
mod sink;

use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};
use rustix::fs::{Access, CWD, RenameFlags, access, renameat_with};
use rustix::io::Errno;

use self::pieces::{Pieces, Turn, join};
pub use self::sink::Sink;
use self::sink::{folder, made, sync_folder};
use crate::trace::files::parts;
use crate::trace::writer::Opening;

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
            (Kind::File, Some(keep)) => Kind::Pieces(Pieces::new(path, keep)),
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
            if let Some(piece) = parts(path).first()
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
        folder(&self.path)
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
                begin(Sink::special(file.into())).with_context(failed)
            }
            Kind::Special(file) => {
                let file = file.take().ok_or(io::ErrorKind::NotFound);
                let file = file.map_err(io::Error::from).with_context(failed)?;
                begin(Sink::special(file)).with_context(failed)
            }
            Kind::File if self.force => self.begin_beside(&self.path, begin).with_context(failed),
            Kind::File => {
                let begun = made(&self.path).with_context(failed)?;
                let begun = begin(begun).with_context(failed);
                if begun.is_err() {
                    // Its header found no room.
                    let _ = fs::remove_file(&self.path);
                }
                sync_folder(&self.path);
                begun
            }
            Kind::Pieces(pieces) => {
                let first = pieces.next();
                let begun = self.begin_beside(&first, begin).with_context(failed)?;
                if let Kind::Pieces(pieces) = &mut self.kind {
                    pieces.begun(Instant::now());
                }
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
        let left_over = parts(&self.path);
        let new = self.beside("new");
        let begun = begin(made(&new)?).and_then(|begun| {
            self.rename(&new, path)?;
            Ok(begun)
        });
        if begun.is_err() {
            let _ = fs::remove_file(&new);
            return begun;
        }
        sync_folder(&self.path);
        if self.force {
            if path != self.path {
                // Readers would take it for this recording.
                let _ = fs::remove_file(&self.path);
            }
            left_over
                .iter()
                .filter(|p| *p != path)
                .for_each(|p| drop(fs::remove_file(p)));
            sync_folder(&self.path);
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

    /// If it is time for the next piece: what makes it, in the writer's thread. It is this one's turn when that has been
    /// given to it, which [`Files::turned`] is to be told.
    pub fn turn(&self) -> Option<(Turn, Opening)> {
        match &self.kind {
            Kind::Pieces(pieces) => pieces.turn(Instant::now()),
            _ => None,
        }
    }

    /// The next piece is being made.
    pub fn turned(&mut self, turn: Turn) {
        if let Kind::Pieces(pieces) = &mut self.kind {
            pieces.turned(turn, Instant::now());
        }
    }

    /// The recording has ended well: pieces become one file. Bytes of the whole, if they have.
    pub fn finish(&mut self) -> Result<Option<u64>> {
        let Kind::Pieces(pieces) = &self.kind else {
            return Ok(None);
        };
        let paths = pieces.paths();
        let new = self.beside("new");
        let joined = made(&new).and_then(|sink| {
            let joined = join(&paths, sink.into());
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
        sync_folder(&self.path);
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

    /// FILE.what
    fn beside(&self, what: &str) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".");
        name.push(what);
        name.into()
    }
}

#[cfg(test)]
mod tests;
