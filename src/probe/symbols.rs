//! Kernel symbols whose presence or address decides which programs are loaded.

use std::sync::{Arc, Mutex, PoisonError};

use super::alloc::functions;
use crate::machine::symbols::{self, Named};
use crate::machine::{Sys, modules};

/// Address of a symbol that the kernel hides (kernel.kptr_restrict).
pub(super) const HIDDEN: u64 = u64::MAX;

/// Symbols that [`super::facts`] and [`super::md`] need.
const NAMES: [&str; 26] = [
    "_stext",
    "init_task",
    "vmemmap_base",
    "page_offset_base",
    "iomap_dio_bio_end_io",
    "iomap_dio_simple_pool",
    "ext4_end_bio",
    "clone_endio",
    "submit_bio_wait_endio",
    "bio_wait_end_io",
    "xfs_buf_bio_end_io",
    "xlog_bio_end_io",
    "bio_chain_endio",
    "bpf_prog_inc_misses_counter",
    "raid5_end_read_request",
    "raid5_end_write_request",
    "raid5_align_endio",
    "raid10_end_read_request",
    "raid10_end_write_request",
    "md_end_flush",
    "ppl_flush_endio",
    "crypt_endio",
    "end_sync_read",
    "end_sync_write",
    "end_reshape_read",
    "end_reshape_write",
];

/// Symbols with their modules ("": the kernel itself), and the figure that is lost without each.
/// The list leaves out symbols that only some kernels have, and those whose addresses
/// [`super::plan`] examines.
pub(super) const EXPECTED: [(&str, &str, &str); 14] = [
    ("init_task", "", "origins of blocks in pages without a buffer head, until one has been seen"),
    ("bio_chain_endio", "xfs", "origins of XFS's metadata in bios that are split"),
    ("xlog_bio_end_io", "xfs", "recognition of XFS's log by its bios"),
    ("ext4_end_bio", "ext4", "files of writes of encrypted files"),
    ("clone_endio", "dm_mod", "files of IO through device mapper"),
    ("crypt_endio", "dm_crypt", "tasks of IO through dm-crypt, which counts twice"),
    ("raid5_end_read_request", "raid456", "reason of RAID 4/5/6 reads"),
    ("raid5_end_write_request", "raid456", "reason of RAID 4/5/6 writes"),
    ("raid10_end_read_request", "raid10", "origins of RAID 10 reads during a reshape"),
    ("raid10_end_write_request", "raid10", "origins of RAID 10 writes during a reshape"),
    ("end_sync_read", "raid1", "resync reads of RAID 1"),
    ("end_sync_write", "raid1", "resync writes of RAID 1"),
    ("end_sync_read", "raid10", "resync reads of RAID 10"),
    ("end_sync_write", "raid10", "resync writes of RAID 10"),
];

/// Addresses of the symbols in [`NAMES`] and [`functions()`]; absent symbols have no entry.
#[derive(Debug, Default)]
pub(super) struct KernelSymbols(Vec<Named>);

/// Symbols from the last read of /proc/kallsyms, and [`modules::digest`] at that time.
static CACHE: Mutex<Option<(u64, Arc<KernelSymbols>)>> = Mutex::new(None);

impl KernelSymbols {
    /// Symbols of the running kernel. Cached: reads /proc/kallsyms again, which takes 40 ms, only
    /// after modules were loaded or removed.
    pub fn load() -> Arc<Self> {
        let modules = modules::digest();
        let mut read = CACHE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((cached, symbols)) = &*read
            && *cached == modules
        {
            return Arc::clone(symbols);
        }
        let symbols = symbols::open(&Sys::live()).map(Self::parse);
        let symbols = Arc::new(symbols.unwrap_or_default());
        *read = Some((modules, Arc::clone(&symbols)));
        symbols
    }

    pub fn parse(text: impl std::io::Read) -> Self {
        Self(symbols::named(text, NAMES.into_iter().chain(functions())))
    }

    /// Addresses of all symbols with this name: several modules can have functions with the same
    /// name.
    pub fn all(&self, name: &str) -> impl Iterator<Item = u64> {
        debug_assert!(NAMES.contains(&name) || functions().any(|f| f == name), "{name}");
        self.0.iter().filter(move |s| s.name == name).map(address)
    }

    /// Address of the last symbol with this name: 0 if there is none, [`HIDDEN`] if the kernel
    /// hides it.
    pub fn address(&self, name: &str) -> u64 {
        self.all(name).last().unwrap_or(0)
    }

