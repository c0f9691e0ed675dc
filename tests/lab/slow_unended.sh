#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Operations that do not end for some seconds: a member of a RAID 1 keeps its writes. Leaves unended.out of raidtrace slow, the
# time at which each operation began ("NAME EPOCHREALTIME" lines in begun), and the kernel's stack of each in NAME.stack; late.out
# has one that began before raidtrace.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

mkdir -p "$out"
slow_disks 2 256M
create_array md120 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow0 /dev/mapper/slow1
filesystem md120 -J size=4
for name in direct aio log mode; do dd if=/dev/zero of="/mnt/md120/$name" bs=1M count=1 oflag=direct status=none; done
# md writes no superblock before the next write.
echo 6000 >/sys/block/md120/md/safe_mode_delay
dd if=/dev/zero of=/mnt/md120/log bs=4k count=1 conv=notrunc,fsync status=none
begin_slow unended -t 100ms md120
delay slow1 loop1 0 60000 60000

# start NAME COMMAND...
start() {
	echo "$1 $EPOCHREALTIME" >>"$out/begun"
	"${@:2}" &
	echo "$1 $!" >>/run/started
}
# release: after some intervals, keeps the tasks' stacks and lets them go, long before the end of an interval.
release() {
	local started task
	sleep 5
	wait_intervals
	while read -r started task; do cat "/proc/$task/stack" >"$out/$started.stack"; done </run/started
	delay slow1 loop1 0 0 0
	while read -r _ task; do wait "$task"; done </run/started
	rm /run/started
}
start direct dd if=/dev/zero of=/mnt/md120/direct bs=4k count=1 oflag=direct conv=notrunc status=none
sleep 2
start log dd if=/dev/zero of=/mnt/md120/log bs=4k count=1 conv=notrunc,fsync status=none
start aio fio --name=aio --filename=/mnt/md120/aio --filesize=1M --direct=1 --rw=randwrite --bs=4k --iodepth=4 \
	--number_ios=4 --ioengine=libaio --output=/dev/null
release
delay slow1 loop1 0 60000 60000
# Calls without a descriptor, and a page fault, wait for the block of inodes that is being committed.
start meta bash -c 'chmod 640 /mnt/md120/mode && exec sync /mnt/md120/mode'
sleep 1
start path chmod 600 /mnt/md120/mode
start fault xfs_io -c 'mmap 0 4k' -c 'mwrite 0 4k' /mnt/md120/mode
release
sleep 2
end_slow

# The write begins before raidtrace.
delay slow1 loop1 0 60000 60000
dd if=/dev/zero of=/mnt/md120/direct bs=4k count=1 oflag=direct conv=notrunc status=none &
task=$!
sleep 1
begin_slow late -t 100ms md120
sleep 6
delay slow1 loop1 0 0 0
wait "$task"
end_slow
