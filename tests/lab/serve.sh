#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# raidtrace serve on a RAID 5 with a slow member, and on a RAID 1: its metrics beside the kernel's figures, what it writes when a
# member is slow and when one fails, and arrays that stop and return. The members of the RAID 5 are devices of dm-delay, which make no
# requests: only their utilisation is known.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

modprobe dm_delay
array md121 100M 2 --level=1
filesystem md121
slow_disks 4 100M
create_array md120 --assume-clean --level=5 --chunk=64 --raid-devices=4 /dev/mapper/slow{2..5}

# get PATH: an answer's body.
get() {
	exec 3<>/dev/tcp/127.0.0.1/9753
	printf 'GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n' "$1" >&3
	sed '1,/^\r$/d' <&3
	exec 3>&-
}

# has_counted INTERVALS: serve has counted so many.
has_counted() {
	[ "$(get /metrics | sed -n 's/^raidtrace_intervals_total //p')" -ge "$1" ]
}

# wait_counted: waits for two intervals, so that all earlier IO is in the metrics.
wait_counted() {
	local now
	now=$(get /metrics | sed -n 's/^raidtrace_intervals_total //p')
	wait_until 900 has_counted $((now + 2))
}

# figures NAME: stores the metrics, and the kernel's statistics of md121's members, once all earlier IO is in both.
figures() {
	local disks=(loop0 loop1)
	sync
	wait_idle 2
	wait_counted
	get /metrics >"$out/$1.metrics"
	for disk in loop0 loop1; do echo "$disk $(<"/sys/block/$disk/stat")"; done >"$out/$1.stat"
}

# says COUNT PATTERN: waits until serve has written so many matching lines.
says() {
	wait_until 900 has_noted "$2" "$1" "$out/serve.err" "$serve"
}

# shows PATTERN: waits until a line of the metrics matches.
shows() {
	wait_until 900 is_in_metrics "$1"
}
is_in_metrics() {
	grep -q -- "$1" <<<"$(get /metrics)"
}

mkdir "$out/dumps"
raidtrace serve md120 md121 --dump-dir "$out/dumps" --dump-on busy=80%,degraded 2>"$out/serve.err" &
serve=$!
says 1 'serving '
figures first
write_files md121
figures second

delay slow4 loop4 40 0 0
# Chunk 2 is on slow4, with md's default layout. Two readers, so that it always has a request.
commands=()
for ((i = 0; i < 50; i++)); do commands+=(-c 'pread -q 128k 64k'); done
readers=()
for i in 1 2; do
	while [ ! -e /run/enough ]; do xfs_io -d -r "${commands[@]}" /dev/md120 >/dev/null; done &
	readers+=($!)
done
says 1 'busy=80%: '
touch /run/enough
wait "${readers[@]}"
says 1 'the last minutes are in '
delay slow4 loop4 0 0 0
figures third

mdadm --quiet /dev/md121 --fail /dev/loop1
says 1 'degraded: '
write_files md121
says 2 'the last minutes are in '
figures degraded
remove md121 /dev/loop1
mdadm --quiet --zero-superblock /dev/loop1
mdadm --quiet /dev/md121 --add /dev/loop1
wait_until 900 is_rebuilt md121

mdadm --quiet --stop /dev/md120
shows '^raidtrace_array_up{array="md120"} 0'
figures stopped
mdadm --quiet --assemble /dev/md120 /dev/mapper/slow{2..5}
dd if=/dev/md120 of=/dev/null bs=64k count=100 iflag=direct status=none
shows '^raidtrace_array_up{array="md120"} 1'
dd if=/dev/md120 of=/dev/null bs=64k count=100 iflag=direct status=none
# The health of the session does not depend on the host's clock.
date -s "@$(($(date +%s) + 3600))" >/dev/null
wait_counted
# On a busy machine, programs are loaded for what was seen while md assembled it; until the next look the array is not up.
figures last
is_up() {
	get /metrics >"$out/last.metrics"
	grep -q '^raidtrace_array_up{array="md120"} 1' "$out/last.metrics"
}
wait_until 900 is_up
grep -E '^(Cap|NoNewPrivs)' "/proc/$serve/status" >"$out/capabilities"
get /healthz >"$out/health"
status=0
kill -TERM "$serve"
wait "$serve" || status=$?
echo "$status" >"$out/serve.status"
for dump in "$out"/dumps/*.rtrace; do
	raidtrace report "$dump" --json >"$dump.json"
	raidtrace report "$dump" >"$dump.txt"
done
