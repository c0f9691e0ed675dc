//! The kernel's statistics of loaded programs.

use std::os::fd::AsRawFd as _;

/// Run time in ns, number of runs, and number of runs skipped because of recursion.
pub(super) fn program_stats(program: &impl std::os::fd::AsFd) -> Option<(u64, u64, u64)> {
    let info = program_info(program)?;
    Some((info.run_time_ns, info.run_cnt, info.recursion_misses))
}

pub(super) fn program_info(
    program: &impl std::os::fd::AsFd,
) -> Option<libbpf_rs::libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_rs::libbpf_sys::bpf_prog_info::default();
    let mut len = std::mem::size_of_val(&info) as u32;
    // SAFETY: `info` is zeroed, which requests no arrays, and `len` is the size of `info`.
    let err = unsafe {
        libbpf_rs::libbpf_sys::bpf_prog_get_info_by_fd(
            program.as_fd().as_raw_fd(),
            &raw mut info,
            &raw mut len,
        )
    };
    (err == 0).then_some(info)
}
