// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sleeps of tasks in an operation, and of journal threads in a commit. Every context
 * switch of the machine passes here: two array lookups for all other tasks.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow.bpf.h"

enum {
	RT_PREEMPTED = -4096,	/* instead of a stack */
	RT_EEXIST = 17,		/* another stack has the same hash */
	/* t_state of include/linux/jbd2.h, an anonymous enum that is the same in 5.10 to 7.2 */
	RT_T_COMMIT = 4,
	RT_T_COMMIT_DFLUSH = 5,
	RT_T_COMMIT_JFLUSH = 6,
};

/* A stack whose bucket is taken gets the one of the same stack without its first functions. */
static __always_inline __s32 stack_id(void *ctx)
{
	__s64 id = bpf_get_stackid(ctx, &rt_slow_stacks, 0);

	if (id == -RT_EEXIST)
		id = bpf_get_stackid(ctx, &rt_slow_stacks, 1);
	if (id == -RT_EEXIST)
		id = bpf_get_stackid(ctx, &rt_slow_stacks, 2);
	return id;
}

/* The commit's state: no event marks the last two. */
static __always_inline void note_state(struct rt_slow_commit *c, __u64 transaction, __u64 now)
{
	int state = BPF_CORE_READ((struct transaction_s___rt *)transaction, t_state);

	if (state == RT_T_COMMIT_DFLUSH && !c->state_ns[RT_SLOW_BLOCKS])
		c->state_ns[RT_SLOW_BLOCKS] = now;
	if (state == RT_T_COMMIT_JFLUSH && !c->state_ns[RT_SLOW_RECORD])
		c->state_ns[RT_SLOW_RECORD] = now;
}

static __always_inline void fall_asleep(void *ctx, struct task_struct *task, __u32 pid,
					struct rt_slow_task *t, bool preempted)
{
	struct rt_slow_operation *o;
	struct rt_slow_commit *c;
	struct rt_slow_sleeps *off;
	__u64 now = bpf_ktime_get_ns();

	if (t->kind == RT_SLOW_JBD2) {
		c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
		if (!c)
			return;
		note_state(c, t->inode, now);
		off = &c->off;
	} else {
		o = rt_slow_details(t, pid);
		if (!o)
			return;
		off = &o->off;
	}
	if (!off->delay_ns)
		off->delay_ns = BPF_CORE_READ(task, sched_info.run_delay);
	else
		rt_slow_settle(off, task);
	off->stack = preempted ? RT_PREEMPTED : stack_id(ctx);
	off->since_ns = now;
}

/* Adds a sleep to those with the same stack. */
static __noinline int add_sleep(struct rt_slow_sleeps *off, __u64 now)
{
	struct rt_slow_sleep *s;
	__u64 since, ns;
	__u32 i;

	if (!off)
		return 0;
	since = off->since_ns;
	ns = now - since;
	off->since_ns = 0;
	if (off->stack == RT_PREEMPTED) {
		off->queued_ns += ns;
		off->off_ns = 0;
		return 0;
	}
	off->off_ns = ns;
	for (i = 0; i < RT_SLOW_SLEEPS; i++) {
		s = &off->sleeps[i];
		if (i == off->used) {
			off->used = i + 1;
			s->stack = off->stack;
			s->first_ns = since;
		}
		if (s->stack == off->stack) {
			s->count++;
			s->ns += ns;
			s->last_ns = now;
			off->last = i;
			return 0;
		}
	}
	off->last = RT_SLOW_SLEEPS;
	off->missed_ns += ns;
	return 0;
}

/* A commit has waited for a page of a file: ordered data. */
static __always_inline void add_inode(struct rt_slow_commit *c, __u64 ns)
{
	struct rt_slow_inode *n;
	__u32 i;

	for (i = 0; i < RT_SLOW_INODES; i++) {
		n = &c->inodes[i];
		if (!n->inode) {
			n->inode = c->inode;
			n->generation = c->generation;
		}
		if (n->inode == c->inode) {
			n->ns += ns;
			n->pages++;
			break;
		}
	}
	c->inode = 0;
}

static __always_inline void wake_up(__u32 pid, struct rt_slow_task *t)
{
	struct rt_slow_operation *o;
	struct rt_slow_commit *c;
	__u64 now = bpf_ktime_get_ns();

	if (t->kind == RT_SLOW_JBD2) {
		c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
		if (!c || !c->off.since_ns)
			return;
		if (c->inode)
			add_inode(c, now - c->off.since_ns);
		add_sleep(&c->off, now);
	} else {
		o = bpf_map_lookup_elem(&rt_slow_operations, &pid);
		if (o && o->off.since_ns)
			add_sleep(&o->off, now);
	}
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(rt_slow_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 out = prev->pid, in = next->pid;
	struct rt_slow_task *t = rt_slow_task(out);

	if (t && t->pid == out && out)
		fall_asleep(ctx, prev, out, t, preempt);
	t = rt_slow_task(in);
	if (t && t->pid == in && in)
		wake_up(in, t);
	return 0;
}
