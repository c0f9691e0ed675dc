//! The longest slow operation of each array, for `top --slow`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::analysis::slow::names::Slow;
use crate::analysis::slow::sentence::sentence;
use crate::analysis::snapshot::Snapshot;
use crate::session::Session;
use crate::session::slow::SlowSampler;

/// Time that an operation stays on the screen.
const STAYS: Duration = Duration::from_secs(10);
/// Longest wait for the paths of an interval.
const PATHS: Duration = Duration::from_millis(100);

/// The programs, and the operations of the last ten seconds.
pub struct Sentences {
    sampler: SlowSampler,
    recent: VecDeque<Sentence>,
}

struct Sentence {
    seen: Instant,
    array: String,
    ns: u64,
    text: String,
}

impl Sentences {
    /// Attaches the programs.
    ///
    /// # Errors
    /// There is no ext4 on the targets, or the kernel refuses the programs.
    pub fn start(targets: &[String], session: &Session, threshold: Duration) -> Result<Self> {
        Ok(Self {
            sampler: SlowSampler::start(targets, session.topology(), threshold)?,
            recent: VecDeque::new(),
        })
    }

    /// Limits of this kernel.
    pub fn notes(&self) -> &[String] {
        self.sampler.notes()
    }

    /// Drains the events' buffer.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn drain(&mut self, session: &mut Session) -> Result<()> {
        self.sampler.drain(session)
    }

    /// Adds the longest operation of each array to `snapshot`.
    ///
    /// # Errors
    /// The events or sums cannot be read.
    pub fn add_to(&mut self, snapshot: &mut Snapshot, session: &mut Session) -> Result<()> {
        let mut interval = self.sampler.interval(session)?;
        self.sampler.complete(&mut interval, session, PATHS)?;
        let now = Instant::now();
        let is_old = |s: &Sentence| now.duration_since(s.seen) > STAYS;
        while self.recent.front().is_some_and(is_old) {
            self.recent.pop_front();
        }
        for array in &mut snapshot.arrays {
            let name = &array.info.name;
            // Longest first.
            let of_array = |s: &&Slow| s.array.as_ref() == Some(name);
            if let Some(longest) = interval.operations.iter().find(of_array) {
                self.recent.push_back(Sentence {
                    seen: now,
                    array: name.clone(),
                    ns: longest.operation.total_ns(),
                    text: sentence(longest, &interval.names),
                });
            }
            let own = self.recent.iter().filter(|s| s.array == *name);
            array.slow = own.max_by_key(|s| s.ns).map(|s| s.text.clone());
        }
        Ok(())
    }
}
