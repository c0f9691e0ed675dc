/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Events of a recording. All of this is dead code if rt_recording is 0: callers test it first, so
 * that counting alone has no overhead.
 */
#ifndef RAIDTRACE_RECORD_BPF_H
#define RAIDTRACE_RECORD_BPF_H

enum {
	RT_EVENT_FLAGS_SHIFT = 11,	/* __REQ_SYNC, the first flag that is sent; the same in 5.10 to 7.2 */
	RT_EVENT_FLAGS = 0x3ff,		/* up to __REQ_BACKGROUND */
	RT_EVENT_SECTOR_BITS = 48,	/* number of bits for a sector of a disk */
};

/* REQ_SYNC and the flags after it. */
static __always_inline __u64 rt_event_flags(__u32 opf)
{
	return opf >> RT_EVENT_FLAGS_SHIFT & RT_EVENT_FLAGS;
}

/* Bits of rt_emit_request()'s `what`. */
enum {
	RT_WHAT_OP = 32,
	RT_WHAT_ORIGIN = 35,
	/* RT_WALKED_INTERRUPT: the runs are in the scratch entry with RT_SCRATCH_INTERRUPT */
	RT_WHAT_INTERRUPT = 41,
	RT_WHAT_WALKED = 42,	/* RT_WALKED: rt_walk() has gathered the runs */
	RT_WHAT_NESTED_ARRAY = 43,	/* a bio of a nested array, not a request */
	RT_WHAT_ERROR = 44,
	RT_WHAT_PARTIAL = 45,	/* partial completion: the request is not complete yet */
	RT_WHAT_MEMBER = 46,
};

static __always_inline __u64 rt_what(__u32 member, __u32 origin, __u32 op, __u32 bytes)
{
	return (__u64)member << RT_WHAT_MEMBER | (__u64)origin << RT_WHAT_ORIGIN |
	       (__u64)op << RT_WHAT_OP | bytes;
}

/*
 * Emits the event of a request that has completed, completely or in part. Global functions take no
 * pointers on 5.10, and at most five arguments. sector_flags: sector of the disk, and
 * rt_event_flags() from bit RT_EVENT_SECTOR_BITS on. what: rt_what() and flags.
 */
int rt_emit_request(__u64 now, __u64 issue, __u64 start, __u64 sector_flags, __u64 what);

/*
 * Called when rt_walk() starts a request at this sector of the disk. which, also below: index of
 * the scratch entry, from rt_walk_begin().
 */
int rt_gather_begin(__u32 which, __u32 member, __u64 sector, __u32 op);
/* Called when rt_walk() has found bytes of an origin. */
int rt_gather_run(__u32 which, __u32 origin, __u32 bytes);

/* Called when rt_walk() continues with a bio of another member. */
int rt_gather_member(__u32 which, __u32 member, __u64 sector);

/*
 * Emits the event of a bio that has been counted for a task, and returns its time; 0: no event.
 * key: rt_learned_key(). inode: address of the file's inode, or 0. pid_bytes: pid << 32 | bytes.
 * what: rt_submitted(). now: 0; or, if the bio was refused, the time of its submission.
 */
__u64 rt_emit_submission(__u64 key, __u64 inode, __u64 pid_bytes, __u32 what, __u64 now);

/* Bit 31: the bio can be refused. */
static __always_inline __u32 rt_submitted(__u32 origin, __u32 op, __u32 opf)
{
	return (__u32)!!(opf & rt_req_nowait()) << 31 | rt_event_flags(opf) << 16 |
	       origin << 8 | op;
}

#endif
