# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What lies between the array and ext4: stack NAME makes each of $volumes from
# $base and tells in $out/maps where they are: "DEVICE FIRST SECTORS VOLUME
# ITS-FIRST" a line, DEVICE being $base's name.

# volume NAME DEVICE, and the pieces "FIRST SECTORS ITS-FIRST" of it.
volume() {
	local name=$1 device=$2 piece
	shift 2
	volumes+=("$name")
	volume_of[$name]=$device
	for piece; do
		# shellcheck disable=SC2086
		set -- $piece
		echo "${base##*/} $1 $2 $name $3" >>"$out/maps"
	done
}

stack() {
	local all third b=${base#/dev/}
	all=$(blockdev --getsz "$base")
	third=$((all / 3 / 2048 * 2048))
	case $1 in
	whole | partitions) volume "$b" "$base" "0 $all 0" ;;
	partition)
		partition "$base" 2048
		volume "$b" "${base}p1" "2048 $((all - 2048)) 0" ;;
	lvm)
		# Two volumes; the second is of two pieces, the other way round.
		printf '0 %s linear %s 2048\n' "$((third - 2048))" "$base" | dmsetup create "$b-one"
		printf '0 %s linear %s %s\n%s %s linear %s %s\n' "$third" "$base" $((2 * third)) \
			"$third" "$third" "$base" "$third" | dmsetup create "$b-two"
		dmsetup mknodes
		volume "$b-one" "/dev/mapper/$b-one" "2048 $((third - 2048)) 0"
		volume "$b-two" "/dev/mapper/$b-two" "$((2 * third)) $third 0" "$third $third $third" ;;
	crypt)
		printf '0 %s crypt aes-xts-plain64 %s 0 %s 4096\n' $((all - 4096)) \
			000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f "$base" | dmsetup create "$b-secret"
		dmsetup mknodes
		volume "$b" "/dev/mapper/$b-secret" "4096 $((all - 4096)) 0" ;;
	none) ;;
	*) die "no stack $1" ;;
	esac
}

# make_filesystems: ext4 on each volume, mounted.
make_filesystems() {
	local name
	for name in "${volumes[@]}"; do
		# shellcheck disable=SC2086
		mkfs.ext4 -q -F -b 4096 -J size=${journal:-8} $mkfs "${volume_of[$name]}" </dev/null
		fixed "$name" "${volume_of[$name]}"
	done
}

mount_all() {
	local name
	for name in "${volumes[@]}"; do
		mkdir -p "/mnt/$name"
		# shellcheck disable=SC2086
		mount -o "noatime,${mount:-noinit_itable}" "${volume_of[$name]}" "/mnt/$name"
		mounts+=("/mnt/$name")
	done
}

# For as long as raidtrace finds out a file's path, its filesystem is in use.
unmount() {
	local attempt
	for ((attempt = 0; attempt < 20; attempt++)); do
		if umount "$1" 2>/dev/null; then return; fi
		sleep 0.5
	done
	umount "$1"
}

unmount_all() {
	local name
	for name in "${volumes[@]}"; do
		if grep -q " /mnt/$name " /proc/mounts; then
			find "/mnt/$name" -printf '%i\n' >"$out/fs-$name/numbers"
			unmount "/mnt/$name"
		fi
	done
	mounts=()
}