    /// Address of the symbol of this module, or else of the first one that is built in; 0 and
    /// [`HIDDEN`] as in [`Self::address`].
    pub fn address_in(&self, module: &str, name: &str) -> u64 {
        let find = |of: &str| self.0.iter().find(|s| s.name == name && s.module == of);
        find(module).or_else(|| find("")).map_or(0, address)
    }

    /// True if the kernel's text, and therefore its memory, is not at a random address (x86-64:
    /// CONFIG_PHYSICAL_START, and kaslr_memory_enabled() in arch/x86/mm/kaslr.c).
    pub fn has_fixed_memory(&self) -> bool {
        self.address("_stext") == 0xffff_ffff_8100_0000
    }

    /// Bit mask of [`EXPECTED`]: symbols that the kernel, or a module that it has, lacks.
    pub fn absent(&self, has: impl Fn(&str) -> bool) -> u32 {
        (0..).zip(EXPECTED).fold(0, |mask, (bit, (name, module, _))| {
            let lacks = self.address_in(module, name) == 0 && (module.is_empty() || has(module));
            let lacks = lacks && (name != "init_task" || !self.has_fixed_memory());
            mask | u32::from(lacks) << bit
        })
    }

    /// True if the kernel has the symbol.
    pub fn has(&self, name: &str) -> bool {
        self.all(name).next().is_some()
    }
}

fn address(symbol: &Named) -> u64 {
    if symbol.address == 0 { HIDDEN } else { symbol.address }
}

#[cfg(test)]
mod tests {
    use super::{EXPECTED, HIDDEN, KernelSymbols, NAMES};

    /// One symbol is removed at a time.
    #[test]
    fn an_absent_symbol_of_a_module_that_is_loaded_is_found() {
        let line = |(name, module, _): (&str, &str, &str)| match module {
            "" => format!("ffffffff81000000 D {name}\n"),
            module => format!("ffffffffc0000010 t {name}\t[{module}]\n"),
        };
        for (at, gone) in EXPECTED.into_iter().enumerate() {
            assert!(NAMES.contains(&gone.0), "{gone:?}");
            let rest: String = EXPECTED.into_iter().filter(|e| *e != gone).map(line).collect();
            let symbols = KernelSymbols::parse(rest.as_bytes());
            assert_eq!(symbols.absent(|_| true), 1 << at, "{gone:?}");
            let core = u32::from(gone.1.is_empty()) << at;
            assert_eq!(symbols.absent(|module| module != gone.1), core, "{gone:?}");
        }
        // In a kernel with all modules built in.
        let names = NAMES.map(|name| format!("ffffffff81000000 t {name}\n")).concat();
        assert_eq!(KernelSymbols::parse(names.as_bytes()).absent(|_| true), 0);
    }

    #[test]
    fn absent_and_hidden_symbols_differ() {
        let text = "0000000000000000 d vmemmap_base\nffffffff81000000 t \
                    clone_endio\t[dm_mod]\nffffffff81000010 t other\n";
        let symbols = KernelSymbols::parse(text.as_bytes());
        assert_eq!(symbols.address("vmemmap_base"), HIDDEN);
        assert_eq!(symbols.address("clone_endio"), 0xffff_ffff_8100_0000);
        assert_eq!(symbols.address("page_offset_base"), 0);
        assert!(symbols.has("vmemmap_base") && !symbols.has("ext4_end_bio"));
        assert_eq!(symbols.0.len(), 2);
    }

    /// dm, dm-flakey and dm-clone each have a function of this name.
    #[test]
    fn a_function_is_that_of_its_module() {
        let text = "ffffffffc0000010 t clone_endio\t[dm_mod]\n\
                    ffffffffc0100010 t clone_endio\t[dm_flakey]\n";
        let symbols = KernelSymbols::parse(text.as_bytes());
        assert_eq!(symbols.address_in("dm_mod", "clone_endio"), 0xffff_ffff_c000_0010);
        // Without dm_mod, only dm can be built in, which its targets need.
        let text = "ffffffff81000010 t clone_endio\nffffffffc0100010 t clone_endio\t[dm_flakey]\n";
        let symbols = KernelSymbols::parse(text.as_bytes());
        assert_eq!(symbols.address_in("dm_mod", "clone_endio"), 0xffff_ffff_8100_0010);
        let symbols = KernelSymbols::parse(&b"0 t clone_endio\t[dm_mod]\n"[..]);
        assert_eq!(symbols.address_in("dm_mod", "clone_endio"), HIDDEN);
        assert_eq!(symbols.address_in("dm_mod", "bio_wait_end_io"), 0);
    }
}
