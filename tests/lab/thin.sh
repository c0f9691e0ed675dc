#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A thin pool on a RAID 1 that runs out of data space while a file is written to its volume: the writes wait in device mapper, and the array
# is idle. thin.out is top's; low.json and full.json are doctor's.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

# doctor NAME: its status is 3 or 4 if it has findings.
doctor() {
	raidtrace doctor --json md120 >"/out/$1.json" 2>"/out/$1.err" || [ $? -ge 3 ]
}

modprobe dm-thin-pool
echo 600 >/sys/module/dm_thin_pool/parameters/no_space_timeout # 60 by default: an emulated guest is slow
array md120 300M 2 --level=1 --bitmap=none
dmsetup create pool_tmeta --table '0 16384 linear /dev/md120 2048'
dmsetup create pool_tdata --table '0 204800 linear /dev/md120 20480'
dmsetup mknodes
dd if=/dev/zero of=/dev/mapper/pool_tmeta bs=4k count=1 oflag=direct status=none
dmsetup create pool --table '0 204800 thin-pool /dev/mapper/pool_tmeta /dev/mapper/pool_tdata 128 32'
dmsetup message pool 0 'create_thin 0'
dmsetup mknodes
dmsetup create thin --table '0 409600 thin /dev/mapper/pool 0'
dmsetup mknodes
mkfs.ext4 -q -E nodiscard,lazy_itable_init=0,lazy_journal_init=0 -J size=4 /dev/mapper/thin
mkdir -p /mnt/thin
mount -o noatime /dev/mapper/thin /mnt/thin
doctor enough
dd if=/dev/zero of=/mnt/thin/first bs=1M count=75 conv=fsync status=none
dmsetup status pool
doctor low

start_top thin md120
stat=/sys/block/dm-$(dmsetup info -c --noheadings -o minor thin)/stat
cat "$stat" >/out/before
dd if=/dev/zero of=/mnt/thin/second bs=1M count=40 conv=fsync 2>/out/dd.err &
writer=$!
is_full() { dmsetup status pool | grep -q ' out_of_data_space '; }
wait_until 120 is_full
wait_shown '"severity":"stalled"'
raidtrace why md120 >/out/why.txt 2>&1 || echo "status $?" >>/out/why.txt
doctor full
cat /out/why.txt
cat "$stat" >/out/after
stop_top

# More space: the writes go on.
dmsetup suspend pool
dmsetup suspend pool_tdata
dmsetup reload pool_tdata --table '0 368640 linear /dev/md120 20480'
dmsetup resume pool_tdata
dmsetup reload pool --table '0 368640 thin-pool /dev/mapper/pool_tmeta /dev/mapper/pool_tdata 128 32'
dmsetup resume pool
wait "$writer"
doctor enlarged
