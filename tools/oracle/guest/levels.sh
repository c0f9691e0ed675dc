# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The levels: level NAME creates $base, the device below the stack.

# parts COUNT: members for the stack, in $devices.
parts() {
	local count=$1 i
	if [ "$stack" = on-striped ]; then add_disks "$count" "$size"; fi # the second legs
	add_disks "$count" "$size"
	# Create mismatches for repair, in blocks that the filesystem does not read before it writes them.
	if [ "$workload" = repair ]; then
		head -c 1M /dev/zero | tr '\0' x | dd of="/tmp/disk$((${#disks[@]} - 1))" bs=64k seek=320 conv=notrunc status=none
	fi
	devices=()
	for ((i = ${#disks[@]} - count; i < ${#disks[@]}; i++)); do
		case $stack in
		partitions)
			partition "/dev/loop$i" 2048
			devices+=("/dev/loop${i}p1") ;;
		neighbour)
			partition "/dev/loop$i" 2048 133120
			devices+=("/dev/loop${i}p2") ;;
		on-*)
			mapping "${stack#on-}" "$(($(blockdev --getsz "/dev/loop$i") - 8192))" "/dev/loop$i" "/dev/loop$((i - count))" |
				dmsetup create "on-$i"
			dmsetup mknodes
			devices+=("/dev/mapper/on-$i") ;;
		*) devices+=("/dev/loop$i") ;;
		esac
	done
}

# mapping KIND SECTORS DISK OTHER: the table of a device mapper device on the disk; if it is striped, also on another one. With
# both legs on one disk, 6.18 and later send a write that has data and a flush to the disk unmapped (stripe_map()): md's
# superblock was found in front of the first leg.
mapping() {
	case $1 in
	linear) echo "0 $2 linear $3 4096" ;;
	striped) echo "0 $2 striped 2 32 $3 2048 $4 $((4096 + $2 / 2))" ;;
	crypt) echo "0 $2 crypt aes-xts-plain64 $(printf '%064d' 7) 0 $3 4096" ;;
	*) die "no mapping $1" ;;
	esac
}

# partition DISK FIRST-SECTOR...: a partition table. Each partition ends where the next begins.
partition() {
	local disk=$1 first end left=4
	shift
	{
		head -c 446 /dev/zero
		while [ $# -gt 0 ]; do
			first=$1
			shift
			end=${1:-$(blockdev --getsz "$disk")}
			printf '\0\0\0\0\203\0\0\0'
			le32 "$first"
			le32 "$((end - first))"
			left=$((left - 1))
		done
		head -c $((16 * left)) /dev/zero
		printf '\125\252'
	} | dd of="$disk" bs=512 conv=notrunc,fsync status=none
	case $disk in
	/dev/loop*) losetup -d "$disk"; losetup -P "$disk" "/tmp/disk${disk#/dev/loop}" ;;
	*) blockdev --rereadpt "$disk" ;;
	esac
	wait_until 120 test -b "${disk}p$#"
}

le32() {
	local i
	for ((i = 0; i < 32; i += 8)); do printf '%b' "\\x$(printf %02x $(($1 >> i & 255)))"; done
}

# dm_raid NAME: the array as LVM makes it, of device mapper: a metadata device, except for RAID 0, and a data device of each slot.
dm_raid() {
	local size=$size kind params='128 nosync region_size 1024 daemon_sleep 200' count dm=raid-$1 data=1 i pairs='' disk sectors each number
	case $1 in
	raid0) kind=raid0 params=128 count=3 data=3 ;;
	raid1) kind=raid1 params="0 ${params#* }" count=2 ;;
	raid10) kind=raid10 params+=' raid10_copies 2' count=4 data=2 ;;
	raid4) kind=raid4 count=4 data=3 ;;
	raid5) kind=raid5_ls count=4 data=3 ;;
	# The kernel builds its parity, so it is smaller.
	raid6) kind=raid6_zr count=5 data=3 params=${params/nosync /} size=200M ;;
	raid6-nr | raid6-nc) kind=raid6_${1#*-} count=5 data=3 params=${params/nosync /} size=200M ;;
	*) die "no level $1 of device mapper" ;;
	esac
	parts "$count"
	sectors=$((($(blockdev --getsz "${devices[0]}") - 10240) / 128 * 128))
	for ((i = 0; i < count; i++)); do
		disk=${devices[i]}
		if [ "$1" = raid0 ]; then
			pairs+=' -'
		else
			dmsetup create "${dm}_rmeta_$i" --table "0 8192 linear $disk 2048"
			pairs+=" /dev/mapper/${dm}_rmeta_$i"
		fi
		dmsetup create "${dm}_rimage_$i" --table "0 $sectors linear $disk 10240"
		pairs+=" /dev/mapper/${dm}_rimage_$i"
	done
	dmsetup mknodes
	dmsetup create "$dm" --table "0 $((sectors * data)) raid $kind $(wc -w <<<"$params") $params $count$pairs"
	dmsetup mknodes
	wait_until 900 is_built "$dm"
	mkdir -p "$out/$dm"
	dmsetup table "$dm" >"$out/$dm/table"
	for each in "/dev/mapper/${dm}_"r*; do
		number=$((0x$(stat -L -c %t "$each"))):$((0x$(stat -L -c %T "$each")))
		dmsetup table "${each##*/}" >"$out/$dm/table.$number"
	done
	printf '%d:%d\n' "0x$(stat -L -c %t "/dev/mapper/$dm")" "0x$(stat -L -c %T "/dev/mapper/$dm")" >"$out/dev.$dm"
	based "$1" "/dev/mapper/$dm"
}

