//! Options of mkfs.xfs: those that affect the geometry by name, others as words.

use super::must;
use super::words::{LABEL, Word, number, size, split};

/// Options of mkfs.xfs. Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-b size=`
    pub block_size: Option<u32>,
    /// `-s size=`
    pub sector_size: Option<u32>,
    /// `-i size=`
    pub inode_size: Option<u32>,
    /// `-i sparse=`
    pub sparse: Option<bool>,
    /// `-d size=`
    pub size: Option<u64>,
    /// `-d agsize=`
    pub agsize: Option<u64>,
    /// `-d agcount=`
    pub agcount: Option<u64>,
    /// `-d noalign`, or a stripe unit of 0.
    pub no_align: bool,
    /// Stripe unit in bytes and stripe width in units: `-d su=,sw=` or `-d sunit=,swidth=`.
    pub stripe: Option<(u32, u32)>,
    /// `-d concurrency=`; 1 stands for the number of CPUs of the machine.
    pub data_concurrency: Option<u32>,
    /// `-l size=`
    pub log_size: Option<u64>,
    /// `-l su=`, or `-l sunit=` in bytes.
    pub log_unit: Option<u32>,
    /// `-l agnum=`
    pub log_group: Option<u32>,
    /// `-l logdev=`
    pub log_device: Option<String>,
    /// `-l concurrency=`; 1 stands for the number of CPUs of the machine.
    pub log_concurrency: Option<u32>,
    /// `-m crc=`
    pub crc: Option<bool>,
    /// `-m finobt=`
    pub finobt: Option<bool>,
    /// `-m rmapbt=`
    pub rmapbt: Option<bool>,
    /// `-m reflink=`
    pub reflink: Option<bool>,
    /// `-i nrext64=`
    pub large_extent_counts: Option<bool>,
    /// `-n size=`
    pub directory_block: Option<u32>,
    /// `-n parent=`
    pub parent: Option<bool>,
    /// Options without effect on the geometry, sorted.
    kept: Vec<Word>,
}

/// Suboptions without effect on the geometry.
const NO_EFFECT: [(char, &[&str]); 4] = [
    ('d', &["rtinherit", "projinherit", "extszinherit", "cowextsize", "daxinherit"]),
    ('i', &["maxpct", "attr", "projid32bit", "exchange"]),
    ('m', &["bigtime", "inobtcount", "uuid"]),
    ('n', &["version", "ftype"]),
];

/// Suboptions of mkfs.xfs that raidtrace does not support.
const UNSUPPORTED: [(char, &[&str]); 4] = [
    ('d', &["name", "file", "sectsize"]),
    ('i', &["align", "perblock", "max_atomic_write"]),
    ('l', &["version", "lazy-count", "sectsize", "file", "name"]),
    ('m', &["metadir", "autofsck", "uquota", "gquota", "pquota"]),
];

/// Pairs of suboptions that exclude each other.
const CONFLICTS: [(char, &str, &str); 15] = [
    ('d', "agcount", "agsize"),
    ('d', "agcount", "concurrency"),
    ('d', "agsize", "concurrency"),
    ('d', "sunit", "su"),
    ('d', "sunit", "sw"),
    ('d', "swidth", "su"),
    ('d', "swidth", "sw"),
    ('d', "noalign", "su"),
    ('d', "noalign", "sw"),
    ('d', "noalign", "sunit"),
    ('d', "noalign", "swidth"),
    ('l', "sunit", "su"),
    ('l', "agnum", "logdev"),
    ('l', "internal", "logdev"),
    ('l', "size", "concurrency"),
];

fn listed(table: &[(char, &[&str])], word: &Word) -> bool {
    table
        .iter()
        .any(|(letter, names)| *letter == word.letter && names.contains(&word.name.as_str()))
}

/// Value of a suboption that requires one.
fn value(word: &Word) -> Result<&str, String> {
    word.value.as_deref().ok_or_else(|| format!("{} requires a value", word.option()))
}

fn integer(word: &Word, most: u64) -> Result<u64, String> {
    let text = value(word)?;
    number(text)
        .filter(|&n| n <= most)
        .ok_or_else(|| format!("{}={text}: not a number up to {most}", word.option()))
}

fn narrow(n: u64, word: &Word) -> Result<u32, String> {
    u32::try_from(n).map_err(|_| format!("{}: {n} is too large", word.option()))
}

/// Number of threads; `nr_cpus`, 1 and no value stand for the number of CPUs (set_data_concurrency,
/// set_log_concurrency).
fn concurrency(word: &Word) -> Result<u32, String> {
    match word.value.as_deref() {
        None | Some("nr_cpus") => Ok(1),
        Some(_) => Ok(integer(word, i32::MAX as u64)? as u32),
    }
}

