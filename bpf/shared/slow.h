/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Constants and structures of the programs of `raidtrace slow`: see shared/wire.h. Times are of bpf_ktime_get_ns(). */
#ifndef RAIDTRACE_SLOW_H
#define RAIDTRACE_SLOW_H

#include "wire.h"

enum rt_slow_limits {
	RT_SLOW_TASKS = 1 << 16,	/* slots of rt_slow_tasks, by the low bits of a thread id */
	RT_SLOW_OPERATIONS = 12288,	/* operations that sleep at the same time */
	RT_SLOW_SLEEPS = 16,		/* different stacks in which an operation or a commit sleeps; a power of two */
	RT_SLOW_COMMITS = 64,		/* journals that commit at the same time */
	RT_SLOW_STATES = 8,		/* enum rt_slow_states */
	RT_SLOW_HOLDERS = 4,		/* handles that kept a transaction from being committed */
	RT_SLOW_INODES = 4,		/* files whose ordered data a commit waited for */
	RT_SLOW_LAST_WRITES = 1024,	/* slots of rt_slow_last_writes; a power of two */
	RT_SLOW_DEVICES = 256,		/* filesystems and members */
	RT_SLOW_STACKS = 8192,
	RT_SLOW_FRAMES = 20,		/* the innermost; BPF trampolines add some */
	RT_SLOW_SHORT = 64,		/* sleeps that end before the threshold / 64 have no stack */
	RT_SLOW_BIOS = 65536,		/* in flight on members */
	RT_SLOW_MOST_IOS = 4000,	/* sent per drain */
};

enum rt_slow_devices {
	RT_SLOW_FS = 1,
	RT_SLOW_MEMBER = 2,
	RT_SLOW_BIO_BASED = 4,	/* a member that takes bios, not requests */
	RT_SLOW_DISK = 8,	/* gets the requests of a member */
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
	RT_SLOW_RENAME,		/* these have the inode of a directory */
	RT_SLOW_UNLINK,
	RT_SLOW_CREATE,
	RT_SLOW_RANGE,		/* sync_file_range(2) */
	RT_SLOW_KINDS,
};

enum rt_slow_flags {
	RT_SLOW_DIRECT = 1,
	RT_SLOW_EXTENDS = 2,	/* ends after i_size */
	RT_SLOW_UNALIGNED = 4,	/* position or length is no multiple of the block size */
	RT_SLOW_SYNCS = 8,	/* a write that called ext4_sync_file() */
	RT_SLOW_SECURITY = 16,	/* S_NOSEC is not cached: file_remove_privs() takes the lock exclusively */
	RT_SLOW_EXCLUSIVE = 32,	/* of a wait for a lock: exclusive */
	RT_SLOW_READERS = 64,	/* of a lock: readers hold it */
};

/* Instead of a stack: the task was preempted. */
#define RT_SLOW_PREEMPTED 1ULL

/* Indices of rt_slow_commit.state_ns: when the commit reached a state. */
enum rt_slow_states {
	RT_SLOW_STARTED,	/* jbd2_start_commit */
	RT_SLOW_LOCKED,		/* jbd2_commit_locking: waits for handles */
	RT_SLOW_FLUSHED,	/* jbd2_commit_flushing: submits ordered data; new handles may start */
	RT_SLOW_LOGGED,		/* jbd2_commit_logging: submits metadata, waits for ordered data */
	RT_SLOW_BLOCKS,		/* T_COMMIT_DFLUSH: waits for the journal's blocks */
	RT_SLOW_RECORD,		/* T_COMMIT_JFLUSH: writes the commit record */
	RT_SLOW_TAIL,		/* jbd2_run_stats: the record is on disk */
	RT_SLOW_ENDED,		/* jbd2_end_commit */
};

/* An operation or a commit in progress, in a slot of rt_slow_tasks. */
struct rt_slow_task {
	__u32 pid;		/* thread id; 0: none */
	__u16 kind;
	__u8 flags;
	__u8 depth;		/* of ext4_sync_file() inside a synchronous write */
	__u64 start_ns;
	__u64 inode;		/* address */
	__u64 position;
	__u64 bytes;
	__u32 sleeps;		/* 1: rt_slow_operations has an entry */
	__u32 dev;		/* of a sync without an inode; 0: of all filesystems */
	__u64 since_ns;		/* start of its sleep; 0: it runs */
	__u64 short_ns;		/* sleeps before there was an entry */
	__u64 stack;		/* of the current sleep; RT_SLOW_PREEMPTED, 0: not taken */
};

/* All sleeps of an operation with the same stack. */
struct rt_slow_sleep {
	__u64 stack;		/* key in rt_slow_stacks; 0: not known */
	__u64 count;
	__u64 ns;		/* without the time on a run queue */
	__u64 first_ns;		/* start of the first one */
	__u64 last_ns;		/* end of the last one */
};

/* A task sleeps: shared by operations and commits. */
struct rt_slow_sleeps {
	__u64 delay_ns;		/* sched_info.run_delay at the last rt_slow_settle() */
	__u64 queued_ns;	/* time on a run queue */
	__u64 missed_ns;	/* short sleeps, and those for which there was no room */
	__u64 off_ns;		/* length of the last sleep; 0: preempted */
	__u32 used;
	__u32 last;		/* index of the last sleep; RT_SLOW_SLEEPS: there was no room */
	struct rt_slow_sleep sleeps[RT_SLOW_SLEEPS];
};

