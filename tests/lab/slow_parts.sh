#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Two RAID 1 on the partitions of two disks that take 20 ms for a request. Leaves slow.out of raidtrace slow during direct IO
# and fsyncs on the first array only, and limit.out of the same in a cgroup with an I/O limit.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

mkdir -p "$out"
for number in 0 1; do
	null_disk "$number" size=256 memory_backed=1 irqmode=2 completion_nsec=20000000
	two_partitions "/dev/nullb$number" 2048 200704 204800 200704
	blockdev --rereadpt "/dev/nullb$number"
done
create_array md120 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/nullb0p1 /dev/nullb1p1
create_array md121 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/nullb0p2 /dev/nullb1p2
for md in md120 md121; do filesystem "$md" -J size=4; done
begin_slow slow -t 5ms md120 md121
for i in 0 1 2 3 4 5; do
	dd if=/dev/zero of=/mnt/md120/direct bs=16k count=1 seek="$i" oflag=direct conv=notrunc status=none
	dd if=/dev/zero of=/mnt/md120/log bs=4k count=1 seek="$i" conv=notrunc,fsync status=none
	dd if=/mnt/md120/direct of=/dev/null bs=4k count=2 iflag=direct status=none
done
end_slow

echo +io >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/limited
echo '9:120 wiops=4' >/sys/fs/cgroup/limited/io.max
begin_slow limit -t 100ms md120
commands=()
for ((i = 0; i < 20; i++)); do commands+=(-c "pwrite -q $((i * 64))k 4k"); done
in_cgroup /sys/fs/cgroup/limited xfs_io -d "${commands[@]}" /mnt/md120/direct
end_slow
