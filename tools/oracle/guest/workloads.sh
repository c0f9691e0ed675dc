# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The workloads. before_X, if defined, runs before raidtrace starts, with the filesystems mounted.

printf -v small '%6000s' ''
printf -v long '%0200d' 0

# tree DIR DIRS FILES
tree() {
	local dir=$1 d f
	for ((d = 0; d < $2; d++)); do
		mkdir -p "$dir/directory-$d"
		for ((f = 0; f < $3; f++)); do printf %s "$small" >"$dir/directory-$d/file-$f"; done
	done
}

# attributed SEED TO...: files with the seed's extended attributes, which need a block.
attributed() {
	local seed=$1 to
	shift
	for to; do cp -a "$seed" "$to"; done
}

drop_caches() {
	sync
	echo 3 >/proc/sys/vm/drop_caches
}

# Small and large files, direct and buffered IO, deletes and reads.
mix() {
	local m
	for m in "${mounts[@]}"; do
		tree "$m/mix" 12 6
		dd if=/dev/zero of="$m/large" bs=640k count=6 oflag=direct status=none
		dd if=/dev/zero of="$m/buffered" bs=1M count=4 status=none
	done
	sync
	for m in "${mounts[@]}"; do
		# Far apart, so that each write is in another stripe.
		xfs_io -d -c 'pwrite -q 12k 4k' -c 'pwrite -q 308k 4k' -c 'pwrite -q 1600k 8k' -c fsync \
			-c 'pwrite -q 2004k 4k' -c 'pwrite -q 2900k 12k' "$m/large"
		rm -r "$m"/mix/directory-*5
	done
	drop_caches
	for m in "${mounts[@]}"; do
		cat "$m"/mix/*/file-[01] "$m/buffered" >/dev/null
		dd if="$m/large" of=/dev/null bs=256k iflag=direct status=none
	done
	sync
}

storm() {
	local m i
	for m in "${mounts[@]}"; do
		tree "$m/storm" 30 5
		mkdir "$m/many"
		for ((i = 0; i < 400; i++)); do : >"$m/many/$long-$i"; done
		for ((i = 0; i < 20; i++)); do attributed "$m/seed" "$m/storm/directory-$i/attributed"; done
		for ((i = 0; i < 200; i += 4)); do mv "$m/many/$long-$i" "$m/many/renamed-$i"; done
		sync
		rm -r "$m"/storm/directory-*7 "$m"/many/*1
		ln -s "$small" "$m/link" 2>/dev/null || ln -s "$long" "$m/link"
	done
	sync
}

fio_run() {
	local m
	for m in "${mounts[@]}"; do
		fio --name=job --filename="$m/fio" --size=12M --ioengine=psync --randseed=7 --group_reporting "$@" >"$out/fio" 2>&1 ||
			die "fio: $(tail -n 3 "$out/fio")"
	done
	sync
}
fio_random_direct() { fio_run --rw=randrw --bs=4k --direct=1 --number_ios=1500; }
fio_random_buffered() { fio_run --rw=randwrite --bs=4k --number_ios=2000 --fsync=200; }
fio_sequential_direct() { fio_run --rw=rw --bs=256k --direct=1; }
fio_sequential_buffered() { fio_run --rw=write --bs=64k; drop_caches; fio_run --rw=read --bs=64k; }

fsyncs() {
	local m i commands=()
	for ((i = 0; i < 80; i++)); do commands+=(-c "pwrite -q $((i * 3))k 3k" -c fsync); done
	for m in "${mounts[@]}"; do
		xfs_io -f "${commands[@]}" "$m/log"
		for ((i = 0; i < 15; i++)); do xfs_io -f -c 'pwrite -q 0 1k' -c fsync "$m/small-$i"; done
	done
	sync
}

falloc() {
	local m i commands=()
	for ((i = 0; i < 60; i++)); do commands+=(-c "fpunch $((i * 64 + 8))k 12k"); done
	for m in "${mounts[@]}"; do
		xfs_io -f -c 'falloc 0 8m' -c 'pwrite -q 1m 64k' -c 'pwrite -q 3m 4k' -c fsync -c 'pwrite -q 0 4m' -c fsync \
			"${commands[@]}" -c fsync -c 'fzero 5m 256k' -c fsync "$m/sparse"
	done
	sync
}

discard() {
	local m
	for m in "${mounts[@]}"; do
		tree "$m/kept" 6 4
		tree "$m/gone" 3 4
		dd if=/dev/zero of="$m/kept/large" bs=1M count=4 conv=fsync status=none
		dd if=/dev/zero of="$m/large" bs=1M count=1 conv=fsync status=none
		rm -r "$m/gone" "$m/large"
		sync
		fstrim "$m" || echo "no discard on $m"
	done
	sync
}

# Without a filesystem.
raw() {
	local base
	for base in "${bases[@]}"; do
		dd if=/dev/zero of="$base" bs=64k count=64 seek=3 oflag=direct status=none
		dd if=/dev/zero of="$base" bs=4k count=20 seek=700 oflag=direct status=none
		dd if="$base" of=/dev/null bs=4k count=300 skip=500 iflag=direct status=none
		dd if=/dev/zero of="$base" bs=1M count=3 seek=9 conv=fsync status=none
	done
}

before_cold() {
	local m i
	storm
	for m in "${mounts[@]}"; do
		# Enough extents for an extent block.
		commands=()
		for ((i = 0; i < 40; i++)); do commands+=(-c "pwrite -q $((i * 16))k 4k"); done
		for f in a b c; do xfs_io -f "${commands[@]}" -c fsync "$m/holes-$f"; done
	done
}
cold() {
	local m
	drop_caches
	for m in "${mounts[@]}"; do
		ls -lR "$m" >/dev/null
		find "$m" -newer /etc/passwd >/dev/null
		cp -a "$m"/storm/directory-[1-3] /run/copied && rm -rf /run/copied
		cat "$m"/storm/*/file-[12] "$m"/holes-* >/dev/null
	done
}

