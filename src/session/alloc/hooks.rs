//! Loads the allocator's hooks.

use std::thread::{self, JoinHandle};

use anyhow::{Result, anyhow};

use crate::analysis::alloc::FsAlloc;
use crate::machine::task;
use crate::probe::alloc::{AllocFacts, AllocProbe};
use crate::session::cpus::Symbolizer;

/// Hooks that are being loaded on another thread: loading takes seconds on a busy machine, and the
/// session must drain its buffers.
pub(super) struct Loading {
    found: Vec<FsAlloc>,
    thread: JoinHandle<(Result<AllocProbe>, Symbolizer)>,
}

impl Loading {
    pub(super) fn start(facts: AllocFacts, found: Vec<FsAlloc>) -> Self {
        let for_thread = found.clone();
        let thread = thread::spawn(move || {
            task::set_nice(0);
            let hooks = load(&facts, &for_thread);
            // After attaching the hooks, so that their trampolines are among the kernel's symbols.
            (hooks, Symbolizer::load())
        });
        Self { found, thread }
    }

    /// True if the hooks are loaded.
    pub(super) fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// The filesystems, their hooks, and the kernel's symbols after attaching them.
    pub(super) fn finish(self) -> Result<(Vec<FsAlloc>, Result<AllocProbe>, Symbolizer)> {
        let panicked = |_| anyhow!("the thread that loads the allocator's hooks panicked");
        let (hooks, names) = self.thread.join().map_err(panicked)?;
        Ok((self.found, hooks, names))
    }
}

/// Loads and attaches the hooks for filesystems.
pub(super) fn load(facts: &AllocFacts, filesystems: &[FsAlloc]) -> Result<AllocProbe> {
    let devs: Vec<u32> = filesystems.iter().map(|fs| fs.dev).collect();
    AllocProbe::start(facts, &devs)
}
