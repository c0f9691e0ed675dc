#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Runs the cells of one boot: "NAME LEVEL STACK WORKLOAD" a line in ./cells.
# Each leaves its files in /out/NAME, and in NAME/said what it said; one that
# fails takes no other with it.
# shellcheck source-path=SCRIPTDIR
cd "$(dirname "$0")" || exit

cell() {
	local name=$1 level=$2 stack=$3 workload=$4
	. ./lib.sh
	. ./levels.sh
	. ./stacks.sh
	. ./workloads.sh
	loops=() arrays=() volumes=() mounts=() targets=() devices=()
	declare -gA volume_of
	base='' mkfs='' mount='' size=1G component='' clean=--assume-clean
	out=/out/$name
	mkdir -p "$out"

	case $workload in
	resync | check | repair | recovery | replace | reshape) size=160M component=--size=28M mkfs='-N 2048' journal=4 ;;
	lazy_init) mkfs='-E lazy_itable_init=1' mount=init_itable=0 ;;
	discard) mount=discard,noinit_itable ;;
	indirect) mkfs='-O ^extent' ;;
	dir_linear) mkfs='-O ^dir_index' ;;
	esac
	level "$level"
	case $workload in recovery | replace | reshape) disks 1 "$size"; raid_disks=$(<"/sys/block/md120/md/raid_disks") ;; esac
	if [ "$workload" = reshape ]; then touch "$out/remap"; fi
	if [ "$workload" = raw ]; then stack none; else stack "$stack"; fi
	make_filesystems
	seeds
	if [ "$workload" != lazy_init ]; then mount_all; fi
	if declare -F "before_$workload" >/dev/null; then "before_$workload"; fi
	begin "${targets[@]}"
	if [ "$workload" = lazy_init ]; then mount_all; fi
	"$workload"
	unmount_all
	end
	for volume in "${volumes[@]}"; do
		fixed "$volume" "${volume_of[$volume]}"
		dynamic "$volume" "${volume_of[$volume]}"
	done
	for volume in "${volumes[@]}"; do
		device=$(readlink -f "${volume_of[$volume]}")
		echo "$volume $(<"/sys/class/block/${device##*/}/dev")"
	done >"$out/devices"
	uname -r >"$out/done"
}

# A file with an attribute that needs a block, in each filesystem: there is no setfattr here.
seeds() {
	local name
	head -c 700 /dev/zero | tr '\0' v >/run/value
	echo seed >/run/seed
	for name in "${volumes[@]}"; do
		debugfs -w -f - "${volume_of[$name]}" >/dev/null 2>&1 <<-END
			write /run/seed seed
			ea_set -f /run/value seed user.truth
		END
	done
}

# As if it had never been.
clean() {
	local each
	pkill -KILL raidtrace
	for each in /mnt/*; do umount "$each"; rmdir "$each"; done
	dmsetup remove_all
	for each in md120 md121 md122; do
		if [ -e "/sys/block/$each" ]; then echo idle >"/sys/block/$each/md/sync_action"; mdadm --stop "/dev/$each"; fi
	done
	losetup -D
	rm -f /tmp/disk* /run/backup
	echo 0 >/sys/kernel/tracing/events/enable
	echo >/sys/kernel/tracing/kprobe_events
	echo >/sys/kernel/tracing/trace
} >/dev/null 2>&1

modprobe -a raid0 raid1 raid10 raid456 dm_mod dm_crypt 2>/dev/null
while read -r name level stack workload; do
	begun=$SECONDS
	mkdir -p "/out/$name"
	(cell "$name" "$level" "$stack" "$workload") >"/out/$name/said" 2>&1 </dev/null
	status=$?
	clean
	rm -rf "/out/$name"/fs-*/commands
	echo "$name: status $status, $((SECONDS - begun)) s"
	if [ "$status" != 0 ]; then tail -n 5 "/out/$name/said"; fi
done <cells
exit 0
