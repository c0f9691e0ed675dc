#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Waits in md, the block layer and ext4 that the other scenarios do not make: one file for each, whose name is that of the wait.
# All are in one run of raidtrace, waits.out. waits.graph has the kernel's time in the waiting functions, and injected those that
# the script has set: "NAME SHORTEST-MS LONGEST-MS".
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

mkdir -p "$out"
modprobe -a raid456 dm_delay
modprobe quota_v2 2>/dev/null || true # or built in: mount fails without it
slow_disks 9 100M
# A member with write-behind, a bitmap with many small chunks; an error in the first member's data.
create_array md120 --level=1 --raid-devices=2 --assume-clean --bitmap=internal --bitmap-chunk=64K --write-behind=256 \
	/dev/mapper/slow0 --write-mostly /dev/mapper/slow1
create_array md121 --level=5 --raid-devices=3 --chunk=64 --assume-clean --bitmap=none /dev/mapper/slow{2,3,4}
create_array md122 --level=5 --raid-devices=3 --chunk=64 --assume-clean --write-journal=/dev/mapper/slow8 /dev/mapper/slow{5,6,7}
# Disks with one request at a time, of 60 ms.
for i in 0 1; do null_disk $i size=128 memory_backed=1 irqmode=2 completion_nsec=60000000 hw_queue_depth=1 submit_queues=1; done
create_array md123 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/nullb{0,1}
for md in md120 md121 md122 md123; do echo 600 >"/sys/block/$md/md/safe_mode_delay"; done
filesystem md120 -b 4096 -O quota -J size=4
for md in md121 md122 md123; do filesystem $md -b 4096 -J size=4; done
for file in md120/{md_bitmap,write_behind,blocked_member,array_suspended,read_repair,other} md121/{overlap,other} \
	md122/journal_device md123/{queue_full,direct_drain,mixed_io,io_cost}; do
	dd if=/dev/zero of="/mnt/$file" bs=256k count=4 oflag=direct status=none
done
mkdir -m 777 /mnt/md120/quota{1,2}
mkdir /mnt/md121/journal_buffer
sync
# md clears the bits of the bitmap some seconds after the writes.
sleep 20

# now: in microseconds
now() { echo "${EPOCHREALTIME/./}"; }
# in_stack PID FUNCTION
in_stack() { grep -q "$2" "/proc/$1/stack"; }
# held NAME FUNCTION BEGIN END: runs BEGIN, and then a direct write to the file NAME on md120, which waits in FUNCTION for 300 ms,
# until END.
held() {
	local begun waits task
	eval "$3"
	begun=$(now)
	dd if=/dev/zero of="/mnt/md120/$1" bs=4k count=1 oflag=direct conv=notrunc status=none &
	task=$!
	wait_until 60 in_stack $task "$2"
	waits=$(now)
	sleep 0.3
	local until=$(($(now) - waits))
	eval "$4"
	echo "$1 $((until / 1000)) $((($(now) - begun) / 1000))" >>"$out/injected"
	wait $task
}
# is_printed PATTERN: raidtrace has printed it, or has ended.
is_printed() { grep -q "$1" "$out/waits.out" || has_ended "$pid"; }
write() { dd if=/dev/zero of="/mnt/$1" bs=4k count=1 seek="${2:-0}" conv=notrunc status=none "${@:3}"; }
read_direct() { dd if="/mnt/$1" of=/dev/null bs="${3:-4k}" count=1 skip="${2:-0}" iflag=direct status=none; }

begin_slow waits -t 20ms md120 md121 md122 md123
graph __bitmap_unplug bitmap_unplug md_bitmap_unplug wait_for_serialization md_wait_for_blocked_rdev \
	wait_read_barrier raid1_read_request raid5_make_request inode_dio_wait kiocb_write_and_wait filemap_write_and_wait_range \
	sync_inodes_sb do_get_write_access blk_mq_get_tag ioc_rqos_throttle dquot_acquire dqget

