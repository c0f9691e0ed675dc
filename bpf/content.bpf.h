/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_CONTENT_BPF_H
#define RAIDTRACE_CONTENT_BPF_H

enum {
	RT_NOT_METADATA = 255,
	RT_ZEROES = 254,	/* content that proves nothing */
};

static __always_inline __u64 rt_page_size(void)
{
	return 1ULL << rt_page_shift;
}

/* rt_bio_metadata()'s last argument. */
enum {
	RT_CONTENT_LATER = 0,
	RT_CONTENT = 1,
	/* and certainly metadata, on any page: a stripe's page of a block that a task asked for */
	RT_CONTENT_SURE = 2,
};

/*
 * Origin of a block of a bio, from the page that holds the byte at `offset`:
 * RT_NOT_METADATA if the page is not the block device's, else the origin that the content
 * proves, RT_ZEROES, or RT_ORIGIN_UNKNOWN. content: whether the data is there to be read,
 * as in a write or a completed read. blocks: of the filesystem, to recognise block numbers.
 *
 * extent: offset << 32 | size, of one block. bio: a number, because global functions take
 * no typed pointers on the oldest supported kernels.
 */
__u64 rt_bio_metadata(__u64 bio, __u64 extent, __u64 blocks, __u32 content);

/* Origin of the metadata block at this address, by its content; RT_ORIGIN_UNKNOWN: it proves nothing. */
__u32 rt_content_origin(__u64 data, __u32 size, __u64 blocks);

/*
 * Value of rt_learned: the origin in the low 8 bits. RT_ORIGIN_UNKNOWN: a read is in
 * flight; the bits above hold its sectors from here on, and its task (0: counted already).
 */
enum {
	RT_READ_SECTORS = 8,
	RT_READ_SECTORS_MASK = 0xffffff,
	RT_READ_PID = 32,
};

static __always_inline __u64 rt_read_in_flight(__u32 pid, __u32 bytes)
{
	return (__u64)pid << RT_READ_PID |
	       (__u64)((bytes >> 9) & RT_READ_SECTORS_MASK) << RT_READ_SECTORS |
	       RT_ORIGIN_UNKNOWN;
}

static __always_inline __u32 rt_reader(__u64 value)
{
	return value >> RT_READ_PID;
}

static __always_inline __u64 rt_reader_bytes(__u64 value)
{
	return (value >> RT_READ_SECTORS & RT_READ_SECTORS_MASK) << 9;
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
