/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of a recording. Part of the wire contract, see wire.h. */
#ifndef RAIDTRACE_EVENTS_H
#define RAIDTRACE_EVENTS_H

#include "limits.h"
#include "tasks.h"

/* Kinds of events in rt_events: the first byte of each event. */
enum rt_event_kinds {
	RT_EVENT_REQUEST = 1,
	/* part of a request that is not complete yet, or has too many runs for one event */
	RT_EVENT_PART = 2,
	RT_EVENT_SUBMISSION = 3,
	/*
	 * the bio of a submission was refused: array, sector and now_ns are those of the
	 * submission, the other fields are 0
	 */
	RT_EVENT_REFUSED = 4,
};

/*
 * A run: consecutive bytes of a request that have one origin, as sectors | origin << RT_RUN_SHIFT.
 */
enum rt_event_runs {
	RT_RUN_SHIFT = 24,
	/* value of rt_event_request.runs: the runs are in the preceding RT_EVENT_PART events */
	RT_RUNS_SENT = 0xffff,
};

/* A completed request on a member. Followed by its runs. */
struct rt_event_request {
	__u8 kind;
	__u8 op;
	__u8 origin;
	__u8 error;
	__u16 flags;		/* REQ_* flags, packed by rt_event_flags() */
	__u16 runs;		/* 0: one run, the whole request */
	__u32 length;		/* bytes */
	__u32 member;
	__u64 now_ns;		/* CLOCK_MONOTONIC */
	__u64 sector;		/* on the member's disk; 0 if length is 0 */
	__u64 issue_ns;		/* 0: unknown */
	__u64 start_ns;		/* rq->start_time_ns; unknown if 0 or after issue_ns */
};

/* A bio submitted to an array. */
struct rt_event_submission {
	__u8 kind;
	__u8 op;
	__u8 origin;
	__u8 nowait;		/* 1: RT_EVENT_REFUSED may follow */
	__u16 flags;		/* REQ_* flags, packed by rt_event_flags() */
	__u16 array;
	__u32 length;
	__u32 pid;
	__u64 now_ns;		/* time at which the origin was determined */
	__u64 sector;		/* on the array */
	struct rt_file_id file;
};

/* Runs gathered by a walk over a request (rt_walk()). Kernel side only. */
struct rt_gather {
	struct rt_event_request event;
	__u32 run[RT_RUNS];
	__u64 partly_sent;	/* 1: some runs have already been sent */
};

#endif
