/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Every map and setting, declared once. maps.bpf.c defines them, the other
 * files use them, libbpf's linker joins them. Each says why it is what it is;
 * what it costs is measured by tools/bench.
 */
#ifndef RAIDTRACE_MAPS_BPF_H
#define RAIDTRACE_MAPS_BPF_H

#include "shared/wire.h"

/* Set before load; the defaults let the verifier see every branch. */
extern const volatile __u64 rt_dev_mult;	/* of the device index's hash */
extern const volatile __u32 rt_rows_max;	/* entries of rt_rows */
extern const volatile __u64 rt_vmemmap_base;	/* address of the variable; 0: none */
extern const volatile __u64 rt_page_offset_base;
extern const volatile __u32 rt_reason_mask;	/* entries of rt_reasons - 1 */
/* Addresses of md's completion functions; ~0: none, or not to be had. */
extern const volatile __u64 rt_raid5_end_read;
extern const volatile __u64 rt_raid5_end_write;
extern const volatile __u64 rt_raid10_end_read;
extern const volatile __u64 rt_raid10_end_write;
extern const volatile __u64 rt_crypt_end;	/* dm-crypt's */
extern const volatile __u64 rt_sync_ends[RT_SYNC_ENDS];
/* Bits of stripe_head.state; 0: not known. */
extern const volatile __u64 rt_stripe_syncing;		/* STRIPE_SYNCING */
extern const volatile __u64 rt_stripe_expanding;	/* ... _EXPANDING, _EXPAND_READY */
extern const volatile __u64 rt_stripe_expand_source;	/* STRIPE_EXPAND_SOURCE */
extern const volatile __u64 rt_dio_end_io;	/* iomap_dio_bio_end_io(); ~0: not known */
extern const volatile __u64 rt_ext4_end_io;	/* ext4_end_bio(); likewise */
extern const volatile __u64 rt_dm_end_io;	/* dm's clone_endio() */
extern const volatile __u32 rt_recording;	/* 0: rt_events is not used */
extern const volatile __u32 rt_shadows;	/* a bit for each of rt_seen_kinds that has a shadow program: shadow.bpf.h */
extern __u32 rt_shadows_attached;	/* those of rt_shadows that run; set by userspace, before it attaches one */
extern const volatile __u32 rt_refusals;	/* rt_bio_refused is there */
extern const volatile __u32 rt_nesting;	/* a program may run in the middle of itself: see rt_bump() */
extern const volatile __u32 rt_members_max;	/* half the entries of rt_member_rows; the other half is of shadow programs */
extern const volatile __u64 rt_wait_end_io;	/* submit_bio_wait_endio(); ~0: not known */

/*
 * The devices that we watch, by hash of dev_t. Userspace picks rt_dev_mult so
 * that no two of them share a slot: a look-up is a multiplication and a load,
 * no bucket to walk, and a device that we do not watch costs no more.
 */
struct rt_dev_index_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << RT_DEV_HASH_BITS);
	__type(key, __u32);
	__type(value, struct rt_dev_entry);
};
extern struct rt_dev_index_map rt_dev_index SEC(".maps");

struct rt_devs_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_DEVS);
	__type(key, __u32);
	__type(value, struct rt_dev);
};
extern struct rt_devs_map rt_devs SEC(".maps");

struct rt_arrays_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_array);
};
extern struct rt_arrays_map rt_arrays SEC(".maps");

/* Origin of the last flush that was asked of each array. */
struct rt_flush_origins_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_flush_origins_map rt_flush_origins SEC(".maps");

struct rt_members_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_member);
};
extern struct rt_members_map rt_members SEC(".maps");

/*
 * The layouts of all filesystems: lists of boundaries (enum rt_list), stored
 * RT_TILE_PHASE sectors after their position.
 */
struct rt_boundaries_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_boundaries_map rt_boundaries SEC(".maps");

/*
 * Where in rt_boundaries each tile's list is, two an entry: a map's value has no
 * fewer than 8 bytes.
 * One flex group is laid out as the other, and so are these tiles: they share
 * a list. Makes a look-up cost the same on 1 GiB and on 100 TiB.
 */
struct rt_tiles_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_tiles);
};
extern struct rt_tiles_map rt_tiles SEC(".maps");

/*
 * Blocks without a fixed place whose kind we have seen: array << 48 | first
 * sector -> origin. A hash because the key is a disk address; LRU so that a
 * full one forgets the oldest instead of refusing the newest.
 */
struct rt_learned_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1 << 18);
	__type(key, __u64);
	__type(value, __u64);
};
extern struct rt_learned_map rt_learned SEC(".maps");

/*
 * Not 0: some block of this MiB (modulo the table) was learned. Keeps large
 * reads and writes of file data from asking rt_learned block by block. Only
 * ever set, so that CPUs need not agree; bytes, not bits, for the same reason.
 */
struct rt_regions_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, RT_REGIONS / 8);
	__type(key, __u32);
	__type(value, struct rt_regions);
};
extern struct rt_regions_map rt_regions SEC(".maps");

struct rt_inflights_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_inflight);
};
extern struct rt_inflights_map rt_inflights SEC(".maps");

/*
 * The counters. Most of the (member, origin, operation) cells never occur, so
 * each CPU hands out rows as cells turn up: no atomics, and memory for what
 * happens instead of for what could.
 */
