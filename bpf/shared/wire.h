/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The wire contract: every structure that userspace and the BPF programs
 * share. Plain C, __uN types, padded to 8 bytes, no bool: build.rs generates
 * the Rust types from contract.bpf.c. All addresses and
 * lengths are in sectors of 512 bytes unless named otherwise.
 */
#ifndef RAIDTRACE_H
#define RAIDTRACE_H

#include "events.h"
#include "geometry.h"
#include "limits.h"
#include "origins.h"
#include "tasks.h"

/*
 * A boundary v: from sector (v >> RT_BOUNDARY_SHIFT) of the tile on, the origin is
 * (v & 255). RT_DYNAMIC, in this table only: blocks that no fixed structure owns, with
 * log2 of their sectors added, up to 31 for 64 KiB; such a boundary is where a block
 * begins. It never leaves the kernel side.
 */
enum rt_boundary {
	RT_BOUNDARY_SHIFT = 8,
	RT_DYNAMIC = 24,
};

/* A tile's list of boundaries in rt_boundaries, in words of 8 bytes: their number first. */
enum rt_list {
	RT_LIST_FIRST = 1,		/* a byte for each RT_LIST_SLOTS-th of the tile: which to ask first */
	RT_LIST_HEAD = 3,		/* all of them, sorted, then where the tile ends */
	RT_LIST_SLOTS = 16,
};

/* A member (or all of a disk) in the sectors of the disk that carries it. */
struct rt_part {
	__u64 start;
	__u64 end;
	__u32 member;
	__u16 array;
	__u16 flags;		/* rt_part_flags */
};

/* Which of md's own bios a member can see. */
enum rt_part_flags {
	RT_PART_STRIPES = 1,	/* RAID 4/5/6: those of the stripe cache */
	RT_PART_MIRROR = 2,	/* RAID 1/10: those of a resync */
	RT_PART_RESHAPE = 4,	/* RAID 10 that is being reshaped */
	RT_PART_ANY = 7,
};

enum rt_dev_flags {
	/* request.start_time_ns is set for this disk (queue/iostats is 1) */
	RT_DEV_START_TIME = 1,
	/* above dm-crypt: the filesystem's bios are looked at here, as plain text */
	RT_DEV_STACKED = 2,
	/* the reason of a bio on some part is found as md submits it (rt_part_flags) */
	RT_DEV_CLASSIFIED = 4,
	/* an array that is a member itself: its bios are that member's */
	RT_DEV_NESTED = 8,
	/* an array whose blocks may have to be rebuilt: they are looked at as its bios complete */
	RT_DEV_REBUILDS = 16,
};

/* A traced block device: a disk with members, an array, or both. */
struct rt_dev_entry {
	__u32 dev;		/* major << 20 | minor; 0: slot not in use */
	__u16 index;		/* into rt_devs */
	__u16 array;		/* 1 + index into rt_arrays; 0: not an array */
	__u32 flags;		/* rt_dev_flags */
	__u32 pad;
};

struct rt_dev {
	__u32 flags;		/* rt_dev_flags */
	__u32 fs_array;		/* 1 + index of the array that its filesystem is on in one piece */
	__u64 fs_start;		/* first sector of that filesystem on the array */
	__u32 nr_parts;		/* 0: no member on it */
	__u32 slot_base;	/* of its in-flight slots */
	__u32 nr_slots;
	__u32 depth;		/* driver tags of a hardware queue */
	__u32 fs_block;		/* bytes of a block of its filesystem */
	__u32 dirty_array;	/* 1 + index of the array that all pieces of its filesystem are on */
	struct rt_part parts[RT_DISK_PARTS];
};

/* The fields that every request needs come first, in one or two cache lines. */
struct rt_array {
	__u32 flags;		/* rt_array_flags */
	__u32 upper;		/* 1 + index of the member that it is of another array */
	__u32 first_tile;	/* into rt_tiles */
	__u32 nr_tiles;
	__u64 tile_lead;	/* the array's first sector is so far into its first tile */
	__u64 tile_sectors;	/* see rt_tiles */
	__u32 tile_shift;	/* log2 of tile_sectors, or RT_NO_SHIFT */
	__u32 slot_shift;	/* log2 of a RT_LIST_SLOTS-th of them, rounded up */
	struct rt_geometry geometry;
	__u64 upper_start;	/* where that member begins on it */
};

enum rt_array_flags {
	RT_ARRAY_EXT = 1,	/* an ext filesystem lies on it */
	RT_ARRAY_RESHAPING = 2,	/* the geometry does not hold */
	RT_ARRAY_CRYPT = 4,	/* below dm-crypt: what members carry is cipher text */
	RT_ARRAY_IDLE = 8,	/* whole, and no resync: userspace keeps it up to date */
};

/* A stretch of a member that md itself uses. */
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
	struct rt_extent bad_blocks;	/* the log of them: maintained with the superblock */
	struct rt_extent bitmap;
	struct rt_extent journal;	/* PPL, or all of a journal device */
};

/* A request that the driver has: keyed by (disk, hardware queue, tag). */
struct rt_inflight {
	__u64 rq;
	__u64 issue_ns;
};

