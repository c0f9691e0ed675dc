/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bios by task and by file. Part of the wire contract, see wire.h. */
#ifndef RAIDTRACE_TASKS_H
#define RAIDTRACE_TASKS_H

#include "limits.h"

/*
 * Bios and their bytes. In the per-CPU slots below, bios of 0 means that the slot is free.
 */
struct rt_io {
	__u64 bios;
	__u64 bytes;
};

enum rt_task_keys {
	/* in place of an operation, of rt_task_key and rt_file_key: dirtied, to be written by another task later */
	RT_OP_DIRTY = 7,
	/*
	 * in place of a pid: the low bits of the id of a cgroup. blk-throttle held back a
	 * bio of that cgroup and submitted it later from a kworker of its own.
	 */
	RT_THROTTLED = 1U << 31,
};

struct rt_task_key {
	__u32 pid;		/* or RT_THROTTLED and the id of a cgroup */
	__u16 array;
	__u8 what;		/* origin << 3 | operation, or RT_OP_DIRTY */
	__u8 interval;		/* its low 8 bits, see rt_interval */
};

/*
 * Bios that one CPU submitted for one rt_task_key and that rt_task_ios does not
 * have yet. A task submits many bios in a row: adding them up here saves a hash
 * look-up for all but the first. A reader that copies a slot from the first byte
 * to the last has the figures of one key if `began` equals `ended`: the writer
 * writes `ended` first.
 */
struct rt_task_slot {
	__u64 began;
	__u64 key;		/* a struct rt_task_key as one number, of interval 0 */
	__u64 interval;		/* in which the task's name was noted last */
	struct rt_io io;
	__u64 ended;
};

struct rt_task_pending {
	struct rt_task_slot slot[RT_TASK_SLOTS];
	__u64 last_bio;		/* the bio that was counted last ... */
	__u64 last_slot;	/* ... and where, for rt_bio_refused */
};

/* A kworker serves several arrays in turn, under the same pid. */
struct rt_task_id {
	__u32 pid;		/* as in rt_task_key */
	__u32 array;
};

struct rt_task {
	__u64 cgroup;		/* of RT_THROTTLED: in the hierarchy of the blkio or io controller */
	__u32 tgid;
	__u32 pad;
	char comm[RT_COMM];
	char work[RT_WORK];	/* of a kworker: what it was doing, flush-9:127 */
};

/*
 * A file for as long as it exists: with the generation, because a deleted
 * file's inode number is the next one's. inode 0: the file is not known.
 */
struct rt_file_id {
	__u64 inode;
	__u32 dev;		/* of its filesystem, major << 20 | minor */
	__u32 generation;
};

struct rt_file_key {
	struct rt_file_id file;
	__u16 array;
	__u8 op;
	__u8 interval;		/* its low 8 bits, see rt_interval */
	__u32 pid;		/* of RT_OP_DIRTY: the thread that dirtied it; else 0 */
};

/*
 * Bios that one CPU submitted for one file; read and written like rt_task_slot. A slot
 * goes to rt_file_ios when it becomes another file's.
 */
struct rt_file_slot {
	__u64 began;
	__u64 address;		/* of the struct inode */
	struct rt_file_key key;
	struct rt_io io;
	__u64 ended;
};

struct rt_file_pending {
	struct rt_file_slot slot[RT_FILE_SLOTS];
	__u64 last_slot;	/* of the bio that was counted last; RT_FILE_SLOTS: it has no file */
};

/* Name of a file when it was first seen. */
struct rt_file {
	__u64 parent;		/* inode of its directory; 0: not known */
	__u32 parent_generation;
	__u32 links;		/* 0: deleted by then */
	char name[RT_FILE_NAME];	/* empty: not known */
};

#endif
