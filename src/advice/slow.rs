//! Advice that shortens the waits found by `raidtrace slow`. Commands are printed, never run. The
//! texts are in `slow.toml`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::fill::fill;
use super::quote::quote;
use crate::printable::escape;

/// A change that would help.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Advice {
    /// The change, in words.
    pub text: String,
    /// Commands, in order; empty if the application has to change.
    pub commands: Vec<String>,
    /// Risk and how to undo it.
    pub risk: String,
    /// Case in which the change should not be made.
    pub not_when: String,
    /// Kernel source or document.
    pub source: Cow<'static, str>,
}

/// Settings of an array in /sys/block/ARRAY/md; `None` if a file is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MdSettings {
    /// safe_mode_delay in seconds.
    pub safe_mode_delay: Option<String>,
    /// stripe_cache_size in entries.
    pub stripe_cache_size: Option<String>,
    /// sync_speed_max as the kernel prints it: `200000 (system)`, `1500 (local)`, in KiB/s of a
    /// member.
    pub sync_speed_max: Option<String>,
    /// sync_speed_min in the same format.
    pub sync_speed_min: Option<String>,
    /// sync_speed: current speed in KiB/s of a member, or `none`.
    pub sync_speed: Option<String>,
}

/// Limits of dirty memory on the whole host.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirtyLimits {
    /// nr_dirty_threshold of /proc/vmstat in bytes: writers are throttled so that dirty memory
    /// stays below it.
    pub limit: Option<u64>,
    /// nr_dirty_background_threshold in bytes: writeback starts beyond it.
    pub background: Option<u64>,
    /// vm.dirty_bytes; 0 if vm.dirty_ratio applies.
    pub dirty_bytes: u64,
    /// vm.dirty_background_bytes; 0 if vm.dirty_background_ratio applies.
    pub dirty_background_bytes: u64,
}

/// The limit of a cgroup on the IO to one device (io.max).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoLimit {
    /// Path below the root of cgroup2: `/system.slice/db.service`. Untrusted.
    pub cgroup: String,
    /// Kernel name of the device.
    pub device: String,
    /// Number of the device: `9:127`.
    pub number: String,
    /// The limits that are set: `wbps=300000 wiops=6`.
    pub limits: String,
}

const MIB: u64 = 1 << 20;

/// An advice of `slow.toml`, with placeholders.
#[derive(Deserialize)]
struct Text {
    text: String,
    #[serde(default)]
    commands: Vec<String>,
    risk: String,
    #[serde(default)]
    not_when: String,
    #[serde(default)]
    source: String,
    /// Phrases for placeholders.
    #[serde(flatten)]
    phrases: BTreeMap<String, String>,
}

static TEXTS: LazyLock<BTreeMap<String, Text>> = LazyLock::new(|| {
    // A test parses the same file.
    toml::from_str(include_str!("slow.toml")).unwrap_or_default()
});

/// A phrase of an advice.
fn phrase(advice: &str, name: &str) -> &'static str {
    TEXTS.get(advice).and_then(|text| text.phrases.get(name)).map_or("", String::as_str)
}

/// The advice `name`, with values for its placeholders.
fn advice(name: &str, values: &[(&str, &str)]) -> Advice {
    let fill = |text: &String| fill(text, values);
    match TEXTS.get(name) {
        Some(text) => Advice {
            text: fill(&text.text),
            commands: text.commands.iter().map(fill).collect(),
            risk: fill(&text.risk),
            not_when: text.not_when.clone(),
            source: Cow::Borrowed(&text.source),
        },
        None => Advice::default(),
    }
}

/// md writes superblocks before the first write after `seconds` (md/safe_mode_delay) without a
/// write. `None` if the delay is long already, or unknown.
pub fn md_superblock(array: &str, seconds: Option<&str>) -> Option<Advice> {
    let now: f64 = seconds?.parse().ok()?;
    let values = [("array", array), ("now", &now.to_string())];
    (now < 5.0).then(|| advice("md_superblock", &values))
}

/// Ordered data of another file, on a mount with dioread_lock and without nodelalloc. `mount` is
/// quoted.
pub fn ordered_data_by_option(mount: &str) -> Advice {
    advice("ordered_data_by_option", &[("mount", mount)])
}

