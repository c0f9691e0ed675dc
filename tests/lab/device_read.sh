#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A large directory, read from the disk through the block device while the
# filesystem is mounted, as by a backup or e2fsck -n: with large and small
# requests, and after another sequential read of the device. Leaves CASE.out, and
# in CASE.kernel, from block_rq_complete: directory BYTES, extent_tree BYTES, the
# number of requests, and the largest one. Then direct reads of a file in single
# blocks on ext4 and XFS, by several engines of fio: Linux 7.3 has a path of its own for them.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

truncate -s 512M /tmp/disk
losetup /dev/loop0 /tmp/disk
disks=(loop0)
mkfs.ext4 -q -b 4096 -J size=4 -N 8192 /dev/loop0
mkdir -p /mnt/fs
mount -o noatime,noinit_itable /dev/loop0 /mnt/fs
mkdir /mnt/fs/large
printf -v long '%0220d' 0
for ((i = 0; i < 3000; i++)); do echo "$long-$i"; done | (cd /mnt/fs/large && xargs touch)
unmount /mnt/fs
# debugfs prints "(0-118):9000-9118" for data and "(ETB0):9000" for the extent tree.
extents() {
	local inode
	for inode in '<2>' /lost+found /large; do debugfs -R "stat $inode" /dev/loop0; done 2>/dev/null |
		tr -s ', ' '\n' | sed -n 's/^(\([^)]*\)):\([0-9-]*\)$/\1 \2/p'
}
# The first and last block of the large directory.
read -r low high < <(extents | awk '
	{ n = split($2, b, "-"); if (b[n] - b[1] > 90) { if (!low || b[1] < low) low = b[1]; if (b[n] > high) high = b[n] } }
	END { print low, high }')

# read_device CASE MAX-SECTORS-KB READ-AHEAD-KB BEFORE...: raidtrace, from a cold
# cache, while the directory's part of the device is read.
read_device() {
	local name=$1
	echo "$2" >/sys/block/loop0/queue/max_sectors_kb
	echo "$3" >/sys/block/loop0/queue/read_ahead_kb
	shift 3
	mount -o noatime,noinit_itable /dev/loop0 /mnt/fs
	"$@"
	echo >"$tracing/trace"
	echo 1 >"$tracing/events/block/block_rq_complete/enable"
	start_top "$name" loop0
	# Journalled, so that raidtrace has seen a buffer head of the directory.
	mv "/mnt/fs/large/$long-7" "/mnt/fs/large/renamed-$name"
	mv "/mnt/fs/large/renamed-$name" "/mnt/fs/large/$long-7"
	sync
	wait_idle 1
	blockdev --flushbufs /dev/loop0
	echo 3 >/proc/sys/vm/drop_caches
	if [ "$name" = large ]; then scatter; fi
	dd if=/dev/loop0 of=/dev/null bs="$bs" skip="$((low * 4096))" count="$(((high - low + 1) * 4096))" \
		iflag=skip_bytes,count_bytes status=none
	wait_idle 1    # read-ahead
	stop_top
	echo 0 >"$tracing/events/block/block_rq_complete/enable"
	cat "$tracing/trace" >"/out/$name.trace"
	unmount /mnt/fs
	cases+=("$name")
}

# account TRACE: the lines of CASE.kernel.
account() {
	awk '
		FNR == NR { n = split($2, b, "-"); for (i = b[1]; i <= b[n]; i++) kind[i] = $1 ~ /^ETB/ ? "extent_tree" : "directory"; next }
		/block_rq_complete: 7,0 R/ {
			match($0, /\) [0-9]+ \+ [0-9]+/)
			split(substr($0, RSTART, RLENGTH), w, " ")
			for (i = w[2] / 8; i < (w[2] + w[4]) / 8; i++) if (i in kind) bytes[kind[i]] += 4096
			requests++
			if (w[4] > most) most = w[4]
		}
		END {
			print "directory", bytes["directory"] + 0
			print "extent_tree", bytes["extent_tree"] + 0
			print "requests", requests + 0
			print "largest", most * 512
		}
	' /out/extents "$1"
}

# scatter: fragments memory, so that a large bio has a segment for each page.
scatter() {
	local i commands=()
	for ((i = 0; i < 32768; i += 8)); do commands+=(-c "fpunch ${i}k 4k"); done
	xfs_io -f -c 'pwrite -q 0 32m' "${commands[@]}" /tmp/scattered
}

sequential() {
	echo 3 >/proc/sys/vm/drop_caches
	dd if=/dev/loop0 of=/dev/null bs=1M count=64 status=none
}

cases=() bs=4k
read_device clean 128 128 true
read_device after_dd 128 128 sequential
read_device small_64 64 128 true
read_device small_32 32 128 true
bs=1M
read_device large 1024 1024 true
# Renames may have added a block to the directory.
extents >/out/extents
for name in "${cases[@]}"; do
	account "/out/$name.trace" >"/out/$name.kernel"
	rm "/out/$name.trace"
	echo "$name: $(tr '\n' ' ' <"/out/$name.kernel")"
done

# direct_reads DEVICE FILESYSTEM MOUNT-OPTIONS: of a file of 4 MiB on it, once by each engine.
direct_reads() {
	mount -o "$3" "/dev/$1" /mnt/fs
	dd if=/dev/zero of=/mnt/fs/data bs=1M count=4 conv=fsync status=none
	stat -c "$2 %i" /mnt/fs/data >>/out/data
	for engine in psync libaio io_uring; do
		start_top "direct_$2_$engine" "$1"
		fio --name=direct --filename=/mnt/fs/data --direct=1 --rw=randread --bs=4k --io_size=1M --iodepth=8 \
			--ioengine="$engine" --mem=shm --thread >"/out/fio_$2_$engine"
		wait_idle 1
		stop_top
	done
	unmount /mnt/fs
}

direct_reads loop0 ext4 noatime,noinit_itable
truncate -s 512M /tmp/disk1
losetup /dev/loop1 /tmp/disk1
disks=(loop1)
mkfs.xfs -q /dev/loop1
direct_reads loop1 xfs noatime
