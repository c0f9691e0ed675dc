#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# PREEMPT_RT: completions in threads, locks that sleep. `top` and `record` trace a RAID 5.
# Then `slow` traces the tasks that wait for the inode's lock on a RAID 1 whose writes take 40 ms.
# Leaves the files of begin and end, a.rtrace, record.err, record.status, report.json, recorded and counted (lines "NAME REQUESTS"
# of the members during the recording and during top), and the files of begin_slow and end_slow: locks, readers.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

# completed: the number of requests that each member has completed.
completed() {
	local disk f
	for disk in "${disks[@]}"; do
		read -r -a f <"/sys/block/$disk/stat"
		echo "$disk $((f[0] + f[4] + f[11] + f[15]))"
	done
}

array md120 512M 4 --level=5 --chunk=64 --bitmap=internal --delay=1
filesystem md120 -J size=8
dd if=/dev/zero of=/mnt/md120/file bs=1M count=16 oflag=direct status=none
begin
raidtrace record -o /out/a.rtrace /dev/md120 2>/out/record.err &
recorder=$!
wait_until 900 has_noted "raidtrace: recording" 1 /out/record.err "$recorder"
wait_idle 2
completed >/run/before
# Several writers at once.
for job in 1 2 3; do
	dd if=/dev/zero of="/mnt/md120/new$job" bs=64k count=40 oflag=direct status=none &
	jobs+=($!)
done
for ((i = 0; i < 40; i++)); do
	dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek=$((i * 97)) oflag=direct conv=notrunc status=none
	echo words >"/mnt/md120/f$i"
done
wait "${jobs[@]}"
sync
rm /mnt/md120/f?
echo 3 >/proc/sys/vm/drop_caches
cat /mnt/md120/f* /mnt/md120/new1 >/dev/null
sync
wait_idle 4
completed >/run/after
paste -d ' ' /run/before /run/after | awk '{ print $1, $4 - $2 }' >/out/recorded
status=0
kill -INT "$recorder"
wait "$recorder" || status=$?
echo "$status" >/out/record.status
raidtrace report /out/a.rtrace --json >/out/report.json
unmount /mnt/md120
end
awk '{ n = $3 + $7 + $14 + $18 } $1 == "start" { was[$2] = n } $1 == "end" { print $2, n - was[$2] }' /out/stat >/out/counted

modprobe dm_delay
members=("${#disks[@]}" "$((${#disks[@]} + 1))")
slow_disks 2 256M
create_array md121 --level=1 --raid-devices=2 --assume-clean --bitmap=none "${members[@]/#//dev/mapper/slow}"
echo 60 >/sys/block/md121/md/safe_mode_delay
filesystem md121 -J size=8
cd /mnt/md121
dd if=/dev/zero of=shared bs=64k count=1 status=none
truncate -s 1M unaligned
sync
for i in "${members[@]}"; do delay "slow$i" "loop$i" 0 40 0; done
graph __rwbase_read_lock rt_mutex_slowlock.constprop.0
begin_slow locks -t 5ms md121
# Direct writes that are not aligned have the lock exclusively: readers wait for a writer, then writers for each other.
beside unaligned 200 each 20 512 1 8 unaligned
each 20 512 401 8 unaligned &
each 20 512 801 8 unaligned
wait $!
end_slow

# Direct reads of 100 ms share the lock. A writer waits for them, and later readers wait for the writer.
for i in "${members[@]}"; do delay "slow$i" "loop$i" 100 0 0; done
graph __rwbase_read_lock rwbase_write_lock
begin_slow readers -t 5ms md121
jobs=()
# Two readers read again at once, at whatever moment the third one begins.
for job in 1 2; do
	dd if=shared of=/dev/null bs=4k count=10 skip="$job" iflag=direct status=none &
	jobs+=($!)
done
for ((i = 0; i < 10; i++)); do dd if=shared of=/dev/null bs=4k count=1 iflag=direct status=none; done &
jobs+=($!)
for ((i = 0; i < 10; i++)); do dd if=/dev/zero of=shared bs=4k count=1 seek="$i" conv=notrunc status=none; done
wait "${jobs[@]}"
end_slow
cd /
unmount /mnt/md121
