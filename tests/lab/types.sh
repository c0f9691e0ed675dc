#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A kernel whose ext4 is a module that nobody has loaded when raidtrace starts:
# XFS on one array, nothing on another, which later becomes an ext4.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out /mnt/md120 /mnt/md121

if grep -q '^ext4 ' /proc/modules; then die 'ext4 is loaded already'; fi
array md120 600M 2 --level=1 --bitmap=none
array md121 600M 2 --level=1 --bitmap=none
mkfs.xfs -q -f /dev/md120
mount /dev/md120 /mnt/md120
wait_idle 2

start_top types md120 md121
dd if=/dev/zero of=/mnt/md120/file bs=1M count=8 oflag=direct status=none
dd if=/dev/zero of=/dev/md121 bs=64k count=16 oflag=direct status=none
sync
wait_intervals
wc -l <"/out/types.out" >/out/types.before
wait_for_note ext4 modprobe ext4
mkfs.ext4 -q -F -J size=8 /dev/md121
wait_for_note 'mounted on /mnt/md121' mount -o noatime,noinit_itable /dev/md121 /mnt/md121
wait_shown 'on /mnt/md121 (md121), .* groups'
write_files md121
dd if=/dev/zero of=/mnt/md121/file bs=1M count=4 oflag=direct status=none
sync
stop_top

# With ext4 loaded from the start.
start_top loaded md120 md121
mkdir /mnt/md121/more
write_files md121
dd if=/dev/zero of=/mnt/md121/file bs=1M count=4 oflag=direct status=none
sync
stop_top
