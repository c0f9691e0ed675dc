//! A reshape that was interrupted and waits for mdadm.

use crate::commands::doctor::facts::ArrayFacts;
use crate::commands::doctor::finding::Finding;

/// True if md has a reshape to continue, and does not: after a crash, or without the mdadm that
/// manages it. An array that is not read-write shows sync_action `idle`.
fn is_interrupted(of: &ArrayFacts) -> bool {
    of.array.before_reshape.is_some() && of.array.sync_action.as_deref() != Some("reshape")
}

/// An interrupted reshape.
pub fn check(of: &ArrayFacts) -> Vec<Finding> {
    if !is_interrupted(of) {
        return Vec::new();
    }
    let (array, dev) = (&of.array, of.path());
    let action = array.sync_action.as_deref().unwrap_or("unknown");
    let title = "a reshape was interrupted and has to be continued by mdadm";
    vec![
        Finding::critical("array-reshape-interrupted", title)
            .seen(format!(
                "md/reshape_position is set, md/sync_action {action}, md/array_state {}",
                array.array_state
            ))
            .figure("action", action)
            .command(format!("mdadm --detail {dev}"))
            .risk(format!(
                "none: the command only reports. Continue with `mdadm --grow --continue {dev}`, \
                 and with --backup-file=FILE if the reshape was started with one. Do not run \
                 `mdadm --readwrite` and do not write to md/sync_action before: md would go on \
                 without the backup"
            )),
    ]
}

/// Removes commands that would continue an interrupted reshape without mdadm.
pub fn remove_commands(of: &ArrayFacts, found: &mut [Finding]) {
    let starts = |c: &String| c.contains("--readwrite") || c.contains("md/sync_action");
    let own = found.iter_mut().filter(|f| f.array.as_ref() == Some(&of.array.name));
    for f in own.filter(|f| is_interrupted(of) && f.commands.iter().any(starts)) {
        f.commands.clear();
        f.not_when = "now: see array-reshape-interrupted".to_owned();
    }
}
