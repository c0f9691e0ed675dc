//! Where data begin: on the disk's physical blocks, on the array's chunks and stripes.

use crate::advice::kernel::Kernel;
use crate::analysis::units;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};

/// Members' data areas, and the filesystem on the array.
pub fn check(_: &Kernel, array: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let mut found: Vec<Finding> = blocks(array, fs).into_iter().collect();
    // What is wrong by less than a block is no matter of stripes.
    if found.is_empty() {
        found.extend(stripes(array, fs));
    }
    found
}

/// `/dev/md0p1` begins at sector 63 of md0, say.
fn blocks(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let start = fs.fs.segments.first()?.array_sector;
    let mut lines = Vec::new();
    let mut physical = 0;
    for (member, disk) in array.array.members.iter().zip(&array.disks) {
        if disk.physical_block <= 512
            || !disk.physical_block.is_power_of_two()
            || member.slot.is_none()
        {
            continue;
        }
        // In bytes on the disk: where the member, its data, and on them the filesystem begin.
        let at = member
            .start
            .saturating_add(member.data_offset)
            .saturating_mul(512);
        let of_member = at.wrapping_sub(disk.alignment_offset) % disk.physical_block;
        let of_fs = start.saturating_mul(512) % disk.physical_block;
        if of_member != 0 {
            lines.push(format!(
                "data on {} begin at byte {at} of {}, {of_member} into a block of {}",
                member.name, member.disk_name, disk.physical_block
            ));
        } else if of_fs != 0 {
            lines.push(format!(
                "{} begins at sector {start} of {}, {of_fs} bytes into a block of {} of {}",
                fs.fs.name, array.array.name, disk.physical_block, member.disk_name
            ));
        } else {
            continue;
        }
        physical = physical.max(disk.physical_block);
    }
    if lines.is_empty() {
        return None;
    }
    let n = lines.len();
    let finding = Finding::new(
        "misaligned-blocks",
        Severity::Warning,
        format!(
            "its blocks lie across two physical blocks each, on {n} of {} disks",
            array.array.members.len()
        ),
    )
    .figure("disks", n)
    .figure("physical_block_bytes", physical)
    .why("for each write of 4 KiB the disk reads two of its blocks, changes them and writes both")
    .risk("nothing mends it in place: back up, make partition and array anew from a multiple of 1 MiB (what fdisk, parted and mdadm choose today), restore")
    .unless("the disk's own report is wrong (alignment_offset, some USB bridges): measure first")
    .source("Linux, Documentation/ABI/stable/sysfs-block, physical_block_size and alignment_offset");
    Some(lines.into_iter().take(4).fold(finding, Finding::seen))
}

fn stripes(array: &ArrayFacts, fs: &FsFacts) -> Option<Finding> {
    let start = fs.fs.segments.first()?.array_sector;
    let disks = array.data_disks()?;
    let chunk = u64::from(array.array.chunk_sectors);
    let stripe = chunk.checked_mul(disks)?;
    if start == 0 || array.array.before_reshape.is_some() {
        return None;
    }
    let aligns = fs.stripe().is_some_and(|s| s > 1);
    let bytes = |sectors: u64| units::size(sectors.saturating_mul(512));
    let (into, of, what) = match (start % chunk, start % stripe) {
        (0, 0) => return None,
        // Chunks fit: only who aligns to stripes and pays for parts of them is concerned.
        (0, _) if !(array.has_parity() && aligns) => return None,
        (0, rest) => (rest, stripe, "stripe"),
        (rest, _) => (rest, chunk, "chunk"),
    };
    let severity = if array.has_parity() && aligns {
        Severity::Warning
    } else {
        Severity::Info
    };
    Some(
        Finding::new(
            "misaligned-stripes",
            severity,
            format!("the filesystem begins {} into a {what} of {}", bytes(into), bytes(of)),
        )
        .seen(format!(
            "{} begins at sector {start} of {}, chunks have {chunk} sectors, stripes {stripe}",
            fs.fs.name, array.array.name
        ))
        .seen(match fs.stripe() {
            Some(n) if n > 1 => format!("stripe={n} blocks is in force: ext4 aligns to its own begin"),
            _ => "no stripe is in force".to_owned(),
        })
        .figure("start_sector", start)
        .why(if what == "stripe" {
            "what ext4 writes as a full stripe is the end of one and the begin of another: md reads for both"
        } else {
            "blocks that ext4 keeps together lie on two members, and full stripes are never written"
        })
        .risk("nothing mends it in place: where the partition or volume is made anew, let it begin at a multiple of the stripe")
        .unless("files are small: then nothing is written by stripes anyway")
        .source("mke2fs(8), -E stride and offset; pvcreate(8), --dataalignment"),
    )
}
