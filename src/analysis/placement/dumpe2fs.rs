//! The text of dumpe2fs, which is what people send in mails: of any version since block groups had a line each, with
//! numbers decimal or (`-x`) hexadecimal. Text cut anywhere is refused with what is missing.

use std::io::{self, BufRead};

use super::filesystem::{Filesystem, Groups};
use super::header::Shape;
use crate::fs::ext4::{Collector, Superblock};
use crate::mke2fs;
use crate::origin::Origin;

/// Bytes of a line that are looked at: lists of free blocks are longer, and not of interest.
const LINE: usize = 1024;
/// As `ext4::check` has it: no block bitmap is larger than a block of 64 KiB.
const MOST_BLOCKS_PER_GROUP: u64 = (64 << 10) * 8 * (1 << 14);

/// Whether a file that begins so is such a text.
pub fn is_text(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    text.starts_with("dumpe2fs ") || text.contains("Filesystem volume name:")
}

/// The header's lines that are of use.
#[derive(Default)]
struct Header {
    features: Option<String>,
    block_size: Option<u64>,
    blocks: Option<u64>,
    first_block: Option<u64>,
    per_group: Option<u64>,
    per_flex: Option<u64>,
    table_blocks: Option<u64>,
    inodes: Option<u64>,
    stride: Option<u64>,
    stripe_width: Option<u64>,
    journal: bool,
    /// Those that only the groups' places follow from.
    shape: Shape,
}

impl Header {
    /// Without the groups (`dumpe2fs -h`, `tune2fs -l`): where mke2fs puts what such a header speaks of.
    fn alone(self) -> Result<Filesystem, String> {
        let known = |name: &str, value: Option<u64>| {
            let value = value.ok_or_else(|| {
                format!("there are no groups, and for a header alone no line '{name}:'")
            })?;
            u32::try_from(value).map_err(|_| format!("'{name}' is {value}, which cannot be"))
        };
        let base = Superblock {
            block_size: known("Block size", self.block_size)?,
            blocks_count: self.blocks.unwrap_or(0),
            first_data_block: known("First block", self.first_block)?,
            blocks_per_group: known("Blocks per group", self.per_group)?,
            inodes_count: known("Inode count", self.inodes)?,
            log_groups_per_flex: self.per_flex.unwrap_or(1).max(1).ilog2() as u8,
            raid_stride: self.stride.unwrap_or(0) as u16,
            raid_stripe_width: self.stripe_width.unwrap_or(0) as u32,
            ..Superblock::default()
        };
        let sb = self
            .shape
            .superblock(base, self.features.as_deref().unwrap_or(""))?;
        let mut fs = Filesystem::of(mke2fs::from_superblock(sb)?);
        fs.notes.push(
            "there are no groups in it (dumpe2fs -h?): shown is where mke2fs puts them, which may be wrong for the first \
             ones of a filesystem that was resized, and for packed_meta_blocks; the journal is not in here"
                .to_owned(),
        );
        Ok(fs)
    }

    fn read(&mut self, line: &str) -> Result<(), String> {
        let Some((name, value)) = line.split_once(':') else {
            return Ok(());
        };
        let value = value.trim();
        let into = match name {
            "Filesystem features" => {
                self.features = Some(value.to_owned());
                return Ok(());
            }
            "Journal inode" => {
                self.journal = true;
                return Ok(());
            }
            "Block size" => &mut self.block_size,
            "Block count" => &mut self.blocks,
            "First block" => &mut self.first_block,
            "Blocks per group" => &mut self.per_group,
            "Flex block group size" => &mut self.per_flex,
            "Inode blocks per group" => &mut self.table_blocks,
            "Inode count" => &mut self.inodes,
            "RAID stride" => &mut self.stride,
            "RAID stripe width" => &mut self.stripe_width,
            _ => return self.shape.read(name, value),
        };
        let known = number(value).ok_or_else(|| format!("'{name}' is '{value}', not a number"))?;
        *into = Some(known);
        Ok(())
    }
}

