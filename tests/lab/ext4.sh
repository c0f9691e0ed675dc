#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# ext4 blocks that cannot be found from the filesystem's superblock and group
# descriptors: an external journal, and a growing quota file. Leaves CASE.out, and in
# CASE.kernel the lines "inside BYTES" and "outside BYTES": bytes written according to
# the kernel's events.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out
modprobe -a quota_v2 2>/dev/null || true

for number in 0 1 2; do
	truncate -s 600M "/tmp/disk$number"
	losetup "/dev/loop$number" "/tmp/disk$number"
	disks+=("loop$number")
done
echo 16384 >"$tracing/buffer_size_kb"
events() {
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_rq_complete/enable"
}
# written NUMBER EXTENTS: bytes written on a loop device, in the blocks of EXTENTS ("FIRST LAST" a line) and elsewhere.
written() {
	echo 0 >"$tracing/events/block/block_rq_complete/enable"
	awk -v disk="7,$1" '
		FNR == NR { for (i = $1; i <= $2; i++) known[i] = 1; next }
		index($0, "block_rq_complete: " disk " ") && match($0, /W[A-Z]* \([^)]*\) [0-9]+ \+ [0-9]+/) {
			split(substr($0, RSTART, RLENGTH), w, " ")
			for (i = w[3] / 8; i < (w[3] + w[5]) / 8; i++) if (i in known) inside += 4096; else outside += 4096
		}
		END { print "inside", inside + 0; print "outside", outside + 0 }
	' "$2" "$tracing/trace"
}

# An external journal.
mke2fs -q -b 4096 -O journal_dev /dev/loop1 32M
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0 -J device=/dev/loop1 /dev/loop0
mkdir -p /mnt/fs
mount -o noatime /dev/loop0 /mnt/fs
wait_idle 2
events
start_top journal loop0 loop1
for ((i = 0; i < 20; i++)); do
	dd if=/dev/zero of="/mnt/fs/file-$i" bs=4k count=1 conv=fsync status=none
done
sync
wait_idle 2
stop_top
# The disk contains only the journal.
echo '0 8191' >/run/extents
written 1 /run/extents >/out/journal.kernel
unmount /mnt/fs

# Quotas of new users, in new blocks of the quota file.
mkfs.ext4 -q -b 4096 -O quota -E lazy_itable_init=0 -J size=8 /dev/loop2
mount -o noatime,usrquota /dev/loop2 /mnt/fs
wait_idle 2
events
start_top quota loop2
for ((i = 1; i <= 300; i++)); do
	echo words >"/mnt/fs/file-$i"
	chown $((i * 67)) "/mnt/fs/file-$i"
done
sync
wait_idle 2
stop_top
echo 0 >"$tracing/events/block/block_rq_complete/enable"
unmount /mnt/fs
debugfs -R 'stat <3>' /dev/loop2 2>/dev/null | tr -s ', ' '\n' |
	sed -n 's/^([0-9-]*):\([0-9]*\)-*\([0-9]*\)$/\1 \2/p' | awk '{ print $1, (NF > 1 ? $2 : $1) }' >/out/extents
written 2 /out/extents >/out/quota.kernel
cat /out/*.kernel
