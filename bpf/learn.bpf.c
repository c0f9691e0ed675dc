// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * What a block of the block device's page cache holds, by its content. ext4
 * keeps metadata there, one buffer head and one bio a block; file data lives
 * in the files' own page caches. Called once per block, not per IO: the
 * answer goes into rt_learned.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "classify.bpf.h"
#include "compat.bpf.h"
#include "learn.bpf.h"

enum {
	RT_EXT4_EXT_MAGIC = 0xf30a,		/* fs/ext4/ext4_extents.h */
	RT_EXT4_XATTR_MAGIC = 0xea020000,	/* fs/ext4/xattr.h */
	RT_EXT4_FT_MAX = 8,
	RT_S_IFMT = 0170000,
	RT_S_IFBLK = 0060000,
	RT_DIRENTS = 4,				/* how many must make sense */
};

/* ext4_dir_entry_2 without its name */
struct rt_dirent {
	__u32 inode;
	__u16 rec_len;
	__u8 name_len;
	__u8 file_type;
};

/* Entries must chain to the block's end or make sense for RT_DIRENTS. */
static __always_inline bool rt_is_directory(const char *data, __u32 size)
{
	struct rt_dirent de;
	__u32 at = 0, len;
	int i;

	for (i = 0; i < RT_DIRENTS; i++) {
		if (bpf_probe_read_kernel(&de, sizeof(de), data + at))
			return false;
		/* ext4_rec_len_from_disk(): 64 KiB does not fit in 16 bits */
		len = de.rec_len == 0xffff || (de.rec_len == 0 && size == 65536) ?
			65536 : de.rec_len;
		if (len < 12 || len & 3 || at + len > size)
			return false;
		if (de.name_len + 8u > len)
			return false;
		/* the checksum tail: no inode, no name, type 0xde */
		if (de.file_type >= RT_EXT4_FT_MAX &&
		    !(de.file_type == 0xde && !de.inode && len == 12))
			return false;
		if (de.inode && !de.name_len)
			return false;
		at += len;
		if (at == size)
			return true;
	}
	return true;
}

/* ext2/3 indirect block: block numbers, all inside the filesystem. */
static __always_inline bool rt_is_indirect(const __u32 *words, __u64 blocks)
{
	__u32 any = 0;
	int i;

	for (i = 0; i < 16; i++) {
		if (words[i] >= blocks)
			return false;
		any |= words[i];
	}
	return any != 0;
}

static __always_inline __u32 rt_sniff_content(const char *data, __u32 size, __u64 blocks)
{
	__u32 words[16];
	__u32 any = 0;
	int i;

	if (bpf_probe_read_kernel(words, sizeof(words), data))
		return RT_ORIGIN_UNKNOWN;
	/* eh_magic, eh_entries <= eh_max, eh_max as the block allows */
	if ((words[0] & 0xffff) == RT_EXT4_EXT_MAGIC &&
	    words[0] >> 16 <= (words[1] & 0xffff) && (words[1] & 0xffff) <= size / 12)
		return RT_ORIGIN_EXTENT_TREE;
	if (words[0] == RT_EXT4_XATTR_MAGIC)
		return RT_ORIGIN_XATTR;
	if (rt_is_directory(data, size))
		return RT_ORIGIN_DIRECTORY;
	if (rt_is_indirect(words, blocks))
		return RT_ORIGIN_EXTENT_TREE;
	for (i = 0; i < 16; i++)
		any |= words[i];
	/* nothing but zeroes proves nothing */
	return any ? RT_ORIGIN_OTHER_METADATA : RT_ORIGIN_UNKNOWN;
}

struct rt_buffer {
	bool metadata;		/* the page is the block device's */
	const char *data;	/* NULL: content not at hand */
};

/* Is this buffer head the one of that page, of that size? */
static __always_inline bool rt_bh_fits(struct buffer_head *bh, __u64 head, __u32 size,
				       __u32 offset)
{
	__u64 page = (__u64)BPF_CORE_READ(bh, b_page);

	return BPF_CORE_READ(bh, b_size) == size && page && rt_page_head(page) == head &&
	       ((__u64)BPF_CORE_READ(bh, b_data) & 4095) == offset;
}

/* The page and buffer head behind the first segment of a bio. */
static __always_inline void rt_bio_buffer(struct bio *bio, __u32 size, struct rt_buffer *out)
{
	__u64 vec = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		    (__u64)BPF_CORE_READ(bio, bi_iter.bi_idx) *
			    bpf_core_type_size(struct bio_vec);
	struct address_space *mapping;
	struct buffer_head *bh;
	struct bio_vec bv = {};
	__u64 head;
	int i;

	bpf_core_read(&bv.bv_page, sizeof(bv.bv_page), &((struct bio_vec *)vec)->bv_page);
	bpf_core_read(&bv.bv_offset, sizeof(bv.bv_offset), &((struct bio_vec *)vec)->bv_offset);
	if (!bv.bv_page)
		return;
	head = rt_page_head((__u64)bv.bv_page);
	mapping = BPF_CORE_READ((struct page *)head, mapping);
	if (!mapping || (__u64)mapping & 3)	/* anonymous, movable */
		return;
	if ((BPF_CORE_READ(mapping, host, i_mode) & RT_S_IFMT) != RT_S_IFBLK)
		return;
	out->metadata = true;

	bh = (struct buffer_head *)BPF_CORE_READ(bio, bi_private);
	if (bh && rt_bh_fits(bh, head, size, bv.bv_offset)) {
		out->data = BPF_CORE_READ(bh, b_data);
		return;
	}
	/* md's clone: bi_private is md's. The page knows its buffers. */
	if (head != (__u64)bv.bv_page)
		return;
	bh = (struct buffer_head *)BPF_CORE_READ((struct page *)head, private);
	for (i = 0; i < 4 && bh; i++) {
		if (rt_bh_fits(bh, head, size, bv.bv_offset)) {
			out->data = BPF_CORE_READ(bh, b_data);
			return;
		}
		bh = BPF_CORE_READ(bh, b_this_page);
	}
}

__u64 rt_bio_metadata(__u64 bio, __u32 size, __u64 blocks, __u32 has_content)
{
	struct rt_buffer buffer = {};

	rt_bio_buffer((struct bio *)bio, size, &buffer);
	if (!buffer.metadata)
		return RT_NOT_METADATA;
	if (!has_content || !buffer.data)
		return RT_ORIGIN_UNKNOWN;
	return rt_sniff_content(buffer.data, size, blocks);
}
