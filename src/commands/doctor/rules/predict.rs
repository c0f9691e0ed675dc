//! Options of mke2fs that would be even on this array, computed as `layout --search` does, never a rule of thumb.

use crate::analysis::placement::search::Search;
use crate::analysis::placement::{Skews, Target};
use crate::fs::ext4::Superblock;
use crate::mke2fs::{Conf, Options};

/// The filesystem that there is.
pub struct Now<'a> {
    /// Where it lies.
    pub target: &'a Target,
    /// Its superblock.
    pub sb: &'a Superblock,
}

/// Options that make it more even.
pub struct Better {
    /// `-g 32744 -G 2`
    pub options: String,
    /// The figures with them.
    pub skews: Skews,
    /// What they cost, in words; empty for nothing.
    pub costs: Vec<String>,
}

impl Now<'_> {
    /// What has to stay as it is.
    fn base(&self) -> Options {
        Options {
            block_size: Some(self.sb.block_size.into()),
            inode_size: Some(self.sb.inode_size),
            inodes: Some(self.sb.inodes_count.into()),
            ..Options::default()
        }
    }

    /// Evens bitmaps and inode tables; `None` where the usual remedies do not.
    pub fn even(&self) -> Option<Better> {
        let (base, conf) = (self.base(), Conf::compiled_in());
        let found = Search::on(self.target, self.target.fs.bytes(), &base, &conf).remedy()?;
        let typed = Options {
            group: found.options.group,
            flex: found.options.flex,
            ..Options::default()
        };
        Some(Better {
            options: typed.words(),
            skews: found.skews,
            costs: found.costs.words,
        })
    }
}
