//! An array as it is typed: `--level 5 --disks 8 --chunk 512K --layout left-symmetric`.

use crate::analysis::units;
use crate::machine::Array;
use crate::raid::{Geometry, GeometryError, Level, Params};

use super::size;

/// Members that nobody can fill: sizes do not decide where a chunk lies, as long as all are alike.
const MEMBER_SECTORS: u64 = 1 << 50;

/// What was typed, as far as it was.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "An array that does not exist, or another one")]
pub struct Typed {
    /// raid0, raid1, raid4, raid5, raid6, raid10, single; or the number
    #[arg(long, value_name = "L", value_parser = level)]
    pub level: Option<Level>,

    /// Members, parity included, spares not
    #[arg(long, value_name = "N")]
    pub disks: Option<u32>,

    /// Chunk: 512K, 1M; a number alone is KiB, as for mdadm [default: 512K]
    #[arg(long, value_name = "SIZE", value_parser = size::chunk)]
    pub chunk: Option<u64>,

    /// As mdadm spells it: left-symmetric, n2, f2, o2, ...; or md's number [default: mdadm's]
    #[arg(long, value_name = "NAME")]
    pub layout: Option<String>,

    /// Where data begins on each member; changes no figure, but should be a multiple of 4 KiB
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub data_offset: Option<u64>,

    /// Where the filesystem begins on the array: the start of its partition [default: 0]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub fs_offset: Option<u64>,
}

/// mdadm's default.
const CHUNK: u64 = 512 << 10;

/// `raid5`, `RAID-5`, `5`.
fn level(text: &str) -> Result<Level, String> {
    let lower = text.trim().to_ascii_lowercase().replace(['-', ' '], "");
    let name = match lower.as_str() {
        "stripe" => "raid0".to_owned(),
        "mirror" => "raid1".to_owned(),
        n if n.starts_with(|c: char| c.is_ascii_digit()) => format!("raid{n}"),
        n => n.to_owned(),
    };
    name.parse()
        .map_err(|_| "one of raid0, raid1, raid4, raid5, raid6, raid10, single".to_owned())
}

/// mdadm's names of layouts (maps.c), and md's numbers (`ALGORITHM_*` of raid5.h; near, far and offset copies of raid10.c).
fn layout(level: Level, text: &str) -> Option<u32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let name = text.to_ascii_lowercase().replace('_', "-");
    let parity = |names: &[(&str, u32)]| names.iter().find(|n| n.0 == name).map(|n| n.1);
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
        Level::Raid0 => parity(&[("original", 1), ("alternate", 2), ("dangerous", 0)]),
        Level::Raid5 => parity(&common[..10]),
        Level::Raid6 => parity(&common).or_else(|| parity(&six)),
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

impl Typed {
    /// Whether anything describes an array.
    pub fn is_any(&self) -> bool {
        self.level.is_some()
            || self.disks.is_some()
            || self.chunk.is_some()
            || self.layout.is_some()
    }

    /// The array; of one disk where nothing was typed.
    ///
    /// # Errors
    /// Names the option that is missing or impossible.
    pub fn geometry(&self) -> Result<Geometry, String> {
        self.with(self.disks)
    }

    /// The same with another number of disks.
    ///
    /// # Errors
    /// As [`Typed::geometry`].
    pub fn with(&self, disks: Option<u32>) -> Result<Geometry, String> {
        let level = match (self.level, self.is_any()) {
            (Some(level), _) => level,
            (None, false) => Level::Single,
            (None, true) => return Err("--level is missing: raid0, raid5, ...".to_owned()),
        };
        let disks = match (disks, level) {
            (Some(disks), _) => disks,
            (None, Level::Single) => 1,
            (None, _) => {
                return Err(format!(
                    "--disks is missing: how many members has the {level}?"
                ));
            }
        };
        let chunk = self.chunk.unwrap_or(CHUNK);
        if !chunk.is_multiple_of(512) || chunk / 512 > u32::MAX.into() {
            return Err(format!(
                "--chunk is {chunk} bytes, which is no number of sectors that md takes: KB is 1000 bytes, K and KiB are 1024"
            ));
        }
        let layout = match &self.layout {
            Some(text) => layout(level, text)
                .ok_or_else(|| format!("--layout {text} is no layout of {level}: see mdadm(8)"))?,
            None => default_layout(level),
        };
        let made = Geometry::new(&Params {
            level,
            layout,
            disks,
            chunk_sectors: (chunk / 512) as u32,
            member_sectors: vec![MEMBER_SECTORS],
        });
        made.map_err(|e| match e {
            GeometryError::Disks { .. } => format!("--disks: {level} cannot have {disks}"),
            GeometryError::TooManyDisks(_) => {
                format!("--disks: {disks} are too many for raidtrace (255)")
            }
            GeometryError::Chunk { .. } => format!(
                "--chunk: {level} cannot have chunks of {chunk} bytes ({}): a power of two",
                units::size(chunk)
            ),
            GeometryError::Layout { .. } => format!(
                "--layout {}: no layout of {level} with {disks} disks",
                self.layout.as_deref().unwrap_or("(mdadm's default)")
            ),
            other => other.to_string(),
        })
    }