# RAID 1
delay slow1 loop1 60 60 0
write md120/md_bitmap 100 oflag=direct
xfs_io -d -c 'pwrite -q 512k 4k' -c 'pwrite -q 512k 4k' /mnt/md120/write_behind
member=/sys/block/md120/md/dev-dm-1/state
held blocked_member md_wait_for_blocked_rdev "echo blocked >$member" "echo -blocked >$member"
md=/sys/block/md120/md
held array_suspended md_handle_request "echo 1000000 >$md/suspend_hi" "echo 0 >$md/suspend_hi"
# The error of a read is repaired while other reads wait.
block=$(debugfs -R 'bmap /read_repair 0' /dev/md120 2>/dev/null)
bad=$((block * 8 + $(<"$md/dev-dm-0/offset")))
size=$(blockdev --getsz /dev/loop0)
dmsetup suspend slow0
{
	echo "0 $bad delay /dev/loop0 0 0"
	echo "$bad 8 error"
	echo "$((bad + 8)) $((size - bad - 8)) delay /dev/loop0 $((bad + 8)) 0"
} | dmsetup reload slow0
dmsetup resume slow0
for i in 1 2 3 4; do read_direct md120/read_repair "$i"; done
read_direct md120/read_repair 0 &
reader=$!
while kill -0 "$reader" 2>/dev/null; do read_direct md120/other; done
wait "$reader"
delay slow0 loop0 0 0 0
delay slow1 loop1 0 0 0

# Two tasks of a user whose quota is not in memory.
cd /
unmount /mnt/md120
mount -o noatime,noinit_itable /dev/md120 /mnt/md120
ls /mnt/md120/quota1 /mnt/md120/quota2
delay slow0 loop0 100 0 0
setpriv --reuid 5000 --clear-groups touch /mnt/md120/quota1/quota &
setpriv --reuid 5000 --clear-groups touch /mnt/md120/quota2/quota
wait $!
delay slow0 loop0 0 0 0

# RAID 5
delay slow3 loop3 60 60 0
write md121/overlap 0 oflag=direct &
write md121/overlap 0 oflag=direct
wait $!
dd if=/dev/zero of=/mnt/md121/writeback bs=256k count=2 status=none
sync -f /mnt/md121/writeback
write md121/other 20 conv=fsync &
for ((i = 0; i < 60; i++)); do mkdir "/mnt/md121/journal_buffer/$i"; done
wait $!
# open() waits, too.
exec 7>/mnt/md121/frozen
fsfreeze --freeze /mnt/md121
{ printf x >&7; } &
frozen=$!
wait_until 60 in_stack $frozen percpu_rwsem_wait
wait_until 900 is_printed '"frozen"'
fsfreeze --unfreeze /mnt/md121
wait $frozen
exec 7>&-
delay slow3 loop3 0 0 0

delay slow8 loop8 0 60 0
for i in 1 2 3; do write md122/journal_device $i oflag=direct; done
delay slow8 loop8 0 0 0

# Disks with requests
tasks=()
for i in 0 1 2 3 4 5 6 7; do
	read_direct md123/queue_full $((i * 8)) &
	tasks+=($!)
done
wait "${tasks[@]}"
write md123/mixed_io 1
read_direct md123/mixed_io 1
# Asynchronous reads, which do not hold the inode's lock.
fio --name=drain --filename=/mnt/md123/direct_drain --filesize=256k --direct=1 --rw=randread --bs=4k --iodepth=4 --number_ios=40 \
	--ioengine=libaio --output=/dev/null &
reader=$!
while kill -0 "$reader" 2>/dev/null; do xfs_io -c 'fpunch 512k 64k' /mnt/md123/direct_drain; done
wait "$reader"
echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/back
echo 10 >/sys/fs/cgroup/back/io.weight
compgen -G '/sys/fs/cgroup/back/io.*' >"$out/cgroup"
for i in 0 1; do
	dev=$(<"/sys/block/nullb$i/dev")
	echo "$dev ctrl=user model=linear rbps=4000000 rseqiops=10 rrandiops=10 wbps=4000000 wseqiops=4 wrandiops=4" >/sys/fs/cgroup/io.cost.model
	echo "$dev enable=1 ctrl=user rpct=95.00 rlat=100000 wpct=95.00 wlat=100000 min=100.00 max=100.00" >/sys/fs/cgroup/io.cost.qos
done
commands=()
for ((i = 0; i < 8; i++)); do commands+=(-c "pwrite -q $((i * 64))k 4k"); done
in_cgroup /sys/fs/cgroup/back xfs_io -d "${commands[@]}" /mnt/md123/io_cost
for i in 0 1; do echo "$(<"/sys/block/nullb$i/dev") enable=0" >/sys/fs/cgroup/io.cost.qos; done
wait_intervals # paths are looked up after an operation has ended
end_slow
