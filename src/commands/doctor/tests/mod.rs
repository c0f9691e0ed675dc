//! Tests of the rules on simulated machines: trees of files like sysfs and /proc, and filesystems
//! planned like mke2fs. Each test changes one thing on a machine without findings.

mod array;
pub(super) mod commands;
mod filesystem;
mod health;
mod hostile;
#[cfg(feature = "export")]
mod inventory;
mod layout;
mod output;
mod power;
mod thin;
mod upkeep;

use crate::commands::doctor::facts::Facts;
use crate::commands::doctor::finding::Finding;
use crate::commands::doctor::gather::gather;
use crate::commands::doctor::kernel::Ability;
use crate::commands::doctor::rules::check;
use crate::commands::doctor::select::{Diagnosis, LeftOut};
use crate::fs::ext4::{Ext4Layout, OnError};
use crate::machine::tests::tree::Tree;
use crate::machine::topology::Topology;
use crate::machine::{Dev, not_running, resolve_all};
use crate::mke2fs::{Conf, Options, plan};

/// Component size in KiB: 256 GiB.
const COMPONENT: u64 = 256 << 20;
/// Chunk size, bytes.
const CHUNK: u64 = 512 << 10;

/// A machine with an array and ext4 on it, initially without findings if its layout is even.
pub(super) struct Machine {
    pub tree: Tree,
    pub layout: Ext4Layout,
    /// Device of the filesystem.
    fs: &'static str,
    dev: Dev,
}

impl Machine {
    /// An array of `disks` rotational disks. `group`: blocks per group, for an even layout if the
    /// default is uneven.
    pub fn new(level: &str, disks: u32, group: Option<u32>) -> Self {
        Self::on("md0", "9:0", "", (level, disks, group))
    }

    /// [`Machine::raid6`] with the filesystem on a partition.
    pub fn partition(start: u64) -> Self {
        let sectors = COMPONENT * 5 * 2;
        let part = format!("part md0p1 259:1 {sectors} disk=md0 number=1 start={start}");
        Self::on("md0p1", "259:1", &part, ("raid6", 7, None))
    }

    fn on(
        fs: &'static str,
        dev: &str,
        part: &str,
        (level, disks, group): (&str, u32, Option<u32>),
    ) -> Self {
        let data = match level {
            "raid5" => disks - 1,
            "raid6" => disks - 2,
            "raid10" => disks / 2,
            "raid1" => 1,
            _ => disks,
        };
        let kib = COMPONENT * u64::from(data);
        let layout = match level {
            "raid0" => "-1",
            "raid10" => "258",
            _ => "2",
        };
        let (component, policy) = match level {
            "raid0" => (0, "none"),
            // A journal closes the write hole.
            "raid5" | "raid6" => (COMPONENT, "journal"),
            _ => (COMPONENT, "bitmap"),
        };
        let mut tree = Tree::new(&format!(
            "md md0 9:0 {} level={level} layout={layout} chunk_size={CHUNK} raid_disks={disks} \
             component_size={component} metadata_version=1.2 array_state=clean \
             reshape_position=none consistency_policy={policy} queue/optimal_io_size={}
            mount {dev} /srv ext4 /dev/{fs} rw
            {part}
            file proc/sys/kernel/osrelease 6.12.107+deb13-amd64
            file sys/fs/ext4/{fs}/mb_group_prealloc 512
            file sys/fs/ext4/{fs}/mb_max_linear_groups 4
            file sys/fs/ext4/{fs}/errors_count 0
            file proc/fs/ext4/{fs}/mb_structs_summary optimize_scan: 1
            file proc/fs/ext4/{fs}/mb_stats mballoc: mb stats collection turned off.",
            kib * 2,
            CHUNK * u64::from(data),
        ));
        tree.write("proc/77/comm", "mdadm\n");
        tree.write("proc/77/cmdline", "/sbin/mdadm\0--monitor\0--scan\0");
        tree.add(
            "file proc/uptime 8640000.00 1.00
            file proc/meminfo MemAvailable: 8388608 kB
            file proc/sys/vm/dirty_bytes 0
            file proc/sys/vm/dirty_ratio 20
            file sys/module/raid456/parameters/devices_handle_discard_safely N
            file sys/block/md0/queue/discard_max_bytes 0
            file sys/block/md0/queue/read_ahead_kb 12288
            file sys/block/md0/md/stripe_cache_size 256
            file sys/block/md0/md/group_thread_cnt 0
            file sys/block/md0/md/last_sync_action check",
        );
        if level != "raid0" {
            tree.add(
                "file sys/block/md0/md/degraded 0
                file sys/block/md0/md/mismatch_cnt 0
                file sys/block/md0/md/sync_action idle
                file sys/block/md0/md/bitmap/location +8
                file sys/block/md0/md/bitmap/space 128
                file sys/block/md0/md/bitmap/chunksize 67108864
                file sys/block/md0/md/bitmap/time_base 5",
            );
        }
        for i in 0..disks {
            tree.add(&disk(i));
            tree.add(&format!(
                "member md0 {} slot={i} state=in_sync offset=264192 new_offset=264192 \
                 size={COMPONENT} errors=0",
                name(i)
            ));
        }
        let options = Options { group, ..Options::default() };
        let mut layout = plan(kib * 1024, CHUNK, &options, &Conf::compiled_in()).unwrap();
        let sb = layout.superblock.as_mut().unwrap();
        sb.raid_stride = 128;
        sb.raid_stripe_width = 128 * data;
        sb.errors = OnError::ReadOnly;
        sb.state = 1;
        let stripe = sb.raid_stripe_width;
        let machine = Self { tree, layout, fs, dev: Dev::parse(dev).unwrap() };
        machine
            .options(&format!("rw\ndelalloc\ndioread_nolock\nerrors=remount-ro\nstripe={stripe}"));
        machine
    }

