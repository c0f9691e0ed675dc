//! Volumes in a container of external metadata (IMSM, DDF). mdadm and mdmon maintain the metadata,
//! and volumes share disks: each volume has a range of every disk that it uses.

use super::blocks::{Block, Blocks};
use super::sys::{attribute, names, number};
use super::types::{Array, Dev, Member};
use crate::address::{DiskSector, MemberSector};

/// The container in md/metadata_version: `md127` of `external:/md127/0`, or of `external:-md127/0`
/// while the volume is read-only.
pub fn container_of(metadata: &str) -> Option<&str> {
    let volume = metadata.strip_prefix("external:")?.strip_prefix(['/', '-'])?;
    Some(volume.split_once('/')?.0)
}

/// Restricts the members of a volume to their ranges, and sets their metadata areas. Returns false
/// if no disk has a known metadata area.
///
/// A range begins with the volume's data and ends where the next volume's data begin: what a volume
/// keeps on the disk besides data (a partial parity log, a write-intent bitmap) follows its data.
/// The first range also has what is before it, and the last one the container's metadata, which end
/// with the disk in both formats (mdadm, super-intel.c and super-ddf.c).
pub(super) fn restrict(array: &mut Array, blocks: &Blocks) -> bool {
    let Some(container) = array.metadata.as_deref().and_then(container_of) else {
        return false;
    };
    let metadata = blocks.named(container).map_or_else(Vec::new, |c| offsets(c, blocks));
    let mut volumes = blocks.arrays();
    volumes.retain(|b| {
        let metadata = attribute(b.dir.join("md/metadata_version"));
        b.dev != array.dev && metadata.as_deref().and_then(container_of) == Some(container)
    });
    let others: Vec<_> = volumes.into_iter().flat_map(|b| offsets(b, blocks)).collect();
    let mut known = false;
    for member in &mut array.members {
        let on_disk = |all: &[(Dev, u64)]| -> Vec<u64> {
            all.iter().filter(|(dev, _)| *dev == member.dev).map(|(_, offset)| *offset).collect()
        };
        let (others, data) = (on_disk(&others), member.data_offset.0);
        let begin = if others.iter().any(|o| *o < data) { data } else { 0 };
        let next = others.iter().copied().filter(|o| *o > data).min();
        if let Some(&start) = on_disk(&metadata).first() {
            known = true;
            if next.is_none() && start < member.sectors {
                let start = start.max(begin);
                member.sb_offset = Some(MemberSector(start));
                member.sb_sectors = member.sectors - start;
            }
        }
        member.other_volumes = others.len();
        cut(member, begin, next.unwrap_or(member.sectors));
    }
    known
}

/// md/dev-*/offset of each member: its first data sector; of a container, the first sector of its
/// metadata.
fn offsets(md: &Block, blocks: &Blocks) -> Vec<(Dev, u64)> {
    let dir = md.dir.join("md");
    let one = |entry: &String| {
        let member = dir.join(entry);
        let block = blocks.member(&member, entry.strip_prefix("dev-")?)?;
        Some((block.dev, number(member.join("offset"))?))
    };
    names(&dir).iter().filter_map(one).collect()
}

/// Makes sectors `begin..end` of the member's device the member.
fn cut(member: &mut Member, begin: u64, end: u64) {
    let move_to = |at: &mut MemberSector| at.0 = at.0.saturating_sub(begin);
    member.start = DiskSector(member.start.0.saturating_add(begin));
    member.sectors = end.min(member.sectors).saturating_sub(begin);
    move_to(&mut member.data_offset);
    move_to(&mut member.new_data_offset);
    for (at, _) in member.ppl.iter_mut().chain(&mut member.bitmap) {
        move_to(at);
    }
    member.sb_offset.iter_mut().for_each(move_to);
}
