/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds the file that a bio of file data belongs to. Done above md, where the pages and the
 * completion function are still those of the filesystem.
 */
#ifndef RAIDTRACE_FILES_BPF_H
#define RAIDTRACE_FILES_BPF_H

#include "counters.bpf.h"
#include "peek.bpf.h"

static __always_inline bool rt_is_regular(__u64 inode)
{
	return (RT_PEEK((struct inode *)inode, i_mode) & RT_S_IFMT) == RT_S_IFREG;
}

/* Stores the identity of a regular file. False for other inodes, and for 0. */
static __always_inline bool rt_identify(__u64 inode, struct rt_file_id *id)
{
	struct inode *i = (struct inode *)inode;

	if (!inode || !rt_is_regular(inode))
		return false;
	id->inode = RT_PEEK(i, i_ino);
	id->dev = RT_PEEK(RT_PEEK(i, i_sb), s_dev);
	id->generation = RT_PEEK(i, i_generation);
	return true;
}

/*
 * Inode found through the bio's completion function: for direct IO (fs/iomap/direct-io.c), whose
 * pages may be any memory, and for ext4's writeback (fs/ext4/page-io.c), whose pages may be
 * encrypted copies. bio: its address.
 *
 * 7.3 reads at most one block of a file by __iomap_dio_read_simple(). The bio is then a part of a
 * struct iomap_dio_simple, and its pool is the only mark that synchronous and asynchronous reads
 * share.
 */
static __always_inline __u64 rt_end_io_inode(__u64 bio, __u64 end, void *private)
{
	struct kiocb *iocb = NULL;

	if (end == rt_dio_end_io)
		iocb = RT_PEEK((struct iomap_dio *)private, iocb);
	else if (rt_dio_simple_pool != ~0ULL &&
		 (__u64)RT_PEEK((struct bio *)bio, bi_pool) == rt_dio_simple_pool)
		iocb = (struct kiocb *)rt_peek(bio - rt_dio_simple_iocb);
	if (iocb)
		return (__u64)RT_PEEK(RT_PEEK(iocb, ki_filp), f_inode);
	/*
	 * Without ext4's types, rt_ext4_end_io is ~0, which no function address equals. The verifier
	 * does not know that, so the access has to be left out.
	 */
	if (bpf_core_field_exists(struct ext4_io_end___rt, inode) && end == rt_ext4_end_io)
		return (__u64)BPF_CORE_READ((struct ext4_io_end___rt *)private, inode);
	return 0;
}

/*
 * Instead of an inode: the page is anonymous memory, for example a buffer for direct IO. It holds
 * data of a file that cannot be determined.
 */
enum { RT_ANONYMOUS_PAGE = 1 };

/*
 * Inode of the regular file whose page cache contains a page; 0: none; or RT_ANONYMOUS_PAGE, also
 * for a file of a filesystem that is not on the traced devices: shared memory (shmem), or another
 * file's mapping, can be the buffer of direct IO.
 */
static __always_inline __u64 rt_page_inode(__u64 page)
{
	__u64 mapping, inode;

	if (!page)
		return 0;
	page = rt_page_head(page);
	mapping = (__u64)RT_PEEK((struct page *)page, mapping);
	if (!mapping)
		return 0;
	if (mapping & 3)	/* anonymous, movable */
		return RT_ANONYMOUS_PAGE;
	inode = (__u64)RT_PEEK((struct address_space *)mapping, host);
	if (!inode || !rt_is_regular(inode))
		return 0;
	return rt_dev_entry(RT_PEEK(RT_PEEK((struct inode *)inode, i_sb), s_dev)) ?
		inode : RT_ANONYMOUS_PAGE;
}

enum { RT_DM_LAYERS = 6 };	/* LVM on dm-crypt has three */

