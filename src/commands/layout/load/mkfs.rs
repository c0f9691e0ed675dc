//! Options of the mkfs of the recorded filesystem.

use super::source::Source;
use crate::analysis::placement::Filesystem;
use crate::fs::xfs;
use crate::mke2fs::{self, Conf};
use crate::mkfs_xfs::{self, Defaults};

/// Options of the mkfs of a kind of filesystem.
#[derive(Clone, Debug, PartialEq)]
pub enum Options {
    Ext4(mke2fs::Options),
    Xfs(Box<mkfs_xfs::Options>),
}

/// Defaults for options that are not given.
pub struct Machine {
    /// mke2fs.conf.
    pub conf: Conf,
    pub defaults: Defaults,
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
    pub fn pinned(&self, source: &Source) -> Result<Self, String> {
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
                Ok(Self::Xfs(Box::new(pinned(options, recorded)?)))
            }
        }
    }

    /// The filesystem that mkfs makes in `bytes` on an array with chunks of `chunk` bytes and
    /// `disks` data disks.
    ///
    /// # Errors
    /// mkfs would refuse the options.
    pub fn plan(
        &self,
        bytes: u64,
        chunk: u64,
        disks: u32,
        machine: &Machine,
    ) -> Result<(Filesystem, Option<xfs::Geometry>), String> {
        match self {
            Self::Ext4(options) => {
                let layout = mke2fs::plan(bytes, chunk, options, &machine.conf)?;
                Ok((Filesystem::new(layout), None))
            }
            Self::Xfs(options) => {
                let geometry = mkfs_xfs::plan(bytes, chunk, disks, options, &machine.defaults)?;
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
) -> Result<mkfs_xfs::Options, String> {
    fn pin<T: Copy + PartialEq + std::fmt::Display>(
        option: &mut Option<T>,
        name: &str,
        recorded: T,
        default: T,
    ) -> Result<(), String> {
        match *option {
            Some(own) if own != recorded => Err(format!(
                "{name}={own}: the recorded filesystem has {recorded}, and the load would be \
                 another with {own}"
            )),
            Some(_) => Ok(()),
            None => {
                *option = Some(recorded).filter(|r| *r != default);
                Ok(())
            }
        }
    }
    let mut options = options.clone();
    let has = recorded.features;
    let own = &mut options;
    pin(&mut own.block_size, "-b size", recorded.block_size, 4096)?;
    // The default is the sector size of the device.
    pin(&mut own.sector_size, "-s size", recorded.sector_size, 0)?;
    let v5 = recorded.version == 5;
    let inode = if v5 { 512 } else { 256 };
    pin(&mut own.inode_size, "-i size", recorded.inode_size, inode)?;
    // Its default depends on the release.
    let rmapbt = if v5 { None } else { Some(false) };
    let mut features = [
        (&mut own.crc, "-m crc", v5, Some(true)),
        (&mut own.finobt, "-m finobt", has.finobt, Some(v5)),
        (&mut own.rmapbt, "-m rmapbt", has.rmapbt, rmapbt),
        (&mut own.reflink, "-m reflink", has.reflink, Some(v5)),
    ];
    for (option, name, recorded, default) in &mut features {
        let mut number = option.map(u8::from);
        let default = default.map_or(2, u8::from);
        pin(&mut number, name, u8::from(*recorded), default)?;
        **option = number.map(|n| n == 1);
    }
    Ok(options)
}
