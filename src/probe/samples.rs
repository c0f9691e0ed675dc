//! CPU profile: samples each CPU with a perf event on its clock, and drains the samples of
//! `bpf/profile.bpf.c`.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

use anyhow::{Context as _, Result};
use libbpf_rs::Link;
use libbpf_rs::libbpf_sys::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_FLAG_FD_CLOEXEC, PERF_TYPE_SOFTWARE, perf_event_attr,
};
use libbpf_rs::skel::OpenSkel as _;

use super::btf::{Btf, SLEEPING_RING};
use super::cpus::sampled;
use super::entries::per_cpu;
use super::log::{collect, loader_error, refusal};
use super::object::{self, NO_SETTINGS};
use super::profile_skel::{RaidtraceProfileSkel, RaidtraceProfileSkelBuilder};
use super::ring::{ALL_RECORDS, Ring};
use super::wire::{Wire, rt_sample, rt_sample_ticks};
use crate::contract;
use crate::machine::Sys;
use crate::machine::privileges::raised;

const FRAMES: usize = contract::SAMPLE_FRAMES as usize;
const KERNEL: u16 = contract::SAMPLE_KERNEL as u16;
const USER: u16 = contract::SAMPLE_USER as u16;
const NO_STACK: u16 = contract::SAMPLE_NO_STACK as u16;
/// Minimum and maximum size of the ring buffer in bytes.
const BUFFER: std::ops::RangeInclusive<usize> = (1 << 20)..=(32 << 20);
/// Maximum size of a ring buffer record in bytes, including its header of 8.
const MAX_RECORD_BYTES: usize = size_of::<rt_sample>() + FRAMES * size_of::<u64>() + 8;

/// A sample of a CPU that was not idle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuSample {
    /// CPU number.
    pub cpu: u32,
    /// Thread id in the initial PID namespace; 0 for softirqs on an otherwise idle CPU.
    pub pid: u32,
    /// Process id.
    pub tgid: u32,
    /// Name of the thread without its NUL; untrusted.
    pub comm: Vec<u8>,
    /// Time in ns (CLOCK_MONOTONIC).
    pub now_ns: u64,
    /// Call stack.
    pub stack: RawStack,
}

/// A call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RawStack {
    /// In the kernel: the instruction pointer, then the return addresses.
    Kernel(Vec<u64>),
    /// In user space.
    User,
    /// The kernel reported no stack.
    Unknown,
}

/// Ticks of a CPU since the previous reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    /// Ticks while the CPU was idle.
    pub idle: u64,
    /// Ticks while the CPU was busy and the ring buffer was full.
    pub lost: u64,
}

/// Perf events and the samples drained from their ring buffer. Dropping it closes the events.
pub struct Samples {
    skel: RaidtraceProfileSkel<'static>,
    ring: Ring<CpuSample>,
    hertz: u32,
    cpus: BTreeMap<u32, Link>,
    /// Ticks by CPU since the start.
    ticks: BTreeMap<u32, Ticks>,
}

impl Samples {
    /// Samples every online CPU that is not isolated `hertz` times a second. `softirqs` is the
    /// address range of `handle_softirqs()`: softirqs in the idle task count as busy; `None` counts
    /// them as idle.
    ///
    /// # Errors
    ///
    /// One line: what failed, why, and what to do.
    pub fn start(hertz: u32, softirqs: Option<(u64, u64)>) -> Result<Self, String> {
        if Btf::load("md_mod").is_some_and(|btf| btf.has_sleeping_ring()) {
            return Err(SLEEPING_RING.to_owned());
        }
        let online = sampled();
        let mut events = Vec::new();
        for &cpu in &online {
            match open(cpu, hertz) {
                Ok(fd) => events.push((cpu, fd)),
                Err(e) if is_offline(&e) => {}
                Err(e) => return Err(refused(&e, hertz)),
            }
        }
        if events.is_empty() {
            return Err("no CPU can be sampled: all online CPUs are reported as offline: please \
                        report this line"
                .into());
        }
        collect();
        let skel = load(events.len(), hertz, softirqs).map_err(|e| {
            format!("the CPUs cannot be sampled: {} ({e:#})", refusal(&loader_error()))
        })?;
        let ring = Ring::new(&skel.maps.rt_samples, decode).map_err(|e| {
            format!(
                "the CPUs cannot be sampled: {e:#}: raise the limit of locked memory (ulimit -l \
                 unlimited)"
            )
        })?;
        let mut samples = Self { skel, ring, hertz, cpus: BTreeMap::new(), ticks: BTreeMap::new() };
        for (cpu, event) in events {
            samples.attach(cpu, event).map_err(|e| {
                format!(
                    "CPU {cpu} cannot be sampled: {e:#}: are you root, and are BPF programs \
                     allowed for perf events?"
                )
            })?;
        }
        Ok(samples)
    }

