//! Selects the programs to load from the kernel facts, and notes figures that the kernel cannot
//! give. Pure.

use super::KernelFacts;
use super::btf::NO_TYPES;
use super::fields::LOST;
use super::object::Planned;
use super::symbols::EXPECTED;

/// A program of the BPF object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// C name.
    pub program: &'static str,
    /// True if tracing is impossible without the program.
    pub required: bool,
    /// Figures that are missing without the program.
    pub gives: &'static str,
    /// False if the program is loaded but not attached until it is needed.
    pub attached: bool,
}

impl Choice {
    const fn required(program: &'static str, gives: &'static str) -> Self {
        Self { required: true, ..Self::optional(program, gives) }
    }

    const fn optional(program: &'static str, gives: &'static str) -> Self {
        Self { program, required: false, gives, attached: true }
    }

    /// The same choice, with the program for another form of the tracepoint.
    const fn variant(self, program: &'static str) -> Self {
        Self { program, ..self }
    }
}

/// Counting of data that tasks dirty and that is written later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirtiedCounting {
    /// Dirtied data is not counted.
    #[default]
    No,
    /// Metadata without its origins, and file data. Costs 1 % of the time to create a file
    /// (`tools/bench dirtied`).
    Counted,
    /// Metadata by origin, if functions can be hooked. A task that creates a file calls
    /// `jbd2_journal_dirty_metadata()` about ten times.
    ByOrigin,
}

/// Events to trace besides the requests of disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// An array has level 4, 5 or 6.
    pub stripes: bool,
    /// md's bios to a member have to be classified when md submits them.
    pub md_submits: bool,
    /// An array has level 1 or 10.
    pub mirrors: bool,
    /// An array or a device mapper device is a member of an array, or an array is below or above
    /// dm-crypt, or has blocks to reconstruct (missing member of a RAID 4/5/6).
    pub bio_based: bool,
    /// An ext4 filesystem is on an array.
    pub ext4: bool,
    /// An XFS filesystem is on an array.
    pub xfs: bool,
    /// Counting of dirtied data.
    pub dirtied: DirtiedCounting,
    /// A filesystem has hidden quota files (the `quota` feature).
    pub quota: bool,
    /// Waits for room in a journal are counted.
    pub journals: bool,
    /// Nothing is counted: only the topology of the session is used.
    pub nothing: bool,
}

/// Programs to load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are attached.
    pub programs: Vec<Choice>,
    /// Figures that this kernel cannot give, one line each, printed once at start.
    pub notes: Vec<String>,
}

const ISSUE: Choice = Choice::required("rt_rq_issue", "device times");
const ISSUE_Q: Choice = ISSUE.variant("rt_rq_issue_q");
const REQUEUE: Choice = Choice::optional("rt_rq_requeue", "requests that drivers give back");
const REQUEUE_Q: Choice = REQUEUE.variant("rt_rq_requeue_q");
const COMPLETE: Choice = Choice::required("rt_rq_complete", "requests");
const QUEUE: Choice = Choice::optional(
    "rt_bio_queue",
    "processes, and directory, extent_tree and xattr blocks as they are written",
);
const QUEUE_Q: Choice = QUEUE.variant("rt_bio_queue_q");
const MD_SUBMIT: Choice =
    Choice::optional("rt_md_submit", "reason why RAID 4/5/6 reads and writes (rmw_read, resync)");
const MD_SUBMIT_Q: Choice = MD_SUBMIT.variant("rt_md_submit_q");
const BIO_COMPLETE: Choice = Choice::optional(
    "rt_bio_complete",
    "IO of arrays that are members of other arrays, and directory, extent_tree and xattr blocks \
     that are read through dm-crypt or rebuilt",
);
const REFUSED: Choice = Choice::optional(
    "rt_bio_refused",
    "correction for refused bios (REQ_NOWAIT, from io_uring), which count twice without it",
);
const QUOTA: Choice =
    Choice::optional("rt_quota_blocks", "recognition of new blocks of quota files");
const DIRTY_HANDLE: Choice =
    Choice::optional("rt_dirty_handle", "metadata blocks that tasks dirty");
const DIRTY_BLOCK: Choice =
    Choice::optional("rt_dirty_block", "origins of the metadata blocks that tasks dirty");
