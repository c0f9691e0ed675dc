// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Sleeps of tasks in an operation, and of journal threads in a commit. Runs at every context switch
 * of the machine: two array lookups if neither task is traced.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow.bpf.h"

enum {
	RT_TASK_RTLOCK_WAIT = 0x1000,	/* include/linux/sched.h, 5.15 to 7.3 */
};

/* t_state of include/linux/jbd2.h, an anonymous enum that is the same in 5.10 to 7.2 */
enum {
	RT_T_COMMIT_DFLUSH = 5,
	RT_T_COMMIT_JFLUSH = 6,
};

/*
 * Records the first context switch of a commit in T_COMMIT_DFLUSH and in T_COMMIT_JFLUSH, which no
 * tracepoint marks.
 */
static __always_inline void note_state(__u32 pid, __u64 transaction, __u64 now)
{
	struct rt_slow_commit *c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
	int state;

	if (!c)
		return;
	state = RT_PEEK((struct transaction_s___rt *)transaction, t_state);
	/*
	 * c->inode is the file whose page the commit was about to wait for. In these states all ordered
	 * data has been written, so this sleep is not such a wait.
	 */
	if (state >= RT_T_COMMIT_DFLUSH)
		c->inode = 0;
	if (state == RT_T_COMMIT_DFLUSH && !c->state_ns[RT_SLOW_BLOCKS])
		c->state_ns[RT_SLOW_BLOCKS] = now;
	if (state == RT_T_COMMIT_JFLUSH && !c->state_ns[RT_SLOW_RECORD])
		c->state_ns[RT_SLOW_RECORD] = now;
}

/* Sleeps of an operation or a commit; NULL if it has no entry. */
static __always_inline struct rt_slow_sleeps *entry_of(struct rt_slow_task *t, __u32 pid)
{
	struct rt_slow_operation *o;
	struct rt_slow_commit *c;

	if (t->kind == RT_SLOW_JBD2) {
		c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
		if (!c)
			return (void *)0;
		/* without the barrier, clang adds the offset before the test, which the verifier refuses */
		barrier_var(c);
		return &c->off_cpu;
	}
	o = t->sleeps ? bpf_map_lookup_elem(&rt_slow_operations, &pid) : (void *)0;
	if (!o)
		return (void *)0;
	barrier_var(o);
	return &o->off_cpu;
}

/* True if the operation has just started: no stack is taken for a sleep that ends now. */
static __always_inline bool is_early(const struct rt_slow_task *t, __u64 now)
{
	return now - t->start_ns < rt_slow_threshold / RT_SLOW_EARLY_DIVISOR;
}

static __always_inline void switch_out(__u32 pid, struct rt_slow_task *t, bool preempted)
{
	__u64 now = bpf_ktime_get_ns();

	if (t->kind == RT_SLOW_JBD2)
		note_state(pid, t->inode, now);	/* t->inode is the transaction */
	t->stack = preempted ? RT_SLOW_PREEMPTED : 0;
	t->woken_ns = 0;
	t->since_ns = now;
}

/* Adds a sleep of `ns` to the sleeps with the same stack. */
static __noinline int add_sleep(struct rt_slow_sleeps *off_cpu, __u64 stack, __u64 since, __u64 ns)
{
	struct rt_slow_sleep *s;
	__u32 i;

	if (!off_cpu)
		return 0;
	for (i = 0; i < RT_SLOW_SLEEPS; i++) {
		s = &off_cpu->sleeps[i];
		if (i == off_cpu->used) {
			off_cpu->used = i + 1;
			s->stack = stack;
			s->first_ns = since;
		}
		if (s->stack == stack) {
			s->count++;
			s->ns += ns;
			s->last_ns = since + ns;
			return 0;
		}
	}
	off_cpu->missed_ns += ns;
	return 0;
}

