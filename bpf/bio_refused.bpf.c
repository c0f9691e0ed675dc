// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bios that an array refuses. With REQ_NOWAIT (io_uring, RWF_NOWAIT), md completes a bio with
 * BLK_STS_AGAIN if it would have to wait, for example during a resync (bio_wouldblock_error()). The
 * submitter tries again with another bio. Both bios pass block_bio_queue, so the first one is
 * subtracted. Attached only if there is a RAID 1 or 10, which refuse bios during a resync: the program
 * runs whenever a bio completes. Others refuse them only in a reshape or while suspended.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "peek.bpf.h"

enum { RT_BLK_STS_AGAIN = 12 };	/* include/linux/blk_types.h */

/*
 * Subtracts a refused bio. md refuses a bio in the call that submits it. Therefore the refused bio is
 * the one that this CPU counted last. If the task was moved to another CPU in between, the bio stays counted.
 */
static __always_inline void subtract(__u64 bio, __u64 bytes, __u32 instance)
{
	struct rt_file_pending *files = bpf_map_lookup_elem(&rt_files_pending, &instance);
	struct rt_task_pending *tasks = bpf_map_lookup_elem(&rt_tasks_pending, &instance);
	struct rt_io *io;

	if (!tasks || !files || tasks->last_bio != bio)
		return;
	tasks->last_bio = 0;
	io = &tasks->slot[tasks->last_slot & (RT_TASK_SLOTS - 1)].io;
	if (io->bios && io->bytes >= bytes) {
		io->bios--;
		io->bytes -= bytes;
	}
	if (files->last_slot >= RT_FILE_SLOTS)
		return;
	io = &files->slot[files->last_slot & (RT_FILE_SLOTS - 1)].io;
	if (io->bios && io->bytes >= bytes) {
		io->bios--;
		io->bytes -= bytes;
	}
}

SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_bio_refused, struct request_queue *q, struct bio *bio)
{
	struct rt_dev_entry *e;
	__u64 address;

	if (bio->bi_status != RT_BLK_STS_AGAIN)
		return 0;
	e = rt_dev_entry(rt_disk_number(rt_bio_disk(bio)));
	if (!e || !e->array)
		return 0;
	address = rt_peek((__u64)&ctx[1]);
	subtract(address, bio->bi_iter.bi_size, RT_FIRST);
	subtract(address, bio->bi_iter.bi_size, RT_SHADOW);
	return 0;
}
