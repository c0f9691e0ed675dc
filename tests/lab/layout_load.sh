#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The same files, made and recorded on different filesystems: `raidtrace layout --load` predicts
# each of the other recordings from the first of its array.
#
#   layout_load.sh [CASE...]
#
# Leaves in /out for each case: CASE.rtrace, and CASE.options with the options of mkfs.
# A case is LEVEL-DISKS-CHUNK-NAME, with the name xfs-NAME for XFS.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

cat >/tmp/load <<'END'
# Files are made, appended to, synchronized, removed and read; the seed is always the same.
set -e
cd "$1"
RANDOM=17
# XFS leaves its metadata in the log otherwise.
settle() {
	sync
	if [ "$(stat -fc %T .)" = xfs ]; then xfs_io -x -c freeze -c thaw .; fi
}
printf -v small '%12288s' ''
printf -v medium '%81920s' ''
eval "mkdir d{1..192}"
for round in 1 2; do
	for ((i = 1; i <= 192; i++)); do
		printf %s "$small" >"d$i/small$round"
		printf %s "$small" >"d$i/gone$round"
		if ((RANDOM % 3 == 0)); then printf %s "$medium" >"d$i/medium$round"; fi
	done
	settle
	# A commit for each.
	for ((i = 0; i < 24; i++)); do
		dd if=/dev/zero of="d$((RANDOM % 192 + 1))/log" bs=4k count=$((RANDOM % 4 + 1)) \
			oflag=append conv=notrunc,fsync status=none
	done
	for ((i = 1; i <= 192; i++)); do echo "d$i/gone$round"; done | xargs rm
	settle
done
# A table, and random blocks of it.
dd if=/dev/zero of=table bs=1M count=48 oflag=direct status=none
for ((i = 0; i < 600; i++)); do echo "pwrite -q $((RANDOM % 12288 * 4096)) 4096"; done | xfs_io -d table >/dev/null
settle
echo 3 >/proc/sys/vm/drop_caches
for ((i = 1; i <= 192; i++)); do echo "d$i/small1"; done | xargs cat >/dev/null
for ((i = 0; i < 400; i++)); do echo "pread -q $((RANDOM % 12288 * 4096)) 4096"; done | xfs_io -d table >/dev/null
settle
END

# recorded CASE OPTIONS...
recorded() {
	local name=$1 from=$EPOCHSECONDS
	shift
	echo "$*" >"/out/$name.options"
	mkfs.ext4 -q -F "$@" /dev/md120
	# ext4 spreads directories by a hash of their names; the seed of the hash is random otherwise.
	debugfs -w -R "set_super_value hash_seed 6d1a7c52-3a0e-4b7f-9d50-1f2e8c4b9a37" /dev/md120 2>/dev/null
	# Rotational, because 6.12 does not try the goal group first on other disks.
	echo 1 >/sys/block/md120/queue/rotational
	mkdir -p /mnt/md120
	mount -o noatime,noinit_itable /dev/md120 /mnt/md120
	sync
	raidtrace record -o "/out/$name.rtrace" /dev/md120 -- bash /tmp/load /mnt/md120
	unmount /mnt/md120
	dumpe2fs -h /dev/md120 >"/out/$name.dumpe2fs" 2>/dev/null
	echo "$name: $((EPOCHSECONDS - from)) s"
}

# recorded_xfs CASE OPTIONS...
recorded_xfs() {
	local name=$1 from=$EPOCHSECONDS
	shift
	echo "$*" >"/out/$name.options"
	mkfs.xfs -q -f "$@" /dev/md120 2>/dev/null
	mkdir -p /mnt/md120
	mount -o noatime /dev/md120 /mnt/md120
	sync
	raidtrace record -o "/out/$name.rtrace" /dev/md120 -- bash /tmp/load /mnt/md120
	unmount /mnt/md120
	echo "$name: $((EPOCHSECONDS - from)) s"
}

# made_xfs LEVEL DISKS CHUNK CHUNKS: an array with so many chunks of 512 KiB on each member.
made_xfs() {
	local options=()
	if [ "$1" != 0 ]; then options=(--bitmap=none); fi
	array md120 "$(($4 * 512 + 1024))K" "$2" --level="$1" --chunk="$3" --data-offset=1M "${options[@]}"
}

# made LEVEL DISKS CHUNK: an array of about 64 GiB.
made() {
	local data=$2 options=()
	if [ "$1" != 0 ]; then
		options=(--bitmap=none)
		data=$(($2 - 1))
	fi
	array md120 "$((65536 / data + 200))M" "$2" --level="$1" --chunk="$3" "${options[@]}"
}

unmade() {
	mdadm --stop --quiet /dev/md120
	for ((i = 0; i < ${#disks[@]}; i++)); do
		losetup -d "/dev/loop$i"
		rm "/tmp/disk$i"
	done
	disks=()
	arrays=()
}

cd "$(mktemp -d)"
lazy=lazy_journal_init=1
if [ $# = 0 ]; then set -- 0 5 xfs0 xfs5; fi
for level; do
	case $level in
	0)
		made 0 8 512
		recorded 0-8-512-defaults -E $lazy
		recorded 0-8-512-group -g 32744 -E $lazy
		recorded 0-8-512-flex -G 4 -E $lazy
		recorded 0-8-512-packed -E $lazy,packed_meta_blocks=1
		unmade
		;;
	5)
		made 5 4 64
		recorded 5-4-64-defaults -E $lazy
		recorded 5-4-64-group -g 32744 -G 2 -E $lazy
		recorded 5-4-64-flex -G 64 -E $lazy
		unmade
		made 5 4 512
		recorded 5-4-512-chunk -E $lazy
		unmade
		;;
	xfs0)
		# 16 AGs of 7004 chunks, 4 modulo 8: on two of the members.
		modprobe -a raid0 xfs
		made_xfs 0 8 512 14008
		recorded_xfs 0-8-512-xfs-defaults
		recorded_xfs 0-8-512-xfs-agsize -d agsize=$((7003 * 512))k
		unmade
		made_xfs 0 8 64 14008
		recorded_xfs 0-8-64-xfs-chunk
		unmade
		;;
	xfs5)
		# 16 AGs of 7007 chunks, 0 modulo 7: all on one member.
		modprobe -a raid456 xfs
		made_xfs 5 7 512 18685
		recorded_xfs 5-7-512-xfs-defaults
		recorded_xfs 5-7-512-xfs-agsize -d agsize=$((7006 * 512))k
		recorded_xfs 5-7-512-xfs-fewer -d agsize=$((10194 * 512))k
		recorded_xfs 5-7-512-xfs-more -d agsize=$((4003 * 512))k
		unmade
		;;
	esac
done
