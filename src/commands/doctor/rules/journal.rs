//! A journal that is too small: tasks waited for checkpoints that a larger journal would avoid.

use std::time::Duration;

use super::plural;
use crate::analysis::snapshot::JournalStalls;
use crate::analysis::units;
use crate::commands::doctor::facts::FsFacts;
use crate::commands::doctor::finding::Finding;
use crate::fs::ext4::{Ext4Superblock, Journal};
use crate::mke2fs::default_journal_blocks;

/// Minimum number of checkpoints.
const MIN_CHECKPOINTS: u64 = 3;
/// Minimum share of the time in which tasks waited.
const MIN_SHARE: f64 = 0.02;
/// Largest journal that mke2fs creates by default, bytes. If tasks wait even with this size, the
/// load exceeds the disks.
const MAX_DEFAULT_JOURNAL: u64 = 1 << 30;
/// Seconds of journal writes to make room for. Writeback cleans dirty blocks after 30 s
/// (vm.dirty_expire_centisecs), and they leave the log with the next commits.
const ROOM_S: f64 = 45.0;

/// Evaluates the waits (`stalls`) during `over` for room in the journal of `fs`. `rate`: bytes per
/// second written to the journal, if known.
pub fn small(
    fs: &FsFacts,
    stalls: &JournalStalls,
    over: Duration,
    rate: Option<f64>,
) -> Option<Finding> {
    let seconds = over.as_secs_f64();
    let share = (stalls.wait.as_secs_f64() / seconds).min(1.0);
    if seconds <= 0.0 || stalls.checkpoints < MIN_CHECKPOINTS || share < MIN_SHARE {
        return None;
    }
    let sb = fs.superblock.as_ref()?;
    let bytes = match fs.journal? {
        Journal::Internal { blocks } => Some(blocks.saturating_mul(sb.block_size.into())),
        Journal::External { .. } => None,
        Journal::None | Journal::Unknown => return None,
    };
    let advised = match bytes {
        // Nothing is written to the journal while tasks wait.
        Some(bytes) => Some(advised_bytes(
            sb,
            fs.space.map(|s| s.free),
            bytes,
            rate.map(|r| r / (1.1 - share)),
        )?),
        None => None,
    };
    let per_second = stalls.checkpoints as f64 / seconds;
    let mean_us = stalls.wait.as_micros() as u64 / stalls.checkpoints;
    let size = bytes.map_or_else(String::new, |b| format!(" of {}", units::size(b)));
    let title = format!(
        "tasks waited for room in the journal{size} for {} of the time",
        units::percent(share)
    );
    let finding = Finding::warning("journal-small", title)
        .seen(format!(
            "tasks waited for {} in {}, {} per second, {} each",
            plural(stalls.checkpoints as usize, "checkpoint"),
            units::seconds(Duration::from_secs(seconds.round() as u64)),
            units::count(per_second),
            units::latency(Some(mean_us))
        ))
        .seen_all(evidence(fs, sb, rate))
        .figure("checkpoints", stalls.checkpoints)
        .figure("stalls_per_s", per_second)
        .figure("share_waited", share)
        .figure("journal_bytes", bytes)
        .figure("advised_bytes", advised);
    let Some(advised) = advised else {
        return Some(finding);
    };
    let mount = fs.mount_point();
    Some(
        finding
            .command(format!("umount {mount}"))
            .command("tune2fs -O ^has_journal DEVICE")
            .command(format!("tune2fs -J size={} DEVICE", advised >> 20))
            .command(match fs.fstab {
                Some(_) => format!("mount {mount}"),
                None => format!("mount DEVICE {mount}"),
            })
            .risk(format!(
                "DEVICE is the device of the filesystem, {}, once it is unmounted everywhere. A \
                 crash between the two tune2fs commands requires a full e2fsck, as there is no \
                 journal. A larger journal takes longer to replay after a crash, and more disk \
                 space; undone in the same way with the old size",
                fs.path()
            )),
    )
}

fn evidence(fs: &FsFacts, sb: &Ext4Superblock, rate: Option<f64>) -> impl Iterator<Item = String> {
    let bytes = |blocks: u64| units::size(blocks.saturating_mul(sb.block_size.into()));
    let default = default_journal_blocks(sb.blocks_count).map(|blocks| {
        format!(
            "mke2fs creates a journal of {} for a filesystem of {}",
            bytes(blocks),
            bytes(sb.blocks_count)
        )
    });
    let rate = rate
        .filter(|r| *r > 0.0)
        .map(|r| format!("{} per second were written to the journal", units::bytes(r)));
    let jbd2 = fs.jbd2.map(|jbd2| {
        format!(
            "before that, since the mount (/proc/fs/jbd2): {}, each up to {} blocks, {} logged on \
             average; {} ms from the request of a commit to its start",
            plural(usize::try_from(jbd2.transactions).unwrap_or(usize::MAX), "transaction"),
            jbd2.largest,
            jbd2.logged,
            jbd2.request_delay_ms
        )
    });
    [default, rate, jbd2].into_iter().flatten()
}

/// Advised size in bytes, in whole MiB, for a journal of `bytes` (`free`: free bytes, if known);
/// `None` if a larger one would not help.
fn advised_bytes(
    sb: &Ext4Superblock,
    free: Option<u64>,
    bytes: u64,
    rate: Option<f64>,
) -> Option<u64> {
    let block = u64::from(sb.block_size);
    let default = default_journal_blocks(sb.blocks_count).unwrap_or(0);
    let room = rate.map_or(0, |r| (r * ROOM_S).min(MAX_DEFAULT_JOURNAL as f64) as u64);
    let wanted = default
        .saturating_mul(block)
        .max(bytes.saturating_mul(4))
        .max(room)
        .checked_next_power_of_two()?;
    // tune2fs accepts at most half of the free blocks (figure_journal_size()), in whole MiB, and
    // only after the old journal is gone.
    let size = sb.blocks_count.saturating_mul(block);
    let most = free.map_or(size / 4, |free| (size / 4).min(free / 2));
    let log = wanted.min(most).min(MAX_DEFAULT_JOURNAL).checked_ilog2()?;
    let advised = Some(1 << log).filter(|_| log >= 20)?;
    (advised >= bytes.saturating_mul(2)).then_some(advised)
}
