//! The comparison on small filesystems, where it is quick: what is recommended has to be even wherever that can be.

use super::{Search, show};
use crate::layout::filesystem::Filesystem;
use crate::layout::geometry::Typed;
use crate::layout::plan::{Conf, Options, plan};
use crate::layout::target::Target;
use crate::raid::Level;

fn target(level: Level, disks: u32, chunk: u64, bytes: u64, options: &Options) -> Target {
    let array = Typed {
        level: Some(level),
        disks: Some(disks),
        chunk: Some(chunk),
        ..Typed::default()
    };
    let layout = plan(bytes, chunk, options, &Conf::compiled_in()).unwrap();
    Target::of_typed("mkfs.ext4", Filesystem::of(layout), &array).unwrap()
}

#[test]
fn what_is_recommended_is_even() {
    let (bytes, options, conf) = (128 << 30, Options::default(), Conf::compiled_in());
    for (level, disks) in [(Level::Raid0, 12), (Level::Raid5, 4), (Level::Raid6, 8)] {
        for chunk in [16 << 10, 64 << 10, 512 << 10] {
            let target = target(level, disks, chunk, bytes, &options);
            let search = Search::on(&target, bytes, &options, &conf);
            let (all, base) = search.run().unwrap();
            let found = show::Found {
                target: &target,
                all: &all,
                base,
                grown: None,
            };
            let best = &all[found.recommended()];
            assert!(
                best.skews.worst() < 1.3,
                "{level} of {disks}, chunk {chunk}: {} {:?}",
                best.options.words(),
                best.skews
            );
            assert!(all.iter().all(|c| best.score() <= c.score() + 0.15));
        }
    }
}

/// The first case gets the first case's answer; a RAID 6 of 7, which is even, gets none.
#[test]
fn the_usual_answers() {
    let (options, conf) = (Options::default(), Conf::compiled_in());
    for (level, disks, chunk, words) in [
        (Level::Raid0, 12, 512 << 10, "-g 32744"),
        (Level::Raid6, 7, 512 << 10, ""),
    ] {
        let target = target(level, disks, chunk, 1 << 40, &options);
        let search = Search::on(&target, 1 << 40, &options, &conf);
        let (all, base) = search.run().unwrap();
        let found = show::Found {
            target: &target,
            all: &all,
            base,
            grown: None,
        };
        assert_eq!(all[found.recommended()].options.words(), words);
        let mut text = Vec::new();
        found.write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(
            text.lines().all(|l| crate::top::text::width(l) <= 80),
            "{text}"
        );
        insta::assert_snapshot!(format!("search_{level}"), text);
        assert_eq!(found.object()["schema"], "raidtrace.layout-search/1");
    }
    let small = target(Level::Raid0, 12, 64 << 10, 1 << 40, &options);
    let remedy = Search::on(&small, 1 << 40, &options, &conf)
        .remedy()
        .unwrap();
    assert_eq!(remedy.options.words(), "-g 32744 -G 2");
}
