// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Forgets metadata blocks that ext4 frees; learns quota blocks that ext4 allocates. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "compat.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "content.bpf.h"

enum {
	RT_EXT4_FREE_BLOCKS_METADATA = 1,	/* fs/ext4/ext4.h */
	RT_FREE_MAX = 1024,			/* blocks forgotten per call */
	RT_QUOTA_MAX = 64,			/* blocks learned per call; a quota file grows by one or two */
};

/* A separate function, so that the verifier checks one block instead of RT_FREE_MAX blocks. */
__noinline int rt_forget_block(__u64 key)
{
	if (rt_filter_lanes(key) & 1)
		bpf_map_delete_elem(&rt_learned, &key);
	return 0;
}

/*
 * rt_learned_key() of a block of a filesystem that is in one piece; ~0: it is not, or not traced.
 */
static __always_inline __u64 key_of(struct super_block *sb, __u64 block)
{
	struct rt_dev *d = rt_dev_of(sb->s_dev);

	if (!d || !d->fs_array)	/* fs_array: index + 1; 0: none */
		return ~0ULL;
	return rt_learned_key(d->fs_array - 1, d->fs_start + block * (sb->s_blocksize >> 9));
}

SEC("?tp_btf/ext4_free_blocks")
int BPF_PROG(rt_free_blocks, struct inode *inode, __u64 block, unsigned long count, int flags)
{
	struct super_block *sb;
	__u64 key;
	__u32 i;

	if (rt_is_null(inode) || !(flags & RT_EXT4_FREE_BLOCKS_METADATA))
		return 0;
	sb = inode->i_sb;
	key = key_of(sb, block);
	if (!~key)
		return 0;
	for (i = 0; i < RT_FREE_MAX && i < count; i++) {
		rt_forget_block(key);
		key += sb->s_blocksize >> 9;
	}
	return 0;
}

enum {
	RT_EXT4_USR_QUOTA_INO = 3,	/* fs/ext4/ext4.h */
	RT_EXT4_GRP_QUOTA_INO = 4,
};

/*
 * Learns the blocks by which a quota file grows. They are written through the block device's page
 * cache, and a block of the quota tree looks like an ext2 indirect block, because it contains small
 * numbers. Attached only if a filesystem has quota files.
 */
SEC("?tp_btf/ext4_allocate_blocks")
int BPF_PROG(rt_quota_blocks, struct ext4_allocation_request *ar, __u64 block)
{
	struct super_block *sb;
	struct inode *inode;
	__u64 key;
	__u32 i;

	if (rt_is_null(ar))
		return 0;
	inode = ar->inode;
	if (inode->i_ino != RT_EXT4_USR_QUOTA_INO && inode->i_ino != RT_EXT4_GRP_QUOTA_INO)
		return 0;
	sb = inode->i_sb;
	key = key_of(sb, block);
	if (!~key)
		return 0;
	for (i = 0; i < RT_QUOTA_MAX && i < ar->len; i++) {
		rt_learn(key, RT_ORIGIN_OTHER_METADATA);
		key += sb->s_blocksize >> 9;
	}
	return 0;
}
