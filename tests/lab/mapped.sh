#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Arrays whose members are device mapper devices: small direct writes, then a check. /out/expected has
# a line "ARRAY LEVEL WRITES BYTES" for each, where BYTES is what a check reads.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out
modprobe -a dm_mod dm_crypt raid1 raid10 raid456
declare -A writes

# table KIND SECTORS DISK: the table of a device of that many sectors on the disk.
table() {
	case $1 in
	linear) echo "0 $2 linear /dev/$3 2048" ;;
	# The legs are on the same disk.
	striped) echo "0 $2 striped 2 32 /dev/$3 2048 /dev/$3 $((4096 + $2 / 2))" ;;
	# Two pieces in reverse order, with a border in a chunk.
	pieces)
		echo "0 $(($2 / 2 + 8)) linear /dev/$3 $((2048 + $2 / 2))"
		echo "$(($2 / 2 + 8)) $(($2 / 2 - 8)) linear /dev/$3 2048" ;;
	crypt) echo "0 $2 crypt aes-xts-plain64 $(printf '%064d' 7) 0 /dev/$3 4096" ;;
	esac
}

# mapped KIND LEVEL COUNT WRITES: an array with a filesystem.
mapped() {
	local kind=$1 level=$2 count=$3 on=md$((120 + ${#arrays[@]})) devices=() disk first=${#disks[@]}
	add_disks "$count" 48M
	for disk in "${disks[@]:first}"; do
		table "$kind" $((40 << 11)) "$disk" | dmsetup create "on-$disk"
		devices+=("/dev/mapper/on-$disk")
	done
	dmsetup mknodes
	create_array "$on" --assume-clean --level="$level" --bitmap=none --raid-devices="$count" "${devices[@]}"
	filesystem "$on" -b 4096 -J size=4
	dd if=/dev/zero of="/mnt/$on/file" bs=1M count=21 oflag=direct status=none
	# Leave nothing in the stripe cache, so that each write needs pre-reads.
	if [ "$level" = 5 ]; then echo 17 >"/sys/block/$on/md/stripe_cache_size"; fi
	writes[$on]=$4
	echo "$on $level $4 $((count * $(<"/sys/block/$on/md/component_size") << 10))" >>/out/expected
}

mapped linear 5 4 300
mapped linear 1 2 20
mapped linear 10 4 20
mapped crypt 5 4 20
mapped crypt 1 2 20
mapped striped 5 4 20
mapped pieces 10 4 20
sync
interval=1 start_top mapped "${arrays[@]}"
for on in "${arrays[@]}"; do
	# Each block is in another stripe.
	each "${writes[$on]}" 4k 0 17 "/mnt/$on/file"
	echo check >"/sys/block/$on/md/sync_action"
done
for on in "${arrays[@]}"; do wait_until 600 is_rebuilt "$on"; done
wait_intervals
stop_top
