#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Slow operations on a RAID 1 of three members, one of which is slow: dm-delay adds
# 30 ms to its writes and 120 ms to its flushes. Each case has its own file, whose name
# is the case. The kernel's function graph tracer measures the same waits.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

# synced FILE: writes a block and calls fsync. How long dd took goes to $out/dd.
synced() {
	local before=${EPOCHREALTIME/./}
	dd if=/dev/zero of="$1" bs=4k count=1 seek="${2:-0}" conv=notrunc,fsync status=none
	echo "${1##*/} $((${EPOCHREALTIME/./} - before))" >>"$out/dd"
}

modprobe dm_delay
add_disks 3 1G
for i in 0 1 2; do delayed "slow$i" "loop$i" 0 0 0 | dmsetup create "slow$i"; done
dmsetup mknodes
create_array md120 --level=1 --raid-devices=3 --assume-clean --bitmap=none /dev/mapper/slow{0,1,2}
mkfs.ext4 -q -J size=16 /dev/md120
mkdir -p /mnt/md120
mount -o noatime,noinit_itable,dioread_lock /dev/md120 /mnt/md120
cd /mnt/md120
dd if=/dev/zero of=quiet bs=4k count=64 status=none
dd if=/dev/zero of=locked bs=4k count=1 status=none
dd if=/dev/zero of=fragmented bs=4k count=1 status=none
for ((i = 1; i < 700; i++)); do dd if=/dev/zero of=fragmented bs=4k count=1 seek=$((i * 2)) conv=notrunc status=none; done
# Blocks in between, so that no two extents join.
sync
for ((i = 0; i < 700; i += 50)); do dd if=/dev/zero of=between bs=4k count=1 seek=$((i * 3)) conv=notrunc,fsync status=none; done
dd if=/dev/zero of=direct bs=64k count=64 oflag=direct status=none
sync
delay slow1 loop1 0 30 120
echo $((8 << 20)) >/proc/sys/vm/dirty_background_bytes
echo 50 >/proc/sys/vm/dirty_writeback_centisecs

graph md_write_start jbd2_log_wait_commit ext4_journal_submit_inode_data_buffers ext4_journal_finish_inode_data_buffers \
	jbd2_journal_wait_updates rwsem_down_read_slowpath

begin_slow slow --threshold 5ms md120

# The array is idle: md writes its superblocks first.
for i in 1 2 3; do
	wait_until 120 has_state md120 clean
	wait_idle 1
	synced quiet "$i"
done

# A second writer, whose data belongs to the same transactions.
dd if=/dev/zero of=big bs=256k count=400 status=none &
writer=$!
wait_until 120 is_larger big $((10 << 20))
for i in 1 2 3 4; do
	synced ordered "$i"
	sleep 0.2    # more data for the next transaction
done
wait "$writer"
sync

# Direct reads beside a direct writer that extends the file.
beside direct 0 dd if=/dev/zero of=direct bs=64k count=60 seek=64 oflag=direct conv=notrunc status=none

# A long handle: truncation with a cold cache and slow reads. The fsync needs no reads.
cd /
unmount /mnt/md120
mount -o noatime,noinit_itable,dioread_lock /dev/md120 /mnt/md120
cd /mnt/md120
cat locked >/dev/null
wait_idle 1
for i in 0 1 2; do delay "slow$i" "loop$i" 1000 0 0; done
rm fragmented &
remover=$!
# rm truncates the file once it has no name, and reads its extents with the handle open.
is_truncating() {
	grep -q ext4_truncate "/proc/$remover/stack"
}
wait_until 120 is_truncating
synced locked
wait "$remover"
for i in 0 1 2; do delay "slow$i" "loop$i" 0 0 0; done
wait_intervals    # a path is looked up after an operation has ended
cd /
end_slow
unmount /mnt/md120
