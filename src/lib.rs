//! raidtrace: which disk of this md array is busy, with which kind of filesystem block or md write,
//! on whose behalf.
//!
//! The layers, from the top. Each may use those below it; `tests/layers.rs` sees to that.
//!
//! * [`cli`]: what was typed.
//! * [`commands`]: a folder each. None uses another.
//! * [`ui`]: text, keys, colours, the screen's loop, the views of a snapshot, lines of text and JSON.
//! * [`session`]: the live engine: what the machine has, the programs that run for it, and their counters, as it changes.
//! * [`probe`]: the only part that knows libbpf: facts -> plan -> load -> counters and events.
//! * [`recording`]: the file: its schema, writer and reader, and its replay.
//! * [`analysis`]: counters or events in, figures and sentences out; pure.
//! * [`advice`]: what is known of kernels, mounts and filesystems that costs time, and what mends it.
//! * [`machine`]: what this machine has: devices, arrays, members, mounts, tasks.
//! * [`mke2fs`]: what mke2fs would make.
//! * [`fs`]: filesystems: what is where on their device.
//! * [`raid`]: array address <-> member address, pure arithmetic.
//! * [`origin`]: the vocabulary. [`contract`]: constants of the BPF programs. [`printable`]: text from
//!   outside. They know nothing else.

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
