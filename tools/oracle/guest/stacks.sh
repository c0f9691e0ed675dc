# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The stacks between array and filesystem: stack NAME creates each of $volumes on $base, and writes a line for each piece
# to $out/maps: "DEVICE FIRST SECTORS VOLUME FIRST-OF-VOLUME", where DEVICE is $base.

# volume NAME DEVICE PIECE...: a piece is "FIRST SECTORS FIRST-OF-VOLUME".
volume() {
	local name=$1 device=$2 piece
	shift 2
	volumes+=("$name")
	kind_of[$name]=$fs
	volume_of[$name]=$device
	for piece; do
		# shellcheck disable=SC2086
		set -- $piece
		echo "${base##*/} $1 $2 $name $3" >>"$out/maps"
	done
}

stack() {
	local all third b=${base##*/}
	all=$(blockdev --getsz "$base")
	third=$((all / 3 / 2048 * 2048))
	case $1 in
	whole | partitions | neighbour | on-* | dm-raid) volume "$b" "$base" "0 $all 0" ;;
	partition)
		partition "$base" 2048
		volume "$b" "${base}p1" "2048 $((all - 2048)) 0" ;;
	log)
		volume "$b" "$base" "0 $all 0"
		log_array "$b" ;;
	lvm | ext4)
		# Two volumes. The second has two pieces in reverse order.
		printf '0 %s linear %s 2048\n' "$((third - 2048))" "$base" | dmsetup create "$b-one"
		printf '0 %s linear %s %s\n%s %s linear %s %s\n' "$third" "$base" $((2 * third)) \
			"$third" "$third" "$base" "$third" | dmsetup create "$b-two"
		dmsetup mknodes
		volume "$b-one" "/dev/mapper/$b-one" "2048 $((third - 2048)) 0"
		volume "$b-two" "/dev/mapper/$b-two" "$((2 * third)) $third 0" "$third $third $third"
		if [ "$1" = ext4 ]; then kind_of[$b-two]=ext4; fi ;;
	crypt)
		printf '0 %s crypt aes-xts-plain64 %s 0 %s 4096\n' $((all - 4096)) \
			000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "$base" | dmsetup create "$b-secret"
		dmsetup mknodes
		volume "$b" "/dev/mapper/$b-secret" "4096 $((all - 4096)) 0" ;;
	linear | striped) volume_over_arrays "$1" ;;
	none) ;;
	*) die "no stack $1" ;;
	esac
}

# volume_over_arrays KIND: a volume over the arrays $below, on which LVM's first MiB is left out. A stripe has 64 KiB.
volume_over_arrays() {
	local kind=$1 name=over-${below[0]##*/} count=${#below[@]} size least=0 i at=0 table=''
	for base in "${below[@]}"; do
		size=$((($(blockdev --getsz "$base") - 2048) / 2048 * 2048))
		if ((least == 0 || size < least)); then least=$size; fi
	done
	for ((i = 0; i < count; i++)); do
		base=${below[i]}
		if [ "$kind" = striped ]; then
			table+=" $base 2048"
			awk -v base="${base##*/}" -v name="$name" -v i="$i" -v count="$count" -v size="$least" 'BEGIN {
				for (at = 0; at < size; at += 128) print base, 2048 + at, 128, name, at * count + i * 128
			}' >>"$out/maps"
			continue
		fi
		size=$((($(blockdev --getsz "$base") - 2048) / 2048 * 2048))
		table+="$at $size linear $base 2048"$'\n'
		echo "${base##*/} 2048 $size $name $at" >>"$out/maps"
		at=$((at + size))
	done
	if [ "$kind" = striped ]; then table="0 $((least * count)) striped $count 128$table"; fi
	dmsetup create "$name" <<<"$table"
	dmsetup mknodes
	volume "$name" "/dev/mapper/$name"
}

# make_filesystems: ext4 or XFS on each volume.
make_filesystems() {
	local name
	for name in "${volumes[@]}"; do
		if [ "${kind_of[$name]}" = xfs ]; then
			make_xfs "$name" "${volume_of[$name]}"
			describe_xfs "$name" "${volume_of[$name]}"
			continue
		fi
		# shellcheck disable=SC2086
		mkfs.ext4 -q -F -b 4096 -J size=${journal:-8} $mkfs "${volume_of[$name]}" </dev/null
		describe_filesystem "$name" "${volume_of[$name]}"
	done
}

mount_all() {
	local name
	for name in "${volumes[@]}"; do
		mkdir -p "/mnt/$name"
		mount_volume "$name"
		mounts+=("/mnt/$name")
	done
}

mount_volume() {
	local mount=${mount:-noinit_itable}
	if [ "${kind_of[$1]}" != "$fs" ]; then mount=noinit_itable; fi
	mount -t "${kind_of[$1]}" -o "noatime,$mount${log_of[$1]:+,logdev=${log_of[$1]}}" "${volume_of[$1]}" "/mnt/$1"
}

unmount_all() {
	local name
	for name in "${volumes[@]}"; do
		if grep -q " /mnt/$name " /proc/mounts; then
			if [ "${kind_of[$name]}" = ext4 ]; then find "/mnt/$name" -printf '%i\n' >"$out/fs-$name/numbers"; fi
			unmount "/mnt/$name"
		fi
	done
	mounts=()
}

# The stack "neighbour": a filesystem on the first partition of the first disk of each level. It does IO while the
# members are idle, between two marks in the trace. Its requests go to $out/neighbour.
neighbour() {
	local disk i
	wait_idle 2
	for disk in "${disks[@]}"; do counts "$disk"; done >/run/before
	echo 'neighbour: begin' >"$tracing/trace_marker"
	for disk in "${neighbours[@]}"; do
		# Mounted only briefly, because every sync flushes the disks of all filesystems.
		mkdir -p "/mnt/beside-$disk"
		mount -o noatime "/dev/${disk}p1" "/mnt/beside-$disk"
		xfs_io -f -c 'pwrite -q 0 4k' -c fsync "/mnt/beside-$disk/file"
		for ((i = 0; i < 20; i++)); do
			xfs_io -d -c 'pwrite -q 0 4k' -c fdatasync "/mnt/beside-$disk/file"
		done
		unmount "/mnt/beside-$disk"
	done
	wait_idle 2
	echo 'neighbour: end' >"$tracing/trace_marker"
	for disk in "${disks[@]}"; do counts "$disk"; done >/run/after
	paste -d ' ' /run/before /run/after | awk '{ print $1, $7 - $2, $8 - $3, $9 - $4, $10 - $5 }' >"$out/neighbour"
}

# counts DISK: reads, writes, discards and flushes.
counts() {
	local f
	read -r -a f <"/sys/block/$1/stat"
	echo "$1 ${f[0]} ${f[4]} ${f[11]} ${f[15]}"
}

make_neighbours() {
	local disk
	for disk in "${neighbours[@]}"; do
		mkfs.ext4 -q -F -b 4096 -J size=4 -E lazy_itable_init=0 "/dev/${disk}p1" </dev/null
	done
}
