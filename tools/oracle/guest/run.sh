#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The runs of one boot of tools/truth: ./runs has a line "NAME STACK WORKLOAD LEVEL..." for each run. A run writes its
# files and its output to /out/NAME. A failed run does not end the other runs.
# shellcheck source-path=SCRIPTDIR
cd "$(dirname "$0")" || exit

run() {
	local name=$1 stack=$2 workload=$3 level volume fs=ext4 format=''
	shift 3
	. ./guest.sh
	. ./levels.sh
	. ./stacks.sh
	. ./workloads.sh
	. ./xfs.sh
	bases=() below=() volumes=() mounts=() devices=() neighbours=()
	declare -gA volume_of log_of kind_of second spare
	md='' base='' mkfs='' mount='' journal=8 size=1G component='' clean=--assume-clean
	out=/out/$name trace_kib=40960

	case $workload in
	resync | check | repair | recovery | replace | reshape | turnover) size=96M component=--size=28M mkfs='-N 2048' journal=4 ;;
	lazy_init) mkfs='-E lazy_itable_init=1' mount=init_itable=0 ;;
	discard) mount=discard,noinit_itable ;;
	indirect) mkfs='-O ^extent,^64bit' ;;
	dir_linear) mkfs='-O ^dir_index' ;;
	device_read) size=40M mkfs='-E packed_meta_blocks=1 -N 8192' ;;
	esac
	case $workload in
	resync) clean=--force ;;
	reshape) touch "$out/remap" ;;
	esac
	# XFS on a stack: xfs, xfs-lvm, xfs-log (the log on another array), xfs-ext4 (beside an ext4 on the same array).
	case $stack in
	xfs*)
		fs=xfs stack=${stack#xfs} size=352M mount=usrquota
		stack=${stack#-}
		# Outside of the matrix: a format of XFS on the whole array.
		case $stack in v4 | 1k | 64k) format=$stack stack=whole ;; esac
		stack=${stack:-whole} ;;
	esac
	for level; do
		if [ "$stack" = neighbour ]; then neighbours+=("loop${#disks[@]}"); fi
		level "$level"
		bases+=("$base")
		if [ "$workload" != raw ]; then stack "$stack"; fi
	done
	make_filesystems
	seeds
	if [ "$workload" != lazy_init ]; then mount_all; fi
	make_neighbours
	if declare -F "before_$workload" >/dev/null; then "before_$workload"; fi
	if [ "$fs" = xfs ]; then settle; fi
	begin_run
	if [ "$workload" = lazy_init ]; then mount_all; fi
	"$workload"
	unmount_all
	if [ "$stack" = neighbour ]; then neighbour; fi
	if compgen -G "$out/beside.*" >/dev/null; then wait_until 120 is_clean "$md"; fi
	end_run
	for volume in "${volumes[@]}"; do
		if [ "${kind_of[$volume]}" = xfs ]; then
			list_xfs_blocks "$volume"
			continue
		fi
		describe_filesystem "$volume" "${volume_of[$volume]}"
		list_inodes "$volume" "${volume_of[$volume]}"
	done
	uname -r >"$out/done"
}

# seeds: creates in each filesystem a file with an extended attribute that needs a block. The guest has no setfattr.
seeds() {
	local name
	head -c 700 /dev/zero | tr '\0' v >/run/value
	echo seed >/run/seed
	for name in "${volumes[@]}"; do
		if [ "${kind_of[$name]}" = xfs ]; then seed_xfs "$name"; continue; fi
		debugfs -w -f - "${volume_of[$name]}" >/dev/null 2>&1 <<-END
			write /run/seed seed
			ea_set -f /run/value seed user.truth
		END
	done
}

# list_inodes NAME DEVICE: the blocks of each inode in $out/fs-NAME/numbers, after the run.
list_inodes() {
	local name=$1 device=$2 to=$out/fs-$1
	if [ ! -e "$to/numbers" ]; then return; fi
	sort -un "$to/numbers" | sed 's/.*/stat <&>/' >"$to/commands"
	debugfs -f "$to/commands" "$device" >"$to/inodes" 2>/dev/null
	rm "$to/commands"
}

# clean: removes everything that a run created.
clean() {
	local each
	pkill -KILL raidtrace
	rmdir /sys/fs/cgroup/limited
	for each in /mnt/*; do umount "$each"; rmdir "$each"; done
	dmsetup remove_all
	for each in /sys/block/md*/md/sync_action; do echo idle >"$each"; done
	# An array of arrays was created last, so it is stopped first. The number of a container is below those of its volumes.
	for ((each = 199; each >= 100; each--)); do
		if [ -e "/sys/block/md$each" ]; then mdadm --stop "/dev/md$each"; fi
	done
	dmsetup remove_all  # members
	losetup -D
	rm -f /tmp/disk* /run/backup*
	echo 0 >/sys/kernel/tracing/events/enable
	echo >/sys/kernel/tracing/kprobe_events
	echo >/sys/kernel/tracing/trace
} >/dev/null 2>&1

modprobe -a raid0 raid1 raid10 raid456 dm_mod dm_crypt dm_raid 2>/dev/null
while read -r name stack workload levels; do
	begun=$SECONDS
	mkdir -p "/out/$name"
	# shellcheck disable=SC2086 # words
	(run "$name" "$stack" "$workload" $levels) >"/out/$name/output" 2>&1 </dev/null
	status=$?
	clean
	echo "$name: status $status, $((SECONDS - begun)) s"
	if [ "$status" != 0 ]; then tail -n 5 "/out/$name/output"; fi
done <runs
exit 0
