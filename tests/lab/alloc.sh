#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A filesystem of 4096 groups, a fifth of it free in holes of 300 blocks: searched group by group, then by the kernel's
# lists, then with half of it free again; and a healthy one.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

disk() { # NUMBER SIZE MKFS-OPTIONS...
	truncate -s "$2" "/tmp/disk$1"
	losetup "/dev/loop$1" "/tmp/disk$1"
	mkfs.ext4 -q -b 1024 -g 8192 -N 65536 -E nodiscard -J size=8 -m 0 "/dev/loop$1"
	mkdir -p "/mnt/loop$1"
}

# Files of 1 MiB: larger than any free extent, smaller than the free space of a group.
work() { # WHERE NAME
	for ((i = 0; i < 80; i++)); do
		head -c 1048576 /dev/zero >"$1/$2$i"
		if ((i % 20 == 19)); then sync; fi
	done
}

# watched NAME WHERE: runs the load there, with counts of raidtrace and the kernel.
watched() {
	local name=$1 where=$2 dev=${2##*/} status=0 pid
	raidtrace alloc --json --interval 2 --mb-stats --folded "/out/$name.folded" --flame "/out/$name.html" \
		"$where" >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	wait_until 900 has_printed "/out/$name.out" "$pid"
	cp "/proc/fs/ext4/$dev/mb_stats" "/out/$name.stats.before"
	work "$where" "$name"
	cp "/proc/fs/ext4/$dev/mb_stats" "/out/$name.stats.after"
	kill -INT "$pid"
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
	cat "/sys/fs/ext4/$dev/mb_stats" >"/out/$name.switch"
}

disk 0 32G
mount -o noatime /dev/loop0 /mnt/loop0
free=$(stat -f -c %a /mnt/loop0)
fallocate -l "$((free - 3000))K" /mnt/loop0/big
unmount /mnt/loop0
awk 'BEGIN { for (b = 300; b < 33000000; b += 1500) printf "punch big %d %d\n", b, b + 299 }' >/tmp/punch
debugfs -w -f /tmp/punch /dev/loop0 >/dev/null 2>&1

mount -o noatime,mb_optimize_scan=0 /dev/loop0 /mnt/loop0
watched before /mnt/loop0
unmount /mnt/loop0
mount -o noatime,mb_optimize_scan=1 /dev/loop0 /mnt/loop0
watched lists /mnt/loop0
truncate -s 16G /mnt/loop0/big
sync
watched freed /mnt/loop0
unmount /mnt/loop0

disk 1 1G
mount -o noatime /dev/loop1 /mnt/loop1
watched healthy /mnt/loop1
unmount /mnt/loop1
