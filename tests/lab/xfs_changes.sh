#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Changes of an XFS while it is traced: xfs_growfs, another mkfs.xfs, a freeze, a shutdown; and an XFS with an external log and a
# realtime device. Each case leaves NAME.out, NAME.err and NAME.status, and the time until each note in NAME.did. xfs_alloc.*: `alloc` refuses an XFS.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out
modprobe -a raid0 raid1 xfs

# settle DIR: writes all metadata back.
settle() {
	sync
	xfs_io -x -c freeze -c thaw "$1"
}

# Grown: more AGs, whose headers are written. Then made anew with the same geometry, and mounted before the next check.
array md120 256M 4 --level=0 --chunk=64
mkfs.xfs -q -f -d size=400m,agsize=100m -l size=64m /dev/md120
mkdir -p /mnt/md120
mount -o noatime /dev/md120 /mnt/md120
start_top xfs_grown md120
write_files md120
wait_for_note 'resized from' xfs_growfs /mnt/md120
wait_intervals
wc -l </out/xfs_grown.out >/out/xfs_grown.grown
mkdir -p /mnt/md120/more{0..9}
for ((i = 0; i < 100; i++)); do echo "$i" >"/mnt/md120/more$((i % 10))/file-$i"; done
settle /mnt/md120
remake() {
	unmount /mnt/md120
	mkfs.xfs -q -f -d agsize=100m -l size=64m /dev/md120
	mount -o noatime /dev/md120 /mnt/md120
}
wait_for_note 'another filesystem' remake
wait_intervals
write_files md120
settle /mnt/md120
wait_intervals
stop_top

# Frozen for longer than the interval of checks (2 s), and written afterwards. Shut down, unmounted, and recovered by a mount.
start_top xfs_frozen md120
xfs_io -x -c freeze /mnt/md120
sleep 5
xfs_io -x -c thaw /mnt/md120
mkdir /mnt/md120/thawed
settle /mnt/md120
xfs_io -x -c shutdown /mnt/md120
sleep 5
wait_for_note 'unmounted from' unmount /mnt/md120
wait_for_note 'mounted on' mount -o noatime /dev/md120 /mnt/md120
mkdir /mnt/md120/recovered
settle /mnt/md120
wait_intervals
stop_top
status=0
raidtrace alloc --json /mnt/md120 >/out/xfs_alloc.out 2>/out/xfs_alloc.err || status=$?
echo "$status" >/out/xfs_alloc.status
unmount /mnt/md120

# The log on an array of its own, and the file data of a realtime device on another one.
array md121 96M 2 --level=1 --bitmap=none
array md122 128M 2 --level=0 --chunk=64
mkfs.xfs -q -f -d rtinherit=1 -l logdev=/dev/md121,size=64m -r rtdev=/dev/md122 /dev/md120
start_top xfs_devices md120 md121 md122
wait_for_note 'mounted on' mount -o noatime,logdev=/dev/md121,rtdev=/dev/md122 /dev/md120 /mnt/md120
wait_intervals
wc -l </out/xfs_devices.out >/out/xfs_devices.mounted
write_files md120
dd if=/dev/zero of=/mnt/md120/large bs=256k count=16 oflag=direct status=none
settle /mnt/md120
wait_intervals
stop_top
unmount /mnt/md120
