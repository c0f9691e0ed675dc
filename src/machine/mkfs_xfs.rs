//! Asks this machine's mkfs.xfs for the geometry that it would create (`-N`). Nothing is written:
//! the file that it measures is an empty one in memory.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::process::Command;

use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::programs;
use crate::fs::xfs::{MIN_AG_BYTES, XfsGeometry, ag_count, printed};
use crate::printable;

/// Options with a list of suboptions.
const LISTS: &str = "bdilmns";
/// Options without a value. They do not affect the geometry: force, no discard, quiet, dry run.
const FLAGS: &str = "fKqN";
/// Suboptions that raidtrace sets itself.
const OWN: [(char, &str); 5] =
    [('d', "name"), ('d', "file"), ('d', "size"), ('l', "name"), ('l', "file")];
/// Bytes of the file that stands for the device of an external log: the largest log
/// (`XFS_MAX_LOG_BYTES`, libxfs/xfs_fs.h).
const MAX_LOG_BYTES: u64 = (2 << 30) - (10 << 20);

/// One suboption, `agsize=1g` of `-d agsize=1g`; the label of `-L`; empty for an option without a
/// value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Suboption {
    letter: char,
    text: String,
}

impl Suboption {
    fn name(&self) -> &str {
        self.text.split_once('=').map_or(&self.text, |(name, _)| name)
    }
}

/// Options of mkfs.xfs, as its user writes them. mkfs.xfs checks them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct XfsOptions(Vec<Suboption>);

/// The device and the array that a filesystem is planned for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MkfsDevice {
    pub bytes: u64,
    /// Stripe unit in bytes that the device reports (`minimum_io_size`: md's chunk); 0 for none.
    pub chunk: u64,
    /// Data disks of a stripe.
    pub disks: u32,
    /// Physical sector in bytes.
    pub sector: u32,
}

