//! Facts about md's modules: addresses of the functions that complete their bios, and the bits of a
//! stripe's state. The kernel loads a module when an array that needs it is assembled.

use super::btf::{self, Btf};
use super::symbols::{HIDDEN, KernelSymbols};

/// Address of an absent function. No function has this address.
const NOWHERE: u64 = HIDDEN;
const SYNC_ENDS: usize = crate::contract::SYNC_ENDS as usize;

/// Addresses and state bits of md. An unknown address is `u64::MAX`, an unknown bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md {
    /// `bi_end_io` of the stripe cache's reads (drivers/md/raid5.c, ops_run_io).
    pub raid5_end_read: u64,
    /// `bi_end_io` of the stripe cache's writes.
    pub raid5_end_write: u64,
    /// `bi_end_io` of reads that bypass the stripe cache (chunk_aligned_read).
    pub raid5_end_aligned: u64,
    /// `bi_end_io` of RAID 10 reads on behalf of tasks (drivers/md/raid10.c).
    pub raid10_end_read: u64,
    /// `bi_end_io` of RAID 10 writes on behalf of tasks.
    pub raid10_end_write: u64,
    /// `bi_end_io` of the flushes that md sends to members (drivers/md/md.c, md_flush_request).
    pub flush_end: u64,
    /// `bi_end_io` of the flushes for a partial parity log (drivers/md/raid5-ppl.c, ppl_do_flush).
    pub ppl_flush_end: u64,
    /// `bi_end_io` of dm-crypt's bios (drivers/md/dm-crypt.c, crypt_endio).
    pub crypt_end: u64,
    /// `bi_end_io` of the bios of resync, recovery, check, repair and reshape of RAID 1 and 10.
    pub sync_ends: [u64; SYNC_ENDS],
    /// `1 << STRIPE_SYNCING` of `stripe_head.state` (drivers/md/raid5.h).
    pub stripe_syncing: u64,
    /// `1 << STRIPE_EXPANDING | 1 << STRIPE_EXPAND_READY`: the former is cleared before a reshaped
    /// stripe is written (handle_stripe), the latter after that.
    pub stripe_expanding: u64,
    /// `1 << STRIPE_EXPAND_SOURCE`.
    pub stripe_expand_source: u64,
    /// The kernel hides addresses (kernel.kptr_restrict), even from root.
    pub hidden: bool,
    /// Programs cannot refer to types of modules: no CAP_SYS_ADMIN.
    pub no_module_types: bool,
}

impl Default for Md {
    fn default() -> Self {
        Self {
            raid5_end_read: NOWHERE,
            raid5_end_write: NOWHERE,
            raid5_end_aligned: NOWHERE,
            raid10_end_read: NOWHERE,
            raid10_end_write: NOWHERE,
            flush_end: NOWHERE,
            ppl_flush_end: NOWHERE,
            crypt_end: NOWHERE,
            sync_ends: [NOWHERE; SYNC_ENDS],
            stripe_syncing: 0,
            stripe_expanding: 0,
            stripe_expand_source: 0,
            hidden: false,
            no_module_types: false,
        }
    }
}

impl Md {
    /// Facts about the running kernel and the modules that are loaded now.
    pub(super) fn gather() -> Self {
        let mut md = Btf::load("raid456").map_or_else(Self::default, |b| Self::from_types(&b));
        md.add_symbols(&KernelSymbols::load());
        md
    }

    /// Facts from raid456's types.
    pub(super) fn from_types(btf: &Btf) -> Self {
        if btf::sees_modules() {
            return Self::with_stripe_states(btf.all_enumerators());
        }
        Self { no_module_types: true, ..Self::default() }
    }

