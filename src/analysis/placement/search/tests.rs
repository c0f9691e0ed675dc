//! If any options spread the metadata evenly over the disks, the recommended ones must. Most tests
//! use small filesystems, for which a search is fast.

use super::Search;
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::target::Target;
use crate::commands::layout::comparison::CandidateComparison;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::Level;

fn target(level: Level, disks: u32, chunk: u64, bytes: u64, options: &Options) -> Target {
    let array = ArrayOptions {
        level: Some(level),
        disks: Some(disks),
        chunk: Some(chunk),
        ..ArrayOptions::default()
    };
    let layout = plan(bytes, chunk, options, &Conf::compiled_in()).unwrap();
    Target::on_array("mkfs.ext4", FsMetadata::new(layout), &array).unwrap()
}

#[test]
fn recommended_options_are_even() {
    let (bytes, options, conf) = (128 << 30, Options::default(), Conf::compiled_in());
    for (level, disks) in [(Level::Raid0, 12), (Level::Raid5, 4), (Level::Raid6, 8)] {
        for chunk in [16 << 10, 64 << 10, 512 << 10] {
            let target = target(level, disks, chunk, bytes, &options);
            let (all, base) = Search::on(&target, bytes, &options, &conf).run().unwrap();
            let found = CandidateComparison {
                target: &target,
                all: &all,
                base,
                counted: None,
                grown: None,
            };
            let best = &all[found.recommended()];
            assert!(
                best.skews.worst() < 1.4,
                "{level} of {disks}, chunk {chunk}: {} {:?}",
                best.options.words(),
                best.skews
            );
            assert!(all.iter().all(|c| best.score() <= c.score() + 0.15));
        }
    }
}

/// A RAID 6 of 7 disks is even with the defaults.
#[test]
fn recommendations_and_their_text() {
    let (options, conf) = (Options::default(), Conf::compiled_in());
    for (level, disks, chunk, words) in
        [(Level::Raid0, 12, 512 << 10, "-g 32744"), (Level::Raid6, 7, 512 << 10, "")]
    {
        let target = target(level, disks, chunk, 1 << 40, &options);
        let (all, base) = Search::on(&target, 1 << 40, &options, &conf).run().unwrap();
        let found =
            CandidateComparison { target: &target, all: &all, base, counted: None, grown: None };
        assert_eq!(all[found.recommended()].options.words(), words);
        let text = found.found().lines().join("\n");
        assert!(text.lines().all(|l| crate::ui::text::width(l) <= 80), "{text}");
        insta::assert_snapshot!(format!("search_{level}"), text);
        assert_eq!(found.found().object()["schema"], "raidtrace.layout-search/1");
    }
    let small = target(Level::Raid0, 12, 64 << 10, 1 << 40, &options);
    let remedy = Search::on(&small, 1 << 40, &options, &conf).remedy().unwrap();
    assert_eq!(remedy.options.words(), "-g 32744 -G 2");
}

/// The rows describe the whole filesystem at any size, with meta_bg, which mke2fs turns on by
/// default at these sizes. The target starts with a filesystem of 1 TiB, because planning all
/// groups of a larger one takes long; the planned filesystem replaces it.
#[test]
fn figures_above_64_tib() {
    let (options, conf) = (Options::default(), Conf::compiled_in());
    for (name, bytes, groups) in [("300t", 300 << 40, 2_457_600), ("1p", 1 << 50, 8_388_608)] {
        let mut target = target(Level::Raid6, 12, 512 << 10, 1 << 40, &options);
        let search = Search::on(&target, bytes, &options, &conf);
        let planned = search.planned(&options).unwrap();
        assert_eq!(planned.block_groups().unwrap().count, groups);
        // With meta_bg, three of the 64 groups of each meta_bg have one block of descriptors.
        let descriptors =
            planned.ranges.iter().filter(|r| r.origin == crate::origin::Origin::GroupDescriptors);
        assert_eq!(descriptors.map(|r| r.count).max(), Some(8));
        let (all, base) = search.run().unwrap();
        // The note that skews are those of the first 16 TiB.
        let counted = search.partial_note();
        assert_eq!(all[base].costs.groups, groups);
        assert_eq!(all[base].costs.inodes, planned.inodes);
        target.fs = planned;
        let found = CandidateComparison { target: &target, all: &all, base, counted, grown: None };
        let found = found.found();
        insta::assert_snapshot!(name, found.lines().join("\n"));
        let object = found.object();
        let rows = object["candidates"].as_array().unwrap();
        assert!(rows.iter().all(|r| r["groups"].as_u64() >= Some(groups.into())));
    }
}

/// A large -G spreads only the bitmaps more evenly, and lets all files of a flex group start in the
/// same groups. The search therefore proposes no flex group above 8 GiB, unless the default is
/// larger.
#[test]
fn flex_groups_stay_small() {
    let conf = Conf::compiled_in();
    let bigalloc = Options { features: vec!["bigalloc".to_owned()], ..Options::default() };
    for options in [Options::default(), bigalloc] {
        for chunk in [16 << 10, 64 << 10, 128 << 10, 512 << 10] {
            let target = target(Level::Raid0, 8, chunk, 1 << 40, &options);
            let (all, base) = Search::on(&target, 1 << 40, &options, &conf).run().unwrap();
            let most = all[base].costs.flex_bytes.max(8 << 30);
            assert!(all.iter().all(|c| c.costs.flex_bytes <= most));
            assert!(all.iter().all(|c| c.options.flex.is_none_or(|f| f <= 64)));
            if options.features.is_empty() {
                assert!(all[0].skews.worst() < 1.4);
            } else if chunk >= 64 << 10 {
                // With bigalloc, no option makes this layout even. A partly better one would place
                // metadata far from its files, so the defaults are kept.
                assert!(all[0].options == options);
            }
        }
    }
}
