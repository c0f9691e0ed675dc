//! Findings on planned filesystems.

use crate::address::ArraySector;
use crate::advice::kernel::Kernel;
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::target::whole;
use crate::analysis::placement::{FsMetadata, PlacementReport, Target};
use crate::commands::doctor::facts::{ArrayFacts, Facts, FsFacts};
use crate::commands::doctor::finding::{Finding, FindingSeverity};
use crate::commands::doctor::rules::skew::check;
use crate::fs::xfs::XfsLayout;
use crate::machine::Array;
use crate::machine::mkfs_xfs::{MkfsDevice, XfsOptions};
use crate::raid::Level;

const SEVEN: u64 = 46_883_364_864 << 10;

fn facts(level: Level, disks: u32, bytes: u64) -> FsFacts {
    let array = ArrayOptions { level: Some(level), disks: Some(disks), ..ArrayOptions::default() };
    let disks = crate::analysis::placement::geometry::data_disks(level, disks, 0x102);
    let device = MkfsDevice { bytes, chunk: 512 << 10, disks, sector: 4096 };
    let geometry = XfsOptions::default().plan(device).unwrap();
    let fs = FsMetadata::from_xfs(XfsLayout::from_geometry(geometry));
    let mut target = Target::on_array("md0", fs, &array).unwrap();
    target.segments = whole(ArraySector(0));
    FsFacts { report: Some(PlacementReport::new(target)), inodes: Some(64), ..FsFacts::default() }
}

fn found(level: Level, disks: u32, bytes: u64) -> Vec<Finding> {
    let facts = facts(level, disks, bytes);
    check(&Kernel::default(), &ArrayFacts::default(), &facts)
}

/// A RAID 5 of seven disks of 8 TB, md0, with mkfs.xfs's defaults.
pub fn seven_disks() -> Facts {
    let array = Array { name: "md0".to_owned(), raid_disks: 7, ..Array::default() };
    Facts {
        arrays: vec![ArrayFacts {
            array,
            filesystems: vec![facts(Level::Raid5, 7, SEVEN)],
            ..ArrayFacts::default()
        }],
        ..Facts::default()
    }
}

#[test]
fn all_headers_on_one_disk() {
    let found = found(Level::Raid5, 7, SEVEN);
    let [finding] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!((finding.id, finding.severity), ("layout-skew", FindingSeverity::Info));
    assert!(finding.title.starts_with("all 44 allocation group headers"), "{}", finding.title);
    assert_eq!(finding.figures["ag_headers"], 7.0);
    assert_eq!(finding.commands, ["mkfs.xfs -d agsize=1099510579200 /dev/NEW_ARRAY"]);
    assert!(finding.destroys);
    assert!(finding.risk.contains("agsize cannot be changed"));
}

/// Fewer groups than disks can still be more even.
#[test]
fn few_groups_on_fewer_disks() {
    let found = found(Level::Raid0, 12, 4 << 30);
    let [finding] = found.as_slice() else {
        panic!("{found:?}");
    };
    let title = &finding.title;
    assert!(title.contains("are on slots 0, 4 and 8 of 12"), "{title}");
    assert_eq!(finding.figures["better_skew"], 1.5);
}

/// An even layout, one with fewer groups than disks, each on another disk, and one on mirrored
/// disks.
#[test]
fn no_finding() {
    for (level, disks, bytes) in [
        (Level::Raid0, 4, 31_255_576_576 << 10),
        (Level::Raid0, 12, (8 * 1025) << 19),
        (Level::Raid1, 2, 1 << 40),
    ] {
        let found = found(level, disks, bytes);
        assert!(found.is_empty(), "{level} of {disks}: {found:?}");
    }
}
