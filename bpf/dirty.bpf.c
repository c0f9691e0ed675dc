// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Metadata blocks and file data that tasks dirty, and that jbd2 and writeback write later. Counted
 * in the tables of submitted bios, under RT_OP_DIRTY. These programs use their own entries of the
 * per-CPU maps, for example rt_tasks_pending, because an interrupt can submit a bio while one of
 * them is running, and because one can be switched out (tracepoints since commit a46023d5616e,
 * functions on preemptible kernels) while the other runs on that CPU.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "files.bpf.h"
#include "content.bpf.h"
#include "tasks.bpf.h"

/* Device of a filesystem if the whole filesystem is on one array, else NULL. */
static __always_inline struct rt_dev *filesystem(__u32 dev)
{
	struct rt_dev *d = rt_dev_of(dev);

	return d && d->dirty_array ? d : NULL;
}

static __always_inline void count(__u32 array, __u32 origin, __u64 bytes, __u32 instance)
{
	rt_count_task(bpf_get_current_pid_tgid(), array, origin, RT_OP_DIRTY, bytes, instance);
}

/*
 * A handle ends in the context of the task that dirtied its blocks (jbd2_journal_stop()).
 * dirtied: credits used, one for each block that was not part of the transaction yet. The blocks
 * have no origin: this program runs if origins are not asked for, or if rt_dirty_block cannot be
 * attached.
 */
SEC("?tp_btf/jbd2_handle_stats")
int BPF_PROG(rt_dirty_handle, __u32 dev, int tid, unsigned int type, unsigned int line_no,
	     int interval, int sync, int requested, int dirtied)
{
	struct rt_dev *d;

	if (dirtied <= 0)
		return 0;
	d = filesystem(dev);
	if (d)
		count(d->dirty_array - 1, RT_ORIGIN_UNKNOWN, (__u64)dirtied * d->fs_block,
		      RT_DIRTY_METADATA);
	return 0;
}

/*
 * Origin of a metadata buffer: by its address, else by its content, which is complete at this
 * point.
 */
static __always_inline __u32 origin_of(struct buffer_head *bh, __u32 array, __u64 sector,
				       __u32 size)
{
	struct rt_array *a = bpf_map_lookup_elem(&rt_arrays, &array);
	__u32 origin;

	if (!a)
		return RT_ORIGIN_UNKNOWN;
	origin = rt_found_origin(rt_array_origin(array, a, sector, RT_OP_WRITE, 1));
	if (origin != RT_ORIGIN_FILE_DATA && origin != RT_ORIGIN_UNKNOWN)
		return origin;
	/* the page of a regular file, not a block device page: data=journal */
	if (rt_page_inode((__u64)BPF_CORE_READ(bh, b_page)) > RT_ANONYMOUS_PAGE)
		return RT_ORIGIN_FILE_DATA;
	return rt_content_origin((__u64)BPF_CORE_READ(bh, b_data), size,
				 a->geometry.array_sectors / (size >> 9));
}

/*
 * Replaces rt_dirty_handle if origins are asked for. A buffer becomes dirty metadata of the running
 * transaction. If b_modified is set, it has already been dirtied in this transaction, and takes no
 * credit and no block of the log.
 */
SEC("?fentry/jbd2_journal_dirty_metadata")
int BPF_PROG(rt_dirty_block, void *handle, struct buffer_head *bh)
{
	struct journal_head___rt *jh = BPF_CORE_READ(bh, b_private);
	__u32 origin = RT_ORIGIN_UNKNOWN, size;
	struct rt_dev *d;
	__u64 sector;

	if (!jh || BPF_CORE_READ(jh, b_modified))
		return 0;
	d = filesystem(BPF_CORE_READ(bh, b_bdev, bd_dev));
	if (!d)
		return 0;
	size = BPF_CORE_READ(bh, b_size);
	if (size < 512)
		return 0;
	/*
	 * 0: dm maps the filesystem's device to several ranges of the array, and struct rt_dev has
	 * room for the start of only one
	 */
	if (d->fs_array) {
		sector = d->fs_start + BPF_CORE_READ(bh, b_blocknr) * (size >> 9);
		origin = origin_of(bh, d->fs_array - 1, sector, size);
	}
	count(d->dirty_array - 1, origin, size, RT_DIRTY_METADATA);
	return 0;
}

/* A page cache page of a file becomes dirty: folio_account_dirtied(). */
static __always_inline int dirty_page(struct address_space *mapping, __u64 bytes)
{
	struct inode *inode;
	struct rt_dev *d;

	if (!mapping)
		return 0;
	inode = BPF_CORE_READ(mapping, host);
	if (!inode || !rt_is_regular((__u64)inode))
		return 0;
	d = filesystem(BPF_CORE_READ(inode, i_sb, s_dev));
	if (!d)
		return 0;
	count(d->dirty_array - 1, RT_ORIGIN_FILE_DATA, bytes, RT_DIRTY_DATA);
	rt_count_file((__u64)inode, d->dirty_array - 1, RT_OP_DIRTY, bytes,
		      bpf_get_current_pid_tgid(), RT_DIRTY_DATA);
	return 0;
}

/* Number of pages of a folio. */
static __always_inline __u64 folio_pages(__u64 folio)
{
	/* not a large folio: the next struct page is not one of its tail pages */
	if (rt_page_head(folio + bpf_core_type_size(struct page)) != folio)
		return 1;
	if (bpf_core_field_exists(struct folio___nr_pages, _nr_pages))
		return BPF_CORE_READ((struct folio___nr_pages *)folio, _nr_pages);
	if (bpf_core_field_exists(struct folio___folio_nr_pages, _folio_nr_pages))
		return BPF_CORE_READ((struct folio___folio_nr_pages *)folio, _folio_nr_pages);
	return 1;
}

SEC("?tp_btf/writeback_dirty_folio")
int BPF_PROG(rt_dirty_folio, void *folio, struct address_space *mapping)
{
	return dirty_page(mapping, rt_page_size() * folio_pages(rt_peek((__u64)&ctx[0])));
}

/* rt_dirty_folio up to 5.17. */
SEC("?tp_btf/writeback_dirty_page")
int BPF_PROG(rt_dirty_page, struct page *page, struct address_space *mapping)
{
	return dirty_page(mapping, rt_page_size());
}