/// Ordered data of another file, on a mount with nodelalloc, as with ext3.
pub fn ordered_data_without_delay(mount: &str) -> Advice {
    advice("ordered_data_without_delay", &[("mount", mount)])
}

/// Ordered data of another file, on any other mount.
pub fn ordered_data(file: &str, dirty: &DirtyLimits) -> Advice {
    const BACKGROUND: u64 = 64 * MIB;
    let starts_earlier = dirty.background.is_none_or(|now| now > BACKGROUND);
    let risk = if starts_earlier { "risk_earlier" } else { "risk_same" };
    let risk = phrase("ordered_data", risk).replace("{old}", &dirty.old_background());
    let values = [("risk", &*risk), ("bytes", &BACKGROUND.to_string()), ("file", file)];
    let mut advice = advice("ordered_data", &values);
    advice.commands.truncate(starts_earlier.into());
    advice
}

/// Direct writes that take the inode's lock exclusively because they extend the file. `version` of
/// the kernel.
pub fn extending_writes(version: (u32, u32)) -> Advice {
    let ahead = if version >= (6, 3) { "ahead" } else { "ahead_before_6_3" };
    advice("extending_writes", &[("ahead", phrase("extending_writes", ahead))])
}

/// Direct writes to blocks that are not written yet, or to several extents. `version` of the
/// kernel.
pub fn first_writes(version: (u32, u32)) -> Advice {
    let writes = if version >= (6, 3) { "writes" } else { "writes_before_6_3" };
    advice("first_writes", &[("writes", phrase("first_writes", writes))])
}

/// Direct writes that are not aligned to blocks.
pub fn unaligned_writes(version: (u32, u32)) -> Advice {
    let place = if version >= (6, 5) { "where" } else { "where_before_6_5" };
    advice("unaligned_writes", &[("where", phrase("unaligned_writes", place))])
}

/// One member is much slower than the others. `disk` is quoted.
pub fn slow_member(disk: &str, name: &str) -> Advice {
    advice("slow_member", &[("name", name), ("disk", disk)])
}

/// A handle of a truncation held the transaction.
pub fn long_truncation() -> Advice {
    advice("long_truncation", &[])
}

/// The journal has no room.
pub fn log_space(mount: &str) -> Advice {
    advice("log_space", &[("mount", mount)])
}

/// The log of an XFS has no room. `mount` is quoted.
pub fn xfs_log_space(mount: &str) -> Advice {
    advice("xfs_log_space", &[("mount", mount)])
}

/// Direct writes to XFS that begin after the end of the file.
pub fn xfs_writes_after_end() -> Advice {
    advice("xfs_writes_after_end", &[])
}

/// Direct writes to XFS that are not aligned to blocks.
pub fn xfs_unaligned_writes() -> Advice {
    advice("xfs_unaligned_writes", &[])
}

pub fn xfs_buffered_writes() -> Advice {
    advice("xfs_buffered_writes", &[])
}

/// The stripe cache is full. `entries`: md/stripe_cache_size now. `None` if it is unknown, or has
/// the largest size (raid5_set_cache_size()).
pub fn stripe_cache(array: &str, entries: Option<&str>) -> Option<Advice> {
    const MAX_STRIPE_CACHE: u64 = 32768;
    let now: u64 = entries?.parse().ok()?;
    let larger = now.saturating_mul(2).clamp(4096, MAX_STRIPE_CACHE);
    let (now_text, larger_text) = (now.to_string(), larger.to_string());
    let values = [("array", array), ("now", &*now_text), ("larger", &*larger_text)];
    (larger > now).then(|| advice("stripe_cache", &values))
}

