//! Kernel functions by address, from /proc/kallsyms.
//!
//! kallsyms has no sizes. A symbol ends at the next symbol of its module. The last symbol of a
//! module ends with its page, because modules do not share pages. Code that was loaded later
//! therefore has no name, instead of a wrong one.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};

use memchr::{memchr, memchr2};
use rustix::thread::CapabilitySet;

use super::{Sys, privileges};

/// Smallest page size. With larger pages the last functions of modules lose their names.
const MIN_PAGE: u64 = 4096;
/// Module name of BPF programs and trampolines, which are loaded and removed between other symbols.
const BPF: &str = "bpf";

/// Why the kernel's symbols cannot be read, and what to do (kallsyms_show_value(),
/// kernel/ksyms_common.c): with kernel.kptr_restrict=2 they are hidden from every process, with
/// other values from those without CAP_SYSLOG.
pub fn why_hidden() -> (&'static str, &'static str) {
    let restrict = std::fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
    if restrict.trim() == "2" {
        return ("kernel.kptr_restrict is 2", "as root: sysctl kernel.kptr_restrict=1");
    }
    match privileges::has(CapabilitySet::SYSLOG) {
        true => ("/proc/kallsyms has none", "use a kernel with CONFIG_KALLSYMS=y"),
        false => ("this process lacks CAP_SYSLOG", "run as root, or add cap_syslog with setcap"),
    }
}

/// Symbol table of the kernel.
#[derive(Debug, Default)]
pub struct Symbols {
    /// One symbol for each address, sorted.
    all: Vec<Symbol>,
    /// Concatenated names.
    names: String,
    /// Module names; index 0 is the kernel itself.
    modules: Vec<String>,
}

#[derive(Clone, Copy, Debug)]
struct Symbol {
    address: u64,
    name: u32,
    length: u16,
    module: u16,
    code: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Function<'a> {
    /// Symbol name: `ext4_mb_normalize_request.constprop.0`; `[bpf]` for a BPF program.
    pub name: &'a str,
    /// Module; `None` for the kernel itself.
    pub module: Option<&'a str>,
    /// Start address, which identifies the function.
    pub begin: u64,
    /// End address, exclusive.
    pub end: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    /// Module; empty for the kernel itself.
    pub module: String,
    /// Address; 0 if the kernel hides it (kernel.kptr_restrict).
    pub address: u64,
}

/// A line of /proc/kallsyms.
struct KallsymsLine<'a> {
    address: u64,
    kind: &'a str,
    name: &'a str,
    /// Empty for the kernel itself.
    module: &'a str,
}

impl<'a> KallsymsLine<'a> {
    /// Parses `ffffffff81000000 T _stext`, or `ffffffffc0100000 t good_group\t[ext4]` in a module.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(line).ok()?.trim_ascii_end().splitn(3, ' ');
        let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
        let (name, module) = name.split_once('\t').unwrap_or((name, ""));
        let module = module.strip_prefix('[').and_then(|m| m.strip_suffix(']'));
        Some(Self {
            address: u64::from_str_radix(address, 16).ok()?,
            kind,
            name,
            module: module.unwrap_or_default(),
        })
    }
}

/// Opens /proc/kallsyms. Reading it takes 40 ms, because the kernel formats some 100,000 lines.
pub fn open(sys: &Sys) -> io::Result<File> {
    privileges::raised(|| File::open(sys.path("/proc/kallsyms")))
}

/// Calls `on` with each line, and its newline if it has one.
fn lines(text: impl Read, mut on: impl FnMut(&[u8])) {
    let mut line = Vec::new();
    let mut text = BufReader::with_capacity(1 << 16, text);
    while text.read_until(b'\n', &mut line).is_ok_and(|n| n > 0) {
        on(&line);
        line.clear();
    }
}

/// Symbols with one of these names, in the order of the file.
pub fn named(text: impl Read, names: impl IntoIterator<Item = &'static str>) -> Vec<Named> {
    let wanted = Wanted::new(names);
    let mut found = Vec::new();
    lines(text, |line| {
        if wanted.may_have(line)
            && let Some(line) = KallsymsLine::parse(line)
            && wanted.names.contains(line.name)
        {
            let (name, module) = (line.name.to_owned(), line.module.to_owned());
            found.push(Named { name, module, address: line.address });
        }
    });
    found
}

/// Names to look for. Nearly all of the 100,000 lines are ruled out before they are parsed, by the
/// length and the last byte of their name.
struct Wanted {
    names: HashSet<&'static str>,
    /// By last byte: a bit for each length, modulo 64.
    ends: [u64; 256],
}

