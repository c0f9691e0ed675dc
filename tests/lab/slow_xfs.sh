#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Slow operations on XFS with known causes, on a RAID 1 of two members. Each case leaves CASE.out (raidtrace) and CASE.graph
# (ftrace's function graph).
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

# delays READ WRITE FLUSH [FLUSH-OF-SECOND]: delays of both members.
delays() {
	delay slow0 loop0 "$1" "$2" "$3"
	delay slow1 loop1 "$1" "$2" "${4:-$3}"
}

# create DIRECTORY FROM TO: empty files.
create() {
	local i
	for ((i = $2; i < $3; i++)); do : >"$1/a-file-with-a-long-name-that-fills-the-directory-$i"; done
}

modprobe -a dm_delay xfs
slow_disks 3 600M
create_array md120 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow{0,1}
mkdir -p /mnt/md120
# mkfs.xfs makes a log of less than 64 MiB only for tests: these variables are those of xfstests.
TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q -f -l size=5m -d agcount=2 -m reflink=0,rmapbt=0 /dev/md120

# An ext4 is traced, and then an XFS is mounted.
array md121 64M 2 --level=1
filesystem md121
begin_slow later -t 1ms
mount -o noatime /dev/md120 /mnt/md120
# The reload takes seconds, on a busy machine tens of seconds.
are_shown() {
	dd if=/dev/zero of=/mnt/md120/later bs=4k count=1 conv=fsync status=none
	dd if=/dev/zero of=/mnt/md121/later bs=4k count=1 conv=fsync status=none
	grep -q /mnt/md120/later /out/later.out && grep -q /mnt/md121/later /out/later.out
}
wait_until 600 are_shown
end_slow
unmount /mnt/md121

cd /mnt/md120
dd if=/dev/zero of=quiet bs=4k count=1 status=none
truncate -s 4M unaligned
dd if=/dev/zero of=mixed bs=1M count=65 status=none
mkdir third
sync

# An idle array, and a member whose flushes are slow.
echo 0.2 >/sys/block/md120/md/safe_mode_delay
delays 0 30 0 120
begin_slow parts -t 5ms md120
graph md_write_start xlog_cil_force_seq xlog_wait_on_iclog
for i in 1 2 3; do
	wait_until 120 has_state md120 clean
	wait_idle 1
	dd if=/dev/zero of=quiet bs=4k count=1 seek="$i" conv=notrunc,fsync status=none
done
end_part idle
echo 60 >/sys/block/md120/md/safe_mode_delay

# Readers that wait for a writer of the same file.
delays 0 40 0
graph rwsem_down_read_slowpath
beside unaligned 200 each 20 512 1 8 unaligned
beside mixed 16639 again 6 dd if=/dev/zero of=mixed bs=16M count=4 conv=notrunc status=none
sync
end_part lock

# Two unaligned writers.
graph rwsem_down_read_slowpath rwsem_down_write_slowpath inode_dio_wait
each 20 512 1 8 unaligned &
each 20 512 1 16 unaligned
wait $!
end_part writers

mkdir dir{0..31}
for task in {0..31}; do create "dir$task" 0 60; done
end_part directories    # the creates are of no case

# Much metadata in memory when an fsync has to write it to the log.
sync
delays 0 20 0 30
graph xlog_cil_force_seq xlog_wait_on_iclog
for i in 1 2 3; do
	create third $((i * 500)) $((i * 500 + 500))
	dd if=/dev/zero of=quiet bs=4k count=1 seek="$((i + 4))" conv=notrunc,fsync status=none
done
end_part push

# A large buffered writer.
graph file_write_and_wait_range xlog_cil_force_seq xlog_wait_on_iclog
dd if=/dev/zero of=big bs=1M count=100 conv=fsync status=none &
for i in 1 2 3 4; do
	dd if=/dev/zero of=quiet bs=4k count=1 seek="$((i + 8))" conv=notrunc,fsync status=none
	sleep 0.2    # more data to write back
done
wait $!
end_part buffered
end_slow

# cold: empties the cache, except for the blocks of the directories, and makes reads slow.
cold() {
	local task
	cd /
	unmount /mnt/md120
	delays 0 0 0
	mount -o noatime /dev/md120 /mnt/md120
	cd /mnt/md120
	for task in {0..31}; do
		ls "dir$task" >/dev/null
		[ ! -e "dir$task/none" ]
	done
	delays 200 0 0
}

# create_at_once NUMBER DIRECTORY...: the file of that number in each, by a task each. All tasks exist before the first one begins.
create_at_once() {
	local number=$1 dir tasks=()
	shift
	rm -f /run/gate
	mkfifo /run/gate
	: >/run/ready
	for dir; do
		{
			echo "$dir" >>/run/ready
			: </run/gate
			create "$dir" "$number" $((number + 1))
		} &
		tasks+=($!)
	done
	wait_until 120 are_ready $#
	# Opens the gate, also for a task that has not reached it.
	exec 8>/run/gate
	wait "${tasks[@]}"
	exec 8>&-
}
are_ready() {
	[ "$(wc -l </run/ready)" -ge "$1" ]
}

# A cold cache, and slow reads.
cold
graph __xfs_buf_submit xfs_buf_lock rwsem_down_read_slowpath
begin_slow cold -t 5ms md120
create_at_once 4000 dir{0..3} &
creator=$!
beside unaligned 100 dd if=/dev/zero of=unaligned bs=4k count=1 seek=700 oflag=direct conv=notrunc status=none
wait "$creator"
end_slow

# A small log: each transaction reserves room for all that it may change, and has it while it waits for reads.
cold
graph xlog_grant_head_wait
begin_slow space -t 5ms md120
create_at_once 4001 dir{0..31}
end_slow
delays 0 0 0
cd /
unmount /mnt/md120

# A log on another device, whose flushes take 30 ms, and a member whose flushes take 60 ms.
mkfs.xfs -q -f -l logdev=/dev/mapper/slow2,size=64m /dev/md120
mount -o noatime,logdev=/dev/mapper/slow2 /dev/md120 /mnt/md120
echo x >/mnt/md120/file
sync
delays 0 0 0 60
delay slow2 loop2 0 0 30
graph xlog_cil_force_seq xlog_wait_on_iclog
begin_slow external -t 5ms md120
for i in 1 2 3; do
	dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek="$i" conv=notrunc,fsync status=none
done
end_slow
unmount /mnt/md120
