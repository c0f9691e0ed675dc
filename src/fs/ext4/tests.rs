//! Tests on a tiny filesystem made by hand, which run without mke2fs, and on random damage to it.
//! `tests/ext4_layout.rs` has tests on images of real filesystems.

use proptest::prelude::*;

use super::{Checksum, E2Image, Error, Ext4Layout, Ext4Superblock, FsKind, Journal};
use crate::address::FsBlock;
use crate::origin::Origin;

const BLOCK: usize = 1024;
const BLOCKS: usize = 512;
/// Block numbers in the image: 4 groups of 128 blocks, no sparse_super, the GDT after each
/// superblock.
const BITMAPS: u32 = 20;
const TABLES: u32 = 40;
const TREE: u32 = 70;
const JOURNAL: u32 = 200;

impl Ext4Layout {
    /// Origin of `block`; `None` for a block without a fixed purpose.
    pub fn origin_of(&self, block: FsBlock) -> Option<Origin> {
        let range = self.ranges.iter().find(|range| (range.first..range.end()).contains(&block))?;
        Some(range.origin)
    }
}

struct Image(Vec<u8>);

impl Image {
    fn set(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn sb16(&mut self, at: usize, value: u16) {
        self.set(1024 + at, &value.to_le_bytes());
    }

    fn sb32(&mut self, at: usize, value: u32) {
        self.set(1024 + at, &value.to_le_bytes());
    }

    fn sign(&mut self) {
        let sum = !crc32c::crc32c(&self.0[1024..1024 + 0x3fc]);
        self.sb32(0x3fc, sum);
    }

    /// ext4 with flex_bg, 64bit, metadata_csum, a journal by extents of depth 1, MMP and quota.
    fn new() -> Self {
        let mut image = Self(vec![0; BLOCK * BLOCKS]);
        for (at, value) in [
            (0x00, 128),           // s_inodes_count
            (0x04, BLOCKS as u32), // s_blocks_count_lo
            (0x14, 1),             // s_first_data_block
            (0x20, 128),           // s_blocks_per_group
            (0x24, 128),           // s_clusters_per_group
            (0x28, 32),            // s_inodes_per_group
            (0x4c, 1),             // s_rev_level
            (0x5c, 0x4),           // has_journal
            (0x60, 0x3c0),         // extents, 64bit, mmp, flex_bg
            (0x64, 0x500),         // quota, metadata_csum
            (0xe0, 8),             // s_journal_inum
            (0x168, 90),           // s_mmp_block
            (0x240, 3),            // s_usr_quota_inum
        ] {
            image.sb32(at, value);
        }
        image.sb16(0x38, 0xef53);
        image.sb16(0x58, 128); // s_inode_size
        image.sb16(0xfe, 64); // s_desc_size
        image.set(1024 + 0x174, &[2, 1]); // s_log_groups_per_flex, s_checksum_type
        image.set(1024 + 0x78, b"tiny\x1b\0rest");
        for group in 0..4_u32 {
            let at = 2 * BLOCK + 64 * group as usize;
            image.set(at, &(BITMAPS + group).to_le_bytes());
            image.set(at + 4, &(BITMAPS + 4 + group).to_le_bytes());
            image.set(at + 8, &(TABLES + 4 * group).to_le_bytes());
        }
        let journal_size = 20 * BLOCK as u32;
        // A root that points to one leaf with two extents, the second one unwritten.
        let root = extents(1, &[[0, TREE, 0]]);
        image.set_inode(8, journal_size, 0x8_0000, &root);
        image.set(1024 + 0xfd, &[1]);
        image.set(1024 + 0x10c, &root);
        image.sb32(0x14c, journal_size);
        let leaf = extents(0, &[[0, 12, JOURNAL], [12, 0x8000 + 8, JOURNAL + 48]]);
        image.set(TREE as usize * BLOCK, &leaf);
        // The quota file has a block map: one direct block, and one through an indirect block.
        let mut map = [0; 60];
        map[0] = 100;
        map[48] = 101;
        image.set_inode(3, 13 * 1024, 0, &map);
        image.set(101 * BLOCK, &[102]);
        image.sign();
        image
    }

    fn set_inode(&mut self, ino: usize, size: u32, flags: u32, map: &[u8]) {
        let at = TABLES as usize * BLOCK + (ino - 1) * 128;
        self.set(at, &0o10_0600_u16.to_le_bytes());
        self.set(at + 4, &size.to_le_bytes());
        self.set(at + 0x20, &flags.to_le_bytes());
        self.set(at + 0x28, map);
    }

    fn layout(&self) -> Result<Ext4Layout, Error> {
        Ext4Layout::read(&self.0.as_slice())
    }
}

/// A node of the extent tree, from the words of each entry in their order on disk.
fn extents(depth: u16, entries: &[[u32; 3]]) -> Vec<u8> {
    let mut node = Vec::new();
    for half in [0xf30a, entries.len() as u16, 4, depth, 0, 0] {
        node.extend(half.to_le_bytes());
    }
    for word in entries.as_flattened() {
        node.extend(word.to_le_bytes());
    }
    node
}

#[test]
fn layout_of_the_tiny_filesystem() {
    let layout = Image::new().layout().unwrap();
    assert_eq!(layout.notes, [""; 0]);
    assert_eq!(layout.journal, Journal::Internal { blocks: 20 });
    let got: Vec<_> = layout.ranges.iter().map(|r| (r.first.0, r.count, r.origin)).collect();
    let want = [
        (0, 1, Origin::OtherMetadata),
        (1, 1, Origin::Superblock),
        (2, 1, Origin::GroupDescriptors),
        (20, 4, Origin::BlockBitmap),
        (24, 4, Origin::InodeBitmap),
        (40, 16, Origin::InodeTable),
        (70, 1, Origin::ExtentTree),
        (90, 1, Origin::OtherMetadata),
        (100, 1, Origin::OtherMetadata),
        (101, 1, Origin::ExtentTree),
        (102, 1, Origin::OtherMetadata),
        (129, 1, Origin::Superblock),
        (130, 1, Origin::GroupDescriptors),
        (200, 12, Origin::Journal),
        (248, 8, Origin::Journal),
        (257, 1, Origin::Superblock),
        (258, 1, Origin::GroupDescriptors),
        (385, 1, Origin::Superblock),
        (386, 1, Origin::GroupDescriptors),
    ];
    assert_eq!(got, want);
}

#[test]
fn origin_of_blocks_inside_and_between_ranges() {
    let layout = Image::new().layout().unwrap();
    assert_eq!(layout.origin_of(FsBlock(0)), Some(Origin::OtherMetadata));
    assert_eq!(layout.origin_of(FsBlock(43)), Some(Origin::InodeTable));
    assert_eq!(layout.origin_of(FsBlock(55)), Some(Origin::InodeTable));
    assert_eq!(layout.origin_of(FsBlock(56)), None);
    assert_eq!(layout.origin_of(FsBlock(386)), Some(Origin::GroupDescriptors));
    assert_eq!(layout.origin_of(FsBlock(387)), None);
    assert_eq!(layout.origin_of(FsBlock(u64::MAX)), None);
}

#[test]
fn fields_of_the_superblock() {
    let sb = Ext4Superblock::read(&Image::new().0.as_slice()).unwrap();
    assert_eq!(sb.checksum, Checksum::Valid);
    assert_eq!(sb.label, "tiny\u{fffd}");
    assert_eq!((sb.groups, sb.gdt_blocks(), sb.groups_per_flex()), (4, 1, 4));
    assert_eq!(sb.kind(), FsKind::Ext4);
    assert_eq!(sb.uuid.to_string(), "00000000-0000-0000-0000-000000000000");
}

#[test]
fn a_damaged_superblock_is_an_error_that_names_the_field() {
    type Damage = fn(&mut Image);
    let cases: [(&str, Damage); 17] = [
        ("s_magic", |i| i.sb16(0x38, 0)),
        ("s_log_block_size is 7", |i| i.sb32(0x18, 7)),
        ("s_blocks_per_group is 0", |i| i.sb32(0x20, 0)),
        ("s_blocks_per_group is 8193", |i| i.sb32(0x20, 8193)),
        ("s_blocks_count is 0", |i| i.sb32(0x4, 0)),
        ("s_blocks_count is 640", |i| {
            i.sb32(0x4, 640);
            i.sb32(0, 160);
        }),
        ("s_first_data_block is 0", |i| i.sb32(0x14, 0)),
        ("s_inode_size is 129", |i| i.sb16(0x58, 129)),
        ("s_inodes_per_group is 7", |i| i.sb32(0x28, 7)),
        ("s_inodes_count is 127", |i| i.sb32(0, 127)),
        ("s_desc_size is 32", |i| i.sb16(0xfe, 32)),
        ("s_reserved_gdt_blocks is 257", |i| i.sb16(0xce, 257)),
        ("s_first_meta_bg is 2", |i| {
            i.sb32(0x60, 0x3d0);
            i.sb32(0x104, 2);
        }),
        ("s_feature_incompat has journal_dev", |i| i.sb32(0x60, 8)),
        // An inode table of 126 blocks, in groups of 128.
        ("s_blocks_per_group is 128, but must be at least", |i| {
            i.sb32(0x28, 1008);
            i.sb32(0, 4 * 1008);
        }),
        ("s_blocks_per_group is 128, but a copy", |i| i.sb16(0xce, 127)),
        // 2^26 groups of 32 blocks with meta_bg: 4 GiB of descriptors.
        ("s_blocks_count is 2147483648, which makes 67108864 groups", |i| {
            i.sb32(0x04, 1 << 31);
            i.sb32(0x14, 0);
            i.sb32(0x18, 2);
            i.sb32(0x1c, 2);
            i.sb32(0x20, 32);
            i.sb32(0x24, 32);
            i.sb32(0x28, 32);
            i.sb32(0, 32 << 26);
            i.sb32(0x60, 0x3d0);
            i.sb32(0x104, 0);
        }),
    ];
    for (names, damage) in cases {
        let mut image = Image::new();
        damage(&mut image);
        let message = image.layout().unwrap_err().to_string();
        assert!(message.contains(names), "{names}: {message}");
        assert!(!message.contains('\n'));
    }
    let mut image = Image::new();
    image.set(0, b"XFSB");
    image.sb16(0x38, 0);
    let message = image.layout().unwrap_err().to_string();
    assert!(message.contains("this is XFS"), "{message}");
}

#[test]
fn a_wrong_superblock_checksum_is_a_note() {
    let mut image = Image::new();
    image.sb32(0xc, 5);
    let layout = image.layout().unwrap();
    assert!(layout.notes[0].contains("s_checksum"), "{:?}", layout.notes);
    assert_eq!(layout.ranges, Image::new().layout().unwrap().ranges);
}

#[test]
fn invalid_descriptors_are_left_out_and_counted() {
    let mut image = Image::new();
    for (group, block) in [(1, 512_u32), (3, 2)] {
        image.set(2 * BLOCK + 64 * group, &block.to_le_bytes());
    }
    image.set(2 * BLOCK + 64 * 2 + 8, &510_u32.to_le_bytes());
    let layout = image.layout().unwrap();
    assert_eq!(layout.notes.len(), 2, "{:?}", layout.notes);
    assert!(
        layout.notes[0].starts_with("2 of 4 groups have an invalid location of their block_bitmap")
    );
    assert!(layout.notes[0].contains("first group 1 (block 512)"));
    assert!(layout.notes[1].contains("inode_table"));
    assert_eq!(layout.origin_of(FsBlock(20)), Some(Origin::BlockBitmap));
    assert_eq!(layout.origin_of(FsBlock(21)), None);
    assert_eq!(layout.origin_of(FsBlock(48)), None);
}

#[test]
fn a_lost_journal_inode_falls_back_to_the_superblock() {
    let sound = Image::new().layout().unwrap();
    let mut image = Image::new();
    image.set(TABLES as usize * BLOCK + 7 * 128, &[0; 128]);
    let layout = image.layout().unwrap();
    assert_eq!(layout.ranges, sound.ranges);
    assert!(layout.notes[0].contains("its copy in the superblock is used"));
    // Without the copy the journal is missing, and a note reports it.
    image.set(1024 + 0xfd, &[0]);
    let layout = image.layout().unwrap();
    assert_eq!(layout.journal, Journal::Internal { blocks: 0 });
    assert!(layout.notes.iter().any(|n| n.contains("no valid copy")));
}

#[test]
fn a_cyclic_extent_tree_or_block_map_ends() {
    let mut image = Image::new();
    let size = 20 * BLOCK as u32;
    // A node must not be its own child, nor occur twice as a child.
    image.set_inode(8, size, 0x8_0000, &extents(2, &[[0, TREE, 0]]));
    image.set(TREE as usize * BLOCK, &extents(1, &[[0, TREE, 0], [4, TREE, 0]]));
    image.set(1024 + 0xfd, &[0]);
    let layout = image.layout().unwrap();
    assert!(layout.notes.iter().any(|n| n.contains("occurs twice")), "{:?}", layout.notes);
    // A block map whose triple indirect block is its own child at every level.
    let mut map = [0; 60];
    map[56] = TREE as u8;
    image.set_inode(8, size, 0, &map);
    image.set(TREE as usize * BLOCK, &[TREE as u8, 0, 0, 0].repeat(BLOCK / 4));
    assert!(image.layout().unwrap().notes.iter().any(|n| n.contains("occurs twice")));
}

#[test]
fn an_external_journal_has_no_ranges() {
    let mut image = Image::new();
    image.sb32(0xe0, 0);
    image.set(1024 + 0xd0, &[0xab; 16]);
    image.sign();
    let layout = image.layout().unwrap();
    assert!(
        matches!(layout.journal, Journal::External { uuid: Some(uuid) } if uuid.0 == [0xab; 16])
    );
    assert_eq!(layout.notes, [""; 0]);
    assert!(layout.ranges.iter().all(|r| r.origin != Origin::Journal));
}

/// Offsets of data in the image: damage to other bytes would change nothing.
fn interesting() -> impl Strategy<Value = usize> {
    let table = TABLES as usize * BLOCK;
    let tree = TREE as usize * BLOCK;
    prop_oneof![
        6 => 1024..2048_usize,
        2 => 2 * BLOCK..2 * BLOCK + 256,
        2 => table + 2 * 128..table + 8 * 128,
        2 => tree..tree + 64,
        1 => 0..BLOCK * BLOCKS,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]
    /// Damages an e2image of the tiny filesystem: a header, the superblock, descriptors and inodes.
    #[test]
    fn a_damaged_e2image_does_not_panic(
        damage in prop::collection::vec((0..4 * BLOCK, any::<u8>()), 0..12),
        cut in prop::option::weighted(0.1, 0..4 * BLOCK),
    ) {
        let image = Image::new();
        let mut file = vec![0; BLOCK];
        file[4..19].copy_from_slice(b"Ext2 Image 1.0\0");
        file[0x11c..0x120].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        file[0x120..0x124].copy_from_slice(&(3 * BLOCK as u32).to_le_bytes());
        file.extend(&image.0[1024..1024 + BLOCK]);
        file.extend(&image.0[2 * BLOCK..3 * BLOCK]);
        file.extend(&image.0[TABLES as usize * BLOCK..(TABLES as usize + 8) * BLOCK]);
        let sound = damage.is_empty() && cut.is_none();
        for (at, byte) in damage {
            file[at] = byte;
        }
        file.truncate(cut.unwrap_or(usize::MAX));
        let file = file.as_slice();
        let layout = E2Image::open(&file).and_then(|e2| Ext4Layout::read(&e2));
        prop_assert!(layout.is_ok() || !sound, "{layout:?}");
        if let Ok(layout) = layout {
            let end = layout.ranges.last().map_or(0, |r| r.end().0);
            prop_assert!(end <= layout.blocks);
        }
    }

    #[test]
    fn ranges_of_a_damaged_image_are_sorted_disjoint_and_merged(
        damage in prop::collection::vec((interesting(), any::<u8>()), 1..12),
        cut in prop::option::weighted(0.1, 0..BLOCK * BLOCKS),
    ) {
        let mut image = Image::new();
        for (at, byte) in damage {
            image.0[at] = byte;
        }
        image.0.truncate(cut.unwrap_or(usize::MAX));
        if let Ok(layout) = image.layout() {
            for pair in layout.ranges.windows(2) {
                prop_assert!(pair[0].end() <= pair[1].first);
                prop_assert!(pair[0].end() < pair[1].first || pair[0].origin != pair[1].origin);
            }
            let end = layout.ranges.last().map_or(0, |r| r.end().0);
            prop_assert!(end <= layout.blocks);
        }
    }
}
