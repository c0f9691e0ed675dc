//! Errors that ext4 has recorded, and its behaviour on the next error.

use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::Finding;
use crate::fs::ext4::OnError;

/// `EXT4_ERROR_FS`.
const ERROR_FS: u16 = 2;

/// Recorded errors, and `errors=continue`.
pub fn check(_: &Kernel, _: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let sb = fs.superblock.as_ref();
    let count = fs.errors.max(sb.map_or(0, |sb| sb.error_count.into()));
    let marked = sb.is_some_and(|sb| sb.state & ERROR_FS != 0);
    let option = fs.options.get("errors");
    let continues = match option {
        Some(value) => value == "continue",
        None => fs.options.is_empty() && sb.is_some_and(|sb| sb.errors == OnError::Continue),
    };
    let mut found = Vec::new();
    if count > 0 || marked {
        let title = match count {
            0 => "the superblock has ext4's error flag".to_owned(),
            _ => format!("ext4 has recorded {count} errors since the last e2fsck"),
        };
        let flag = if marked { ", and s_state has the error flag" } else { "" };
        let last = Some(&fs.last_error).filter(|e| !e.is_empty());
        found.push(
            Finding::critical("fs-errors", title)
                .seen(format!("errors_count is {count}{flag}"))
                .seen_all(last.map(|at| format!("the last error was in {at}")))
                .seen_all(continues.then_some("errors=continue: ext4 keeps writing"))
                .figure("errors", count)
                .command(format!("umount {}", fs.mount_point()))
                .command(format!("e2fsck -fn {}", fs.path())),
        );
    }
    if continues {
        found.push(
            Finding::info(
                "fs-errors-continue",
                "errors=continue: after an error ext4 keeps writing",
            )
            .seen(match option {
                Some(_) => fs.option_seen("errors=continue"),
                None => "s_errors in the superblock is 1".to_owned(),
            })
            .commands(fs.change("-e remount-ro", "errors=remount-ro")),
        );
    }
    found
}
