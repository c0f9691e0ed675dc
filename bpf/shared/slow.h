/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Constants and structures for the programs of `raidtrace slow`. Part of the wire contract, see
 * wire.h. Times are those of bpf_ktime_get_ns().
 */
#ifndef RAIDTRACE_SLOW_H
#define RAIDTRACE_SLOW_H

#include "wire.h"

enum rt_slow_limits {
	RT_SLOW_TASKS = 1 << 16,	/* slots of rt_slow_tasks, indexed by the low bits of a thread id */
	RT_SLOW_PART = 1 << 10,		/* slots in a run of rt_slow_unended */
	RT_SLOW_OPERATIONS = 12288,	/* concurrent operations that have slept */
	RT_SLOW_SLEEPS = 16,		/* distinct stacks kept per operation or commit; a power of two */
	/* slots of rt_slow_async, indexed by a hash of a kiocb's address; a power of two */
	RT_SLOW_ASYNC = 1 << 14,
	RT_SLOW_DISPLACED = 49152,	/* concurrent asynchronous reads and writes whose slot was occupied */
	RT_SLOW_SUBMISSIONS = 4096,	/* those of them whose submission has slept */
	RT_SLOW_COMMITS = 64,		/* concurrent commits */
	RT_SLOW_STATES = 8,		/* number of enum rt_slow_states */
	RT_SLOW_HOLDERS = 4,		/* handles kept per commit that the commit waited for */
	RT_SLOW_INODES = 4,		/* files kept per commit whose ordered data it waited for */
	RT_SLOW_LAST_WRITES = 1024,	/* slots of rt_slow_last_writes; a power of two */
	RT_SLOW_DEVICES = 256,		/* filesystems and members */
	RT_SLOW_STACKS = 8192,
	RT_SLOW_FRAMES = 20,		/* innermost frames per stack, including those of BPF trampolines */
	/* no stack is taken for a sleep that ends within threshold / 64 of the operation's start */
	RT_SLOW_EARLY_DIVISOR = 64,
	RT_SLOW_BIOS = 65536,		/* bios in flight on members */
	RT_SLOW_MOST_IOS = 4000,	/* maximum number of IOs sent per drain */
};

enum rt_slow_devices {
	RT_SLOW_FS = 1,
	RT_SLOW_MEMBER = 2,
	RT_SLOW_BIO_BASED = 4,	/* a member that takes bios, not requests */
	RT_SLOW_DISK = 8,	/* a disk that gets the requests of a member */
};

enum rt_slow_kinds {
	RT_SLOW_NONE,
	RT_SLOW_JBD2,		/* the journal's thread, while it commits */
	RT_SLOW_FSYNC,
	RT_SLOW_FDATASYNC,
	RT_SLOW_SYNC,
	RT_SLOW_READ,
	RT_SLOW_WRITE,
	RT_SLOW_FALLOCATE,
	RT_SLOW_TRUNCATE,
	RT_SLOW_RENAME,		/* the inode of RENAME, UNLINK and CREATE is a directory */
	RT_SLOW_UNLINK,
	RT_SLOW_CREATE,
	RT_SLOW_RANGE,		/* sync_file_range(2) */
	RT_SLOW_KINDS,
};

enum rt_slow_flags {
	RT_SLOW_DIRECT = 1,
	RT_SLOW_EXTENDS = 2,	/* ends after i_size; on XFS: begins after i_size */
	RT_SLOW_UNALIGNED = 4,	/* position or length is not a multiple of the block size */
	RT_SLOW_SYNCS = 8,	/* a write that called ext4_sync_file() or xfs_file_fsync() */
	/* S_NOSEC is not set: a direct write takes the lock exclusively, for file_remove_privs() */
	RT_SLOW_SECURITY = 16,
	RT_SLOW_EXCLUSIVE = 32,	/* rt_slow_lock only: the operation waited for exclusive access */
	RT_SLOW_READERS = 64,	/* rt_slow_lock only: readers held the lock */
	RT_SLOW_XFS = 128,	/* on an XFS */
};

/* In place of a stack key: the task was preempted. */
#define RT_SLOW_PREEMPTED 1ULL

/*
 * States of a commit. Indices into rt_slow_commit.state_ns, the times at which the commit reached
 * them; of RT_SLOW_BLOCKS and RT_SLOW_RECORD, the first context switch in them.
 */
enum rt_slow_states {
	RT_SLOW_STARTED,	/* jbd2_start_commit */
	RT_SLOW_LOCKED,		/* jbd2_commit_locking: waits for handles */
	RT_SLOW_FLUSHING,	/* jbd2_commit_flushing: submits ordered data; new handles may start */
	RT_SLOW_LOGGING,		/* jbd2_commit_logging: submits metadata, waits for ordered data */
	RT_SLOW_BLOCKS,		/* T_COMMIT_DFLUSH: waits for the journal's blocks */
	RT_SLOW_RECORD,		/* T_COMMIT_JFLUSH: writes the commit record */
	RT_SLOW_TAIL,		/* jbd2_run_stats: the record is on disk */
	RT_SLOW_ENDED,		/* jbd2_end_commit */
};

