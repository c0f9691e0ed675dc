// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Operations on directories and on whole filesystems. When an operation on a directory starts, the
 * VFS has already locked the directory.
 */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>
#include "compat.bpf.h"
#include "slow_operation.bpf.h"

/*
 * since 5.12, create, mkdir and rename have an additional first argument (user namespace, mount
 * idmap)
 */
RT_SLOW_DIRECTORY(rt_slow_create_in, "ext4_create", rt_slow_begin, RT_SLOW_CREATE, void *idmap)
RT_SLOW_DIRECTORY(rt_slow_create_in_dir, "ext4_create", rt_slow_begin, RT_SLOW_CREATE)
RT_SLOW_END(rt_slow_create_out, "ext4_create", RT_SLOW_CREATE)

RT_SLOW_DIRECTORY(rt_slow_mkdir_in, "ext4_mkdir", rt_slow_begin, RT_SLOW_CREATE, void *idmap)
RT_SLOW_DIRECTORY(rt_slow_mkdir_in_dir, "ext4_mkdir", rt_slow_begin, RT_SLOW_CREATE)
RT_SLOW_END(rt_slow_mkdir_out, "ext4_mkdir", RT_SLOW_CREATE)

RT_SLOW_DIRECTORY(rt_slow_rename_in, "ext4_rename2", rt_slow_begin, RT_SLOW_RENAME, void *idmap)
RT_SLOW_DIRECTORY(rt_slow_rename_in_dir, "ext4_rename2", rt_slow_begin, RT_SLOW_RENAME)
RT_SLOW_END(rt_slow_rename_out, "ext4_rename2", RT_SLOW_RENAME)

RT_SLOW_DIRECTORY(rt_slow_unlink_in, "ext4_unlink", rt_slow_begin, RT_SLOW_UNLINK)
RT_SLOW_END(rt_slow_unlink_out, "ext4_unlink", RT_SLOW_UNLINK)

/* Called by syncfs(2), and for each filesystem that is unmounted or frozen, but not by sync(2). */
SEC("?fentry/sync_filesystem")
int BPF_PROG(rt_slow_syncfs_in, struct super_block *sb)
{
	struct rt_slow_task *t;
	__u32 pid = bpf_get_current_pid_tgid();

	if (!rt_slow_is_fs(sb->s_dev))
		return 0;
	t = rt_slow_begin_at(pid, RT_SLOW_SYNC);
	if (t)
		t->dev = sb->s_dev;
	return 0;
}

RT_SLOW_END(rt_slow_syncfs_out, "sync_filesystem", RT_SLOW_SYNC)

SEC("?fentry/ksys_sync")
int BPF_PROG(rt_slow_ksync_in)
{
	rt_slow_begin_at(bpf_get_current_pid_tgid(), RT_SLOW_SYNC);
	return 0;
}

RT_SLOW_END(rt_slow_ksync_out, "ksys_sync", RT_SLOW_SYNC)
