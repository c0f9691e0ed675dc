//! Names and roles of tasks; names, paths and mounts of files.

use std::collections::HashMap;

use super::Session;
use crate::analysis::counters::{
    Counters, DirtyKey, FileName, THROTTLED, TaskId, TaskKey, TaskName,
};
use crate::analysis::files::{FileId, FileLocation, Files};
use crate::analysis::fold::TaskInfo;
use crate::analysis::snapshot::THROTTLED_ROLE;
use crate::machine::handle::{FileQuery, LookupResult};
use crate::machine::{Dev, Filesystem, task};

/// Maximum number of dirtied files that get a name although they are not among the busiest.
const MAX_NAMED: usize = 1024;

impl Session {
    /// Tasks that submitted or dirtied something in this interval.
    pub(super) fn task_infos(&mut self, counters: &Counters) -> HashMap<TaskId, TaskInfo> {
        let mut infos = HashMap::new();
        let tasks = counters.tasks.keys().chain(counters.dirtied.keys());
        let files = counters.dirtied_files.keys().map(DirtyKey::task);
        for id in tasks.map(TaskKey::id).chain(files) {
            if infos.contains_key(&id) {
                continue;
            }
            let name = counters.names.get(&id).cloned().unwrap_or_default();
            infos.insert(id, self.named_task(id, &name));
        }
        infos
    }

    /// Name and role of a task that has submitted a bio in the current interval.
    pub fn task_info(&mut self, id: TaskId) -> TaskInfo {
        let name = self.traced.probe.task_name(id).unwrap_or_default();
        self.named_task(id, &name)
    }

    fn named_task(&mut self, TaskId { pid, .. }: TaskId, name: &TaskName) -> TaskInfo {
        if pid & THROTTLED != 0 {
            return self.throttled(name.cgroup);
        }
        // The bios of this task were submitted by blk-throttle's kworker (rt_worker_submits()).
        let throttled = name.work == b"kthrotld";
        let work = if throttled { &[][..] } else { &name.work[..] };
        let comm = if work.is_empty() {
            // /proc has the current name, also after an exec.
            task::comm(&self.sys, pid).unwrap_or_else(|| name.comm.clone())
        } else {
            // The format of /proc/PID/comm. The kworker itself may be on other work by now.
            [&name.comm[..], b"+", work].concat()
        };
        // If /proc does not show the task: only kworkers have a work description, so a task with
        // one was a kernel thread.
        let kernel = task::is_kernel_thread(&self.sys, pid).unwrap_or(!work.is_empty());
        let arrays = &self.traced.topology.host.arrays;
        let device = |dev: &str| {
            arrays
                .iter()
                .flat_map(|a| {
                    a.filesystems.iter().map(|f| (f.dev, &f.name)).chain([(a.dev, &a.name)])
                })
                .find(|(d, _)| d.to_string() == dev)
                .map(|(_, name)| name.clone())
        };
        let role = if throttled && !kernel {
            Some(THROTTLED_ROLE.to_owned())
        } else {
            kernel.then(|| task::role(&comm, device)).flatten()
        };
        TaskInfo { comm, cgroup: self.cgroups.path(name.cgroup).map(str::to_owned), role }
    }

    /// Stand-in for the unknown task whose bios blk-throttle delayed in this cgroup.
    fn throttled(&mut self, cgroup: u64) -> TaskInfo {
        let path = self.cgroups.throttled_path(cgroup).map(str::to_owned);
        let subject = match &path {
            Some(path) => format!("cgroup {path}"),
            None if cgroup == 0 => "an unknown cgroup".to_owned(),
            None => format!("cgroup id {cgroup}"),
        };
        TaskInfo {
            comm: b"throttled".to_vec(),
            cgroup: path,
            role: Some(format!("{subject}, {THROTTLED_ROLE}")),
        }
    }

    /// Locations of the busiest files.
    pub(super) fn file_locations(&mut self, counters: &Counters) -> HashMap<FileId, FileLocation> {
        let arrays = 0..self.traced.topology.host.arrays.len() as u32;
        let busiest = arrays.flat_map(|number| {
            let submitted = Files::new(&counters.files, number).busiest;
            let dirtied = Files::dirtied(&counters.dirtied_files, number).busiest;
            submitted.into_iter().chain(dirtied)
        });
        let ids: std::collections::BTreeSet<FileId> = busiest.map(|file| file.id).collect();
        let mut locations = self.locate(ids);
        // A task's largest file may not be among the busiest. Give it at least a name.
        let mut pairs: Vec<_> = counters.dirtied_files.iter().collect();
        pairs.sort_unstable_by_key(|(_, sum)| std::cmp::Reverse(sum.bytes));
        for (key, _) in pairs.into_iter().take(MAX_NAMED) {
            locations.entry(key.file).or_insert_with(|| self.file_location(&key.file));
        }
        locations
    }

    /// Locations of files. Waits a short time for unknown paths.
    pub fn locate(
        &mut self,
        ids: impl IntoIterator<Item = FileId>,
    ) -> HashMap<FileId, FileLocation> {
        let (mut locations, wanted) = self.named_files(ids);
        self.paths.request(wanted);
        for (id, location) in &mut locations {
            match self.paths.get(id) {
                Some(LookupResult::At { path, deleted }) => {
                    location.path = Some(path.clone());
                    location.deleted = *deleted;
                }
                Some(LookupResult::Gone) => location.deleted = true,
                Some(LookupResult::Unknown) | None => {}
            }
        }
        locations
    }

    /// Starts looking up the paths of files for a later [`Session::locate`]. Call it early: the
    /// lookup fails once the filesystem has been unmounted.
    pub fn begin_to_locate(&mut self, ids: impl IntoIterator<Item = FileId>) {
        let (_, wanted) = self.named_files(ids);
        self.paths.ask(wanted);
    }

    /// Locations without paths, and the files whose paths are to be looked up.
    fn named_files(
        &self,
        ids: impl IntoIterator<Item = FileId>,
    ) -> (HashMap<FileId, FileLocation>, Vec<(FileId, FileQuery)>) {
        let mut locations = HashMap::new();
        let mut wanted = Vec::new();
        for id in ids {
            let (name, location) = self.named_file(&id);
            locations.insert(id, location);
            if self.paths.is_stale(&id) {
                wanted.push((
                    id,
                    FileQuery {
                        dev: Dev::from_kernel(id.dev),
                        inode: (id.inode, id.generation),
                        parent: name.parent,
                        name: name.name,
                    },
                ));
            }
        }
        (locations, wanted)
    }

    /// True if the path of a file is being looked up.
    pub fn is_looking_for(&self, id: &FileId) -> bool {
        self.paths.is_waiting(id)
    }

    /// Location of a file without a path lookup.
    pub fn file_location(&self, id: &FileId) -> FileLocation {
        self.named_file(id).1
    }

    fn named_file(&self, id: &FileId) -> (FileName, FileLocation) {
        let arrays = &self.traced.topology.host.arrays;
        let name = self.traced.probe.file_name(id).unwrap_or_default();
        let device = |fs: &&Filesystem| fs.dev.kernel() == id.dev;
        let filesystem = arrays.iter().flat_map(|a| &a.filesystems).find(device);
        let mount = filesystem.and_then(|fs| fs.mounts.first());
        let location = FileLocation {
            path: None,
            name: (!name.name.is_empty()).then(|| name.name.clone()),
            deleted: name.deleted,
            device_name: filesystem.map_or(String::new(), |fs| fs.name.clone()),
            mount: mount.map(|m| m.path.display().to_string()),
        };
        (name, location)
    }
}