    fn attach(&mut self, cpu: u32, event: OwnedFd) -> Result<()> {
        let program = &self.skel.progs.rt_sample;
        let link = program.attach_perf_event(event.as_raw_fd())?;
        // The link owns the descriptor and closes it.
        let _ = event.into_raw_fd();
        self.cpus.insert(cpu, link);
        Ok(())
    }

    /// Starts sampling CPUs that came online, and closes the events of CPUs that went offline.
    pub fn update_cpus(&mut self) {
        let online = sampled();
        self.cpus.retain(|cpu, _| online.contains(cpu));
        for cpu in online {
            if !self.cpus.contains_key(&cpu)
                && let Ok(event) = open(cpu, self.hertz)
            {
                // A failure is retried by the next call.
                let _ = self.attach(cpu, event);
            }
        }
    }

    pub fn cpus(&self) -> impl Iterator<Item = u32> {
        self.cpus.keys().copied()
    }

    /// Closes the events. Samples in the ring buffer can still be drained.
    pub fn stop(&mut self) {
        self.cpus.clear();
    }

    /// Moves the samples of the ring buffer to `samples`, ordered by time for each CPU.
    pub fn drain(&mut self, samples: &mut Vec<CpuSample>) -> Result<()> {
        self.ring.drain(ALL_RECORDS, samples).map(|_| ())
    }

    /// Ticks since the previous call, by CPU; CPUs without any are left out.
    pub fn ticks(&mut self) -> Result<BTreeMap<u32, Ticks>> {
        let all = per_cpu::<rt_sample_ticks>(&self.skel.maps.rt_ticks, 0)?;
        let mut new = BTreeMap::new();
        for (cpu, now) in (0u32..).zip(all) {
            let before = self.ticks.entry(cpu).or_default();
            let ticks = Ticks {
                idle: now.idle.saturating_sub(before.idle),
                lost: now.lost.saturating_sub(before.lost),
            };
            (before.idle, before.lost) = (now.idle, now.lost);
            if ticks != Ticks::default() {
                new.insert(cpu, ticks);
            }
        }
        Ok(new)
    }
}

fn load(
    cpus: usize,
    hertz: u32,
    softirqs: Option<(u64, u64)>,
) -> Result<RaidtraceProfileSkel<'static>> {
    let mut open = object::open(RaidtraceProfileSkelBuilder::default())?;
    let rodata = open.maps.rodata_data.as_deref_mut().context(NO_SETTINGS)?;
    (rodata.rt_softirq_begin, rodata.rt_softirq_end) = softirqs.unwrap_or_default();
    let bytes = buffer(cpus, hertz);
    open.maps.rt_samples.set_max_entries(bytes as u32)?;
    open.load().context("loading the BPF object")
}

/// Ring buffer size in bytes: one second of full stacks of all CPUs, rounded up to a power of two.
fn buffer(cpus: usize, hertz: u32) -> usize {
    MAX_RECORD_BYTES
        .saturating_mul(cpus)
        .saturating_mul(hertz as usize)
        .clamp(*BUFFER.start(), *BUFFER.end())
        .next_power_of_two()
}

