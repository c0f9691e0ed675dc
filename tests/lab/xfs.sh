#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Every kind of block of an XFS with mkfs.xfs's defaults on a RAID 0: created, written back, deleted, and read again after a
# mount. Leaves xfs.out (raidtrace).
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out
modprobe -a raid0 xfs

array md0 160M 4 --level=0 --chunk=64
mkfs.xfs -q -f /dev/md0
mkdir -p /mnt/md0
mount -o noatime /dev/md0 /mnt/md0
# The guest has no setfattr: extended attributes in a leaf block are copied from a file that xfs_db changes.
echo seed >/mnt/md0/seed
inode=$(stat -c %i /mnt/md0/seed)
unmount /mnt/md0
xfs_db -x -c "inode $inode" -c 'attr_set -u -v 800 lab' /dev/md0 >/dev/null
mount -o noatime /dev/md0 /mnt/md0
wait_idle 2
interval=1 start_top xfs /dev/md0

# settle: writes all metadata back.
settle() {
	sync
	xfs_io -x -c freeze -c thaw /mnt/md0
}
for ((i = 0; i < 20; i++)); do
	mkdir "/mnt/md0/directory-$i"
	for ((f = 0; f < 40; f++)); do echo "$f" >"/mnt/md0/directory-$i/a-name-that-fills-the-directory-$f"; done
	cp -a /mnt/md0/seed "/mnt/md0/directory-$i/attributed"
done
dd if=/dev/zero of=/mnt/md0/large bs=256k count=40 oflag=direct status=none
dd if=/dev/zero of=/mnt/md0/buffered bs=256k count=40 conv=fsync status=none
settle
rm -r /mnt/md0/directory-*5 /mnt/md0/large
dd if=/dev/zero of=/mnt/md0/again bs=256k count=20 conv=fsync status=none
settle
unmount /mnt/md0
mount -o noatime /dev/md0 /mnt/md0
ls -lR /mnt/md0 >/dev/null
cp -a /mnt/md0/directory-[12] /run/
cat /mnt/md0/buffered >/dev/null
settle
wait_intervals
stop_top
unmount /mnt/md0
