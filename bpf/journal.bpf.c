// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Waits of tasks for room in a journal. A task that starts a handle while the log has less room
 * than the largest transaction takes has to write the blocks of the oldest transaction to their
 * final locations itself (__jbd2_log_wait_for_space(), jbd2_log_do_checkpoint()). All other tasks
 * that start a handle wait for it. These programs run once per checkpoint or once per commit.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"

enum { RT_JBD2_UNMOUNT = 1 };	/* JBD2_UNMOUNT of include/linux/jbd2.h */

/*
 * True if the journal is emptied for another reason than lack of room: at unmount, or by
 * jbd2_journal_flush() (freeze, remount, EXT4_IOC_CHECKPOINT), whose callers keep new handles out
 * (jbd2_journal_lock_updates()).
 */
static __always_inline bool is_emptied(struct journal_s___rt *journal)
{
	return BPF_CORE_READ(journal, j_flags) & RT_JBD2_UNMOUNT ||
	       BPF_CORE_READ(journal, j_barrier_count);
}

/*
 * Called in jbd2_log_do_checkpoint(), with j_checkpoint_mutex held. result: return value of the
 * attempt to make room without writing anything; above 0 if that made no room. The mutex is
 * released to wait for a commit, so another task may continue the checkpoint of the same
 * transaction; begun_ns then stays.
 */
SEC("?tp_btf/jbd2_checkpoint")
int BPF_PROG(rt_checkpoint, struct journal_s___rt *journal, int result)
{
	struct rt_journal *j, none = {};
	struct rt_dev *d;
	__u32 dev, tid;

	if (rt_is_null(journal))
		return 0;
	dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	d = rt_dev_of(dev);
	if (result <= 0 || !d || !d->fs_array)	/* fs_array: index + 1; 0: none */
		return 0;
	j = bpf_map_lookup_elem(&rt_journals, &dev);
	if (is_emptied(journal)) {
		if (j)
			j->begun_ns = 0;
		return 0;
	}
	if (!j) {
		bpf_map_update_elem(&rt_journals, &dev, &none, BPF_NOEXIST);
		j = bpf_map_lookup_elem(&rt_journals, &dev);
		if (!j)
			return 0;
	}
	tid = BPF_CORE_READ(journal, j_checkpoint_transactions, t_tid);
	if (!j->begun_ns || j->tid != tid) {
		j->tid = tid;
		j->begun_ns = bpf_ktime_get_ns();
	}
	j->pid = (__u32)bpf_get_current_pid_tgid();
	j->removed_ns = 0;
	return 0;
}

/*
 * A transaction leaves the log, because its last block has been written, in a checkpoint or
 * otherwise. Only a checkpoint updates the transaction's statistics: without one, they are all
 * zero.
 */
SEC("?tp_btf/jbd2_checkpoint_stats")
int BPF_PROG(rt_checkpoint_done, __u32 dev, __u32 tid, struct transaction_chp_stats_s___rt *stats)
{
	struct rt_journal *j = bpf_map_lookup_elem(&rt_journals, &dev);
	__u64 begun, now;

	if (!j || rt_is_null(stats))
		return 0;
	begun = j->begun_ns;
	if (!begun)
		return 0;
	if (!BPF_CORE_READ(stats, cs_chp_time) && !BPF_CORE_READ(stats, cs_forced_to_close) &&
	    !BPF_CORE_READ(stats, cs_written)) {
		if (j->tid == tid)
			j->begun_ns = 0;
		return 0;
	}
	now = bpf_ktime_get_ns();
	if (rt_counts()) {
		__sync_fetch_and_add(&j->checkpoints, 1);
		__sync_fetch_and_add(&j->wait_ns, now - begun);
	}
	j->begun_ns = 0;
	/*
	 * only if this task removed the transaction: jbd2's thread would move the tail at the end of
	 * the current commit
	 */
	if (j->pid == (__u32)bpf_get_current_pid_tgid())
		j->removed_ns = now;
	return 0;
}

/*
 * The log's tail has moved: the task has flushed the disks and written the journal's superblock.
 * There is no room before that (jbd2_cleanup_journal_tail()).
 */
SEC("?tp_btf/jbd2_update_log_tail")
int BPF_PROG(rt_log_tail, struct journal_s___rt *journal)
{
	struct rt_journal *j;
	__u64 removed;
	__u32 dev;

	if (rt_is_null(journal))
		return 0;
	dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	j = bpf_map_lookup_elem(&rt_journals, &dev);
	if (!j || j->pid != (__u32)bpf_get_current_pid_tgid())
		return 0;
	removed = j->removed_ns;
	if (removed && rt_counts())
		__sync_fetch_and_add(&j->wait_ns, bpf_ktime_get_ns() - removed);
	j->removed_ns = 0;
	return 0;
}
