/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire contract: all structures that userspace and the BPF programs share. Plain C with __uN
 * types, padded to 8 bytes, without bool, because build.rs generates the Rust types from
 * contract.bpf.c. Addresses and lengths are in 512-byte sectors unless stated otherwise.
 */
#ifndef RAIDTRACE_H
#define RAIDTRACE_H

#include "events.h"
#include "geometry.h"
#include "limits.h"
#include "origins.h"
#include "tasks.h"

/*
 * A boundary v means that from sector (v >> RT_BOUNDARY_SHIFT) of the tile on, the origin is (v &
 * 255). In this table only, RT_DYNAMIC + log2 of the sectors per block (up to 39, for 64 KiB)
 * stands for blocks that do not belong to a fixed structure; a block begins at such a boundary.
 * RT_DYNAMIC_XFS is added for those of an XFS. A lookup returns an origin in place of these codes,
 * so no counter or event contains them.
 */
enum rt_boundary {
	RT_BOUNDARY_SHIFT = 8,
	RT_DYNAMIC = 32,
	RT_DYNAMIC_XFS = 8,
};

/*
 * List of a tile's boundaries in rt_boundaries, in 8-byte words. The first word is the number of
 * boundaries.
 */
enum rt_list {
	/* one byte for each 1/RT_LIST_SLOTS of the tile: index of the boundary to try first */
	RT_LIST_FIRST = 1,
	RT_LIST_HEAD = 3,		/* all boundaries, sorted, followed by the end of the tile */
	RT_LIST_SLOTS = 16,
};

/*
 * A member on the disk that carries it (a partition, the whole disk, or the range of a volume in a
 * container), in sectors of that disk.
 */
struct rt_part {
	/* of the member's sector 0; the member's other area may begin before it (wraps around) */
	__u64 start;
	/* first sector of the part; the same as start, but for a metadata device of dm-raid */
	__u64 first;
	__u64 end;
	__u32 member;
	__u16 array;
	__u16 flags;		/* rt_part_flags */
};

/* Kinds of bios that md itself can send to a member. */
enum rt_part_flags {
	RT_PART_STRIPES = 1,	/* RAID 4/5/6: bios of the stripe cache */
	RT_PART_MIRROR = 2,	/* RAID 1/10: bios of a resync */
	/* during a reshape: bios of a RAID 10, reads of RAID 4/5/6 that bypass the stripe cache */
	RT_PART_RESHAPE = 4,
	RT_PART_MD_REASONS = 7,	/* any of these */
};

enum rt_dev_flags {
	/* request.start_time_ns is set for this disk (queue/iostats is 1) */
	RT_DEV_START_TIME = 1,
	/*
	 * device of a filesystem on dm-crypt: its bios are examined at this device, where they are plain
	 * text
	 */
	RT_DEV_STACKED = 2,
	/* bios of at least one member on this disk are classified when md submits them (rt_part_flags) */
	RT_DEV_CLASSIFIED = 4,
	/*
	 * an array or a device mapper device that is a member: its bios are counted as requests of that
	 * member
	 */
	RT_DEV_NESTED = 8,
	/*
	 * a RAID 4/5/6 with a missing member: content is examined when the array's bios complete, after
	 * reconstruction
	 */
	RT_DEV_REBUILDS = 16,
	/* members of this disk are ranges of the same device: volumes of a container */
	RT_DEV_VOLUMES = 32,
};

/* A traced block device: a disk with members, an array, or both. */
struct rt_dev_entry {
	__u32 dev;		/* major << 20 | minor; 0: not in use */
	__u16 index;		/* into rt_devs */
	__u16 array;		/* 1 + index into rt_arrays; 0: not an array */
	__u32 flags;		/* rt_dev_flags */
	__u32 pad;
};

struct rt_dev_bucket {
	struct rt_dev_entry way[RT_DEV_WAYS];
};

struct rt_dev {
	__u32 flags;		/* rt_dev_flags */
	__u32 fs_array;		/* 1 + index of the array that holds its filesystem in one piece; 0: none */
	__u64 fs_start;		/* first sector of that filesystem on the array */
	__u32 nr_parts;		/* 0: the device carries no member */
	__u32 slot_base;	/* index of its first in-flight slot */
	__u32 nr_slots;
	__u32 depth;		/* driver tags per hardware queue */
	__u32 fs_block;		/* block size of its filesystem in bytes */
	__u32 dirty_array;	/* 1 + index of the array that holds all pieces of its filesystem; 0: none */
	struct rt_part parts[RT_DISK_PARTS];
};

