//! Generations of programs (`bpf/generation.bpf.h`).

use std::os::fd::{AsFd as _, AsRawFd as _};
use std::time::Duration;

use anyhow::Result;
use libbpf_rs::libbpf_sys::bpf_map_create_opts;
use libbpf_rs::{MapCore as _, MapFlags, MapHandle, MapType};

use super::skel::{OpenRaidtraceSkel, RaidtraceSkel};

/// Pause instead of [`wait_for_programs`] if the kernel refuses the map. A program takes some
/// microseconds.
const GRACE: Duration = Duration::from_millis(50);

/// Distance to a generation that is never loaded.
const NONE: u32 = 4;

/// A generation of programs, after which another one can be loaded.
pub struct Generation {
    number: u32,
    counting: MapHandle,
    passed: MapHandle,
}

impl Generation {
    pub(super) fn new(skel: &RaidtraceSkel<'_>) -> Result<Self> {
        let maps = &skel.maps;
        Ok(Self {
            number: maps.rodata_data.map_or(0, |r| r.rt_generation),
            counting: MapHandle::try_from(&maps.data_generation)?,
            passed: MapHandle::try_from(&maps.rt_passed)?,
        })
    }

    /// Makes the programs of `open` the next generation, which counts nothing yet.
    pub(super) fn precede(&self, open: &mut OpenRaidtraceSkel<'_>) -> Result<()> {
        open.maps.data_generation.reuse_fd(self.counting.as_fd())?;
        open.maps.rt_passed.reuse_fd(self.passed.as_fd())?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.rt_generation = self.number + 2;
        }
        Ok(())
    }

    fn set_counting(&self, number: u32) -> Result<()> {
        let any = MapFlags::ANY;
        self.counting.update(&0u32.to_ne_bytes(), &number.to_ne_bytes(), any)?;
        Ok(())
    }

    /// Counts nothing from now on. Programs are detached one after the other, each for up to some
    /// 100 ms: without those of the issue, a completion would take its time from an old request.
    pub(super) fn stop(&self) -> Result<()> {
        self.set_counting(self.number + NONE)?;
        wait();
        Ok(())
    }

    /// Switches counting over to the next generation, which must be attached. Each request is
    /// counted by one generation; the counters of this one no longer change.
    pub fn hand_over(&self) -> Result<()> {
        let cpus = libbpf_rs::num_possible_cpus()?;
        for kind in 0..self.passed.max_entries() {
            let none = vec![vec![0; size_of::<u64>()]; cpus];
            self.passed.update_percpu(&kind.to_ne_bytes(), &none, MapFlags::ANY)?;
        }
        self.set_counting(self.number + 1)?;
        wait();
        self.set_counting(self.number + 2)
    }
}

/// Waits until all programs that run now have ended.
fn wait() {
    if wait_for_programs().is_err() {
        std::thread::sleep(GRACE);
    }
}

/// As [`wait`]: the kernel waits before it returns from an update of an array of maps
/// (`maybe_wait_bpf_programs()`).
fn wait_for_programs() -> Result<()> {
    let mut options = bpf_map_create_opts {
        sz: size_of::<bpf_map_create_opts>() as _,
        ..bpf_map_create_opts::default()
    };
    let inner = MapHandle::create(MapType::Array, Some("rt_inner"), 4, 4, 1, &options)?;
    let fd = inner.as_fd().as_raw_fd();
    options.inner_map_fd = fd.cast_unsigned();
    let outer = MapHandle::create(MapType::ArrayOfMaps, Some("rt_outer"), 4, 4, 1, &options)?;
    outer.update(&0u32.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?;
    Ok(())
}
