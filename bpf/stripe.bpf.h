/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reason for which md submitted a bio, if the bio's address does not determine it: md reads a block
 * for a task or for parity, and writes it for a task or for a resync.
 */
#ifndef RAIDTRACE_STRIPE_BPF_H
#define RAIDTRACE_STRIPE_BPF_H

#include "peek.bpf.h"

/* Not an origin: the address determines the origin. */
enum { RT_BY_ADDRESS = 255 };

/*
 * The reason of a bio is kept from its submission to its completion in one 64-bit word, which is
 * read and written as a whole: the bio's address without its upper 16 bits, which are not needed to
 * tell bios apart, and the reason in their place.
 */
enum { RT_REASON_SHIFT = 48 };

static __always_inline bool rt_reason_is_for(__u64 reason, __u64 bio)
{
	return !((reason ^ bio) << (64 - RT_REASON_SHIFT));
}

static __always_inline struct rt_reasons *rt_reasons_of(__u64 bio)
{
	__u32 slot = (bio * 0x9e3779b97f4a7c15ULL >> 32) & rt_reason_mask;

	return bpf_map_lookup_elem(&rt_reasons, &slot);
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

/* Flags of rt_classify()'s `array_and_flags`, in the bits above the array's index. */
enum {
	RT_CLASSIFY_RESHAPING = 1 << 16,	/* during a reshape, not of the stripe cache */
	RT_CLASSIFY_SHADOW = 1 << 17,	/* called by a shadow program */
};

static __always_inline bool rt_is_raid10_bio(__u64 end_io)
{
	return end_io == rt_raid10_end_read || end_io == rt_raid10_end_write;
}

/*
 * Finds the reason of a bio at its submission to a member, and keeps it until the bio's completion.
 * The bio must belong to a stripe or, with RT_CLASSIFY_RESHAPING in `array_and_flags`, to a
 * RAID 10, or bypass the stripe cache. bio: a number, see rt_bio_metadata(). array_and_flags: the
 * array, and flags.
 */
int rt_classify(__u64 bio, __u32 size, __u32 op, __u32 array_and_flags);

/* Reason of a stripe cache bio whose submission was not seen. */
__u32 rt_unseen_reason(__u32 op, __u32 array);

/*
 * Bio that was submitted to the topmost dm device or disk, for a bio of a request: follows dm's
 * clones and dm-crypt's bios, which refer to the bio that they were made for.
 */
__u64 rt_dm_origin(__u64 bio);

/* Reason of a bio at its completion: an origin, or RT_BY_ADDRESS. */
static __always_inline __u32 rt_md_reason(__u64 bio, __u64 end_io, __u32 op, __u32 array,
					  __u32 flags)
{
	struct rt_reasons *reasons;
	__u64 reason;
	int i;

	if (end_io == rt_dm_end_io || end_io == rt_crypt_end) {
		bio = rt_dm_origin(bio);
		end_io = (__u64)RT_PEEK((struct bio *)bio, bi_end_io);
	}
	if (rt_is_sync_bio(end_io))
		return RT_ORIGIN_RESYNC;
	if (!(flags & RT_PART_RESHAPE) && !rt_is_stripe_bio(end_io))
		return RT_BY_ADDRESS;
	reasons = rt_reasons_of(bio);
	for (i = 0; reasons && i < RT_REASON_WAYS; i++) {
		reason = reasons->way[i];
		if (rt_reason_is_for(reason, bio)) {
			reasons->way[i] = 0;
			return reason >> RT_REASON_SHIFT;
		}
	}
	/* the bio was not classified, or was submitted before the programs were attached */
	return flags & RT_PART_RESHAPE ? RT_BY_ADDRESS : rt_unseen_reason(op, array);
}

#endif
