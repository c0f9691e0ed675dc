/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps and settings of the main object; `alloc` and `slow` have their own. maps.bpf.c defines them,
 * the other files use them, and libbpf's linker resolves the references. Comments give the reason
 * for the type of a map; tools/bench measures its cost.
 */
#ifndef RAIDTRACE_MAPS_BPF_H
#define RAIDTRACE_MAPS_BPF_H

#include "shared/wire.h"

/*
 * Userspace sets these before load. ~0 as an address: no such symbol, or hidden by
 * kernel.kptr_restrict.
 */
extern const volatile __u64 rt_dev_mult;	/* multiplier of the device index's hash */
extern const volatile __u32 rt_rows_max;	/* number of entries of rt_rows */
extern const volatile __u32 rt_page_shift;	/* log2 of the page size */
extern const volatile __u64 rt_vmemmap_base;	/* address of the variable vmemmap_base; 0: none */
extern const volatile __u64 rt_page_offset_base;
extern const volatile __u32 rt_reason_mask;	/* entries of rt_reasons - 1 */
/* Addresses of md's completion functions. */
extern const volatile __u64 rt_raid5_end_read;
extern const volatile __u64 rt_raid5_end_write;
extern const volatile __u64 rt_raid5_end_aligned;	/* of reads that bypass the stripe cache */
extern const volatile __u64 rt_raid10_end_read;
extern const volatile __u64 rt_raid10_end_write;
extern const volatile __u64 rt_md_flush_end;	/* completion function of md's own flushes */
extern const volatile __u64 rt_ppl_flush_end;	/* of those of a partial parity log */
extern const volatile __u64 rt_crypt_end;	/* completion function of dm-crypt */
extern const volatile __u64 rt_sync_ends[RT_SYNC_ENDS];
/* Bits of stripe_head.state; 0: unknown. */
extern const volatile __u64 rt_stripe_syncing;		/* STRIPE_SYNCING */
extern const volatile __u64 rt_stripe_expanding;	/* STRIPE_EXPANDING, STRIPE_EXPAND_READY */
extern const volatile __u64 rt_stripe_expand_source;	/* STRIPE_EXPAND_SOURCE */
extern const volatile __u64 rt_dio_end_io;	/* iomap_dio_bio_end_io() */
extern const volatile __u64 rt_dio_simple_pool;	/* iomap_dio_simple_pool, a struct bio_set */
/* bytes from iocb to bio in struct iomap_dio_simple */
extern const volatile __u64 rt_dio_simple_iocb;
extern const volatile __u64 rt_ext4_end_io;	/* ext4_end_bio() */
extern const volatile __u64 rt_dm_end_io;	/* dm's clone_endio() */
/* 1 if an array holds an XFS filesystem; 0 removes the code for it */
extern const volatile __u32 rt_has_xfs;
extern const volatile __u64 rt_xfs_buf_end;	/* xfs_buf_bio_end_io() */
extern const volatile __u64 rt_xfs_log_end;	/* xlog_bio_end_io() */
extern const volatile __u64 rt_chain_end;	/* bio_chain_endio() */
extern const volatile __u32 rt_recording;	/* 0: rt_events is not used */
/* bit mask of rt_seen_kinds that have a shadow program, see shadow.bpf.h */
extern const volatile __u32 rt_shadows;
extern __u32 rt_filter_copy;	/* copy of rt_filter in use: 0 or 1 */
/* attached shadow programs; userspace sets a bit before it attaches the program */
extern __u32 rt_shadows_attached;
extern const volatile __u32 rt_nesting;	/* 1 if a program can interrupt itself, see rt_bump() */
/* maximum number of members; rt_member_rows has twice as many entries, half for shadow programs */
extern const volatile __u32 rt_members_max;
extern const volatile __u64 rt_wait_end_io;	/* submit_bio_wait_endio(), bio_wait_end_io() */

