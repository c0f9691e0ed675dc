//! Options that describe an array: `--level 5 --disks 8 --chunk 512K --layout left-symmetric`.

use super::size;
use crate::address::ArraySector;
use crate::analysis::units;
use crate::machine::Array;
use crate::raid::{Geometry, GeometryError, Level, Params};

/// Member size of arrays that do not exist. With members of equal size, the location of a chunk
/// does not depend on the size.
const MEMBER_SECTORS: u64 = 1 << 50;

/// Options that describe an array.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Array, for an image or instead of the real one")]
pub struct ArrayOptions {
    /// raid0, raid1, raid4, raid5, raid6, raid10, single; or only the number
    #[arg(long, value_name = "L", value_parser = level)]
    pub level: Option<Level>,

    /// Number of members, including parity, without spares
    #[arg(long, value_name = "N")]
    pub disks: Option<u32>,

    /// Chunk size: 512K, 1M; without a unit in KiB, as for mdadm [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = size::chunk)]
    pub chunk: Option<u64>,

    /// mdadm's name: left-symmetric, n2, f2, o2, ...; or md's number [default: mdadm's]
    #[arg(long, value_name = "NAME")]
    pub layout: Option<String>,

    /// Start of the data on each member; changes no figure, but should be a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub data_offset: Option<u64>,

    /// Start of the filesystem or of its partition on the array [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub fs_offset: Option<u64>,
}

/// mdadm's default chunk, bytes.
const CHUNK: u64 = 512 << 10;

/// Parses `raid5`, `RAID-5` or `5`.
fn level(text: &str) -> Result<Level, String> {
    let lower = text.trim().to_ascii_lowercase().replace(['-', ' '], "");
    let name = match lower.as_str() {
        "stripe" => "raid0".to_owned(),
        "mirror" => "raid1".to_owned(),
        n if n.starts_with(|c: char| c.is_ascii_digit()) => format!("raid{n}"),
        n => n.to_owned(),
    };
    // The members of a linear array can have any sizes.
    let known = name.parse().ok().filter(|level| *level != Level::Linear);
    known.ok_or_else(|| "one of raid0, raid1, raid4, raid5, raid6, raid10, single".to_owned())
}

/// Parses mdadm's name of a layout (maps.c) or md's number (`ALGORITHM_*` of raid5.h; near, far and
/// offset copies of raid10.c).
fn layout(level: Level, text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = text.to_ascii_lowercase().replace('_', "-");
    let find = |names: &[(&str, u32)]| names.iter().find(|n| n.0 == name).map(|n| n.1);
    let common = [
        ("left-asymmetric", 0),
        ("la", 0),
        ("right-asymmetric", 1),
        ("ra", 1),
        ("left-symmetric", 2),
        ("ls", 2),
        ("right-symmetric", 3),
        ("rs", 3),
        ("parity-first", 4),
        ("parity-last", 5),
        ("ddf-zero-restart", 8),
        ("ddf-n-restart", 9),
        ("ddf-n-continue", 10),
    ];
    let six = [
        ("left-asymmetric-6", 16),
        ("right-asymmetric-6", 17),
        ("left-symmetric-6", 18),
        ("right-symmetric-6", 19),
        ("parity-first-6", 20),
    ];
    match level {
        Level::Raid0 => find(&[("original", 1), ("alternate", 2), ("dangerous", 0)]),
        Level::Raid5 => find(&common[..10]),
        Level::Raid6 => find(&common).or_else(|| find(&six)),
        Level::Raid10 => {
            let (kind, copies) = name.split_at_checked(1)?;
            let copies = copies.parse::<u8>().ok().filter(|&c| c > 0)?;
            let copies = u32::from(copies);
            match kind {
                "n" => Some(1 << 8 | copies),
                "f" => Some(copies << 8 | 1),
                "o" => Some(1 << 16 | copies << 8 | 1),
                _ => None,
            }
        }
        _ => None,
    }
}

/// mdadm's default layout.
fn default_layout(level: Level) -> u32 {
    match level {
        Level::Raid5 | Level::Raid6 => 2,
        Level::Raid10 => 0x102,
        _ => 0,
    }
}

/// Chunks of data in a stripe, from which md computes the optimal IO size of an array: mkfs takes
/// it as stripe width.
pub fn data_disks(level: Level, disks: u32, layout: u32) -> u32 {
    let data = match level {
        // The near copies of a chunk are side by side (raid10_set_io_opt).
        Level::Raid10 => match (layout & 0xff).max(1) {
            near if disks.is_multiple_of(near) => disks / near,
            _ => disks,
        },
        _ => disks.saturating_sub(level.parities()),
    };
    data.max(1)
}

