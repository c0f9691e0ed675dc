/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Origins and operations of IO. The only definition: build.rs reads these lines and generates the
 * Rust enums from them. RT_OP_DIRTY (tasks.h), which takes the place of an operation, is for data
 * that was dirtied, not for IO.
 *
 * Numbers are part of recordings: append, never renumber.
 */
#ifndef RAIDTRACE_ORIGINS_H
#define RAIDTRACE_ORIGINS_H

/*
 * X(number, CONSTANT, name, group). Filesystem origins: 3 to 6 are ext4's, 19 to 24 XFS's, the
 * others are common to both. RAW: outside any known filesystem, and not md's own metadata.
 */
#define RT_ORIGINS(X) \
	X(0, UNKNOWN, unknown, else) \
	X(1, RAW, raw, else) \
	X(2, SUPERBLOCK, superblock, filesystem) \
	X(3, GROUP_DESCRIPTORS, group_descriptors, filesystem) \
	X(4, BLOCK_BITMAP, block_bitmap, filesystem) \
	X(5, INODE_BITMAP, inode_bitmap, filesystem) \
	X(6, INODE_TABLE, inode_table, filesystem) \
	X(7, JOURNAL, journal, filesystem) \
	X(8, DIRECTORY, directory, filesystem) \
	X(9, EXTENT_TREE, extent_tree, filesystem) \
	X(10, XATTR, xattr, filesystem) \
	X(11, OTHER_METADATA, other_metadata, filesystem) \
	X(12, FILE_DATA, file_data, filesystem) \
	X(13, MD_SUPERBLOCK, md_superblock, md) \
	X(14, MD_BITMAP, md_bitmap, md) \
	X(15, MD_JOURNAL, md_journal, md) \
	X(16, PARITY, parity, md) \
	X(17, RMW_READ, rmw_read, md) \
	X(18, RESYNC, resync, md) \
	X(19, AG_HEADER, ag_header, filesystem) \
	X(20, FREE_SPACE_BTREE, free_space_btree, filesystem) \
	X(21, INODE_BTREE, inode_btree, filesystem) \
	X(22, INODE_CLUSTER, inode_cluster, filesystem) \
	X(23, RMAP_BTREE, rmap_btree, filesystem) \
	X(24, REFCOUNT_BTREE, refcount_btree, filesystem) \
	X(25, SWAP, swap, else)

/* Y(number, CONSTANT, name) */
#define RT_OPS(Y) \
	Y(0, READ, read) \
	Y(1, WRITE, write) \
	Y(2, FLUSH, flush) \
	Y(3, DISCARD, discard) \
	Y(4, WRITE_ZEROES, write_zeroes) \
	Y(5, OTHER, other)

#define RT_ORIGIN_CONST(n, C, name, group) RT_ORIGIN_##C = n,
enum rt_origin {
	RT_ORIGINS(RT_ORIGIN_CONST)
	RT_ORIGIN_NR,
};

#define RT_OP_CONST(n, C, name) RT_OP_##C = n,
enum rt_op {
	RT_OPS(RT_OP_CONST)
	RT_OP_NR,
};

#endif
