#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Direct writes with RWF_NOWAIT, as io_uring submits first, on a RAID 10 during a
# resync: md refuses some with EAGAIN, which move no data. Leaves nowait.out, and
# the numbers of done and refused writes in nowait.did.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 400M 4 --level=10 --chunk=64 --bitmap=none
echo 400000 >/sys/block/md120/md/sync_speed_max
echo 400000 >/sys/block/md120/md/sync_speed_min
commands=()
for ((i = 0; i < 500; i++)); do commands+=(-c "pwrite -N -V 1 -b 4k $((i * 1240))k 4k"); done
start_top nowait md120
done=0 refused=0
attempt() {
	xfs_io -d "${commands[@]}" /dev/md120 >/run/said 2>&1 || true
	done=$((done + $(grep -c '^wrote 4096/4096' /run/said || true)))
	refused=$((refused + $(grep -c 'temporarily unavailable' /run/said || true)))
}
# More writes beside the resync, until it was in the way of enough of them.
are_refused() {
	echo repair >/sys/block/md120/md/sync_action 2>/dev/null || true
	attempt
	[ "$refused" -ge 20 ]
}
wait_until 300 are_refused
echo idle >/sys/block/md120/md/sync_action
wait_until 300 is_rebuilt md120
attempt
stop_top
echo "written $((done * 4096))" >/out/nowait.did
echo "refused $refused" >>/out/nowait.did
cat /out/nowait.did
