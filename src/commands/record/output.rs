//! The files of a recording.
//!
//! FILE is made when everything is attached, so that what fails before leaves nothing behind; with --force, the old one is
//! replaced then, in one step. With --rotate there are pieces beside it, FILE.0001.part and so on, each a recording of
//! its own; at the end they become FILE.

mod pieces;
mod sink;

use std::fs::{self, File};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};

use self::pieces::{Pieces, Turn, join};
pub use self::sink::Sink;
use crate::machine::output::{Destination, Target, folder, sync_folder};
use crate::recording::files::parts;
use crate::recording::writer::Opening;

/// Where a recording goes.
pub struct Files {
    path: PathBuf,
    force: bool,
    kind: Kind,
}

enum Kind {
    Stdout,
    /// A FIFO, a terminal or a device, until the recording has begun.
    Special(Option<File>),
    File(Target),
    Pieces(Target, Pieces),
}

impl Files {
    /// Checks what can be checked before anything is loaded. `-` is stdout.
    pub fn new(path: &Path, force: bool, rotate: Option<Duration>) -> Result<Self> {
        let name = path.display();
        let kind = match Destination::new(path, force)? {
            Destination::Stdout => Kind::Stdout,
            Destination::Special(file) => Kind::Special(Some(file)),
            Destination::File(target) => match rotate {
                Some(keep) => Kind::Pieces(target, Pieces::new(path, keep)),
                None => Kind::File(target),
            },
        };
        let is_terminal = match &kind {
            Kind::Stdout => io::stdout().is_terminal(),
            Kind::Special(file) => file.as_ref().is_some_and(File::is_terminal),
            _ => false,
        };
        if is_terminal {
            bail!(
                "a recording is nothing for a terminal: give a file (-o incident.rtrace), or a pipe behind -o -"
            );
        }
        if rotate.is_some() && !matches!(kind, Kind::Pieces(..)) {
            bail!("--rotate needs a file (-o incident.rtrace), not {name}");
        }
        if matches!(kind, Kind::File(_) | Kind::Pieces(..))
            && let Some(piece) = parts(path).first()
            && !force
        {
            bail!(
                "{} is there, of a recording that was killed: look at it (raidtrace report {name}), name another file, \
                 or have it removed with --force",
                piece.display()
            );
        }
        Ok(Self {
            path: path.to_owned(),
            force,
            kind,
        })
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
                let output = Destination::Stdout.open().with_context(failed)?;
                begin(Sink::special(output.file)).with_context(failed)
            }
            Kind::Special(file) => {
                let file = file.take().ok_or(io::ErrorKind::NotFound);
                let file = file.map_err(io::Error::from).with_context(failed)?;
                begin(Sink::special(file)).with_context(failed)
            }
            Kind::File(target) => {
                let target = target.clone();
                self.begin_beside(&target, begin).with_context(failed)
            }
            Kind::Pieces(target, pieces) => {
                let first = target.with_path(pieces.next());
                let begun = self.begin_beside(&first, begin).with_context(failed)?;
                if let Kind::Pieces(_, pieces) = &mut self.kind {
                    pieces.begun(Instant::now());
                }
                Ok(begun)
            }
        }
    }

    /// Begins as FILE.new, which then becomes `target`. Only then what is replaced goes: the file and the pieces of an
    /// earlier recording.
    fn begin_beside<T>(
        &self,
        target: &Target,
        begin: impl FnOnce(Sink) -> io::Result<T>,
    ) -> io::Result<T> {
        let path = target.path();
        let left_over = parts(&self.path);
        let (file, mut pending) = target.create()?;
        let begun = begin(Sink::file(file))?;
        pending.commit()?;
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
        Ok(begun)
    }

    /// If it is time for the next piece: what makes it, in the writer's thread. It is this one's turn when that has been
    /// given to it, which [`Files::turned`] is to be told.
    pub fn turn(&self) -> Option<(Turn, Opening)> {
        match &self.kind {
            Kind::Pieces(_, pieces) => pieces.turn(Instant::now()),
            _ => None,
        }
    }

    /// The next piece is being made.
    pub fn turned(&mut self, turn: Turn) {
        if let Kind::Pieces(_, pieces) = &mut self.kind {
            pieces.turned(turn, Instant::now());
        }
    }

    /// The recording has ended well: pieces become one file. Bytes of the whole, if they have.
    pub fn finish(&mut self) -> Result<Option<u64>> {
        let Kind::Pieces(target, pieces) = &self.kind else {
            return Ok(None);
        };
        let paths = pieces.paths();
        let joined = target
            .create()
            .and_then(|(file, pending)| Ok((join(&paths, file)?, pending)));
        let (bytes, mut pending) = joined.with_context(|| {
            format!(
                "{} could not be made of its pieces, which are whole ({} and so on: raidtrace report {} reads them)",
                self.name(),
                paths.first().map_or_else(String::new, |p| p.display().to_string()),
                self.name()
            )
        })?;
        let renamed = pending.commit();
        pending.keep();
        sync_folder(&self.path);
        paths.iter().for_each(|p| drop(fs::remove_file(p)));
        if let Err(e) = renamed {
            let wanted = std::mem::replace(&mut self.path, target.temporary());
            return Err(Error::new(e).context(format!(
                "the recording is {}, and could not become {}",
                self.name(),
                wanted.display()
            )));
        }
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests;
