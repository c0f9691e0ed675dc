#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Asynchronous direct IO of fio on four arrays, on each of which one member takes 20 ms for a request, and the others 5 ms.
# On a fifth, whose drivers take 2 MiB a second, reads wait in the members' queues, and reads of a cgroup with a limit of four
# a second wait for it. Leaves fio's figures of each file as JOB.json, async.out of raidtrace slow, and async.trace: calls of read_iter, write_iter and
# ki_complete with the address of the kiocb.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

modprobe -a raid456 xfs
mkdir -p "$out"
number=0

# slow_array NAME LEVEL MEMBERS MKFS...: the last member is the slow one.
slow_array() {
	local i first=$number members=()
	for ((i = 1; i <= $3; i++)); do
		null_disk "$number" size=256 memory_backed=1 irqmode=2 completion_nsec=$((i == $3 ? 20000000 : 5000000))
		members+=("/dev/nullb$number")
		number=$((number + 1))
	done
	local options=(--level="$2" --raid-devices="$3")
	[ "$2" = 0 ] || options+=(--assume-clean --bitmap=none)
	create_array "$1" "${options[@]}" "${members[@]}"
	"${@:4}" "/dev/$1"
	mkdir -p "/mnt/$1"
	mount -o noatime "/dev/$1" "/mnt/$1"
	echo "$1 nullb$((first + $3 - 1))" >>"$out/slow_members"
}

# job NAME ARRAY DEPTH OPTIONS...: random reads and writes of a file of its own.
job() {
	fio --name="$1" --filename="/mnt/$2/$1" --filesize=4M --direct=1 --rw=randrw --bs=4k --iodepth="$3" \
		--number_ios=$(($3 * 4 + 30)) --output-format=json --output="$out/$1.json" "${@:4}"
}

# limited_drivers NAME: an ext4 on RAID 0 of two members that take 5 ms for a request, but refuse more than 2 MiB a second.
limited_drivers() {
	local i members=()
	for i in 1 2; do
		null_disk "$number" size=256 memory_backed=1 irqmode=2 completion_nsec=5000000 mbps=2
		# null_blk never takes a request of more than a 50th of a second
		echo 32 >"/sys/block/nullb$number/queue/max_sectors_kb"
		members+=("/dev/nullb$number")
		number=$((number + 1))
	done
	create_array "$1" --level=0 --raid-devices=2 "${members[@]}"
	mkfs.ext4 -q "/dev/$1"
	mkdir -p "/mnt/$1"
	mount -o noatime "/dev/$1" "/mnt/$1"
}

slow_array md120 1 2 mkfs.ext4 -q
slow_array md121 0 2 mkfs.xfs -q
slow_array md122 5 3 mkfs.ext4 -q
slow_array md123 10 4 mkfs.xfs -q
limited_drivers md124
mkdir -p /sys/fs/cgroup/limited
echo +io >/sys/fs/cgroup/cgroup.subtree_control
echo "$(<"/sys/block/md124/dev") riops=4" >/sys/fs/cgroup/limited/io.max
for name in queue held; do dd if=/dev/zero of="/mnt/md124/$name" bs=1M count=4 oflag=direct status=none; done
for file in /mnt/md12{0,1,2,3}; do
	for engine in libaio io_uring; do
		for depth in 1 8 64; do dd if=/dev/zero of="$file/${file#/mnt/}-$engine-$depth" bs=1M count=4 oflag=direct status=none; done
	done
done
for name in sqpoll worker killed; do dd if=/dev/zero of="/mnt/md120/$name" bs=1M count=4 oflag=direct status=none; done
sync
for function in {ext4,xfs}_file_{read,write}_iter; do echo "p:async/$function $function iocb=\$arg1"; done >$tracing/kprobe_events
for function in aio_complete_rw io_complete_rw; do echo "p:async/$function $function iocb=\$arg1"; done >>$tracing/kprobe_events
echo 16384 >$tracing/buffer_size_kb
echo 1 >$tracing/events/async/enable
echo 1 >$tracing/tracing_on
begin_slow async -t 1ms md120 md121 md122 md123 md124
for array in md120 md121 md122 md123; do
	for engine in libaio io_uring; do
		for depth in 1 8 64; do job "$array-$engine-$depth" "$array" "$depth" --ioengine="$engine"; done
	done
done
job sqpoll md120 8 --ioengine=io_uring --sqthread_poll=1 --registerfiles=1 --fixedbufs=1
job worker md120 8 --ioengine=io_uring --force_async=1
job queue md124 64 --ioengine=libaio --rw=randread
in_cgroup /sys/fs/cgroup/limited fio --name=held --filename=/mnt/md124/held --filesize=4M --direct=1 --rw=randread --bs=4k --iodepth=4 \
	--ioengine=libaio --number_ios=16 --output-format=json --output="$out/held.json"
# IO in flight of a process that is killed
fio --name=killed --filename=/mnt/md120/killed --filesize=4M --direct=1 --rw=randwrite --bs=4k --iodepth=64 --ioengine=io_uring \
	--rate_iops=300 --time_based --runtime=60 --output=/dev/null &
killed=$!
sleep 3
pkill -KILL -P "$killed" || true
kill -KILL "$killed"
wait "$killed" || true
sleep 2
echo 0 >$tracing/events/async/enable
cat $tracing/trace >"$out/async.trace"
end_slow