    /// Finds the states of a stripe among the enumerators of raid456. Their enum has no name, so a
    /// CO-RE relocation cannot refer to it.
    fn with_stripe_states<'a>(enumerators: impl Iterator<Item = (&'a str, i32)>) -> Self {
        let mut md = Self::default();
        for (name, value) in enumerators {
            let bit = 1u64.checked_shl(value.unsigned_abs()).unwrap_or(0);
            match name {
                "STRIPE_SYNCING" => md.stripe_syncing = bit,
                "STRIPE_EXPANDING" | "STRIPE_EXPAND_READY" => md.stripe_expanding |= bit,
                "STRIPE_EXPAND_SOURCE" => md.stripe_expand_source = bit,
                _ => {}
            }
        }
        md
    }

    /// Looks up the addresses of functions.
    pub(super) fn add_symbols(&mut self, symbols: &KernelSymbols) {
        let mut find = |name| {
            let addresses: Vec<u64> = symbols.all(name).collect();
            self.hidden |= addresses.contains(&HIDDEN);
            addresses
        };
        let mut last = |name| find(name).last().copied().unwrap_or(NOWHERE);
        self.raid5_end_read = last("raid5_end_read_request");
        self.raid5_end_write = last("raid5_end_write_request");
        self.raid5_end_aligned = last("raid5_align_endio");
        self.raid10_end_read = last("raid10_end_read_request");
        self.raid10_end_write = last("raid10_end_write_request");
        self.flush_end = last("md_end_flush");
        self.ppl_flush_end = last("ppl_flush_endio");
        self.crypt_end = last("crypt_endio");
        // raid1 and raid10 both have functions with these names.
        let sync = ["end_sync_read", "end_sync_write", "end_reshape_read", "end_reshape_write"];
        for (end, address) in self.sync_ends.iter_mut().zip(sync.into_iter().flat_map(find)) {
            *end = address;
        }
    }

    /// True if the kernel's BTF describes the states of a stripe, and stripes can be recognised.
    pub fn has_stripes(&self) -> bool {
        self.raid5_end_read != NOWHERE && self.stripe_syncing != 0
    }

    /// True if resync IO of RAID 1 and 10 can be distinguished from IO of tasks.
    pub fn has_sync(&self) -> bool {
        self.sync_ends.iter().any(|e| *e != NOWHERE)
    }
}

#[cfg(test)]
mod tests {
    use super::{Md, NOWHERE};
    use crate::probe::symbols::KernelSymbols;

    fn md(symbols: &str) -> Md {
        let mut md = Md::default();
        md.add_symbols(&KernelSymbols::parse(symbols.as_bytes()));
        md
    }

    #[test]
    fn all_functions_with_the_same_name_are_found() {
        assert!(!md("").has_sync());
        let md = md("ffff000000001000 t end_sync_read\t[raid1]\nffff000000002000 t \
                     end_sync_read\t[raid10]\nffff000000003000 t \
                     raid5_end_read_request\t[raid456]\nffff000000004000 t \
                     raid5_end_read_request.cold\t[raid456]\n");
        assert_eq!(md.sync_ends[..3], [0xffff_0000_0000_1000, 0xffff_0000_0000_2000, NOWHERE]);
        assert_eq!(md.raid5_end_read, 0xffff_0000_0000_3000);
        assert!(md.has_sync() && !md.hidden);
    }

    #[test]
    fn hidden_addresses_are_unknown() {
        let md = md("0000000000000000 t raid5_end_write_request\t[raid456]\n");
        assert_eq!(md.raid5_end_write, NOWHERE);
        assert!(md.hidden && !md.has_stripes());
    }

    #[test]
    fn states_of_a_stripe_are_bits() {
        let md = Md::with_stripe_states(
            [
                ("STRIPE_SYNCING", 3),
                ("STRIPE_EXPANDING", 10),
                ("OTHER", 4),
                ("STRIPE_EXPAND_READY", 12),
            ]
            .into_iter(),
        );
        assert_eq!(md.stripe_syncing, 8);
        assert_eq!(md.stripe_expanding, 1 << 10 | 1 << 12);
        assert_eq!(md.stripe_expand_source, 0);
    }
}
