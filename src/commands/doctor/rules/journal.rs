//! A journal without room: tasks that were measured to wait for a checkpoint, where a larger journal would have room.

use std::time::Duration;

use super::plural;
use crate::analysis::snapshot::JournalStalls;
use crate::analysis::units;
use crate::commands::doctor::facts::FsFacts;
use crate::commands::doctor::finding::{Finding, Severity};
use crate::fs::ext4::{Journal, Superblock};
use crate::mke2fs::default_journal_blocks;

/// Checkpoints below which nothing is proved.
const ENOUGH: u64 = 3;
/// Share of the time from which waits are felt.
const FELT: f64 = 0.02;
/// Bytes of the largest journal that mke2fs makes unasked. With as much, a load that stalls is more than the disks write in
/// the long run.
const LARGE: u64 = 1 << 30;
/// Seconds for which a journal should have room: blocks that are dirty for 30 s are written without anybody waiting
/// (vm.dirty_expire_centisecs), and leave the log with the next commits.
const ROOM: f64 = 45.0;

/// Judges the waits of `over` for room in the journal of `fs`. `filling`: bytes a second that were written to it, if known.
pub fn small(
    fs: &FsFacts,
    stalls: &JournalStalls,
    over: Duration,
    filling: Option<f64>,
) -> Option<Finding> {
    let seconds = over.as_secs_f64();
    let share = (stalls.wait.as_secs_f64() / seconds).min(1.0);
    if seconds <= 0.0 || stalls.checkpoints < ENOUGH || share < FELT {
        return None;
    }
    let sb = fs.superblock.as_ref()?;
    let bytes = match fs.journal? {
        Journal::Internal { blocks } => Some(blocks.saturating_mul(sb.block_size.into())),
        Journal::External { .. } => None,
        Journal::None | Journal::Unknown => return None,
    };
    let advised = match bytes {
        // While tasks wait, nothing is written to it.
        Some(bytes) => Some(advised(sb, bytes, filling.map(|f| f / (1.1 - share)))?),
        None => None,
    };
    let rate = stalls.checkpoints as f64 / seconds;
    let mean = stalls.wait.as_micros() as u64 / stalls.checkpoints;
    let finding = Finding::new(
        "journal-small",
        Severity::Warning,
        format!(
            "tasks waited for room in the journal{} for {} of the time",
            bytes.map_or_else(String::new, |b| format!(" of {}", units::size(b))),
            units::percent(share)
        ),
    )
    .seen(format!(
        "{} in {} that tasks waited for, {} a second; {} each",
        plural(stalls.checkpoints as usize, "checkpoint"),
        units::seconds(Duration::from_secs(seconds.round() as u64)),
        units::count(rate),
        units::latency(Some(mean))
    ))
    .figure("checkpoints", stalls.checkpoints)
    .figure("stalls_per_s", rate)
    .figure("share_waited", share)
    .figure("journal_bytes", bytes)
    .figure("advised_bytes", advised);
    let finding = evidence(finding, fs, sb, filling)
        .why("a task that creates, removes or extends a file starts a handle; while less of the log is free than the largest transaction takes, it first writes the blocks of the oldest transaction to their places (__jbd2_log_wait_for_space), and all others wait for it: files are made in bursts, with pauses")
        .unless("the journal is on a device of its own (make a larger one there), what was watched happens once (a restore, a large rm -r), or the disks are saturated all the time: then a larger journal only puts the waits off")
        .source("fs/jbd2/checkpoint.c, __jbd2_log_wait_for_space(); tune2fs(8), -J");
    Some(match advised {
        None => finding,
        Some(advised) => finding
            .command(format!("umount {}", fs.mount_point()))
            .command("tune2fs -O ^has_journal DEVICE")
            .command(format!("tune2fs -J size={} DEVICE", advised >> 20))
            .command(format!("mount DEVICE {}", fs.mount_point()))
            .risk(format!(
                "DEVICE is the filesystem's, {}, once nothing has it mounted. Without a journal, between the two, a crash takes a full e2fsck. \
                 A longer journal takes longer to replay after a crash, and as much more of the disk; undone the same way with the old size",
                fs.path()
            )),
    })
}

fn evidence(finding: Finding, fs: &FsFacts, sb: &Superblock, filling: Option<f64>) -> Finding {
    let mut finding = finding;
    if let Some(blocks) = default_journal_blocks(sb.blocks_count) {
        finding = finding.seen(format!(
            "mke2fs makes a journal of {} for a filesystem of {}",
            units::size(blocks.saturating_mul(sb.block_size.into())),
            units::size(sb.blocks_count.saturating_mul(sb.block_size.into()))
        ));
    }
    if let Some(rate) = filling.filter(|r| *r > 0.0) {
        finding = finding.seen(format!(
            "{} a second were written to it",
            units::bytes(rate)
        ));
    }
    if let Some(jbd2) = fs.jbd2 {
        finding = finding.seen(format!(
            "before that, since the mount (/proc/fs/jbd2): {}, each up to {} blocks, {} logged on average; {} ms from the request of a commit to its begin",
            plural(usize::try_from(jbd2.transactions).unwrap_or(usize::MAX), "transaction"),
            jbd2.largest,
            jbd2.logged,
            jbd2.request_delay_ms
        ));
    }
    finding
}

/// Bytes that a journal of `bytes` should have, whole MiB; `None` where more would not help.
fn advised(sb: &Superblock, bytes: u64, filling: Option<f64>) -> Option<u64> {
    let block = u64::from(sb.block_size);
    let default = default_journal_blocks(sb.blocks_count).unwrap_or(0);
    let room = filling.map_or(0, |rate| (rate * ROOM).min(LARGE as f64) as u64);
    let wanted = default
        .saturating_mul(block)
        .max(bytes.saturating_mul(4))
        .max(room)
        .checked_next_power_of_two()?;
    // tune2fs takes no more than half of the filesystem, and whole MiB.
    let most = sb.blocks_count.saturating_mul(block) / 4;
    let log = wanted.min(most).min(LARGE).checked_ilog2()?;
    let advised = Some(1 << log).filter(|_| log >= 20)?;
    (advised >= bytes.saturating_mul(2)).then_some(advised)
}
