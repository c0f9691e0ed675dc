// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Commits of journals. jbd2_journal_commit_transaction() runs in the journal's thread, and
 * its tracepoints are called there, in the order of enum rt_slow_states.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow.bpf.h"

static __always_inline struct rt_slow_commit *current_commit(void)
{
	__u32 pid = bpf_get_current_pid_tgid();

	return bpf_map_lookup_elem(&rt_slow_commits, &pid);
}

/* The current commit reaches a state. Returns it; NULL: none. */
static __always_inline struct rt_slow_commit *reach(__u32 state)
{
	struct rt_slow_commit *c = current_commit();

	if (c)
		c->state_ns[state] = bpf_ktime_get_ns();
	return c;
}

SEC("?fentry/__jbd2_log_start_commit")
int BPF_PROG(rt_slow_request, struct journal_s___rt *journal, __u32 tid)
{
	__u64 key = (__u64)journal;
	struct rt_slow_request *known = bpf_map_lookup_elem(&rt_slow_requests, &key);
	struct rt_slow_request r = { .tid = tid };
	struct rt_slow_stack stack = {};

	if (known && known->tid == tid)
		return 0;
	if (!rt_slow_is_fs(BPF_CORE_READ(journal, j_fs_dev, bd_dev)))
		return 0;
	r.ns = bpf_ktime_get_ns();
	r.pid = bpf_get_current_pid_tgid();
	if (bpf_get_stack(ctx, &stack, sizeof(stack), 0) > 0)
		r.stack = rt_slow_keep(&stack);
	bpf_get_current_comm(r.comm, sizeof(r.comm));
	bpf_map_update_elem(&rt_slow_requests, &key, &r, BPF_ANY);
	return 0;
}

SEC("?tp_btf/jbd2_start_commit")
int BPF_PROG(rt_slow_commit_start, struct journal_s___rt *journal,
	     struct transaction_s___rt *transaction)
{
	__u32 dev, zero = 0;
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_task(pid);
	__u64 key = (__u64)journal;
	struct rt_slow_commit *c;
	struct rt_slow_request *r;
	void *none;

	if (!t || rt_is_null(journal) || rt_is_null(transaction))
		return 0;
	dev = BPF_CORE_READ(journal, j_fs_dev, bd_dev);
	if (!rt_slow_is_fs(dev))
		return 0;
	if (t->pid && t->pid != pid) {
		rt_slow_lost(slots);
		return 0;
	}
	/* umount commits in its own task, after kjournald2 has exited */
	if (t->pid && t->kind != RT_SLOW_JBD2)
		return 0;
	t->pid = 0;
	none = bpf_map_lookup_elem(&rt_slow_zero, &zero);
	if (!none || bpf_map_update_elem(&rt_slow_commits, &pid, none, BPF_ANY)) {
		rt_slow_lost(commits);
		return 0;
	}
	c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
	if (!c)
		return 0;
	c->event = RT_SLOW_EVENT_COMMIT;
	c->pid = pid;
	c->dev = dev;
	c->journal_dev = BPF_CORE_READ(journal, j_dev, bd_dev);
	c->tid = BPF_CORE_READ(transaction, t_tid);
	c->timer = bpf_core_field_exists(transaction->t_requested) &&
		   !BPF_CORE_READ(transaction, t_requested);
	c->state_ns[RT_SLOW_STARTED] = bpf_ktime_get_ns();
	r = bpf_map_lookup_elem(&rt_slow_requests, &key);
	if (r && r->tid == c->tid) {
		c->requested_ns = r->ns;
		c->requester = r->pid;
		c->request_stack = r->stack;
		__builtin_memcpy(c->comm, r->comm, RT_COMM);
	}
	t->kind = RT_SLOW_JBD2;
	t->sleeps = 1;
	t->since_ns = 0;
	t->no_entry_ns = 0;
	t->start_ns = bpf_ktime_get_ns();
	t->inode = (__u64)transaction;
	t->pid = pid;
	return 0;
}

SEC("?tp_btf/jbd2_commit_locking")
int BPF_PROG(rt_slow_commit_lock, struct journal_s___rt *journal)
{
	struct rt_slow_commit *c = reach(RT_SLOW_LOCKED);
	__u32 dev, pid;

	if (!c)
		return 0;
	dev = c->dev;
	pid = c->pid;
	if (!bpf_map_update_elem(&rt_slow_locked, &dev, &pid, BPF_NOEXIST))
		__sync_fetch_and_add(&rt_slow_locks, 1);
	return 0;
}

