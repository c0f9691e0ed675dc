/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bios by task and by file. Part of the wire contract, see wire.h. */
#ifndef RAIDTRACE_TASKS_H
#define RAIDTRACE_TASKS_H

#include "limits.h"

/* Number of bios and their bytes. In the per-CPU slots below, 0 bios mean that the slot is free. */
struct rt_io {
	__u64 bios;
	__u64 bytes;
};

enum rt_task_key_values {
	/*
	 * in place of an operation in rt_task_key and rt_file_key: dirtied, to be written later by
	 * another task
	 */
	RT_OP_DIRTY = 7,
	/*
	 * flag in a pid field, which then holds the low bits of a cgroup id: blk-throttle delayed a
	 * bio of that cgroup and submitted it later from its own kworker
	 */
	RT_THROTTLED = 1U << 31,
};

struct rt_task_key {
	__u32 pid;		/* or RT_THROTTLED | low bits of a cgroup id */
	__u16 array;
	__u8 origin_op;		/* origin << 3 | (operation or RT_OP_DIRTY) */
	__u8 interval;		/* low 8 bits of rt_interval, the number of the interval */
};

/*
 * Bios that one CPU has counted for one rt_task_key and not yet added to rt_task_ios. A task
 * submits many bios in a row: adding them up here saves a hash lookup for all but the first.
 *
 * When another key takes the slot, the writer stores a new version in `version_last`, then the
 * other fields, then the same version in `version_first`. A reader copies a slot from the first
 * byte to the
 * last: if both versions are equal, key and counts belong together.
 */
struct rt_task_slot {
	__u64 version_first;
	__u64 key;		/* struct rt_task_key as one number, with interval 0 */
	__u64 interval;		/* rt_interval when the task's name was last stored */
	struct rt_io io;
	__u64 version_last;
};

struct rt_task_pending {
	struct rt_task_slot slot[RT_TASK_SLOTS];
};

/*
 * Key of rt_tasks. Includes the array, because a kworker serves several arrays under the same pid.
 */
struct rt_task_id {
	__u32 pid;		/* as in rt_task_key */
	__u32 array;
};

struct rt_task {
	__u64 cgroup;		/* cgroup id; for RT_THROTTLED, in the hierarchy of the blkio or io controller */
	__u32 tgid;
	__u32 pad;
	char comm[RT_COMM];
	char work[RT_WORK];	/* current work of a kworker, for example flush-9:127 */
};

/*
 * Identity of a file. Includes the generation, because the inode number of a deleted file is
 * reused. inode 0: the file is unknown.
 */
struct rt_file_id {
	__u64 inode;
	__u32 dev;		/* device of the filesystem, major << 20 | minor */
	__u32 generation;
};

struct rt_file_key {
	struct rt_file_id file;
	__u16 array;
	__u8 op;
	__u8 interval;		/* low 8 bits of rt_interval */
	__u32 pid;		/* for RT_OP_DIRTY, the thread that dirtied the file; else 0 */
};

/*
 * Bios that one CPU has counted for one file; read and written like rt_task_slot. The counts are
 * added to rt_file_ios when another file takes the slot.
 */
struct rt_file_slot {
	__u64 version_first;
	__u64 address;		/* address of the struct inode */
	struct rt_file_key key;
	struct rt_io io;
	__u64 version_last;
};

struct rt_file_pending {
	struct rt_file_slot slot[RT_FILE_SLOTS];
};

/*
 * A bio with REQ_NOWAIT as it was counted. rt_bio_refused subtracts it if the bio is refused.
 * Kernel side only.
 */
struct rt_nowait {
	__u64 bio;		/* address; 0: none */
	__u64 task;		/* struct rt_task_key as one number, with interval 0 */
	__u64 inode;		/* address of the struct inode, see rt_count_file(); 0: unknown */
	__u64 key;		/* rt_learned_key(): array and sector */
	__u64 now_ns;		/* time of its event; 0: no event was sent */
	__u32 bytes;
	__u32 has_file;		/* 1: counted by rt_count_file() */
};

/* Name of a file when it was first seen. */
struct rt_file {
	__u64 parent;		/* inode number of the directory; 0: unknown */
	__u32 parent_generation;
	__u32 links;		/* link count at that time; 0: already deleted */
	char name[RT_FILE_NAME];	/* empty: unknown */
};

#endif
