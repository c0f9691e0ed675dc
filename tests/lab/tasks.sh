#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Names of the tasks where the task that submits a bio is not the one that asked
# for it, or serves two arrays in turn. Leaves CASE.out, and in CASE.did what
# the case needs to be judged.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 600M 2 --level=1 --bitmap=none
array md121 600M 2 --level=1 --bitmap=none
for on in md120 md121; do
	filesystem "$on" -J size=8
	dd if=/dev/zero of="/mnt/$on/direct" bs=1M count=10 conv=fsync status=none
done
sync
wait_idle 2

# Writeback of two filesystems by the same few workers. Each array is written
# back before the other one gets data.
echo 20 >/proc/sys/vm/dirty_writeback_centisecs
echo 20 >/proc/sys/vm/dirty_expire_centisecs
# has_written ARRAY SECTORS: so many in total.
has_written() {
	local f
	read -r -a f <"/sys/block/$1/stat"
	[ "${f[6]}" -ge "$2" ]
}
start_top writeback md120 md121
for ((round = 0; round < 8; round++)); do
	for on in md120 md121; do
		read -r -a f <"/sys/block/$on/stat"
		start=${f[6]}
		dd if=/dev/zero of="/mnt/$on/buffered-$round" bs=64k count=8 status=none
		wait_until 900 has_written "$on" $((start + 1024))
	done
done
echo "rounds $round" >>/out/writeback.did
wait_idle 1
stop_top
echo 500 >/proc/sys/vm/dirty_writeback_centisecs
echo 3000 >/proc/sys/vm/dirty_expire_centisecs
sync
wait_idle 2

# A limit of cgroup v2 on the array.
echo '+io +memory' >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/limited
echo "$(<"/sys/block/md120/dev") rbps=2097152 wbps=2097152" >/sys/fs/cgroup/limited/io.max
limited limited_v2 /sys/fs/cgroup/limited md120
