//! Types of the running kernel and of one of its modules, from BTF.
//!
//! libbpf_rs reads only the kernel's types: it has no `btf__load_module_btf()`. Therefore this
//! module calls libbpf directly.

use std::ffi::{CStr, CString, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStringExt as _;
use std::slice;

use libbpf_rs::btf::BtfKind;
use libbpf_rs::libbpf_sys as sys;

use crate::machine::privileges::raised;

/// Error for a kernel without types.
pub(super) const NO_TYPES: &str = "this kernel does not describe its types (no \
                                   /sys/kernel/btf/vmlinux): raidtrace needs a kernel built with \
                                   CONFIG_DEBUG_INFO_BTF=y, as Debian's are from Debian 11 on";

/// Error for a kernel whose ring buffers must not be used.
pub(super) const SLEEPING_RING: &str = "record, serve, slow and CPU samples need a BPF ring \
                                        buffer, and the lock of this PREEMPT_RT \
     kernel's ring buffers can sleep where sleeping is not allowed: use a kernel with the commit \
     \"bpf: Use raw_spinlock_t in ringbuf\" (Linux 6.12, Debian 12's kernel); top needs none";

/// A file with edited types instead of the kernel's, for tests of debug builds.
pub(super) fn custom() -> Option<OsString> {
    std::env::var_os("RAIDTRACE_BTF").filter(|_| cfg!(debug_assertions))
}

/// Types of the kernel and, if it is loaded, of one module.
pub(super) struct Btf {
    kernel: *mut sys::btf,
    /// Null if the module is built in or not loaded. Split BTF on top of `kernel`: a lookup covers
    /// both.
    module: *mut sys::btf,
}

/// True if programs can refer to types of modules. libbpf finds these types by BTF id, and the
/// kernel returns BTF ids only with CAP_SYS_ADMIN (bpf_obj_get_next_id(), kernel/bpf/syscall.c).
/// The files in /sys/kernel/btf are readable without it.
pub(super) fn sees_modules() -> bool {
    let mut id = 0;
    // SAFETY: the kernel writes only `id`.
    raised(|| unsafe { sys::bpf_btf_get_next_id(0, &raw mut id) == 0 })
}

impl Btf {
    /// `None` if the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF).
    pub fn load(module: &str) -> Option<Self> {
        let module = CString::new(module).ok()?;
        // SAFETY: `kernel` is checked for null; `module` refers to it, so `drop` frees `module`
        // first.
        unsafe {
            let kernel = match custom().and_then(|path| CString::new(path.into_vec()).ok()) {
                Some(path) => sys::btf__parse(path.as_ptr(), std::ptr::null_mut()),
                None => sys::btf__load_vmlinux_btf(),
            };
            if kernel.is_null() {
                return None;
            }
            let module = sys::btf__load_module_btf(module.as_ptr(), kernel);
            Some(Self { kernel, module })
        }
    }

    fn all(&self) -> *const sys::btf {
        if self.module.is_null() { self.kernel } else { self.module }
    }

    /// True if there is a type with this name and kind.
    pub fn has(&self, name: &str, kind: BtfKind) -> bool {
        self.find(name, kind).is_some()
    }

    fn find(&self, name: &str, kind: BtfKind) -> Option<&sys::btf_type> {
        let name = CString::new(name).ok()?;
        // SAFETY: the types live as long as `self`.
        let id = unsafe { sys::btf__find_by_name_kind(self.all(), name.as_ptr(), kind as u32) };
        self.at(u32::try_from(id).ok().filter(|id| *id > 0)?)
    }

    fn at(&self, id: u32) -> Option<&sys::btf_type> {
        // SAFETY: null, or a type that lives as long as `self`.
        unsafe { sys::btf__type_by_id(self.all(), id).as_ref() }
    }

    fn name(&self, offset: u32) -> &str {
        // SAFETY: null, or a C string that lives as long as `self`.
        let name = unsafe {
            let name = sys::btf__name_by_offset(self.all(), offset);
            (!name.is_null()).then(|| CStr::from_ptr(name))
        };
        name.and_then(|n| n.to_str().ok()).unwrap_or_default()
    }

    /// Number of arguments of a tracepoint: `btf_trace_X` is a pointer to the prototype of X's
    /// probes, which is `void *__data`, then the arguments.
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Option<usize> {
        let typedef = self.find(&format!("btf_trace_{tracepoint}"), BtfKind::Typedef)?;
        let pointer = self.target(typedef, BtfKind::Ptr)?;
        let prototype = self.target(pointer, BtfKind::FuncProto)?;
        count(prototype).checked_sub(1)
    }

    /// Number of arguments of a function.
    pub fn function_arguments(&self, function: &str) -> Option<usize> {
        let function = self.find(function, BtfKind::Func)?;
        self.target(function, BtfKind::FuncProto).map(count)
    }

    /// The type that a typedef, pointer or function refers to, if that type is of the expected
    /// kind.
    fn target(&self, from: &sys::btf_type, expected: BtfKind) -> Option<&sys::btf_type> {
        // SAFETY: the union is a type id for typedefs, pointers and functions
        // (include/uapi/linux/btf.h), and four bytes for all types.
        let id = unsafe { from.__bindgen_anon_1.type_ };
        self.at(id).filter(|t| kind(t) == expected as u32)
    }

    /// Name of the type of a structure's member; empty for a pointer.
    fn member_type(&self, structure: &str, member: &str) -> Option<&str> {
        let found = self.find(structure, BtfKind::Struct)?;
        // SAFETY: the members of a structure follow its btf_type.
        let members: &[sys::btf_member] = unsafe { records_after(found) };
        let member = members.iter().find(|m| self.name(m.name_off) == member)?;
        self.at(member.type_).map(|t| self.name(t.name_off))
    }

    /// True if the lock of ring buffers can sleep: a spinlock_t (before commit 8b62645b09f8) of
    /// PREEMPT_RT, where a spinlock is an rt_mutex with the name `lock`.
    pub fn has_sleeping_ring(&self) -> bool {
        self.has_field("spinlock.lock")
            && self.member_type("bpf_ringbuf", "spinlock") == Some("spinlock_t")
    }

    /// True if the kernel has a field, for example "bio.bi_iter.bi_idx", or a structure.
    pub fn has_field(&self, path: &str) -> bool {
        self.offset(path).is_some()
    }

    /// Offset of a field in bytes; 0 for a structure.
    pub fn offset(&self, path: &str) -> Option<u64> {
        let mut names = path.split('.');
        let mut at = (self.find(names.next()?, BtfKind::Struct)?, 0);
        for name in names {
            let (inner, bits) = self.member(at.0, name)?;
            at = (inner, at.1 + bits);
        }
        Some(at.1 / 8)
    }

    /// Type and offset in bits of a member, which may be in an anonymous structure or union.
    fn member(&self, outer: &sys::btf_type, name: &str) -> Option<(&sys::btf_type, u64)> {
        if ![BtfKind::Struct as u32, BtfKind::Union as u32].contains(&kind(outer)) {
            return None;
        }
        // SAFETY: the members of a structure or union follow its btf_type.
        let members: &[sys::btf_member] = unsafe { records_after(outer) };
        members.iter().find_map(|m| {
            // SAFETY: libbpf returns an error for an invalid id.
            let id = unsafe { sys::btf__resolve_type(self.all(), m.type_) };
            let inner = self.at(u32::try_from(id).ok()?)?;
            // The upper bits are the size of a bit field.
            let bits = u64::from(m.offset & 0xff_ffff);
            match self.name(m.name_off) {
                "" => self.member(inner, name).map(|(found, more)| (found, bits + more)),
                own => (own == name).then_some((inner, bits)),
            }
        })
    }

    /// Names and values of an enum.
    pub fn enumerators(&self, name: &str) -> impl Iterator<Item = (&str, i32)> {
        self.find(name, BtfKind::Enum).into_iter().flat_map(|e| self.values(e))
    }

    /// Names and values of all enums of the module, or of the kernel if the module is not loaded.
    pub fn all_enumerators(&self) -> impl Iterator<Item = (&str, i32)> {
        // SAFETY: `kernel` is not null.
        let types = |btf| unsafe { sys::btf__type_cnt(btf) };
        let first = if self.module.is_null() { 1 } else { types(self.kernel) };
        self.enumerators_among(first..types(self.all()))
    }

    /// Value of an enumerator of any enum of the kernel itself, including anonymous enums.
    pub fn kernel_enumerator(&self, name: &str) -> Option<i32> {
        // SAFETY: `kernel` is not null.
        let types = unsafe { sys::btf__type_cnt(self.kernel) };
        self.enumerators_among(1..types).find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    fn enumerators_among(&self, ids: Range<u32>) -> impl Iterator<Item = (&str, i32)> {
        ids.filter_map(|id| self.at(id))
            .filter(|t| kind(t) == BtfKind::Enum as u32)
            .flat_map(|e| self.values(e))
    }

    fn values(&self, enumeration: &sys::btf_type) -> impl Iterator<Item = (&str, i32)> {
        // SAFETY: the enumerators of a 32-bit enum follow its btf_type.
        let values: &[sys::btf_enum] = unsafe { records_after(enumeration) };
        values.iter().map(|v| (self.name(v.name_off), v.val))
    }
}

fn kind(of: &sys::btf_type) -> u32 {
    of.info >> 24 & 0x1f
}

/// Number of members, enumerators or parameters: `BTF_INFO_VLEN`.
fn count(of: &sys::btf_type) -> usize {
    (of.info & 0xffff) as usize
}

/// The records that follow a type.
///
/// # Safety
///
/// `of` must be a type in libbpf's memory, of the kind whose records are `T`. libbpf checked their
/// number when it loaded the types (`btf_sanity_check()`).
unsafe fn records_after<T>(of: &sys::btf_type) -> &[T] {
    // SAFETY: the caller guarantees the type and `T`. BTF aligns types and records to four bytes.
    unsafe { slice::from_raw_parts(std::ptr::from_ref(of).add(1).cast(), count(of)) }
}

impl Drop for Btf {
    fn drop(&mut self) {
        // SAFETY: libbpf made both; each is freed once, the dependent one first. Null is allowed.
        unsafe {
            sys::btf__free(self.module);
            sys::btf__free(self.kernel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Btf, BtfKind};

    #[test]
    fn types_of_the_running_kernel() {
        let Some(btf) = Btf::load("no_such_module") else {
            println!("skipped: the kernel has no BTF");
            return;
        };
        assert!(btf.has("list_head", BtfKind::Struct) && !btf.has("list_head", BtfKind::Func));
        assert_eq!(btf.member_type("list_head", "prev"), Some(""));
        assert_eq!(btf.member_type("task_struct", "pi_lock"), Some("raw_spinlock_t"));
        assert!(btf.has_field("list_head.prev") && !btf.has_field("list_head.last"));
        assert!(btf.has_field("bio.bi_iter.bi_sector") && !btf.has_field("no_such_struct.prev"));
        assert!(btf.has_field("page.mapping"), "in an anonymous union");
        assert_eq!(btf.offset("list_head.prev"), Some(8));
        let (iter, size) = (btf.offset("bio.bi_iter"), btf.offset("bvec_iter.bi_size"));
        assert_eq!(btf.offset("bio.bi_iter.bi_size"), iter.zip(size).map(|(a, b)| a + b));
        assert_eq!(btf.tracepoint_arguments("block_rq_complete"), Some(3));
        assert_eq!(btf.tracepoint_arguments("no_such_tracepoint"), None);
        let has_pidtype_pid = |e: Vec<(&str, i32)>| e.contains(&("PIDTYPE_PID", 0));
        assert!(has_pidtype_pid(btf.enumerators("pid_type").collect()));
        assert!(has_pidtype_pid(btf.all_enumerators().collect()));
        assert_eq!(btf.kernel_enumerator("PIDTYPE_PID"), Some(0));
        assert_eq!(btf.kernel_enumerator("no_such_enumerator"), None);
        assert_eq!(btf.enumerators("no_such_enum").count(), 0);
    }
}
