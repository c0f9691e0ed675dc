#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A RAID 5 of seven disks of 8 TB with mkfs.xfs's defaults (except for the log, which is small to save memory), on which all
# allocation groups start on the first member; then with the agsize that raidtrace layout suggests. 200 directories with 24 files
# each. Leaves CASE.out (raidtrace), CASE.layout, and the members' disk statistics in stat ("CASE.before loop0 ...").
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out /mnt/md0
modprobe -a raid456 xfs
array md0 8000000000000 7 --level=5 --chunk=512

# run CASE MKFS-OPTIONS...
run() {
	local case=$1 round
	shift
	mkfs.xfs -q -f -l size=64m "$@" /dev/md0
	mount -o noatime /dev/md0 /mnt/md0
	mkdir /mnt/md0/d{1..200}
	xfs_io -x -c freeze -c thaw /mnt/md0    # writes all metadata back
	raidtrace layout /mnt/md0 --json >"/out/$case.layout"
	wait_idle 2
	snapshot "$case.before"
	interval=1 start_top "$case" /dev/md0
	for round in {1..4}; do
		touch /mnt/md0/d{1..200}/"$round".{1..6}
		xfs_io -x -c freeze -c thaw /mnt/md0
	done
	wait_intervals
	stop_top
	snapshot "$case.after"
	unmount /mnt/md0
}
run default
agsize=$(grep -o 'agsize=[0-9]*' /out/default.layout | head -n 1)
run suggested -d "$agsize"
