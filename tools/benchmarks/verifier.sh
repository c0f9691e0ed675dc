#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# In a guest: runs raidtrace alloc, which also loads the programs of top, on arrays that together need every
# program and every branch: a stripe cache, mirrors, an array of arrays, dm-crypt. Writes the verifier figures
# of -v to /out/verifier.
# shellcheck source-path=SCRIPTDIR/../../tests/lab
. ./lib.sh

array md120 64M 3 --level=5 --chunk=64
array md121 64M 2 --level=1
array md122 64M 2 --level=1
array md124 64M 4 --level=10 --chunk=64
modprobe dm_crypt
mdadm --create /dev/md123 --run --quiet --level=0 --chunk=64 --raid-devices=2 /dev/md121 /dev/md122
sectors=$(blockdev --getsz /dev/md124)
dmsetup create secret --uuid CRYPT-PLAIN-secret --table "0 $sectors crypt aes-xts-plain64 $(printf %064d 1) 0 /dev/md124 0"
dmsetup mknodes
for device in md120 md123 mapper/secret; do
	mkfs.ext4 -q "/dev/$device"
	mkdir -p "/mnt/$device"
	mount -o noinit_itable "/dev/$device" "/mnt/$device"
done
raidtrace -v alloc --json --count 1 /dev/md120 /dev/md123 /mnt/mapper/secret >/out/alloc.json 2>/out/verifier ||
	{ cat /out/verifier >&2; exit 1; }