SEC("?tp_btf/jbd2_commit_flushing")
int BPF_PROG(rt_slow_commit_flush)
{
	struct rt_slow_commit *c = reach(RT_SLOW_FLUSHING);
	__u32 dev;

	if (!c)
		return 0;
	dev = c->dev;
	if (!bpf_map_delete_elem(&rt_slow_locked, &dev))
		__sync_fetch_and_add(&rt_slow_locks, -1);
	return 0;
}

SEC("?tp_btf/jbd2_commit_logging")
int BPF_PROG(rt_slow_commit_log)
{
	reach(RT_SLOW_LOGGING);
	return 0;
}

SEC("?tp_btf/jbd2_run_stats")
int BPF_PROG(rt_slow_commit_stats, __u32 dev, __u64 tid, struct transaction_run_stats_s___rt *stats)
{
	struct rt_slow_commit *c = reach(RT_SLOW_TAIL);

	if (!c || rt_is_null(stats))
		return 0;
	c->handles = RT_PEEK(stats, rs_handle_count);
	c->blocks = RT_PEEK(stats, rs_blocks);
	c->logged = RT_PEEK(stats, rs_blocks_logged);
	return 0;
}

SEC("?tp_btf/jbd2_end_commit")
int BPF_PROG(rt_slow_commit_end)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_commit *c = reach(RT_SLOW_ENDED);

	if (t && t->kind == RT_SLOW_JBD2)
		t->pid = 0;
	if (!c)
		return 0;
	c->off_cpu.missed_ns += t ? t->no_entry_ns : 0;
	if (bpf_ringbuf_output(&rt_slow_events, c, sizeof(*c), 0))
		rt_slow_lost(events);
	bpf_map_delete_elem(&rt_slow_commits, &pid);
	return 0;
}

/*
 * A handle ends, in the context of its task. If its transaction is locked, the commit was waiting
 * for it; the commit continues after the last such handle.
 */
SEC("?tp_btf/jbd2_handle_stats")
int BPF_PROG(rt_slow_handle, __u32 dev, __u64 tid, __u64 type, __u64 line, __u64 interval)
{
	struct rt_slow_commit *c;
	struct rt_slow_holder *h;
	__u32 *pid, slot;

	if (!rt_slow_locks)
		return 0;
	pid = bpf_map_lookup_elem(&rt_slow_locked, &dev);
	c = pid ? bpf_map_lookup_elem(&rt_slow_commits, pid) : (void *)0;
	if (!c || c->tid != (__u32)tid)
		return 0;
	/*
	 * 5.10 has no atomic addition that returns a value: two handles that end at once may share a slot
	 */
	slot = c->holder_count;
	__sync_fetch_and_add(&c->holder_count, 1);
	barrier_var(slot);
	h = &c->holders[slot & (RT_SLOW_HOLDERS - 1)];
	h->pid = bpf_get_current_pid_tgid();
	h->type = type;
	h->line = line;
	h->jiffies = interval;
	h->end_ns = bpf_ktime_get_ns();
	bpf_get_current_comm(h->comm, sizeof(h->comm));
	return 0;
}

/*
 * The journal's thread starts to wait for a file's ordered data. The fields count pages since 7.2.
 */
SEC("?fentry/ext4_journal_finish_inode_data_buffers")
int BPF_PROG(rt_slow_ordered, struct jbd2_inode___rt *jinode)
{
	struct rt_slow_commit *c = current_commit();

	if (!c)
		return 0;
	if (bpf_core_field_exists(jinode->i_dirty_end))
		c->range = BPF_CORE_READ(jinode, i_dirty_end) + 1 -
			   BPF_CORE_READ(jinode, i_dirty_start);
	else if (bpf_core_field_exists(jinode->i_dirty_end_page))
		c->range = (BPF_CORE_READ(jinode, i_dirty_end_page) -
			    BPF_CORE_READ(jinode, i_dirty_start_page)) << rt_slow_page_shift;
	return 0;
}

/* The journal's thread is about to wait for a page of a file (ordered data). */
static __always_inline int page_wait(struct address_space *mapping)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_commit *c;

	if (!t || t->kind != RT_SLOW_JBD2 || !mapping)
		return 0;
	c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
	if (c) {
		c->host = (__u64)BPF_CORE_READ(mapping, host);
		c->inode = BPF_CORE_READ(mapping, host, i_ino);
		c->generation = BPF_CORE_READ(mapping, host, i_generation);
	}
	return 0;
}

SEC("?tp_btf/folio_wait_writeback")
int BPF_PROG(rt_slow_folio_wait, void *folio, struct address_space *mapping)
{
	return page_wait(mapping);
}

/* rt_slow_folio_wait before 5.16 */
SEC("?tp_btf/wait_on_page_writeback")
int BPF_PROG(rt_slow_page_wait, struct page *page, struct address_space *mapping)
{
	return page_wait(mapping);
}
