# shellcheck shell=bash disable=SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# XFS in place of ext4: the stacks that start with xfs.

# make_xfs NAME DEVICE: XFS with every feature that has blocks of its own. The log is the smallest that mkfs.xfs accepts.
make_xfs() {
	local features=(-m 'rmapbt=1,reflink=1,finobt=1') log=64m
	case $format in
	v4) features=(-m crc=0) ;;
	1k) features+=(-b size=1k) ;;
	64k) features+=(-b size=64k) log=160m ;;
	esac
	mkfs.xfs -q -f "${features[@]}" -d agcount=4 -l "size=$log${log_of[$1]:+,logdev=${log_of[$1]}}" "$2" </dev/null
}

# log_array VOLUME: an array for the log of a volume, under raidtrace like the other.
log_array() {
	add_disks 2 96M
	create --level=1 --raid-devices=2 --assume-clean --bitmap=none "/dev/${disks[-2]}" "/dev/${disks[-1]}"
	targets+=("/dev/$md")
	log_of[$1]=/dev/$md
	mkdir -p "$out/fs-$1"
	echo "$md" >"$out/fs-$1/log"
}

# xfs_database NAME OPTIONS...
xfs_database() {
	local name=$1
	shift
	xfs_db ${log_of[$name]:+-l "${log_of[$name]}"} "$@" "${volume_of[$name]}"
}

# describe_xfs NAME DEVICE: the superblock, and the device's number, in $out/fs-NAME.
describe_xfs() {
	local to=$out/fs-$1
	mkdir -p "$to"
	xfs_database "$1" -r -c 'sb 0' -c p >"$to/superblock"
	printf '%d:%d\n' "0x$(stat -L -c %t "$2")" "0x$(stat -L -c %T "$2")" >"$to/dev"
}

field() { sed -n "s/^$2 = //p" "$1"; }

# list_xfs_blocks NAME: the type of each block after the run, in $out/fs-NAME/blocks: lines "FSBLOCK COUNT TYPE".
list_xfs_blocks() {
	local to=$out/fs-$1 group blocks agblocks left commands=(-c 'blockget -n')
	blocks=$(field "$to/superblock" dblocks)
	agblocks=$(field "$to/superblock" agblocks)
	for ((group = 0; group * agblocks < blocks; group++)); do
		left=$((blocks - group * agblocks))
		commands+=(-c "fsblock $((group << $(field "$to/superblock" agblklog)))")
		commands+=(-c "blockuse -n -c $((left < agblocks ? left : agblocks))")
	done
	xfs_database "$1" -r "${commands[@]}" 2>"$to/blocks.err" | awk '
		$1 != "block" { print >"/dev/stderr"; next }
		$5 == type && $2 == first + count { count++; next }
		{ if (count) print first, count, type; first = $2; count = 1; type = $5 }
		END { if (count) print first, count, type }' >"$to/blocks"
	# blockuse prints the type of the fork for blocks of its extent tree.
	xfs_database "$1" -r -c fsmap | awk -F '[ :/]+' -v each="$((1 << $(field "$to/superblock" agblklog)))" '
		/ bmbt 1 / { print $2 * each + $3, $5, "btbmap" }' >>"$to/blocks"
}

# seed_xfs NAME: the files seed, seed-nodes and seed-remote, with extended attributes in a leaf, in a tree of leaves and
# in blocks of their own. The guest has no setfattr.
seed_xfs() {
	# xfs_db does not count the blocks for quotas: the first mount with quotas does.
	local seeds=/mnt/$1 name i commands=() mount=noquota
	mkdir -p "$seeds"
	mount_volume "$1"
	for name in seed seed-nodes seed-remote; do
		echo "$name" >"$seeds/$name"
		commands+=(-c "inode $(stat -c %i "$seeds/$name")")
		case $name in
		seed) commands+=(-c 'attr_set -u -v 800 truth') ;;
		seed-nodes) for ((i = 0; i < 40; i++)); do commands+=(-c "attr_set -u -v 250 truth-$i"); done ;;
		seed-remote) commands+=(-c 'attr_set -u -v 9000 truth') ;;
		esac
	done
	umount "$seeds"
	xfs_database "$1" -x "${commands[@]}" >/dev/null
}

# settle: writes all metadata back and covers the log, so that XFS has nothing to write while it is idle.
settle() {
	local name
	for name in "${volumes[@]}"; do
		if [ "${kind_of[$name]}" = xfs ]; then xfs_io -x -c freeze -c thaw "/mnt/$name"; fi
	done
}

# Every kind of block, in every order: created, shared, overwritten, freed and read again.
every_kind() {
	local m i commands=() over=()
	# More extents than fit into an inode.
	for ((i = 0; i < 80; i++)); do commands+=(-c "pwrite -q $((i * 16))k 4k"); done
	for ((i = 0; i < 20; i++)); do over+=(-c "pwrite -q $((i * 36))k 4k"); done
	for m in "${mounts[@]}"; do
		tree "$m/tree" 12 6
		mkdir "$m/many"
		for ((i = 0; i < 1200; i++)); do : >"$m/many/$long-$i"; done
		for ((i = 0; i < 6; i++)); do attributed "$m/seed" "$m/tree/directory-$i/attributed"; done
		attributed "$m/seed-nodes" "$m/nodes"
		attributed "$m/seed-remote" "$m/remote"
		ln -s "$long/$long/$long/$long" "$m/link"
		xfs_io -f "${commands[@]}" -c fsync "$m/extents"
		dd if=/dev/zero of="$m/large" bs=768k count=2 oflag=direct status=none
		cp --reflink=always "$m/large" "$m/shared"
		xfs_io -d "${over[@]}" -c fsync "$m/shared"
		chown 7 "$m/extents" "$m/tree/directory-1"/*
	done
	sync
	settle
	for m in "${mounts[@]}"; do
		rm -r "$m"/tree/directory-*5 "$m"/many/*[37] "$m/large"
		mv "$m/remote" "$m/tree/remote"
		dd if=/dev/zero of="$m/again" bs=256k count=6 conv=fsync status=none
	done
	sync
	settle
	drop_caches
	drop_caches
	cold_xfs
	sync
}

cold_xfs() {
	local m
	for m in "${mounts[@]}"; do
		ls -lR "$m" >/dev/null
		cp -a "$m/nodes" "$m/tree/remote" "$m/seed" /run/ && rm /run/nodes /run/remote /run/seed
		cat "$m"/tree/*/file-[12] "$m/extents" "$m/link" >/dev/null 2>&1 || true
		dd if="$m/shared" of=/dev/null bs=256k iflag=direct status=none
	done
}

# The same filesystem, unmounted and mounted again under raidtrace: everything is read from the disks.
before_remount() { every_kind; }
remount() {
	local name
	for name in "${volumes[@]}"; do
		unmount "/mnt/$name"
		mount_volume "$name"
	done
	cold_xfs
	sync
}