/// A feature: 0 or 1; 1 without a value.
fn flag(word: &Word) -> Result<bool, String> {
    match word.value.as_deref() {
        None => Ok(true),
        Some(text) => match number(text) {
            Some(n @ (0 | 1)) => Ok(n == 1),
            _ => Err(format!("{}={text}: must be 0 or 1", word.option())),
        },
    }
}

impl Options {
    /// Parses options as on the command line of mkfs.xfs, without the device: `-b size=1k -d
    /// agsize=512m,su=64k,sw=4`.
    ///
    /// # Errors
    /// mkfs.xfs would reject an option, or raidtrace does not support it. The message names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let words = split(text)?;
        for (at, word) in words.iter().enumerate() {
            let twice = words[..at]
                .iter()
                .any(|w| !w.is_flag() && (w.letter, &w.name) == (word.letter, &word.name));
            must(!twice, || format!("{} is given twice", word.option()))?;
        }
        let has = |letter, name: &str| words.iter().any(|w| w.letter == letter && w.name == name);
        for (letter, one, other) in CONFLICTS {
            must(!(has(letter, one) && has(letter, other)), || {
                format!("-{letter} {one} and -{letter} {other} exclude each other")
            })?;
        }
        for (one, other) in [("su", "sw"), ("sunit", "swidth")] {
            must(has('d', one) == has('d', other), || {
                format!("-d {one} and -d {other} must be given together")
            })?;
        }
        Self::default().sizes(&words)?.others(&words)
    }

    /// Sets the sizes of blocks and sectors, which are units of other options.
    fn sizes(mut self, words: &[Word]) -> Result<Self, String> {
        for word in words {
            let field = match (word.letter, word.name.as_str()) {
                ('b', "size") => &mut self.block_size,
                ('s', "size" | "sectsize") => &mut self.sector_size,
                _ => continue,
            };
            let text = value(word)?;
            let n = size(text, None, None)
                .filter(|n| n.is_power_of_two())
                .ok_or_else(|| format!("{}={text}: not a power of two", word.option()))?;
            *field = Some(narrow(n, word)?);
        }
        Ok(self)
    }

    fn others(mut self, words: &[Word]) -> Result<Self, String> {
        let block = Some(self.block_size.unwrap_or(4096).into());
        let sector = self.sector_size.map(u64::from);
        let bytes = |word: &Word| {
            let text = value(word)?;
            size(text, block, sector).ok_or_else(|| {
                let why = if text.to_ascii_lowercase().ends_with('s') && sector.is_none() {
                    "the suffix s requires -s size="
                } else {
                    "not a size: 4096, 64k, 100b, ..."
                };
                format!("{}={text}: {why}", word.option())
            })
        };
        let (mut unit, mut width, mut sectors) = (None, None, false);
        for word in words {
            match (word.letter, word.name.as_str()) {
                ('b', "size") | ('s', "size" | "sectsize") => {}
                ('i', "size") => self.inode_size = Some(narrow(bytes(word)?, word)?),
                ('i', "sparse") => self.sparse = Some(flag(word)?),
                ('d', "size") => self.size = Some(bytes(word)?),
                ('d', "agsize") => self.agsize = Some(bytes(word)?),
                ('d', "agcount") => self.agcount = Some(integer(word, u32::MAX.into())?),
                ('d', "noalign") => self.no_align = flag(word)?,
                ('d', "su") => unit = Some(bytes(word)?),
                ('d', "sw") => width = Some(integer(word, u32::MAX.into())?),
                ('d', "sunit") => {
                    sectors = true;
                    unit = Some(integer(word, u32::MAX.into())? * 512);
                }
                ('d', "swidth") => width = Some(integer(word, u32::MAX.into())? * 512),
                ('d', "concurrency") => self.data_concurrency = Some(concurrency(word)?),
                ('l', "size") => self.log_size = Some(bytes(word)?),
                ('l', "su") => self.log_unit = Some(narrow(bytes(word)?, word)?),
                ('l', "sunit") => {
                    self.log_unit = Some(narrow(integer(word, u32::MAX.into())? * 512, word)?);
                }
                ('l', "agnum") => self.log_group = Some(integer(word, u32::MAX.into())? as u32),
                ('l', "internal") => {
                    must(flag(word)?, || "-l internal=0: use -l logdev=DEVICE".to_owned())?;
                }
                ('l', "logdev") => {
                    self.log_device = Some(value(word)?.to_owned());
                }
                ('l', "concurrency") => self.log_concurrency = Some(concurrency(word)?),
                ('m', "crc") => self.crc = Some(flag(word)?),
                ('m', "finobt") => self.finobt = Some(flag(word)?),
                ('m', "rmapbt") => self.rmapbt = Some(flag(word)?),
                ('m', "reflink") => self.reflink = Some(flag(word)?),
                ('i', "nrext64") => self.large_extent_counts = Some(flag(word)?),
                ('n', "size") => self.directory_block = Some(narrow(bytes(word)?, word)?),
                ('n', "parent") => self.parent = Some(flag(word)?),
                _ if word.is_flag() || word.letter == LABEL || listed(&NO_EFFECT, word) => {
                    self.kept.push(word.clone());
                }
                _ if listed(&UNSUPPORTED, word) => {
                    return Err(format!(
                        "{}: raidtrace does not support this option",
                        word.option()
                    ));
                }
                _ => return Err(format!("{}: unknown option of mkfs.xfs", word.option())),
            }
        }
        if let (Some(unit), Some(width)) = (unit, width) {
            self.align(unit, width, sectors)?;
        }
        self.kept.sort();
        self.kept.dedup();
        Ok(self)
    }

    /// Sets the stripe (calc_stripe_factors). `width` is in bytes if `in_bytes`, otherwise in
    /// units.
    fn align(&mut self, unit: u64, width: u64, in_bytes: bool) -> Result<(), String> {
        if unit == 0 && width == 0 {
            self.no_align = true;
            return Ok(());
        }
        must(unit > 0 && width > 0, || {
            "-d su, sw: stripe unit and width must both be 0, or neither".to_owned()
        })?;
        let units = if in_bytes { width / unit } else { width };
        must(!in_bytes || width.is_multiple_of(unit), || {
            format!("-d swidth: {width} bytes are not a multiple of the stripe unit, {unit} bytes")
        })?;
        let total = unit.checked_mul(units).filter(|&n| n <= i32::MAX as u64);
        must(total.is_some_and(|n| n > 0), || {
            format!("-d su, sw: the stripe width of {units} times {unit} bytes is 0 or above 2 GiB")
        })?;
        self.stripe = Some((unit as u32, units as u32));
        Ok(())
    }

    /// The same options, with `-d agsize=` (in bytes) in place of `agsize=`, `agcount=` and
    /// `concurrency=` if it is given, and without a stripe if `no_align`.
    pub fn with(&self, agsize: Option<u64>, no_align: bool) -> Self {
        let mut options = self.clone();
        if agsize.is_some() {
            options.agsize = agsize;
            (options.agcount, options.data_concurrency) = (None, None);
        }
        if no_align {
            (options.no_align, options.stripe) = (true, None);
        }
        options
    }

    /// The options as an option string for mkfs.xfs, with sizes in bytes.
    pub fn words(&self) -> String {
        let mut words = String::new();
        let mut list = |letter: char, values: Vec<Option<String>>| {
            let kept =
                self.kept.iter().filter(|w| w.letter == letter).map(|word| Some(word.text()));
            let values: Vec<String> = values.into_iter().chain(kept).flatten().collect();
            if !values.is_empty() {
                let space = if words.is_empty() { "" } else { " " };
                words.push_str(&format!("{space}-{letter} {}", values.join(",")));
            }
        };
        let put = |name: &str, value: Option<u64>| value.map(|v| format!("{name}={v}"));
        let number = |name: &str, value: Option<u32>| put(name, value.map(u64::from));
        let flag = |name: &str, value: Option<bool>| put(name, value.map(u64::from));
        list('b', vec![number("size", self.block_size)]);
        list('s', vec![number("size", self.sector_size)]);
        list(
            'm',
            vec![
                flag("crc", self.crc),
                flag("finobt", self.finobt),
                flag("rmapbt", self.rmapbt),
                flag("reflink", self.reflink),
            ],
        );
        list(
            'i',
            vec![
                number("size", self.inode_size),
                flag("sparse", self.sparse),
                flag("nrext64", self.large_extent_counts),
            ],
        );
        list(
            'd',
            vec![
                put("size", self.size),
                put("agcount", self.agcount),
                put("agsize", self.agsize),
                number("su", self.stripe.map(|s| s.0)),
                number("sw", self.stripe.map(|s| s.1)),
                self.no_align.then(|| "noalign".to_owned()),
                number("concurrency", self.data_concurrency),
            ],
        );
        list(
            'l',
            vec![
                self.log_device.as_ref().map(|device| format!("logdev={device}")),
                put("size", self.log_size),
                number("su", self.log_unit),
                number("agnum", self.log_group),
                number("concurrency", self.log_concurrency),
            ],
        );
        list('n', vec![number("size", self.directory_block), flag("parent", self.parent)]);
        list(LABEL, Vec::new());
        for flag in self.kept.iter().filter(|w| w.is_flag()) {
            let space = if words.is_empty() { "" } else { " " };
            words.push_str(&format!("{space}-{}", flag.letter));
        }
        words
    }
}
