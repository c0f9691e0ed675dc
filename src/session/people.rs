//! Who the tasks are, and where the files.

use std::collections::HashMap;

use super::Live;
use crate::analysis::counters::{
    Counters, DirtyKey, FileName, THROTTLED, TaskId, TaskKey, TaskName,
};
use crate::analysis::files::{FileId, FilePlace, Files};
use crate::analysis::fold::Person;
use crate::analysis::snapshot::THROTTLED_ROLE;
use crate::machine::handle::{Found, Wanted};
use crate::machine::{Dev, Filesystem, task};

/// Files dirtied by a task that are named though they are not among the busiest.
const NAMED: usize = 1024;

impl Live {
    /// Names the tasks that submitted something in this interval.
    pub(super) fn people(&mut self, counters: &Counters) -> HashMap<TaskId, Person> {
        let mut people = HashMap::new();
        let tasks = counters.tasks.keys().chain(counters.dirtied.keys());
        let files = counters.dirtied_files.keys().map(DirtyKey::task);
        for id in tasks.map(TaskKey::id).chain(files) {
            if people.contains_key(&id) {
                continue;
            }
            let name = counters.names.get(&id).cloned().unwrap_or_default();
            people.insert(id, self.person(id, &name));
        }
        people
    }

    /// Names a task that has submitted something, as soon as it has.
    pub fn who(&mut self, id: TaskId) -> Person {
        let name = self.traced.probe.task_name(id).unwrap_or_default();
        self.person(id, &name)
    }

    fn person(&mut self, TaskId { pid, .. }: TaskId, name: &TaskName) -> Person {
        if pid & THROTTLED != 0 {
            return self.throttled(name.cgroup);
        }
        // Its bios were submitted by blk-throttle's kworker (rt_worker_submits()).
        let held = name.work == b"kthrotld";
        let work = if held { &[][..] } else { &name.work[..] };
        let comm = if work.is_empty() {
            // The name of now is right after an exec.
            task::comm(&self.sys, pid).unwrap_or_else(|| name.comm.clone())
        } else {
            // As /proc/PID/comm has it while the kworker is at it; by now it may be at another's.
            [&name.comm[..], b"+", work].concat()
        };
        // Only kworkers have a description of their work.
        let kernel = task::is_kernel_thread(&self.sys, pid).unwrap_or(!work.is_empty());
        let arrays = &self.traced.topology.host.arrays;
        let device = |dev: &str| {
            arrays
                .iter()
                .flat_map(|a| {
                    let fs = a.filesystems.iter().map(|f| (f.dev, &f.name));
                    fs.chain([(a.dev, &a.name)])
                })
                .find(|(d, _)| d.to_string() == dev)
                .map(|(_, name)| name.clone())
        };
        let role = if held && !kernel {
            Some(THROTTLED_ROLE.to_owned())
        } else {
            kernel.then(|| task::role(&comm, device)).flatten()
        };
        Person {
            comm,
            cgroup: self.cgroups.path(name.cgroup).map(str::to_owned),
            role,
        }
    }

    /// In place of a task: a cgroup whose bios blk-throttle held back.
    fn throttled(&mut self, cgroup: u64) -> Person {
        let path = self.cgroups.throttled_path(cgroup).map(str::to_owned);
        let of = match &path {
            Some(path) => format!("cgroup {path}"),
            None if cgroup == 0 => "an unknown cgroup".to_owned(),
            None => format!("cgroup id {cgroup}"),
        };
        Person {
            comm: b"throttled".to_vec(),
            cgroup: path,
            role: Some(format!("{of}, {THROTTLED_ROLE}")),
        }
    }

    /// Says where the busiest files are.
    pub(super) fn places(&mut self, counters: &Counters) -> HashMap<FileId, FilePlace> {
        let arrays = 0..self.traced.topology.host.arrays.len() as u32;
        let busiest = arrays.flat_map(|number| {
            let submitted = Files::new(&counters.files, number).busiest;
            let dirtied = Files::dirtied(&counters.dirtied_files, number).busiest;
            submitted.into_iter().chain(dirtied)
        });
        let ids: std::collections::BTreeSet<FileId> = busiest.map(|file| file.id).collect();
        let mut places = self.locate(ids);
        // A task's largest file may be small among all: at least its name.
        let mut pairs: Vec<_> = counters.dirtied_files.iter().collect();
        pairs.sort_unstable_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        for (key, _) in pairs.into_iter().take(NAMED) {
            places
                .entry(key.file)
                .or_insert_with(|| self.place(&key.file));
        }
        places
    }

    /// Where files are; waits a little for paths that are not known yet.
    pub fn locate(&mut self, ids: impl IntoIterator<Item = FileId>) -> HashMap<FileId, FilePlace> {
        let mut places = HashMap::new();
        let mut wanted = Vec::new();
        for id in ids {
            let (name, place) = self.named(&id);
            places.insert(id, place);
            if self.paths.wants(&id) {
                wanted.push((
                    id,
                    Wanted {
                        dev: Dev::of_kernel(id.dev),
                        inode: (id.inode, id.generation),
                        parent: name.parent,
                        name: name.name,
                    },
                ));
            }
        }
        self.paths.ask(wanted);
        for (id, place) in &mut places {
            match self.paths.get(id) {
                Some(Found::At { path, deleted }) => {
                    place.path = Some(path.clone());
                    place.deleted = *deleted;
                }
                Some(Found::Gone) => place.deleted = true,
                Some(Found::Unknown) | None => {}
            }
        }
        places
    }

    /// What is known of a file at once; its path is not.
    pub fn place(&self, id: &FileId) -> FilePlace {
        self.named(id).1
    }

    fn named(&self, id: &FileId) -> (FileName, FilePlace) {
        let arrays = &self.traced.topology.host.arrays;
        let name = self.traced.probe.file_name(id).unwrap_or_default();
        let device = |fs: &&Filesystem| fs.dev.kernel() == id.dev;
        let filesystem = arrays.iter().flat_map(|a| &a.filesystems).find(device);
        let mount = filesystem.and_then(|fs| fs.mounts.first());
        let place = FilePlace {
            path: None,
            name: (!name.name.is_empty()).then(|| name.name.clone()),
            deleted: name.deleted,
            device_name: filesystem.map_or(String::new(), |fs| fs.name.clone()),
            mount: mount.map(|m| m.path.display().to_string()),
        };
        (name, place)
    }
}
