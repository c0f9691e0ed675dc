//! Alignment of data to the physical blocks of disks, and to the chunks and stripes of the array.

use crate::advice::kernel::Kernel;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, FindingSeverity};

/// Alignment of the members' data areas and of the filesystem.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    // Data that is not aligned to blocks is not aligned to stripes either: report the cause only.
    blocks(array, fs).or_else(|| stripes(array, fs)).into_iter().collect()
}

/// Misalignment to physical blocks, as when `/dev/md0p1` starts at sector 63 of md0.
fn blocks(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let start = fs.fs.segments.first()?.array_sector.0;
    let mut lines = Vec::new();
    let mut largest = 0;
    for (member, disk) in array.members() {
        let block = disk.physical_block;
        if block <= 512 || !block.is_power_of_two() || member.slot.is_none() {
            continue;
        }
        // Offset in bytes of the member's data on its disk.
        let at = member.start.saturating_add(member.data_offset.0).byte();
        let of_member = at.wrapping_sub(disk.alignment_offset) % block;
        let of_fs = start.saturating_mul(512) % block;
        if of_member != 0 {
            lines.push(format!(
                "data of {} starts at byte {at} of {}, {of_member} bytes into a block of {block}",
                member.name, member.disk_name
            ));
        } else if of_fs != 0 {
            lines.push(format!(
                "{} starts at sector {start} of {}, {of_fs} bytes into a block of {block} of {}",
                fs.fs.name, array.array.name, member.disk_name
            ));
        } else {
            continue;
        }
        largest = largest.max(block);
    }
    let n = lines.len();
    let title = format!(
        "filesystem blocks straddle physical blocks on {n} of {} disks",
        array.array.members.len()
    );
    let finding = Finding::warning("misaligned-blocks", title)
        .seen_all(lines.into_iter().take(4))
        .figure("disks", n)
        .figure("physical_block_bytes", largest);
    (n > 0).then_some(finding)
}

fn stripes(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let start = fs.fs.segments.first()?.array_sector.0;
    let chunk = u64::from(array.array.chunk_sectors);
    let stripe = chunk.checked_mul(array.data_disks()?)?;
    if start == 0 || array.array.before_reshape.is_some() {
        return None;
    }
    let in_force = fs.stripe().filter(|s| *s > 1);
    let costs_reads = array.has_parity() && in_force.is_some();
    let bytes = |sectors: u64| units::size(sectors.saturating_mul(512));
    let (offset, of, unit) = match (start % chunk, start % stripe) {
        (0, 0) => return None,
        // Aligned to chunks: partial stripes matter only if ext4 aligns to stripes and they cost
        // reads.
        (0, _) if !costs_reads => return None,
        (0, rest) => (rest, stripe, "stripe"),
        (rest, _) => (rest, chunk, "chunk"),
    };
    let title = format!("the filesystem starts {} into a {unit} of {}", bytes(offset), bytes(of));
    Some(
        Finding::info("misaligned-stripes", title)
            .raise_if(costs_reads, FindingSeverity::Warning)
            .seen(format!(
                "{} starts at sector {start} of {}; a chunk has {chunk} sectors, a stripe {stripe}",
                fs.fs.name, array.array.name
            ))
            .seen(match in_force {
                Some(n) => format!(
                    "stripe={n} blocks is in force: ext4 aligns to the start of the filesystem"
                ),
                None => "no stripe is in force".to_owned(),
            })
            .figure("start_sector", start)
            .why(if unit == "stripe" {
                "a write that ext4 aligns to a stripe covers parts of two stripes: md reads first \
                 for both"
            } else {
                "blocks that the filesystem keeps together are on two members, and extents that it \
                 aligns to a stripe begin and end inside one"
            }),
    )
}