# Like cold, with directories without an index, and with block maps as in ext2 and ext3.
before_dir_linear() { before_cold; }
dir_linear() { cold; }
before_indirect() { before_cold; }
indirect() { cold; }

# A task (a backup, e2fsck -n) reads the device of a mounted filesystem, also before the run, so that the first blocks
# that ext4 writes, including journal blocks, are in pages that the reader created. The filesystem has one group, so that
# everything is in the first blocks.
before_device_read() {
	before_cold
	drop_caches
	read_devices
}
device_read() {
	local name m kib=(128 64 1024) round
	for ((round = 0; round < 3; round++)); do
		for name in "${disks[@]}"; do echo "${kib[round]}" >"/sys/block/$name/queue/max_sectors_kb"; done
		drop_caches
		read_devices
		for m in "${mounts[@]}"; do
			mv "$m/many/$long-2" "$m/many/moved-$round"
			mv "$m/many/moved-$round" "$m/many/$long-2"
			touch "$m/storm/directory-2/new-$round"
		done
		drop_caches
		read_devices
	done
}
read_devices() {
	local name
	for name in "${volumes[@]}"; do
		blockdev --flushbufs "${volume_of[$name]}"
		dd if="${volume_of[$name]}" of=/dev/null bs=1M count=13 status=none
	done
}

