/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_TASKS_BPF_H
#define RAIDTRACE_TASKS_BPF_H

/* Adds to a task's totals, which may be its first. */
static __always_inline void rt_add_task(const struct rt_task_key *key,
					 const struct rt_task_io *add)
{
	struct rt_task_io *io = bpf_map_lookup_elem(&rt_task_ios, key);

	if (io) {
		/* another CPU may be making room for what the task did there */
		__sync_fetch_and_add(&io->bios, add->bios);
		__sync_fetch_and_add(&io->bytes, add->bytes);
	} else if (bpf_map_update_elem(&rt_task_ios, key, add, BPF_NOEXIST)) {
		count_loss(tasks);
	}
}

#endif