/* The longest wait for an inode's i_rwsem, and the task that held it. */
struct rt_slow_lock {
	__u64 since_ns;		/* not 0: the operation waits now */
	__u64 ns;		/* of all waits */
	__u64 longest_ns;
	__u32 waits;
	__u32 pid;		/* the holder at the start of the longest wait; 0: unknown */
	__u32 next_pid;		/* the holder at the start of the current wait */
	__u16 kind, next_kind;	/* of the holder's operation */
	__u8 flags, next_flags;
	__u8 pad[2];
	__u32 pad2;
	__u8 comm[RT_COMM], next_comm[RT_COMM];
};

/* Sent when an operation has taken at least rt_slow_threshold. */
struct rt_slow_operation {
	__u32 event;		/* RT_SLOW_EVENT_OPERATION */
	__u32 pid, tgid;
	__u16 kind;
	__u8 flags;
	__u8 pad;
	__u64 start_ns, end_ns;
	__u64 inode;		/* number */
	__u32 generation;
	__u32 dev;		/* of the filesystem, major << 20 | minor */
	__u64 position;
	__u64 bytes;
	__u8 comm[RT_COMM];
	struct rt_slow_lock lock;
	struct rt_slow_sleeps off;
};

struct rt_slow_holder {
	__u32 pid;
	__u32 type;		/* EXT4_HT_ of fs/ext4/ext4_jbd2.h */
	__u64 ns;		/* end of its handle */
	__u32 jiffies;		/* age of its handle, at least */
	__u32 line;
	__u8 comm[RT_COMM];
};

struct rt_slow_inode {
	__u64 inode;
	__u64 ns;
	__u32 generation;
	__u32 pages;		/* waited for */
	__u64 bytes;		/* from the first dirty byte to the last one; 0: unknown */
	__u32 writer;		/* thread that wrote to the file last; 0: unknown */
	__u32 pad;
	__u8 comm[RT_COMM];	/* of the writer */
};

/* Sent at the end of each commit. */
struct rt_slow_commit {
	__u32 event;		/* RT_SLOW_EVENT_COMMIT */
	__u32 pid;		/* of the journal's thread */
	__u32 dev;		/* of the filesystem */
	__u32 tid;
	__u64 requested_ns;	/* 0: unknown, or the journal's timer */
	__u64 state_ns[RT_SLOW_STATES];	/* 0: not reached */
	__u64 record_ns;	/* the first flush or FUA bio with data after RT_SLOW_LOGGED */
	__u64 host;		/* address of the inode whose page it waits for now; 0: none */
	__u64 inode;		/* its number */
	__u32 generation;	/* of that inode */
	__u32 journal_dev;	/* not dev: an external journal's */
	__u64 range;		/* bytes of its inode's ordered data; 0: unknown */
	__u64 others_ns;	/* waits for files that are not in inodes */
	__u32 timer;		/* 1: nobody requested it */
	__u32 requester;	/* thread id; 0: unknown */
	__u64 request_stack;	/* 0: unknown */
	__u32 handles, blocks, logged;	/* as in struct transaction_run_stats_s */
	__u32 held;		/* handles that ended while it was locked */
	__u8 comm[RT_COMM];	/* of the requester */
	struct rt_slow_holder holders[RT_SLOW_HOLDERS];	/* the last one is at (held - 1) % RT_SLOW_HOLDERS */
	struct rt_slow_inode inodes[RT_SLOW_INODES];	/* those waited for longest */
	struct rt_slow_sleeps off;
};

/* A slow IO of a member or its disk. */
struct rt_slow_io {
	__u32 event;		/* RT_SLOW_EVENT_IO */
	__u32 dev;		/* of the member, or of the disk for a request */
	__u64 start_ns, end_ns;
	__u32 bytes;		/* 0: an empty flush */
	__u32 flags;		/* bi_opf, or cmd_flags */
	__u32 pre_read;		/* 1: RAID 4/5/6 reads it to compute parity */
	__u32 pad;
};

enum rt_slow_events {
	RT_SLOW_EVENT_OPERATION = 1,
	RT_SLOW_EVENT_COMMIT = 2,
	RT_SLOW_EVENT_IO = 3,
};

/* Sums of all operations of a kind, by CPU. */
struct rt_slow_sum {
	__u64 count;
	__u64 ns;
	__u64 longest_ns;
	__u64 slow;		/* at least rt_slow_threshold */
};

/* Counts of what could not be kept, by CPU. */
struct rt_slow_loss {
	__u64 slots;		/* another task had the slot of rt_slow_tasks */
	__u64 operations;	/* rt_slow_operations was full */
	__u64 events;		/* the ring buffer was full */
	__u64 commits;		/* rt_slow_commits was full */
	__u64 bios;		/* rt_slow_bios was full */
	__u64 ios;		/* more than RT_SLOW_MOST_IOS */
};

#endif
