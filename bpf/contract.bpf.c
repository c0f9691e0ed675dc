// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/*
 * Every enumeration of shared/, as a type that the compiler keeps in the object's BTF:
 * build.rs generates src/contract.rs's constants from it. Never loaded.
 */
#include "vmlinux.h"
#include "shared/wire.h"
#include "shared/alloc.h"
#include "shared/profile.h"

struct {
	enum rt_limits limits;
	enum rt_boundary boundary;
	enum rt_list list;
	enum rt_part_flags part_flags;
	enum rt_dev_flags dev_flags;
	enum rt_array_flags array_flags;
	enum rt_seen_kinds seen_kinds;
	enum rt_task_keys task_keys;
	enum rt_event_kinds event_kinds;
	enum rt_event_runs event_runs;
	enum rt_level level;
	enum rt_geometry_limits geometry_limits;
	enum rt_alloc_limits alloc_limits;
	enum rt_sample_limits sample_limits;
	enum rt_sample_modes sample_modes;
} rt_contract;