# A process in a cgroup with an IO limit. The kernel's account of it is the cgroup's io.stat.
before_throttled() {
	local base at=/sys/fs/cgroup/limited
	echo +io >/sys/fs/cgroup/cgroup.subtree_control
	mkdir -p "$at"
	for base in "${bases[@]}"; do
		echo "$(<"/sys/class/block/${base##*/}/dev") rbps=4194304 wbps=4194304" >"$at/io.max"
	done
}
throttled() {
	local m at=/sys/fs/cgroup/limited
	cat "$at/io.stat" >"$out/io.before"
	for m in "${mounts[@]}"; do
		dd if=/dev/zero of="$m/free" bs=640k count=4 oflag=direct status=none
		(
			echo "$BASHPID" >"$at/cgroup.procs"
			dd if=/dev/zero of="$m/limited" bs=640k count=6 oflag=direct status=none
			dd if="$m/limited" of=/dev/null bs=256k iflag=direct status=none
			dd if=/dev/zero of="$m/limited-buffered" bs=1M count=2 conv=fsync status=none
		)
	done
	sync
	cat "$at/io.stat" >"$out/io.after"
	mix
}

# mkfs with the same options while raidtrace still uses the layout of the first filesystem.
mkfs_again() {
	unmount_all
	local name
	for name in "${volumes[@]}"; do
		# shellcheck disable=SC2086
		mkfs.ext4 -q -F -b 4096 -J size=${journal:-8} $mkfs "${volume_of[$name]}" </dev/null
	done
	mount_all
	mix
}

lazy_init() {
	# mount has started the thread.
	wait_until 900 is_initialized
	mix
}
is_initialized() {
	! pgrep ext4lazyinit >/dev/null
}

# A sync action under load. Returns when the action has finished.
under_load() {
	speed 4000
	each "$1"
	mix
	speed 200000
	each synced
}

each() {
	local md
	for md in "${arrays[@]}"; do "$1" "$md"; done
}

any() {
	local md
	for md in "${arrays[@]}"; do
		if "$1" "$md"; then return; fi
	done
	return 1
}

speed() {
	local md
	for md in "${arrays[@]}"; do
		# The minimum may not exceed the maximum.
		echo 1 >"/sys/block/$md/md/sync_speed_min"
		echo "$1" >"/sys/block/$md/md/sync_speed_max"
		echo "$1" >"/sys/block/$md/md/sync_speed_min"
	done
}

synced() { wait_until 600 is_in_sync "$1"; }
is_in_sync() { [ "$(<"/sys/block/$1/md/sync_action")" = idle ]; }

act() { echo "$workload" >"/sys/block/$1/md/sync_action"; }
check() { under_load act; }
repair() { under_load act; }
# The initial resync of a new array, which was frozen until now.
resync() { under_load act; }

# The other sync actions are in progress during the whole run: md waits at sync_max before and after it. A member
# that joins is counted only once raidtrace has found it.
wait_at() {
	local md
	for md in "${arrays[@]}"; do echo "$1" >"/sys/block/$md/md/sync_max"; done
}

wait_for_sync_max() { wait_until 600 is_at_sync_max "$1"; }
is_at_sync_max() { # MD
	local done_so_far
	done_so_far=$(<"/sys/block/$1/md/sync_completed")
	done_so_far=${done_so_far%% *}
	if [ "$done_so_far" != none ] && [ "$done_so_far" -ge "$(<"/sys/block/$1/md/sync_max")" ]; then return; fi
	# A reshape may finish without waiting.
	is_in_sync "$1"
}

during_sync() {
	speed 4000
	wait_at 40960
	mix
	speed 200000
	each wait_for_sync_max
}

# A member fails and a spare replaces it.
before_recovery() {
	wait_at 2048
	each fail
	each remove
	each wait_for_sync_max
}
fail() { mdadm --quiet "/dev/$1" --fail "${second[$1]}"; }
# md refuses to remove a member that a request uses.
remove() {
	wait_until 120 mdadm --quiet "/dev/$1" --remove "${second[$1]}"
	mdadm --quiet "/dev/$1" --add "${spare[$1]}"
}
recovery() { during_sync; }

before_replace() {
	wait_at 2048
	each add
	each instead
	each wait_for_sync_max
}
add() { mdadm --quiet "/dev/$1" --add "${spare[$1]}"; }
instead() { mdadm --quiet "/dev/$1" --replace "${second[$1]}" --with "${spare[$1]}"; }
replace() { during_sync; }

# A reshape that adds a disk. Users' writes between the position in md's superblock (reshape_safe) and the progress
# (reshape_progress) wait for the next superblock (drivers/md/raid5.c, get_reshape_loc()), forever if the reshape is
# frozen. At sync_max, md writes its superblock before it waits, so no write is blocked. sync_max cannot be lowered
# during a reshape and mdadm sets it at the start, so the reshape is frozen once, before any IO. md moves data into the
# free space before the data; without it mdadm stays to back up what is overwritten.
before_reshape() {
	local m
	for m in "${mounts[@]}"; do dd if=/dev/zero of="$m/spread" bs=1M count=36 conv=fsync status=none; done
	each add
	speed 1000
	each grow
	each wait_until_started
	each first_stop
	speed 200000
	each continue_reshape
	each wait_for_stop
}
grow() {
	local disks
	disks=$(<"/sys/block/$1/md/raid_disks")
	mdadm --quiet --grow "/dev/$1" --raid-devices=$((${disks%% *} + 1)) || die "mdadm --grow: $?"
}
wait_until_started() { # MD
	wait_until 900 has_started "$1"
	echo frozen >"/sys/block/$1/md/sync_action"
}
has_started() { # MD
	local done_so_far
	read -r done_so_far _ <"/sys/block/$1/md/sync_completed"
	[ "$done_so_far" != none ] && [ "$done_so_far" -gt 0 ]
}
# sync_max of RAID 10 is in sectors of the array, of other levels in sectors of a member.
first_stop() { stop "$1" 8192 32768; }
last_stop() { stop "$1" 24576 65536; }
stop() { # MD MEMBER-SECTORS RAID10-SECTORS
	local at=$2
	if [ "$(<"/sys/block/$1/md/level")" = raid10 ]; then at=$3; fi
	echo "$at" >"/sys/block/$1/md/sync_max"
}
continue_reshape() { echo reshape >"/sys/block/$1/md/sync_action"; }
# Single blocks all over the file: none crosses the position where a RAID 10 waits, because it would block.
poke() { # FIRST-KIB
	local m i commands=()
	for ((i = $1; i < 36 * 1024; i += 868)); do
		commands+=(-c "pwrite -q ${i}k 4k" -c "pread -q $((i + 128))k 4k")
	done
	for m in "${mounts[@]}"; do xfs_io -d "${commands[@]}" "$m/spread"; done
}
# RAID 10 reports the position in its superblock, not its progress.
wait_for_stop() {
	if [ "$(<"/sys/block/$1/md/level")" = raid10 ]; then wait_idle 3; else wait_for_sync_max "$1"; fi
}
on_its_way() { # MD
	local done_so_far
	read -r done_so_far _ <"/sys/block/$1/md/sync_completed"
	[ "$done_so_far" != none ] && [ $((done_so_far + 4096)) -lt "$(<"/sys/block/$1/md/sync_max")" ]
}
reshape() {
	local m round
	# The reshape waits, and part of the file has moved.
	poke 0
	speed 500
	each last_stop
	mix
	for ((round = 1; round < 15; round++)); do
		if ! any on_its_way; then break; fi
		poke $((round * 4))
		# The first blocks of the file are between directories.
		for m in "${mounts[@]}"; do
			dd if="$m/spread" of=/dev/null bs=192k skip=$((round * 12 - 12)) count=24 iflag=direct status=none
		done
		sync
	done
	speed 200000
	each wait_for_stop
	poke 400
}

# During the run: a member fails and is removed, a spare joins and is rebuilt. md waits until raidtrace reports the new
# member, so that the uncounted part does not depend on the guest's speed. A mark in the trace ends that part.
turnover() {
	mix
	each fail
	mix
	wait_at 0
	each remove
	each known
	under_load onwards
}
known() {
	wait_until 900 is_known "$1"
	echo "known: $(<"/sys/block/${spare[$1]##*/}/dev")" >"$tracing/trace_marker"
}
is_known() { grep -q "$1: .*joined" "$out/top.err"; }
onwards() { echo max >"/sys/block/$1/md/sync_max"; }
