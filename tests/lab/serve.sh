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

# figures NAME: stores the metrics, and the kernel's statistics of md121's members, once all earlier IO is in both.
figures() {
	sync
	sleep 3
	get /metrics >"$out/$1.metrics"
	for disk in loop0 loop1; do echo "$disk $(<"/sys/block/$disk/stat")"; done >"$out/$1.stat"
}

# says COUNT PATTERN: waits until serve has written so many matching lines.
says() {
	for ((tenth = 0; tenth < 1200; tenth++)); do
		if [ "$(grep -c -- "$2" "$out/serve.err")" -ge "$1" ]; then return; fi
		sleep 0.1
	done
	echo "serve does not say: $2" >>"$out/failed"
}

# shows PATTERN: waits until a line of the metrics matches.
shows() {
	for ((second = 0; second < 120; second++)); do
		if get /metrics | grep -q -- "$1"; then return; fi
		sleep 1
	done
	echo "the metrics do not show: $1" >>"$out/failed"
}

mkdir "$out/dumps"
raidtrace serve md120 md121 --dump-dir "$out/dumps" --dump-on busy=80%,degraded 2>"$out/serve.err" &
serve=$!
says 1 'serving '
figures first
write_files md121
figures second

delay slow4 loop4 40 0 0
timeout 25 dd if=/dev/md120 of=/dev/null bs=64k iflag=direct status=none || true
says 1 'busy=80%: '
says 1 'the last minutes are in '
delay slow4 loop4 0 0 0
figures third

mdadm --quiet /dev/md121 --fail /dev/loop1
says 1 'degraded: '
write_files md121
says 2 'the last minutes are in '
figures degraded
mdadm --quiet /dev/md121 --remove /dev/loop1
mdadm --quiet --zero-superblock /dev/loop1
mdadm --quiet /dev/md121 --add /dev/loop1
mdadm --quiet --wait /dev/md121 || true

mdadm --quiet --stop /dev/md120
shows '^raidtrace_array_up{array="md120"} 0'
figures stopped
mdadm --quiet --assemble /dev/md120 /dev/mapper/slow{2..5}
dd if=/dev/md120 of=/dev/null bs=64k count=100 iflag=direct status=none
shows '^raidtrace_array_up{array="md120"} 1'
dd if=/dev/md120 of=/dev/null bs=64k count=100 iflag=direct status=none
# The health of the session does not depend on the host's clock.
date -s "@$(($(date +%s) + 3600))" >/dev/null
sleep 3
figures last
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