/*
 * Traced devices, by hash of dev_t. Userspace chooses rt_dev_mult such that no three devices share
 * a bucket. So a lookup, of any device, is a multiplication and a look at two entries of one cache
 * line.
 */
struct rt_dev_index_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << RT_DEV_HASH_BITS);
	__type(key, __u32);
	__type(value, struct rt_dev_bucket);
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

/* Origin of the last flush requested from each array. */
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
 * Layouts of all filesystems: lists of boundaries (enum rt_list). Each boundary is stored as its
 * sector relative to the start of the tile, plus RT_TILE_SECTOR_BIAS: the first boundary may be
 * before the tile, at the start of a block that reaches into it.
 */
struct rt_boundaries_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_boundaries_map rt_boundaries SEC(".maps");

/*
 * Index in rt_boundaries of each tile's list. Each map entry holds the indices of two tiles,
 * because an array map pads its values to 8 bytes. Equal flex groups make equal tiles, which share
 * a list, so a lookup costs the same on 1 GiB and on 100 TiB.
 */
struct rt_tiles_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_tiles);
};
extern struct rt_tiles_map rt_tiles SEC(".maps");

/*
 * Origins found by content, for blocks whose address does not determine the origin. Value: an
 * origin or rt_read_in_flight(). A hash because the key, rt_learned_key(), is a disk address; LRU
 * so that a full map evicts an old entry instead of refusing a new one.
 */
struct rt_learned_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, RT_LEARNED_MAX);
	__type(key, __u64);
	__type(value, __u64);
};
extern struct rt_learned_map rt_learned SEC(".maps");

/*
 * A Bloom filter of rt_learned, which saves a lookup in it for each block of large reads and writes
 * of file data: 900 ns on a busy machine, when neither the table nor its page tables are in the
 * CPU's caches. Each block sets three lanes, one in each of three lines. A line has 64 bytes and
 * the lanes of consecutive blocks, so a request of 1 MiB reads three to six cache lines.
 *
 * Lanes are only set, also those of blocks that rt_learned has evicted. Therefore userspace
 * rebuilds the copy that is not in use, and sets rt_filter_copy to it (src/probe/filter.rs).
 * Programs set lanes in both copies.
 *
 * A lane is set by an atomic addition to a lane that was seen 0, because 5.10 has no atomic OR: two
 * bits tolerate three CPUs that set the same lane within a few ns.
 */
struct rt_filter_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * RT_FILTER_WORDS);
	__uint(map_flags, BPF_F_MMAPABLE);
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_filter_map rt_filter SEC(".maps");

struct rt_inflights_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_inflight);
};
extern struct rt_inflights_map rt_inflights SEC(".maps");

/*
 * Counters. Most (member, origin, operation) cells never occur, so each CPU
 * assigns rows to cells when they first occur. That needs no atomic operations,
 * and memory only for cells in use.
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

/* Number of rows that this CPU has assigned. */
struct rt_rows_used_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
};
extern struct rt_rows_used_map rt_rows_used SEC(".maps");

/*
 * Costs of parity by array (struct rt_cost). Per CPU, because CPUs handle stripes of one array at
 * the same time.
 */
struct rt_costs_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_cost);
};
extern struct rt_costs_map rt_costs SEC(".maps");

/*
 * Reasons of the bios that md has in flight, by hash of the bio's address. A set-associative table
 * instead of a hash: at most as many bios are in flight as stripe caches have blocks, a fraction
 * of the table's size, so an entry rarely overflows. A bio without an entry has no known reason.
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

/* Scratch memory, kept from one bio of a stripe to the next. */
struct rt_stripes_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 3);		/* set before load: RT_FIRST, and RT_SHADOW if in use */
	__type(key, __u32);
	__type(value, struct rt_stripe);
};
extern struct rt_stripes_map rt_stripes SEC(".maps");

/* Scratch memory of rt_walk_step(), too large for the stack and for arguments. */
struct rt_walks_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SCRATCHES);
	__type(key, __u32);
	__type(value, struct rt_walk);
};
extern struct rt_walks_map rt_walks SEC(".maps");

