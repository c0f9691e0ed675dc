#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# LVM's RAID volumes of all levels, and one that dmsetup makes in the same way: a metadata device and a data device of each slot. The raid1
# was enlarged when the space behind its data was taken: each of its data devices has two pieces. A case leaves CASE.out (raidtrace) and
# CASE.below: sectors that the disk, the metadata device and the data device of each slot read and wrote in the meantime.
# Then a disk of the raid1 fails, doctor's command repairs it while it is traced, and it is converted to raid5 while it is traced.
# At last the raid4 is activated without one of its disks.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

meta_sectors=8192 data_sectors=131072 chunk=128
slots=()
declare -A disk_of

# LVM without udev and its daemons. loop1 is below the disk that fails.
mkdir -p /etc/lvm /run/lvm /run/lock/lvm
cat >/etc/lvm/lvm.conf <<-END
	devices { obtain_device_list_from_udev=0 use_devicesfile=0 global_filter=["r|/dev/loop1$|", "a|/dev/loop|", "a|/dev/mapper/fails|", "r|.*|"] }
	activation { udev_sync=0 udev_rules=0 monitoring=0 raid_region_size=512 }
	global { use_lvmpolld=0 }
	backup { backup=0 archive=0 }
END
lvm() { command lvm "$@" 2>>/out/lvm.err; }

