#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Arrays of device mapper's raid target, as LVM makes them: a metadata device and a data device of each slot, both linear on one disk,
# the metadata first. A case leaves CASE.out (raidtrace) and CASE.below: sectors that the disk, the metadata device and the data device of
# each slot read and wrote in the meantime.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

meta_sectors=8192 data_sectors=131072 chunk=128
slots=()
declare -A disk_of

# raid LEVEL SLOTS SECTORS PARAMETERS: /dev/mapper/vg-LEVEL on new disks. raid0 has no metadata devices.
raid() {
	local level=$1 count=$2 sectors=$3 params=$4 first=${#disks[@]} i pairs='' disk
	add_disks "$count" 80M
	for ((i = 0; i < count; i++)); do
		disk=/dev/${disks[first + i]}
		slots+=("$level $i")
		disk_of["$level $i"]=${disks[first + i]}
		dmsetup create "vg-${level}_rmeta_$i" --table "0 $meta_sectors linear $disk 2048"
		dmsetup create "vg-${level}_rimage_$i" --table "0 $data_sectors linear $disk $((2048 + meta_sectors))"
		dmsetup mknodes
		if [ "$level" = raid0 ]; then
			pairs+=" - /dev/mapper/vg-${level}_rimage_$i"
		else
			pairs+=" /dev/mapper/vg-${level}_rmeta_$i /dev/mapper/vg-${level}_rimage_$i"
		fi
	done
	dmsetup create "vg-$level" --table "0 $sectors raid $level $(wc -w <<<"$params") $params $count$pairs"
	dmsetup mknodes
	wait_until 300 is_done "$level"
	mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "/dev/mapper/vg-$level"
	mkdir -p "/mnt/$level"
	mount -o noatime "/dev/mapper/vg-$level" "/mnt/$level"
}
is_done() {
	local words
	read -r -a words < <(dmsetup status "vg-$1")
	[ "$1" = raid0 ] || [ "${words[7]}" = idle ] && { [ "$1" = raid0 ] || [ "${words[6]%/*}" = "${words[6]#*/}" ]; }
}

# sectors DEVICE: read and written.
sectors() {
	local f
	read -r -a f <"/sys/block/$1/stat"
	echo "${f[2]} ${f[6]}"
}

# kernel NAME: the kernel's name of a mapped device; that of one without any IO if there is none.
kernel() { if dmsetup info "$1" >/dev/null 2>&1; then echo "dm-$(dmsetup info -c --noheadings -o minor "$1")"; else echo loop63; fi; }

# below: the level of each slot and the sectors of its disk, its metadata device and its data device.
below() {
	local name level i
	for name in "${slots[@]}"; do
		read -r level i <<<"$name"
		echo "$level $(sectors "${disk_of[$name]}") $(sectors "$(kernel "vg-${level}_rmeta_$i")") $(sectors "$(kernel "vg-${level}_rimage_$i")") ${disk_of[$name]}"
	done
}

# during NAME COMMAND LEVEL...: traces the arrays while the command runs on each.
during() {
	local name=$1 command=$2 level
	shift 2
	sync
	wait_idle 3
	start_top "$name" "${@/#//mnt/}"
	below >/run/before
	for level; do "$command" "$level"; done
	sync
	wait_idle 3
	wait_intervals
	below >/run/after
	stop_top
	paste -d ' ' /run/before /run/after |
		awk '{ print $1 "." $8, $10 - $2, $11 - $3, $12 - $4, $13 - $5, $14 - $6, $15 - $7 }' >"/out/$name.below"
	cat "/out/$name.below"
}

work() {
	local m=/mnt/$1
	dd if=/dev/zero of="$m/whole" bs=768k count=8 oflag=direct conv=fsync status=none
	mkdir "$m"/dir{1..20}
	for dir in "$m"/dir*; do echo x >"$dir/file"; done
	sync
	dd if=/dev/zero of="$m/whole" bs=4k count=1 seek=5 oflag=direct conv=notrunc status=none
	echo 3 >/proc/sys/vm/drop_caches
	cat "$m"/dir*/file >/dev/null
	dd if="$m/whole" of=/dev/null bs=64k iflag=direct status=none
}

check() {
	dmsetup message "vg-$1" 0 check
	wait_until 300 is_done "$1"
}

modprobe dm-raid
while read -r level count data params; do
	raid "$level" "$count" $((data * data_sectors)) "$params"
done <<-END
	raid1 2 1 0 nosync region_size 1024
	raid5_ls 3 2 $chunk nosync region_size 1024
	raid4 3 2 $chunk nosync region_size 1024
	raid6_zr 4 2 $chunk region_size 1024
	raid10 4 2 $chunk nosync region_size 1024 raid10_copies 2
	raid0 2 2 $chunk
END
during work work raid1 raid5_ls raid4 raid6_zr raid10 raid0
during check check raid1 raid5_ls

# A data device fails.
is_degraded() { dmsetup status vg-raid1 | grep -q ' AD '; }
dmsetup suspend --noflush vg-raid1_rimage_1
dmsetup reload vg-raid1_rimage_1 --table "0 $data_sectors error"
dmsetup resume vg-raid1_rimage_1
dd if=/dev/zero of=/mnt/raid1/failed bs=4k count=1 oflag=direct status=none
wait_until 60 is_degraded
raidtrace top --json -n 1 >"$out/failed.json"
raidtrace doctor /mnt/raid1 >"$out/doctor.txt" 2>"$out/doctor.err" || true
