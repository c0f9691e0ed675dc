/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef RAIDTRACE_CONTENT_BPF_H
#define RAIDTRACE_CONTENT_BPF_H

enum {
	RT_NOT_METADATA = 255,
	RT_ZEROES = 254,	/* the first 32 bytes are zeroes: the content does not identify the origin */
};

static __always_inline __u64 rt_page_size(void)
{
	return 1ULL << rt_page_shift;
}

/* Values of rt_bio_metadata()'s last argument. */
enum {
	RT_CONTENT_LATER = 0,	/* the content is not available yet */
	RT_CONTENT = 1,		/* the content is available: a write, or a completed read */
	/*
	 * Like RT_CONTENT, but do not check the page: the block was found to be metadata at submission,
	 * and the page may be one of md's stripe cache.
	 */
	RT_CONTENT_SURE = 2,
};

/*
 * Origin of a block of a bio, from its page. Returns RT_NOT_METADATA if the page does not belong to
 * the block device, else the origin that the content identifies, RT_ZEROES, or RT_ORIGIN_UNKNOWN if
 * the content is not available. Content that matches no known structure is
 * RT_ORIGIN_OTHER_METADATA.
 *
 * bio: address, as a number, because global functions take no typed pointers on the oldest
 * supported kernels. extent: offset << 32 | size of the block in the bio. blocks: size of the
 * filesystem, to recognise block numbers.
 */
__u64 rt_bio_metadata(__u64 bio, __u64 extent, __u64 blocks, __u32 content);

/* Address of a byte of a bio's pages; 0: unknown. */
__u64 rt_bio_address(__u64 bio, __u32 offset);

/*
 * Origin of the metadata block at this address, by its content; RT_ORIGIN_UNKNOWN if the first 32
 * bytes are zeroes or cannot be read.
 */
__u32 rt_content_origin(__u64 data, __u32 size, __u64 blocks);

/*
 * Value of rt_learned: the origin in the low 8 bits. RT_ORIGIN_UNKNOWN: a metadata block that is
 * being read, or whose content did not identify it when it was written. The bits above hold the
 * length of the read in sectors, and the pid of the reading task (0: there is no read to count).
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

#endif
