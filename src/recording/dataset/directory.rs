//! A dataset in a directory: files are written under temporary names, and renamed when all files
//! of their source are complete.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use parquet::file::metadata::ParquetMetaDataReader;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use super::columns::TABLES;
use super::extent::Extent;
use super::source::DatasetSource;
use crate::machine::output::{create, sync_folder};

/// The right to write the files of one source, which other processes wait for. Its file is
/// removed on drop.
pub struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn new(path: PathBuf) -> io::Result<Self> {
        loop {
            // Others may write the directory: no link, and no FIFO, which would block.
            let flags = OFlags::RDONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK;
            let file = File::from(open(&path, flags | OFlags::CLOEXEC, Mode::from(0o644))?);
            if !file.metadata()?.is_file() {
                let name = path.display();
                return Err(io::Error::other(format!("{name} is not a regular file")));
            }
            flock(&file, FlockOperation::LockExclusive)?;
            // The last owner may have removed the file meanwhile.
            let ours = file.metadata()?.ino();
            if path.metadata().is_ok_and(|found| found.ino() == ours) {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A file that is being written; removed on drop unless it was renamed.
pub struct TemporaryFile {
    pub file: File,
    path: PathBuf,
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The directory of a dataset. Keys are paths in it.
pub struct DatasetDirectory(pub PathBuf);

impl DatasetDirectory {
    /// Waits for other processes that write the same source, and removes what one that was
    /// interrupted has left.
    pub fn lock(&self, source: &DatasetSource) -> io::Result<Lock> {
        let lock = Lock::new(self.0.join(format!(".{}.lock", source.id)))?;
        for stale in self.existing(source, &source.temporary_name()) {
            fs::remove_file(self.0.join(stale))?;
        }
        Ok(lock)
    }

    pub fn create(&self, key: &str, source: &DatasetSource) -> io::Result<TemporaryFile> {
        let path = self.0.join(key).with_file_name(source.temporary_name());
        let directory = path.parent().unwrap_or(&self.0);
        no_links(&self.0, directory)?;
        fs::create_dir_all(directory)?;
        Ok(TemporaryFile { file: create(&path)?, path })
    }

    pub fn publish(&self, file: &TemporaryFile, key: &str) -> io::Result<()> {
        fs::rename(&file.path, self.0.join(key))
    }

    pub fn remove(&self, key: &str) -> io::Result<()> {
        fs::remove_file(self.0.join(key))
    }

    /// Makes the name of a file survive a power cut. Each directory above may be new.
    pub fn sync(&self, key: &str) {
        let path = self.0.join(key);
        path.ancestors().take_while(|path| path.starts_with(&self.0)).for_each(sync_folder);
    }

    /// The complete files of a source; without an extent if they are damaged.
    pub fn stored(&self, source: &DatasetSource) -> Vec<(String, Option<Extent>)> {
        let extent = |key: &str| {
            let file = File::open(self.0.join(key)).ok()?;
            let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).ok()?;
            Extent::from_metadata(&metadata)
        };
        let keys = self.existing(source, &source.file_name()).into_iter();
        keys.map(|key| (key.clone(), extent(&key))).collect()
    }

    /// Files of this name and host, of all tables and dates.
    fn existing(&self, source: &DatasetSource, name: &str) -> Vec<String> {
        let dates = TABLES.iter().flat_map(|table| {
            let entries = fs::read_dir(self.0.join(table)).into_iter().flatten().flatten();
            let dates = entries.filter_map(|entry| entry.file_name().into_string().ok());
            dates.map(move |date| source.key(table, &date, name))
        });
        dates.filter(|key| self.0.join(key).symlink_metadata().is_ok()).collect()
    }
}

/// Refuses links between the dataset and one of its directories: others may write the dataset, and
/// root must not write where their links lead.
fn no_links(dataset: &Path, directory: &Path) -> io::Result<()> {
    let mut below = directory.ancestors().take_while(|path| *path != dataset);
    let is_other = |path: &&Path| path.symlink_metadata().is_ok_and(|found| !found.is_dir());
    match below.find(is_other) {
        Some(path) => Err(io::Error::other(format!("{} is not a directory", path.display()))),
        None => Ok(()),
    }
}
