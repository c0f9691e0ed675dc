//! Reads the waits for room in journals that `bpf/journal.bpf.c` counts.

use anyhow::Result;
use libbpf_rs::{MapCore as _, MapFlags};

use super::Probe;
use super::wire::{Wire as _, rt_journal};
use crate::analysis::counters::JournalCounters;
use crate::analysis::cube::Cube;

impl Probe {
    /// Waits since attach, by device number of the filesystem; empty if the programs are not
    /// loaded.
    pub(super) fn read_journals(&self) -> Result<Cube<u32, JournalCounters>> {
        let table = &self.skel.maps.rt_journals;
        let mut found = Cube::default();
        for key in table.keys() {
            let journal = table.lookup(&key, MapFlags::ANY)?;
            if let (Some(dev), Some(journal)) =
                (u32::read(&key), journal.as_deref().and_then(rt_journal::read))
            {
                let counted =
                    JournalCounters { checkpoints: journal.checkpoints, wait_ns: journal.wait_ns };
                found.insert(dev, counted);
            }
        }
        Ok(found)
    }
}
