//! Arrays of device mapper's raid target (LVM RAID): md without /sys/block/mdX and /proc/mdstat.
//!
//! Table and status: Documentation/admin-guide/device-mapper/dm-raid.rst; drivers/md/dm-raid.c,
//! `raid_status()`, `parse_raid_params()`, `raid_types[]`.

use super::types::Dev;

/// Sectors of a metadata device before its write-intent bitmap (dm-raid.c, `super_validate()`).
pub(super) const BITMAP_START: u64 = 8;

/// The table of a raid target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DmRaid {
    /// `raid1`, `raid5_ls`, `raid10`, ...
    pub kind: String,
    /// Chunk in sectors; 0 for raid1.
    pub chunk_sectors: u32,
    /// `raid10_copies`.
    pub copies: u32,
    /// `raid10_format`: `near`, `far` or `offset`.
    pub format: String,
    /// True with `raid10_use_near_sets`.
    pub near_sets: bool,
    /// Slots of `write_mostly` members.
    pub write_mostly: Vec<u32>,
    /// True with a `journal_dev`.
    pub journal: bool,
    /// Metadata and data device of each slot; `None` for `-`.
    pub slots: Vec<(Option<Dev>, Option<Dev>)>,
}

/// The state of a raid target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DmRaidStatus {
    /// Type and number of slots: `raid5_ls 3`. `lvconvert` changes them.
    pub target: String,
    /// A letter for each slot: `A` in sync, `a` not in sync, `D` failed, `-` missing.
    pub health: String,
    /// Sectors done, and total sectors.
    pub progress: (u64, u64),
    /// `idle`, `resync`, `recover`, `check`, `repair`, `reshape`, `frozen`.
    pub action: String,
    /// First data sector of the members.
    pub data_offset: u64,
}

impl DmRaid {
    /// Parses the parameters of a table. `None` if they are not those of a raid target.
    pub fn parse(params: &str) -> Option<Self> {
        let words: Vec<&str> = params.split_whitespace().collect();
        let (&kind, rest) = words.split_first()?;
        let (count, rest) = rest.split_first()?;
        let count: usize = count.parse().ok()?;
        let (options, rest) = (rest.get(..count)?, rest.get(count..)?);
        let (slots, rest) = rest.split_first()?;
        let slots: usize = slots.parse().ok()?;
        let device = |word: &str| (word != "-").then(|| Dev::parse(word));
        let mut found = Vec::new();
        for pair in rest.chunks(2).take(slots) {
            let [meta, data] = pair else { return None };
            // A device that is neither `-` nor a number makes the table unknown.
            let known = |word: &&str| device(word).is_none_or(|dev| dev.is_some());
            if !pair.iter().all(known) {
                return None;
            }
            found.push((device(meta).flatten(), device(data).flatten()));
        }
        if found.is_empty() || found.len() != slots {
            return None;
        }
        let value = |name: &str| {
            let at = options.iter().skip(1).position(|word| *word == name)?;
            options.get(at + 2).copied()
        };
        let pairs = options.windows(2).skip(1);
        let write_mostly = pairs.filter(|pair| pair[0] == "write_mostly");
        Some(Self {
            kind: kind.to_owned(),
            chunk_sectors: options.first()?.parse().ok()?,
            copies: value("raid10_copies").and_then(|n| n.parse().ok()).unwrap_or(2),
            format: value("raid10_format").unwrap_or("near").to_owned(),
            near_sets: options.contains(&"raid10_use_near_sets"),
            write_mostly: write_mostly.filter_map(|pair| pair[1].parse().ok()).collect(),
            journal: options.contains(&"journal_dev"),
            slots: found,
        })
    }

