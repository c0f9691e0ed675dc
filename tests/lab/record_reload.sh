#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Records a RAID 0 at full load, beside a top, and creates a RAID 5, for which both reload their BPF programs: a.rtrace, record.err,
# record.status, what start_top() leaves, and stat: lines "NAME REQUESTS", the requests that each member of the RAID 0 completed
# during the recording. Then another recording, which ends under load: busy.rtrace, busy.err.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

completed() {
	local disk f
	for disk in "${members[@]}"; do
		read -r -a f <"/sys/block/$disk/stat"
		echo "$disk $((f[0] + f[4] + f[11] + f[15]))"
	done
}

array md120 512M 2 --level=0 --chunk=64
members=("${disks[@]}")
filesystem md120
dd if=/dev/zero of=/mnt/md120/file bs=1M count=64 oflag=direct status=none
sync
wait_idle 3
start_top top
raidtrace record --alloc -o /out/a.rtrace 2>/out/record.err &
recorder=$!
wait_for_line() { # PATTERN
	wait_until 600 has_noted "$1" 1 /out/record.err "$recorder"
	if kill -0 "$recorder"; then return; fi
	cat /out/record.err >&2
	die "raidtrace did not print: $1"
}
# have_completed COUNT: each member has completed so many more requests since the last line of /run/last.
have_completed() {
	completed >/run/now
	paste -d ' ' /run/last /run/now | awk -v n="$1" '$4 - $2 < n { exit 1 }'
}
wait_for_line 'raidtrace: recording'
wait_idle 2
completed >/run/before

jobs=()
for job in 1 2 3 4; do
	while :; do
		dd if=/mnt/md120/file of=/dev/null bs=4k iflag=direct status=none
		dd if=/dev/zero of=/mnt/md120/file bs=4k count=2000 seek=$((job * 2000)) oflag=direct conv=notrunc status=none
	done &
	jobs+=($!)
done
completed >/run/last
wait_until 900 have_completed 1000
array md121 256M 3 --level=5 --chunk=64 --bitmap=none
filesystem md121
wait_for_line 'tracing reloaded'
wait_until 600 has_noted 'tracing reloaded' 1 /out/top.err "$pid"
completed >/run/last
wait_until 900 have_completed 1000
kill "${jobs[@]}"
wait "${jobs[@]}" 2>/dev/null || true
sync
wait_idle 4
completed >/run/after
paste -d ' ' /run/before /run/after | awk '{ print $1, $4 - $2 }' >/out/stat

status=0
kill -INT "$recorder"
wait "$recorder" || status=$?
echo "$status" >/out/record.status

# One that ends while the array is busy, beside programs at the same tracepoints: they are slow to detach.
while :; do dd if=/dev/zero of=/mnt/md120/file bs=64k count=2 conv=notrunc,fsync status=none; done &
job=$!
raidtrace record -d 3s -o /out/busy.rtrace 2>/out/busy.err
kill "$job"
wait "$job" 2>/dev/null || true
stop_top
cat /out/record.err /out/top.err /out/stat
