//! Arguments of `layout`.

use std::path::PathBuf;

use clap::Args;

use crate::analysis::placement::geometry::Typed;
use crate::analysis::placement::size;
use crate::mke2fs::Options;

/// Arguments of `layout`.
#[derive(Args, Debug)]
pub struct Layout {
    /// Array, disk, partition, mount point, image or e2image; - for the text of dumpe2fs on standard input
    #[arg(value_name = "DEVICE|IMAGE|MOUNT|-", required_unless_present = "plan")]
    pub target: Option<String>,

    /// What mkfs.ext4 would make on an array of this size, computed: 27T, 1257492480K
    #[arg(long, value_name = "SIZE", conflicts_with = "target", value_parser = size::parse)]
    pub plan: Option<u64>,

    /// Compare options of mke2fs for this array and size, and recommend some
    #[arg(long, conflicts_with_all = ["svg", "all"])]
    pub search: bool,

    /// Show the skew after the array has grown to N disks too
    #[arg(long, value_name = "N")]
    pub grow_to: Option<u32>,

    /// One JSON object (schema raidtrace.layout/1, with --search raidtrace.layout-search/1)
    #[arg(long)]
    pub json: bool,

    /// Every origin member by member too
    #[arg(long, conflicts_with = "json")]
    pub all: bool,

    /// Write a picture there too
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Replace an existing file of --svg
    #[arg(long)]
    pub force: bool,

    /// End with status 3 when the worst skew is above --max-skew
    #[arg(long)]
    pub check: bool,

    /// Busiest member over the mean that --check allows
    #[arg(long, value_name = "X", default_value = "1.5", requires = "check", value_parser = skew)]
    pub max_skew: f64,

    /// The array: of an image, or to see a filesystem on another one.
    #[command(flatten)]
    pub array: Typed,

    /// Of mke2fs.
    #[command(flatten)]
    pub mke2fs: Options,
}

fn skew(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse() {
        Ok(skew) if (1.0..=1e6).contains(&skew) => Ok(skew),
        _ => Err("a factor from 1 (even) up".to_owned()),
    }
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace layout /srv                          a mounted filesystem, on the array below it
  raidtrace layout disk.img --level 0 --disks 12      an image or e2image, as if on this array
  dumpe2fs /dev/md0 | raidtrace layout - --level 5 --disks 4 --chunk 64K
  sudo raidtrace layout md0 --check --max-skew 1.5    for scripts: status 3 when it is worse
  raidtrace layout --plan 27T --level 5 --disks 4 -g 32744   what mkfs.ext4 -g 32744 would make there
  raidtrace layout --plan 27T --level 5 --disks 4 --search   which options would be better

Exit status: 0 done, 1 it failed, 2 usage, 3 (with --check) more skew than --max-skew.";