/* The fields that every request needs come first, in one or two cache lines. */
struct rt_array {
	__u32 flags;		/* rt_array_flags */
	/* if the array is a member of another one: 1 + index into rt_members; else 0 */
	__u32 outer_member;
	__u32 first_tile;	/* into rt_tiles */
	__u32 nr_tiles;
	__u64 tile_lead;	/* offset of the array's first sector in its first tile */
	__u64 tile_sectors;	/* see rt_tiles */
	__u32 tile_shift;	/* log2 of tile_sectors, or RT_NO_SHIFT */
	__u32 slot_shift;	/* log2 of tile_sectors / RT_LIST_SLOTS, rounded up */
	struct rt_geometry geometry;
	__u64 outer_start;	/* first sector of that member on this array */
};

enum rt_array_flags {
	RT_ARRAY_EXT = 1,	/* the array holds an ext filesystem */
	RT_ARRAY_RESHAPING = 2,	/* the geometry is not valid */
	RT_ARRAY_CRYPT = 4,	/* below dm-crypt: the members carry cipher text */
	RT_ARRAY_IN_SYNC = 8,	/* not degraded, and no resync runs; userspace keeps the flag up to date */
	RT_ARRAY_XFS = 16,	/* the array holds an XFS filesystem */
};

/* A range of a member that md uses for its own data. */
struct rt_extent {
	__u64 start;
	__u64 sectors;
};

/* The fields that every request needs come first. */
struct rt_member {
	__u64 data_offset;
	__u64 data_sectors;
	__u32 array;
	__u32 pad;
	struct rt_slot slot;
	struct rt_extent superblock;
	struct rt_extent bad_blocks;	/* bad block log, maintained with the superblock */
	struct rt_extent bitmap;
	struct rt_extent journal;	/* PPL, or the whole of a journal device */
};

/* A request that has been issued to the driver. Key: (disk, hardware queue, tag). */
struct rt_inflight {
	__u64 rq;
	__u64 issue_ns;
};

/* State of a walk over the bios of one request. Kernel side only. */
struct rt_walk {
	__u64 bio;		/* address of the next bio */
	__u64 current;		/* address of the current bio */
	__u64 sector;		/* current sector on the member */
	__u64 start;		/* the member's first sector on its disk */
	__u64 sectors;		/* size of the member; 0: not looked up yet */
	__u64 left;		/* bytes of the request after the current bio */
	__u64 size;		/* remaining bytes of the current bio */
	__u64 offset;		/* bytes of the current bio that have been walked over */
	__u64 bytes;		/* bytes of `origin` that are not yet added to a row */
	__u32 member;
	__u32 op;
	__u32 origin;
	__u32 first;		/* origin of the first piece */
	__u32 pieces;
	__u32 flags;		/* rt_part_flags, rt_walk_flags */
	__u32 md_reason;		/* reason of the current bio, see rt_md_reason() */
	__u32 array;
	__u32 busy;
	__u32 pad;
};

/*
 * A bio as md submitted it to a device mapper device that is a member: device mapper trims what it
 * splits off. Kernel side only.
 */
struct rt_kept_bio {
	__u64 bio;		/* address; 0: none */
	__u64 copy;		/* address of `bytes` */
	__u8 bytes[RT_BIO_BYTES];
};

/*
 * Scratch entries for walks: one for requests and one for bios of nested arrays, each twice,
 * because an interrupt may complete a request in the middle of the walk of another one.
 */
enum { RT_SCRATCH_NESTED_ARRAY = 1, RT_SCRATCH_INTERRUPT = 2, RT_SCRATCHES = 4 };

enum rt_walk_flags {
	RT_WALK_FAILED = 1 << 8,	/* the IO failed: there is no content to read */
	RT_WALK_NESTED_ARRAY = 1 << 9,	/* walk of a bio of a nested array, not of a request of a disk */
	RT_WALK_PARTS = 1 << 10,	/* the bios may belong to several partitions */
};

/* Value of rt_walk.busy: the walk is done, but its runs have not been sent. */
enum { RT_WALK_GATHERED = 2 };

/* A segment of a bio. Kernel side only. */
struct rt_segment {
	__u64 bio;		/* 0: none */
	__u64 first;		/* address of the bio's first remaining segment */
	__u64 vec;		/* address of this segment */
	__u64 begin;		/* bytes of the segments from `first` up to `vec` */
};

/* Indices into rt_boundaries of the lists of two tiles. */
struct rt_tiles {
	__u32 list[2];
};

/* Reasons of md's bios in flight; 0: free slot. See stripe.bpf.h. */
struct rt_reasons {
	__u64 way[RT_REASON_WAYS];
};

