//! Options of either mkfs.

use crate::analysis::placement::FsMetadata;
use crate::fs::xfs::XfsLayout;
use crate::machine::mkfs_xfs::{MkfsDevice, XfsOptions};
use crate::mke2fs::{self, Conf};

/// Options of the mkfs of a kind of filesystem.
#[derive(Clone, Debug, PartialEq)]
pub enum MkfsOptions {
    Ext4(mke2fs::Options),
    Xfs(XfsOptions),
}

impl MkfsOptions {
    /// Name of mkfs, and the options on one line.
    pub fn command(&self) -> (&'static str, String) {
        match self {
            Self::Ext4(options) => ("mkfs.ext4", options.words()),
            Self::Xfs(options) => ("mkfs.xfs", options.words()),
        }
    }

    /// Keeps the block size of a filesystem that exists, unless the user gives another.
    pub fn keep_block_size(&mut self, bytes: u32) {
        match self {
            _ if bytes == 4096 => {}
            Self::Ext4(options) => {
                options.block_size.get_or_insert(bytes.into());
            }
            Self::Xfs(options) if options.has('b', "size") => {}
            Self::Xfs(options) => options.add('b', format!("size={bytes}")),
        }
    }

    /// The filesystem that mkfs makes, with the defaults of `conf` (mke2fs.conf).
    ///
    /// # Errors
    /// mkfs would refuse the options.
    pub fn made(&self, device: MkfsDevice, conf: &Conf) -> Result<FsMetadata, String> {
        Ok(match self {
            Self::Ext4(options) => {
                FsMetadata::new(mke2fs::plan(device.bytes, device.chunk, options, conf)?)
            }
            Self::Xfs(options) => {
                FsMetadata::from_xfs(XfsLayout::from_geometry(options.plan(device)?))
            }
        })
    }
}
