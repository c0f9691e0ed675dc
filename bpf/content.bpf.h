/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_LEARN_BPF_H
#define RAIDTRACE_LEARN_BPF_H

enum {
	RT_NOT_METADATA = 255,
	RT_ZEROES = 254,	/* content that proves nothing */
};

/* rt_bio_metadata()'s last argument. */
enum {
	RT_CONTENT_LATER = 0,
	RT_CONTENT = 1,
	/* and metadata for sure, on whatever page: a stripe's, of a block that was asked for */
	RT_CONTENT_SURE = 2,
};

/*
 * What a bio for blocks without a fixed place carries, by the page behind the
 * byte at `offset` of it: RT_NOT_METADATA when that is not the block device's,
 * else the origin that the content proves, RT_ZEROES, or RT_ORIGIN_UNKNOWN. It
 * is looked at only when content says that it is there: a write, or a read
 * that has completed. blocks: of the filesystem, to tell a block number.
 *
 * extent is offset << 32 | size, of one block. The bio comes as a number:
 * global functions take no typed pointers on the oldest kernels we support.
 */
__u64 rt_bio_metadata(__u64 bio, __u64 extent, __u64 blocks, __u32 content);

/* Origin of a metadata block that is at this address, by its content; RT_ORIGIN_UNKNOWN: it proves nothing. */
__u32 rt_content_origin(__u64 data, __u32 size, __u64 blocks);

/*
 * A value of rt_learned: the origin in the low 8 bits. RT_ORIGIN_UNKNOWN: a
 * read is on its way, of (v >> 8 & 0xffffff) sectors from here, for the task
 * v >> 32 (0: told already).
 */
static __always_inline __u64 rt_asked(__u32 pid, __u32 bytes)
{
	return (__u64)pid << 32 | (__u64)((bytes >> 9) & 0xffffff) << 8 | RT_ORIGIN_UNKNOWN;
}

/* key: rt_learned_key() */
static __always_inline void rt_learn(__u64 key, __u64 value)
{
	__u32 region = rt_region(key), eight = region / 8;
	struct rt_regions *r = bpf_map_lookup_elem(&rt_regions, &eight);

	if (r && !r->seen[region % 8])
		r->seen[region % 8] = 1;
	bpf_map_update_elem(&rt_learned, &key, &value, BPF_ANY);
}

#endif
