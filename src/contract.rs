//! Constants and structures that the BPF programs and userspace share. `build.rs` generates them
//! from `bpf/shared/`: `RT_DEVS` becomes [`DEVS`], `struct rt_dev` becomes [`rt_dev`]. Addresses
//! and lengths are in 512-byte sectors unless the header says otherwise.

include!(concat!(env!("OUT_DIR"), "/contract.rs"));
