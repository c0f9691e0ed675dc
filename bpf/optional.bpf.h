/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * For files whose fields only sharpen figures: BPF_CORE_READ() returns 0 for a field that the
 * kernel lacks, so that the program still loads. What is lost then: src/probe/fields.rs.
 */
/* libbpf's macro for one step of BPF_CORE_READ() */
#undef ___read
#define ___read(read_fn, dst, src_type, src, accessor)			\
	(bpf_core_field_exists(((src_type)(src))->accessor) ?		\
		read_fn((void *)(dst), sizeof(*(dst)), &((src_type)(src))->accessor) :	\
		(*(dst) = 0, 0))