impl ArrayOptions {
    /// True if any option describes an array.
    pub fn is_any(&self) -> bool {
        self.level.is_some()
            || self.disks.is_some()
            || self.chunk.is_some()
            || self.layout.is_some()
    }

    /// Geometry of the array; a single disk if no option describes an array.
    ///
    /// # Errors
    /// Names the option that is missing or impossible.
    pub fn geometry(&self) -> Result<Geometry, String> {
        self.with_disks(self.disks)
    }

    /// Geometry of the array with another number of disks.
    ///
    /// # Errors
    /// Like [`ArrayOptions::geometry`].
    pub fn with_disks(&self, disks: Option<u32>) -> Result<Geometry, String> {
        self.with_members(disks, vec![MEMBER_SECTORS])
    }

    /// Geometry of the array with another number of disks, and members of these sizes in sectors:
    /// one size for all, or one for each.
    ///
    /// # Errors
    /// Like [`ArrayOptions::geometry`].
    pub fn with_members(
        &self,
        disks: Option<u32>,
        member_sectors: Vec<u64>,
    ) -> Result<Geometry, String> {
        let level = match (self.level, self.is_any()) {
            (Some(level), _) => level,
            (None, false) => Level::Single,
            (None, true) => return Err("--level is missing: raid0, raid5, ...".to_owned()),
        };
        let disks = match (disks, level) {
            (Some(disks), _) => disks,
            (None, Level::Single) => 1,
            (None, _) => {
                return Err(format!("--disks is missing: the number of members of the {level}"));
            }
        };
        let chunk = self.chunk.unwrap_or(CHUNK);
        if !chunk.is_multiple_of(512) || chunk / 512 > u32::MAX.into() {
            return Err(format!(
                "--chunk is {chunk} bytes, not a number of sectors that md supports: KB is 1000 \
                 bytes, K and KiB are 1024"
            ));
        }
        let layout = match &self.layout {
            Some(text) => layout(level, text).ok_or_else(|| {
                format!("--layout {text} is not a layout of {level}: see mdadm(8)")
            })?,
            None => default_layout(level),
        };
        let geometry = Geometry::new(&Params {
            level,
            layout,
            disks,
            chunk_sectors: (chunk / 512) as u32,
            member_sectors,
        });
        geometry.map_err(|e| match e {
            GeometryError::Disks { .. } => format!("--disks: {level} cannot have {disks}"),
            GeometryError::TooManyDisks(_) => {
                format!("--disks: raidtrace supports 255 at most, not {disks}")
            }
            GeometryError::Chunk { .. } => format!(
                "--chunk: {level} requires a power of two, not {chunk} bytes ({})",
                units::size(chunk)
            ),
            GeometryError::Layout { .. } => format!(
                "--layout {}: not a layout of {level} with {disks} disks",
                self.layout.as_deref().unwrap_or("(mdadm's default)")
            ),
            other => other.to_string(),
        })
    }

    /// md's number of the layout; `None` without a level, or if --layout is not one of the level's.
    pub fn layout_number(&self) -> Option<u32> {
        let level = self.level?;
        match &self.layout {
            Some(text) => layout(level, text),
            None => Some(default_layout(level)),
        }
    }

    /// Options that describe an existing array.
    pub fn from_array(array: &Array) -> Option<Self> {
        Some(Self {
            level: Some(array.level.parse().ok()?),
            disks: Some(array.raid_disks),
            chunk: (array.chunk_sectors > 0).then(|| u64::from(array.chunk_sectors) * 512),
            layout: Some(array.layout.to_string()),
            ..Self::default()
        })
    }

    /// Start of the filesystem on the array, in sectors.
    ///
    /// # Errors
    /// If --fs-offset or --data-offset is not a multiple of 512 bytes.
    pub fn fs_start(&self) -> Result<ArraySector, String> {
        for (name, bytes) in [("--fs-offset", self.fs_offset), ("--data-offset", self.data_offset)]
        {
            if let Some(bytes) = bytes.filter(|b| !b.is_multiple_of(512)) {
                return Err(format!(
                    "{name} is {bytes} bytes, not a multiple of the sector size of 512"
                ));
            }
        }
        Ok(ArraySector(self.fs_offset.unwrap_or(0) / 512))
    }
}

