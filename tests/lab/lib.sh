# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# What the guest scripts of tests/lab share. What they leave in /out is what
# tools/judge/compare reads.
set -euo pipefail

tracing=/sys/kernel/tracing
members=()    # all members of all arrays, "loop0 loop1 ..."
arrays=()     # "md120 md121 ..."
name=''       # of what follow() has begun

die() {
	echo "lab: $*" >&2
	exit 1
}

# array NAME SIZE COUNT MDADM-OPTIONS...: of sparse loop devices.
array() {
	local name=$1 size=$2 count=$3 first=${#members[@]} devices=()
	shift 3
	for ((i = first; i < first + count; i++)); do
		truncate -s "$size" "/tmp/member$i"
		losetup "/dev/loop$i" "/tmp/member$i"
		members+=("loop$i")
		devices+=("/dev/loop$i")
	done
	arrays+=("$name")
	mdadm --create "/dev/$name" --run --assume-clean --quiet --raid-devices="$count" "$@" "${devices[@]}"
}

# filesystem NAME MKE2FS-OPTIONS...: and mounts it on /mnt/NAME. The kernel's
# lazy zeroing of inode tables would go on through the whole run.
filesystem() {
	local name=$1
	shift
	mkfs.ext4 -q "$@" "/dev/$name"
	mkdir -p "/mnt/$name"
	mount -o noatime,noinit_itable "/dev/$name" "/mnt/$name"
}

# unmount DIR...: again, where raidtrace just looks for the path of a file there.
unmount() {
	local dir
	for dir; do
		for ((tenth = 0; tenth < 50; tenth++)); do
			if umount "$dir" 2>/out/unmount.err; then continue 2; fi
			grep -q 'busy' /out/unmount.err || break
			echo "busy: $dir" >>/out/unmount.busy
			sleep 0.1
		done
		cat /out/unmount.err >&2
		return 1
	done
}

# Where everything is, in the words of mdadm, dumpe2fs and debugfs.
places() {
	local name=$1 to=/out/$1 member
	mkdir -p "$to"
	for path in "/sys/block/$name"/md/rd*/block; do
		member=$(readlink "$path")
		member=${member##*/}
		echo "$(<"$path/dev") $member" >>"$to/members"
		mdadm --examine "/dev/$member" >"$to/examine.$member"
		if [ "$(<"/sys/block/$name/md/level")" != raid0 ]; then
			mdadm --examine-bitmap "/dev/$member" >"$to/bitmap.$member"
		fi
	done
	dumpe2fs -h "/dev/$name" >"$to/header" 2>/dev/null
	# All of it, with the bitmaps read, takes 13 s for 9600 groups here.
	dumpe2fs -g "/dev/$name" >"$to/groups" 2>/dev/null
	debugfs -R 'stat <8>' "/dev/$name" >"$to/inode.8" 2>/dev/null
	debugfs -R 'stat <7>' "/dev/$name" 2>/dev/null | head -c 4000 >"$to/inode.7" || true
}

# snapshot LABEL: the members' disk statistics.
snapshot() {
	local member figures
	for member in "${members[@]}"; do
		read -r figures <"/sys/block/$member/stat"
		echo "$1 $member $figures"
	done >>/out/stat
}

# quiet SECONDS: waits until no member has completed anything for so long.
quiet() {
	local wanted=$1 calm=0 before='' now member f
	for ((second = 0; second < 60; second++)); do
		now=''
		for member in "${members[@]}"; do
			read -r -a f <"/sys/block/$member/stat"
			now+="${f[0]},${f[4]},${f[8]},${f[11]},${f[15]} "
		done
		if [ "$now" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
		if [ "$calm" -ge "$wanted" ]; then return; fi
		before=$now
		sleep 1
	done
	die "the members were not quiet within 60 s"
}

# begin: raidtrace on all arrays, then the kernel's own events; both see all
# from here on, because the members are quiet.
begin() {
	local array
	sync
	for array in "${arrays[@]}"; do places "$array"; done
	quiet 4
	raidtrace top --json --interval 1 "${arrays[@]/#//dev/}" >/out/top.json 2>/out/top.err &
	raidtrace=$!
	for ((tenth = 0; ; tenth++)); do
		if read -r _ 2>/dev/null </out/top.json; then break; fi
		if ! kill -0 "$raidtrace" || [ "$tenth" = 600 ]; then
			cat /out/top.err >&2
			die "raidtrace printed no line"
		fi
		sleep 0.1
	done
	# The lab's kernels take every program: one that is refused is a mistake of ours.
	if grep -q "kernel refused" /out/top.err; then
		cat /out/top.err >&2
		die "a program was refused"
	fi
	echo 16384 >"$tracing/buffer_size_kb"
	echo 1 >"$tracing/events/block/block_rq_complete/enable"
	snapshot start
	echo "begun at ${EPOCHREALTIME%.*}"
}

# end: when the members are quiet again. Gives what raidtrace ended with. It reads the layout again after an unmount, which it
# says, and which would be counted on one side only while it ends.
end() {
	local status=0 array
	for array in "${arrays[@]}"; do
		if grep -q " /mnt/$array " /proc/mounts; then continue; fi
		for ((tenth = 0; tenth < 200; tenth++)); do
			if grep -q "unmounted from /mnt/$array" /out/top.err || ! kill -0 "$raidtrace" 2>/dev/null; then break; fi
			sleep 0.1
		done
	done
	quiet 4
	snapshot end
	kill -INT "$raidtrace"
	wait "$raidtrace" || status=$?
	echo 0 >"$tracing/events/block/block_rq_complete/enable"
	snapshot after
	cat "$tracing/trace" >/out/trace
	cat "$tracing"/per_cpu/cpu*/stats >/out/trace.stats
	echo "$status" >/out/top.status
	echo "ended at ${EPOCHREALTIME%.*} with $status"
}

# follow NAME ARGS...: raidtrace top in the background, until it has printed a line.
follow() {
	name=$1
	shift
	raidtrace top --json --interval "${interval:-0.5}" "$@" >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	for ((tenth = 0; tenth < 300; tenth++)); do
		if [ -s "/out/$name.out" ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
		sleep 0.1
	done
}

# shown: waits for two more intervals of it: what was done before is in the first of them at the latest.
shown() {
	local lines
	lines=$(wc -l <"/out/$name.out")
	for ((tenth = 0; tenth < 300; tenth++)); do
		if [ "$(wc -l <"/out/$name.out")" -ge $((lines + 2)) ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
		sleep 0.1
	done
}

# followed: ends it.
followed() {
	local status=0
	sleep 2
	kill -INT "$pid" 2>/dev/null || true
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

# noted WHAT COMMAND...: does it, and waits for raidtrace to say so.
noted() {
	local what=$1 before=${EPOCHREALTIME/./} said
	shift
	said=$(grep -c -- "$what" "/out/$name.err" || true)
	"$@" >>"/out/$name.log" 2>&1 || echo "failed: $*: $?" >>"/out/$name.did"
	for ((tenth = 0; tenth < ${patience:-1800}; tenth++)); do
		if [ "$(grep -c -- "$what" "/out/$name.err")" -gt "$said" ]; then
			echo "$what: after $(((${EPOCHREALTIME/./} - before) / 1000)) ms" >>"/out/$name.did"
			return
		fi
		sleep 0.1
	done
	echo "failed: not noted in time: $what" >>"/out/$name.did"
}

write_files() {
	mkdir -p "/mnt/$1/d"{1..20}
	for dir in "/mnt/$1"/d*; do echo "$dir" >"$dir/file"; done
	sync
}

# in_cgroup DIR COMMAND...: all of the command's life in that cgroup.
in_cgroup() {
	local dir=$1
	shift
	# shellcheck disable=SC2016 # the inner shell's
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
}

# limited CASE DIR ARRAY: what a process of the cgroup DIR, which has a limit,
# writes and reads, directly and through the page cache. raidtrace watches.
limited() {
	local name=$1 dir=$2 on=$3 file=/mnt/$3/direct
	follow "$name" "$on"
	in_cgroup "$dir" dd if=/dev/zero of="$file" bs=1M count=10 oflag=direct conv=notrunc status=none
	in_cgroup "$dir" dd if="$file" of=/dev/null bs=1M count=4 iflag=direct status=none
	in_cgroup "$dir" dd if=/dev/zero of="/mnt/$on/$name" bs=1M count=4 conv=fsync status=none
	followed
	# By dd, of file data.
	echo "write $((14 << 20))" >"/out/$name.did"
	echo "read $((4 << 20))" >>"/out/$name.did"
}

# alloc_punch DEVICE AWK: frees blocks of /big. AWK is the body of a loop over `at`, an absolute block, which it also has to advance;
# free(N) frees N blocks from there, where /big has them all.
alloc_punch() {
	# (0-14335[u]):10241-24576
	debugfs -R 'stat /big' "$1" 2>/dev/null | grep -oE '\([0-9]+-[0-9]+(\[u\])?\):[0-9]+-[0-9]+' |
		sed 's/[^0-9]\+/ /g' | awk '
			function free(n) {
				if (at + n - 1 <= $4) printf "punch big %d %d\n", $1 + at - $3, $1 + at - $3 + n - 1
			}
			{ for (at = $3; at <= $4;) { '"$2"' } }' >/tmp/punch
	debugfs -w -f /tmp/punch "$1" >/dev/null 2>&1
}

# alloc_full DEVICE DIR: a filesystem of groups of 8 MiB without free space; nearly all of it is /big.
alloc_full() {
	local free n=0
	mkfs.ext4 -q -b 1024 -g 8192 -N 65536 -O ^resize_inode -E nodiscard,lazy_itable_init=0 -J size=8 -m 0 "$1"
	mkdir -p "$2"
	mount -o noatime "$1" "$2"
	mkdir "$2/dir"
	free=$(stat -f -c %a "$2")
	fallocate -l "$((free - 3000))K" "$2/big"
	while fallocate -l 64K "$2/dir/fill$((n++))" 2>/dev/null; do :; done
	sync
	unmount "$2"
}

# alloc_watched NAME DIR COMMAND...: raidtrace alloc --json on DIR while COMMAND runs.
alloc_watched() {
	local name=$1 dir=$2 status=0 pid tenth
	shift 2
	raidtrace alloc --json --interval 0.5 "$dir" >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	for ((tenth = 0; tenth < 300; tenth++)); do
		if [ -s "/out/$name.out" ] || ! kill -0 "$pid" 2>/dev/null; then break; fi
		sleep 0.1
	done
	"$@"
	sync
	sleep 3
	kill -INT "$pid"
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

# alloc_files DIR NAME COUNT BYTES: without a process for each.
alloc_files() {
	local text
	printf -v text '%*s' "$4" ''
	for ((i = 0; i < $3; i++)); do
		printf %s "$text" >"$1/$2$i"
		if ((i % 400 == 399)); then sync; fi
	done
}
