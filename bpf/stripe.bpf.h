/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Why md submitted a bio, where its address does not tell: a block is read for
 * a user or for parity, written for a user or by a resync.
 */
#ifndef RAIDTRACE_MD_BPF_H
#define RAIDTRACE_MD_BPF_H

/* Not an origin: the address decides. */
enum { RT_BY_ADDRESS = 255 };

/*
 * A verdict, from the submission of a bio to its completion, is one number
 * that is written and read whole: the bio's address without its upper 16 bits,
 * which are all ones in the kernel's half, and above it the verdict.
 */
enum { RT_VERDICT_SHIFT = 48 };

static __always_inline bool rt_verdict_on(__u64 verdict, __u64 bio)
{
	return !((verdict ^ bio) << (64 - RT_VERDICT_SHIFT));
}

static __always_inline struct rt_verdicts *rt_verdicts_of(__u64 bio)
{
	__u32 slot = (bio * 0x9e3779b97f4a7c15ULL >> 32) & rt_verdict_mask;

	return bpf_map_lookup_elem(&rt_verdicts, &slot);
}

static __always_inline bool rt_is_stripe_bio(__u64 end_io)
{
	return end_io == rt_raid5_end_read || end_io == rt_raid5_end_write;
}

static __always_inline bool rt_is_sync_bio(__u64 end_io)
{
	int i;

	for (i = 0; i < RT_SYNC_ENDS; i++) {
		if (end_io == rt_sync_ends[i])
			return true;
	}
	return false;
}

/* In where of rt_judge(), beside the array: a RAID 10 that is being reshaped; a second look. */
enum {
	RT_JUDGE_MOVING = 1 << 16,
	RT_JUDGE_AGAIN = 1 << 17,
};

static __always_inline bool rt_is_moving_bio(__u64 end_io)
{
	return end_io == rt_raid10_end_read || end_io == rt_raid10_end_write;
}

/*
 * A bio on a member as it is submitted, which has to be a stripe's or, with
 * RT_JUDGE_MOVING in where, a RAID 10's: judged, and the verdict kept for its
 * completion. Bios come as numbers, see rt_bio_metadata(). where: the array.
 */
int rt_judge(__u64 bio, __u32 size, __u32 op, __u32 where);

/* A bio of the stripe cache that could not be judged. */
__u32 rt_unjudged(__u32 op, __u32 array);

/* At its completion: an origin, or RT_BY_ADDRESS. */
static __always_inline __u32 rt_why(__u64 bio, __u64 end_io, __u32 op, __u32 array, __u32 flags)
{
	struct rt_verdicts *kept;
	__u64 verdict;
	int i;

	if (rt_is_sync_bio(end_io))
		return RT_ORIGIN_RESYNC;
	if (!(flags & RT_PART_RESHAPE) && !rt_is_stripe_bio(end_io))
		return RT_BY_ADDRESS;
	kept = rt_verdicts_of(bio);
	for (i = 0; kept && i < RT_VERDICT_WAYS; i++) {
		verdict = kept->way[i];
		if (rt_verdict_on(verdict, bio)) {
			kept->way[i] = 0;
			return verdict >> RT_VERDICT_SHIFT;
		}
	}
	/* none of those that are judged; or submitted before us */
	return flags & RT_PART_RESHAPE ? RT_BY_ADDRESS : rt_unjudged(op, array);
}

#endif
