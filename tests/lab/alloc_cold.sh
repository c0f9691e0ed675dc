#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Bitmaps that are not in memory, on an array of two disks that take 80 ms for a request: a hole for one file in each group,
# whose bitmap is read when the file is allocated. The kernel counts the reads too: ext4's tracepoints, and each disk.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

at=/sys/kernel/config/nullb

disks() { # NANOSECONDS for each request. They keep their content.
	local number
	for number in 0 1; do
		echo 0 >"$at/nullb$number/power"
		echo "$1" >"$at/nullb$number/completion_nsec"
		echo 1 >"$at/nullb$number/power"
	done
}

work() {
	echo 1 >"$tracing/events/ext4/ext4_read_block_bitmap_load/enable"
	echo 1 >"$tracing/events/ext4/ext4_mb_bitmap_load/enable"
	snapshot before
	alloc_files /mnt/md0 c 160 262144
	sync
	snapshot after
	echo 0 >"$tracing/events/ext4/enable"
	cat "$tracing/trace" >/out/trace
	cat "$tracing"/per_cpu/cpu*/stats >/out/trace.stats
}

modprobe null_blk nr_devices=0
mount -t configfs none /sys/kernel/config 2>/dev/null || true
for number in 0 1; do
	mkdir "$at/nullb$number"
	echo 1400 >"$at/nullb$number/size"
	echo 1 >"$at/nullb$number/memory_backed"
	echo 2 >"$at/nullb$number/irqmode"
done
disks=(nullb0 nullb1)
disks 10000
mdadm --create /dev/md0 --run --quiet --level=0 --chunk=512 --raid-devices=2 /dev/nullb0 /dev/nullb1
alloc_full /dev/md0 /mnt/md0
alloc_punch /dev/md0 'if (at % 8192 == 4000) { free(300); at += 8192 } else at += (12192 - at % 8192) % 8192'
sync
mdadm --stop --quiet /dev/md0
disks 80000000
mdadm --assemble --quiet /dev/md0 /dev/nullb0 /dev/nullb1
mount -o noatime,no_prefetch_block_bitmaps /dev/md0 /mnt/md0
echo 0 >/sys/fs/ext4/md0/mb_prefetch
alloc_options=(--record /out/cold.rtrace)
# Long enough for many reads on a slow machine too.
interval=2 alloc_watched cold /mnt/md0 work
raidtrace alloc --replay /out/cold.rtrace --batch >/out/cold.txt
unmount /mnt/md0
