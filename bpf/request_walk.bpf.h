/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_REQUEST_WALK_BPF_H
#define RAIDTRACE_REQUEST_WALK_BPF_H

/* True if the origin of a read depends on its content. */
static __always_inline bool needs_content(__u32 op, __u32 origin)
{
	return op == RT_OP_READ &&
	       (origin == RT_ORIGIN_FILE_DATA || origin == RT_ORIGIN_UNKNOWN);
}

/* A shadow program counts without an origin: a loss. */
static __always_inline __u32 rt_no_origin(void)
{
	count_loss(RT_LOST_BUSY);
	return RT_ORIGIN_UNKNOWN;
}

/*
 * Origin of `bytes` for a shadow program: by address if they all have one origin, else unknown and
 * counted as a loss. Shadow programs neither walk over bios nor read content, because verifying
 * that code a second time would double the start-up time.
 */
static __always_inline __u32 rt_one_origin(__u32 member, __u64 sector, __u32 op, __u32 bytes)
{
	__u64 found = rt_origin_at(member, sector, op, bytes >> 9);

	if (rt_found_run(found) >= bytes >> 9 && rt_found_origin(found) != RT_ORIGIN_UNKNOWN)
		return rt_found_origin(found);
	return rt_no_origin();
}

/*
 * Origin of a completed read of blocks that do not belong to a fixed structure, by their content.
 * Blocks in the block device's page cache may be metadata; each is examined separately, because
 * ext4_readdir() reads ahead over blocks of any kind. extent: as in rt_bio_metadata(). by_address:
 * result of rt_member_origin(); the return value has the same form.
 */
__u64 rt_read_origin(__u64 bio, __u32 member, __u64 sector, __u64 extent,
		     __u64 by_address);

/*
 * Completes the read of one block: stores `origin` in rt_learned if `remember` is not 0, else
 * deletes the entry for the read in flight. Counts the read for the task that submitted it. key:
 * rt_learned_key().
 */
int rt_read_done(__u64 key, __u64 origin, __u32 remember);

/* Layout of the `op_flags` argument and of the result of rt_walk(). */
enum {
	RT_WALK_FLAGS_SHIFT = 8,
	RT_WALKED = 1 << 7,	/* becomes bit RT_WHAT_WALKED in rt_what() */
	/* becomes bit RT_WHAT_INTERRUPT: the runs are in RT_SCRATCH_INTERRUPT */
	RT_WALKED_INTERRUPT = 1 << 6,
};

/*
 * Returns the index of a scratch entry. If none is free, returns RT_SCRATCHES and counts the bytes
 * as `unknown`.
 */
__u32 rt_walk_begin(__u64 bio, __u32 member, __u64 start, __u32 op_flags, __u32 bytes);
int rt_walk_some(__u32 which);
__u32 rt_walk_end(__u32 which);

/*
 * Walks over a request with several bios or several origins: adds the bytes of each origin, and
 * returns the first origin.
 * start: first sector of the member on its disk. op_flags: op | (rt_part_flags | rt_walk_flags) <<
 * RT_WALK_FLAGS_SHIFT. In a recording, RT_WALKED is set in the result if the runs were gathered;
 * their scratch entry stays in use until the caller calls rt_emit_request(). If RT_WALKED is not
 * set, all scratch entries were in use, and the bytes are `unknown`. Inline, to save a frame of the
 * deepest stack.
 */
static __always_inline __u32 rt_walk(__u64 bio, __u32 member, __u64 start, __u32 op_flags,
				     __u32 bytes)
{
	__u32 which = rt_walk_begin(bio, member, start, op_flags, bytes), i;

	if (which >= RT_SCRATCHES)
		return RT_ORIGIN_UNKNOWN;
	for (i = 0; i < RT_WALK_ROUNDS; i++) {
		if (rt_walk_some(which))
			break;
	}
	return rt_walk_end(which);
}

#endif