    /// md's level and layout (dm-raid.c, `raid_types[]` and `raid10_format_to_md_layout()`; the
    /// numbers of layouts are in drivers/md/raid5.h). `None` for a type that is not known.
    pub fn level_and_layout(&self) -> Option<(&'static str, u32)> {
        let raid10 = |format: &str| {
            let far_sets = if self.near_sets { 0 } else { 1 << 17 };
            match format {
                "near" => self.copies | 1 << 8,
                "far" => 1 | self.copies << 8 | far_sets,
                _ => 1 | self.copies << 8 | 1 << 16 | far_sets,
            }
        };
        Some(match self.kind.as_str() {
            "raid0" | "raid0_meta" => ("raid0", 0),
            "raid1" => ("raid1", 0),
            // Parity is on the first device, not on the last one as in md's RAID 4.
            "raid4" => ("raid5", 4),
            "raid5_n" => ("raid5", 5),
            "raid5_la" => ("raid5", 0),
            "raid5_ra" => ("raid5", 1),
            "raid5_ls" => ("raid5", 2),
            "raid5_rs" => ("raid5", 3),
            "raid6_zr" => ("raid6", 8),
            "raid6_nr" => ("raid6", 9),
            "raid6_nc" => ("raid6", 10),
            "raid6_n_6" => ("raid6", 5),
            "raid6_la_6" => ("raid6", 16),
            "raid6_ra_6" => ("raid6", 17),
            "raid6_ls_6" => ("raid6", 18),
            "raid6_rs_6" => ("raid6", 19),
            "raid10" if self.copies < 256 => ("raid10", raid10(&self.format)),
            "raid10_near" if self.copies < 256 => ("raid10", raid10("near")),
            "raid10_far" if self.copies < 256 => ("raid10", raid10("far")),
            "raid10_offset" if self.copies < 256 => ("raid10", raid10("offset")),
            _ => return None,
        })
    }

    /// Sectors of an array that each of its devices has, which are equal.
    pub fn sectors_of_device(&self, array_sectors: u64) -> u64 {
        let slots = self.slots.len() as u64;
        let (copies, devices) = match self.level_and_layout() {
            Some(("raid1", _)) => (1, 1),
            Some(("raid5", _)) => (1, slots.saturating_sub(1)),
            Some(("raid6", _)) => (1, slots.saturating_sub(2)),
            Some(("raid10", _)) => (u64::from(self.copies), slots),
            _ => (1, slots),
        };
        array_sectors.saturating_mul(copies).checked_div(devices).unwrap_or(0)
    }
}

impl DmRaidStatus {
    /// Parses a status line: `raid1 2 AA 10240/10240 idle 0 0 -`.
    pub fn parse(params: &str) -> Option<Self> {
        let mut words = params.split_whitespace();
        let (kind, slots) = (words.next()?, words.next()?);
        let (health, progress, action) = (words.next()?, words.next()?, words.next()?);
        let (done, total) = progress.split_once('/')?;
        Some(Self {
            target: format!("{kind} {slots}"),
            health: health.to_owned(),
            progress: (done.parse().ok()?, total.parse().ok()?),
            action: action.to_owned(),
            data_offset: words.nth(1).and_then(|n| n.parse().ok()).unwrap_or(0),
        })
    }

    /// Slots that no working device fills, in an array that can work without one.
    pub fn degraded(&self, level: &str) -> u32 {
        let missing = self.health.bytes().filter(|letter| !self.works(*letter)).count();
        if level == "raid0" { 0 } else { u32::try_from(missing).unwrap_or(u32::MAX) }
    }

    /// True for a device that is in sync. In a resync all are `a`, and none is missing
    /// (`__raid_dev_status()`).
    fn works(&self, letter: u8) -> bool {
        let resyncs = ["resync", "reshape"].contains(&self.action.as_str());
        letter == b'A' || letter == b'a' && resyncs
    }

    /// Sectors done and total sectors of the running sync; `None` while idle.
    pub fn sync_completed(&self) -> Option<(u64, u64)> {
        (!["idle", "frozen"].contains(&self.action.as_str())).then_some(self.progress)
    }

    /// 0 during a reshape, whose position only the superblocks have: then no sector has a known
    /// place.
    pub fn reshape_position(&self) -> Option<u64> {
        (self.action == "reshape").then_some(0)
    }

    /// Words of md/dev-*/state of a slot.
    pub fn words(&self, slot: u32) -> Vec<String> {
        let letter = usize::try_from(slot).ok().and_then(|at| self.health.as_bytes().get(at));
        let word = match letter {
            Some(b'D') => "faulty",
            Some(letter) if !self.works(*letter) => "spare",
            _ => "in_sync",
        };
        vec![word.to_owned()]
    }
}
