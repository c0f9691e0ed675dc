//! Reads entries of the maps that the programs write.

use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore, MapFlags};

use super::wire::{Wire, rt_file_id};
use crate::analysis::files::FileId;
use crate::contract;
use crate::origin::Op;

const DIRTY: u8 = contract::OP_DIRTY as u8;

/// Values of all CPUs for one entry of a map.
pub(super) fn per_cpu<T: Wire>(map: &impl MapCore, entry: u32) -> Result<Vec<T>> {
    let what = || format!("reading entry {entry} of the map {}", map.name().to_string_lossy());
    let values =
        map.lookup_percpu(entry.bytes(), MapFlags::ANY).with_context(what)?.with_context(what)?;
    Ok(values.iter().filter_map(|bytes| T::read(bytes)).collect())
}

/// Values of all CPUs and entries of a map. Entry 0 is for the programs, other entries are for
/// shadow programs and dirtied data.
pub(super) fn all_entries<T: Wire>(map: &impl MapCore) -> Result<Vec<T>> {
    let entries = (0..map.max_entries()).map(|entry| per_cpu(map, entry));
    Ok(entries.collect::<Result<Vec<_>>>()?.concat())
}

/// A file in the format of the programs.
pub(super) fn file_id(wire: &rt_file_id) -> FileId {
    FileId { dev: wire.dev, inode: wire.inode, generation: wire.generation }
}

/// Decodes an operation. The flag is true for dirtied data; its operation is the later write.
pub(super) fn operation(wire: u8) -> Option<(Op, bool)> {
    match wire {
        DIRTY => Some((Op::Write, true)),
        _ => Op::from_u8(wire).map(|op| (op, false)),
    }
}

/// A C string without its NUL.
pub(super) fn text(chars: &[i8]) -> Vec<u8> {
    chars.iter().map(|&c| c.cast_unsigned()).take_while(|&c| c != 0).collect()
}