/* Adds a commit's wait for a page of a file (ordered data). */
static __always_inline void add_inode(__u32 pid, __u64 ns)
{
	struct rt_slow_commit *c = bpf_map_lookup_elem(&rt_slow_commits, &pid);
	struct rt_slow_last_write *w;
	struct rt_slow_inode *n;
	__u32 i, least = 0;

	if (!c || !c->inode)
		return;
	for (i = 0; i < RT_SLOW_INODES; i++) {
		n = &c->inodes[i];
		if (n->inode == c->inode && n->generation == c->generation)
			goto found;
		if (n->wait_ns < c->inodes[least & (RT_SLOW_INODES - 1)].wait_ns)
			least = i;
	}
	barrier_var(least);
	n = &c->inodes[least & (RT_SLOW_INODES - 1)];
	/*
	 * replaces the file with the shortest wait: a commit waits for one file after the other, so
	 * that file does not come again
	 */
	c->others_ns += n->wait_ns;
	n->inode = c->inode;
	n->generation = c->generation;
	n->wait_ns = 0;
	n->pages = 0;
	n->bytes = c->range;
	n->writer = 0;
	w = rt_slow_last_write(c->host);
	if (w && w->host == c->host) {
		n->writer = w->pid;
		__builtin_memcpy(n->comm, w->comm, RT_COMM);
	}
found:
	n->wait_ns += ns;
	n->pages++;
	c->inode = 0;
}

static __always_inline void switch_in(__u32 pid, struct rt_slow_task *t)
{
	__u64 now = bpf_ktime_get_ns(), since = t->since_ns, stack = t->stack, woken = t->woken_ns;
	struct rt_slow_sleeps *off_cpu;

	if (!since)
		return;
	t->since_ns = 0;
	if (t->kind == RT_SLOW_JBD2) {
		add_inode(pid, now - since);
	} else if (!t->sleeps) {
		if (is_early(t, now)) {
			t->no_entry_ns += now - since;
			return;
		}
		rt_slow_details(t, pid);
	}
	off_cpu = entry_of(t, pid);
	if (!off_cpu) {
		t->no_entry_ns += now - since;
		return;
	}
	/*
	 * queued_ns is computed from the wakeup, not from sched_info.run_delay: with delayed dequeue
	 * (DELAY_DEQUEUE, Linux 6.12) run_delay contained nearly all of some sleeps.
	 */
	if (stack == RT_SLOW_PREEMPTED)
		woken = since;
	if (woken < since || woken > now)
		woken = now;
	off_cpu->queued_ns += now - woken;
	if (woken > since)
		add_sleep(off_cpu, stack, since, woken - since);
}

SEC("?tp_btf/sched_switch")
int BPF_PROG(rt_slow_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	__u32 out = prev->pid, in = next->pid;
	struct rt_slow_task *t = rt_slow_task(out);

	if (t && t->pid == out && out) {
		/* the program at the end of its operation was skipped */
		if (prev->exit_state)
			t->pid = 0;
		/*
		 * A task that is still runnable waits for a CPU only. schedule() calls __schedule()
		 * again if the CPU is needed for another task after the wake-up.
		 */
		else
			switch_out(out, t, preempt || !rt_task_state(prev));
	}
	t = rt_slow_task(in);
	if (t && t->pid == in && in)
		switch_in(in, t);
	return 0;
}

/*
 * Takes the stack of a sleeping task. Stacks lack the functions of the scheduler, and so those of
 * spinlocks: where the task waits for a spinlock, adds the innermost one.
 */
static __always_inline long take_stack(struct task_struct *task, struct rt_slow_stack *stack)
{
	if (rt_slow_rtlock && rt_task_state(task) & RT_TASK_RTLOCK_WAIT) {
		stack->frames[0] = rt_slow_rtlock;
		return bpf_get_task_stack(task, &stack->frames[1],
					  sizeof(*stack) - sizeof(stack->frames[0]), 0);
	}
	return bpf_get_task_stack(task, stack, sizeof(*stack), 0);
}

/*
 * The stack is taken when the sleep ends, by the task that ends it: an operation that ends early
 * does not need one, and taking a stack costs one or two microseconds.
 */
SEC("?tp_btf/sched_waking")
int BPF_PROG(rt_slow_waking, struct task_struct *task)
{
	__u32 pid = task->pid;
	struct rt_slow_task *t = rt_slow_task(pid);
	struct rt_slow_stack stack = {};
	__u64 now;

	if (!t || t->pid != pid || !t->since_ns || t->stack)
		return 0;
	now = bpf_ktime_get_ns();
	t->woken_ns = now;
	if (is_early(t, now))
		return 0;
	if (take_stack(task, &stack) > 0)
		t->stack = rt_slow_keep(&stack);
	return 0;
}
