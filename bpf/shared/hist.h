/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Log-linear buckets, four per power of two, the same as in src/analysis/hist.rs. */
#ifndef RAIDTRACE_HIST_H
#define RAIDTRACE_HIST_H

static __always_inline __u32 rt_log2(__u32 v)
{
	__u32 shift, log;

	log = (v > 0xffff) << 4;
	v >>= log;
	shift = (v > 0xff) << 3;
	v >>= shift;
	log |= shift;
	shift = (v > 0xf) << 2;
	v >>= shift;
	log |= shift;
	shift = (v > 0x3) << 1;
	v >>= shift;
	log |= shift;
	return log | (v >> 1);
}

static __always_inline __u32 rt_bucket(__u64 us)
{
	__u32 v = us > 0xffffffff ? 0xffffffff : us;
	__u32 log;

	if (v < 4)
		return v;
	log = rt_log2(v);
	/*
	 * At most 123. A mask instead of a comparison, which would be another path for the verifier
	 * at each caller.
	 */
	return ((log - 1) * 4 + ((v >> (log - 2)) & 3)) & (RT_HIST_BUCKETS - 1);
}

#endif
