//! Tasks in a call on a traced filesystem, or in a page fault, that no program traces: it began
//! before the programs were attached, or it has no hook.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use crate::analysis::files::{FileId, FileLocation};
use crate::analysis::slow::asynchronous::Asynchronous;
use crate::analysis::slow::event::{
    LockWait, OffCpu, Operation, OperationFlags, OperationKind, StackSleeps, Task,
};
use crate::machine::{Sys, call, task};
use crate::probe::slow::asleep;

/// Maximum time of a look. The next one continues where it ended.
const MAX_LOOK: Duration = Duration::from_millis(10);

/// Parts of functions on a stack, and the operation.
const KINDS: [(&str, OperationKind); 7] = [
    ("fsync", OperationKind::Fsync),
    ("sync_file", OperationKind::Fsync),
    ("read_iter", OperationKind::Read),
    ("write_iter", OperationKind::Write),
    ("fallocate", OperationKind::Fallocate),
    ("truncate", OperationKind::Truncate),
    ("sync_fs", OperationKind::Sync),
];

/// Threads in uninterruptible sleep.
#[derive(Default)]
pub(super) struct Earlier {
    /// Number of voluntary context switches, and the time in ns at which a look first found it.
    seen: BTreeMap<u32, (u64, u64)>,
    /// The process with which the last look ended.
    after: u32,
    /// Files of the operations.
    pub files: HashMap<FileId, FileLocation>,
}

impl Earlier {
    /// Operations on filesystems for which `is_traced`, that have slept for `least` ns at `now`
    /// since a look first found them. Threads in `known` are left out.
    pub fn look(
        &mut self,
        sys: &Sys,
        known: &BTreeSet<u32>,
        is_traced: impl Fn(u32) -> bool,
        (least, now): (u64, u64),
    ) -> Vec<Operation> {
        self.files.clear();
        if !sys.has_host_pids() {
            return Vec::new();
        }
        let end = Instant::now() + MAX_LOOK;
        let processes = sys.names("/proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let mut processes: Vec<u32> = processes.collect();
        processes.sort_unstable();
        let first = processes.partition_point(|p| *p <= self.after);
        processes.rotate_left(first);
        for process in processes {
            if Instant::now() > end {
                break;
            }
            self.after = process;
            for thread in sys.names(&format!("/proc/{process}/task")) {
                let Ok(pid) = thread.parse::<u32>() else { continue };
                let state = task::sleep(sys, pid).filter(|s| s.is_uninterruptible);
                match state.filter(|_| !known.contains(&pid)) {
                    Some(s) => {
                        let seen = self.seen.entry(pid).or_insert((s.switches, now));
                        if seen.0 != s.switches {
                            *seen = (s.switches, now);
                        }
                    }
                    None => _ = self.seen.remove(&pid),
                }
            }
        }
        let mut gone = Vec::new();
        let mut found = Vec::new();
        // A look may not have come to them since they are known.
        self.seen.retain(|pid, _| !known.contains(pid));
        for (&pid, &(switches, since)) in &self.seen {
            if now.saturating_sub(since) < least {
                continue;
            }
            if task::sleep(sys, pid).is_none_or(|s| !s.is_uninterruptible || s.switches != switches)
            {
                gone.push(pid);
                continue;
            }
            let sleep = asleep(sys, pid, since, now);
            let stack = sleep.stack.iter().flat_map(|s| s.iter()).map(AsRef::as_ref);
            let file = call::file(sys, pid);
            let dev = file.as_ref().map(|file| file.0);
            let Some(dev) = dev.or_else(|| call::filesystem(sys, pid, stack)) else { continue };
            let dev = dev.kernel();
            if !is_traced(dev) {
                continue;
            }
            let file = file.map(|(_, inode, path)| {
                let file = FileId { dev, inode, generation: 0 };
                let location = FileLocation { path: Some(path), ..FileLocation::default() };
                self.files.insert(file, location);
                file
            });
            found.push(operation(sys, pid, (dev, file), sleep));
        }
        self.seen.retain(|pid, _| !gone.contains(pid));
        found
    }
}

fn operation(
    sys: &Sys,
    pid: u32,
    (dev, file): (u32, Option<FileId>),
    sleep: StackSleeps,
) -> Operation {
    let is = |part: &str| sleep.stack.iter().flat_map(|s| s.iter()).any(|f| f.contains(part));
    let kind =
        KINDS.iter().find(|(part, _)| is(part)).map_or(OperationKind::Other, |(_, kind)| *kind);
    let direct = is("dio");
    Operation {
        kind,
        task: Task { pid, comm: task::comm(sys, pid).unwrap_or_default() },
        tgid: task::process(sys, pid).unwrap_or(pid),
        file,
        dev,
        start_ns: sleep.first_ns,
        end_ns: sleep.last_ns,
        position: 0,
        bytes: 0,
        flags: OperationFlags { direct, ..OperationFlags::default() },
        lock: LockWait::default(),
        pusher: None,
        asynchronous: Asynchronous::default(),
        off: OffCpu { sleeps: vec![sleep], ..OffCpu::default() },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::os::unix::fs::symlink;

    use super::{Earlier, OperationKind};
    use crate::machine::tests::tree::Tree;

    #[test]
    fn a_task_that_sleeps_in_a_call_on_a_file_is_found() {
        let tree = Tree::new("");
        let status = |state: &str, switches: u64| {
            let text = format!("Tgid:\t6\nState:\t{state}\nvoluntary_ctxt_switches:\t{switches}\n");
            tree.write("proc/7/status", &text);
        };
        tree.write("proc/6/task/7/comm", "dd\n");
        tree.write("proc/7/comm", "dd\n");
        tree.write(
            "proc/7/stack",
            "[<0>] folio_wait_bit+0x1/0x2\n[<0>] ext4_file_read_iter+0x1/0x2\n",
        );
        tree.write("proc/7/syscall", "0 0x3 0x7f 0x1000 0x0 0x0 0x0 0x7ffc 0x7f\n");
        tree.write("srv", "");
        tree.write("proc/7/fd/4", "");
        let sys = tree.sys();
        symlink(sys.path("/srv"), sys.path("/proc/7/fd/3")).unwrap();
        status("D (disk sleep)", 10);
        let mut earlier = Earlier::default();
        let mut look = |known: &[u32], now: u64| {
            let known: BTreeSet<u32> = known.iter().copied().collect();
            let found = earlier.look(&sys, &known, |_| true, (10, now));
            let found: Vec<_> = found.iter().map(|o| (o.task.pid, o.kind, o.total_ns())).collect();
            found
        };
        assert!(look(&[], 100).is_empty());
        assert_eq!(look(&[], 110), [(7, OperationKind::Read, 10)]);
        assert!(look(&[7], 120).is_empty());
        assert!(look(&[], 130).is_empty());
        assert_eq!(look(&[], 140), [(7, OperationKind::Read, 10)]);
        // It has run meanwhile.
        status("D (disk sleep)", 11);
        assert!(look(&[], 150).is_empty());
        status("S (sleeping)", 11);
        assert!(look(&[], 200).is_empty());
        status("D (disk sleep)", 11);
        tree.write("proc/7/syscall", "running\n");
        assert!(look(&[], 210).is_empty());
        assert!(look(&[], 220).is_empty(), "no system call");
    }
}