const DIRTY_FOLIO: Choice = Choice::optional("rt_dirty_folio", "file data that tasks dirty");
const DIRTY_PAGE: Choice = DIRTY_FOLIO.variant("rt_dirty_page");
const CHECKPOINT: Choice = Choice::optional("rt_checkpoint", "waits for room in a journal");
const CHECKPOINT_DONE: Choice = CHECKPOINT.variant("rt_checkpoint_done");
const LOG_TAIL: Choice = Choice::optional(
    "rt_log_tail",
    "flush and superblock write at the end of waits for room in a journal",
);
const FREE: Choice =
    Choice::optional("rt_free_blocks", "tracking of freed directory, extent_tree and xattr blocks");
const XFS_FREED: Choice =
    Choice::optional("rt_xfs_freed", "tracking of metadata blocks that XFS frees");

/// Shadow programs: see `bpf/shadow.bpf.h`.
const ISSUE_SHADOW: Choice = Choice::optional(
    "rt_rq_issue_2",
    "device times of requests issued while another task is switched out in rt_rq_issue",
);
const QUEUE_SHADOW: Choice = Choice::optional(
    "rt_bio_queue_2",
    "processes of bios submitted while another task is switched out in rt_bio_queue",
);
const MD_SUBMIT_SHADOW: Choice = Choice::optional(
    "rt_md_submit_2",
    "reason of RAID 4/5/6 IO submitted while another task is switched out in rt_md_submit",
);
const COMPLETE_SHADOW: Choice = Choice::optional(
    "rt_rq_complete_2",
    "requests that complete in an interrupt during another completion",
);
const BIO_COMPLETE_SHADOW: Choice = Choice::optional(
    "rt_bio_complete_2",
    "IO of arrays that are members of other arrays, if it completes during another completion",
);

