#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# dirtied.sh ROUNDS FILES SEED: runs in the guest of `tools/bench dirtied --guest`. In each
# round FILES files are created without raidtrace, without it again, with `raidtrace top`, and
# with `raidtrace top --dirtied-origins`, in random order. Prints a line per turn: round,
# variant, and for each batch of 100 files the nanoseconds per file.
set -euo pipefail
rounds=$1 files=$2
RANDOM=$3

truncate -s 2G /image
device=$(losetup -f --show /image)
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$device"
mkdir -p /mnt/fs
mount -o noatime "$device" /mnt/fs

begin() {
	rm -f /first
	raidtrace top --json --no-overhead --interval 1 "$@" "$device" >/first 2>/errors &
	tracer=$!
	until [ -s /first ]; do
		if ! kill -0 "$tracer" 2>/dev/null; then
			cat /errors >&2
			exit 1
		fi
		sleep 0.2
	done
	sed -n '1s/.*"notes"/notes/p' /first >&2
}

turn() {
	local tracer=''
	case $2 in
	counted) begin ;;
	origins) begin --dirtied-origins ;;
	esac
	sleep 1
	echo "$1 $2 $(echo "$files" | dirtied /mnt/fs)"
	if [ "$tracer" ]; then
		kill -INT "$tracer"
		wait "$tracer" || true
		# Must not be empty: shows that raidtrace counted.
		grep -o '"dirtied":\[{"origin":"[a-z_]*"' /first | sort | uniq -c >&2
	fi
	sync
}

turn 0 without >/dev/null
for ((round = 1; round <= rounds; round++)); do
	mapfile -t order < <(for variant in without again counted origins; do
		echo "$RANDOM $variant"
	done | sort -n)
	for each in "${order[@]}"; do turn "$round" "${each#* }"; done
done
umount /mnt/fs
