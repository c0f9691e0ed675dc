// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* Origins of XFS's metadata, see xfs.bpf.h. Called for metadata only, not for file data. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>
#include "maps.bpf.h"
#include "lookup.bpf.h"
#include "counters.bpf.h"
#include "compat.bpf.h"
#include "content.bpf.h"
#include "files.bpf.h"
#include "xfs.bpf.h"

/* fs/xfs/xfs_buf.h; in the BTF of the module, if XFS is one */
struct xfs_buf_ops___rt {
	__u32 magic[2];		/* v4, v5, big endian; or two magic numbers of 16 bits in the first */
} __attribute__((preserve_access_index));

struct xfs_buf_map___rt {
	__s64 bm_bn;
	int bm_len;
} __attribute__((preserve_access_index));

struct xfs_buftarg___rt {
	__u32 bt_dev;
} __attribute__((preserve_access_index));

struct xfs_buf___rt {
	struct xfs_buftarg___rt *b_target;
	struct xfs_buf_map___rt *b_maps;
	int b_map_count;
	struct xfs_buf_ops___rt *b_ops;
} __attribute__((preserve_access_index));

/* fs/xfs/xfs_buf_item.h */
struct xfs_buf_log_item___rt {
	struct xfs_buf___rt *bli_buf;
} __attribute__((preserve_access_index));

enum {
	RT_XFS_NODE = 200,	/* a node of a directory or of an xattr tree: only the content tells which */
	RT_XFS_PREFIX = 0x5f736678,	/* "xfs_", with which xfs_buf_ops.name begins */
	/* extents of a buffer that are forgotten; only large blocks of a directory have several */
	RT_XFS_MAPS = 4,
	/* a buffer has at most 64 KiB (XFS_MAX_BLOCKSIZE), a block at least 512 bytes */
	RT_XFS_BLOCKS = 128,
};

/*
 * Origin by a magic number of 32 bits: v5, then v4 (fs/xfs/libxfs/xfs_format.h, xfs_da_format.h).
 */
static __always_inline __u32 by_magic(__u32 magic)
{
	switch (magic) {
	case 0x58465342:	/* XFSB */
		return RT_ORIGIN_SUPERBLOCK;
	case 0x58414746:	/* XAGF */
	case 0x58414749:	/* XAGI */
	case 0x5841464c:	/* XAFL */
		return RT_ORIGIN_AG_HEADER;
	case 0x41423342:	/* AB3B */
	case 0x41423343:	/* AB3C */
	case 0x41425442:	/* ABTB */
	case 0x41425443:	/* ABTC */
		return RT_ORIGIN_FREE_SPACE_BTREE;
	case 0x49414233:	/* IAB3 */
	case 0x46494233:	/* FIB3 */
	case 0x49414254:	/* IABT */
	case 0x46494254:	/* FIBT */
		return RT_ORIGIN_INODE_BTREE;
	case 0x524d4233:	/* RMB3 */
		return RT_ORIGIN_RMAP_BTREE;
	case 0x52334643:	/* R3FC */
		return RT_ORIGIN_REFCOUNT_BTREE;
	case 0x424d4133:	/* BMA3 */
	case 0x424d4150:	/* BMAP */
		return RT_ORIGIN_EXTENT_TREE;
	case 0x58444233:	/* XDB3 */
	case 0x58444433:	/* XDD3 */
	case 0x58444633:	/* XDF3 */
	case 0x58443242:	/* XD2B */
	case 0x58443244:	/* XD2D */
	case 0x58443246:	/* XD2F */
		return RT_ORIGIN_DIRECTORY;
	case 0x5841524d:	/* XARM */
		return RT_ORIGIN_XATTR;
	case 0x58534c4d:	/* XSLM: the target of a symlink */
		return RT_ORIGIN_OTHER_METADATA;
	}
	return RT_ORIGIN_UNKNOWN;
}