/* State of a walk over the bios of one request. Kernel side only. */
struct rt_walk {
	__u64 bio;		/* the next one */
	__u64 current;
	__u64 sector;		/* of the member */
	__u64 start;		/* the member's first sector on its disk */
	__u64 sectors;		/* of the member; 0: not looked up yet */
	__u64 left;		/* bytes of the request behind the current bio */
	__u64 size;		/* bytes of the current bio that are left */
	__u64 offset;		/* ... and those behind us */
	__u64 bytes;		/* seen of `origin`, not yet added */
	__u32 member;
	__u32 op;
	__u32 origin;
	__u32 first;		/* origin of the first piece */
	__u32 pieces;
	__u32 flags;		/* rt_part_flags, rt_walk_flags */
	__u32 md_reason;		/* of the current bio: see rt_md_reason() */
	__u32 array;
	__u32 busy;
	__u32 pad;
};

/*
 * Scratch for walks: of requests and of bios, each twice, because an interrupt may
 * complete a request in the middle of another's walk.
 */
enum { RT_SCRATCH_INNER = 1, RT_SCRATCH_NESTED = 2, RT_SCRATCHES = 4 };

enum rt_walk_flags {
	RT_WALK_FAILED = 1 << 8,	/* the data has not come */
	RT_WALK_INNER = 1 << 9,		/* a bio of an array, not a request of a disk */
	RT_WALK_PARTS = 1 << 10,	/* its bios may be of several partitions */
};

/* rt_walk.busy: done, but what it has gathered is still to be sent. */
enum { RT_WALK_GATHERED = 2 };

/* A segment of a bio. Kernel side only. */
struct rt_segment {
	__u64 bio;		/* 0: none */
	__u64 first;		/* where the bio's segments begin that are left */
	__u64 vec;		/* the segment */
	__u64 begin;		/* bytes of the segments from `first` on to `vec` */
};

/* Index in rt_boundaries of the lists of two tiles. */
struct rt_tiles {
	__u32 list[2];
};

/* Eight of the regions of rt_regions: a map's value has no fewer bytes. */
struct rt_regions {
	__u8 seen[8];
};

/* Reasons of md's bios in flight; 0: free. See stripe.bpf.h. */
struct rt_reasons {
	__u64 way[RT_REASON_WAYS];
};

/* The stripe that this CPU looked at last. Kernel side only. */
struct rt_stripe {
	__u64 sh;
	__u64 state;
	__u64 bio;		/* the last of its bios */
	__u32 op;
	__u32 array;
	__u32 wanted;		/* 1 + origin of the block that is read to be rebuilt */
	__u32 total;		/* bytes dirtied */
	__u32 bytes[32];	/* ... by each origin */
	__u32 origins;		/* which of them are not 0 */
	__u32 pad;
};

/* The rows that a member's cells count in, per CPU; 0: none yet. */
struct rt_member_rows {
	__u16 row[RT_CELLS];
};

/* One (member, origin, operation) on one CPU. Cumulative since attach. */
struct rt_row {
	__u64 owner;		/* the cell that has it; see rt_new_row() */
	__u64 requests;
	__u64 bytes;
	__u32 queue[RT_HIST_BUCKETS];	/* allocation to issue, us */
	__u32 device[RT_HIST_BUCKETS];	/* issue to completion, us */
};

/* Marks of the bios and requests that a program has seen, for its shadow program: see shadow.bpf.h. */
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
	__u64 shadowing;	/* the shadow program is running */
	__u64 overwrite;	/* slot to overwrite when none is free, modulo RT_SEEN_SLOTS */
};

/* Why something was not counted. */
enum rt_loss_reasons {
	RT_LOST_ROWS,		/* no row free */
	RT_LOST_ISSUE,		/* issue not seen, or no in-flight slot */
	RT_LOST_PIECES,		/* a request in more than RT_PIECES pieces */
	RT_LOST_TASKS,		/* task table full */
	RT_LOST_FILES,		/* file table full */
	RT_LOST_RING,		/* events of a recording that found rt_events full */
	RT_LOST_BUSY,		/* in an interrupt: a hash bucket was locked, or all scratch memory was in use */
	RT_LOSS_REASONS,
};

/* Losses of a CPU. */
struct rt_loss {
	__u64 lost[RT_LOSS_REASONS];
	__u64 recovered[RT_SEEN_KINDS];	/* not lost: counted by a shadow program after its program was skipped */
};

/*
 * Member IO that RAID 4/5/6 did to complete partially written stripes, by the
 * origin that dirtied the stripe. A stripe of several origins is divided among
 * them by their bytes. Key of rt_costs: array << RT_COST_SHIFT | origin.
 */
struct rt_cost {
	__u64 parity;		/* bytes of P and Q written */
	__u64 rmw_read;		/* bytes read to compute them */
};

/*
 * Checkpoints of a filesystem's journal that tasks waited for, because the log had no
 * room for another transaction. Key of rt_journals: device number of the filesystem.
 */
struct rt_journal {
	__u64 checkpoints;	/* transactions that left the log so */
	__u64 wait_ns;		/* from the begin of the checkpoint to the log's new tail */
	__u64 begun_ns;		/* of the checkpoint that is under way; 0: none */
	__u64 dropped_ns;	/* its transaction has left; 0: the tail is not awaited */
	__u32 tid;		/* of that transaction */
	__u32 pid;		/* the task that began last */
};

#endif
