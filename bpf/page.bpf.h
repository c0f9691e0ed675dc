/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A test for file pages, which most IO has, at a tenth of the cost of rt_bio_metadata(). */
#ifndef RAIDTRACE_PAGE_BPF_H
#define RAIDTRACE_PAGE_BPF_H

#include "compat.bpf.h"
#include "content.bpf.h"
#include "peek.bpf.h"

/*
 * True if a bio's first page belongs to a file, or is anonymous memory (direct IO). If false,
 * rt_bio_metadata() has to be called. Uses rt_peek(), because the verifier permits no access to the
 * low bits of a pointer. Not inline, because rt_rq_complete() has no stack left.
 */
static __noinline bool rt_is_file_page(struct bio *bio)
{
	struct bio_vec *bv;
	struct page *page;

	if (!rt_has_pages())
		return false;
	bv = bio->bi_io_vec;
	page = bv->bv_page;
	if (bio->bi_iter.bi_idx || bv->bv_offset >= rt_page_size())
		return false;
	if (rt_peek((__u64)page + rt_page_head_offset()) & 1)
		return false;	/* not the first page of its folio, which has the mapping */
	if ((__u64)RT_PEEK(page, mapping) & 3)
		return true;	/* anonymous */
	return page->mapping && (page->mapping->host->i_mode & RT_S_IFMT) != RT_S_IFBLK;
}

#endif