impl XfsOptions {
    /// Splits an option string into suboptions, with the rules of getopt(3) and getsubopt(3), and
    /// without quoting: no value contains a space.
    ///
    /// # Errors
    /// An option is not one of mkfs.xfs, lacks its value, or is one that raidtrace sets or cannot
    /// follow. The message names it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut found = Vec::new();
        let mut rest = text.split_whitespace();
        while let Some(word) = rest.next() {
            let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else {
                return Err(format!("'{word}' is no option of mkfs.xfs: use -d agsize=..., ..."));
            };
            for (at, letter) in letters.char_indices() {
                if FLAGS.contains(letter) {
                    found.push(Suboption { letter, text: String::new() });
                    continue;
                }
                if !LISTS.contains(letter) && letter != 'L' {
                    return Err(format!("-{letter}: not an option that can be planned"));
                }
                let attached = Some(&letters[at + letter.len_utf8()..]).filter(|a| !a.is_empty());
                let list = attached.or_else(|| rest.next());
                let list = list.ok_or_else(|| format!("-{letter} needs a value"))?;
                let parts = list.split(if letter == 'L' { '\0' } else { ',' });
                found.extend(parts.map(|text| Suboption { letter, text: text.to_owned() }));
                break;
            }
        }
        match found.iter().find(|o| OWN.contains(&(o.letter, o.name()))) {
            Some(own) => Err(format!("-{} {}: not an option of a plan", own.letter, own.name())),
            None => Ok(Self(found)),
        }
    }

    /// Value of a suboption; `None` if it is not given, or has no value.
    fn value(&self, letter: char, name: &str) -> Option<&str> {
        let mut texts = self.0.iter().filter(|o| o.letter == letter).map(|o| o.text.as_str());
        texts.find_map(|text| text.strip_prefix(name)?.strip_prefix('='))
    }

    /// True if a suboption is given.
    pub fn has(&self, letter: char, name: &str) -> bool {
        self.0.iter().any(|o| o.letter == letter && o.name() == name)
    }

    fn remove(&mut self, letter: char, names: &[&str]) {
        self.0.retain(|o| o.letter != letter || !names.contains(&o.name()));
    }

    /// Adds a suboption: `add('d', "agsize=1g")`.
    pub fn add(&mut self, letter: char, text: impl Into<String>) {
        self.0.push(Suboption { letter, text: text.into() });
    }

    /// The same options, with `-d agsize=` (in bytes) in place of `agsize=`, `agcount=` and
    /// `concurrency=` if it is given, and without a stripe if `no_align`.
    pub fn with(&self, agsize: Option<u64>, no_align: bool) -> Self {
        let mut options = self.clone();
        if let Some(agsize) = agsize {
            options.remove('d', &["agsize", "agcount", "concurrency"]);
            options.add('d', format!("agsize={agsize}"));
        }
        if no_align {
            options.remove('d', &["su", "sw", "sunit", "swidth", "noalign"]);
            options.add('d', "noalign");
        }
        options
    }

    /// The options as words of a command line, the suboptions of an option together.
    fn arguments(&self) -> Vec<String> {
        let mut letters: Vec<char> = self.0.iter().map(|o| o.letter).collect();
        letters.sort_by_key(|letter| self.0.iter().position(|o| o.letter == *letter));
        letters.dedup();
        let mut words = Vec::new();
        for letter in letters {
            words.push(format!("-{letter}"));
            let of = self.0.iter().filter(|o| o.letter == letter && !o.text.is_empty());
            let texts: Vec<&str> = of.map(|o| o.text.as_str()).collect();
            words.extend(Some(texts.join(",")).filter(|list| !list.is_empty()));
        }
        words
    }

    /// The options as an option string.
    pub fn words(&self) -> String {
        self.arguments().join(" ")
    }

    /// The geometry of the filesystem that mkfs.xfs would create.
    ///
    /// # Errors
    /// There is no mkfs.xfs, or it refuses the options or the size; with its reason.
    pub fn plan(&self, device: MkfsDevice) -> Result<XfsGeometry, String> {
        let Some(program) = programs::find("mkfs.xfs") else { return self.assumed(device) };
        let failed = |e: std::io::Error| format!("mkfs.xfs: {e}");
        let (data, data_name) = memory().map_err(failed)?;
        let (log, log_name) = memory().map_err(failed)?;
        ftruncate(&log, MAX_LOG_BYTES).map_err(|e| failed(e.into()))?;
        let mut options = self.for_device(device);
        options.add('d', format!("file,name={data_name},size={}", device.bytes));
        if options.has('l', "logdev") {
            options.remove('l', &["logdev"]);
            options.add('l', format!("logdev={log_name},file"));
        }
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").arg("-N").args(options.arguments());
        let out = command.output().map_err(failed)?;
        drop((data, log));
        if !out.status.success() {
            return Err(format!("mkfs.xfs: {}", reason(&String::from_utf8_lossy(&out.stderr))));
        }
        let group = self.value('l', "agnum").and_then(|text| text.parse().ok());
        printed(&String::from_utf8_lossy(&out.stdout), group)
    }

    /// The geometry by `-d agsize=` alone: sizes and features that are most common, and the
    /// smallest log.
    fn assumed(&self, device: MkfsDevice) -> Result<XfsGeometry, String> {
        let size = self.value('d', "agsize").and_then(bytes).filter(|_| self.0.len() == 1);
        let size = size.filter(|&size| size >= MIN_AG_BYTES).ok_or(
            "no mkfs.xfs on this machine, which is asked for the geometry: install xfsprogs, or \
             give --mkfs '-d agsize=SIZE' alone",
        )?;
        let (total, blocks) = (device.bytes / 4096, size / 4096);
        let count = ag_count(total, blocks, MIN_AG_BYTES / 4096);
        let text = format!(
            "meta-data= isize=512 agcount={count} agsize={blocks} sectsz={} crc=1 finobt=1 \
             sparse=1 rmapbt=1 reflink=1\ndata= bsize=4096 blocks={} sunit={} swidth={}\n\
             log =internal blocks=16384 sunit=1",
            device.sector,
            total.min(count * blocks),
            device.chunk / 4096,
            (device.chunk / 4096).saturating_mul(device.disks.into()),
        );
        printed(&text, None)
    }

    /// The options for a file that stands for the device: mkfs.xfs asks a device for its stripe and
    /// sectors.
    fn for_device(&self, device: MkfsDevice) -> Self {
        let mut options = self.clone();
        options.0.retain(|o| !FLAGS.contains(o.letter));
        let block = self.value('b', "size").and_then(bytes).unwrap_or(4096).max(1);
        if !self.has('s', "size") && !self.has('s', "sectsize") {
            // With smaller blocks mkfs.xfs takes the logical sectors (validate_sectorsize).
            let sector = if block < device.sector.into() { 512 } else { device.sector };
            options.add('s', format!("size={sector}"));
        }
        let own = ["noalign", "su", "sw", "sunit", "swidth"].iter().any(|name| self.has('d', name));
        // mkfs.xfs ignores the stripe of a small device, one of a physical sector
        // (blkid_get_topology, libfrog/topology.c), and one that it cannot use.
        let usable = device.bytes >= 1 << 30
            && device.chunk > u64::from(device.sector)
            && device.chunk.is_multiple_of(block)
            && device.chunk.saturating_mul(device.disks.into()) <= i32::MAX as u64;
        if !own && usable && device.disks > 0 {
            options.add('d', format!("su={},sw={}", device.chunk, device.disks));
        }
        options
    }
}

/// The release of this machine's mkfs.xfs: `6.1.0`.
pub fn release() -> Option<String> {
    let found = Command::new(programs::find("mkfs.xfs")?).env_clear().arg("-V").output().ok()?;
    let text = String::from_utf8_lossy(&found.stdout).into_owned();
    text.split_whitespace().last().map(str::to_owned)
}

/// An empty file in memory, and its name for a child process.
fn memory() -> std::io::Result<(File, String)> {
    let file = File::from(memfd_create("mkfs.xfs", MemfdFlags::CLOEXEC)?);
    let name = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, name))
}

/// A number of bytes with a suffix of mkfs.xfs.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let number: u64 = digits.parse().ok()?;
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    number.checked_mul(unit)
}

/// The sentence before the usage in an error of mkfs.xfs.
fn reason(stderr: &str) -> String {
    let lines = stderr.lines().take_while(|line| !line.starts_with("Usage:"));
    let last = lines.filter(|line| !line.trim().is_empty()).last();
    printable::clean(last.unwrap_or("it failed without a reason").trim()).into_owned()
}
