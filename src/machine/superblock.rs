//! The md superblock on a member: areas of superblock, bitmap, bad-block log and partial parity
//! log.
//!
//! Format: include/uapi/linux/raid/md_p.h. Checks: drivers/md/md.c, super_1_load and super_90_load.
//! Addresses are sectors of the member device. The bytes are not trusted: nothing here panics.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use crate::fs::Fields;
use crate::printable::sanitize;

use super::dm::until_nul;

/// Number of bytes read of a superblock. md reads and writes at most this many.
pub const SB_BYTES: usize = 4096;
const MAGIC: u32 = 0xa92b_4efc;
/// Offset of `dev_roles` in struct mdp_superblock_1, with two bytes for each device.
const ROLES: usize = 256;

// feature_map bits of version 1.
const BITMAP_OFFSET: u32 = 1;
const RESHAPE_ACTIVE: u32 = 4;
const NEW_OFFSET: u32 = 64;
const PPL: u32 = 1024;
const MULTIPLE_PPLS: u32 = 2048;
const RAID0_LAYOUT: u32 = 4096;

/// Metadata version of mdadm and md/metadata_version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 0.90: 64 KiB to 128 KiB before the end of the member.
    V090,
    /// 1.0: 8 KiB to 12 KiB before the end of the member.
    V10,
    /// 1.1: at the start of the member.
    V11,
    /// 1.2: 4 KiB from the start of the member.
    V12,
}

/// Fields of a member's superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdSuperblock {
    /// First sector of the superblock.
    pub start: u64,
    /// Sectors of the superblock, rounded up to the logical block as md writes it.
    pub sectors: u64,
    /// First data sector.
    pub data_offset: u64,
    /// First data sector after the running reshape; equal to `data_offset` without one.
    pub new_data_offset: u64,
    /// Sectors usable for data.
    pub data_sectors: u64,
    /// First sector of the write-intent bitmap.
    pub bitmap: Option<u64>,
    /// Bad-block log: first sector and length, reserved even without bad blocks.
    pub bad_block_log: Option<(u64, u64)>,
    /// Partial parity log: first sector and length.
    pub ppl: Option<(u64, u64)>,
    /// Layout number; for RAID 0 only with its feature bit.
    pub layout: Option<u32>,
    /// Slots of the array.
    pub slots: u32,
    /// UUID of the array; zero for version 0.90.
    pub uuid: [u8; 16],
    /// Name of the array with that of its host, `nas:0`, clean; empty for version 0.90.
    pub name: String,
    /// Logical block size of the array in bytes, in superblocks of Linux 6.19 and later; else 0.
    pub logical_block: u32,
}

/// Reasons to reject a superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SuperblockError {
    /// Wrong magic.
    #[error("no md superblock found")]
    Magic,
    /// Wrong checksum.
    #[error("wrong checksum")]
    Checksum,
    /// Fields contradict each other or the size of the device.
    #[error("it is inconsistent: {0}")]
    Nonsense(&'static str),
}

impl Version {
    /// Parses md/metadata_version; `None` for `none` and `external:...`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "0.90" => Some(Self::V090),
            "1.0" => Some(Self::V10),
            "1.1" => Some(Self::V11),
            "1.2" => Some(Self::V12),
            _ => None,
        }
    }

    /// First sector of the superblock on a device of this many sectors; `None` if the device is too
    /// small.
    pub fn superblock_sector(self, sectors: u64) -> Option<u64> {
        match self {
            // MD_NEW_SIZE_SECTORS: whole 64 KiB, less 64 KiB.
            Self::V090 => (sectors & !127).checked_sub(128),
            Self::V10 => Some(sectors.checked_sub(16)? & !7),
            Self::V11 => Some(0),
            Self::V12 => Some(8),
        }
    }
}

/// Reads the superblock at sector `start`, with O_DIRECT if possible: md bypasses the page cache,
/// which may hold older data read by udev before the array was created.
///
/// # Errors
/// The device cannot be opened or read, e.g. without root.
pub fn read(path: &Path, start: u64) -> io::Result<[u8; SB_BYTES]> {
    let offset = start.checked_mul(512).ok_or(io::ErrorKind::InvalidInput)?;
    // O_DIRECT needs a buffer aligned to the logical block, 4 KiB at most.
    let mut space = vec![0u8; 2 * SB_BYTES];
    let skip = space.as_ptr().align_offset(SB_BYTES).min(SB_BYTES);
    let buffer = &mut space[skip..skip + SB_BYTES];
    let flags = rustix::fs::OFlags::DIRECT | rustix::fs::OFlags::NONBLOCK;
    let direct = File::options()
        .read(true)
        .custom_flags(flags.bits() as i32)
        .open(path)
        .and_then(|f| f.read_exact_at(buffer, offset));
    if let Err(e) = direct {
        if e.kind() == io::ErrorKind::PermissionDenied || e.kind() == io::ErrorKind::NotFound {
            return Err(e);
        }
        File::open(path)?.read_exact_at(buffer, offset)?;
    }
    let mut bytes = [0; SB_BYTES];
    bytes.copy_from_slice(buffer);
    Ok(bytes)
}

/// Parses the superblock at sector `start` of a device with `sectors` sectors and logical blocks of
/// `block_sectors` sectors.
///
/// # Errors
/// The kernel would reject the superblock, too.
pub fn parse(
    version: Version,
    bytes: &[u8; SB_BYTES],
    start: u64,
    sectors: u64,
    block_sectors: u64,
) -> Result<MdSuperblock, SuperblockError> {
    match version {
        Version::V090 => parse_90(bytes, start),
        _ => parse_1(version, bytes, start, sectors, block_sectors),
    }
}