    /// A RAID 6 of seven disks, on which the default layout is even.
    pub fn raid6() -> Self {
        Self::new("raid6", 7, None)
    }

    /// Sets /proc/fs/ext4/DEV/options of the filesystem.
    pub fn options(&self, text: &str) {
        self.tree.write(format!("proc/fs/ext4/{}/options", self.fs), format!("{text}\n"));
    }

    /// Adds lines of the fixture's text format.
    pub fn with(mut self, lines: &str) -> Self {
        self.tree.add(lines);
        self
    }

    pub fn sb(mut self, change: impl FnOnce(&mut crate::fs::ext4::Ext4Superblock)) -> Self {
        change(self.layout.superblock.as_mut().unwrap());
        self
    }

    pub fn facts(&self) -> Facts {
        let sys = self.tree.sys();
        let host = resolve_all(&sys).unwrap();
        let mut topology = Topology { host, ..Topology::default() };
        topology.layouts.insert(self.dev, self.layout.clone().into());
        gather(&sys, &topology, not_running(&sys).unwrap())
    }

    /// All findings. Also checks that their commands are safe to paste.
    #[track_caller]
    pub fn findings(&self) -> Vec<Finding> {
        let found = check(&self.facts());
        commands::may_be_pasted(&found);
        found
    }

    /// Severities and ids, as in `warning array-degraded`, the worst first.
    pub fn ids(&self) -> Vec<String> {
        self.findings().iter().map(|f| format!("{} {}", f.severity, f.id)).collect()
    }

    /// Asserts that there is one finding, and returns it.
    #[track_caller]
    pub fn only(&self, id: &str) -> Finding {
        let mut found = self.findings();
        assert_eq!(found.len(), 1, "{:?}", self.ids());
        let found = found.remove(0);
        assert_eq!(found.id, id);
        // Every finding has evidence, a reason and a source, and commands have a risk.
        assert!(
            !found.seen.is_empty() && !found.why.is_empty() && !found.source.is_empty(),
            "{id}"
        );
        assert!(found.commands.is_empty() || !found.risk.is_empty(), "{id}");
        found
    }

    /// Asserts that there are no findings.
    #[track_caller]
    pub fn no_findings(&self) {
        assert_eq!(self.ids(), Vec::<String>::new());
    }
}

/// A diagnosis with nothing left out.
fn diagnosis<'a>(facts: &'a Facts, found: &'a [Finding], able: &'a Ability) -> Diagnosis<'a> {
    Diagnosis { facts, found, able, live: None, left_out: LeftOut::default() }
}

pub(super) fn name(i: u32) -> String {
    format!("sd{}", char::from(b'a' + i as u8))
}

fn disk(i: u32) -> String {
    format!(
        "disk {} 8:{} {} queue/iostats=1 queue/rotational=1 queue/scheduler=none~[mq-deadline] \
         queue/max_sectors_kb=1280 queue/nr_requests=256 queue/write_cache=write~back \
         queue/logical_block_size=512 queue/physical_block_size=4096 alignment_offset=0 \
         device/model=HUH721212ALE601",
        name(i),
        16 * i,
        COMPONENT * 2 + 300_000
    )
}

#[test]
fn no_findings_on_healthy_arrays() {
    Machine::raid6().no_findings();
    Machine::new("raid5", 5, None).no_findings();
    Machine::new("raid5", 4, Some(32744)).no_findings();
    Machine::new("raid0", 12, Some(32744)).no_findings();
    Machine::new("raid10", 6, None).no_findings();
}