/* The bio from which dm created this one; 0: not created by dm. */
static __always_inline __u64 rt_dm_source(struct bio *bio)
{
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io), tio;
	void *private = BPF_CORE_READ(bio, bi_private);

	if (end == rt_dm_end_io &&
	    bpf_core_field_exists(struct dm_target_io___rt, io)) {
		tio = (__u64)bio - bpf_core_field_offset(struct dm_target_io___rt, clone);
		return (__u64)BPF_CORE_READ((struct dm_target_io___rt *)tio, io, orig_bio);
	}
	if (end == rt_crypt_end &&
	    bpf_core_field_exists(struct dm_crypt_io___rt, base_bio))
		return (__u64)BPF_CORE_READ((struct dm_crypt_io___rt *)private, base_bio);
	return 0;
}

/*
 * rt_bio_file() for a bio created by dm, or one that begins after its first bio_vec (bi_idx > 0).
 */
__u64 rt_derived_file(__u64 bio);

/*
 * Inode of the regular file that a bio reads or writes; 0: none, or unknown; or RT_ANONYMOUS_PAGE.
 * arg: address of the tracepoint argument that holds the bio.
 */
static __always_inline __u64 rt_bio_file(struct bio *bio, unsigned long long *arg)
{
	__u64 end = (__u64)bio->bi_end_io, inode, page = 0, number = 0;

	inode = rt_end_io_inode(rt_peek((__u64)arg), end, RT_PEEK(bio, bi_private));
	if (inode || !rt_has_pages())
		return inode;
	if (bio->bi_iter.bi_idx || end == rt_dm_end_io || end == rt_crypt_end) {
		bpf_probe_read_kernel(&number, sizeof(number), arg);
		return rt_derived_file(number);
	}
	/*
	 * read as a number, because rt_page_head() does arithmetic on it, which the verifier forbids
	 * on a typed pointer
	 */
	page = rt_peek((__u64)&bio->bi_io_vec->bv_page);
	return rt_page_inode(page);
}

static __always_inline __u32 rt_file_slot(__u64 inode, __u32 op, __u32 pid)
{
	/* struct ext4_inode_info has about 1100 bytes, so the low bits of the addresses differ little */
	return (inode >> 6 ^ inode >> 12 ^ op ^ pid) & (RT_FILE_SLOTS - 1);
}

/* Position of the instance (RT_FIRST, RT_SHADOW or RT_DIRTY_DATA) in `what` of rt_take_file(). */
enum { RT_FILE_INSTANCE_SHIFT = 24 };

/*
 * Slow path of rt_count_file(): the slot holds another file. inode: address of the struct inode; if
 * 0 or not a regular file, the bio is unattributed. what: instance << RT_FILE_INSTANCE_SHIFT |
 * array << 8 | operation. pid: see rt_file_key.
 */
int rt_take_file(__u64 inode, __u32 what, __u64 bytes, __u32 pid);

/* pid: see rt_file_key. */
static __always_inline void rt_count_file(__u64 inode, __u32 array, __u32 op, __u64 bytes,
					  __u32 pid, __u32 instance)
{
	struct inode *i = (struct inode *)inode;
	struct rt_file_pending *p;
	struct rt_file_slot *s;
	__u64 slot;

	p = bpf_map_lookup_elem(&rt_files_pending, &instance);
	if (!p || !rt_counts())
		return;
	slot = rt_file_slot(inode, op, pid);
	barrier_var(slot);	/* keeps the mask below, which the verifier needs, see rt_row() */
	s = &p->slot[slot & (RT_FILE_SLOTS - 1)];
	/* the address alone may be that of a file that has been deleted since */
	if (s->address == inode && s->key.array == array && s->key.op == op &&
	    (!pid || s->key.pid == pid) &&	/* only dirtied data, in slots of its own, has a pid */
	    (!inode || (s->key.file.inode == RT_PEEK(i, i_ino) &&
			s->key.file.generation == RT_PEEK(i, i_generation)))) {
		rt_bump(s->io.bios, 1);
		rt_bump(s->io.bytes, bytes);
		return;
	}
	rt_take_file(inode, instance << RT_FILE_INSTANCE_SHIFT | array << 8 | op, bytes, pid);
}

#endif
