#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What changes while raidtrace runs: members come and go, arrays are reshaped,
# made and stopped, filesystems made anew, grown and mounted. Leaves of each
# case NAME.out, NAME.err and NAME.status, and in NAME.did how long it took
# until raidtrace had noted each change; tests/lab.rs says what they must hold.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# A filesystem that is made anew, mounted, grown and unmounted.
array md120 1G 2 --level=1 --bitmap=internal --delay=1
mkfs.ext4 -q -J size=4 /dev/md120 200M
follow filesystem md120
mkdir -p /mnt/md120
noted 'mounted on /mnt/md120' mount -o noatime,noinit_itable /dev/md120 /mnt/md120
noted 'resized from' resize2fs /dev/md120
write_files md120
noted 'unmounted from /mnt/md120' unmount /mnt/md120
noted 'another filesystem' mkfs.ext4 -q -F -b 1024 -J size=4 /dev/md120 300M
noted 'mounted on /mnt/md120' mount -o noatime,noinit_itable /dev/md120 /mnt/md120
write_files md120
followed

# Members: one fails and comes back, one joins as a spare, and is used.
follow members md120
mdadm /dev/md120 --fail /dev/loop1 >/dev/null 2>&1
sleep 1
mdadm /dev/md120 --remove /dev/loop1 >/dev/null 2>&1
sleep 1
mdadm /dev/md120 --re-add /dev/loop1 >/dev/null 2>&1
mdadm --wait /dev/md120 >/dev/null 2>&1 || true
write_files md120
truncate -s 1G /tmp/member2
losetup /dev/loop2 /tmp/member2
members+=(loop2)
noted 'loop2 joined' mdadm /dev/md120 --add /dev/loop2
noted '2 -> 3 disks' mdadm --grow /dev/md120 --raid-devices=3
mdadm --wait /dev/md120 >/dev/null 2>&1 || true
write_files md120
followed

# A reshape: one more disk for a RAID 5.
array md121 64M 3 --level=5 --chunk=64
filesystem md121 -J size=4
truncate -s 64M /tmp/member6
losetup /dev/loop6 /tmp/member6
members+=(loop6)
mdadm --quiet /dev/md121 --add /dev/loop6
echo 2000 >/sys/block/md121/md/sync_speed_max
follow reshape md121
noted 'a reshape has begun' mdadm --grow /dev/md121 --raid-devices=4
noted 'the reshape has ended' sh -c 'echo 100000 >/sys/block/md121/md/sync_speed_max'
write_files md121
followed

# Nobody named: an array joins, another one stops.
follow arrays
array md122 512M 2 --level=0 --chunk=64
noted 'md122: joins' filesystem md122 -J size=4
write_files md122
stop_array() { unmount /mnt/md121 && mdadm --quiet --stop /dev/md121; }
stop_array
sleep 3
write_files md120
write_files md122
array md123 512M 2 --level=1
noted 'md123: joins' filesystem md123 -J size=4
followed