pub(super) fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// What follows `Group ` in `Group 0: (Blocks 0-32767)`; `Group descriptor size:` is a line of the header.
fn group_line(line: &str) -> Option<&str> {
    line.strip_prefix("Group ")
        .filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// `1-151`, `1179`, `0x1-0x97` at the start of `text`: first, count.
fn span(text: &str) -> Option<(u64, u64)> {
    let end = text
        .find(|c: char| !c.is_ascii_hexdigit() && c != '-' && c != 'x')
        .unwrap_or(text.len());
    let (first, last) = text[..end]
        .split_once('-')
        .unwrap_or((&text[..end], &text[..end]));
    let (first, last) = (number(first)?, number(last)?);
    Some((first, last.checked_sub(first)?.checked_add(1)?))
}

/// The places on a line of a group, in whatever case the version wrote.
const PLACES: [(&str, Origin); 8] = [
    ("primary superblock at ", Origin::Superblock),
    ("backup superblock at ", Origin::Superblock),
    ("group descriptors at ", Origin::GroupDescriptors),
    ("group descriptor at ", Origin::GroupDescriptors),
    ("reserved gdt blocks at ", Origin::GroupDescriptors),
    ("block bitmap at ", Origin::BlockBitmap),
    ("inode bitmap at ", Origin::InodeBitmap),
    ("inode table at ", Origin::InodeTable),
];

/// Groups as they are listed.
#[derive(Default)]
struct Listed {
    groups: u64,
    /// Groups with block bitmap, inode bitmap and inode table.
    found: [u64; 3],
    places: Collector,
    /// The last block that anything lies in.
    last: u64,
}

impl Listed {
    fn read(&mut self, line: &str) -> Result<(), String> {
        if let Some(rest) = group_line(line) {
            let nr = rest.split([':', ' ']).next().and_then(number);
            if nr != Some(self.groups) {
                return Err(format!(
                    "the line '{}' comes where group {} should: text is missing",
                    line.trim_end(),
                    self.groups
                ));
            }
            self.groups += 1;
            return Ok(());
        }
        let lower = line.to_ascii_lowercase();
        for (what, origin) in PLACES {
            let Some((before, rest)) = lower.split_once(what) else {
                continue;
            };
            if self.groups == 0 || !before.starts_with(' ') {
                continue;
            }
            let (first, count) = span(rest).ok_or_else(|| {
                format!(
                    "group {}: '{}' has no block number",
                    self.groups - 1,
                    line.trim()
                )
            })?;
            self.last = self.last.max(first.saturating_add(count - 1));
            self.places.push(first, count.min(1 << 32), origin);
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

/// Reads all of `text`.
///
/// # Errors
/// Names the line or the field that is wrong or not there.
pub fn read(mut text: impl BufRead) -> Result<Filesystem, String> {
    let (mut header, mut listed) = (Header::default(), Listed::default());
    let mut line = Vec::with_capacity(LINE);
    while next_line(&mut text, &mut line).map_err(|e| format!("it cannot be read: {e}"))? {
        let line = String::from_utf8_lossy(&line);
        // Mail quotes.
        let line = line.trim_start_matches("> ").trim_end_matches('\r');
        if listed.groups == 0 && group_line(line).is_none() {
            header.read(line)?;
        } else {
            listed.read(line)?;
        }
    }
    finish(header, listed)
}

fn finish(header: Header, listed: Listed) -> Result<Filesystem, String> {
    let field = |name: &str, value: Option<u64>, low: u64, high: u64| {
        let value = value.ok_or_else(|| {
            format!(
                "there is no line '{name}:': it has to be the output of: LC_ALL=C dumpe2fs DEVICE"
            )
        })?;
        if (low..=high).contains(&value) {
            Ok(value)
        } else {
            Err(format!(
                "'{name}' is {value}, which cannot be ({low} to {high})"
            ))
        }
    };
    let block_size = field("Block size", header.block_size, 1024, 65536)?;
    if !block_size.is_power_of_two() {
        return Err(format!("'Block size' is {block_size}, no power of two"));
    }
    let blocks = field("Block count", header.blocks, 1, 1 << 53)?;
    let first_block = field("First block", header.first_block, 0, 1)?;
    let per_group = field(
        "Blocks per group",
        header.per_group,
        8,
        MOST_BLOCKS_PER_GROUP,
    )?;
    let table_blocks = field("Inode blocks per group", header.table_blocks, 1, 1 << 20)?;
    let per_flex = field(
        "Flex block group size",
        header.per_flex.or(Some(1)),
        1,
        1 << 31,
    )?;
    let groups = blocks.saturating_sub(first_block).div_ceil(per_group);
    if listed.groups == 0 {
        return header.alone();
    }
    if listed.groups != groups {
        return Err(format!(
            "it lists {} groups, but 'Block count' and 'Blocks per group' make {groups}: text is missing",
            listed.groups
        ));
    }
    for (found, what) in listed
        .found
        .iter()
        .zip(["block bitmap", "inode bitmap", "inode table"])
    {
        if *found != groups {
            return Err(format!(
                "{found} of {groups} groups have a line '{what} at': text is missing"
            ));
        }
    }
    if listed.last >= blocks {
        return Err(format!(
            "something lies in block {}, but 'Block count' is {blocks}",
            listed.last
        ));
    }
    let features = header.features.unwrap_or_default();
    let has = |name: &str| features.split_whitespace().any(|f| f == name);
    let mut notes = Vec::new();
    if header.journal || has("has_journal") {
        notes.push("dumpe2fs does not say where the journal lies: it is not in here".to_owned());
    }
    let (ranges, overlap) = listed.places.finish();
    notes.extend(overlap.map(|o| o.note()));
    Ok(Filesystem {
        kind: match (
            has("extent") || has("extents") || has("flex_bg"),
            has("has_journal"),
        ) {
            (true, _) => "ext4",
            (false, true) => "ext3",
            (false, false) => "ext2",
        }
        .to_owned(),
        block_size: block_size as u32,
        blocks,
        groups: Some(Groups {
            count: u32::try_from(groups).map_err(|_| format!("{groups} groups are too many"))?,
            first_block: first_block as u32,
            blocks: u32::try_from(per_group)
                .map_err(|_| "'Blocks per group' is too large".to_owned())?,
            per_flex: per_flex as u32,
            table_blocks: table_blocks as u32,
        }),
        ranges,
        inodes: header.inodes.unwrap_or(0),
        grows_to: 0,
        stride: header.stride.unwrap_or(0) as u32,
        stripe_width: header.stripe_width.unwrap_or(0) as u32,
        notes,
    })
}

/// The next line's first [`LINE`] bytes, without its end; false at the end of the text.
fn next_line(text: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut any = false;
    loop {
        let piece = text.fill_buf()?;
        if piece.is_empty() {
            return Ok(any);
        }
        any = true;
        let end = piece.iter().position(|&b| b == b'\n');
        let take = end.unwrap_or(piece.len());
        let room = LINE.saturating_sub(line.len()).min(take);
        line.extend_from_slice(&piece[..room]);
        text.consume(take + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests;
