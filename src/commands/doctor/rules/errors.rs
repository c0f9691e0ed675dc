//! Errors that ext4 has recorded, and what it does at the next one.

use crate::advice::kernel::Kernel;
use crate::commands::doctor::facts::{ArrayFacts, FsFacts};
use crate::commands::doctor::finding::{Finding, Severity};
use crate::fs::ext4::OnError;

/// `EXT4_ERROR_FS`.
const ERROR_FS: u16 = 2;

/// Both.
pub fn check(_: &Kernel, _: &ArrayFacts, fs: &FsFacts) -> Vec<Finding> {
    let mut found = Vec::new();
    let sb = fs.superblock.as_ref();
    let count = fs.errors.max(sb.map_or(0, |sb| sb.error_count.into()));
    let marked = sb.is_some_and(|sb| sb.state & ERROR_FS != 0);
    let continues = match fs.options.get("errors") {
        Some(does) => does == "continue",
        None => fs.options.is_empty() && sb.is_some_and(|sb| sb.errors == OnError::Continue),
    };
    let does = if continues { "goes on writing" } else { "" };
    if count > 0 || marked {
        let mut finding = Finding::new(
            "fs-errors",
            Severity::Critical,
            format!("{count} errors recorded by ext4 since the last e2fsck"),
        )
        .seen(if marked {
            format!("errors_count is {count}, and s_state says that errors were found")
        } else {
            format!("errors_count is {count}")
        })
        .figure("errors", count)
        .why("its metadata contradicted itself; what is written on top of that may be lost")
        .command(format!("umount {}", fs.mount_point()))
        .command(format!("e2fsck -fn {}", fs.path()))
        .risk(
            "the filesystem is away meanwhile; with -n e2fsck changes nothing and shows what it would mend. Without -n it mends, \
             which cannot be undone: copy what must not be lost first",
        )
        .unless("the array is degraded or its members give errors: mend that first, or e2fsck works on wrong blocks")
        .source("e2fsck(8); Linux, Documentation/ABI/testing/sysfs-fs-ext4");
        if !fs.last_error.is_empty() {
            finding = finding.seen(format!("the last one at {}", fs.last_error));
        }
        if continues {
            finding = finding.seen(format!("errors=continue: it {does}"));
        }
        found.push(finding);
    }
    if continues {
        let mut finding = Finding::new(
            "fs-errors-continue",
            Severity::Info,
            "errors=continue: after an error ext4 goes on writing",
        )
        .seen(match fs.options.get("errors") {
            Some(_) => format!("/proc/fs/ext4/{}/options: errors=continue", fs.fs.name),
            None => "s_errors in its superblock is 1".to_owned(),
        })
        .why("damage spreads instead of stopping at the first sign of it; it is what mke2fs sets where nobody says otherwise")
        .command(format!("tune2fs -e remount-ro {}", fs.path()))
        .risk("at the next error the filesystem becomes read-only, and what writes to it fails; undone with -e continue")
        .unless("staying writable is worth more than the data")
        .source("tune2fs(8), -e; ext4(5), errors=");
        if !fs.fs.mounts.is_empty() {
            finding = finding.command(format!(
                "mount -o remount,errors=remount-ro {}",
                fs.mount_point()
            ));
        }
        found.push(finding);
    }
    found
}
