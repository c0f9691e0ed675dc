//! Superblocks built by hand from struct mdp_superblock_1 and mdp_superblock_s. `mdadm --examine`
//! accepts these bytes (see `for_mdadm`).

use proptest::prelude::*;

use super::*;

/// A member of 100 GiB, as in the lab.
pub(crate) const SECTORS: u64 = 209_715_200;

/// Fields that the parser reads; the others are zero.
#[derive(Clone, Copy)]
pub(crate) struct V1 {
    pub start: u64,
    pub features: u32,
    pub level: i32,
    pub layout: u32,
    pub data_offset: u64,
    pub data_sectors: u64,
    pub field_96: u32,
    pub new_offset: i32,
    pub log_offset: i32,
    pub log_sectors: u16,
    pub max_dev: u32,
}

impl V1 {
    /// Superblock of mdadm 4.2 for a 100 GiB member with an internal bitmap.
    pub(crate) fn raid5() -> Self {
        Self {
            start: 8,
            features: BITMAP_OFFSET,
            level: 5,
            layout: 2,
            data_offset: 133_120,
            data_sectors: SECTORS - 133_120,
            field_96: 8,
            new_offset: 0,
            log_offset: 136,
            log_sectors: 8,
            max_dev: 128,
        }
    }

    pub(crate) fn bytes(self) -> [u8; SB_BYTES] {
        let mut b = [0; SB_BYTES];
        let mut put = |at: usize, v: &[u8]| b[at..at + v.len()].copy_from_slice(v);
        put(0, &MAGIC.to_le_bytes());
        put(4, &1u32.to_le_bytes());
        put(8, &self.features.to_le_bytes());
        put(16, &[0xab; 16]);
        put(32, b"lab:0");
        put(72, &self.level.to_le_bytes());
        put(76, &self.layout.to_le_bytes());
        put(80, &self.data_sectors.to_le_bytes());
        put(88, &1024u32.to_le_bytes());
        put(92, &4u32.to_le_bytes());
        put(96, &self.field_96.to_le_bytes());
        put(124, &self.new_offset.to_le_bytes());
        put(128, &self.data_offset.to_le_bytes());
        put(136, &self.data_sectors.to_le_bytes());
        put(144, &self.start.to_le_bytes());
        put(186, &self.log_sectors.to_le_bytes());
        put(188, &self.log_offset.to_le_bytes());
        put(208, &u64::MAX.to_le_bytes());
        put(220, &self.max_dev.to_le_bytes());
        for slot in 0..self.max_dev.min(1920) {
            let role = if slot < 4 { slot as u16 } else { 0xffff };
            put(ROLES + 2 * slot as usize, &role.to_le_bytes());
        }
        let end = (ROLES + 2 * self.max_dev as usize).min(SB_BYTES);
        let mut sum: u64 = b[..end & !3]
            .chunks_exact(4)
            .map(|w| u64::from(u32::from_le_bytes([w[0], w[1], w[2], w[3]])))
            .sum();
        if end % 4 == 2 {
            sum += u64::from(u16::from_le_bytes([b[end - 2], b[end - 1]]));
        }
        let sum = ((sum & 0xffff_ffff) + (sum >> 32)) as u32;
        b[216..220].copy_from_slice(&sum.to_le_bytes());
        b
    }
}

fn v12(sb: V1) -> Result<MdSuperblock, SuperblockError> {
    parse(Version::V12, &sb.bytes(), 8, SECTORS, 1)
}

#[test]
fn superblock_sectors_by_version() {
    assert_eq!(Version::V12.superblock_sector(SECTORS), Some(8));
    assert_eq!(Version::V11.superblock_sector(SECTORS), Some(0));
    assert_eq!(Version::V10.superblock_sector(SECTORS), Some(SECTORS - 16));
    assert_eq!(Version::V10.superblock_sector(SECTORS + 9), Some(SECTORS - 8));
    assert_eq!(Version::V090.superblock_sector(SECTORS), Some(SECTORS - 128));
    assert_eq!(Version::V090.superblock_sector(SECTORS + 127), Some(SECTORS - 128));
    assert_eq!(Version::V10.superblock_sector(15), None);
    assert_eq!(Version::V090.superblock_sector(100), None);
}

