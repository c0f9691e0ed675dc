#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Filesystems on two arrays each, in volumes of device mapper. For each, CASE.layout has the output of `raidtrace layout --json`, and
# CASE.fs what the filesystem's own tool says.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out
modprobe -a dm_mod raid0 raid1 raid456 xfs

# volume NAME MKFS...: makes and mounts the filesystem of a volume, whose table is on standard input.
volume() {
	dmsetup create "$1"
	dmsetup mknodes
	"${@:2}" "/dev/mapper/$1"
	mkdir -p "/mnt/$1"
	mount "/dev/mapper/$1" "/mnt/$1"
	raidtrace layout "/mnt/$1" --json >"/out/$1.layout"
	raidtrace layout "/mnt/$1" >"/out/$1.text"
}
# concatenated ARRAY ARRAY: the table of one after the other.
concatenated() {
	local first
	first=$(blockdev --getsz "/dev/$1")
	echo "0 $first linear /dev/$1 0"
	echo "$first $(blockdev --getsz "/dev/$2") linear /dev/$2 0"
}

array md120 300M 4 --level=5 --chunk=64
array md121 300M 2 --level=1
concatenated md120 md121 | volume linear mkfs.ext4 -q -b 4096 -G 1
dumpe2fs /dev/mapper/linear >/out/linear.fs 2>/dev/null
raidtrace layout md121 --json >/out/one.layout
raidtrace layout /mnt/linear --search 2>/out/search.err && exit 1

array md122 300M 2 --level=1
array md123 300M 2 --level=1
echo "0 $((1024 << 10)) striped 2 128 /dev/md122 0 /dev/md123 0" | volume striped mkfs.ext4 -q -b 4096 -G 1
dumpe2fs /dev/mapper/striped >/out/striped.fs 2>/dev/null

array md124 400M 2 --level=0 --chunk=64
array md125 400M 3 --level=0 --chunk=64
concatenated md124 md125 | volume xfs mkfs.xfs -q
xfs_db -r -c 'sb 0' -c 'print agcount' /dev/mapper/xfs >/out/xfs.fs
exit 0
