//! Text, JSON and SVG of planned filesystems.

use super::{json, picture, table};
use crate::analysis::placement::filesystem::FsMetadata;
use crate::analysis::placement::geometry::ArrayOptions;
use crate::analysis::placement::report::PlacementReport;
use crate::analysis::placement::target::Target;
use crate::mke2fs::{Conf, Options, plan};
use crate::raid::Level;

const GIB: u64 = 1 << 30;
/// Size of a RAID 0 of 12 disks of about 100 GiB each.
const SEED: u64 = 1_257_492_480 << 10;

fn report(
    bytes: u64,
    level: Level,
    disks: u32,
    chunk_kib: u64,
    options: &Options,
) -> PlacementReport {
    let array = ArrayOptions {
        level: Some(level),
        disks: Some(disks),
        chunk: Some(chunk_kib << 10),
        ..ArrayOptions::default()
    };
    let layout = plan(bytes, chunk_kib << 10, options, &Conf::compiled_in()).unwrap();
    let target = Target::on_array("mkfs.ext4", FsMetadata::new(layout), &array).unwrap();
    PlacementReport::new(target)
}

fn text(report: &PlacementReport, all: bool) -> String {
    let mut out = Vec::new();
    table::write_lines(&mut out, table::lines(report, all)).unwrap();
    let text = String::from_utf8(out).unwrap();
    for line in text.lines() {
        assert!(crate::ui::text::width(line) <= 80, "{line}");
    }
    text
}

#[test]
fn screens() {
    let default = Options::default();
    let odd = Options { group: Some(32744), ..Options::default() };
    let seed = report(SEED, Level::Raid0, 12, 512, &default);
    insta::assert_snapshot!("seed", text(&seed, false));
    let seed_odd = report(SEED, Level::Raid0, 12, 512, &odd);
    insta::assert_snapshot!("seed_32744", text(&seed_odd, true));
    let raid6 = report(27 << 40, Level::Raid6, 8, 512, &default);
    insta::assert_snapshot!("raid6", text(&raid6, false));
    let apart = report(SEED, Level::Raid0, 12, 64, &default);
    insta::assert_snapshot!("small_chunks", text(&apart, false));
    let raid1 = report(100 * GIB, Level::Raid1, 2, 512, &default);
    insta::assert_snapshot!("raid1", text(&raid1, false));
    let single = report(100 * GIB, Level::Single, 1, 512, &default);
    insta::assert_snapshot!("single", text(&single, false));
    let tiny = report(GIB, Level::Raid0, 12, 512, &default);
    insta::assert_snapshot!("tiny", text(&tiny, false));
    let many = report(SEED, Level::Raid0, 40, 512, &default);
    insta::assert_snapshot!("many", text(&many, false));
}

#[test]
fn json_object() {
    let report = report(8 * GIB, Level::Raid5, 4, 512, &Options::default());
    let object = serde_json::to_string_pretty(&json::object(&report)).unwrap();
    insta::assert_snapshot!("json", object);
}

#[test]
fn names_are_untrusted() {
    let mut report = report(8 * GIB, Level::Raid5, 4, 512, &Options::default());
    report.target.name = "\x1b[31m<&>\u{202e}".to_owned();
    report.target.array.members = vec!["sda".to_owned(), "\x1b]0;\x07<b>".to_owned()];
    let screen = text(&report, false);
    assert!(!screen.contains('\x1b') && !screen.contains('\u{202e}'));
    let svg = picture::draw(&report);
    assert!(!svg.contains('\x1b') && !svg.contains("<b>") && !svg.contains("<&>"));
    assert!(svg.contains("&lt;&amp;&gt;"));
}
