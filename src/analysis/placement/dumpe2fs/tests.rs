//! Output of old and new versions, truncated and damaged.

use proptest::prelude::*;

use super::read;
use crate::origin::Origin;

const HEADER: &str = "\
dumpe2fs 1.39 (29-May-2006)
Filesystem volume name:   /boot
Filesystem features:      has_journal ext_attr resize_inode dir_index filetype sparse_super
Block count:              40000
Block size:               4096
First block:              0
Group descriptor size:    64
Blocks per group:         32768
Inode blocks per group:   512
Journal inode:            8


";

/// Output of e2fsprogs 1.39: two bitmaps per line.
const OLD: &str = "\
Group 0: (Blocks 0-32767)
  Primary superblock at 0, Group descriptors at 1-1
  Reserved GDT blocks at 2-10
  Block bitmap at 11 (+11), Inode bitmap at 12 (+12)
  Inode table at 13-524 (+13)
  31730 free blocks, 16373 free inodes, 2 directories
  Free blocks: 1038-32767
  Free inodes: 12-16384
Group 1: (Blocks 32768-39999)
  Backup superblock at 32768, Group descriptors at 32769-32769
  Reserved GDT blocks at 32770-32778
  Block bitmap at 32779 (+11), Inode bitmap at 32780 (+12)
  Inode table at 32781-33292 (+13)
";

fn text(groups: &str) -> String {
    format!("{HEADER}{groups}")
}

#[test]
fn an_old_version() {
    let fs = read(text(OLD).as_bytes()).unwrap();
    let blocks = |origin| -> Vec<(u64, u64)> {
        let of = fs.ranges.iter().filter(|r| r.origin == origin);
        of.map(|r| (r.first.0 / 8, r.count / 8)).collect()
    };
    assert_eq!(blocks(Origin::Superblock), [(0, 1), (32768, 1)]);
    assert_eq!(blocks(Origin::GroupDescriptors), [(1, 10), (32769, 10)]);
    assert_eq!(blocks(Origin::BlockBitmap), [(11, 1), (32779, 1)]);
    assert_eq!(blocks(Origin::InodeBitmap), [(12, 1), (32780, 1)]);
    assert_eq!(blocks(Origin::InodeTable), [(13, 512), (32781, 512)]);
    assert_eq!((fs.kind.as_str(), fs.block_groups().unwrap().per_flex), ("ext3", 1));
    assert_eq!(fs.notes.len(), 1, "{:?}", fs.notes);
}

/// Output of current versions, of -x, and quoted in a mail.
#[test]
fn current_versions_hexadecimal_numbers_and_mail_quotes() {
    let want = read(text(OLD).as_bytes()).unwrap().ranges;
    let new = OLD
        .replace(" (+11), Inode bitmap", " (bg #0 + 11), csum 0x1234\n  Inode bitmap")
        .replace("(Blocks 0-32767)", "(Blocks 0-32767) csum 0xf5f6 [ITABLE_ZEROED]");
    assert_eq!(read(text(&new).as_bytes()).unwrap().ranges, want);
    let upper = OLD.replace("superblock", "Superblock").replace("descriptors", "Descriptors");
    assert_eq!(read(text(&upper).as_bytes()).unwrap().ranges, want);
    let quoted: String = text(OLD).lines().map(|l| format!("> {l}\r\n")).collect();
    assert_eq!(read(quoted.as_bytes()).unwrap().ranges, want);
    let hex = OLD.replace("13-524", "0xd-0x20c").replace("32781-33292", "0x800d-0x820c");
    assert_eq!(read(text(&hex).as_bytes()).unwrap().ranges, want);
}

/// A mail or a forum has changed the spaces and added quotes.
#[test]
fn pasted_text() {
    let want = read(text(OLD).as_bytes()).unwrap().ranges;
    let each = |change: fn(&str) -> String| -> String {
        text(OLD).lines().map(|line| change(line) + "\n").collect()
    };
    let mail = "On Monday: somebody wrote (to the list):\n".repeat(150);
    for pasted in [
        each(|line| line.trim_start().to_owned()),
        each(|line| line.replace("  ", "\t")),
        each(|line| format!(">> {line}")),
        each(|line| format!("    | {line}")),
        format!("{mail}{}", each(|line| format!("> {line}"))),
    ] {
        assert_eq!(read(pasted.as_bytes()).unwrap().ranges, want, "{pasted}");
    }
    let german = OLD
        .replace("Group ", "Gruppe ")
        .replace("Blocks", "Blöcke")
        .replace("Block bitmap at", "Block-Bitmap bei");
    assert!(read(text(&german).as_bytes()).unwrap_err().contains("LC_ALL=C dumpe2fs"));
    let header = text("Check interval:           0 (<none>)\n");
    assert!(!read(header.as_bytes()).unwrap_err().contains("language"));
}

#[test]
fn errors_name_what_is_missing() {
    let error = |text: &str| read(text.as_bytes()).unwrap_err();
    for (cut, says) in [
        (String::new(), "Block size"),
        (HEADER.to_owned(), "Inode count"),
        (format!("{HEADER}Inode count: 100\n"), "s_inodes_per_group"),
        (text(&OLD[..OLD.find("Group 1").unwrap()]), "lists 1 groups"),
        (text(&OLD[OLD.find("Group 1").unwrap()..]), "where group 0"),
        (text(&OLD[..OLD.rfind("  Inode table").unwrap()]), "inode table at"),
        (
            text(OLD).replace("Blocks per group:         32768", "Blocks per group: x"),
            "Blocks per group",
        ),
        (
            text(OLD).replace("Blocks per group:         32768", "Blocks per group: 0"),
            "Blocks per group",
        ),
        (text(OLD).replace("4096", "4000"), "not a power of two"),
        (text(OLD).replace("13-524", "524-13"), "group 0"),
        (text(OLD).replace("33292", "99999999"), "Block count"),
        (text(OLD).replace("First block", "Erster Block"), "LC_ALL=C"),
    ] {
        assert!(error(&cut).contains(says), "{says}: {}", error(&cut));
    }
}

proptest! {
    /// Damaged text neither panics nor gives ranges beyond the end.
    #[test]
    fn damaged_text(
        at in any::<prop::sample::Index>(),
        with in "[ -~\n]{0,12}",
        len in 0usize..40,
    ) {
        let mut text = text(OLD).into_bytes();
        let at = at.index(text.len());
        let end = (at + len).min(text.len());
        text.splice(at..end, with.bytes());
        if let Ok(fs) = read(text.as_slice()) {
            let end = fs.ranges.last().map_or(0, |r| r.first.0 + r.count);
            prop_assert!(end <= fs.blocks * fs.block_sectors());
        }
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(bytes.as_slice());
    }
}
