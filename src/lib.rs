//! raidtrace: which disk of this md array is busy, with which kind of filesystem block or md write,
//! on whose behalf.
//!
//! The parts, and what each may know:
//!
//! * [`cli`]: what was typed.
//! * [`alloc`]: what the ext4 allocator did: folded, judged, drawn.
//! * [`origin`]: the vocabulary. Knows nothing else.
//! * [`raid`]: array address <-> member address, pure arithmetic.
//! * [`ext4`]: superblock, descriptors, layout ranges; reads devices and images.
//! * [`host`]: what this machine has: devices, arrays, members, mounts.
//! * [`survey`]: host, ext4 and raid joined: the arrays, their arithmetic and the layouts of what is on them.
//! * [`follow`]: whether it is all still so.
//! * [`probe`]: the only part that knows libbpf: facts -> plan -> load -> counters.
//! * [`model`]: counters + topology -> snapshot; pure.
//! * [`layout`]: where a filesystem's fixed places fall on the members of an array.
//! * [`profile`]: what the CPUs are at: samples, their functions' names, folded stacks, flame graphs.
//! * [`live`]: a survey and the programs that run for it, as the machine changes.
//! * [`record`]: events of the probe into a file.
//! * [`doctor`]: what is wrong or risky here, and what mends it.
//! * [`top`]: the screen, `--batch` and `--json`: renderings of one snapshot.
//! * [`output`]: files that raidtrace creates.
//! * [`trace`]: the recording: its items, writer and reader.
//! * [`replay`], [`report`], [`export`]: what becomes of one.

pub mod alloc;
pub mod cli;
pub mod doctor;
pub mod export;
pub mod ext4;
pub mod follow;
pub mod host;
pub mod layout;
pub mod live;
pub mod model;
pub mod origin;
pub mod output;
pub mod probe;
pub mod profile;
pub mod raid;
pub mod record;
pub mod replay;
pub mod report;
pub mod survey;
pub mod top;
pub mod trace;