/* The stripe that this CPU examined last. Kernel side only. */
struct rt_stripe {
	__u64 sh;
	__u64 state;
	__u64 bio;		/* address of its bio that was classified last */
	__u32 op;
	__u32 array;
	__u32 wanted;		/* 1 + origin of a block that is read and has to be reconstructed; 0: none */
	__u32 total;		/* number of bytes dirtied */
	__u32 bytes[32];	/* number of bytes dirtied by each origin */
	__u32 origins;		/* bit mask of the origins that dirtied bytes */
	__u32 pad;
};

/* Row assigned to each cell of a member, per CPU; 0: none yet. */
struct rt_member_rows {
	__u16 row[RT_CELLS];
};

/* Other figures of a row, described in src/analysis/figures.rs. */
enum rt_counted_figures {
	RT_REQUEUES,		/* requests that the driver gave back */
	RT_REQUEUE_NS,		/* time until it got them again */
	RT_COUNTED,		/* number of figures */
};

/* Counters of one (member, origin, operation) on one CPU, cumulative since attach. */
struct rt_row {
	__u64 owner;		/* cell to which the row is assigned, see rt_new_row() */
	__u64 requests;
	__u64 bytes;
	__u64 counted[RT_COUNTED];	/* enum rt_counted_figures */
	__u32 queue[RT_HIST_BUCKETS];	/* allocation to issue, us */
	__u32 device[RT_HIST_BUCKETS];	/* issue to completion, us */
};

/*
 * Programs that mark the bios and requests they have seen, for their shadow programs: see
 * shadow.bpf.h.
 */
enum rt_seen_kinds {
	RT_SEEN_BIO_SUBMIT = 0,
	RT_SEEN_MD_SUBMIT = 1,
	RT_SEEN_ISSUE = 2,
	RT_SEEN_COMPLETE = 3,
	RT_SEEN_BIO_COMPLETE = 4,
	RT_SEEN_KINDS = 5,
};

struct rt_seen {
	__u64 mark[RT_SEEN_SLOTS];
	__u64 shadowing;	/* 1: the shadow program is running */
	__u64 overwrite;	/* slot to overwrite when none is free, modulo RT_SEEN_SLOTS */
};

/* Reasons of losses. */
enum rt_loss_reasons {
	RT_LOST_ROWS,		/* no free row */
	RT_LOST_ISSUE,		/* issue not seen, or no in-flight slot */
	RT_LOST_PIECES,		/* a request has more than RT_PIECES pieces */
	RT_LOST_TASKS,		/* task table full */
	RT_LOST_FILES,		/* file table full */
	RT_LOST_RING,		/* rt_events was full: an event is missing in the recording */
	/*
	 * a hash bucket was locked, by the code that an interrupt interrupted or for too long; in an
	 * interrupt, all scratch memory was in use; or a shadow program could not determine the origin
	 */
	RT_LOST_BUSY,
	RT_LOSS_REASONS,
};

/*
 * Reason of a loss by the error of a hash table. full: the reason if the table is full, which only
 * -E2BIG means. A locked bucket is -EBUSY, and since commit "bpf: Convert hashtab.c to
 * rqspinlock", in 6.15, -EDEADLK or -ETIMEDOUT (kernel/bpf/rqspinlock.c).
 */
static inline __u32 rt_loss_reason(long err, __u32 full)
{
	return err == -7 /* -E2BIG */ ? full : RT_LOST_BUSY;
}

/* Per-CPU loss counters. */
struct rt_loss {
	__u64 lost[RT_LOSS_REASONS];
	/* not lost: counted by the shadow program after the kernel skipped the program */
	__u64 recovered[RT_SEEN_KINDS];
};

/*
 * Member IO that RAID 4/5/6 adds for parity, by the origin that dirtied the stripe. The IO of a
 * stripe with several origins is divided in proportion to their bytes. Key of rt_costs: array <<
 * RT_COST_SHIFT | origin.
 */
struct rt_cost {
	__u64 parity;		/* bytes of P and Q written */
	__u64 rmw_read;		/* bytes read to compute P and Q */
};

/*
 * Checkpoints of a filesystem's journal that tasks waited for, because the log had no
 * room for another transaction. Key of rt_journals: device number of the filesystem.
 */
struct rt_journal {
	__u64 checkpoints;	/* transactions removed from the log by these checkpoints */
	__u64 wait_ns;		/* total time from the start of a checkpoint to the update of the log's tail */
	__u64 begun_ns;		/* start of the checkpoint in progress; 0: none */
	__u64 removed_ns;	/* time at which its transaction left the log; 0: no tail update is awaited */
	__u32 tid;		/* id of its transaction */
	__u32 pid;		/* task that started a checkpoint last */
};

#endif