# is_built NAME: "0 N raid raid6_zr 5 AAAAA 399360/399360 idle 0 0 -"
is_built() {
	local words
	read -r -a words < <(dmsetup status "$1")
	[ "${words[3]}" = raid0 ] || [ "${words[7]}" = idle ] && [ "${words[6]%/*}" = "${words[6]#*/}" ]
}

# joined NAME: the arrays of a name such as "raid1+raid5", in $below.
joined() {
	local part
	below=()
	for part in ${1//+/ }; do
		level "$part"
		below+=("$base")
		echo "$1 ${base##*/}" >>"$out/bases"
	done
}

# create MDADM-OPTIONS... DEVICES...: the next array, $md.
create() {
	md=md$((120 + ${#arrays[@]}))
	create_array "$md" "$@"
	# Clear bits of the bitmap soon, so that the members are idle sooner.
	if [ -e "/sys/block/$md/md/bitmap/time_base" ]; then echo 0.2 >"/sys/block/$md/md/bitmap/time_base" 2>/dev/null || true; fi
}

# containers NAME: a RAID 10 and the array of the run, a RAID 5, in one container. The RAID 10 has no filesystem.
containers() {
	local container=md$((119 - ${#arrays[@]})) first
	export MDADM_NO_SYSTEMCTL=1 MDADM_NO_UDEV=1
	mkdir -p /run/mdadm
	parts 4
	mdadm --create "/dev/$container" --run --quiet --metadata=ddf --raid-devices=4 "${devices[@]}" </dev/null
	# shellcheck disable=SC2086 # none or one word
	create --level=10 --raid-devices=4 --size=102400 $clean "/dev/$container"
	first=$md
	targets+=("/dev/$first")
	# shellcheck disable=SC2086 # none or one word
	create --level=5 --chunk=64 --raid-devices=4 --size=409600 $clean "/dev/$container"
	echo "$first" >"$out/beside.$md"
	based "$1" "/dev/$md"
}

# is_clean ARRAY: mdmon has written it.
is_clean() {
	[ "$(<"/sys/block/$1/md/array_state")" = clean ]
}

level() {
	local name=$1 level=${1%%-*} variant='' options=() missing=()
	if [ "$stack" = dm-raid ]; then dm_raid "$name"; return; fi
	case $name in *+*) joined "$name"; return ;; esac
	if [ "$level" != "$name" ]; then variant=${name#*-}; fi
	case $level in
	single)
		parts 1
		based "$name" "${devices[0]}"
		cat "/sys/class/block/${base#/dev/}/dev" >"$out/dev.${base#/dev/}"
		return ;;
	ddf) containers "$name"; return ;;
	raid0) parts 3; options=(--chunk=64) ;;
	linear) parts 3; options=(--rounding=64) ;;
	raid1) parts 2; options=(--bitmap=internal) ;;
	raid10) parts 4; options=(--chunk=64 --bitmap=internal) ;;
	raid4) parts 4; options=(--chunk=64 --bitmap=internal) ;;
	raid5) parts 4; options=(--chunk=64) ;;
	raid6) parts 5; options=(--chunk=64 --bitmap=internal) ;;
	raid01)
		# RAID 0 over two RAID 1.
		parts 4
		create --level=1 --raid-devices=2 --assume-clean --bitmap=internal "${devices[@]:0:2}"
		create --level=1 --raid-devices=2 --assume-clean --bitmap=internal "${devices[@]:2:2}"
		targets+=("/dev/${arrays[-2]}" "/dev/${arrays[-1]}")
		create --level=0 --raid-devices=2 --chunk=64 "/dev/${arrays[-2]}" "/dev/${arrays[-1]}"
		based "$name" "/dev/$md"
		return ;;
	*) die "no level $name" ;;
	esac
	case $level-$variant in
	*-) if [ "$level" = raid5 ]; then options+=(--bitmap=internal); fi ;;
	raid10-far) options+=(--layout=f2) ;;
	raid10-offset) options+=(--layout=o2) ;;
	raid10-near3) options+=(--layout=n3) ;;
	raid5-la | raid5-ra | raid5-rs) options+=(--layout="$variant") ;;
	raid6-ra) options+=(--layout=ra) ;;
	*-nobitmap) options+=(--bitmap=none) ;;
	raid5-ppl) options+=(--consistency-policy=ppl) ;;
	raid5-journal)
		add_disks 1 "$size"
		options+=(--write-journal "/dev/${disks[-1]}") ;;
	*-degraded) devices=("${devices[@]:0:${#devices[@]}-1}") missing=(missing) ;;
	*) die "no level $name" ;;
	esac
	if [ "$workload" = reshape ]; then options+=(--data-offset=8M); fi
	# shellcheck disable=SC2086 # none or one word
	create --level="${level#raid}" --raid-devices=$((${#devices[@]} + ${#missing[@]})) $clean $component \
		"${options[@]}" "${devices[@]}" "${missing[@]}"
	if [ "$workload" = resync ]; then echo frozen >"/sys/block/$md/md/sync_action"; fi
	second[$md]=${devices[1]:-}
	based "$name" "/dev/$md"
	case $workload in recovery | replace | reshape | turnover)
		add_disks 1 "$size"
		spare[$md]=/dev/${disks[-1]}
	esac
}

based() {
	base=$2
	targets+=("$base")
	echo "$1 ${base##*/}" >>"$out/bases"
}
