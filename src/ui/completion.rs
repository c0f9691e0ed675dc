//! Completion of targets in the shell: arrays, members and mount points.

use std::ffi::OsStr;

use clap_complete::engine::{
    ArgValueCandidates, ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter as _,
};

use crate::machine::{Array, DeviceRole, Sys, resolve_all};

/// Completes a target.
pub fn targets() -> ArgValueCandidates {
    ArgValueCandidates::new(all)
}

/// Completes a target, or the path of an image.
pub fn targets_or_files() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let begins = |c: &CompletionCandidate| {
            c.get_value().as_encoded_bytes().starts_with(typed.as_encoded_bytes())
        };
        let mut found: Vec<_> = all().into_iter().filter(begins).collect();
        found.extend(PathCompleter::any().complete(typed));
        found
    })
}

fn all() -> Vec<CompletionCandidate> {
    let arrays = resolve_all(&Sys::live()).map(|host| host.arrays);
    arrays.unwrap_or_default().iter().flat_map(candidates).collect()
}

/// Candidates for an array: its name, its members, and the mount points of its filesystems.
fn candidates(array: &Array) -> Vec<CompletionCandidate> {
    let candidate =
        |name: &str, what: String| CompletionCandidate::new(name).help(Some(what.into()));
    let mut found = Vec::new();
    let main = array.filesystems.iter().filter(|fs| fs.role == DeviceRole::Main);
    for fs in main {
        for mount in &fs.mounts {
            let what = format!("{} on {}", mount.fstype, array.name);
            let path = CompletionCandidate::new(mount.path.as_os_str());
            found.push(path.help(Some(what.into())));
        }
    }
    if !array.is_md() {
        found.push(candidate(&array.name, "a disk".to_owned()));
        return found;
    }
    let what = format!("{}, {} disks", array.level, array.raid_disks);
    found.push(candidate(&array.name, what));
    for member in &array.members {
        found.push(candidate(&member.name, format!("a member of {}", array.name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::candidates;
    use crate::machine::{Array, Filesystem, Member, Mount};

    #[test]
    fn an_array_its_members_and_mounts_are_offered() {
        let array = Array {
            name: "md7".to_owned(),
            level: "raid5".to_owned(),
            raid_disks: 3,
            members: vec![Member { name: "sda1".to_owned(), ..Member::default() }],
            filesystems: vec![Filesystem {
                mounts: vec![Mount {
                    path: "/srv/a b".into(),
                    fstype: "ext4".to_owned(),
                    ..Mount::default()
                }],
                ..Filesystem::default()
            }],
            ..Array::default()
        };
        let found = candidates(&array);
        let names: Vec<_> = found.iter().map(|c| c.get_value().to_string_lossy()).collect();
        assert_eq!(names, ["/srv/a b", "md7", "sda1"]);
        let help = found[1].get_help().map(ToString::to_string);
        assert_eq!(help.as_deref(), Some("raid5, 3 disks"));
    }
}
