#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Free space without a run that is aligned to the stripe: the stripe livelock, before and after the fix.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

# Runs of 1278 blocks that start just after a multiple of 640: none contains an aligned run of 640.
truncate -s 32G /tmp/disk0
losetup /dev/loop0 /tmp/disk0
alloc_full /dev/loop0 /mnt/loop0
alloc_punch /dev/loop0 'if (at % 2560 == 1) { free(1278); at += 2000 } else at++'
mount -o noatime,stripe=640 /dev/loop0 /mnt/loop0
echo 1 >/sys/fs/ext4/loop0/mb_stats
cp /proc/fs/ext4/loop0/mb_stats /out/livelock.stats.before
alloc_watched livelock /mnt/loop0 alloc_files /mnt/loop0 a 800 16384
cp /proc/fs/ext4/loop0/mb_stats /out/livelock.stats.after
mount -o remount,stripe=0 /mnt/loop0
alloc_watched no_stripe /mnt/loop0 alloc_files /mnt/loop0 b 800 16384
unmount /mnt/loop0