struct rt_member_rows_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_member_rows);
};
extern struct rt_member_rows_map rt_member_rows SEC(".maps");

struct rt_rows_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 2);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_row);
};
extern struct rt_rows_map rt_rows SEC(".maps");

/* Rows this CPU has handed out. */
struct rt_rows_used_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_rows_used_map rt_rows_used SEC(".maps");

/* Per CPU: two CPUs complete stripes of one array at the same time. */
struct rt_costs_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_cost);
};
extern struct rt_costs_map rt_costs SEC(".maps");

/*
 * Why md submitted a bio, by hash of the bio's address, from its submission to
 * its completion. An array with a few ways per entry instead of a hash: the bios in
 * flight are at most those of the stripe caches, a fraction of its size, so that an entry
 * hardly ever overflows. The reason of a bio that is not found is unknown.
 */
struct rt_reasons_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_reasons);
};
extern struct rt_reasons_map rt_reasons SEC(".maps");

/* Marks of the bios and requests that programs have seen, for their shadow programs. */
struct rt_seen_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SEEN_KINDS);
	__type(key, __u32);
	__type(value, struct rt_seen);
};
extern struct rt_seen_map rt_seen SEC(".maps");

/* Scratch, and memory from one bio of a stripe to the next. */
struct rt_stripes_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);		/* RT_FIRST, RT_SHADOW, RT_DIRTIES */
	__type(key, __u32);
	__type(value, struct rt_stripe);
};
extern struct rt_stripes_map rt_stripes SEC(".maps");

/* Scratch of rt_walk_step(): too much for its stack and its arguments. */
struct rt_walks_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SCRATCHES);
	__type(key, __u32);
	__type(value, struct rt_walk);
};
extern struct rt_walks_map rt_walks SEC(".maps");

/*
 * The segment that was found last on each CPU: blocks of a bio are asked for in their
 * order, and counting from the first segment each time would be quadratic.
 */
struct rt_segments_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_segment);
};
extern struct rt_segments_map rt_segments SEC(".maps");

/* Always 0. A key on the stack costs 8 bytes of the 512 that all frames of a call chain share. */
extern const volatile __u32 rt_zero;

static __always_inline struct rt_segment *rt_last_segment(void)
{
	return bpf_map_lookup_elem(&rt_segments, (const void *)&rt_zero);
}

struct rt_losses_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct rt_loss);
};
extern struct rt_losses_map rt_losses SEC(".maps");

/*
 * Bios submitted to the arrays, by task. A hash because a pid is no bounded
 * integer. Userspace reads and empties it every interval: a host may fork
 * thousands of tasks a second.
 */
struct rt_task_ios_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, struct rt_task_key);
	__type(value, struct rt_io);
};
extern struct rt_task_ios_map rt_task_ios SEC(".maps");

struct rt_tasks_pending_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);		/* RT_FIRST, RT_SHADOW, RT_DIRTIES */
	__type(key, __u32);
	__type(value, struct rt_task_pending);
};
extern struct rt_tasks_pending_map rt_tasks_pending SEC(".maps");

/* Names of tasks. LRU: the pids that did no IO for longest make room. */
struct rt_tasks_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct rt_task_id);
	__type(value, struct rt_task);
};
extern struct rt_tasks_map rt_tasks SEC(".maps");

/*
 * Bios of file data by file. Userspace reads and empties it every interval: a host may
 * write thousands of new files per second.
 */
struct rt_file_ios_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, struct rt_file_key);
	__type(value, struct rt_io);
};
extern struct rt_file_ios_map rt_file_ios SEC(".maps");

struct rt_files_pending_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);		/* RT_FIRST, RT_SHADOW, RT_DIRTIES */
	__type(key, __u32);
	__type(value, struct rt_file_pending);
};
extern struct rt_files_pending_map rt_files_pending SEC(".maps");

/* Names of files, for files that are deleted before userspace looks up their path. */
struct rt_files_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct rt_file_id);
	__type(value, struct rt_file);
};
extern struct rt_files_map rt_files SEC(".maps");

/* Scratch: a name is too much for a stack. */
struct rt_file_names_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);		/* RT_FIRST, RT_SHADOW, RT_DIRTIES */
	__type(key, __u32);
	__type(value, struct rt_file);
};
extern struct rt_file_names_map rt_file_names SEC(".maps");

/* By device number. A hash because few of RT_DEVS have a journal that is too small. */
struct rt_journals_map {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RT_DEVS);
	__type(key, __u32);
	__type(value, struct rt_journal);
};
extern struct rt_journals_map rt_journals SEC(".maps");

struct rt_ring_map {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);	/* set before load */
};

/*
 * The events of a recording, a ring for each CPU: with one ring for all, CPUs wait for
 * its lock. Userspace puts the events in the order of their times.
 */
struct rt_events_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__array(values, struct rt_ring_map);
};
extern struct rt_events_map rt_events SEC(".maps");

/* Scratch of a recording, beside rt_walks. */
struct rt_gathers_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SCRATCHES);
	__type(key, __u32);
	__type(value, struct rt_gather);
};
extern struct rt_gathers_map rt_gathers SEC(".maps");

#endif
