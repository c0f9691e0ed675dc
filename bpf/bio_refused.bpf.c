// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Bios that a device refuses. A bio with REQ_NOWAIT (io_uring, RWF_NOWAIT) is completed with
 * BLK_STS_AGAIN if it would have to wait or to be split: by any disk without a free tag
 * (blk_mq_submit_bio()), by disks and md if it is larger than their limit (bio_split_io_at(); on
 * RAID 0 a chunk), by RAID 1 and 10 in a resync. The submitter, or io_uring's worker for it, tries
 * again with another bio. Both bios pass block_bio_queue, so the first one is subtracted.
 *
 * The tracepoint is not called for the bios of requests (blk_update_request() clears
 * BIO_TRACE_COMPLETION), so on a disk the program runs for refused bios only, on md for each bio.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "peek.bpf.h"
#include "record.bpf.h"
#include "tasks.bpf.h"
#include "files.bpf.h"

enum { RT_BLK_STS_AGAIN = 12 };	/* include/linux/blk_types.h */

SEC("?tp_btf/block_bio_complete")
int BPF_PROG(rt_bio_refused, struct request_queue *q, struct bio *bio)
{
	struct rt_file_key file = { .interval = rt_interval };
	struct rt_io io = { .bios = 1 };
	struct rt_task_key *task;
	struct rt_nowait *n;
	__u64 address;

	if (bio->bi_status != RT_BLK_STS_AGAIN)
		return 0;
	address = rt_peek((__u64)&ctx[1]);
	n = rt_nowait(address);
	/*
	 * The entry may be that of an earlier bio with this address. It is not if the disk is
	 * traced, except for a bio that rt_bio_queue has not seen. RAID 0 may have sent the bio on
	 * to a member.
	 */
	if (!n || n->bio != address || !rt_dev_entry(rt_disk_number(rt_bio_disk(bio))))
		return 0;
	n->bio = 0;
	if (!n->bytes)
		return 0;
	/*
	 * Counts in tables of its own. The slot in which the bio was counted may be another CPU's,
	 * and rt_bio_queue may be switched out in the middle of an addition to it.
	 */
	io.bytes = n->bytes;
	task = (struct rt_task_key *)&n->task;
	task->interval = rt_interval;
	rt_add_or_lose(&rt_task_refusals, task, &io, RT_LOST_TASKS);
	if (n->has_file) {
		file.array = task->array;
		file.op = task->origin_op & 7;
		rt_identify(n->inode, &file.file);
		rt_add_or_lose(&rt_file_refusals, &file, &io, RT_LOST_FILES);
	}
	if (n->now_ns)
		rt_emit_submission(n->key, 0, 0, 0, n->now_ns);
	return 0;
}
