#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Metadata and first files on the members of real arrays, compared with `raidtrace
# layout --plan`, with mke2fs's defaults and with the options that `--search`
# recommends. Blocks come from dumpe2fs, debugfs and inode numbers; members from
# md: each block is read (on RAID 10 written, to all copies) through the array, and
# the members' disk statistics show where it is.
#
#   placement.sh [LEVEL-DISKS-CHUNK[-defaults|-recommended]...]
#
# Leaves in /out/placement a line for each figure:
#   CASE FIGURE COUNT...        4 KiB blocks on the member of each slot
# where CASE is LEVEL-DISKS-CHUNK-NAME, and CASE.json, CASE.options beside it.
# `tools/layout-table --measured` makes a table of it.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

directories=128
files=253    # in each, beside itself and the two that have blocks: 64 inodes for each of 512 groups
printf -v small '%20480s' ''
printf -v large '%81920s' ''    # above mb_stream_req: allocated on its own

# on_members FILE: reads or writes the blocks listed in the file, run by run, and
# prints the number on each slot.
on_members() {
	local -a before=() member
	local slot
	for slot in "${!slots[@]}"; do
		read -r -a member <"/sys/block/${slots[slot]}/stat"
		before+=("${member[$column]}")
	done
	sort -n "$1" | awk -v verb="$verb" '
		function run() { if (n) print verb, "-b 16m", first * 4096, n * 4096 }
		n && $1 == first + n { n++; next }
		{ run(); first = $1; n = 1 }
		END { run() }' | xfs_io "${direction[@]}" /dev/md120 >/dev/null
	for slot in "${!slots[@]}"; do
		read -r -a member <"/sys/block/${slots[slot]}/stat"
		echo -n " $(((member[column] - before[slot]) / 8))"
	done
	echo
}

# metadata: bitmaps and inode table blocks in use, from dumpe2fs.
metadata() {
	dumpe2fs /dev/md120 2>/dev/null | awk '
		function used(from, to, block) {
			for (block = int((from - start) / 16); block <= int((to - start) / 16) && from <= to; block++)
				if (block > last) print table + (last = block) >"tables"
		}
		/^Inodes per group:/ { inodes = $4 }
		/^Group / { start = ($2 + 0) * inodes + 1; last = -1 }
		/^  Block bitmap at/ { print $4 + 0 >"bitmaps" }
		/^  Inode bitmap at/ { print $4 + 0 >"bitmaps" }
		/^  Inode table at/ { table = $4 + 0 }
		/^  Free inodes:/ {
			at = start
			for (i = 3; i <= NF; i++) {
				n = split($i, run, "[-,]")
				used(at, run[1] - 1)
				at = (n > 1 && run[2] != "" ? run[2] : run[1]) + 1
			}
			used(at, start + inodes - 1)
		}'
}

# goals: the first free block of the groups where ext4_inode_to_goal_block()
# has directories and larger files begin, before there are any.
goals() {
	dumpe2fs "/dev/md120" 2>/dev/null | awk -v flex="$(sed -n 's/^Flex block group size: *//p' header)" '
		/^Group / { group = $2 + 0 }
		/^  Free blocks: [0-9]/ { split($3, run, "[-,]"); free[group] = run[1] }
		function first(at) { while (at <= group && !(at in free)) at++; return at in free ? free[at] : "" }
		END {
			if (flex < 1) flex = 1
			for (g = 0; g <= group; g += flex) {
				print first(g) >"goal_directories"
				# A last flex group may have no second group.
				if (flex < 4 || g + 1 <= group) print first(g + (flex >= 4)) >"goal_files"
			}
		}'
}