/// Selects the programs.
///
/// # Errors
///
/// One line: what is missing, why, and what to do.
pub fn plan(facts: &KernelFacts, need: Need) -> Result<Plan, String> {
    if !facts.btf {
        return Err(NO_TYPES.to_owned());
    }
    let mut plan = Plan::default();
    if need.nothing {
        return Ok(plan);
    }
    for (name, found, expected) in
        [("block_rq_issue", facts.rq_issue, 1..=2), ("block_rq_complete", facts.rq_complete, 3..=3)]
    {
        match found {
            Some(n) if expected.contains(&n) => {}
            Some(n) => {
                return Err(format!(
                    "this kernel's tracepoint {name} has {n} arguments where raidtrace expects \
                     {}: please report the kernel ({})",
                    expected.end(),
                    rustix::system::uname().release().to_string_lossy()
                ));
            }
            None => {
                return Err(format!(
                    "this kernel has no tracepoint {name}: raidtrace needs CONFIG_TRACEPOINTS and \
                     CONFIG_BLOCK"
                ));
            }
        }
    }
    for ((lost, _), field) in LOST.iter().zip(facts.missing) {
        let Some(field) = field.map(|f| f.replace('?', "").replace('|', " or ")) else { continue };
        if lost.is_empty() {
            return Err(format!(
                "this kernel's types have no field {field}, which raidtrace needs: please report \
                 the kernel ({})",
                rustix::system::uname().release().to_string_lossy()
            ));
        }
        plan.notes.push(format!("no {lost}: this kernel's types have no field {field}"));
    }
    // The tracepoints of a request have the same arguments (commit a54895fa057c).
    let [issue, requeue] = match facts.rq_issue {
        Some(2) => [ISSUE_Q, REQUEUE_Q],
        _ => [ISSUE, REQUEUE],
    };
    plan.programs.extend([requeue, issue, COMPLETE]);
    match facts.bio_queue {
        Some(1) => {
            plan.programs.push(QUEUE);
            plan.programs.extend(need.md_submits.then_some(MD_SUBMIT));
        }
        Some(2) => {
            plan.programs.push(QUEUE_Q);
            plan.programs.extend(need.md_submits.then_some(MD_SUBMIT_Q));
        }
        other => {
            let has = other.map_or("no type".to_owned(), |n| format!("{n} arguments"));
            let why = format!("the tracepoint block_bio_queue has {has} in this kernel");
            plan.lacks(QUEUE, &why);
        }
    }
    if matches!(facts.dio_end_io, 0 | u64::MAX) && facts.bio_queue.is_some() {
        plan.notes.push(
            "files of direct IO are not reported: the address of iomap_dio_bio_end_io is hidden \
             (kernel.kptr_restrict) or missing"
                .to_owned(),
        );
    }
    if facts.dio_simple
        && matches!(facts.dio_simple_pool, 0 | u64::MAX)
        && facts.bio_queue.is_some()
    {
        plan.notes.push(
            "files of direct reads of up to one block are not reported: the address of \
             iomap_dio_simple_pool is hidden (kernel.kptr_restrict) or missing \
             (CONFIG_KALLSYMS_ALL)"
                .to_owned(),
        );
    }
    if facts.wait_end_io == 0 && facts.bio_queue.is_some() {
        plan.notes.push(
            "flushes that an IO limit delays have no task, and those of a journal show as \
             file_data: the kernel has neither submit_bio_wait_endio nor bio_wait_end_io"
                .to_owned(),
        );
    }
    if facts.free_blocks == Some(4) || facts.ext4_module_btf {
        plan.programs.push(FREE);
    } else {
        plan.notes.push(
            "blocks that ext4 frees are not traced (no types for its tracepoints): a file that \
             reuses a directory's block may show as directory"
                .to_owned(),
        );
    }
    if facts.bio_complete == Some(2) {
        // RAID 4/5/6 needs the program as soon as a member fails.
        if need.bio_based || need.stripes {
            plan.programs.push(Choice { attached: need.bio_based, ..BIO_COMPLETE });
        }
        plan.programs.push(REFUSED);
    } else {
        let why = "the tracepoint block_bio_complete has other arguments than raidtrace expects";
        if need.bio_based {
            plan.lacks(BIO_COMPLETE, why);
        }
        plan.lacks(REFUSED, why);
    }
    if need.quota && (facts.free_blocks == Some(4) || facts.ext4_module_btf) {
        plan.programs.push(QUOTA);
    }
    if need.dirtied != DirtiedCounting::No && need.ext4 {
        plan.dirtied_metadata(facts, need.dirtied == DirtiedCounting::ByOrigin);
    }
    if need.dirtied != DirtiedCounting::No && (need.ext4 || need.xfs) {
        plan.dirtied_data(facts);
    }
    if need.ext4 && need.journals {
        plan.journals(facts);
    }
    if facts.guarded || facts.preemptible {
        plan.programs.push(Choice {
            // If false, attached after the kernel has first skipped a run of rt_rq_complete:
            // Probe::attach_needed_shadow.
            attached: facts.several_queues || facts.preemptible,
            ..COMPLETE_SHADOW
        });
        let first = |c: &&Choice| c.program == BIO_COMPLETE.program;
        if let Some(first) = plan.programs.iter().find(first) {
            let attached = first.attached;
            plan.programs.push(Choice { attached, ..BIO_COMPLETE_SHADOW });
        }
    }
    if facts.preemptible {
        // Shadow programs come after their programs: the kernel calls programs in the order of
        // attachment.
        plan.programs.push(ISSUE_SHADOW);
        if facts.bio_queue == Some(1) {
            plan.programs.push(QUEUE_SHADOW);
            plan.programs.extend(need.md_submits.then_some(MD_SUBMIT_SHADOW));
        }
    }
    let hidden = "the kernel hides the addresses of its functions: kernel.kptr_restrict is 2, or \
                  CAP_SYSLOG is missing";
    if need.stripes && !facts.md.has_stripes() {
        plan.notes.push(format!(
            "RAID 4/5/6: the reason of md's reads is unknown: reads of the stripe cache are \
             rmw_read while the array is in sync, and unknown otherwise ({})",
            if facts.md.hidden {
                hidden
            } else if facts.md.no_module_types {
                "the kernel shows the types of its modules only with cap_sys_admin: use setcap or \
                 sudo"
            } else {
                "this kernel does not describe the types of its modules (no \
                 /sys/kernel/btf/raid456)"
            }
        ));
    }
    if need.xfs && facts.xfs_types {
        plan.programs.push(XFS_FREED);
    }
    if need.xfs && (matches!(facts.xfs_buf_end, 0 | u64::MAX) || !facts.xfs_types) {
        plan.notes.push(format!(
            "XFS: inode clusters and other metadata of several blocks that is read may show as \
             other_metadata until it is written ({})",
            if facts.xfs_buf_end == u64::MAX {
                hidden
            } else if facts.xfs_buf_end == 0 {
                "the module xfs was not loaded at the start"
            } else {
                "this kernel does not describe the types of XFS (no /sys/kernel/btf/xfs, or no \
                 cap_sys_admin)"
            }
        ));
    }
    for (_, (name, module, lost)) in
        (0..).zip(EXPECTED).filter(|(bit, _)| facts.absent >> bit & 1 != 0)
    {
        let used = match module {
            "ext4" => need.ext4,
            "xfs" => need.xfs,
            "raid456" => need.stripes,
            "raid1" | "raid10" => need.mirrors,
            _ => true,
        };
        if used {
            let module = if module.is_empty() { "the kernel" } else { module };
            plan.notes.push(format!("no {lost}: the symbols of {module} lack {name}"));
        }
    }
    if need.mirrors && !facts.md.has_sync() && facts.md.hidden {
        plan.notes.push(format!(
            "RAID 1/10: a resync cannot be distinguished from IO of tasks ({hidden})"
        ));
    }
    Ok(plan)
}