impl Wanted {
    fn new(names: impl IntoIterator<Item = &'static str>) -> Self {
        let names: HashSet<&str> = names.into_iter().collect();
        let mut ends = [0; 256];
        for name in &names {
            if let Some(last) = name.as_bytes().last() {
                ends[usize::from(*last)] |= 1 << (name.len() % 64);
            }
        }
        Self { names, ends }
    }

    fn may_have(&self, line: &[u8]) -> bool {
        let Some(space) = memchr(b' ', line) else { return false };
        let name = line.get(space + 3..).unwrap_or_default(); // after " T "
        let length = memchr2(b'\t', b'\n', name).unwrap_or(name.len());
        let last = name[..length].last();
        last.is_some_and(|last| self.ends[usize::from(*last)] >> (length % 64) & 1 == 1)
    }
}

impl Symbols {
    /// The table of the running kernel; empty if hidden or unreadable.
    pub fn load() -> Self {
        open(&Sys::live()).map(Self::parse).unwrap_or_default()
    }

    /// Parses the lines of /proc/kallsyms.
    pub fn parse(text: impl Read) -> Self {
        let mut table = Self { modules: vec![String::new()], ..Self::default() };
        lines(text, |line| {
            if let Some(line) = KallsymsLine::parse(line) {
                table.add(line);
            }
        });
        table.sort();
        table
    }

    fn add(&mut self, line: KallsymsLine<'_>) {
        let KallsymsLine { address, kind, name, module } = line;
        let (Ok(at), Ok(length)) = (u32::try_from(self.names.len()), u16::try_from(name.len()))
        else {
            return;
        };
        // Hidden by kptr_restrict, or a per-CPU offset.
        if address < 1 << 63 {
            return;
        }
        let Some(module) = self.module(module) else {
            return;
        };
        // Ends of code sections.
        let end = matches!(name, "_etext" | "_einittext" | "__softirqentry_text_end");
        self.names.push_str(name);
        self.all.push(Symbol {
            address,
            name: at,
            length,
            module,
            code: matches!(kind, "t" | "T" | "w" | "W") && !end,
        });
    }

    /// Index of a module. kallsyms lists the symbols of a module together.
    fn module(&mut self, name: &str) -> Option<u16> {
        if name.is_empty() {
            return Some(0);
        }
        let known = self.modules.iter().rposition(|m| m == name);
        let number = known.unwrap_or_else(|| {
            self.modules.push(name.to_owned());
            self.modules.len() - 1
        });
        u16::try_from(number).ok()
    }

    /// Sorts the symbols and keeps one for each address: the one with the lowest rank.
    fn sort(&mut self) {
        let mut all = std::mem::take(&mut self.all);
        // A stable sort is fast for the mostly sorted input.
        all.sort_by_key(|s| s.address);
        all.dedup_by(|next, first| {
            let same = next.address == first.address;
            if same && self.rank(next) < self.rank(first) {
                *first = *next;
            }
            same
        });
        all.shrink_to_fit();
        self.names.shrink_to_fit();
        self.all = all;
    }

    /// Rank of a symbol, lower is better: code before data, then fewer leading underscores, then
    /// shorter names.
    fn rank(&self, symbol: &Symbol) -> (bool, usize, u16) {
        let name = self.name(symbol);
        let underscores = name.len() - name.trim_start_matches('_').len();
        (!symbol.code, underscores, symbol.length)
    }

    fn name(&self, symbol: &Symbol) -> &str {
        let from = symbol.name as usize;
        self.names.get(from..from + usize::from(symbol.length)).unwrap_or_default()
    }

    /// False if kernel.kptr_restrict hides the symbols, or they cannot be read.
    pub fn has_symbols(&self) -> bool {
        !self.all.is_empty()
    }

    /// The function that contains `address`.
    pub fn at(&self, address: u64) -> Option<Function<'_>> {
        let after = self.all.partition_point(|s| s.address <= address);
        let symbol = self.all.get(after.checked_sub(1)?)?;
        let end = self.all.get(after).filter(|n| n.module == symbol.module).map_or_else(
            || (symbol.address + 1).checked_next_multiple_of(MIN_PAGE),
            |n| Some(n.address),
        )?;
        if !symbol.code || address >= end {
            return None;
        }
        let module = self.modules.get(usize::from(symbol.module))?.as_str();
        if module == BPF {
            return Some(Function { name: "[bpf]", module: Some(BPF), begin: symbol.address, end });
        }
        // Padding before a function (CONFIG_FUNCTION_PADDING) can contain a return address minus
        // one.
        let name = self.name(symbol);
        Some(Function {
            name: name.strip_prefix("__pfx_").unwrap_or(name),
            module: (!module.is_empty()).then_some(module),
            begin: symbol.address,
            end,
        })
    }

    /// Address range of a function of the kernel itself.
    pub fn range(&self, name: &str) -> Option<(u64, u64)> {
        let symbol = self.all.iter().find(|s| s.code && s.module == 0 && self.name(s) == name)?;
        let found = self.at(symbol.address)?;
        Some((found.begin, found.end))
    }
}

