// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Finds the origin of a block in the block device's page cache by its content. ext4 keeps metadata
 * there, with one buffer head and one bio per block; file data is in the page caches of the files.
 * Called once per block, not per IO: the result is kept in rt_learned.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "compat.bpf.h"
#include "optional.bpf.h"
#include "content.bpf.h"

enum {
	RT_EXT4_EXT_MAGIC = 0xf30a,		/* fs/ext4/ext4_extents.h */
	RT_EXT4_XATTR_MAGIC = 0xea020000,	/* fs/ext4/xattr.h */
	RT_JBD2_MAGIC = 0x98393bc0,		/* JBD2_MAGIC_NUMBER, big endian on disk */
	RT_EXT4_FT_MAX = 8,
	RT_WORDS = 8,				/* words of a block that are read */
	RT_DIRENTS = 4,				/* directory entries that must be valid */
	RT_BIO_VECS = 256,			/* BIO_MAX_VECS: segments that a bio can have */
	RT_VECS_STEP = 32,			/* segments visited in one call */
};

/* ext4_dir_entry_2 without its name */
struct rt_dirent {
	__u32 inode;
	__u16 rec_len;
	__u8 name_len;
	__u8 file_type;
};

/* True if the first RT_DIRENTS directory entries are valid, or all up to the block's end. */
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

/*
 * Origin by block numbers: extent_tree for an ext2/3 indirect block, which holds only block numbers
 * inside the filesystem. Reads two numbers at a time: an array would take 32 bytes of stack in the
 * deepest function.
 */
static __always_inline __u32 rt_block_numbers(const char *data, __u64 blocks)
{
	__u64 two, any = 0;
	bool outside = false;
	int i;

	for (i = 0; i < RT_WORDS / 2; i++) {
		two = rt_peek((__u64)data + i * sizeof(two));
		any |= two;
		if ((__u32)two >= blocks || two >> 32 >= blocks)
			outside = true;
	}
	if (!any)
		return RT_ZEROES;
	return outside ? RT_ORIGIN_OTHER_METADATA : RT_ORIGIN_EXTENT_TREE;
}

static __always_inline __u32 rt_sniff_content(const char *data, __u32 size, __u64 blocks)
{
	__u32 first, second;
	__u64 two;

	if (bpf_probe_read_kernel(&two, sizeof(two), data))
		return RT_ORIGIN_UNKNOWN;
	first = two;
	second = two >> 32;
	/* eh_magic; eh_entries <= eh_max; eh_max fits in the block */
	if ((first & 0xffff) == RT_EXT4_EXT_MAGIC &&
	    first >> 16 <= (second & 0xffff) && (second & 0xffff) <= size / 12)
		return RT_ORIGIN_EXTENT_TREE;
	if (first == RT_EXT4_XATTR_MAGIC)
		return RT_ORIGIN_XATTR;
	if (first == RT_JBD2_MAGIC)
		return RT_ORIGIN_JOURNAL;
	if (rt_is_directory(data, size))
		return RT_ORIGIN_DIRECTORY;
	return rt_block_numbers(data, blocks);
}

struct rt_buffer {
	bool metadata;		/* the page belongs to the block device */
	bool journal;		/* the block is being written to the log */
	const char *data;	/* NULL: the content is not available */
};

/* True if the buffer head describes exactly this block of the page. */
static __always_inline bool rt_bh_fits(struct buffer_head *bh, __u64 head, __u32 size,
				       __u32 offset)
{
	__u64 page = (__u64)BPF_CORE_READ(bh, b_page);

	return BPF_CORE_READ(bh, b_size) == size && page && rt_page_head(page) == head &&
	       ((__u64)BPF_CORE_READ(bh, b_data) & (rt_page_size() - 1)) == offset;
}

/*
 * True if the buffer head is one with which jbd2 writes a block to the log. jbd2 uses a separate
 * buffer head on the block's page (jbd2_journal_write_metadata_buffer()), which is not in the
 * page's list of buffers. Matters only if the layout does not contain the journal's blocks.
 */