/// A resync, recovery, check or reshape holds requests back.
/// `None` if none runs any more.
pub fn resync(array: &str, md: &MdSettings) -> Option<Advice> {
    if md.sync_speed.as_deref() == Some("none") {
        return None;
    }
    const SLOW: u64 = 10_000;
    let number =
        |value: &Option<String>| -> Option<u64> { value.as_ref()?.split(' ').next()?.parse().ok() };
    let limit = number(&md.sync_speed_max);
    let speed = number(&md.sync_speed).filter(|n| *n > 0);
    let now = [limit, speed].into_iter().flatten().min();
    let slower = now.map_or(SLOW, |now| (now / 2).clamp(1, SLOW));
    if array.starts_with("dm-") {
        return Some(slower_volume(array));
    }
    let path = format!("/sys/block/{array}/md");
    let undo = |file: &str, value: &Option<String>| {
        let old = value.as_deref().unwrap_or_default().strip_suffix(" (local)");
        // In a recording it can be any text.
        let old = old.filter(|old| old.parse::<u64>().is_ok()).unwrap_or("system");
        format!("echo {old} > {path}/{file}")
    };
    let mut commands = vec![format!("echo {slower} > {path}/sync_speed_max")];
    let mut undone = undo("sync_speed_max", &md.sync_speed_max);
    // md_do_sync() does not pause below sync_speed_min.
    if number(&md.sync_speed_min).is_some_and(|min| min > slower) {
        commands.insert(0, format!("echo {slower} > {path}/sync_speed_min"));
        undone = format!("{undone}; {}", undo("sync_speed_min", &md.sync_speed_min));
    }
    let now = match (speed, limit) {
        (Some(speed), _) => format!(" (now {speed} KiB/s)"),
        (None, Some(limit)) => format!(" (limit {limit} KiB/s)"),
        (None, None) => String::new(),
    };
    let values = [("array", array), ("now", &*now), ("undone", &*undone)];
    Some(Advice { commands, ..advice("resync", &values) })
}

/// As [`resync`], for an array of LVM, which has no directory of md in sysfs. LVM knows the volume
/// by the name that device mapper has for it.
fn slower_volume(array: &str) -> Advice {
    let volume = format!("\"/dev/mapper/$(dmsetup info -c --noheadings -o name /dev/{array})\"");
    let command = |rate| format!("lvchange --maxrecoveryrate {rate} {volume}");
    let undone = command("0");
    let values = [("array", array), ("now", ""), ("undone", &*undone)];
    Advice { commands: vec![command("10M")], ..advice("resync", &values) }
}

/// blk-throttle delays the bios of the task's cgroup before they enter the array.
pub fn io_limit(limit: &IoLimit) -> Advice {
    let IoLimit { cgroup, device, number, limits } = limit;
    let file = quote(format!("/sys/fs/cgroup{cgroup}/io.max"));
    let keys = limits.split(' ').filter_map(|word| word.split_once('='));
    let lifted: Vec<String> = keys.map(|(key, _)| format!("{key}=max")).collect();
    // Names come last: they may have braces.
    let values = [
        ("number", &**number),
        ("lifted", &lifted.join(" ")),
        ("limits", limits),
        ("device", device),
        ("file", &file),
        ("cgroup", &escape(cgroup.as_bytes())),
    ];
    advice("io_limit", &values)
}

/// Commands that replace the write-intent bitmap of an array by an internal one with large chunks.
pub fn larger_bitmap_chunks(array: &str) -> [String; 2] {
    [
        format!("mdadm --grow --bitmap=none {array}"),
        format!("mdadm --grow --bitmap=internal --bitmap-chunk=1G {array}"),
    ]
}

/// A limit of the task's cgroup holds its requests back, on a member. `files` configure it.
pub fn cgroup_limit(limit: &str, files: &str, pid: u32) -> Advice {
    advice("cgroup_limit", &[("limit", limit), ("files", files), ("pid", &pid.to_string())])
}

impl DirtyLimits {
    /// The setting that restores the limit of writeback.
    fn old_background(&self) -> String {
        old("dirty_background", self.dirty_background_bytes)
    }
}

/// The setting in force: `vm.NAME_bytes=BYTES`, or the ratio if `bytes` is 0.
fn old(name: &str, bytes: u64) -> String {
    match bytes {
        0 => format!("vm.{name}_ratio and its old value"),
        bytes => format!("vm.{name}_bytes={bytes}"),
    }
}

