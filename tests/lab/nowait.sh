#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Direct writes with RWF_NOWAIT, as io_uring submits first. md refuses some with EAGAIN, which
# move no data: a RAID 10 during a resync; a RAID 0 and a RAID 5, traced without the RAID 10,
# bios that are larger than their limit. Leaves ARRAY.out, and for each array in nowait.did
# the bytes and the number of refusals.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 400M 4 --level=10 --chunk=64 --bitmap=none
array md121 200M 4 --level=0 --chunk=64
array md122 200M 4 --level=5 --chunk=64 --bitmap=none
echo 400000 >/sys/block/md120/md/sync_speed_max
echo 400000 >/sys/block/md120/md/sync_speed_min
for on in md121 md122; do echo 64 >"/sys/block/$on/queue/max_sectors_kb"; done
start_top md120 md120

# attempt ARRAY COMMAND...: xfs_io's commands. Adds to moved and refused.
attempt() {
	local on=$1 options=()
	shift
	for command in "$@"; do options+=(-c "$command"); done
	# xfs_io fails when a write is refused, as is intended. The test asserts the numbers of both kinds.
	xfs_io -d "${options[@]}" "/dev/$on" >/run/said 2>/run/errors || true
	moved=$(awk -F'[ /]' -v sum="$moved" '/^wrote / { sum += $2 } END { print sum }' /run/said)
	refused=$((refused + $(grep -c 'temporarily unavailable' /run/errors || true)))
}
report() {
	echo "$1 $moved $refused" >>/out/nowait.did
}

small=()
for ((i = 0; i < 500; i++)); do small+=("pwrite -N -V 1 -b 4k $((i * 1240))k 4k"); done
moved=0 refused=0
# More writes beside the resync, until it was in the way of enough of them.
are_refused() {
	echo repair >/sys/block/md120/md/sync_action 2>/dev/null || true
	attempt md120 "${small[@]}"
	[ "$refused" -ge 20 ]
}
wait_until 900 are_refused
echo idle >/sys/block/md120/md/sync_action
wait_until 900 is_rebuilt md120
attempt md120 "${small[@]}"
stop_top
report md120

mixed=()
for ((i = 0; i < 50; i++)); do
	# the last one in two chunks
	mixed+=("pwrite -N -V 1 -b 4k $((i * 1240))k 4k"
		"pwrite -N -V 1 -b 512k $((i * 1240))k 512k"
		"pwrite -N -V 1 -b 32k $((i * 1280 + 48))k 32k")
done
for on in md121 md122; do
	moved=0 refused=0
	start_top "$on" "$on"
	attempt "$on" "${mixed[@]}"
	stop_top
	report "$on"
done
cat /out/nowait.did