/* Origin by a magic number of 16 bits. */
static __always_inline __u32 by_short_magic(__u32 magic)
{
	switch (magic) {
	case 0x3df1:
	case 0x3dff:
	case 0xd2f1:
	case 0xd2ff:
		return RT_ORIGIN_DIRECTORY;
	case 0x3ebe:
	case 0xfebe:
		return RT_XFS_NODE;
	case 0x3bee:
	case 0xfbee:
		return RT_ORIGIN_XATTR;
	case 0x494e:	/* IN */
		return RT_ORIGIN_INODE_CLUSTER;
	case 0x4451:	/* DQ */
		return RT_ORIGIN_OTHER_METADATA;
	}
	return RT_ORIGIN_UNKNOWN;
}

/*
 * Origin by b_ops of the buffer; unknown for buffers without operations or magic. Without XFS's
 * types, the offsets of Debian's 5.10 on x86-64 are tried, which 6.1 and 6.12 have too: they are
 * right if the operations have a name of XFS's.
 */
static __always_inline __u32 by_operations(__u64 buffer)
{
	bool typed = bpf_core_field_exists(struct xfs_buf___rt, b_ops) &&
		     bpf_core_field_exists(struct xfs_buf_ops___rt, magic);
	__u32 ops_at = 352, magic_at = 8;
	__u64 ops, magic;

	if (bpf_core_field_exists(struct xfs_buf___rt, b_ops))
		ops_at = bpf_core_field_offset(struct xfs_buf___rt, b_ops);
	if (bpf_core_field_exists(struct xfs_buf_ops___rt, magic))
		magic_at = bpf_core_field_offset(struct xfs_buf_ops___rt, magic);
	ops = rt_peek(buffer + ops_at);
	if (!ops || (!typed && (__u32)rt_peek(rt_peek(ops)) != RT_XFS_PREFIX))
		return RT_ORIGIN_UNKNOWN;
	magic = rt_peek(ops + magic_at);
	if (magic >> 32)
		return by_magic(bpf_ntohl(magic >> 32));
	return by_short_magic(bpf_ntohl(magic) & 0xffff);
}

/*
 * A node of a directory points to leaves from byte XFS_DIR2_LEAF_OFFSET, 1 << 35, of the directory
 * on; a node of an xattr tree to the first blocks of the attribute fork. `before` is that of the
 * first entry (struct xfs_da3_node_entry). Blocks of different files cannot be told by b_ops, which
 * are the same for both trees.
 */
static __always_inline __u32 node_origin(__u64 data, __u32 block)
{
	bool v5 = (bpf_ntohs(rt_peek(data + 8)) & 0xffff) == 0x3ebe;
	__u64 before = bpf_ntohl((__u32)rt_peek(data + (v5 ? 68 : 20)));

	return before * block >> 35 ? RT_ORIGIN_DIRECTORY : RT_ORIGIN_XATTR;
}

__u32 rt_xfs_content(__u64 data, __u32 block)
{
	__u32 origin;
	__u64 first;

	if (!data)
		return RT_ORIGIN_OTHER_METADATA;
	first = rt_peek(data);
	origin = by_magic(bpf_ntohl((__u32)first));
	if (origin == RT_ORIGIN_UNKNOWN) {
		origin = by_short_magic(bpf_ntohs((__u16)first));
		/* the other short magic numbers are at offset 8: struct xfs_da_blkinfo */
		if (origin != RT_ORIGIN_INODE_CLUSTER)
			origin = by_short_magic(bpf_ntohs((__u16)rt_peek(data + 8)));
	}
	if (origin == RT_XFS_NODE)
		return node_origin(data, block);
	return origin == RT_ORIGIN_UNKNOWN ? RT_ORIGIN_OTHER_METADATA : origin;
}

/* The bio that XFS submitted, from one that dm created or from a part of a split one. */
static __always_inline struct bio *submitted_bio(struct bio *bio)
{
	__u64 source;
	int i;

	for (i = 0; i < RT_DM_LAYERS; i++) {
		source = rt_dm_source(bio);
		/*
		 * since commit fac69ec8cd74 ("xfs: simplify buffer I/O submission"), XFS splits the bio of a
		 * buffer of several extents: bio_chain()
		 */
		if (!source && (__u64)BPF_CORE_READ(bio, bi_end_io) == rt_chain_end)
			source = (__u64)BPF_CORE_READ(bio, bi_private);
		if (!source)
			break;
		bio = (struct bio *)source;
	}
	return bio;
}

