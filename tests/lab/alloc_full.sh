#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A filesystem of 4096 groups, 95 % of them full: small and large files written to it, searched linearly and by the
# kernel's lists. ext4 counts too (mb_stats), which raidtrace does not use here.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

disk() { # GROUPS of 8 MiB: all full but one in twenty, whose second half is free in holes of 300 blocks.
	local n free
	truncate -s "$((8 * $1))M" /tmp/disk0
	losetup /dev/loop0 /tmp/disk0
	mkfs.ext4 -q -b 1024 -g 8192 -N 65536 -O ^resize_inode -E nodiscard,lazy_itable_init=0 -J size=8 -m 0 /dev/loop0
	mkdir -p /mnt/loop0
	mount -o noatime /dev/loop0 /mnt/loop0
	mkdir /mnt/loop0/dir
	n=0 free=$(stat -f -c %a /mnt/loop0)
	fallocate -l "$((free - 3000))K" /mnt/loop0/big
	while fallocate -l 64K "/mnt/loop0/dir/fill$((n++))" 2>/dev/null; do :; done
	sync
	unmount /mnt/loop0
	# (0-14335[u]):10241-24576
	debugfs -R 'stat /big' /dev/loop0 2>/dev/null | grep -oE '\([0-9]+-[0-9]+(\[u\])?\):[0-9]+-[0-9]+' |
		sed 's/[^0-9]\+/ /g' | awk '
			function group(block) { return int((block - 1) / 8192) }
			{
				for (g = group($3); g <= group($4); g++) {
					for (at = g * 8192 + 4097; g % 20 == 7 && at < g * 8192 + 7800; at += 400) {
						if (at >= $3 && at + 299 <= $4) printf "punch big %d %d\n", $1 + at - $3, $1 + at - $3 + 299
					}
				}
			}' >/tmp/punch
	debugfs -w -f /tmp/punch /dev/loop0 >/dev/null 2>&1
}

# counted NAME COMMAND...: counts of raidtrace and ext4 while COMMAND runs.
counted() {
	local name=$1 status=0 pid
	shift
	raidtrace alloc --json --interval 2 /mnt/loop0 >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	wait_until 900 has_printed "/out/$name.out" "$pid"
	cp /proc/fs/ext4/loop0/mb_stats "/out/$name.stats.before"
	"$@"
	sync
	cp /proc/fs/ext4/loop0/mb_stats "/out/$name.stats.after"
	kill -INT "$pid"
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

small() { # NAME
	for ((i = 0; i < 300; i++)); do head -c 4096 /dev/zero >"/mnt/loop0/$1$i"; done
	sync
	for ((i = 0; i < 300; i++)); do head -c 4096 /dev/zero >"/mnt/loop0/dir/$1$i"; done
}

large() { # NAME
	for ((i = 0; i < 20; i++)); do
		head -c 1048576 /dev/zero >"/mnt/loop0/$1$i"
		if ((i % 5 == 4)); then sync; fi
	done
}

disk "${1:-4096}"
for lists in 0 1; do
	mount -o "noatime,mb_optimize_scan=$lists" /dev/loop0 /mnt/loop0
	echo 1 >/sys/fs/ext4/loop0/mb_stats
	cat /proc/fs/ext4/loop0/mb_groups >"/out/groups.$lists"
	counted "small.$lists" small "s$lists."
	counted "large.$lists" large "l$lists."
	unmount /mnt/loop0
done

# As on a kernel without function hooks: mb_stats is enabled for a slice of each interval, and disabled afterwards.
mount -o noatime,mb_optimize_scan=0 /dev/loop0 /mnt/loop0
grep -v ext4_ "$tracing/available_filter_functions" >/tmp/functions
mount --bind /tmp/functions "$tracing/available_filter_functions"
# Long enough for a whole interval: the reason is given from a tenth of the time in the allocator on.
larger() {
	local name
	for name in h i j k; do large "$name"; done
}
counted slices larger
cat /sys/fs/ext4/loop0/mb_stats >/out/slices.switch

# Killed while mb_stats is enabled: the next run disables it.
raidtrace alloc --json --mb-stats /mnt/loop0 >/out/killed.out 2>/out/killed.err &
pid=$!
wait_until 900 has_printed /out/killed.out "$pid"
kill -KILL "$pid"
wait "$pid" || true
cat /sys/fs/ext4/loop0/mb_stats >/out/killed.switch
umount "$tracing/available_filter_functions"
raidtrace alloc --json --count 1 /mnt/loop0 >/out/next.out 2>/out/next.err
cat /sys/fs/ext4/loop0/mb_stats >/out/next.switch
unmount /mnt/loop0
