#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Slow operations whose causes are md's stripe cache, a resync, a full journal, dirty
# throttling and a fast commit. One array at a time; each has its own run of raidtrace.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

modprobe dm_delay
slow_disks 3 1G

# Single blocks of a RAID 5 with slow reads: md reads the old data and the old parity first.
create_array md120 --level=5 --raid-devices=3 --chunk=64 --assume-clean --bitmap=none /dev/mapper/slow{0,1,2}
mkfs.ext4 -q -J size=16 /dev/md120
mkdir -p /mnt/md120
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
dd if=/dev/zero of=/mnt/md120/file bs=1M count=16 oflag=direct status=none
sync
# An empty stripe cache.
echo 17 >/sys/block/md120/md/stripe_cache_size
echo 256 >/sys/block/md120/md/stripe_cache_size
for i in 0 1 2; do delay "slow$i" "loop$i" 60 0 0; done
graph file_write_and_wait_range
begin_slow pre_reads -t 5ms md120
for i in 1 2 3 4 5; do dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek=$((i * 300)) conv=notrunc,fdatasync status=none; done
for i in 1 2 3; do dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 seek=$((i * 301)) oflag=direct conv=notrunc status=none; done
end_slow

# The smallest stripe cache with slow writes: direct writes wait for stripes.
for i in 0 1 2; do delay "slow$i" "loop$i" 0 0 0; done
sync
echo 17 >/sys/block/md120/md/stripe_cache_size
for i in 0 1 2; do delay "slow$i" "loop$i" 0 40 0; done
graph raid5_get_active_stripe
begin_slow stripes -t 5ms md120
dd if=/dev/zero of=/mnt/md120/file bs=1M count=2 oflag=direct conv=notrunc status=none
end_slow

# A dirty limit of 8 MiB with slow writes: a buffered writer is throttled, and another one waits for the inode.
for i in 0 1 2; do delay "slow$i" "loop$i" 0 20 0; done
echo 256 >/sys/block/md120/md/stripe_cache_size
echo $((2 << 20)) >/proc/sys/vm/dirty_background_bytes
echo $((8 << 20)) >/proc/sys/vm/dirty_bytes
graph balance_dirty_pages rwsem_down_write_slowpath
begin_slow throttled -t 5ms md120
dd if=/dev/zero of=/mnt/md120/file bs=1M count=40 conv=notrunc status=none &
writer=$!
while kill -0 "$writer" 2>/dev/null; do
	dd if=/dev/zero of=/mnt/md120/file bs=4k count=1 conv=notrunc status=none
	sleep 0.2    # the throttled writer gets the lock again
done
wait "$writer"
end_slow
echo 10 >/proc/sys/vm/dirty_background_ratio
echo 20 >/proc/sys/vm/dirty_ratio
for i in 0 1 2; do delay "slow$i" "loop$i" 0 0 0; done
sync
umount /mnt/md120

# A journal of 4 MiB with slow checkpoints: tasks wait for room. Each directory has a block of its own.
mkfs.ext4 -q -F -J size=4 /dev/md120
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
sync
for i in 0 1 2; do delay "slow$i" "loop$i" 0 20 0; done
graph __jbd2_log_wait_for_space
begin_slow full -t 5ms md120
mkdir /mnt/md120/d
(cd /mnt/md120/d && eval "mkdir {1..3000}")
end_slow
for i in 0 1 2; do delay "slow$i" "loop$i" 0 0 0; done
umount /mnt/md120

# A fast commit.
mkfs.ext4 -q -F -O fast_commit -J size=16 /dev/md120
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
echo x >/mnt/md120/fast
sync
for i in 0 1 2; do delay "slow$i" "loop$i" 0 10 50; done
graph ext4_fc_commit
begin_slow fast -t 5ms md120
for i in 1 2 3; do
	dd if=/dev/zero of=/mnt/md120/fast bs=512 count=1 seek="$i" conv=notrunc,fsync status=none
done
end_slow
for i in 0 1 2; do delay "slow$i" "loop$i" 0 0 0; done
umount /mnt/md120
mdadm --stop /dev/md120

# A resync of a RAID 1, whose reads are slow, of the area that a task writes: RAID 1 has a barrier for each 64 MiB.
mdadm --zero-superblock /dev/mapper/slow{0,1}
mdadm --create /dev/md121 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow{0,1} </dev/null
mkfs.ext4 -q -F -J size=16 /dev/md121
mkdir -p /mnt/md121
mount -o noatime,noinit_itable /dev/md121 /mnt/md121
dd if=/dev/zero of=/mnt/md121/file bs=1M count=60 oflag=direct status=none
block=$(debugfs -R 'bmap /file 0' /dev/md121 2>/dev/null)
echo $((block * 8 / 131072 * 131072)) >/sys/block/md121/md/sync_min
for i in 0 1; do delay "slow$i" "loop$i" 80 0 0; done
graph wait_barrier _wait_barrier
begin_slow resync -t 5ms md121
echo 400000 >/sys/block/md121/md/sync_speed_max
echo 400000 >/sys/block/md121/md/sync_speed_min
echo repair >/sys/block/md121/md/sync_action
wait_until 120 is_syncing md121
for ((i = 0; i < 60; i++)); do dd if=/dev/zero of=/mnt/md121/file bs=64k count=4 seek=$((i * 4)) oflag=direct conv=notrunc status=none; done
cat /proc/mdstat >"$out/resync.mdstat"
end_slow
echo idle >/sys/block/md121/md/sync_action
for i in 0 1; do delay "slow$i" "loop$i" 0 0 0; done
umount /mnt/md121
mdadm --stop /dev/md121

# ext3 with data=ordered on RAID 1+0, beside a task that writes a large file: its data is part of each commit.
slow_disks 1 1G
mdadm --zero-superblock /dev/mapper/slow{0,1,2} 2>/dev/null || true
mdadm --create /dev/md122 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow{0,1} </dev/null
mdadm --create /dev/md123 --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow{2,3} </dev/null
mdadm --create /dev/md124 --run --quiet --level=0 --chunk=64 --raid-devices=2 /dev/md122 /dev/md123 </dev/null
mkfs.ext3 -q -F -J size=16 /dev/md124
mkdir -p /mnt/md124
mount -t ext4 -o noatime,data=ordered,nodelalloc /dev/md124 /mnt/md124
echo x >/mnt/md124/small
sync
for i in 0 1 2 3; do delay "slow$i" "loop$i" 0 5 0; done
graph ext4_journal_finish_inode_data_buffers jbd2_log_wait_commit
begin_slow nested -t 20ms md124
dd if=/dev/zero of=/mnt/md124/large bs=256k count=240 status=none &
writer=$!
wait_until 120 is_larger /mnt/md124/large $((16 << 20))
for i in 1 2 3; do dd if=/dev/zero of=/mnt/md124/small bs=4k count=1 seek="$i" conv=notrunc,fsync status=none; done
wait "$writer"
end_slow
for i in 0 1 2 3; do delay "slow$i" "loop$i" 0 0 0; done
umount /mnt/md124