fn parse_1(
    version: Version,
    b: &[u8; SB_BYTES],
    start: u64,
    sectors: u64,
    block_sectors: u64,
) -> Result<MdSuperblock, SuperblockError> {
    let f = Fields(b);
    if f.u32(0) != MAGIC || f.u32(4) != 1 {
        return Err(SuperblockError::Magic);
    }
    let max_dev = f.u32(220) as usize;
    if max_dev > (SB_BYTES - ROLES) / 2 {
        return Err(SuperblockError::Nonsense("max_dev is too large"));
    }
    let length = ROLES + 2 * max_dev;
    if checksum_1(&b[..length]) != f.u32(216) {
        return Err(SuperblockError::Checksum);
    }
    if f.u64(144) != start {
        return Err(SuperblockError::Nonsense("super_offset is another sector"));
    }
    let features = f.u32(8);
    let has = |bit| features & bit != 0;
    let data_offset = f.u64(128);
    let data_sectors = f.u64(136);
    let length = (length as u64).div_ceil(512).next_multiple_of(block_sectors.clamp(1, 8));
    let new_data_offset = if has(RESHAPE_ACTIVE) && has(NEW_OFFSET) {
        data_offset
            .checked_add_signed(i64::from(f.u32(124) as i32))
            .ok_or(SuperblockError::Nonsense("new data offset before the device"))?
    } else {
        data_offset
    };
    // Version 1.0 has the data before the superblock, the others after it.
    let room = if version == Version::V10 {
        start
    } else if data_offset.min(new_data_offset) < start + length {
        return Err(SuperblockError::Nonsense("data begins within the superblock"));
    } else {
        sectors.saturating_sub(data_offset)
    };
    if data_sectors < 10 {
        return Err(SuperblockError::Nonsense("fewer than 10 data sectors"));
    }
    if data_sectors > room {
        return Err(SuperblockError::Nonsense("data ends after the end of the device"));
    }

    // Offsets relative to the superblock are signed: version 1.0 has the bitmap before it.
    let sector = |offset: i64| {
        let at = start.checked_add_signed(offset)?;
        (offset != 0 && at < sectors).then_some(at)
    };
    let area = |offset: i64, length: u16| {
        let at = sector(offset)?;
        (length > 0 && u64::from(length) <= sectors - at).then_some((at, u64::from(length)))
    };
    let ppl = has(PPL) || has(MULTIPLE_PPLS);
    Ok(MdSuperblock {
        start,
        sectors: length,
        data_offset,
        new_data_offset,
        data_sectors,
        // PPL and bitmap share a field; md refuses both at once.
        bitmap: (has(BITMAP_OFFSET) && !ppl).then(|| sector(i64::from(f.u32(96) as i32))).flatten(),
        bad_block_log: area(i64::from(f.u32(188) as i32), f.u16(186)),
        ppl: ppl.then(|| area(i64::from(f.u16(96) as i16), f.u16(98))).flatten(),
        layout: (f.u32(72) != 0 || has(RAID0_LAYOUT)).then(|| f.u32(76)),
        slots: f.u32(92),
        uuid: f.bytes(16),
        name: sanitize(until_nul(&b[32..64])),
        logical_block: f.u32(224),
    })
}

/// Parses version 0.90, which is in the byte order of the machine that created it. md does not
/// convert it either.
fn parse_90(b: &[u8; SB_BYTES], start: u64) -> Result<MdSuperblock, SuperblockError> {
    let word = |i: usize| u32::from_ne_bytes(Fields(b).bytes(4 * i));
    if word(0) != MAGIC || word(1) != 0 || word(2) < 90 {
        return Err(SuperblockError::Magic);
    }
    // Generic state begins at word 32: 33 is state, 38 the checksum. Personality at 64.
    if fold(checksum_90(b)) != fold(word(38)) {
        return Err(SuperblockError::Checksum);
    }
    let bitmap_present = word(33) & (1 << 8) != 0;
    Ok(MdSuperblock {
        start,
        sectors: 8,
        data_offset: 0,
        new_data_offset: 0,
        data_sectors: start,
        // MD_SB_BYTES after the start of the superblock (super_90_validate, default_offset).
        bitmap: bitmap_present.then_some(start + 8),
        bad_block_log: None,
        ppl: None,
        layout: (word(7) != 0).then(|| word(64)),
        slots: word(10),
        uuid: [0; 16],
        name: String::new(),
        logical_block: 0,
    })
}

/// drivers/md/md.c, calc_sb_1_csum: the sum of the 32-bit words, with the checksum taken as 0 and
/// the carries added once.
fn checksum_1(b: &[u8]) -> u32 {
    let mut sum = 0u64;
    for (i, word) in b.chunks(4).enumerate() {
        let mut le = [0; 4];
        le[..word.len()].copy_from_slice(word);
        if i != 216 / 4 {
            sum += u64::from(u32::from_le_bytes(le));
        }
    }
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// drivers/md/md.c, calc_sb_csum.
fn checksum_90(b: &[u8; SB_BYTES]) -> u32 {
    let sum: u64 = (0..SB_BYTES / 4)
        .filter(|i| *i != 38)
        .map(|i| u64::from(u32::from_ne_bytes(Fields(b).bytes(4 * i))))
        .sum();
    (sum as u32).wrapping_add((sum >> 32) as u32)
}

/// drivers/md/md.c, md_csum_fold: Alpha used to write folded checksums.
fn fold(sum: u32) -> u32 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

#[cfg(test)]
#[path = "superblock_tests.rs"]
pub(crate) mod tests;
