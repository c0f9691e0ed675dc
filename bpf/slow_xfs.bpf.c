// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations on XFS, as slow_operation.bpf.c and slow_namespace.bpf.c do it for ext4. Their sleeps
 * are told apart by the functions in the stack, so no other function of XFS is hooked.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow_operation.bpf.h"

/* fs/xfs/xfs_log_priv.h and xfs_trans_priv.h; in the BTF of the module, if XFS is one */
struct xfs_ail___rt {
	struct task_struct *ail_task;
} __attribute__((preserve_access_index));

struct xlog___rt {
	struct xfs_ail___rt *l_ailp;
} __attribute__((preserve_access_index));

static __always_inline struct rt_slow_task *begin(struct inode *inode, __u32 kind)
{
	struct rt_slow_task *t = rt_slow_begin(inode, kind);

	if (t)
		t->flags = RT_SLOW_XFS;
	return t;
}

/* fsync, fdatasync, msync(MS_SYNC) and synchronous writes */
SEC("?fentry/xfs_file_fsync")
int BPF_PROG(rt_slow_xfs_sync_in, struct file *file, __s64 start, __s64 end, int datasync)
{
	begin(file->f_inode, datasync ? RT_SLOW_FDATASYNC : RT_SLOW_FSYNC);
	return 0;
}

SEC("?fexit/xfs_file_fsync")
int BPF_PROG(rt_slow_xfs_sync_out, struct file *file, __s64 start, __s64 end, int datasync)
{
	rt_slow_end(datasync ? RT_SLOW_FDATASYNC : RT_SLOW_FSYNC);
	return 0;
}

SEC("?fentry/xfs_file_read_iter")
int BPF_PROG(rt_slow_xfs_read_in, struct kiocb *iocb, struct iov_iter *to)
{
	struct rt_slow_task *t = begin(iocb->ki_filp->f_inode, RT_SLOW_READ);

	if (t)
		rt_slow_set_read(t, iocb, to);
	return 0;
}

SEC("?fexit/xfs_file_read_iter")
int BPF_PROG(rt_slow_xfs_read_out, struct kiocb *iocb, struct iov_iter *to, __s64 result)
{
	rt_slow_end_async(RT_SLOW_READ, result);
	return 0;
}

SEC("?fentry/xfs_file_write_iter")
int BPF_PROG(rt_slow_xfs_write_in, struct kiocb *iocb, struct iov_iter *from)
{
	struct inode *inode = iocb->ki_filp->f_inode;
	struct rt_slow_task *t = begin(inode, RT_SLOW_WRITE);

	if (!t)
		return 0;
	rt_slow_set_write(t, iocb, from, inode);
	/* xfs_file_write_checks() zeroes the range between, with the lock held exclusively */
	if (t->position > (__u64)inode->i_size)
		t->flags |= RT_SLOW_EXTENDS;
	rt_slow_set_iocb(t, iocb);
	return 0;
}

SEC("?fexit/xfs_file_write_iter")
int BPF_PROG(rt_slow_xfs_write_out, struct kiocb *iocb, struct iov_iter *from, __s64 result)
{
	rt_slow_end_async(RT_SLOW_WRITE, result);
	return 0;
}

SEC("?fentry/xfs_file_fallocate")
int BPF_PROG(rt_slow_xfs_fallocate_in, struct file *file, int mode, __s64 offset, __s64 len)
{
	struct rt_slow_task *t = begin(file->f_inode, RT_SLOW_FALLOCATE);

	if (t) {
		t->position = offset;
		t->bytes = len;
	}
	return 0;
}

RT_SLOW_END(rt_slow_xfs_fallocate_out, "xfs_file_fallocate", RT_SLOW_FALLOCATE)

/*
 * Called by truncate(2), ftruncate(2) and open(2) with O_TRUNC with i_rwsem held. The blocks of a
 * deleted file are freed by a kernel thread (xfs_inodegc_worker()), for which no task waits.
 */
SEC("?fentry/xfs_vn_setattr_size")
int BPF_PROG(rt_slow_xfs_truncate_in, void *idmap, struct dentry *dentry)
{
	begin(dentry->d_inode, RT_SLOW_TRUNCATE);
	return 0;
}

RT_SLOW_END(rt_slow_xfs_truncate_out, "xfs_vn_setattr_size", RT_SLOW_TRUNCATE)

RT_SLOW_DIRECTORY(rt_slow_xfs_create_in, "xfs_vn_create", begin, RT_SLOW_CREATE, void *idmap)
RT_SLOW_END(rt_slow_xfs_create_out, "xfs_vn_create", RT_SLOW_CREATE)

RT_SLOW_DIRECTORY(rt_slow_xfs_mkdir_in, "xfs_vn_mkdir", begin, RT_SLOW_CREATE, void *idmap)
RT_SLOW_END(rt_slow_xfs_mkdir_out, "xfs_vn_mkdir", RT_SLOW_CREATE)

RT_SLOW_DIRECTORY(rt_slow_xfs_rename_in, "xfs_vn_rename", begin, RT_SLOW_RENAME, void *idmap)
RT_SLOW_END(rt_slow_xfs_rename_out, "xfs_vn_rename", RT_SLOW_RENAME)

RT_SLOW_DIRECTORY(rt_slow_xfs_unlink_in, "xfs_vn_unlink", begin, RT_SLOW_UNLINK)
RT_SLOW_END(rt_slow_xfs_unlink_out, "xfs_vn_unlink", RT_SLOW_UNLINK)

/*
 * A task is about to wait for space in the log, which the AIL's thread frees: it writes metadata
 * back.
 */
SEC("?tp_btf/xfs_log_grant_sleep")
int BPF_PROG(rt_slow_xfs_grant, struct xlog___rt *log)
{
	__u32 pid = bpf_get_current_pid_tgid();
	struct rt_slow_task *t = rt_slow_current(pid);
	struct rt_slow_operation *o;
	struct task_struct *pusher;

	if (!t || t->kind == RT_SLOW_JBD2 || rt_is_null(log))
		return 0;
	o = rt_slow_details(t, pid);
	if (!o)
		return 0;
	pusher = BPF_CORE_READ(log, l_ailp, ail_task);
	o->pusher = BPF_CORE_READ(pusher, pid);
	bpf_probe_read_kernel(o->pusher_comm, RT_COMM, &pusher->comm);
	return 0;
}