#[test]
fn a_raid5_member() {
    let sb = v12(V1::raid5()).unwrap();
    assert_eq!((sb.start, sb.sectors), (8, 1));
    assert_eq!((sb.data_offset, sb.new_data_offset), (133_120, 133_120));
    assert_eq!(sb.bitmap, Some(16));
    assert_eq!(sb.bad_block_log, Some((144, 8)));
    assert_eq!((sb.ppl, sb.layout), (None, Some(2)));
}

#[test]
fn logical_blocks_and_odd_device_counts() {
    let odd = V1 { max_dev: 129, ..V1::raid5() };
    assert_eq!(v12(odd).unwrap().sectors, 2);
    let sb = parse(Version::V12, &odd.bytes(), 8, SECTORS, 8).unwrap();
    assert_eq!(sb.sectors, 8);
}

#[test]
fn bitmap_before_a_superblock_at_the_end() {
    let start = SECTORS - 16;
    let sb = V1 {
        start,
        data_offset: 0,
        data_sectors: start - 200,
        field_96: (-136i32) as u32,
        log_offset: -8,
        ..V1::raid5()
    };
    let sb = parse(Version::V10, &sb.bytes(), start, SECTORS, 1).unwrap();
    assert_eq!(sb.bitmap, Some(start - 136));
    assert_eq!(sb.bad_block_log, Some((start - 8, 8)));
}

#[test]
fn partial_parity_log_shares_the_bitmap_field() {
    let sb = V1 { features: PPL, field_96: 64 | 2048 << 16, ..V1::raid5() };
    let sb = v12(sb).unwrap();
    assert_eq!((sb.ppl, sb.bitmap), (Some((72, 2048)), None));
}

#[test]
fn raid0_layout_needs_its_feature_bit() {
    let raid0 = V1 { level: 0, layout: 2, features: 0, ..V1::raid5() };
    assert_eq!(v12(raid0).unwrap().layout, None);
    let marked = V1 { features: RAID0_LAYOUT, ..raid0 };
    assert_eq!(v12(marked).unwrap().layout, Some(2));
}

#[test]
fn a_reshape_moves_the_data() {
    let sb = V1 {
        features: RESHAPE_ACTIVE | NEW_OFFSET,
        new_offset: -2048,
        data_sectors: 1 << 20,
        ..V1::raid5()
    };
    assert_eq!(v12(sb).unwrap().new_data_offset, 131_072);
    let before = V1 { new_offset: i32::MIN, ..sb };
    assert!(matches!(v12(before), Err(SuperblockError::Nonsense(_))));
}

#[test]
fn rejects_what_the_kernel_rejects() {
    let good = V1::raid5();
    for bad in [
        V1 { start: 16, ..good },
        V1 { max_dev: 1921, ..good },
        V1 { data_offset: 8, ..good },
        V1 { data_sectors: SECTORS, ..good },
        V1 { data_sectors: 9, ..good },
    ] {
        assert!(matches!(v12(bad), Err(SuperblockError::Nonsense(_))));
    }
    let mut torn = good.bytes();
    torn[33] ^= 1;
    assert_eq!(parse(Version::V12, &torn, 8, SECTORS, 1), Err(SuperblockError::Checksum));
    assert_eq!(parse(Version::V12, &[0; SB_BYTES], 8, SECTORS, 1), Err(SuperblockError::Magic));
}

/// Version 0.90 of a RAID 5 of four with a bitmap.
fn v090() -> [u8; SB_BYTES] {
    let mut b = [0; SB_BYTES];
    let mut put = |word: usize, v: u32| b[4 * word..4 * word + 4].copy_from_slice(&v.to_ne_bytes());
    put(0, MAGIC);
    put(2, 90);
    put(7, 5);
    put(10, 4);
    put(33, 1 << 8);
    put(64, 2);
    put(65, 65536);
    // The sum of the words above, by hand: no carry.
    put(38, MAGIC + 90 + 5 + 4 + 256 + 2 + 65536);
    b
}

#[test]
fn version_090() {
    let start = SECTORS - 128;
    let mut b = v090();
    let sb = parse(Version::V090, &b, start, SECTORS, 1).unwrap();
    assert_eq!((sb.start, sb.sectors, sb.bitmap), (start, 8, Some(start + 8)));
    assert_eq!((sb.data_offset, sb.layout), (0, Some(2)));
    b[300] ^= 1;
    assert_eq!(parse(Version::V090, &b, start, SECTORS, 1), Err(SuperblockError::Checksum));
}