#[cfg(test)]
mod tests {
    use super::Symbols;

    const TEXT: &str = "\
0000000000001000 A fixed_percpu_data
ffffffff81000000 T _stext
ffffffff81000000 t first
ffffffff810000f0 t __pfx_second
ffffffff81000100 T second
ffffffff81000100 T __se_second
ffffffff81000200 T _etext
ffffffff81000300 r table
not a line
ffffffffc0200000 t stripe\t[raid456]
ffffffffc0100000 t good_group\t[ext4]
ffffffffc0100800 t last_of_ext4\t[ext4]
ffffffffc0300040 t bpf_prog_1_a\t[bpf]
ffffffffc0300080 t bpf_prog_2_b\t[bpf]
";

    fn name(symbols: &Symbols, address: u64) -> Option<&str> {
        symbols.at(address).map(|f| f.name)
    }

    #[test]
    fn addresses_before_between_and_after_symbols() {
        let table = Symbols::parse(TEXT.as_bytes());
        assert!(table.has_symbols());
        for (address, expected) in [
            (0, None),
            (0x1000, None),
            (0xffff_ffff_80ff_ffff, None),
            (0xffff_ffff_8100_0000, Some("first")),
            (0xffff_ffff_8100_00ef, Some("first")),
            // The padding before `second`.
            (0xffff_ffff_8100_00ff, Some("second")),
            (0xffff_ffff_8100_0100, Some("second")),
            (0xffff_ffff_8100_01ff, Some("second")),
            // After the code, and data.
            (0xffff_ffff_8100_0200, None),
            (0xffff_ffff_8100_0310, None),
            (0xffff_ffff_bfff_ffff, None),
            (0xffff_ffff_c010_0000, Some("good_group")),
            (0xffff_ffff_c010_07ff, Some("good_group")),
            (0xffff_ffff_c010_0fff, Some("last_of_ext4")),
            // Code loaded later, after the last symbol.
            (0xffff_ffff_c010_1000, None),
            (0xffff_ffff_c020_0000, Some("stripe")),
            (0xffff_ffff_c020_1000, None),
            (0xffff_ffff_c030_0050, Some("[bpf]")),
            (0xffff_ffff_c030_00a0, Some("[bpf]")),
            (u64::MAX, None),
        ] {
            assert_eq!(name(&table, address), expected, "{address:#x}");
        }
    }

    #[test]
    fn functions_have_their_module() {
        let table = Symbols::parse(TEXT.as_bytes());
        let module = |address| table.at(address).and_then(|f| f.module);
        assert_eq!(module(0xffff_ffff_c010_0001), Some("ext4"));
        assert_eq!(module(0xffff_ffff_c020_0001), Some("raid456"));
        assert_eq!(module(0xffff_ffff_8100_0001), None);
        let begin = 0xffff_ffff_8100_0100;
        assert_eq!(table.range("second"), Some((begin, begin + 0x100)));
        assert_eq!(table.range("stripe"), None);
    }

    #[test]
    fn hidden_symbols_are_none() {
        let text = "0000000000000000 T _stext\n0000000000000000 t ext4_mb_good_group\t[ext4]\n";
        let table = Symbols::parse(text.as_bytes());
        assert!(!table.has_symbols());
        assert_eq!(table.at(0), None);
        assert_eq!(table.at(0xffff_ffff_8100_0000), None);
    }

    #[test]
    fn every_address_is_in_the_function_that_begins_last_before_it() {
        use proptest::prelude::*;
        const BASE: u64 = 0xffff_ffff_8100_0000;
        let some = proptest::collection::btree_set(0u64..5000, 1..40);
        proptest!(|(begins in some, at in 0u64..6000)| {
            let text: String =
                begins.iter().rev().map(|b| format!("{:x} t f{b}\n", BASE + b)).collect();
            let table = Symbols::parse(text.as_bytes());
            let begin = begins.range(..=at).next_back();
            let last = begins.range(at + 1..).next().is_none();
            let expected = begin.filter(|b| !last || at < (*b + 1).next_multiple_of(4096));
            prop_assert_eq!(
                table.at(BASE + at).map(|f| f.name.to_owned()),
                expected.map(|b| format!("f{b}"))
            );
        });
    }
}