    /// What is known of an array that exists, as if it had been typed.
    pub fn of(array: &Array) -> Option<Self> {
        Some(Self {
            level: Some(array.level.parse().ok()?),
            disks: Some(array.raid_disks),
            chunk: (array.chunk_sectors > 0).then(|| u64::from(array.chunk_sectors) * 512),
            layout: Some(array.layout.to_string()),
            ..Self::default()
        })
    }

    /// Where the filesystem begins, in sectors.
    ///
    /// # Errors
    /// Where that is no sector.
    pub fn fs_sector(&self) -> Result<u64, String> {
        for (name, bytes) in [
            ("--fs-offset", self.fs_offset),
            ("--data-offset", self.data_offset),
        ] {
            if let Some(bytes) = bytes.filter(|b| !b.is_multiple_of(512)) {
                return Err(format!(
                    "{name} is {bytes} bytes, no multiple of a sector of 512"
                ));
            }
        }
        Ok(self.fs_offset.unwrap_or(0) / 512)
    }
}

/// Whether blocks of this size can lie on it: a chunk that cuts blocks is refused for an array that is yet to be made.
///
/// # Errors
/// Says so.
pub fn fits(geometry: &Geometry, block_size: u32) -> Result<(), String> {
    let Some(chunk) = geometry.chunk_sectors().map(|c| c * 512) else {
        return Ok(());
    };
    if chunk.is_multiple_of(block_size.into()) {
        return Ok(());
    }
    Err(format!(
        "--chunk is {chunk} bytes ({}), no multiple of the filesystem's block of {block_size}: md would cut every \
         block in two{}",
        units::size(chunk),
        if chunk.is_multiple_of(1000) {
            "; KB is 1000 bytes, K and KiB are 1024"
        } else {
            ""
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::{Typed, fits, layout, level};
    use crate::raid::Level;

    fn typed(level: Level, disks: u32, chunk: u64) -> Typed {
        Typed {
            level: Some(level),
            disks: Some(disks),
            chunk: Some(chunk),
            ..Typed::default()
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
    fn what_cannot_be_names_the_option() {
        let error = |t: &Typed| t.geometry().unwrap_err();
        assert!(error(&typed(Level::Raid0, 0, 512 << 10)).contains("--disks"));
        assert!(error(&typed(Level::Raid6, 3, 512 << 10)).contains("--disks"));
        assert!(error(&typed(Level::Raid5, 300, 512 << 10)).contains("--disks"));
        assert!(error(&typed(Level::Raid5, 4, 12 << 10)).contains("--chunk"));
        assert!(error(&typed(Level::Raid0, 4, 0)).contains("--chunk"));
        assert!(error(&typed(Level::Raid0, 4, 512_001)).contains("--chunk"));
        assert!(error(&typed(Level::Raid0, 4, u64::MAX - 511)).contains("--chunk"));
        let mut t = typed(Level::Raid10, 2, 4096);
        t.layout = Some("n3".into());
        assert!(error(&t).contains("--layout n3"));
        let only_disks = Typed {
            disks: Some(3),
            ..Typed::default()
        };
        assert!(error(&only_disks).contains("--level"));
        let only_level = Typed {
            level: Some(Level::Raid0),
            ..Typed::default()
        };
        assert!(error(&only_level).contains("--disks"));
        assert_eq!(Typed::default().geometry().unwrap().disks(), 1);
    }

    #[test]
    fn a_chunk_holds_whole_blocks() {
        let twelve = typed(Level::Raid0, 3, 12 << 10).geometry().unwrap();
        assert_eq!(fits(&twelve, 4096), Ok(()));
        assert!(fits(&twelve, 65536).is_err());
        let kb = typed(Level::Raid0, 3, 512_000).geometry().unwrap();
        assert!(fits(&kb, 4096).is_ok()); // 125 blocks
        let kb = typed(Level::Raid0, 3, 64_000).geometry().unwrap();
        assert!(fits(&kb, 4096).unwrap_err().contains("KB is 1000"));
    }
}
