//! Options of mke2fs that would be even on this array, computed as `layout --search` does, never a rule of thumb.

use crate::ext4::Superblock;
use crate::layout::plan::{Conf, Options, plan};
use crate::layout::search::Search;
use crate::layout::{Filesystem, Skews, Spread, Target};

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

/// Up to here bitmaps count as even.
const EVEN: f64 = 1.2;
/// Flex groups of [`bitmaps_only`].
const LARGE_FLEX: [u32; 3] = [256, 512, 1024];

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

    /// Evens bitmaps, tables and group starts; `None` where the usual remedies do not.
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

    /// Flex groups so large that the bitmaps of one go round all members: groups stay aligned to chunks, but begin where they
    /// did.
    pub fn bitmaps_only(&self) -> Option<Better> {
        let chunk = self.target.array.geometry.chunk_sectors()? * 512;
        let better = |flex: u32| {
            let options = Options {
                group: Some(self.sb.blocks_per_group),
                flex: Some(flex),
                ..self.base()
            };
            let layout = plan(
                self.target.fs.bytes(),
                chunk,
                &options,
                &Conf::compiled_in(),
            )
            .ok()?;
            let target = self.target;
            let fs = Filesystem::of(layout);
            let skews = Spread::new(&fs, &target.array.geometry, &target.segments).skews();
            let bitmaps = skews
                .bitmaps
                .unwrap_or(1.0)
                .max(skews.one_bitmap.unwrap_or(1.0));
            (bitmaps <= EVEN).then(|| Better {
                options: format!("-G {flex}"),
                skews,
                costs: Vec::new(),
            })
        };
        LARGE_FLEX.into_iter().find_map(better)
    }
}