__u32 rt_xfs_origin(__u64 number, __u64 how, __u32 block)
{
	struct bio *bio = submitted_bio((struct bio *)number);
	__u64 end = (__u64)BPF_CORE_READ(bio, bi_end_io);
	__u32 size = how, origin;

	if (end == rt_xfs_log_end)
		return RT_ORIGIN_JOURNAL;
	if (end != rt_xfs_buf_end && !rt_xfs_is_hidden())
		return RT_NOT_METADATA;
	origin = rt_xfs_is_hidden() ? RT_ORIGIN_UNKNOWN :
		by_operations((__u64)BPF_CORE_READ(bio, bi_private));
	if (origin != RT_ORIGIN_UNKNOWN && origin != RT_XFS_NODE)
		return origin;
	if (how >> 32 == RT_OP_WRITE)
		return rt_xfs_content(rt_bio_address(number, 0), block);
	/* a block of an xattr tree has the size of a block of the filesystem */
	if (size > block)
		return origin == RT_XFS_NODE ? RT_ORIGIN_DIRECTORY : RT_ORIGIN_OTHER_METADATA;
	return RT_ORIGIN_UNKNOWN;
}

__noinline int rt_xfs_learn(__u64 key, __u32 origin, __u32 size, __u32 block)
{
	__u32 i;

	for (i = 0; i < RT_XFS_BLOCKS && i < size / block; i++) {
		rt_learn(key, origin);
		key += block >> 9;
	}
	return 0;
}

/* Forgets the blocks of one extent of a buffer. block: bytes. */
__noinline int rt_xfs_forget(__u64 key, __u32 block, __u32 sectors)
{
	__u32 i;

	if (block < 512)
		return 0;
	for (i = 0; i < RT_XFS_BLOCKS && i < sectors / (block >> 9); i++) {
		if (rt_filter_lanes(key) & 1)
			bpf_map_delete_elem(&rt_learned, &key);
		key += block >> 9;
	}
	return 0;
}

/*
 * Every metadata block that XFS frees passes here, except values of xattrs in blocks of their own.
 * The write of file data forgets a block, too, but not if its file is unknown, as of direct IO
 * through LVM. A raw tracepoint, whose attachment needs no types.
 */
SEC("?raw_tp/xfs_trans_binval")
int BPF_PROG(rt_xfs_freed, struct xfs_buf_log_item___rt *item)
{
	struct xfs_buf_map___rt *map;
	struct xfs_buf___rt *buffer;
	__u32 i, count, index;
	struct rt_dev *d;
	__u64 key;

	if (!bpf_core_field_exists(struct xfs_buf_log_item___rt, bli_buf) ||
	    !bpf_core_field_exists(struct xfs_buf___rt, b_maps) ||
	    !bpf_core_field_exists(struct xfs_buftarg___rt, bt_dev))
		return 0;
	buffer = BPF_CORE_READ(item, bli_buf);
	d = rt_dev_of(BPF_CORE_READ(buffer, b_target, bt_dev));
	if (!d || !d->fs_array)	/* fs_array: index + 1; 0: none */
		return 0;
	index = d->fs_array - 1;
	map = BPF_CORE_READ(buffer, b_maps);
	count = BPF_CORE_READ(buffer, b_map_count);
	for (i = 0; i < RT_XFS_MAPS && i < count; i++) {
		key = rt_learned_key(index, d->fs_start + BPF_CORE_READ(map, bm_bn));
		rt_xfs_forget(key, d->fs_block, BPF_CORE_READ(map, bm_len));
		map = (void *)((__u64)map + bpf_core_type_size(struct xfs_buf_map___rt));
	}
	return 0;
}
