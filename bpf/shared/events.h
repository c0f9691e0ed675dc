/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Events of a recording. Part of the wire contract, see wire.h. */
#ifndef RAIDTRACE_EVENTS_H
#define RAIDTRACE_EVENTS_H

#include "limits.h"
#include "tasks.h"

/* Kinds of events in rt_events. Each event starts with one of these. */
enum rt_event_kinds {
	RT_EVENT_REQUEST = 1,
	RT_EVENT_PART = 2,	/* bytes of a request that is not complete yet, or has too many runs */
	RT_EVENT_SUBMISSION = 3,
};

/* Bytes and origins of a request, one after the other: sectors | origin << RT_RUN_SHIFT. */
enum rt_event_runs {
	RT_RUN_SHIFT = 24,
	RT_RUNS_SENT = 0xffff,	/* rt_event_request.runs: the bytes are in RT_EVENT_PART events before it */
};

/* A request on a member as it completed. Followed by its runs. */
struct rt_event_request {
	__u8 kind;
	__u8 op;
	__u8 origin;
	__u8 error;
	__u16 flags;		/* rt_event_flags() */
	__u16 runs;		/* 0: one, of all of it */
	__u32 length;		/* bytes */
	__u32 member;
	__u64 now_ns;		/* CLOCK_MONOTONIC */
	__u64 sector;		/* of the member's disk; 0 if length is 0 */
	__u64 issue_ns;		/* 0: not known */
	__u64 start_ns;		/* rq->start_time_ns; not known if 0 or after issue_ns */
};

/* A bio that was sent to an array. */
struct rt_event_submission {
	__u8 kind;
	__u8 op;
	__u8 origin;
	__u8 pad;
	__u16 flags;
	__u16 array;
	__u32 length;
	__u32 pid;
	__u64 now_ns;		/* when its origin was determined */
	__u64 sector;		/* of the array */
	struct rt_file_id file;
};

/* The runs of a request that is walked over. Kernel side only. */
struct rt_gather {
	struct rt_event_request event;
	__u32 run[RT_RUNS];
	__u64 partly_sent;	/* some runs have been sent */
};

#endif