static __always_inline bool rt_is_log_buffer(struct buffer_head *bh, __u64 head)
{
	struct buffer_head *first = (struct buffer_head *)BPF_CORE_READ((struct page *)head, private);
	struct buffer_head *each = first;
	int i;

	for (i = 0; i < 4 && each; i++) {
		if (each == bh)
			return false;
		each = BPF_CORE_READ(each, b_this_page);
	}
	/* not in the list */
	return first && each == first;
}

/*
 * Linear mapping of the kernel: address = page * PAGE_SIZE / sizeof(struct page) + rt_linear - 1.
 * x86-64 has two variables for it, or, if built without CONFIG_DYNAMIC_MEMORY_LAYOUT, two constants
 * (Documentation/arch/x86/x86_64/mm.rst). If the variables are hidden, and on other architectures,
 * it is derived from a buffer head, which has both page and address. 0: not known yet. Holds 1 more
 * than the offset, because the offset can be 0: on arm64 since commit 8c96400d6a39 ("arm64: mm:
 * make vmemmap region a projection of the linear region"), for example in Debian's 6.1.
 */
__u64 rt_linear;

/* True on x86-64, unless the addresses of the two variables are hidden. */
static __always_inline bool linear_is_known(void)
{
#ifdef __TARGET_ARCH_x86
	return rt_vmemmap_base != ~0ULL;
#else
	return false;
#endif
}

static __always_inline __u64 page_address(__u64 page)
{
	__u64 scale = rt_page_size() / bpf_core_type_size(struct page);
	__u64 vmemmap = 0xffffea0000000000, offset = 0xffff888000000000;

	if (rt_linear)
		return page * scale + rt_linear - 1;
	if (!linear_is_known())
		return 0;	/* a guess would read unrelated memory */
	if (rt_vmemmap_base && rt_page_offset_base) {
		bpf_probe_read_kernel(&vmemmap, sizeof(vmemmap), (void *)rt_vmemmap_base);
		bpf_probe_read_kernel(&offset, sizeof(offset), (void *)rt_page_offset_base);
	}
	rt_linear = offset - vmemmap * scale + 1;
	return page * scale + rt_linear - 1;
}

/*
 * Derives rt_linear from a buffer head. page: the bio's page, which is used only if it equals
 * b_page: folio_set_bh() (fs/buffer.c) sets b_page to the first page of the folio, whichever page
 * the buffer is on.
 */
static __always_inline void note_linear(struct buffer_head *bh, __u64 page)
{
	__u64 data = (__u64)BPF_CORE_READ(bh, b_data);
	__u64 scale = rt_page_size() / bpf_core_type_size(struct page);

	if (!linear_is_known() && !rt_linear && (__u64)BPF_CORE_READ(bh, b_page) == page)
		rt_linear = (data & ~(rt_page_size() - 1)) - page * scale + 1;
}

/*
 * Advances rt_last_segment() to the segment that holds the byte, by at most RT_VECS_STEP segments;
 * returns 1 if found. The verifier follows every iteration of a loop: several calls of a short loop
 * take it a fraction of the time of RT_BIO_VECS iterations.
 */
__noinline int rt_seek_segment(__u64 offset)
{
	struct rt_segment *last = rt_last_segment();
	__u32 len;
	int i;

	if (!last)
		return 0;
	for (i = 0; i < RT_VECS_STEP; i++) {
		len = RT_PEEK((struct bio_vec *)last->vec, bv_len);
		if (offset < last->begin + len)
			return 1;
		last->begin += len;
		last->vec += bpf_core_type_size(struct bio_vec);
	}
	return 0;
}