/*
 * Last segment found on each CPU. The blocks of a bio are looked up in order, and counting from the
 * first segment each time would be quadratic.
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
 * Bios submitted to the arrays, by task. A hash because pids are sparse.
 * Userspace reads and empties it every interval: a host can fork thousands of
 * tasks per second.
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
	__uint(max_entries, 4);		/* RT_FIRST to RT_DIRTY_DATA */
	__type(key, __u32);
	__type(value, struct rt_task_pending);
};
extern struct rt_tasks_pending_map rt_tasks_pending SEC(".maps");

/* Names of tasks. LRU: tasks without IO for the longest time are dropped. */
struct rt_tasks_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct rt_task_id);
	__type(value, struct rt_task);
};
extern struct rt_tasks_map rt_tasks SEC(".maps");

/*
 * Bios of file data by file. Userspace reads and empties it every interval: a host
 * can write thousands of new files per second.
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
	__uint(max_entries, 4);		/* RT_FIRST to RT_DIRTY_DATA */
	__type(key, __u32);
	__type(value, struct rt_file_pending);
};
extern struct rt_files_pending_map rt_files_pending SEC(".maps");

/*
 * Bios with REQ_NOWAIT that were counted last, by hash of the bio's address. An array, because a
 * bio that is accepted, as most are, must cost no more than a few stores. A bio that is refused
 * after another one has taken its entry stays counted.
 */
struct rt_nowaits_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1 << RT_NOWAIT_BITS);
	__type(key, __u32);
	__type(value, struct rt_nowait);
};
extern struct rt_nowaits_map rt_nowaits SEC(".maps");

/*
 * Bios of more than a page in flight on device mapper devices that are members, by hash of the
 * bio's address. If another bio takes the entry, only the part that device mapper splits off last
 * is counted.
 */
struct rt_kept_bios_map {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__type(value, struct rt_kept_bio);
};
extern struct rt_kept_bios_map rt_kept_bios SEC(".maps");

static __always_inline struct rt_kept_bio *rt_kept_bio(__u64 bio)
{
	__u32 slot = bio * 0x9e3779b97f4a7c15ULL >> (64 - RT_KEPT_BITS);

	return bpf_map_lookup_elem(&rt_kept_bios, &slot);
}

/*
 * Refused bios, to be subtracted from those in rt_task_ios, rt_file_ios and the slots, which
 * userspace reads before: so it never reads a refused bio without its refusal, except for bios in
 * submission.
 */
extern struct rt_task_ios_map rt_task_refusals SEC(".maps");
extern struct rt_file_ios_map rt_file_refusals SEC(".maps");

/* Names of files, for files that are deleted before userspace looks up their path. */
struct rt_files_map {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 8192);
	__type(key, struct rt_file_id);
	__type(value, struct rt_file);
};
extern struct rt_files_map rt_files SEC(".maps");

/* Scratch memory: a name is too large for a stack. */
struct rt_file_names_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 4);		/* RT_FIRST to RT_DIRTY_DATA */
	__type(key, __u32);
	__type(value, struct rt_file);
};
extern struct rt_file_names_map rt_file_names SEC(".maps");

/*
 * Waits for room in journals, by device number. A hash because few of the up to RT_DEVS devices
 * have waits.
 */
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
 * Events of a recording. One ring buffer per CPU, because CPUs would contend for the lock of a
 * single one. Userspace sorts the events by time.
 */
struct rt_events_map {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);		/* set before load */
	__type(key, __u32);
	__array(values, struct rt_ring_map);
};
extern struct rt_events_map rt_events SEC(".maps");

/* Scratch memory of a recording, in addition to rt_walks. */
struct rt_gathers_map {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_SCRATCHES);
	__type(key, __u32);
	__type(value, struct rt_gather);
};
extern struct rt_gathers_map rt_gathers SEC(".maps");

#endif
