//! Parses the text output of dumpe2fs, also if quoted in a mail. Supports all versions that print a
//! line per block group, with decimal or (`-x`) hexadecimal numbers. Truncated text gives an error
//! that names the missing part.

use std::io::{self, BufRead, Read as _};

use super::filesystem::{self, FsMetadata};
use super::header::{Dumpe2fsHeader, number};
use crate::address::FsBlock;
use crate::fs::SectorRange;
use crate::fs::ext4::{Collector, Range};
use crate::mke2fs;
use crate::origin::Origin;

/// Maximum number of bytes that are read from a line. Only lists of free blocks are longer, and
/// they are not used.
const MAX_LINE: usize = 1024;
/// Maximum blocks per group, as in `ext4::check`: a block bitmap has at most one block of 64 KiB.
const MAX_BLOCKS_PER_GROUP: u64 = (64 << 10) * 8 * (1 << 14);

/// True if a file that starts with `head` is output of dumpe2fs.
pub fn is_text(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.starts_with("dumpe2fs ") || text.contains("Filesystem volume name:")
}

/// `0: (Blocks 0-32767)` of the line `Group 0: (Blocks 0-32767)`. `Group descriptor size:` is a
/// line of the header.
fn group_line(line: &str) -> Option<&str> {
    line.strip_prefix("Group ").filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// True for the line of group 0 in another language: `Gruppe 0: (Blöcke 0-32767)`. The header is
/// not translated.
fn is_translated(line: &str) -> bool {
    let head = line.split_once('(').map_or("", |(head, _)| head.trim_end_matches([' ', ':']));
    let words = head.rsplit_once(' ').filter(|(_, number)| *number == "0");
    words.is_some_and(|(word, _)| !word.is_empty() && !word.contains(':') && word != "Group")
}

/// First block and count of `1-151`, `1179` or `0x1-0x97` at the start of `text`.
fn span(text: &str) -> Option<(u64, u64)> {
    let end =
        text.find(|c: char| !c.is_ascii_hexdigit() && c != '-' && c != 'x').unwrap_or(text.len());
    let (first, last) = text[..end].split_once('-').unwrap_or((&text[..end], &text[..end]));
    let (first, last) = (number(first)?, number(last)?);
    Some((first, last.checked_sub(first)?.checked_add(1)?))
}

/// Items on a line of a group, in lower case because the case depends on the version.
const ITEMS: [(&str, Origin); 8] = [
    ("primary superblock at ", Origin::Superblock),
    ("backup superblock at ", Origin::Superblock),
    ("group descriptors at ", Origin::GroupDescriptors),
    ("group descriptor at ", Origin::GroupDescriptors),
    ("reserved gdt blocks at ", Origin::GroupDescriptors),
    ("block bitmap at ", Origin::BlockBitmap),
    ("inode bitmap at ", Origin::InodeBitmap),
    ("inode table at ", Origin::InodeTable),
];

/// The list of groups.
#[derive(Default)]
struct ListedGroups {
    count: u64,
    /// Number of groups with a block bitmap, with an inode bitmap and with an inode table.
    found: [u64; 3],
    ranges: Collector,
    /// Highest block of all ranges.
    last: u64,
    /// True if the groups are in another language.
    is_translated: bool,
}

impl ListedGroups {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = group_line(line) {
            let nr = rest.split([':', ' ']).next().and_then(number);
            if nr != Some(self.count) {
                return Err(format!(
                    "found '{}' where group {} was expected: text is missing",
                    line.trim_end(),
                    self.count
                ));
            }
            self.count += 1;
            return Ok(());
        }
        let lower = line.to_ascii_lowercase();
        for (item, origin) in ITEMS {
            let Some((before, rest)) = lower.split_once(item) else {
                continue;
            };
            // At the start of the line or after another item.
            if self.count == 0 || !matches!(before.trim_end().as_bytes().last(), None | Some(b','))
            {
                continue;
            }
            let (first, count) = span(rest).ok_or_else(|| {
                format!("group {}: '{}' has no block number", self.count - 1, line.trim())
            })?;
            self.last = self.last.max(first.saturating_add(count - 1));
            self.ranges.push(FsBlock(first), count.min(1 << 32), origin);
            match origin {
                Origin::BlockBitmap => self.found[0] += 1,
                Origin::InodeBitmap => self.found[1] += 1,
                Origin::InodeTable => self.found[2] += 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads the text.
///
/// # Errors
/// Names the line or the field that is invalid or missing.
pub fn read(mut text: impl BufRead) -> Result<FsMetadata, String> {
    let (mut header, mut groups) = (Dumpe2fsHeader::default(), ListedGroups::default());
    let mut line = Vec::with_capacity(MAX_LINE);
    while next_line(&mut text, &mut line).map_err(|e| format!("cannot be read: {e}"))? {
        let line = String::from_utf8_lossy(&line);
        // Mails and forums quote lines, and lose or change the space before them.
        let line = line.trim_start_matches([' ', '\t', '>', '|']).trim_end_matches('\r');
        if groups.count == 0 && group_line(line).is_none() {
            groups.is_translated |= is_translated(line);
            header.read(line);
        } else {
            groups.read(line)?;
        }
    }
    finish(&header, groups)
}

fn finish(header: &Dumpe2fsHeader, listed: ListedGroups) -> Result<FsMetadata, String> {
    let u32_max = u64::from(u32::MAX);
    let block_size = header.required("Block size", 1024..=65536)?;
    if !block_size.is_power_of_two() {
        return Err(format!("'Block size' is {block_size}, not a power of two"));
    }
    let blocks = header.required("Block count", 1..=1 << 53)?;
    let first_block = header.required("First block", 0..=1)?;
    let per_group = header.required("Blocks per group", 8..=MAX_BLOCKS_PER_GROUP.min(u32_max))?;
    let table_blocks = header.required("Inode blocks per group", 1..=1 << 20)?;
    let per_flex = header.number("Flex block group size", 1..=1 << 31)?.unwrap_or(1);
    let optional = |name| header.number(name, 0..=u32_max).map(|n| n.unwrap_or(0));
    if listed.is_translated {
        return Err(
            "its groups are in another language: repeat with LC_ALL=C dumpe2fs DEVICE".to_owned()
        );
    }
    if listed.count == 0 {
        return without_groups(header);
    }
    let groups = blocks.saturating_sub(first_block).div_ceil(per_group);
    if listed.count != groups {
        return Err(format!(
            "it lists {} groups, but 'Block count' and 'Blocks per group' make {groups}: text is \
             missing",
            listed.count
        ));
    }
    for (found, item) in listed.found.iter().zip(["block bitmap", "inode bitmap", "inode table"]) {
        if *found != groups {
            return Err(format!(
                "{found} of {groups} groups have a line '{item} at': text is missing"
            ));
        }
    }
    if listed.last >= blocks {
        let last = listed.last;
        return Err(format!("block {last} is beyond the 'Block count' of {blocks}"));
    }
    let features: Vec<&str> = header.text("Filesystem features").split_whitespace().collect();
    let journal = features.contains(&"has_journal");
    let mut notes = Vec::new();
    if journal || !header.text("Journal inode").is_empty() {
        notes.push(
            "dumpe2fs does not print the location of the journal: it is not included".to_owned(),
        );
    }
    let (ranges, overlap) = listed.ranges.finish();
    let in_sectors = |ranges: Vec<Range>| {
        ranges.into_iter().map(|r| SectorRange::from_blocks(r, block_size as u32)).collect()
    };
    notes.extend(overlap.map(|o| o.note()));
    let kind = if ["extent", "extents", "flex_bg"].iter().any(|f| features.contains(f)) {
        "ext4"
    } else if journal {
        "ext3"
    } else {
        "ext2"
    };
    Ok(FsMetadata {
        kind: kind.to_owned(),
        block_size: block_size as u32,
        blocks,
        groups: Some(filesystem::Groups::Block(filesystem::BlockGroups {
            count: u32::try_from(groups).map_err(|_| format!("{groups} groups are too many"))?,
            first_block: first_block as u32,
            blocks: per_group as u32,
            per_flex: per_flex as u32,
            table_blocks: table_blocks as u32,
        })),
        ranges: in_sectors(ranges),
        inodes: optional("Inode count")?,
        grows_to: 0,
        stride: optional("RAID stride")? as u32,
        stripe_width: optional("RAID stripe width")? as u32,
        notes,
    })
}

/// Computes the layout of mke2fs for a header without groups (`dumpe2fs -h`, `tune2fs -l`).
fn without_groups(header: &Dumpe2fsHeader) -> Result<FsMetadata, String> {
    let layout = header
        .superblock()
        .and_then(mke2fs::from_superblock)
        .map_err(|e| format!("no groups, and the header alone is not enough: {e}"))?;
    let mut fs = FsMetadata::new(layout);
    fs.notes.push(
        "the text has no groups (dumpe2fs -h?), so the layout is that of mke2fs. It may be wrong \
         for the first groups of a filesystem that was resized, and with packed_meta_blocks; the \
         journal is not included"
            .to_owned(),
    );
    Ok(fs)
}

/// Reads the first [`MAX_LINE`] bytes of the next line, without its end. False at the end of the
/// text.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let read = text.by_ref().take(MAX_LINE as u64).read_until(b'\n', line)?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else {
        text.skip_until(b'\n')?;
    }
    Ok(read > 0)
}

#[cfg(test)]
mod tests;