/// A buffered writer is throttled.
pub fn throttled(dirty: &DirtyLimits) -> Advice {
    /// Below this limit a single burst of a writer is throttled.
    const SMALL: u64 = 64 * MIB;
    let throttled = advice("throttled", &[]);
    match dirty.limit {
        // A small share (vm.dirty_ratio) means little memory that can be dirty: a limit in bytes
        // could exceed it.
        Some(now) if now < SMALL && dirty.dirty_bytes != 0 => {
            let values = [
                ("limit", &*format!("{:.1}", now as f64 / MIB as f64)),
                ("bytes", &(4 * SMALL).to_string()),
                ("background", &SMALL.to_string()),
                ("old", &old("dirty", dirty.dirty_bytes)),
                ("old_background", &dirty.old_background()),
            ];
            let Advice { text, commands, risk, .. } = advice("throttled_by_low_limit", &values);
            Advice { text, commands, risk, ..throttled }
        }
        _ => throttled,
    }
}

#[cfg(test)]
mod tests {
    use super::{DirtyLimits, IoLimit, MdSettings, TEXTS, Text};
    use std::collections::{BTreeMap, BTreeSet};

    /// Names in braces.
    fn placeholders(text: &str) -> BTreeSet<&str> {
        let parts = text.split('{').skip(1).filter_map(|part| part.split_once('}'));
        let is_name = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        parts.map(|(name, _)| name).filter(is_name).collect()
    }

    #[test]
    fn every_text_is_used_and_every_placeholder_is_filled() {
        let read: BTreeMap<String, Text> = toml::from_str(include_str!("slow.toml")).unwrap();
        assert_eq!(read.len(), TEXTS.len());
        let number = || Some("1".to_owned());
        let md = MdSettings { sync_speed_max: number(), ..MdSettings::default() };
        let (unknown, small) = (
            DirtyLimits::default(),
            DirtyLimits {
                limit: Some(1 << 20),
                background: Some(1),
                dirty_bytes: 1 << 20,
                ..DirtyLimits::default()
            },
        );
        let limits = "wbps=1 wiops=2".to_owned();
        let mut all = vec![
            super::md_superblock("md0", Some("0.2")).unwrap(),
            super::ordered_data_by_option("/srv"),
            super::ordered_data_without_delay("/srv"),
            super::ordered_data("/srv/a", &unknown),
            super::ordered_data("/srv/a", &small),
            super::slow_member("/dev/sda", "sda1"),
            super::long_truncation(),
            super::log_space("/srv"),
            super::xfs_log_space("/srv"),
            super::xfs_writes_after_end(),
            super::xfs_unaligned_writes(),
            super::xfs_buffered_writes(),
            super::stripe_cache("md0", Some("256")).unwrap(),
            super::resync("md0", &md).unwrap(),
            super::io_limit(&IoLimit { limits, ..IoLimit::default() }),
            super::cgroup_limit("io.cost", "io.cost*", 1),
            super::throttled(&unknown),
            super::throttled(&small),
        ];
        for version in [(5, 10), (6, 12)] {
            all.push(super::extending_writes(version));
            all.push(super::first_writes(version));
            all.push(super::unaligned_writes(version));
        }
        let mut left: BTreeSet<&str> = TEXTS.keys().map(String::as_str).collect();
        for advice in &all {
            let texts = [&advice.text, &advice.risk, &advice.not_when].into_iter();
            for text in texts.chain(&advice.commands) {
                assert!(!text.is_empty() && placeholders(text).is_empty(), "{text}");
            }
            assert!(!advice.source.is_empty(), "{}", advice.text);
            // The text begins, or ends, like that of its advice.
            left.retain(|name| {
                let text = &TEXTS[*name].text;
                let (start, end) = (text.split('{').next(), text.rsplit('}').next());
                let [start, end] = [start, end].map(Option::unwrap_or_default);
                !(advice.text.starts_with(start) && advice.text.ends_with(end))
            });
        }
        assert_eq!(left, BTreeSet::new());
        for (name, text) in &*TEXTS {
            for phrase in text.phrases.keys() {
                let source = include_str!("slow.rs");
                assert!(source.contains(&format!("\"{phrase}\"")), "{name}.{phrase}");
            }
        }
    }
}
