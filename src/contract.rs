//! Limits, flags and numbers that the BPF programs and userspace share. `build.rs` generates them from the enumerations of
//! `bpf/shared/`: `RT_DEVS` there is [`DEVS`] here.

include!(concat!(env!("OUT_DIR"), "/contract.rs"));