# place LEVEL DISKS CHUNK NAME OPTIONS...
place() {
	local name=$1-$2-$3-$4 kib
	local -a array=(--level "$1" --disks "$2" --chunk "$3K")
	shift 4
	# The journal is not looked at, and takes time.
	kib=$(($(blockdev --getsize64 /dev/md120) / 1024))
	if [ $# = 0 ] && [[ $name = *-recommended ]]; then
		raidtrace layout --plan "${kib}K" --search --json "${array[@]}" -O ^has_journal >"/out/$name.search.json"
		# shellcheck disable=SC2046 # words
		set -- $(sed 's/.*"command":"mkfs.ext4 \([^"]*\)DEVICE".*/\1/' "/out/$name.search.json")
	else
		set -- -O ^has_journal "$@"
	fi
	echo "$*" >"/out/$name.options"
	raidtrace layout --plan "${kib}K" --json "${array[@]}" "$@" >"/out/$name.json"

	mkfs.ext4 -q -F "$@" /dev/md120
	# A hash with this seed spreads the directories: with the same seed, every run has the same directories in the same groups.
	debugfs -w -R "set_super_value hash_seed 6d1a7c52-3a0e-4b7f-9d50-1f2e8c4b9a37" /dev/md120 2>/dev/null
	dumpe2fs -h /dev/md120 >header 2>/dev/null
	rm -f goal_* bitmaps tables
	goals
	# Rotational, because 6.12 does not try the goal group first on other disks.
	echo 1 >/sys/block/md120/queue/rotational
	mkdir -p /mnt/md120
	mount -o noatime,noinit_itable /dev/md120 /mnt/md120
	local from=$EPOCHSECONDS
	(
		cd /mnt/md120
		eval "mkdir d{1..$directories}"
		for ((i = 1; i <= directories; i++)); do
			eval "touch d$i/{1..$files}"
			printf %s "$small" >"d$i/small"
		done
		sync
		for ((i = 1; i <= directories; i++)); do printf %s "$large" >"d$i/large"; done
		sync
	)
	umount /mnt/md120
	for figure in directories small large; do
		for ((i = 1; i <= directories; i++)); do
			if [ $figure = directories ]; then echo "bmap /d$i 0"; else echo "bmap /d$i/$figure 0"; fi
		done | debugfs -f - /dev/md120 2>/dev/null | grep '^[0-9]' >"first_$figure"
	done
	metadata
	slots=()
	for ((i = 0; i < ${#disks[@]}; i++)); do
		slots+=("$(basename "$(readlink "/sys/block/md120/md/rd$i/block")")")
	done
	direction=(-d -r) column=2 verb=pread
	if [[ $name = 10-* ]]; then
		direction=(-d) column=6 verb=pwrite
		# Without a superblock write for each change between clean and active.
		echo 0 >/sys/block/md120/md/safe_mode_delay
		echo 'pwrite 0 4096' | xfs_io -d /dev/md120 >/dev/null
		wait_idle 1
	fi
	for figure in bitmaps tables goal_directories first_directories goal_files first_large first_small; do
		echo "$name $figure$(on_members "$figure")" | tee -a /out/placement
	done
	echo "$name: $((EPOCHSECONDS - from)) s"
}

# place_on_array LEVEL DISKS CHUNK NAME...: an array, and a filesystem on it for each NAME.
place_on_array() {
	local data=$2 options=() name
	if [ "$1" != 0 ]; then options=(--bitmap=none); fi
	case $1 in 5) data=$(($2 - 1)) ;; 6) data=$(($2 - 2)) ;; 10) data=$(($2 / 2)) ;; esac
	array md120 "$((65536 / data + 200))M" "$2" --level="$1" --chunk="$3" "${options[@]}"
	for name in "${@:4}"; do place "$1" "$2" "$3" "$name"; done
	mdadm --stop --quiet /dev/md120
	for ((i = 0; i < ${#disks[@]}; i++)); do
		losetup -d "/dev/loop$i"
		rm "/tmp/disk$i"
	done
	disks=()
	arrays=()
}

# Without arguments: the cases of the tests.
if [ $# = 0 ]; then set -- 0-12-512 5-8-64 6-8-512 10-8-64; fi
cd "$(mktemp -d)"
for words; do
	IFS=- read -r level count chunk name <<<"$words"
	# shellcheck disable=SC2086 # words
	place_on_array "$level" "$count" "$chunk" ${name:-defaults recommended} </dev/null
done
