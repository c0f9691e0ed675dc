//! Makes room in the kernel's table of tasks before it is full.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::counters::{TaskCounters, TaskKey};

/// The table has room for 16,384 (`rt_task_ios`); from here on idle tasks are forgotten.
const MANY: usize = 8192;
/// ... those that did nothing for this long.
const AFTER: Duration = Duration::from_secs(30);

/// Since when a task may be idle, and what all had done by then.
#[derive(Debug)]
pub(super) struct Idle {
    since: Instant,
    then: HashMap<TaskKey, TaskCounters>,
}

impl Default for Idle {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            then: HashMap::new(),
        }
    }
}

impl super::Live {
    /// Forgets tasks that have been idle, where there are many: `take` takes them out of `tasks`, which is of the last
    /// sample, when it is given what they had done some time ago.
    pub fn forget_idle<T>(
        &mut self,
        holder: &mut T,
        tasks: fn(&T) -> &HashMap<TaskKey, TaskCounters>,
        take: fn(&mut T, &HashMap<TaskKey, TaskCounters>) -> Vec<TaskKey>,
    ) {
        if self.idle.since.elapsed() < AFTER {
            return;
        }
        if tasks(holder).len() > MANY {
            self.traced.probe.forget(&take(holder, &self.idle.then));
        }
        self.idle = Idle {
            since: Instant::now(),
            then: tasks(holder).clone(),
        };
    }
}
