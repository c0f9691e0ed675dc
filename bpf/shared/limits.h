/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sizes of the tables. Part of the wire contract, see wire.h. */
#ifndef RAIDTRACE_LIMITS_H
#define RAIDTRACE_LIMITS_H

enum rt_limits {
	RT_DEV_HASH_BITS = 13,	/* log2 of the buckets of the device index */
	RT_DEV_WAYS = 2,	/* entries of a bucket; rt_dev_in() handles two */
	RT_DEVS = 1024,		/* disks and arrays together */
	RT_DISK_PARTS = 15,	/* members on one disk */
	RT_NESTING_MAX = 3,	/* maximum depth of nested arrays that is resolved */
	RT_HIST_BUCKETS = 128,	/* see hist.h */
	RT_CELLS = 256,		/* rt_row(): origin << 3 | operation */
	RT_WALK_STEPS = 64,	/* steps per round of a walk over a request */
	RT_WALK_ROUNDS = 32,	/* rounds per walk */
	/* maximum number of pieces of a request that are looked up */
	RT_PIECES = RT_WALK_STEPS * RT_WALK_ROUNDS,
	RT_LEARNED_MAX = 1 << 18,	/* blocks in rt_learned */
	/*
	 * rt_filter: a lane has 2 bits and stands for 8 sectors, a word for 256, a line of 8 words for
	 * 2048 (1 MiB)
	 */
	RT_FILTER_LANE = 3,
	RT_FILTER_WORD = 8,
	RT_FILTER_LINE = 11,
	RT_FILTER_LINES = 16,	/* log2 of the lines of a copy */
	RT_FILTER_HASHES = 3,	/* lines of a key */
	RT_FILTER_WORDS = 8 << RT_FILTER_LINES,	/* words of a copy */
	RT_RANGE_STEPS = 24,	/* binary search over a tile's boundaries; rarely more than 6 are needed */
	RT_TILE_SECTOR_BIAS = 128,	/* added to every sector in a tile's list, see src/probe/tiles.rs */
	RT_REASON_WAYS = 4,	/* slots per entry of rt_reasons */
	RT_SYNC_ENDS = 6,	/* completion functions of resync bios */
	RT_COMM = 16,
	RT_WORK = 32,		/* WORKER_DESC_LEN; 24 in older kernels */
	RT_TASK_SLOTS = 64,	/* a power of two */
	RT_FILE_SLOTS = 64,	/* a power of two */
	RT_NOWAIT_BITS = 12,	/* log2 of the entries of rt_nowaits */
	RT_KEPT_BITS = 12,	/* log2 of the entries of rt_kept_bios */
	RT_BIO_BYTES = 176,	/* more than up to struct bio's bi_io_vec */
	RT_FILE_NAME = 256,	/* NAME_MAX and a NUL */
	RT_RUNS = 64,		/* maximum number of runs per event */
	RT_COST_SHIFT = 5,	/* number of bits for the origin in a key of rt_costs */
	RT_SEEN_SLOTS = 16,	/* marks per CPU and program, see shadow.bpf.h */
};

#endif
