//! Kernel symbols whose presence or address decides which programs are loaded.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use super::alloc::functions;
use crate::machine::symbols::{self, Named};
use crate::machine::{Sys, modules};

/// Address of a symbol that the kernel hides (kernel.kptr_restrict).
pub(super) const HIDDEN: u64 = u64::MAX;

/// Symbols that [`super::facts`] and [`super::md`] need.
const NAMES: [&str; 22] = [
    "vmemmap_base",
    "page_offset_base",
    "iomap_dio_bio_end_io",
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
        let names: HashSet<&str> = NAMES.into_iter().chain(functions()).collect();
        Self(symbols::named(text, |name| names.contains(name)))
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
    use super::{HIDDEN, KernelSymbols};

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
