//! Arguments of `layout`.

use std::path::PathBuf;

use clap::Args;

use crate::ui::completion;

use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::size;
use crate::mke2fs::Options;

/// Arguments of `layout`.
#[derive(Args, Debug)]
pub struct LayoutArgs {
    /// Array, disk, partition, mount point, image or e2image; - for the output of dumpe2fs or
    /// xfs_info on standard input; with --load the array, device or mount point in the recording,
    /// if it has several
    #[arg(
        value_name = "DEVICE|IMAGE|MOUNT|-",
        required_unless_present_any = ["plan", "load"],
        add = completion::targets_or_files(),
    )]
    pub target: Option<String>,

    /// Compute what mkfs would create on an array of this size: 27T, 1257492480K
    #[arg(long, value_name = "SIZE", conflicts_with = "target", value_parser = size::parse)]
    pub plan: Option<u64>,

    /// Filesystem of --plan: mkfs.ext4 or mkfs.xfs
    #[arg(
        long,
        value_name = "ext4|xfs",
        value_enum,
        // With the help of the values clap would print every option on two lines.
        hide_possible_values = true,
        default_value_t,
        conflicts_with = "load"
    )]
    pub fs: PlannedFs,

    /// Options of mkfs.xfs, which is asked for the layout, with --fs xfs, or with --search or
    /// --load on an XFS: '-d agsize=1g -m rmapbt=0'
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    pub mkfs: Option<String>,

    /// Lay the load of a recording onto another array or other options of mkfs: requests and bytes
    /// on each member
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["plan", "search", "grow_to", "all", "svg", "check", "data_offset"]
    )]
    pub load: Option<PathBuf>,

    /// Compare options of mkfs for this array and size, and recommend the best
    #[arg(long, conflicts_with_all = ["svg", "all"])]
    pub search: bool,

    /// Also show the skew after the array has grown to N disks
    #[arg(long, value_name = "N")]
    pub grow_to: Option<u32>,

    /// Print one JSON object (schema raidtrace.layout/1, with --search layout-search/1, with
    /// --load layout-load/1)
    #[arg(long)]
    pub json: bool,

    /// Also show every origin by member
    #[arg(long, conflicts_with = "json")]
    pub all: bool,

    /// Also write an SVG picture to FILE
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Replace an existing file of --svg
    #[arg(long)]
    pub force: bool,

    /// Exit with status 3 if the worst skew is above --max-skew
    #[arg(long)]
    pub check: bool,

    /// Highest skew (busiest member over the mean) that --check allows
    #[arg(long, value_name = "X", default_value = "1.5", requires = "check", value_parser = skew)]
    pub max_skew: f64,

    /// The array of an image, or another array for a device.
    #[command(flatten)]
    pub array: ArrayOptions,

    /// Options of mke2fs.
    #[command(flatten)]
    pub mke2fs: Options,
}

/// Filesystems that can be planned.
#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlannedFs {
    /// ext4, and with -t ext2 and ext3.
    #[default]
    Ext4,
    Xfs,
}

fn skew(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('x').parse() {
        Ok(skew) if (1.0..=1e6).contains(&skew) => Ok(skew),
        _ => Err("expected a factor of 1 (even) or more".to_owned()),
    }
}

/// Shown at the end of `--help`.
pub const EXAMPLES: &str = "Examples:
  sudo raidtrace layout /srv                          a mounted filesystem, on the array below it
  raidtrace layout disk.img --level 0 --disks 12      an image or e2image on this array
  dumpe2fs /dev/md0 | raidtrace layout - --level 5 --disks 4 --chunk 64K
  xfs_info /srv | raidtrace layout - --level 5 --disks 7   an XFS, from what someone pasted
  sudo raidtrace layout md0 --check --max-skew 1.5    for scripts: status 3 if the skew is higher
  raidtrace layout --plan 27T --level 5 --disks 4 -g 32744   what mkfs.ext4 -g 32744 would create
  raidtrace layout --plan 27T --level 5 --disks 4 --search   which options are better
  raidtrace layout --plan 48T --fs xfs --level 5 --disks 7   the agsize for mkfs.xfs
  raidtrace layout --load incident.rtrace -g 32744    where would this load have gone
  raidtrace layout --load incident.rtrace --level 6 --disks 8   on another array

Exit status: 0 done, 1 an error, 2 usage, 3 (with --check) a skew above --max-skew.";