/* An operation or a commit in progress, in a slot of rt_slow_tasks. */
struct rt_slow_task {
	__u32 pid;		/* thread id; 0: none */
	__u8 kind;
	__u8 syncs;		/* number of syncs that are a part of this write and have not begun */
	__u8 flags;
	__u8 depth;		/* nesting depth of fsync in a synchronous write */
	__u64 start_ns;
	__u64 inode;		/* address of the inode; of the transaction for RT_SLOW_JBD2 */
	__u64 position;
	__u64 bytes;
	__u32 sleeps;		/* 1: rt_slow_operations has an entry; always 1 for RT_SLOW_JBD2 */
	__u32 dev;		/* filesystem of a sync without an inode; 0: all filesystems */
	__u64 since_ns;		/* start of the current sleep; 0: the task runs */
	/* end of the current sleep, when the task gets on a run queue; 0: not yet woken */
	__u64 woken_ns;
	__u64 no_entry_ns;	/* total of the sleeps without an entry in rt_slow_operations */
	__u64 stack;		/* stack key of the current sleep, or RT_SLOW_PREEMPTED; 0: not taken */
	__u64 iocb;		/* address of the kiocb, if it is asynchronous; 0: it is not */
};

/*
 * The IO of a member that an operation waited for: of its requests that took at least
 * rt_slow_io_ns, the one that ended last. All 0 if there was none, or if it is not known whose it
 * was: RAID 4/5/6 completes most bios in a thread.
 */
struct rt_slow_own_io {
	__u64 start_ns;
	__u64 issue_ns;		/* given to the driver; 0: unknown */
	__u64 end_ns;
	__u32 dev;
	__u32 pid;		/* task that it interrupted */
};

/*
 * An asynchronous read or write. The first 64 bytes are all that its end needs if it was not slow.
 */
struct rt_slow_async {
	__u64 iocb;		/* address of the kiocb; 0: the slot is free */
	__u64 claims;		/* number of CPUs that occupy or try to occupy the slot */
	__u64 start_ns;
	/* start of the last call of read_iter or write_iter; equal to start_ns if it was the only one */
	__u64 attempt_ns;
	__u64 queued_ns;	/* end of that call; 0: it has not returned, or the operation is tried again */
	/* attempt_ns, if that call has returned before the end, which it leaves to the completion */
	__u64 alone_ns;
	__u64 end_ns;		/* 0: not yet */
	__u8 kind;
	__u8 flags;
	__u8 again;		/* 1: the last call could not do it without waiting */
	__u8 slept;		/* 1: rt_slow_submissions has an entry */
	__u8 displaced;		/* 1: in rt_slow_displaced, because its slot was occupied */
	__u8 pad[3];
	__u64 inode;		/* address of the inode */
	__u64 position;
	__u64 bytes;
	__u64 released_ns;	/* a limit (io.max) released its last bio; 0: none was held */
	struct rt_slow_own_io io;
	__u32 pid, tgid;	/* of the first call */
	__u8 comm[RT_COMM];
	__u32 depth;		/* direct IO of the file in flight when it began, itself included; 0: buffered */
	__u32 pad2;
};

/* All sleeps of an operation or commit with the same stack. */
struct rt_slow_sleep {
	__u64 stack;		/* key in rt_slow_stacks; 0: unknown */
	__u64 count;
	__u64 ns;		/* without the time on a run queue */
	__u64 first_ns;		/* start of the first sleep */
	__u64 last_ns;		/* end of the last sleep */
};

/* Sleeps of a task during an operation or a commit. */
struct rt_slow_sleeps {
	__u64 queued_ns;	/* time on a run queue */
	__u64 missed_ns;	/* total of short sleeps and of sleeps for which there was no room */
	__u32 used;
	__u32 pad;
	struct rt_slow_sleep sleeps[RT_SLOW_SLEEPS];
};

/*
 * Waits of an operation for its inode's i_rwsem. The holder of the lock is kept for the longest
 * wait and, in current_*, for the current one.
 */
struct rt_slow_lock {
	__u64 since_ns;		/* start of the current wait; 0: none */
	__u64 ns;		/* total of all waits */
	__u64 longest_ns;
	__u32 waits;
	__u32 pid;		/* the holder at the start of the longest wait; 0: unknown */
	__u32 current_pid;	/* the holder at the start of the current wait */
	__u16 kind, current_kind;	/* kind of the holder's operation */
	__u8 flags, current_flags;
	__u8 in_mutex;		/* PREEMPT_RT: the current wait is for the rt_mutex of the lock */
	__u8 pad[5];
	__u8 comm[RT_COMM], current_comm[RT_COMM];
};

/*
 * Event of an operation that took at least rt_slow_threshold, or of one that has taken as long and
 * has not ended.
 */
