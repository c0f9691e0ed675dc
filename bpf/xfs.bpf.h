/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Origins of XFS's bios. XFS writes and reads all metadata through struct xfs_buf, whose bios have
 * a completion function of their own; the buffer's b_ops say what the block holds. So metadata is
 * told from file data without its content, and reads are known when they are submitted.
 */
#ifndef RAIDTRACE_XFS_BPF_H
#define RAIDTRACE_XFS_BPF_H

/*
 * True if the addresses of XFS's functions are hidden. XFS sets REQ_META in the bios of its
 * metadata and of its log, and in no others (xfs_buf_submit_bio(), xlog_write_iclog()), so metadata
 * is still told from file data, but its kind only by content.
 */
static __always_inline bool rt_xfs_is_hidden(void)
{
	return rt_xfs_buf_end == ~0ULL;
}

/*
 * True if a bio may be one of XFS's buffers or of its log: the completion function is XFS's, or one
 * that hides it (a split bio, device mapper). False at once for most file data. The sector is an
 * XFS's, so that RT_REQ_META is not ext4's.
 */
static __always_inline bool rt_may_be_xfs(__u64 end, __u32 opf)
{
	if (rt_xfs_is_hidden())
		return opf & RT_REQ_META;
	return end == rt_xfs_buf_end || end == rt_xfs_log_end || end == rt_chain_end ||
	       end == rt_dm_end_io || end == rt_crypt_end;
}

/*
 * Origin of a bio submitted by XFS: RT_NOT_METADATA if it is neither a buffer's nor the log's;
 * RT_ORIGIN_UNKNOWN for a read of one block that only its content identifies. how: op << 32 | size
 * of the bio. block: size of a block of the filesystem in bytes.
 */
__u32 rt_xfs_origin(__u64 bio, __u64 how, __u32 block);

/* Learns the origin of all blocks of a bio. size: of the bio, in bytes. */
int rt_xfs_learn(__u64 key, __u32 origin, __u32 size, __u32 block);

/*
 * Origin of a metadata block of XFS by its content; RT_ORIGIN_OTHER_METADATA if it matches none.
 * data: address, or 0.
 */
__u32 rt_xfs_content(__u64 data, __u32 block);

#endif
