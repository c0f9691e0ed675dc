//! mke2fs options with an even layout on this array, computed like `layout --search`.

use crate::analysis::placement::search::Search;
use crate::analysis::placement::{Skews, Target};
use crate::fs::ext4::Ext4Superblock;
use crate::mke2fs::{Conf, Options};

/// Options with a more even layout.
pub struct Better {
    /// `-g 32744 -G 2`
    pub options: String,
    pub skews: Skews,
    /// Costs of these options, in words; may be empty.
    pub costs: Vec<String>,
}

/// Options that spread bitmaps and inode tables evenly, with the block and inode sizes and counts
/// of the filesystem. `None` if the usual options do not.
pub fn even(target: &Target, sb: &Ext4Superblock) -> Option<Better> {
    let base = Options {
        block_size: Some(sb.block_size.into()),
        inode_size: Some(sb.inode_size),
        inodes: Some(sb.inodes_count.into()),
        ..Options::default()
    };
    let conf = Conf::compiled_in();
    let found = Search::on(target, target.fs.bytes(), &base, &conf).remedy()?;
    let changed =
        Options { group: found.options.group, flex: found.options.flex, ..Options::default() };
    Some(Better { options: changed.words(), skews: found.skews, costs: found.costs.words })
}
