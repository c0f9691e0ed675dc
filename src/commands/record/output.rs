//! The files of a recording.
//!
//! FILE is created after the programs are attached, so that an earlier failure leaves no file. With
//! --force it replaces an existing file atomically. With --rotate the recording is written in
//! pieces, FILE.0001.part and so on. Each piece is a complete recording. At the end the pieces are
//! joined to FILE.

mod pieces;

use std::fs::{self, File};
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, bail};

use self::pieces::FilePieces;
pub use self::pieces::NextPiece;
use crate::machine::output::{Destination, OutputTarget, folder, sync_folder};
use crate::machine::privileges::writing;
use crate::recording::files::parts;
use crate::recording::join::join;
use crate::recording::output::{Opening, RecordingOutput};
use crate::recording::writer::Writer;
use crate::session::recorder::storage::Storage;

/// The destination of a recording.
pub struct OutputFiles {
    path: PathBuf,
    force: bool,
    kind: OutputKind,
}

enum OutputKind {
    Stdout,
    /// A FIFO, a terminal or a device. `None` once the recording has begun.
    Special(Option<File>),
    File(OutputTarget),
    Pieces(OutputTarget, FilePieces),
}

impl OutputFiles {
    /// Checks the destination before anything is loaded. `-` is stdout.
    ///
    /// # Errors
    /// A file exists and `force` is false, or the destination is unsuitable.
    pub fn new(path: &Path, force: bool, rotate: Option<Duration>) -> Result<Self> {
        let name = path.display();
        let kind = match Destination::new(path, force)? {
            Destination::Stdout => OutputKind::Stdout,
            Destination::Special(file) => OutputKind::Special(Some(file)),
            Destination::File(target) => match rotate {
                Some(keep) => OutputKind::Pieces(target, FilePieces::new(path, keep)),
                None => OutputKind::File(target),
            },
        };
        let is_terminal = match &kind {
            OutputKind::Stdout => io::stdout().is_terminal(),
            OutputKind::Special(file) => file.as_ref().is_some_and(File::is_terminal),
            _ => false,
        };
        if is_terminal {
            bail!(
                "a recording cannot be written to a terminal: name a file (-o incident.rtrace), \
                 or pipe -o - into a command"
            );
        }
        if rotate.is_some() && !matches!(kind, OutputKind::Pieces(..)) {
            bail!("--rotate needs a file (-o incident.rtrace), not {name}");
        }
        if matches!(kind, OutputKind::File(_) | OutputKind::Pieces(..))
            && let Some(piece) = parts(path).first()
            && !force
        {
            bail!(
                "{} was left by a recording that was killed: read it (raidtrace report {name}), \
                 name another file, or remove it with --force",
                piece.display()
            );
        }
        Ok(Self { path: path.to_owned(), force, kind })
    }

    /// The directory of the recording.
    pub fn folder(&self) -> &Path {
        folder(&self.path)
    }

    /// True for stdout.
    pub fn is_stdout(&self) -> bool {
        matches!(self.kind, OutputKind::Stdout)
    }

    /// Creates the file. `begin` writes the start of the recording. If `begin` fails, the file to
    /// be replaced stays.
    fn create<T>(&mut self, begin: impl FnOnce(File) -> io::Result<T>) -> Result<T> {
        let name = self.name();
        let failed = || format!("{name} cannot be written");
        match &mut self.kind {
            OutputKind::Stdout => {
                let output = Destination::Stdout.open().with_context(failed)?;
                begin(output.file).with_context(failed)
            }
            OutputKind::Special(file) => {
                let file = file
                    .take()
                    .ok_or(io::ErrorKind::NotFound)
                    .map_err(io::Error::from)
                    .with_context(failed)?;
                begin(file).with_context(failed)
            }
            OutputKind::File(target) => {
                let target = target.clone();
                self.create_and_rename(&target, begin).with_context(failed)
            }
            OutputKind::Pieces(target, pieces) => {
                let first = target.with_path(pieces.next());
                let begun = self.create_and_rename(&first, begin).with_context(failed)?;
                if let OutputKind::Pieces(_, pieces) = &mut self.kind {
                    pieces.first_begun(Instant::now());
                }
                Ok(begun)
            }
        }
    }

    /// Creates a file with the temporary name of `target` and renames it to `target`. With --force,
    /// then removes FILE and the pieces of an earlier recording.
    fn create_and_rename<T>(
        &self,
        target: &OutputTarget,
        begin: impl FnOnce(File) -> io::Result<T>,
    ) -> io::Result<T> {
        let path = target.path();
        let left_over = parts(&self.path);
        let (file, mut pending) = target.create()?;
        let begun = begin(file)?;
        pending.commit()?;
        if self.force {
            if path != self.path {
                // Readers would take the old file for this recording.
                let _ = fs::remove_file(&self.path);
            }
            left_over.iter().filter(|p| *p != path).for_each(|p| drop(fs::remove_file(p)));
            sync_folder(&self.path);
        }
        Ok(begun)
    }

    /// Joins the pieces of a recording that has ended. Returns the size of the joined file in
    /// bytes; `None` without --rotate.
    ///
    /// # Errors
    /// The pieces cannot be joined, and are kept; or the joined file cannot be renamed to FILE, and
    /// stays as FILE.new.
    fn join_pieces(&mut self) -> Result<Option<u64>> {
        let OutputKind::Pieces(target, pieces) = &self.kind else {
            return Ok(None);
        };
        let paths = pieces.paths();
        let joined = target.create().and_then(|(mut file, pending)| {
            let bytes = join(paths.iter().map(File::open), &mut file)?;
            file.sync_all()?;
            Ok((bytes, pending))
        });
        let (bytes, mut pending) = joined.with_context(|| {
            format!(
                "{} could not be joined from its pieces, which are complete ({} and so on: \
                 raidtrace report {} reads them)",
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
                "the recording is in {} and could not be renamed to {}",
                self.name(),
                wanted.display()
            )));
        }
        Ok(Some(bytes))
    }
}

impl Storage for OutputFiles {
    type Piece = NextPiece;

    fn name(&self) -> String {
        match self.kind {
            OutputKind::Stdout => "standard output".to_owned(),
            _ => self.path.display().to_string(),
        }
    }

    fn device(&self) -> Option<u32> {
        if matches!(self.kind, OutputKind::Stdout | OutputKind::Special(_)) {
            return None;
        }
        let dev = fs::metadata(self.folder()).ok()?.dev();
        Some(rustix::fs::major(dev) << 20 | rustix::fs::minor(dev) & 0xf_ffff)
    }

    fn begin(
        &mut self,
        begin: impl FnOnce(Box<dyn RecordingOutput>, bool) -> io::Result<Writer>,
    ) -> Result<Writer> {
        let begin = |file: File| {
            let is_file = file.metadata()?.is_file();
            begin(Box::new(file), is_file)
        };
        writing(|| self.create(begin))
    }

    fn next_piece(&self) -> Option<(NextPiece, Opening)> {
        match &self.kind {
            OutputKind::Pieces(_, pieces) => pieces.due(Instant::now()),
            _ => None,
        }
    }

    fn piece_begun(&mut self, piece: NextPiece) {
        if let OutputKind::Pieces(_, pieces) = &mut self.kind {
            pieces.begun(piece, Instant::now());
        }
    }

    fn finish(&mut self) -> Result<Option<u64>> {
        writing(|| self.join_pieces())
    }
}

#[cfg(test)]
mod tests;
