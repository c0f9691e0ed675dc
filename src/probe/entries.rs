//! Reads entries of the maps that the programs write.

use anyhow::Result;
use libbpf_rs::{MapCore, MapFlags};

use super::wire::Wire as _;
use crate::contract;
use crate::origin::Op;

const DIRTY: u8 = contract::OP_DIRTY as u8;

/// Values of all CPUs and entries of a map. Entry 0 is for the programs, other entries are for shadow programs and dirtied data.
pub(super) fn all_entries(map: &impl MapCore) -> Result<Vec<Vec<u8>>> {
    let mut all = Vec::new();
    for entry in 0..map.max_entries() {
        all.extend(
            map.lookup_percpu(entry.bytes(), MapFlags::ANY)?
                .unwrap_or_default(),
        );
    }
    Ok(all)
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
    chars
        .iter()
        .map(|&c| c.cast_unsigned())
        .take_while(|&c| c != 0)
        .collect()
}
