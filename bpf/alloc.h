/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* As raidtrace.h, for the programs that watch ext4's block allocator. */
#ifndef RAIDTRACE_ALLOC_H
#define RAIDTRACE_ALLOC_H

#include "raidtrace.h"

enum rt_alloc_limits {
	RT_ALLOC_FS = 16,		/* filesystems; RT_ALLOC_FS itself: none of them */
	RT_ALLOC_ROWS = 32,		/* a power of two above it */
	RT_ALLOC_CRITERIA = 5,		/* CRITERIA of src/model/alloc.rs */
	RT_ALLOC_CRITERIA_ROOM = 8,	/* a power of two */
	RT_ALLOC_GROUPS = 24,		/* GROUPS_BUCKETS of src/model/alloc.rs */
	RT_ALLOC_GROUPS_ROOM = 32,
	RT_ALLOC_REASONS = 8,		/* enum Refused has 7 */
	RT_ALLOC_SAMPLED = 64,		/* refusals, of which one is asked why */
};

/* enum Refused of src/model/alloc.rs */
enum rt_alloc_refused {
	RT_REFUSED_FULL = 0,
	RT_REFUSED_CORRUPT = 1,
	RT_REFUSED_FOR_DIRECTORIES = 2,
	RT_REFUSED_ORDER = 3,
	RT_REFUSED_AVERAGE = 4,
	RT_REFUSED_BLOCKS = 5,
	RT_REFUSED_OTHER = 6,
};

/* One filesystem on one CPU. Cumulative since attach; see struct Counts of src/model/alloc.rs. */
struct rt_alloc {
	__u64 requests;
	__u64 asked;
	__u64 given;
	__u64 got;
	__u64 nanoseconds;
	__u64 searches;
	__u64 goal;
	__u64 preallocated;
	__u64 criteria[RT_ALLOC_CRITERIA_ROOM];
	__u64 scanned;
	__u64 groups[RT_ALLOC_GROUPS_ROOM];
	__u64 reasons[RT_ALLOC_REASONS];
	__u64 bitmaps;
	__u64 buddies;
	__u64 reads;
	__u64 prefetches;
	__u64 discards;
	__u32 latency[RT_HIST_BUCKETS];
	__u32 waits[RT_HIST_BUCKETS];
};

/* Calls of ext4_mb_good_group() by criterion: two cache lines. */
struct rt_alloc_row {
	__u64 looked[RT_ALLOC_CRITERIA_ROOM];
	__u64 refused[RT_ALLOC_CRITERIA_ROOM];
};

struct rt_alloc_task_key {
	__u32 dev;		/* of the filesystem, major << 20 | minor */
	__u32 pid;
};

/*
 * A CPU's calls of ext4_mb_good_group(), up to millions a second: all that one
 * of them touches. `count` is of the allocation `ac` and has not been added to
 * rt_alloc_task.looked_now yet. Of a task's allocation, one CPU at most has any.
 */
struct rt_alloc_cpu {
	__u64 ac;		/* 0: none */
	__u64 count;
	struct rt_alloc_task_key key;	/* whose allocation that is */
	__u32 fs;
	__u32 refusals;		/* counts to RT_ALLOC_SAMPLED */
	/* A call that has not returned yet; kprobes only. */
	__u64 task;		/* bpf_get_current_pid_tgid(); 0: none */
	__u64 call;
	__u32 group;
	__u32 criterion;
	__u64 lost;		/* calls of which the return was not seen */
	struct rt_alloc_row rows[RT_ALLOC_ROWS];
};

/* What was done for a task or an inode; see struct Share of src/model/alloc.rs. */
struct rt_alloc_share {
	__u64 requests;
	__u64 blocks;
	__u64 nanoseconds;
	__u64 looked;
};

struct rt_alloc_task {
	struct rt_alloc_share share;	/* looked: without what follows */
	__u64 looked_now;	/* of the allocation that goes on, see rt_alloc_cpu */
	__u64 looked_last;	/* of the one that has been searched for last */
	__u64 ar;		/* the request; 0: none, or it began before us */
	__u64 begun_ns;
	__u64 ac;		/* the allocation whose groups are looked at */
	__u32 cpu;		/* ... by the rt_alloc_cpu of which */
	__u32 pad;
	char comm[RT_COMM];	/* at the last request */
};

/* A thread that waits for a bitmap. */
struct rt_alloc_wait {
	__u64 begun_ns;
	__u32 fs;
	__u32 pad;
};

/* Tables that were full, per CPU. */
struct rt_alloc_loss {
	__u64 tasks;
	__u64 files;
	__u64 waits;
};

#endif