/* Finds the page and offset of a byte in the remaining part of a bio. */
static __always_inline bool find_page(struct bio *bio, __u32 offset, struct bio_vec *out)
{
	__u64 first = (__u64)BPF_CORE_READ(bio, bi_io_vec) +
		      (__u64)BPF_CORE_READ(bio, bi_iter.bi_idx) *
			      bpf_core_type_size(struct bio_vec);
	struct rt_segment *last = rt_last_segment();
	struct bio_vec *bv;
	bool known;
	int i;

	if (!last || !rt_has_pages())
		return false;
	known = offset && last->bio == (__u64)bio && last->first == first;
	/* a bio may begin in the middle of a segment, for example the second part of a split bio */
	offset += rt_bio_segment_offset(bio);
	last->bio = 0;	/* a completion in an interrupt would set it again */
	if (!known || last->begin > offset) {
		last->first = first;
		last->vec = first;
		last->begin = 0;
	}
	for (i = 0; i < RT_BIO_VECS / RT_VECS_STEP; i++) {
		if (!rt_seek_segment(offset))
			continue;
		if (last->bio || last->first != first)
			return false;	/* a completion in an interrupt has used the entry */
		last->bio = (__u64)bio;
		bv = (struct bio_vec *)last->vec;
		/* a segment may cover consecutive pages */
		offset += RT_PEEK(bv, bv_offset) - (__u32)last->begin;
		out->bv_page = (void *)((__u64)RT_PEEK(bv, bv_page) +
					(__u64)(offset >> rt_page_shift) * bpf_core_type_size(struct page));
		out->bv_offset = offset & (rt_page_size() - 1);
		return RT_PEEK(bv, bv_page);
	}
	return false;
}

/* Finds the page and buffer head of a block of a bio. */
static __always_inline void rt_bio_buffer(struct bio *bio, __u32 offset, __u32 size,
					  __u32 content, struct rt_buffer *out)
{
	struct buffer_head *bh = (struct buffer_head *)BPF_CORE_READ(bio, bi_private);
	struct address_space *mapping;
	struct bio_vec bv = {};
	__u64 head, address;
	bool fits;

	if (!find_page(bio, offset, &bv))
		return;
	if (content == RT_CONTENT_SURE) {
		address = page_address((__u64)bv.bv_page);
		out->metadata = true;
		out->data = address ? (const char *)(address + bv.bv_offset) : NULL;
		return;
	}
	head = rt_page_head((__u64)bv.bv_page);
	mapping = BPF_CORE_READ((struct page *)head, mapping);
	if ((__u64)mapping & 3)	/* anonymous, movable */
		return;
	fits = bh && rt_bh_fits(bh, head, size, bv.bv_offset);
	if (!mapping) {
		/* A buffer head on a page without a mapping: jbd2's frozen copy of a block. */
		out->metadata = out->journal = fits;
		return;
	}
	if ((BPF_CORE_READ(mapping, host, i_mode) & RT_S_IFMT) != RT_S_IFBLK)
		return;
	out->metadata = true;
	if (fits) {
		note_linear(bh, (__u64)bv.bv_page);
		out->journal = rt_is_log_buffer(bh, head);
		out->data = BPF_CORE_READ(bh, b_data);
		return;
	}
	/* a clone made by md, or readahead, which has no buffer heads */
	address = page_address((__u64)bv.bv_page);
	if (address)
		out->data = (const char *)(address + bv.bv_offset);
}

__u64 rt_bio_metadata(__u64 bio, __u64 extent, __u64 blocks, __u32 content)
{
	struct rt_buffer buffer = {};
	__u32 size = extent;

	if (!rt_has_pages())
		return RT_ORIGIN_UNKNOWN;
	rt_bio_buffer((struct bio *)bio, extent >> 32, size, content, &buffer);
	if (!buffer.metadata)
		return RT_NOT_METADATA;
	if (buffer.journal)
		return RT_ORIGIN_JOURNAL;
	if (!content || !buffer.data)
		return RT_ORIGIN_UNKNOWN;
	return rt_sniff_content(buffer.data, size, blocks);
}

__u64 rt_bio_address(__u64 bio, __u32 offset)
{
	struct bio_vec bv = {};
	__u64 address;

	if (!find_page((struct bio *)bio, offset, &bv))
		return 0;
	address = page_address((__u64)bv.bv_page);
	return address ? address + bv.bv_offset : 0;
}

__u32 rt_content_origin(__u64 data, __u32 size, __u64 blocks)
{
	__u32 origin = data ? rt_sniff_content((const char *)data, size, blocks) : RT_ORIGIN_UNKNOWN;

	return origin == RT_ZEROES ? RT_ORIGIN_UNKNOWN : origin;
}