struct rt_slow_operation {
	__u32 event;		/* RT_SLOW_EVENT_OPERATION */
	__u32 pid, tgid;
	__u16 kind;
	__u8 flags;
	__u8 pad;
	__u64 start_ns, end_ns;	/* end_ns is 0 if it has not ended */
	__u64 since_ns;		/* start of the current sleep, if it has not ended; 0: it does not sleep */
	__u64 attempt_ns, queued_ns, released_ns;	/* as in struct rt_slow_async; 0 for other operations */
	struct rt_slow_own_io io;	/* the same */
	__u32 depth;		/* the same */
	__u32 pad3;
	__u64 inode;		/* inode number */
	__u32 generation;
	__u32 dev;		/* device of the filesystem, major << 20 | minor */
	__u64 position;
	__u64 bytes;
	__u8 comm[RT_COMM];
	struct rt_slow_lock lock;
	__u32 pusher;		/* thread that frees space in XFS's log, for which the operation waited; 0: none */
	__u32 pad2;
	__u8 pusher_comm[RT_COMM];
	struct rt_slow_sleeps off_cpu;
};

/* A handle that a commit waited for. */
struct rt_slow_holder {
	__u32 pid;
	__u32 type;		/* handle type, EXT4_HT_* of fs/ext4/ext4_jbd2.h */
	__u64 end_ns;		/* time at which the handle ended */
	__u32 jiffies;		/* lifetime of the handle, rounded down */
	__u32 line;		/* source line of ext4 that started the handle */
	__u8 comm[RT_COMM];
};

/* A file whose ordered data a commit waited for. */
struct rt_slow_inode {
	__u64 inode;
	__u64 wait_ns;		/* total of the waits for this file */
	__u32 generation;
	__u32 pages;		/* number of pages waited for */
	__u64 bytes;		/* from the first dirty byte to the last one; 0: unknown */
	__u32 writer;		/* thread that wrote to the file last; 0: unknown */
	__u32 pad;
	__u8 comm[RT_COMM];	/* name of the writer */
};

/* Event of a commit, sent at its end, and by rt_slow_unended. */
struct rt_slow_commit {
	__u32 event;		/* RT_SLOW_EVENT_COMMIT */
	__u32 pid;		/* thread of the journal */
	__u32 dev;		/* device of the filesystem */
	__u32 tid;
	/* first request of the commit; 0: unknown, or started by the journal's timer */
	__u64 requested_ns;
	__u64 state_ns[RT_SLOW_STATES];	/* 0: not reached */
	__u64 record_ns;	/* time of the first flush or FUA bio with data after RT_SLOW_LOGGING */
	__u64 host;		/* address of the inode whose page the commit waits for */
	__u64 inode;		/* inode number of `host`; 0: no page wait */
	__u32 generation;	/* generation of `host` */
	__u32 journal_dev;	/* device of the journal; not equal to dev if the journal is external */
	__u64 range;		/* bytes of ordered data of `host`; 0: unknown */
	__u64 others_ns;	/* total of the waits for files that are not in `inodes` */
	__u32 timer;		/* 1: started by the journal's timer, without a request */
	__u32 requester;	/* thread that requested the commit; 0: unknown */
	__u64 request_stack;	/* stack key of the request; 0: unknown */
	__u32 handles, blocks, logged;	/* as in struct transaction_run_stats_s */
	__u32 holder_count;	/* number of handles that ended while the transaction was locked */
	__u8 comm[RT_COMM];	/* name of the requester */
	/* a ring: the last handle is at (holder_count - 1) % RT_SLOW_HOLDERS */
	struct rt_slow_holder holders[RT_SLOW_HOLDERS];
	struct rt_slow_inode inodes[RT_SLOW_INODES];	/* the files with the longest waits */
	struct rt_slow_sleeps off_cpu;
};

/* Event of a slow IO of a member or of its disk. */
struct rt_slow_io {
	__u32 event;		/* RT_SLOW_EVENT_IO */
	__u32 dev;		/* device of the member; for a request, of the disk */
	__u64 start_ns, end_ns;
	__u32 bytes;		/* 0: an empty flush */
	__u32 flags;		/* bi_opf, or cmd_flags */
	__u32 pre_read;		/* 1: RAID 4/5/6 reads the block to compute parity */
	__u32 pad;
};

enum rt_slow_events {
	RT_SLOW_EVENT_OPERATION = 1,
	RT_SLOW_EVENT_COMMIT = 2,
	RT_SLOW_EVENT_IO = 3,
};

/*
 * Per-CPU totals of all operations of a kind; from index RT_SLOW_KINDS on, of the asynchronous
 * ones.
 */
struct rt_slow_sum {
	__u64 count;
	__u64 ns;
	__u64 slow;		/* operations that took at least rt_slow_threshold */
};

/* Per-CPU loss counters. */
struct rt_slow_loss {
	__u64 slots;		/* another task occupied the slot in rt_slow_tasks */
	__u64 operations;	/* rt_slow_operations was full */
	__u64 events;		/* the ring buffer was full */
	__u64 commits;		/* rt_slow_commits was full */
	__u64 bios;		/* rt_slow_bios was full */
	__u64 ios;		/* more than RT_SLOW_MOST_IOS IOs in a drain */
};

#endif
