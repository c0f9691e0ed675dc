//! Who the tasks are, and where the files.

use std::collections::HashMap;

use super::Live;
use crate::host::handle::{Found, Wanted};
use crate::host::{Dev, Filesystem, task};
use crate::model::counters::{Counters, FileName, TaskCounters, TaskKey, TaskName};
use crate::model::files::{FileId, FilePlace, Files};
use crate::model::fold::Person;

impl Live {
    /// Names the tasks that did something since the last sample.
    pub(super) fn people(
        &mut self,
        counters: &Counters,
        before: &HashMap<TaskKey, TaskCounters>,
    ) -> HashMap<u32, Person> {
        let active: Vec<u32> = counters
            .tasks
            .iter()
            .filter(|(key, io)| before.get(key) != Some(io))
            .map(|(key, _)| key.pid)
            .collect();
        let mut people = HashMap::new();
        for pid in active {
            if people.contains_key(&pid) {
                continue;
            }
            let name = counters.names.get(&pid).cloned().unwrap_or_default();
            people.insert(pid, self.person(pid, &name));
        }
        people
    }

    /// Who a task is that has submitted something, as soon as it has.
    pub fn who(&mut self, pid: u32) -> Person {
        let name = self.traced.probe.task_name(pid).unwrap_or_default();
        self.person(pid, &name)
    }

    fn person(&mut self, pid: u32, name: &TaskName) -> Person {
        let comm = if name.work.is_empty() {
            // The name of now is right after an exec.
            task::comm(&self.sys, pid).unwrap_or_else(|| name.comm.clone())
        } else {
            // As /proc/PID/comm has it while the kworker is at it; by now it may be at another's.
            [&name.comm[..], b"+", &name.work[..]].concat()
        };
        let kernel = task::is_kernel_thread(&self.sys, pid).unwrap_or(false);
        let arrays = &self.traced.survey.topology.arrays;
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
        let role = kernel.then(|| task::role(&comm, device)).flatten();
        Person {
            comm,
            cgroup: self.cgroups.path(name.cgroup).map(str::to_owned),
            role,
        }
    }

    /// Says where the busiest files are.
    pub(super) fn places(&mut self, counters: &Counters) -> HashMap<FileId, FilePlace> {
        let arrays = 0..self.traced.survey.topology.arrays.len() as u32;
        let busiest = arrays.flat_map(|number| Files::new(&counters.files, number).busiest);
        let ids: Vec<FileId> = busiest.map(|file| file.id).collect();
        self.locate(ids)
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
        let arrays = &self.traced.survey.topology.arrays;
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
