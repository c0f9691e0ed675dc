#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Changes during tracing: members join and leave, arrays are reshaped, created
# and stopped, filesystems created, grown and mounted. Each case leaves NAME.out,
# NAME.err and NAME.status, and the time until each note in NAME.did, for
# tests/lab.rs.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# mkfs, mount, resize and unmount of a filesystem.
array md120 1G 2 --level=1 --bitmap=internal --delay=1
mkfs.ext4 -q -J size=4 /dev/md120 200M
start_top filesystem md120
mkdir -p /mnt/md120
wait_for_note 'mounted on /mnt/md120' mount -o noatime,noinit_itable /dev/md120 /mnt/md120
wait_for_note 'resized from' resize2fs /dev/md120
write_files md120
wait_for_note 'unmounted from /mnt/md120' unmount /mnt/md120
wait_for_note 'another filesystem' mkfs.ext4 -q -F -b 1024 -J size=4 /dev/md120 300M
wait_for_note 'mounted on /mnt/md120' mount -o noatime,noinit_itable /dev/md120 /mnt/md120
write_files md120
wait_intervals
stop_top

# Members: one fails and returns, one joins as a spare and is activated.
start_top members md120
mdadm --quiet /dev/md120 --fail /dev/loop1
wait_shown '"health":"faulty"'
remove md120 /dev/loop1
mdadm --quiet /dev/md120 --re-add /dev/loop1
wait_until 900 is_rebuilt md120
write_files md120
truncate -s 1G /tmp/disk2
losetup /dev/loop2 /tmp/disk2
disks+=(loop2)
wait_for_note 'loop2 joined' mdadm /dev/md120 --add /dev/loop2
wait_for_note '2 -> 3 disks' mdadm --grow /dev/md120 --raid-devices=3
wait_until 900 is_rebuilt md120
write_files md120
has_healthy() { # COUNT
	[ "$(tail -n 1 "/out/$name.out" | grep -o '"slot":[0-9]*,"health":null,"disk":{' | wc -l)" = "$1" ] || has_ended "$pid"
}
wait_until 900 has_healthy 3
stop_top

# A reshape that adds a disk to a RAID 5.
array md121 64M 3 --level=5 --chunk=64
filesystem md121 -J size=4
dd if=/dev/zero of=/mnt/md121/big bs=1M count=8 oflag=direct status=none
truncate -s 64M /tmp/disk6
losetup /dev/loop6 /tmp/disk6
disks+=(loop6)
mdadm --quiet /dev/md121 --add /dev/loop6
echo 2000 >/sys/block/md121/md/sync_speed_max
start_top reshape md121
wait_for_note 'a reshape has begun' mdadm --grow /dev/md121 --raid-devices=4
# md reads past the stripe cache as soon as it has finished the reshape. raidtrace is stopped meanwhile,
# so that it reloads its programs only after these reads.
kill -STOP "$pid"
echo 100000 >/sys/block/md121/md/sync_speed_max
is_reshaped() { [ "$(<"/sys/block/md121/md/reshape_position")" = none ] && is_rebuilt md121; }
wait_until 900 is_reshaped
dd if=/mnt/md121/big of=/dev/null bs=64k iflag=direct status=none
wait_for_note 'the reshape has ended' kill -CONT "$pid"
write_files md121
stop_top

# Without targets: an array is new, another one stops.
start_top arrays
array md122 512M 2 --level=0 --chunk=64
wait_for_note 'md122: is now traced' filesystem md122 -J size=4
write_files md122
stop_array() { unmount /mnt/md121 && mdadm --quiet --stop /dev/md121; }
stop_array
wait_shown '"health":"stopped"'
write_files md120
write_files md122
array md123 512M 2 --level=1
wait_for_note 'md123: is now traced' filesystem md123 -J size=4
stop_top
