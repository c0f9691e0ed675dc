/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_WALK_BPF_H
#define RAIDTRACE_WALK_BPF_H

/* Whether a read's content has to say what the address could not. */
static __always_inline bool asks_content(__u32 op, __u32 origin)
{
	return op == RT_OP_READ &&
	       (origin == RT_ORIGIN_FILE_DATA || origin == RT_ORIGIN_UNKNOWN);
}

/*
 * A read of blocks that nothing is known about. Their content has just
 * arrived, and what the block device's page cache asked for may be metadata:
 * block by block, for ext4_readdir() reads ahead over whatever lies there.
 * extent is as in rt_bio_metadata(), answer that of rt_member_origin(), which
 * the result is like.
 */
__u64 rt_read_origin(__u64 bio, __u32 member, __u64 sector, __u64 extent, __u64 answer);

/* What the read of a block has shown: to the task that asked, and to later IO. */
int rt_told(__u64 key, __u64 origin, __u32 remember);

/*
 * A request of several bios or several origins: adds each origin's bytes,
 * returns the first one. start: of the member on its disk; how: operation and,
 * from RT_WALK_FLAGS on, rt_part_flags and rt_walk_flags. In a recording, with
 * RT_WALKED: its runs are gathered, and the CPU walks nothing else until the
 * caller has called rt_emit_request(). Without: it was walking another's.
 */
enum {
	RT_WALK_FLAGS = 8,
	RT_WALKED = 1 << 7,	/* at RT_WHAT_WALKED in rt_what() */
	RT_WALKED_NESTED = 1 << 6,	/* at RT_WHAT_NESTED: in RT_SCRATCH_NESTED */
};

__u32 rt_walk(__u64 bio, __u32 member, __u64 start, __u32 how, __u32 bytes);

#endif
