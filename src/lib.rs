//! raidtrace: which disk of this md array is busy, with which kind of filesystem block or md write,
//! on whose behalf.
//!
//! Layers, from the top. Each may use only those below it, which `tests/layers.rs` checks.
//!
//! * [`cli`]: command line arguments.
//! * [`commands`]: one folder for each command. No command uses another.
//! * [`ui`]: terminal screen, keys, colours, views of a snapshot, text and JSON output.
//! * [`session`]: live tracing: topology, BPF programs and counters, updated when the host changes.
//! * [`probe`]: BPF programs, the only user of libbpf: kernel facts -> plan -> load -> counters and
//!   events.
//! * [`recording`]: recordings: schema, writer, reader and replay.
//! * [`analysis`]: figures and sentences from counters or events. Pure.
//! * [`advice`]: kernel facts and remedies shared by `doctor` and `alloc`.
//! * [`machine`]: devices, arrays, members, mounts and tasks of this machine.
//! * [`mke2fs`]: layouts that mke2fs would create.
//! * [`fs`]: on-disk layouts of filesystems.
//! * [`raid`]: mapping between array and member addresses. Pure.
//! * [`origin`]: origins and operations. [`contract`]: constants and structures shared with the BPF
//!   programs. [`address`]: sectors and blocks, with one type per address space. [`printable`]:
//!   sanitizes untrusted text.

#[cfg(target_endian = "big")]
compile_error!(
    "raidtrace reads on-disk structures and kernel fields as little-endian numbers: big-endian \
     machines are not supported"
);

pub mod address;
pub mod advice;
pub mod analysis;
pub mod cli;
pub mod commands;
pub mod contract;
pub mod fs;
pub mod machine;
pub mod mke2fs;
pub mod origin;
pub mod printable;
pub mod probe;
pub mod raid;
pub mod recording;
pub mod session;
pub mod ui;

#[cfg(test)]
mod test_schema;