/// Writes members for `mdadm --examine`, to check these bytes against mdadm.
/// `RAIDTRACE_SB=/tmp/sb cargo test for_mdadm -- --ignored; mdadm --examine /tmp/sb.*; rm
/// /tmp/sb.*`
#[test]
#[ignore = "writes files for mdadm --examine"]
fn for_mdadm() {
    let prefix = std::env::var("RAIDTRACE_SB").unwrap();
    let write = |version: Version, name: &str, bytes: &[u8; SB_BYTES], bitmap: i64| {
        let file = File::create(format!("{prefix}.{name}")).unwrap();
        file.set_len(SECTORS * 512).unwrap();
        let start = version.superblock_sector(SECTORS).unwrap();
        file.write_all_at(bytes, start * 512).unwrap();
        // Without a bitmap superblock, mdadm reports the feature bit as an error.
        let mut bitm = [0u8; 256];
        bitm[..8].copy_from_slice(b"bitm\x04\0\0\0");
        // sync_size and chunksize: mdadm 4.2 divides by them without a check.
        bitm[40..48].copy_from_slice(&SECTORS.to_le_bytes());
        bitm[52..56].copy_from_slice(&(64u32 << 20).to_le_bytes());
        if version != Version::V090 {
            bitm[8..24].copy_from_slice(&[0xab; 16]);
        }
        let at = start.checked_add_signed(bitmap).unwrap();
        file.write_all_at(&bitm, at * 512).unwrap();
    };
    write(Version::V12, "12", &V1::raid5().bytes(), 8);
    let start = SECTORS - 16;
    let v10 = V1 {
        start,
        data_offset: 0,
        data_sectors: start - 200,
        field_96: (-136i32) as u32,
        log_offset: -8,
        ..V1::raid5()
    };
    write(Version::V10, "10", &v10.bytes(), -136);
    write(Version::V090, "090", &v090(), 8);
}

/// Adds magic and checksum to garbage, which would otherwise be rejected early.
fn resealed(mut b: [u8; SB_BYTES]) -> [u8; SB_BYTES] {
    b[..4].copy_from_slice(&MAGIC.to_le_bytes());
    b[4..8].copy_from_slice(&1u32.to_le_bytes());
    let length = (ROLES + 2 * Fields(&b).u32(220) as usize).min(SB_BYTES);
    let sum = checksum_1(&b[..length]);
    b[216..220].copy_from_slice(&sum.to_le_bytes());
    b
}

proptest! {
    #[test]
    fn no_bytes_panic(
        seed in proptest::collection::vec(any::<u8>(), SB_BYTES),
        start in any::<u64>(),
        sectors in any::<u64>(),
        block in any::<u64>(),
        max_dev in 0u32..2000,
    ) {
        let mut b: [u8; SB_BYTES] = seed.try_into().unwrap();
        for version in [Version::V090, Version::V10, Version::V11, Version::V12] {
            let _ = parse(version, &b, start, sectors, block);
            let _ = version.superblock_sector(sectors);
        }
        b[220..224].copy_from_slice(&max_dev.to_le_bytes());
        b[144..152].copy_from_slice(&start.to_le_bytes());
        let b = resealed(b);
        for version in [Version::V10, Version::V11, Version::V12] {
            if let Ok(sb) = parse(version, &b, start, sectors, block) {
                prop_assert!(sb.bitmap.is_none_or(|s| s < sectors));
                prop_assert!(sb.ppl.is_none_or(|(s, n)| s + n <= sectors));
                prop_assert!(sb.bad_block_log.is_none_or(|(s, n)| s + n <= sectors));
            }
        }
        // Superblocks with valid other fields, so that more of them pass the checks.
        let mut small = V1 { start, data_sectors: sectors / 2, ..V1::raid5() };
        small.field_96 = start as u32;
        small.log_offset = sectors as i32;
        let _ = parse(Version::V12, &small.bytes(), start, sectors, block);
        let _ = parse(Version::V10, &small.bytes(), start, sectors, block);
    }
}
