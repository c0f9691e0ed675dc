// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * The enumerations and structures of shared/ that userspace uses, as types that the compiler keeps
 * in the object's BTF. build.rs generates contract.rs from it. The object is never loaded.
 */
#include "vmlinux.h"
#include "shared/wire.h"
#include "shared/alloc.h"
#include "shared/profile.h"
#include "shared/slow.h"

struct {
	enum rt_limits limits;
	enum rt_boundary boundary;
	enum rt_list list;
	enum rt_part_flags part_flags;
	enum rt_dev_flags dev_flags;
	enum rt_array_flags array_flags;
	enum rt_seen_kinds seen_kinds;
	enum rt_loss_reasons loss_reasons;
	enum rt_task_key_values task_key_values;
	enum rt_event_kinds event_kinds;
	enum rt_event_runs event_runs;
	enum rt_level level;
	enum rt_place_kind place_kind;
	enum rt_geometry_limits geometry_limits;
	enum rt_alloc_limits alloc_limits;
	enum rt_sample_limits sample_limits;
	enum rt_sample_modes sample_modes;
	enum rt_slow_limits slow_limits;
	enum rt_slow_devices slow_devices;
	enum rt_slow_kinds slow_kinds;
	enum rt_slow_flags slow_flags;
	enum rt_slow_states slow_states;
	enum rt_slow_events slow_events;
	enum rt_counted_figures counted_figures;

	struct rt_place place;
	struct rt_array array;
	struct rt_cost cost;
	struct rt_dev dev;
	struct rt_dev_bucket dev_bucket;
	struct rt_dev_entry dev_entry;
	struct rt_event_request event_request;
	struct rt_event_submission event_submission;
	struct rt_file file;
	struct rt_file_key file_key;
	struct rt_file_pending file_pending;
	struct rt_inflight inflight;
	struct rt_journal journal;
	struct rt_loss loss;
	struct rt_member member;
	struct rt_member_rows member_rows;
	struct rt_row row;
	struct rt_task task;
	struct rt_task_id task_id;
	struct rt_task_key task_key;
	struct rt_task_pending task_pending;
	struct rt_tiles tiles;
	struct rt_alloc alloc;
	struct rt_alloc_cpu alloc_cpu;
	struct rt_alloc_loss alloc_loss;
	struct rt_alloc_share alloc_share;
	struct rt_alloc_task alloc_task;
	struct rt_alloc_task_key alloc_task_key;
	struct rt_sample sample;
	struct rt_sample_ticks sample_ticks;
	struct rt_slow_async slow_async;
	struct rt_slow_operation slow_operation;
	struct rt_slow_commit slow_commit;
	struct rt_slow_io slow_io;
	struct rt_slow_sum slow_sum;
	struct rt_slow_loss slow_loss;
} rt_contract;
