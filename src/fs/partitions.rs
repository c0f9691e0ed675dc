//! Partition tables of whole disks: GPT and DOS, only to say where a filesystem may be.

use std::io;

use super::read::{Fields, ReadAt};

/// Partitions of a GPT that are read: the number that its creators reserve room for.
const MAX_ENTRIES: u64 = 128;
/// Types of DOS partitions that hold further tables.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];

/// A partition. Places are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    pub number: u32,
    pub start: u64,
    pub bytes: u64,
}

/// Partitions of a disk; `None` if it has no partition table. Logical partitions of a DOS table are
/// not read.
///
/// # Errors
/// If the disk cannot be read.
pub fn partitions(disk: &dyn ReadAt) -> io::Result<Option<Vec<Partition>>> {
    let size = disk.size()?;
    for sector in [512, 4096] {
        if size >= 2 * sector
            && let Some(found) = gpt(disk, size, sector)?
        {
            return Ok(Some(found));
        }
    }
    if size < 512 {
        return Ok(None);
    }
    let mut raw = [0; 512];
    disk.read_at(0, &mut raw)?;
    Ok(dos(Fields(&raw)))
}

/// The table of a disk with sectors of that many bytes (UEFI specification, 5.3).
fn gpt(disk: &dyn ReadAt, size: u64, sector: u64) -> io::Result<Option<Vec<Partition>>> {
    let mut header = [0; 92];
    disk.read_at(sector, &mut header)?;
    let header = Fields(&header);
    if &header.bytes::<8>(0) != b"EFI PART" {
        return Ok(None);
    }
    let (table, count, entry) =
        (header.u64(72), u64::from(header.u32(80)), u64::from(header.u32(84)));
    let mut found = Vec::new();
    for i in 0..count.min(MAX_ENTRIES) {
        let at = table.checked_mul(sector).and_then(|at| at.checked_add(i * entry.max(128)));
        let mut raw = [0; 48];
        let Some(at) = at.filter(|at| at.checked_add(48).is_some_and(|end| end <= size)) else {
            break;
        };
        disk.read_at(at, &mut raw)?;
        let raw = Fields(&raw);
        let (first, last) = (raw.u64(32), raw.u64(40));
        if raw.bytes::<16>(0) != [0; 16]
            && let Some(sectors) = last.checked_sub(first).and_then(|n| n.checked_add(1))
        {
            found.push(Partition {
                number: i as u32 + 1,
                start: first.saturating_mul(sector),
                bytes: sectors.saturating_mul(sector),
            });
        }
    }
    Ok(Some(found))
}

/// The table in the first sector of a disk. `None` if it is a filesystem's boot sector: only a
/// table has a status of 0 or 0x80 in each entry, and sectors in an entry with a type.
fn dos(raw: Fields<'_>) -> Option<Vec<Partition>> {
    let entries = [446, 462, 478, 494].map(|at| {
        let (first, sectors) = (raw.u32(at + 8), raw.u32(at + 12));
        (raw.u8(at), raw.u8(at + 4), u64::from(first), u64::from(sectors))
    });
    let is_used = |kind: u8, sectors: u64| kind != 0 && sectors != 0;
    let fits = |(status, kind, first, sectors): &(u8, u8, u64, u64)| {
        status & 0x7f == 0 && (!is_used(*kind, *sectors) || *first > 0)
    };
    let has_one = entries.iter().any(|(_, kind, _, sectors)| is_used(*kind, *sectors));
    if raw.u16(510) != 0xaa55 || !has_one || !entries.iter().all(fits) {
        return None;
    }
    let found = entries.iter().zip(1..).filter_map(|((_, kind, first, sectors), number)| {
        let is_one = is_used(*kind, *sectors) && !EXTENDED.contains(kind);
        is_one.then_some(Partition { number, start: first * 512, bytes: sectors * 512 })
    });
    Some(found.collect())
}

#[cfg(test)]
mod tests {
    use super::{Partition, partitions};

    fn read(image: &[u8]) -> Option<Vec<Partition>> {
        partitions(&image).unwrap()
    }

    #[test]
    fn gpt_with_either_size_of_sectors() {
        for sector in [512, 4096] {
            let mut image = vec![0; 64 << 10];
            image[sector..sector + 8].copy_from_slice(b"EFI PART");
            image[sector + 72..sector + 80].copy_from_slice(&2u64.to_le_bytes());
            image[sector + 80..sector + 84].copy_from_slice(&4u32.to_le_bytes());
            image[sector + 84..sector + 88].copy_from_slice(&128u32.to_le_bytes());
            let third = 2 * sector + 2 * 128;
            image[third] = 1;
            image[third + 32..third + 40].copy_from_slice(&34u64.to_le_bytes());
            image[third + 40..third + 48].copy_from_slice(&133u64.to_le_bytes());
            let (start, bytes) = (34 * sector as u64, 100 * sector as u64);
            assert_eq!(read(&image), Some(vec![Partition { number: 3, start, bytes }]));
            // Hostile: a table that does not fit, an end before the start.
            image[third + 40..third + 48].fill(0);
            assert_eq!(read(&image), Some(vec![]));
            image[sector + 72..sector + 80].fill(0xff);
            assert_eq!(read(&image), Some(vec![]));
        }
    }

    #[test]
    fn dos_table_but_not_a_boot_sector() {
        let mut image = vec![0; 512];
        image[510..].copy_from_slice(&[0x55, 0xaa]);
        assert_eq!(read(&image), None);
        image[446 + 4] = 0x83;
        image[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
        image[446 + 12..446 + 16].copy_from_slice(&100u32.to_le_bytes());
        image[462 + 4] = 5;
        image[462 + 8] = 9;
        image[462 + 12] = 9;
        let only = Partition { number: 1, start: 1 << 20, bytes: 51_200 };
        assert_eq!(read(&image), Some(vec![only]));
        image[478] = 0x33; // code of a boot sector
        assert_eq!(read(&image), None);
        assert_eq!(read(&image[..100]), None);
    }
}
