//! Options of the mkfs of the recorded filesystem.

use super::source::Source;
use crate::analysis::placement::Filesystem;
use crate::fs::xfs;
use crate::machine::mkfs_xfs::{self, Device};
use crate::mke2fs::{self, Conf};

/// Options of the mkfs of a kind of filesystem.
#[derive(Clone, Debug, PartialEq)]
pub enum Options {
    Ext4(mke2fs::Options),
    Xfs(mkfs_xfs::Options),
}

impl Options {
    /// The options as words; empty for the defaults.
    pub fn words(&self) -> String {
        match self {
            Self::Ext4(options) => options.words(),
            Self::Xfs(options) => options.words(),
        }
    }

    /// The command that makes the filesystem.
    pub fn command(&self) -> String {
        let program = match self {
            Self::Ext4(_) => "mkfs.ext4",
            Self::Xfs(_) => "mkfs.xfs",
        };
        format!("{program} {}", self.words()).trim_end().to_owned()
    }

    /// Adds the options that follow from the recorded filesystem.
    ///
    /// # Errors
    /// An option contradicts it, so that the load would not be the recorded one.
    pub fn pinned(&self, source: &Source, device: Device) -> Result<Self, String> {
        let block = source.fs.block_size;
        match self {
            Self::Ext4(options) => {
                let mut options = options.clone();
                if options.block_size.is_none() && block != 4096 {
                    options.block_size = Some(block.into());
                }
                Ok(Self::Ext4(options))
            }
            Self::Xfs(options) => {
                let recorded = source.xfs.as_ref().ok_or("the recording has no XFS")?;
                Ok(Self::Xfs(pinned(options, recorded, device)?))
            }
        }
    }

    /// The filesystem that mkfs makes on a device, with the defaults of `conf` (mke2fs.conf).
    ///
    /// # Errors
    /// mkfs would refuse the options.
    pub fn plan(
        &self,
        device: Device,
        conf: &Conf,
    ) -> Result<(Filesystem, Option<xfs::Geometry>), String> {
        match self {
            Self::Ext4(options) => {
                let layout = mke2fs::plan(device.bytes, device.chunk, options, conf)?;
                Ok((Filesystem::new(layout), None))
            }
            Self::Xfs(options) => {
                let geometry = options.plan(device)?;
                let layout = xfs::Layout::from_geometry(geometry.clone());
                Ok((Filesystem::from_xfs(layout), Some(geometry)))
            }
        }
    }
}

/// The sizes and btrees of the recorded filesystem: with others, the load would have other writes.
fn pinned(
    options: &mkfs_xfs::Options,
    recorded: &xfs::Geometry,
    device: Device,
) -> Result<mkfs_xfs::Options, String> {
    let mut options = options.clone();
    let made = options.plan(device)?;
    let parts = |geometry: &xfs::Geometry| {
        let has = geometry.features;
        [
            ('b', "size", geometry.block_size),
            ('s', "size", geometry.sector_size),
            ('i', "size", geometry.inode_size),
            ('m', "crc", u32::from(geometry.version == 5)),
            ('m', "finobt", has.finobt.into()),
            ('m', "rmapbt", has.rmapbt.into()),
            ('m', "reflink", has.reflink.into()),
        ]
    };
    for ((letter, name, recorded), (.., made)) in parts(recorded).into_iter().zip(parts(&made)) {
        if recorded == made {
            continue;
        }
        if options.has(letter, name) {
            return Err(format!(
                "-{letter} {name}={made}: the recorded filesystem has {recorded}, and the load \
                 would be another with {made}"
            ));
        }
        options.add(letter, format!("{name}={recorded}"));
    }
    Ok(options)
}