impl Plan {
    /// Adds a note on the figures that are missing without a program.
    fn lacks(&mut self, choice: Choice, why: &str) {
        self.notes.push(format!("no {}: {why}", choice.gives));
    }

    /// Hooks the function that dirties a block if origins are wanted and the kernel permits it.
    /// Otherwise hooks the end of a handle.
    fn dirtied_metadata(&mut self, facts: &KernelFacts, by_origin: bool) {
        let typed = facts.handle_stats == Some(8) || facts.jbd2_module_btf;
        if typed && by_origin && facts.ftrace {
            self.programs.push(DIRTY_BLOCK);
        } else if typed {
            self.programs.push(DIRTY_HANDLE);
            if by_origin {
                self.lacks(DIRTY_BLOCK, "this kernel cannot hook functions (no ftrace)");
            }
        } else {
            let why = "this kernel does not describe the types of its module jbd2";
            self.lacks(DIRTY_HANDLE, why);
        }
    }

    /// Hooks the tracepoint of a page of any filesystem that becomes dirty.
    fn dirtied_data(&mut self, facts: &KernelFacts) {
        if facts.dirty_folio == Some(2) {
            self.programs.push(DIRTY_FOLIO);
        } else if facts.dirty_page == Some(2) {
            self.programs.push(DIRTY_PAGE);
        } else {
            self.lacks(DIRTY_FOLIO, "no such tracepoint");
        }
    }

    /// Adds the programs that time checkpoints.
    fn journals(&mut self, facts: &KernelFacts) {
        let typed = (facts.checkpoint, facts.checkpoint_stats) == (Some(2), Some(3));
        if !typed && !facts.jbd2_module_btf {
            let why = "this kernel does not describe jbd2's tracepoints";
            return self.lacks(CHECKPOINT, why);
        }
        self.programs.extend([CHECKPOINT, CHECKPOINT_DONE]);
        if facts.log_tail == Some(4) || facts.jbd2_module_btf {
            self.programs.push(LOG_TAIL);
        } else {
            self.lacks(LOG_TAIL, "no tracepoint jbd2_update_log_tail of four arguments");
        }
    }

    /// True if the program is in the plan.
    pub fn has(&self, program: &str) -> bool {
        self.programs.iter().any(|c| c.program == program)
    }
}

impl Planned for Plan {
    fn names(&self) -> Vec<&'static str> {
        self.programs.iter().map(|c| c.program).collect()
    }

    fn without(&mut self, program: &str, why: &str) -> bool {
        let same = |c: &Choice| c.program == program && !c.required;
        let Some(at) = self.programs.iter().position(same) else {
            return false;
        };
        let gone = self.programs.remove(at);
        self.lacks(gone, &format!("this kernel refused {program} ({why})"));
        true
    }

    fn last_optional(&self) -> Option<&'static str> {
        self.programs.iter().rev().find(|c| !c.required).map(|c| c.program)
    }
}

#[cfg(test)]
mod tests;
