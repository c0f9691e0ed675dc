//! What md's modules tell of themselves: where the functions lie that complete their bios, and how they number the states of a
//! stripe. Asked of the running kernel; the modules are loaded when an array of theirs runs.

use std::ffi::{CStr, CString};

use libbpf_rs::libbpf_sys as sys;

/// No function has this address: what is compared with it never matches.
const NOWHERE: u64 = u64::MAX;
const SYNC_ENDS: usize = crate::contract::SYNC_ENDS as usize;
/// `BTF_KIND_ENUM` (include/uapi/linux/btf.h).
const KIND_ENUM: u32 = 6;

/// Addresses are `u64::MAX`, and bits 0, if the kernel does not give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Md {
    /// `bi_end_io` of the stripe cache's reads (drivers/md/raid5.c, ops_run_io).
    pub raid5_end_read: u64,
    /// `bi_end_io` of the stripe cache's writes.
    pub raid5_end_write: u64,
    /// `bi_end_io` of a RAID 10's reads for tasks (drivers/md/raid10.c).
    pub raid10_end_read: u64,
    /// `bi_end_io` of a RAID 10's writes for tasks.
    pub raid10_end_write: u64,
    /// `bi_end_io` of dm-crypt's bios (drivers/md/dm-crypt.c, crypt_endio).
    pub crypt_end: u64,
    /// `bi_end_io` of the bios of resync, recovery, check, repair and reshape of RAID 1 and 10.
    pub sync_ends: [u64; SYNC_ENDS],
    /// `1 << STRIPE_SYNCING` of `stripe_head.state` (drivers/md/raid5.h).
    pub stripe_syncing: u64,
    /// `1 << STRIPE_EXPANDING | 1 << STRIPE_EXPAND_READY`: the former is taken away before a reshaped stripe is written
    /// (handle_stripe), the latter when it has been.
    pub stripe_expanding: u64,
    /// `1 << STRIPE_EXPAND_SOURCE`.
    pub stripe_expand_source: u64,
    /// The kernel hides addresses (kptr_restrict), even from us.
    pub hidden: bool,
}

impl Default for Md {
    fn default() -> Self {
        Self {
            raid5_end_read: NOWHERE,
            raid5_end_write: NOWHERE,
            raid10_end_read: NOWHERE,
            raid10_end_write: NOWHERE,
            crypt_end: NOWHERE,
            sync_ends: [NOWHERE; SYNC_ENDS],
            stripe_syncing: 0,
            stripe_expanding: 0,
            stripe_expand_source: 0,
            hidden: false,
        }
    }
}

impl Md {
    /// Takes a symbol of /proc/kallsyms. `module`: `[raid1]`, or empty for the kernel itself.
    pub(super) fn symbol(&mut self, name: &str, module: &str, address: u64) {
        let place = match (name, module) {
            ("raid5_end_read_request", _) => &mut self.raid5_end_read,
            ("raid5_end_write_request", _) => &mut self.raid5_end_write,
            ("raid10_end_read_request", _) => &mut self.raid10_end_read,
            ("raid10_end_write_request", _) => &mut self.raid10_end_write,
            ("crypt_endio", _) => &mut self.crypt_end,
            // RAID 1 and 10 have functions of the same name; built into the kernel they have no module either.
            ("end_sync_read" | "end_sync_write" | "end_reshape_read" | "end_reshape_write", _) => {
                match self.sync_ends.iter_mut().find(|e| **e == NOWHERE) {
                    Some(free) => free,
                    None => return,
                }
            }
            _ => return,
        };
        if address == 0 {
            self.hidden = true;
        } else {
            *place = address;
        }
    }

    /// True if the kernel's BTF describes `struct stripe_head`.
    pub fn knows_stripes(&self) -> bool {
        self.raid5_end_read != NOWHERE && self.stripe_syncing != 0
    }

    /// Whether a resync of RAID 1 and 10 can be told from what users do.
    pub fn knows_sync(&self) -> bool {
        self.sync_ends.iter().any(|e| *e != NOWHERE)
    }

    /// The states of a stripe are an enum without a name, which no CO-RE relocation can ask for.
    pub(super) fn stripe_states(&mut self) {
        let bit = |value: i32| 1u64.checked_shl(value.unsigned_abs()).unwrap_or(0);
        each_enumerator("raid456", |name, value| match name {
            b"STRIPE_SYNCING" => self.stripe_syncing = bit(value),
            b"STRIPE_EXPANDING" | b"STRIPE_EXPAND_READY" => self.stripe_expanding |= bit(value),
            b"STRIPE_EXPAND_SOURCE" => self.stripe_expand_source = bit(value),
            _ => {}
        });
    }
}

/// All enumerators of the 32-bit enums of a module, or of the kernel where it is no module. Nothing when there are no types.
fn each_enumerator(module: &str, mut see: impl FnMut(&[u8], i32)) {
    let Ok(module) = CString::new(module) else {
        return;
    };
    // SAFETY: libbpf's own objects, checked for null, used only between their creation and btf__free(); types and names point
    // into them; an enum's enumerators follow its btf_type, as many as its vlen says (include/uapi/linux/btf.h), which libbpf
    // has verified when it loaded the types.
    unsafe {
        let base = sys::btf__load_vmlinux_btf();
        if base.is_null() {
            return;
        }
        let split = sys::btf__load_module_btf(module.as_ptr(), base);
        let (btf, from) = if split.is_null() {
            (base, 1)
        } else {
            (split, sys::btf__type_cnt(base))
        };
        for id in from..sys::btf__type_cnt(btf) {
            let kind = sys::btf__type_by_id(btf, id);
            if kind.is_null() || (*kind).info >> 24 & 0x1f != KIND_ENUM {
                continue;
            }
            let first = kind.add(1).cast::<sys::btf_enum>();
            for i in 0..((*kind).info & 0xffff) as usize {
                let one = *first.add(i);
                let name = sys::btf__name_by_offset(btf, one.name_off);
                if !name.is_null() {
                    see(CStr::from_ptr(name).to_bytes(), one.val);
                }
            }
        }
        if !split.is_null() {
            sys::btf__free(split);
        }
        sys::btf__free(base);
    }
}

#[cfg(test)]
mod tests {
    use super::{Md, NOWHERE};

    #[test]
    fn functions_of_one_name_all_count() {
        let mut md = Md::default();
        assert!(!md.knows_sync());
        md.symbol("end_sync_read", "[raid1]", 0xffff_0000_0000_1000);
        md.symbol("end_sync_read", "[raid10]", 0xffff_0000_0000_2000);
        md.symbol("raid5_end_read_request", "[raid456]", 0xffff_0000_0000_3000);
        md.symbol(
            "raid5_end_read_request.cold",
            "[raid456]",
            0xffff_0000_0000_4000,
        );
        assert_eq!(
            md.sync_ends[..3],
            [0xffff_0000_0000_1000, 0xffff_0000_0000_2000, NOWHERE]
        );
        assert_eq!(md.raid5_end_read, 0xffff_0000_0000_3000);
        assert!(md.knows_sync() && !md.hidden);
    }

    #[test]
    fn a_hidden_address_is_no_address() {
        let mut md = Md::default();
        md.symbol("raid5_end_write_request", "[raid456]", 0);
        assert_eq!(md.raid5_end_write, NOWHERE);
        assert!(md.hidden);
    }
}
