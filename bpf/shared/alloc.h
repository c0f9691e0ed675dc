/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Constants and structures for the programs that trace ext4's block allocator. Part of the wire
 * contract, see wire.h.
 */
#ifndef RAIDTRACE_ALLOC_H
#define RAIDTRACE_ALLOC_H

#include "wire.h"

enum rt_alloc_limits {
	RT_ALLOC_FS = 16,		/* filesystems; the index RT_ALLOC_FS means none */
	RT_ALLOC_ROWS = 32,		/* the power of two above RT_ALLOC_FS: indices are masked */
	RT_ALLOC_CRITERIA = 5,
	RT_ALLOC_CRITERIA_ROOM = 8,	/* a power of two */
	RT_ALLOC_GROUP_BUCKETS = 24,	/* of the histogram rt_alloc.groups: 0, 1, 2..3, 4..7, ... */
	RT_ALLOC_GROUP_BUCKETS_ROOM = 32,	/* a power of two */
	RT_ALLOC_REASONS = 8,		/* members of enum Refused */
	/* a power of two; the reason is determined for one refusal in this many, on average */
	RT_ALLOC_SAMPLED = 64,
};

/* enum Refused of src/analysis/alloc.rs */
enum rt_alloc_refused {
	RT_REFUSED_FULL = 0,		/* no free block */
	RT_REFUSED_CORRUPT = 1,		/* the block bitmap is marked corrupt */
	RT_REFUSED_FOR_DIRECTORIES = 2,	/* first group of a flex group, for file data */
	RT_REFUSED_ORDER = 3,		/* no free extent of the power of two asked for */
	RT_REFUSED_AVERAGE = 4,		/* the average free extent is shorter than asked for */
	RT_REFUSED_BLOCKS = 5,		/* fewer free blocks than asked for */
	RT_REFUSED_OTHER = 6,
	RT_REFUSED_NOT_LOADED = 7,	/* the buddy bitmap has not been initialised */
};

/* Counters of a filesystem on a CPU since attach, see struct Counts of src/analysis/alloc.rs. */
struct rt_alloc {
	__u64 requests;
	__u64 asked;		/* blocks requested */
	__u64 given;		/* requests that got blocks */
	__u64 got;		/* blocks allocated */
	__u64 nanoseconds;
	__u64 searches;
	__u64 goal;		/* sum of the normalised lengths of searches, in blocks */
	__u64 preallocated;
	__u64 criteria[RT_ALLOC_CRITERIA_ROOM];
	__u64 scanned;
	__u64 locality;		/* searches for a locality group's preallocation */
	__u64 groups[RT_ALLOC_GROUP_BUCKETS_ROOM];
	__u64 reasons[RT_ALLOC_REASONS];
	__u64 bitmaps;
	__u64 buddies;
	__u64 reads;
	__u64 prefetches;
	__u64 discards;
	__u32 latency[RT_HIST_BUCKETS];
	__u32 waits[RT_HIST_BUCKETS];
};

/* Groups considered (looked) and refused, by criterion. Two cache lines. */
struct rt_alloc_row {
	__u64 looked[RT_ALLOC_CRITERIA_ROOM];
	__u64 refused[RT_ALLOC_CRITERIA_ROOM];
};

struct rt_alloc_task_key {
	__u32 dev;		/* device of the filesystem, major << 20 | minor */
	__u32 pid;
};

/* State of rt_alloc_cpu.group. */
enum rt_alloc_state {
	RT_GROUP_NONE = 0,
	RT_GROUP_CONSIDERED = 1,	/* ext4_mb_good_group() has not returned */
	RT_GROUP_REFUSED = 2,
	/* taken from one of mballoc's lists of groups by order, accepted by ext4_mb_good_group() */
	RT_GROUP_FROM_LIST = 3,
	RT_GROUP_ACCEPTED = 4,		/* accepted, not yet checked under the group's lock */
	RT_GROUP_SCANNED = 5,		/* checked again under the group's lock */
};

/*
 * State of the search on a CPU: all data that the hooks access for each group, up to millions of
 * times per second. `count` is the number of groups considered for the allocation `ac` that are not
 * yet part of rt_alloc_task.looked_current. At most one CPU has such a count for a task.
 */
struct rt_alloc_cpu {
	__u64 ac;		/* address of the allocation context; 0: none */
	__u64 count;
	struct rt_alloc_task_key key;	/* task that makes the allocation */
	__u32 fs;
	__u32 until_sample;	/* refusals until the next one whose reason is determined */
	__u64 task;		/* task whose groups are being counted (bpf_get_current_pid_tgid()); 0: none */
	__u32 group;
	__u32 state;		/* enum rt_alloc_state */
	__u32 criterion;	/* criterion under which `group` was considered */
	__u32 info_calls;	/* consecutive calls of ext4_get_group_info() for `group` */
	__u32 from_list;	/* copy of rt_alloc_task.from_list for `task` */
	__u32 pad;
	struct rt_alloc_row rows[RT_ALLOC_ROWS];
};

/* Allocations of a task or an inode, see struct Share of src/analysis/alloc.rs. */
struct rt_alloc_share {
	__u64 requests;
	__u64 blocks;
	__u64 nanoseconds;
	__u64 looked;		/* number of groups considered */
};

struct rt_alloc_task {
	struct rt_alloc_share share;	/* `looked` excludes looked_current */
	/* groups considered for the current allocation, without rt_alloc_cpu.count */
	__u64 looked_current;
	__u64 looked_last;	/* groups considered for the previous allocation */
	__u64 ar;		/* address of the request; 0: none, or it began before the programs were attached */
	__u64 begun_ns;
	__u64 ac;		/* allocation context of the current search */
	__u64 search_ns;	/* start of the search; 0: none */
	__u32 cpu;		/* CPU whose rt_alloc_cpu holds the search for `ac` */
	__u32 excluded;		/* nesting depth of excluded functions, see rt_alloc_exclude() */
	__u32 from_list;	/* 1: in ext4_mb_scan_groups_xa_range(): groups of mballoc's xarrays by order */
	__u32 pad;
	char comm[RT_COMM];	/* task name at the last request */
};

/* A thread that waits for a bitmap. */
struct rt_alloc_wait {
	__u64 begun_ns;
	__u32 fs;
	__u32 pad;
};

/* Per-CPU counts of entries lost because their table was full. */
struct rt_alloc_loss {
	__u64 tasks;
	__u64 files;
	__u64 waits;
};

#endif
