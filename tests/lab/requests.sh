#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Requests that must be counted once, on the right member: flushes through
# device mapper, flushes of a neighbouring partition, and completions that
# interrupt completions. Leaves CASE.out, and in CASE.stat what each disk or
# partition completed meanwhile, "NAME READS WRITES DISCARDS FLUSHES" a line.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# disk NUMBER: a sparse loop device, with the write-back cache of its file.
disk() {
	truncate -s 600M "/tmp/disk$1"
	losetup "/dev/loop$1" "/tmp/disk$1"
	disks+=("loop$1")
}

fsyncs() {
	local i
	for ((i = 0; i < 40; i++)); do
		dd if=/dev/zero of="/mnt/fs/file-$i" bs=4k count=1 conv=fsync status=none
	done
	sync
}

# The same workload on a whole disk and on a logical volume.
mkdir -p /mnt/fs
disk 0
for device_kind in plain lvm; do
	device=/dev/loop0
	if [ "$device_kind" = lvm ]; then
		dd if=/dev/zero of=/dev/loop0 bs=1M count=2 conv=fsync status=none
		dmsetup create volume --table '0 1000000 linear /dev/loop0 2048'
		dmsetup mknodes
		device=/dev/mapper/volume
	fi
	mkfs.ext4 -q -F -E lazy_itable_init=0 "$device"
	mount -o noatime "$device" /mnt/fs
	watched=(loop0)
	count_during "$device_kind" loop0 fsyncs
	unmount /mnt/fs
done
dmsetup remove volume

# An idle array on the second partitions, and a filesystem on the first of one of the disks.
for number in 1 2; do
	truncate -s 600M "/tmp/disk$number"
	two_partitions "/tmp/disk$number" 2048 400000 409600 800000
	losetup -P "/dev/loop$number" "/tmp/disk$number"
	disks+=("loop$number")
done
wait_until 120 test -b /dev/loop1p2
wait_until 120 test -b /dev/loop2p2
mdadm --create /dev/md120 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/loop1p2 /dev/loop2p2
mkfs.ext4 -q -F -E lazy_itable_init=0 /dev/md120
mkdir -p /mnt/array
mount -o noatime /dev/md120 /mnt/array
mkfs.ext4 -q -F -E lazy_itable_init=0 /dev/loop1p1
mount -o noatime /dev/loop1p1 /mnt/fs
dd if=/dev/zero of=/mnt/fs/file bs=4k count=1 conv=fsync status=none
neighbour() {
	local i
	for ((i = 0; i < 20; i++)); do
		dd if=/dev/zero of=/mnt/fs/file bs=4k count=1 oflag=direct conv=notrunc,fdatasync status=none
	done
}
watched=(loop1 loop2 loop1p2 loop2p2)
count_during neighbour md120 neighbour
# The other way round: the array's own flushes are counted while the neighbour is idle.
own() {
	dd if=/dev/zero of=/mnt/array/file bs=4k count=1 conv=fsync status=none
	for ((i = 0; i < 10; i++)); do
		dd if=/dev/zero of=/mnt/array/file bs=4k count=1 oflag=direct conv=notrunc,fdatasync status=none
	done
	sync -f /mnt/array/file    # else the journal's thread writes the file's times 5 s later
}
count_during own md120 own
unmount /mnt/fs /mnt/array

# One disk that completes in a softirq, one in a timer's interrupt, on one CPU.
null_disk 0 size=1024 submit_queues=1 poll_queues=0 irqmode=1
null_disk 1 size=1024 submit_queues=1 poll_queues=0 irqmode=2 completion_nsec=20000
has_read() { # DISK REQUESTS
	local f
	read -r -a f <"/sys/block/$1/stat"
	[ "${f[0]}" -gt "$2" ]
}
# Until both disks have completed enough requests, not for a fixed time.
nested() {
	local jobs=() number i
	for number in 0 1; do
		for i in 1 2 3; do
			dd if="/dev/nullb$number" of=/dev/null iflag=direct bs=4k count=1000000 status=none &
			jobs+=($!)
		done
	done
	wait_until 600 has_read nullb1 24000
	kill "${jobs[@]}"
	wait "${jobs[@]}" 2>/dev/null || true
}
watched=(nullb0 nullb1)
count_during nested 'nullb0 nullb1' nested

# A disk whose driver gives requests back while they exceed its bandwidth. The kernel's events say which and for how long.
null_disk 2 size=1024 submit_queues=1 mbps=4
echo 64 >/sys/block/nullb2/queue/max_sectors_kb    # a request with more than 20 ms of bandwidth never ends
tracing=/sys/kernel/tracing
[ -e "$tracing/trace" ] || mount -t tracefs none "$tracing"
requeued() {
	local event
	echo >"$tracing/trace"
	for event in issue requeue; do echo 1 >"$tracing/events/block/block_rq_$event/enable"; done
	raidtrace record -o /out/requeued.rtrace nullb2 -- bash -c '
		dd if=/dev/zero of=/dev/nullb2 bs=64k count=160 oflag=direct status=none
		dd if=/dev/nullb2 of=/dev/null bs=64k count=80 iflag=direct status=none'
	for event in issue requeue; do echo 0 >"$tracing/events/block/block_rq_$event/enable"; done
	grep " $(tr : , </sys/block/nullb2/dev) " "$tracing/trace" >/out/requeued.trace
}
watched=(nullb2)
count_during requeued nullb2 requeued
raidtrace report --json /out/requeued.rtrace >/out/requeued.report
raidtrace report /out/requeued.rtrace
tail -n 5 /out/requeued.out
