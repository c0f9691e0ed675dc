//! Where the files of a dataset are: in a directory, or in a bucket.

use std::io::{self, Write};

use anyhow::Result;
#[cfg(feature = "object-store")]
use tempfile::SpooledTempFile;

#[cfg(feature = "object-store")]
use super::bucket::Bucket;
use super::directory::{DatasetDirectory, Lock, TemporaryFile};
use super::extent::Extent;
use super::source::DatasetSource;
use crate::recording::dataset_name::DatasetName;

/// Maximum size in bytes of a file in memory; larger ones are temporary files.
#[cfg(feature = "object-store")]
const MAX_IN_MEMORY: usize = 8 << 20;

enum OpenPlace {
    Directory(DatasetDirectory),
    #[cfg(feature = "object-store")]
    Bucket(Bucket),
}

/// The place of a dataset. A key is the path of a file in it.
pub struct DatasetPlace {
    pub name: DatasetName,
    place: OpenPlace,
}

enum Contents {
    Directory(TemporaryFile),
    #[cfg(feature = "object-store")]
    Bucket(SpooledTempFile),
}

/// A file that is not in the dataset before it is published.
pub struct NewFile {
    pub key: String,
    contents: Contents,
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.contents {
            Contents::Directory(temporary) => temporary.file.write(bytes),
            #[cfg(feature = "object-store")]
            Contents::Bucket(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl NewFile {
    /// Makes the contents survive a power cut, in a directory. Returns the size in bytes.
    pub fn complete(&mut self) -> io::Result<u64> {
        match &mut self.contents {
            Contents::Directory(temporary) => {
                temporary.file.sync_all()?;
                Ok(temporary.file.metadata()?.len())
            }
            #[cfg(feature = "object-store")]
            Contents::Bucket(file) => io::Seek::stream_position(file),
        }
    }
}

impl DatasetPlace {
    /// Opens a place. Creates no directory, and connects to no server.
    ///
    /// # Errors
    /// It is a bucket, and this raidtrace was built without object storage, or the settings in the
    /// environment are invalid.
    pub fn open(name: &DatasetName) -> Result<Self> {
        let place = match name {
            DatasetName::Directory(path) => OpenPlace::Directory(DatasetDirectory(path.clone())),
            #[cfg(feature = "object-store")]
            DatasetName::Bucket { bucket, prefix } => {
                let opened = Bucket::open(bucket, prefix);
                OpenPlace::Bucket(opened.map_err(|error| super::refused(name, error.into()))?)
            }
            #[cfg(not(feature = "object-store"))]
            DatasetName::Bucket { .. } => {
                anyhow::bail!("{name}: {}", crate::recording::WITHOUT_OBJECT_STORE)
            }
        };
        Ok(Self { name: name.clone(), place })
    }

    /// Creates the directory unless it exists, or lists the tables in the bucket, so that wrong
    /// settings are errors before anything is read.
    ///
    /// # Errors
    /// The directory cannot be created, or the bucket cannot be read.
    pub fn create(&self) -> Result<()> {
        let created = match &self.place {
            OpenPlace::Directory(DatasetDirectory(path)) => std::fs::create_dir_all(path),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(bucket) => bucket.list(),
        };
        created.map_err(|error| super::refused(&self.name, error.into()))
    }

    /// In a directory, waits for others that write the same source. Object storage has no locks.
    pub fn lock(&self, source: &DatasetSource) -> io::Result<Option<Lock>> {
        match &self.place {
            OpenPlace::Directory(directory) => directory.lock(source).map(Some),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(_) => Ok(None),
        }
    }

    pub fn new_file(&self, key: String, source: &DatasetSource) -> io::Result<NewFile> {
        let contents = match &self.place {
            OpenPlace::Directory(directory) => Contents::Directory(directory.create(&key, source)?),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(_) => Contents::Bucket(SpooledTempFile::new(MAX_IN_MEMORY)),
        };
        Ok(NewFile { key, contents })
    }

    /// Files of a source: key, and extent unless the file is damaged. In a bucket, only those of
    /// days from `first` on, counted from 1970.
    #[cfg_attr(not(feature = "object-store"), expect(unused_variables))]
    pub fn stored(
        &self,
        source: &DatasetSource,
        first: i64,
    ) -> io::Result<Vec<(String, Option<Extent>)>> {
        match &self.place {
            OpenPlace::Directory(directory) => Ok(directory.stored(source)),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(bucket) => bucket.stored(source, first),
        }
    }

    /// Replaces the file of this key at once.
    pub fn publish(&self, file: &mut NewFile) -> io::Result<()> {
        match (&self.place, &mut file.contents) {
            (OpenPlace::Directory(directory), Contents::Directory(temporary)) => {
                directory.publish(temporary, &file.key)
            }
            #[cfg(feature = "object-store")]
            (OpenPlace::Bucket(bucket), Contents::Bucket(contents)) => {
                bucket.put(&file.key, contents)
            }
            #[cfg(feature = "object-store")]
            _ => Err(io::Error::other("a file of another dataset")),
        }
    }

    pub fn remove(&self, key: &str) -> io::Result<()> {
        match &self.place {
            OpenPlace::Directory(directory) => directory.remove(key),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(bucket) => bucket.remove(key),
        }
    }

    /// Makes changes of these names survive a power cut.
    pub fn sync(&self, keys: &[String]) {
        match &self.place {
            OpenPlace::Directory(directory) => keys.iter().for_each(|key| directory.sync(key)),
            #[cfg(feature = "object-store")]
            OpenPlace::Bucket(_) => {}
        }
    }
}