/// Checks that chunks hold whole filesystem blocks.
///
/// # Errors
/// If the chunk is not a multiple of the block.
pub fn fits(geometry: &Geometry, block_size: u32) -> Result<(), String> {
    let Some(chunk) = geometry.chunk_sectors().map(|c| c * 512) else {
        return Ok(());
    };
    if chunk.is_multiple_of(block_size.into()) {
        return Ok(());
    }
    Err(format!(
        "--chunk is {chunk} bytes ({}), not a multiple of the filesystem's block of {block_size}: \
         md would divide blocks between two members{}",
        units::size(chunk),
        if chunk.is_multiple_of(1000) { "; KB is 1000 bytes, K and KiB are 1024" } else { "" },
    ))
}

#[cfg(test)]
mod tests {
    use super::{ArrayOptions, fits, layout, level};
    use crate::raid::Level;

    fn options(level: Level, disks: u32, chunk: u64) -> ArrayOptions {
        ArrayOptions {
            level: Some(level),
            disks: Some(disks),
            chunk: Some(chunk),
            ..ArrayOptions::default()
        }
    }

    #[test]
    fn levels() {
        for (text, want) in [
            ("raid0", Level::Raid0),
            ("0", Level::Raid0),
            ("RAID5", Level::Raid5),
            ("RAID-10", Level::Raid10),
            ("stripe", Level::Raid0),
            ("single", Level::Single),
        ] {
            assert_eq!(level(text), Ok(want), "{text}");
        }
        for wrong in ["", "raid7", "50", "linear", "x"] {
            assert!(level(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn layouts() {
        for (level, text, want) in [
            (Level::Raid5, "left-symmetric", Some(2)),
            (Level::Raid5, "ls", Some(2)),
            (Level::Raid5, "parity_last", Some(5)),
            (Level::Raid5, "ddf-N-restart", None),
            (Level::Raid6, "ddf-N-restart", Some(9)),
            (Level::Raid6, "left-symmetric-6", Some(18)),
            (Level::Raid10, "n2", Some(0x102)),
            (Level::Raid10, "f2", Some(0x201)),
            (Level::Raid10, "o3", Some(0x1_0301)),
            (Level::Raid10, "n0", None),
            (Level::Raid10, "é", None),
            (Level::Raid10, "258", Some(258)),
            (Level::Raid0, "original", Some(1)),
            (Level::Raid1, "n2", None),
        ] {
            assert_eq!(layout(level, text), want, "{level} {text}");
        }
    }

    #[test]
    fn errors_name_the_option() {
        let error = |t: &ArrayOptions| t.geometry().unwrap_err();
        assert!(error(&options(Level::Raid0, 0, 512 << 10)).contains("--disks"));
        assert!(error(&options(Level::Raid6, 3, 512 << 10)).contains("--disks"));
        assert!(error(&options(Level::Raid5, 300, 512 << 10)).contains("--disks"));
        assert!(error(&options(Level::Raid5, 4, 12 << 10)).contains("--chunk"));
        assert!(error(&options(Level::Raid0, 4, 0)).contains("--chunk"));
        assert!(error(&options(Level::Raid0, 4, 512_001)).contains("--chunk"));
        assert!(error(&options(Level::Raid0, 4, u64::MAX - 511)).contains("--chunk"));
        let mut t = options(Level::Raid10, 2, 4096);
        t.layout = Some("n3".into());
        assert!(error(&t).contains("--layout n3"));
        let only_disks = ArrayOptions { disks: Some(3), ..ArrayOptions::default() };
        assert!(error(&only_disks).contains("--level"));
        let only_level = ArrayOptions { level: Some(Level::Raid0), ..ArrayOptions::default() };
        assert!(error(&only_level).contains("--disks"));
        assert_eq!(ArrayOptions::default().geometry().unwrap().disks(), 1);
    }

    #[test]
    fn a_chunk_holds_whole_blocks() {
        let twelve = options(Level::Raid0, 3, 12 << 10).geometry().unwrap();
        assert_eq!(fits(&twelve, 4096), Ok(()));
        assert!(fits(&twelve, 65536).is_err());
        let kb = options(Level::Raid0, 3, 512_000).geometry().unwrap();
        assert!(fits(&kb, 4096).is_ok()); // 125 blocks
        let kb = options(Level::Raid0, 3, 64_000).geometry().unwrap();
        assert!(fits(&kb, 4096).unwrap_err().contains("KB is 1000"));
    }
}
