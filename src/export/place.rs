//! Where a table goes. What is there already is not touched before the new table is whole, and nothing is ever removed
//! but what this run has made.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// What is written to.
pub enum Place {
    /// `-`, or what names the same.
    Stdout,
    /// A pipe, a terminal, `/dev/null`: written to as it is, and left as it is.
    Special(File),
    /// A file that is to be.
    File(Beside),
}

/// A file that becomes `target` when it is whole; until then it is removed again.
pub struct Beside {
    pub file: File,
    path: PathBuf,
    target: PathBuf,
    force: bool,
    whole: bool,
}

impl Place {
    /// What `path` names. `sources`: what is read.
    pub fn of(path: &Path, force: bool, sources: &[PathBuf]) -> Result<Self> {
        let say = || path.display().to_string();
        if path.as_os_str() == "-" {
            return Ok(Self::Stdout);
        }
        let old = match path.metadata() {
            Ok(old) => old,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                if path.is_symlink() {
                    bail!("{}: is a symbolic link to what is not there", say());
                }
                return Beside::new(path.to_owned(), force).map(Self::File);
            }
            Err(e) => return Err(e).with_context(say),
        };
        let same = |other: io::Result<Metadata>| {
            other.is_ok_and(|o| (o.dev(), o.ino()) == (old.dev(), old.ino()))
        };
        if sources.iter().any(|source| same(source.metadata())) {
            bail!("{}: is the recording that is read", say());
        }
        // /dev/stdout of a shell's `> file` is that file.
        if same(fs::metadata("/proc/self/fd/1")) {
            return Ok(Self::Stdout);
        }
        let kind = old.file_type();
        if kind.is_dir() {
            bail!("{}: is a directory", say());
        }
        if kind.is_block_device() {
            bail!("{}: is a disk", say());
        }
        if !kind.is_file() {
            let file = OpenOptions::new().write(true).open(path);
            return file.map(Self::Special).with_context(say);
        }
        if !force {
            bail!("{}: is there already; --force replaces it", say());
        }
        let target = path.canonicalize().with_context(say)?;
        let beside = Beside::new(target, force)?;
        // Who may read it stays.
        let kept = beside.file.set_permissions(old.permissions());
        kept.with_context(say)?;
        Ok(Self::File(beside))
    }
}

impl Beside {
    fn new(target: PathBuf, force: bool) -> Result<Self> {
        let mut path = target.clone().into_os_string();
        path.push(".new");
        let path = PathBuf::from(path);
        let made = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = made.map_err(|e| match e.kind() {
            io::ErrorKind::AlreadyExists => anyhow!(
                "{}: is there already, of an export that was killed or is under way",
                path.display()
            ),
            _ => anyhow::Error::new(e).context(target.display().to_string()),
        })?;
        Ok(Self {
            file,
            path,
            target,
            force,
            whole: false,
        })
    }

    /// Puts it where it was to be.
    pub fn finish(mut self) -> Result<()> {
        let say = || self.target.display().to_string();
        if self.force {
            // Else a power cut may leave neither the old one nor the new one.
            self.file.sync_all().with_context(say)?;
            fs::rename(&self.path, &self.target).with_context(say)?;
        } else {
            match renameat_with(CWD, &self.path, CWD, &self.target, RenameFlags::NOREPLACE) {
                // A filesystem that does not know how.
                Err(Errno::INVAL | Errno::NOSYS) if self.target.symlink_metadata().is_err() => {
                    fs::rename(&self.path, &self.target).with_context(say)?;
                }
                Err(Errno::EXIST | Errno::INVAL | Errno::NOSYS) => {
                    bail!("{}: has been made by somebody else meanwhile", say());
                }
                other => other.with_context(say)?,
            }
        }
        self.whole = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.whole {
            // What is half written is no table.
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::path::Path;

    use super::{Beside, Place};

    fn of(path: &Path, force: bool, sources: &[&Path]) -> Result<Place, String> {
        let sources: Vec<_> = sources.iter().map(|s| s.to_path_buf()).collect();
        Place::of(path, force, &sources).map_err(|e| format!("{e:#}"))
    }

    fn beside(path: &Path, force: bool) -> Beside {
        match of(path, force, &[]) {
            Ok(Place::File(mut beside)) => {
                beside.file.write_all(b"new").unwrap();
                beside
            }
            Ok(_) => panic!("another place"),
            Err(e) => panic!("{e}"),
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_old_file_stays_until_the_new_one_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        fs::write(&path, "old").unwrap();
        assert!(of(&path, false, &[]).err().unwrap().contains("--force"));
        drop(beside(&path, true));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("a.csv", &link).unwrap();
        let new = beside(&link, true);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert!(of(&path, true, &[]).err().unwrap().contains("a.csv.new"));
        new.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert!(link.is_symlink());
        assert_eq!(names(folder.path()), ["a.csv", "link"]);
    }

    #[test]
    fn what_somebody_else_made_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        let new = beside(&path, false);
        fs::write(&path, "another").unwrap();
        assert!(new.finish().is_err());
        assert_eq!(fs::read(&path).unwrap(), b"another");
        assert_eq!(names(folder.path()), ["a.csv"]);
    }

    #[test]
    fn what_is_read_is_not_written_to_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a"), folder.path().join("b"));
        fs::write(&path, "old").unwrap();
        fs::hard_link(&path, &link).unwrap();
        for force in [false, true] {
            let error = of(&link, force, &[&path]).err().unwrap();
            assert!(error.contains("is the recording"), "{error}");
        }
        let error = of(folder.path(), true, &[]).err().unwrap();
        assert!(error.contains("is a directory"), "{error}");
    }
}
