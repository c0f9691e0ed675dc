#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Volumes in containers (DDF, IMSM), which share disks; mdmon writes the metadata. See count_during() for the files of
# a case, and CASE.places: member, origin and bytes of reads at the addresses of metadata.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out /run/mdadm

# mdadm: an IMSM container without Intel's firmware, on disks without serial numbers; mdmon without systemd.
export IMSM_NO_PLATFORM=1 IMSM_DEVNAME_AS_SERIAL=1 MDADM_NO_SYSTEMCTL=1 MDADM_NO_UDEV=1

volume() { # NAME CONTAINER MDADM-OPTIONS...
	local name=$1 container=$2
	shift 2
	create_array "$name" "$@" "/dev/$container"
	wait_until 900 is_settled "$name"
	mkfs.ext4 -q -F -b 4096 -J size=4 -E lazy_itable_init=0 "/dev/$name"
}
# mdmon has written that the volume is clean.
is_settled() {
	[ "$(<"/sys/block/$1/md/array_state")" = clean ] &&
		{ [ ! -e "/sys/block/$1/md/sync_action" ] || is_rebuilt "$1"; }
}

mount_volume() {
	mkdir -p "/mnt/$1"
	mount -o noatime,noinit_itable "/dev/$1" "/mnt/$1"
}

# write VOLUME: 32 MiB of file data, and flushes.
write() {
	local i
	dd if=/dev/zero of="/mnt/$1/file" bs=1M count=32 oflag=direct status=none
	for ((i = 0; i < 10; i++)); do
		dd if=/dev/zero of="/mnt/$1/file" bs=4k count=1 seek=$((i * 97)) oflag=direct conv=notrunc,fdatasync status=none
	done
	sync -f "/mnt/$1"
	wait_until 900 has_state "$1" clean
}

# read_at CASE DISK SECTOR ORIGIN: reads 4 KiB.
read_at() {
	dd "if=/dev/$2" of=/dev/null bs=4096 count=1 skip=$(($3 * 512)) iflag=direct,skip_bytes status=none
	echo "$2 $4 4096" >>"/out/$1.places"
}

# start FILE: sector of a container's or volume's member in sysfs.
start() { echo $(($(<"/sys/block/$1"))); }

add_disks 4 512M
create_array md127 -e ddf -n4 /dev/loop{0..3}
volume md121 md127 -l10 -n4 -z 102400
volume md122 md127 -l5 -n4 -z 102400
mount_volume md122
watched=(loop0 loop1 loop2 loop3)
count_during ddf 'md121 md122' write md122
# Only one of the two is traced. The write of the other is not its own.
one_traced() {
	dd if=/dev/zero of=/dev/md121 bs=1M count=1 seek=40 oflag=direct status=none
	write md122
	wait_until 900 has_state md121 clean
}
count_during alone md121 one_traced
size=$(blockdev --getsz /dev/loop0)
ddf_places() {
	local data metadata
	data=$(start md122/md/dev-loop0/offset)
	metadata=$(start md127/md/dev-loop0/offset)
	read_at ddf_places loop0 $((data - 8)) file_data    # the end of md121
	read_at ddf_places loop0 $((data + 204800)) raw
	read_at ddf_places loop0 "$metadata" md_superblock
	read_at ddf_places loop0 $((size - 8)) md_superblock
}
count_during ddf_places 'md121 md122' ddf_places
unmount /mnt/md122

add_disks 2 300M
create_array md126 -e imsm -n2 /dev/loop4 /dev/loop5
volume md123 md126 -l0 -n2 -z 65536
volume md124 md126 -l1 -n2 -z 65536
mount_volume md123
mount_volume md124
watched=(loop4 loop5)
both() {
	write md123
	write md124
}
count_during imsm 'md123 md124' both
unmount /mnt/md123 /mnt/md124

add_disks 3 300M
create_array md125 -e imsm -n3 /dev/loop6 /dev/loop7 /dev/loop8
volume md119 md125 -l5 -n3 -z 65536 --consistency-policy=ppl
volume md120 md125 -l5 -n3 -z 65536 --bitmap=internal
mount_volume md119
mount_volume md120
watched=(loop6 loop7 loop8)
logged() {
	write md119
	write md120
}
count_during logs 'md119 md120' logged
for volume in md119 md120; do
	grep -H . /sys/block/$volume/md/{consistency_policy,bitmap/location,dev-loop6/{offset,size,ppl_sector,ppl_size}}
done
