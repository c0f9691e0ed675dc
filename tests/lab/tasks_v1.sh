#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The limits of cgroup v1, which has them in a hierarchy of its own, and on the
# root cgroup too, where jbd2's thread is. Leaves what tasks.sh does. A guest of
# its own: once cgroup v2 has had the controller, v1 cannot have it.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 600M 2 --level=1 --bitmap=none
filesystem md120 -J size=8
dd if=/dev/zero of=/mnt/md120/direct bs=1M count=10 conv=fsync status=none
sync
wait_idle 2
dev=$(<"/sys/block/md120/dev")

mkdir /run/blkio
mount -t cgroup -o blkio none /run/blkio
mkdir /run/blkio/limited
for what in read write; do
	echo "$dev 2097152" >"/run/blkio/limited/blkio.throttle.${what}_bps_device"
done
limited limited_v1 /run/blkio/limited md120
sync
unmount /mnt/md120

# jbd2's own flushes and no other: with journal_async_commit an empty flush ends
# each commit, and nobody calls fsync. Each flush takes one operation of the limit.
mount -o noatime,noinit_itable,data=writeback,journal_async_commit,commit=1 /dev/md120 /mnt/md120
# has_committed COUNT: so many commits since the mount. Flushes of a member cannot be counted instead: md has some, too.
has_committed() {
	[ "$(commits)" -ge "$1" ]
}
commits() {
	local n
	read -r n _ </proc/fs/jbd2/md120-8/info    # "42 transactions (41 requested), ..."
	echo "$n"
}
before=$(commits)
touch /mnt/md120/before
wait_until 120 has_committed $((before + 1))
wait_idle 2
echo "$dev 10" >/run/blkio/blkio.throttle.write_iops_device
start_top flushes md120
for ((i = 0; i < 6; i++)); do
	# One commit for each.
	before=$(commits)
	mkdir "/mnt/md120/new-$i"
	wait_until 120 has_committed $((before + 1))
done
wait_idle 2
stop_top
echo "$dev 0" >/run/blkio/blkio.throttle.write_iops_device
