#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# 512 groups, 95 % of them full: groups that a search considers, counted by raidtrace's hooks and by
# ext4 (mb_stats), with linear searches and with the kernel's lists if it has them.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

stats=/proc/fs/ext4/loop0/mb_stats

work() { # NAME
	cp "$stats" "/out/$1.stats.before"
	alloc_files /mnt/loop0 "$1.small" 200 4096
	sync
	alloc_files /mnt/loop0 "$1.large" 12 1048576
	sync
	cp "$stats" "/out/$1.stats.after"
}

truncate -s 4G /tmp/disk0
losetup /dev/loop0 /tmp/disk0
alloc_full /dev/loop0 /mnt/loop0
# In every twentieth group, nine holes of 300 blocks.
alloc_punch /dev/loop0 '
	r = at % 163840
	if (r < 61441) at += 61441 - r
	else if (r > 64641) at += 163840 - r
	else { free(300); at += 400 - (r - 61441) % 400 }'
for scan in linear lists; do
	option=mb_optimize_scan=0
	if [ "$scan" = lists ]; then option=mb_optimize_scan=1; fi
	# A kernel without lists does not have the option.
	mount -o "noatime,$option" /dev/loop0 /mnt/loop0 2>/dev/null || mount -o noatime /dev/loop0 /mnt/loop0
	echo 1 >/sys/fs/ext4/loop0/mb_stats
	alloc_watched "hooks.$scan" /mnt/loop0 work "hooks.$scan"
	unmount /mnt/loop0
done
