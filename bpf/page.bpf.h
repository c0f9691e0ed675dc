/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A test for file pages, which most IO carries, at a tenth of the cost of rt_bio_metadata(). */
#ifndef RAIDTRACE_PAGE_BPF_H
#define RAIDTRACE_PAGE_BPF_H

#include "compat.bpf.h"
#include "content.bpf.h"
#include "peek.bpf.h"

/*
 * Whether a bio's first page is a file's, or a task's own (direct IO). False:
 * rt_bio_metadata() has to be asked. No verifier lets us look at the low bits of
 * a pointer, hence rt_peek(). Not inline:
 * the stack of rt_rq_complete() is full.
 */
static __noinline bool rt_is_file_page(struct bio *bio)
{
	struct bio_vec *bv = bio->bi_io_vec;
	struct page *page = bv->bv_page;

	if (bio->bi_iter.bi_idx || bv->bv_offset >= rt_page_size())
		return false;
	if (rt_peek((__u64)page + rt_page_head_offset()) & 1)
		return false;	/* not the first page of its folio, which has the mapping */
	if ((__u64)RT_PEEK(page, mapping) & 3)
		return true;	/* anonymous */
	return page->mapping && (page->mapping->host->i_mode & RT_S_IFMT) != RT_S_IFBLK;
}

#endif
