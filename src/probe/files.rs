//! Reads the counters of files.

use anyhow::Result;
use libbpf_rs::{MapCore, MapFlags};

use super::entries::{all_entries, file_id, operation, text};
use super::load::Probe;
use super::wire::{Wire, rt_file, rt_file_id, rt_file_key, rt_file_pending, rt_io};
use crate::analysis::counters::{Counters, DirtyKey, FileKey, FileName, TaskCounters};
use crate::analysis::files::FileId;

impl Probe {
    /// Starts an interval: bios are counted under new keys from now on (`rt_interval` in
    /// `bpf/tasks.bpf.c`). Call this a few system calls before the table is read: by the time of
    /// the read, programs that got the old number have ended.
    pub(super) fn begin_interval(&mut self) {
        if let Some(bss) = self.skel.maps.bss_data.as_deref_mut() {
            bss.rt_interval = bss.rt_interval.wrapping_add(1);
            self.interval = bss.rt_interval as u8;
        }
    }

    pub(super) fn read_files(&mut self, counters: &mut Counters) -> Result<()> {
        let maps = &self.skel.maps;
        let moved = drain(&maps.rt_file_ios, |key: &rt_file_key| {
            (key.interval != self.interval).then(|| file_key(key))
        })?;
        let cpus: Vec<rt_file_pending> = all_entries(&maps.rt_files_pending)?;
        let slots = cpus.iter().flat_map(|cpu| &cpu.slot);
        // Slots that were written during the read are left for the next reading.
        let pending = slots
            .filter(|s| s.io.bios > 0 && s.version_first == s.version_last)
            .filter_map(|s| Some((file_key(&s.key)?, counts(&s.io))));
        let refused = refused(&maps.rt_file_refusals, |key: &rt_file_key| {
            (key.interval == self.interval, file_key(key))
        })?;
        let (moved, pending) = (moved.into_iter().chain(refused.0), pending.chain(refused.1));
        for ((key, dirtied_by), io) in self.file_deltas.step(moved, pending) {
            match (dirtied_by, key.file) {
                (None, _) => {
                    counters.files.insert(key, io);
                }
                (Some(pid), Some(file)) => {
                    let array = key.array;
                    let key = DirtyKey { array, pid, file };
                    counters.dirtied_files.insert(key, io);
                }
                // Only pages of regular files are counted as dirtied.
                (Some(_), None) => {}
            }
        }
        Ok(())
    }

    /// Name of a file when it was first seen.
    pub fn file_name(&self, id: &FileId) -> Option<FileName> {
        let wire = rt_file_id { inode: id.inode, dev: id.dev, generation: id.generation };
        let found = self.skel.maps.rt_files.lookup(wire.bytes(), MapFlags::ANY);
        let file = rt_file::read(&found.ok()??)?;
        Some(FileName {
            name: text(&file.name),
            parent: (file.parent > 0).then_some((file.parent, file.parent_generation)),
            deleted: file.links == 0,
        })
    }
}

/// Decodes a file key. For dirtied data, also returns the thread that dirtied it.
fn file_key(wire: &rt_file_key) -> Option<(FileKey, Option<u32>)> {
    let (op, dirtied) = operation(wire.op)?;
    let key = FileKey {
        array: u32::from(wire.array),
        file: (wire.file.inode > 0).then(|| file_id(&wire.file)),
        op,
    };
    Some((key, dirtied.then_some(wire.pid)))
}

/// Removes entries from a table of `struct rt_io` and returns them by key. `key_of` returns `None`
/// for an entry that stays, and `Some(None)` for an entry that is dropped.
pub(super) fn drain<W: Wire, K>(
    table: &impl MapCore,
    key_of: impl Fn(&W) -> Option<Option<K>>,
) -> Result<Vec<(K, TaskCounters)>> {
    let mut moved = Vec::new();
    let mut read: Vec<u8> = Vec::new();
    // Read everything in one batch: libbpf-rs stops at a short batch, which may not be the last
    // one.
    for (key, io) in table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)? {
        if let (Some(wire), Some(io)) = (W::read(&key), rt_io::read(&io))
            && let Some(found) = key_of(&wire)
        {
            moved.extend(found.map(|k| (k, counts(&io))));
            read.extend(key);
        }
    }
    if !read.is_empty() {
        let count = read.len() / size_of::<W>();
        table.delete_batch(&read, count as u32, MapFlags::ANY, MapFlags::ANY)?;
    }
    Ok(moved)
}

/// Counters of refused bios by key.
type RefusedCounters<K> = Vec<(K, TaskCounters)>;

/// Reads a table of refused bios as negative counters. Call this after the slots have been read.
/// Removes the entries of earlier intervals, which come first. `key_of` returns true for an entry
/// of this interval, which still grows, like a slot.
pub(super) fn refused<W: Wire, K>(
    table: &impl MapCore,
    key_of: impl Fn(&W) -> (bool, Option<K>),
) -> Result<(RefusedCounters<K>, RefusedCounters<K>)> {
    let minus = |(key, io): (K, TaskCounters)| {
        let (bios, bytes) = (io.bios.wrapping_neg(), io.bytes.wrapping_neg());
        (key, TaskCounters { bios, bytes })
    };
    let ended = drain(table, |wire| match key_of(wire) {
        (true, _) => None,
        (false, key) => Some(key),
    })?;
    let rest = table.lookup_batch(table.max_entries(), MapFlags::ANY, MapFlags::ANY)?;
    let growing =
        rest.filter_map(|(key, io)| Some((key_of(&W::read(&key)?).1?, counts(&rt_io::read(&io)?))));
    Ok((ended.into_iter().map(minus).collect(), growing.map(minus).collect()))
}

pub(super) fn counts(io: &rt_io) -> TaskCounters {
    TaskCounters { bios: io.bios, bytes: io.bytes }
}
