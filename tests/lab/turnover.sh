#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A member fails and another takes its place within one interval, which never
# ends: raidtrace follows md's notification at once. Leaves what changes.sh leaves.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 64M 3 --level=5 --chunk=64
filesystem md120 -J size=4
interval=3600 start_top at_once md120
write_files md120
first=${disks[-3]}
wait_for_note 'a member is missing' mdadm /dev/md120 --fail "/dev/$first"
remove md120 "/dev/$first"
truncate -s 64M /tmp/disk_new
losetup /dev/loop20 /tmp/disk_new
# md waits until the new member is known.
echo 0 >/sys/block/md120/md/sync_max
wait_for_note 'loop20 joined' mdadm /dev/md120 --add /dev/loop20
echo max >/sys/block/md120/md/sync_max
wait_until 600 is_rebuilt md120
echo "$first" >/out/at_once.first
write_files md120
stop_top
