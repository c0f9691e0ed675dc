/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_CLASSIFY_BPF_H
#define RAIDTRACE_CLASSIFY_BPF_H

/*
 * Both answer with the origin in the low 8 bits and, above them, for how many
 * sectors (1 or more) it holds. Global functions: the verifier proves them
 * once instead of at each turn of the caller's loop.
 */
__u64 rt_array_origin(__u32 array, __u64 sector);
__u64 rt_member_origin(__u32 member, __u64 sector);

/* The array sector that a sector of a member's data stands for; ~0: none. */
__u64 rt_member_to_array(__u32 member, __u64 sector);

static __always_inline __u64 rt_answer(__u32 origin, __u64 run)
{
	return run << 8 | origin;
}

static __always_inline __u32 rt_answer_origin(__u64 answer)
{
	return answer & 0xff;
}

static __always_inline __u64 rt_answer_run(__u64 answer)
{
	return answer >> 8;
}

/* Key of rt_learned: the block's first sector on its array. */
static __always_inline __u64 rt_learned_key(__u32 array, __u64 sector)
{
	return (__u64)array << 48 | sector;
}

static __always_inline __u32 rt_region(__u32 array, __u64 sector)
{
	__u32 region = sector >> RT_REGION_SHIFT;

	return (region + array * 0x9e37) & (RT_REGIONS - 1);
}

#endif