/// A disabled perf event on the clock of a CPU that overflows `hertz` times a second.
fn open(cpu: u32, hertz: u32) -> Result<OwnedFd, Error> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(PERF_COUNT_SW_CPU_CLOCK),
        ..Default::default()
    };
    attr.__bindgen_anon_1.sample_freq = u64::from(hertz);
    attr.set_disabled(1);
    attr.set_freq(1);
    let (any_task, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // Debian's perf_event_paranoid of 3 wants CAP_SYS_ADMIN instead of CAP_PERFMON.
    // SAFETY: the kernel reads `size` bytes of `attr`; the result is checked before it becomes a
    // descriptor.
    let fd = raised(|| unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            any_task,
            cpu as libc::c_int,
            no_group,
            libc::c_ulong::from(PERF_FLAG_FD_CLOEXEC),
        )
    });
    if fd < 0 {
        return Err(Error::last_os_error());
    }
    // SAFETY: perf_event_open has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// True if the CPU went offline.
fn is_offline(e: &Error) -> bool {
    e.raw_os_error() == Some(libc::ENODEV)
}

fn refused(e: &Error, hertz: u32) -> String {
    let sys = Sys::live();
    explain(
        e,
        hertz,
        rustix::process::geteuid().is_root(),
        sys.selected("/proc/sys/kernel/perf_event_paranoid").as_deref(),
        sys.selected("/sys/kernel/security/lockdown").as_deref(),
        sys.selected("/proc/sys/kernel/perf_event_max_sample_rate").as_deref(),
    )
}

/// Error message: what failed, why, and what to do.
fn explain(
    e: &Error,
    hertz: u32,
    root: bool,
    paranoid: Option<&str>,
    lockdown: Option<&str>,
    max_rate: Option<&str>,
) -> String {
    let what = "the CPUs cannot be sampled: perf_event_open";
    match (e.kind(), e.raw_os_error()) {
        (ErrorKind::PermissionDenied, _) => {
            let paranoid = paranoid.map(|p| format!("kernel.perf_event_paranoid is {p}"));
            let locked = lockdown
                .filter(|l| *l != "none")
                .map(|l| format!("the kernel is locked down ({l})"));
            let remedy = if !root {
                "run it as root"
            } else if locked.is_some() {
                "boot without lockdown"
            } else {
                "allow it for this process (CAP_PERFMON, and perf_event_open in a container's \
                 seccomp profile)"
            };
            let why: Vec<String> = paranoid.into_iter().chain(locked).collect();
            let why = if why.is_empty() { String::new() } else { format!(" ({})", why.join(", ")) };
            format!("{what} is not permitted{why}: {remedy}")
        }
        (_, Some(libc::ENOENT | libc::ENOSYS | libc::EOPNOTSUPP)) => format!(
            "{what}: this kernel has no CPU clock events ({e}): raidtrace needs CONFIG_PERF_EVENTS"
        ),
        (_, Some(libc::EMFILE | libc::ENFILE)) => {
            format!("{what}: {e}: one descriptor per CPU is needed: ulimit -n 65536")
        }
        (_, Some(libc::EINVAL)) => format!(
            "{what}: {hertz} Hz is refused (kernel.perf_event_max_sample_rate is {}): use a lower \
             rate, or raise the limit",
            max_rate.unwrap_or("unknown")
        ),
        _ => format!("{what}: {e}: please report this line and `uname -r`"),
    }
}

/// Appends a sample of the program; `None` if it is malformed.
fn decode(bytes: &[u8], samples: &mut Vec<CpuSample>) -> Option<()> {
    let wire = rt_sample::read(bytes)?;
    let frames = usize::from(wire.frames);
    if frames > FRAMES {
        return None;
    }
    let stack: Vec<u64> = bytes
        .get(size_of::<rt_sample>()..)?
        .get(..frames * size_of::<u64>())?
        .chunks_exact(size_of::<u64>())
        .filter_map(u64::read)
        .collect();
    samples.push(CpuSample {
        cpu: wire.cpu,
        pid: wire.pid,
        tgid: wire.tgid,
        comm: wire.comm.iter().copied().take_while(|b| *b != 0).collect(),
        now_ns: wire.now_ns,
        stack: match wire.mode {
            KERNEL if frames > 0 => RawStack::Kernel(stack),
            USER => RawStack::User,
            NO_STACK => RawStack::Unknown,
            _ => return None,
        },
    });
    Some(())
}

#[cfg(test)]
mod tests;
