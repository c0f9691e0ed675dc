#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Direct readers that wait for what others do with the same file, and fsync with other
# kinds of journal. A RAID 1 of two members, of which the second one has the slow flushes.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

modprobe dm_delay
slow_disks 3 1G
create_array md120 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow{0,1}
echo 60 >/sys/block/md120/md/safe_mode_delay
mkfs.ext4 -q -J size=16 /dev/md120
mkdir -p /mnt/md120 /sys/fs/cgroup/limited
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
cd /mnt/md120
truncate -s 1M unaligned
truncate -s 1M border
for ((i = 0; i < 20; i++)); do dd if=/dev/zero of=border bs=4k count=1 seek=$((i * 2)) conv=notrunc status=none; done
dd if=/dev/zero of=mixed bs=1M count=65 status=none
dd if=/dev/zero of=fallocated bs=4k count=1 status=none
dd if=/dev/zero of=limited bs=4k count=1 status=none
sync
echo '+io +memory' >/sys/fs/cgroup/cgroup.subtree_control
echo "$(<"/sys/block/md120/dev") wbps=2097152" >/sys/fs/cgroup/limited/io.max
for i in 0 1; do delay "slow$i" "loop$i" 0 40 0; done
graph rwsem_down_read_slowpath
begin_slow files -t 5ms md120
# Often enough that some reads meet a write.
beside unaligned 200 each 20 512 1 8 unaligned
beside border 200 each 20 8k 0 1 border
beside mixed 16639 again 6 dd if=/dev/zero of=mixed bs=16M count=4 conv=notrunc status=none
# A buffered write has to be on disk before the next case's files are read.
sync
beside limited 0 in_cgroup /sys/fs/cgroup/limited dd if=/dev/zero of=limited bs=1M count=3 seek=1 oflag=direct conv=notrunc status=none
# A cold cache and slow reads: fallocate waits for block bitmaps.
cd /
unmount /mnt/md120
mount -o noatime,noinit_itable,no_prefetch_block_bitmaps /dev/md120 /mnt/md120
cd /mnt/md120
ls -l >/dev/null
wait_idle 1
for i in 0 1; do delay "slow$i" "loop$i" 300 0 0; done
# fallocate has the lock while it reads the bitmap of one group after the other.
beside fallocated 0 fallocate -l 600M fallocated
for i in 0 1; do delay "slow$i" "loop$i" 0 0 0; done
end_slow
cd /
unmount /mnt/md120

# An external journal, whose flushes take 30 ms, and a filesystem, one of whose members takes 60 ms.
mke2fs -q -F -O journal_dev /dev/mapper/slow2
mkfs.ext4 -q -F -J device=/dev/mapper/slow2 /dev/md120
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
echo x >/mnt/md120/file
sync
delay slow1 loop1 0 0 60
delay slow2 loop2 0 0 30
graph jbd2_log_wait_commit
begin_slow external -t 5ms md120
for i in 1 2 3; do
	dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek="$i" conv=notrunc,fsync status=none
done
end_slow
unmount /mnt/md120

# fsync in the other modes: data in the journal, data without an order, and no journal.
for mode in journal writeback none; do
	delay slow1 loop1 0 0 0
	if [ $mode = none ]; then options=noatime features=^has_journal; else options=noatime,data=$mode features=has_journal; fi
	mkfs.ext4 -q -F -O $features /dev/md120
	mount -o "$options,noinit_itable" /dev/md120 /mnt/md120
	echo x >/mnt/md120/file
	sync
	delay slow1 loop1 0 0 60
	graph jbd2_log_wait_commit submit_bio_wait
	begin_slow "data_$mode" -t 5ms md120
	for i in 1 2 3; do
		dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek="$i" conv=notrunc,fsync status=none
	done
	end_slow
	unmount /mnt/md120
done