# new_slots LEVEL COUNT: adds COUNT disks for the slots of a volume.
new_slots() {
	local first=${#disks[@]} i
	add_disks "$2" 80M
	for ((i = 0; i < $2; i++)); do
		slots+=("$1 $i")
		disk_of["$1 $i"]=${disks[first + i]}
	done
}

# volume LEVEL SLOTS LVCREATE-OPTIONS...: /dev/vg/LEVEL on new disks.
volume() {
	local level=$1 count=$2 first=${#disks[@]} pvs
	shift 2
	new_slots "$level" "$count"
	pvs=("${disks[@]:first}")
	pvs=("${pvs[@]/#//dev/}")
	if [ "$level" = raid1 ]; then
		# The second disk can fail: it is below a device whose table changes.
		dmsetup create fails --table "0 $(blockdev --getsz "${pvs[1]}") linear ${pvs[1]} 0"
		dmsetup mknodes
		pvs[1]=/dev/mapper/fails
	fi
	lvm pvcreate -q "${pvs[@]}"
	if lvm vgs vg >/dev/null; then lvm vgextend -q vg "${pvs[@]}"; else lvm vgcreate -q vg "${pvs[@]}"; fi
	lvm lvcreate -q -y -Wn --type "$level" -n "$level" "$@" vg "${pvs[@]}"
	if [ "$level" = raid1 ]; then
		lvm lvcreate -q -y -Wn -l1 -n between0 vg "${pvs[0]}"
		lvm lvcreate -q -y -Wn -l1 -n between1 vg "${pvs[1]}"
		lvm lvextend -q -L64M vg/raid1
		[ "$(dmsetup table vg-raid1_rimage_0 | wc -l)" = 2 ]
		lvm lvremove -q -y vg/between0 vg/between1
	fi
	mounted "$level"
}

# by_hand LEVEL SLOTS SECTORS PARAMETERS: the same, made by dmsetup.
by_hand() {
	local level=$1 count=$2 sectors=$3 params=$4 first=${#disks[@]} i pairs='' disk
	new_slots "$level" "$count"
	for ((i = 0; i < count; i++)); do
		disk=/dev/${disks[first + i]}
		dmsetup create "vg-${level}_rmeta_$i" --table "0 $meta_sectors linear $disk 2048"
		dmsetup create "vg-${level}_rimage_$i" --table "0 $data_sectors linear $disk $((2048 + meta_sectors))"
		dmsetup mknodes
		pairs+=" /dev/mapper/vg-${level}_rmeta_$i /dev/mapper/vg-${level}_rimage_$i"
	done
	dmsetup create "vg-$level" --table "0 $sectors raid $level $(wc -w <<<"$params") $params $count$pairs"
	dmsetup mknodes
	mounted "$level"
}

mounted() {
	wait_until 900 is_done "$1"
	mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "/dev/mapper/vg-$1"
	mkdir -p "/mnt/$1"
	mount -o noatime "/dev/mapper/vg-$1" "/mnt/$1"
}
is_done() {
	local words
	read -r -a words < <(dmsetup status "vg-$1")
	[ "$1" = raid0 ] || [ "${words[7]}" = idle ] && { [ "$1" = raid0 ] || [ "${words[6]%/*}" = "${words[6]#*/}" ]; }
}

# sectors DEVICE: read and written; of no device 0.
sectors() {
	local f
	if [ "$1" = none ]; then echo 0 0 && return; fi
	read -r -a f <"/sys/block/$1/stat"
	echo "${f[2]} ${f[6]}"
}

# kernel NAME: the kernel's name of a mapped device, or none.
kernel() { if dmsetup info "$1" >/dev/null 2>&1; then echo "dm-$(dmsetup info -c --noheadings -o minor "$1")"; else echo none; fi; }

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
	wait_idle 6 # md clears bits of its bitmaps in rounds, 5 s apart
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
	if [ "$1" = raid10 ]; then dmsetup message "vg-$1" 0 check; else lvm lvchange --syncaction check "vg/$1"; fi
	wait_until 900 is_done "$1"
}

modprobe dm-raid
volume raid1 2 -m1 -L32M --nosync
volume raid5_ls 3 -i2 -L128M --nosync
volume raid4 3 -i2 -L128M --nosync
volume raid6_zr 5 -i3 -L192M
volume raid0 2 -i2 -L128M
by_hand raid10 4 $((2 * data_sectors)) "$chunk nosync region_size 1024 raid10_copies 2"
lvm lvs -a -o name,segtype,devices
during work work raid1 raid5_ls raid4 raid6_zr raid10 raid0
during check check raid1 raid5_ls raid10

# A disk fails.
is_degraded() { dmsetup status vg-raid1 | grep -q ' AD '; }
dmsetup suspend --noflush fails
dmsetup reload fails --table "0 $(blockdev --getsz /dev/mapper/fails) error"
dmsetup resume fails
dd if=/dev/zero of=/mnt/raid1/failed bs=4k count=1 oflag=direct status=none
wait_until 60 is_degraded
raidtrace top --json -n 1 >"$out/failed.json"
raidtrace doctor /mnt/raid1 >"$out/doctor.txt" 2>"$out/doctor.err" || true

# Runs the commands that doctor printed. The volume group gets another disk for the repair.
mapfile -t commands < <(grep -oE '(lvconvert --repair|vgreduce --removemissing) [a-z0-9/]+' "$out/doctor.txt" | sort -u)
add_disks 1 80M
lvm pvcreate -q "/dev/${disks[-1]}"
lvm vgextend -q vg "/dev/${disks[-1]}"
echo "${disks[-1]}" >/out/spare
is_repaired() { dmsetup status vg-raid1 | grep -q ' AA '; }
start_top repair /mnt/raid1
# shellcheck disable=SC2086 # words
lvm ${commands[0]} -y
wait_until 900 is_repaired
# shellcheck disable=SC2086
lvm ${commands[1]}
wait_shown "\"name\":\"${disks[-1]}\""
for _ in {1..20}; do dd if=/dev/zero of=/mnt/raid1/repaired bs=64k count=20 oflag=direct conv=notrunc status=none; done
wait_intervals
stop_top

# An array of two disks becomes a RAID 5 while it is traced.
start_top convert /mnt/raid1
lvm lvconvert -q -y --type raid5 vg/raid1
wait_shown '"level":"raid5"'
wait_intervals
wc -l </out/convert.out >/out/converted
dd if=/dev/zero of=/mnt/raid1/converted bs=64k count=64 oflag=direct conv=fsync status=none
sync
wait_idle 3
wait_intervals
stop_top

# A disk is gone before the volume is activated: LVM puts error targets in its place.
unmount /mnt/raid4
lvm lvchange -an vg/raid4
losetup -d "/dev/${disk_of["raid4 1"]}"
lvm lvchange -ay --activationmode degraded vg/raid4
mount -o noatime /dev/mapper/vg-raid4 /mnt/raid4
start_top missing /mnt/raid4
for _ in {1..20}; do dd if=/dev/zero of=/mnt/raid4/degraded bs=64k count=20 oflag=direct conv=notrunc status=none; done
wait_intervals
stop_top
raidtrace doctor /mnt/raid4 >"$out/doctor_missing.txt" 2>&1 || true
