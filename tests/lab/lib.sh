# shellcheck shell=bash disable=SC2154 # guest.sh has the variables
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Shared functions of the scenarios in tests/lab. guest.sh is from tools/oracle/guest.
# shellcheck source-path=SCRIPTDIR/../../tools/oracle/guest
. ./guest.sh

name=''    # of the last start_top()

# array NAME SIZE COUNT MDADM-OPTIONS...: an array of COUNT new sparse loop devices.
array() {
	local name=$1 size=$2 count=$3 first=${#disks[@]} new
	shift 3
	add_disks "$count" "$size"
	new=("${disks[@]:first}")
	create_array "$name" --assume-clean --raid-devices="$count" "$@" "${new[@]/#//dev/}"
}

# filesystem NAME MKE2FS-OPTIONS...: makes it and mounts it on /mnt/NAME, without the kernel's lazy zeroing of inode
# tables, which would last for the whole run.
filesystem() {
	local name=$1
	shift
	mkfs.ext4 -q "$@" "/dev/$name"
	mkdir -p "/mnt/$name"
	mount -o noatime,noinit_itable "/dev/$name" "/mnt/$name"
}

# begin: starts a run (begin_run of guest.sh) on all arrays; each must have a filesystem.
begin() {
	local array
	for array in "${arrays[@]}"; do
		describe_filesystem "$array" "/dev/$array"
		# DEVICE FIRST SECTORS VOLUME FIRST-OF-VOLUME, see stacks.sh
		echo "$array 0 $(blockdev --getsz "/dev/$array") $array 0" >>"$out/maps"
		targets+=("/dev/$array")
	done
	begin_run
}

# end: ends the run. raidtrace reads the layout again after an unmount. Waits for that: while the run ends, the reads would be
# counted by only one of raidtrace and the reference trace.
end() {
	local array
	for array in "${arrays[@]}"; do
		if grep -q " /mnt/$array " /proc/mounts; then continue; fi
		wait_until 900 has_noted "unmounted from /mnt/$array" 1 "$out/top.err" "$raidtrace"
	done
	end_run
}

# has_noted PATTERN COUNT FILE PID: FILE has COUNT matching lines, or the process has ended.
has_noted() {
	[ "$(grep -c -- "$1" "$3")" -ge "$2" ] || has_ended "$4"
}

# has_lines FILE COUNT PID: FILE has COUNT lines, or the process has ended.
has_lines() {
	[ "$(wc -l <"$1")" -ge "$2" ] || has_ended "$3"
}

# is_larger FILE BYTES
is_larger() {
	[ "$(stat -c %s "$1" 2>/dev/null || echo 0)" -ge "$2" ]
}

# has_state ARRAY STATE: md's array_state, for example clean: its superblocks are written before the next write.
has_state() {
	[ "$(<"/sys/block/$1/md/array_state")" = "$2" ]
}

# is_rebuilt ARRAY: no member is missing, and no sync action is pending.
is_rebuilt() {
	local md=/sys/block/$1/md
	[ "$(<"$md/degraded")" = 0 ] && [ "$(<"$md/sync_action")" = idle ]
}

# is_syncing ARRAY: a sync action has begun.
is_syncing() {
	local done_so_far
	read -r done_so_far _ <"/sys/block/$1/md/sync_completed"
	[ "$done_so_far" != none ] && [ "$done_so_far" != delayed ]
}

# remove ARRAY DEVICE: removes a failed member. md refuses until no request uses the member.
remove() {
	wait_until 120 mdadm --quiet "/dev/$1" --remove "$2"
}

# start_top NAME ARGS...: starts raidtrace top in the background and waits for its first line. IO counts from then on.
start_top() {
	name=$1
	shift
	raidtrace top --json --interval "${interval:-0.5}" "$@" >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	wait_until 900 has_printed "/out/$name.out" "$pid"
}

# wait_intervals: waits for two more lines of raidtrace's output. All that was done before the call is in them or in earlier
# lines: the first of them may have begun before.
wait_intervals() {
	local lines
	lines=$(wc -l <"/out/$name.out")
	wait_until 900 has_lines "/out/$name.out" $((lines + 2)) "$pid"
}

# wait_shown PATTERN: waits until the last line of raidtrace's output matches.
wait_shown() {
	wait_until 900 is_shown "$1"
}
is_shown() {
	grep -q -- "$1" <<<"$(tail -n 1 "/out/$name.out")" || has_ended "$pid"
}

# stop_top: stops top. Its exit status goes to NAME.status. SIGINT ends the last interval, which has all IO that was complete by
# then.
stop_top() {
	local status=0
	kill -INT "$pid" 2>/dev/null || true
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

# wait_for_note PATTERN COMMAND...: runs the command and waits until raidtrace has printed one more matching note, after it has
# applied the change. Adds a line "PATTERN: after N ms" or "failed: ..." to NAME.did.
wait_for_note() {
	local pattern=$1 before=${EPOCHREALTIME/./} printed
	shift
	printed=$(grep -c -- "$pattern" "/out/$name.err" || true)
	"$@" >>"/out/$name.log" 2>&1 || echo "failed: $*: $?" >>"/out/$name.did"
	wait_until 600 has_noted "$pattern" $((printed + 1)) "/out/$name.err" "$pid"
	echo "$pattern: after $(((${EPOCHREALTIME/./} - before) / 1000)) ms" >>"/out/$name.did"
}

# completed: reads, writes, discards and flushes of each of $watched (Documentation/admin-guide/iostats).
completed() {
	local device f
	for device in "${watched[@]}"; do
		read -r -a f <"/sys/class/block/$device/stat"
		echo "$device ${f[0]} ${f[4]} ${f[11]} ${f[15]}"
	done
}

# count_during CASE TARGETS COMMAND: traces the targets while COMMAND runs; the members are idle before and after it. Leaves
# CASE.out, and in CASE.stat what each of $watched completed meanwhile, "NAME READS WRITES DISCARDS FLUSHES" a line.
count_during() {
	local name=$1 on=$2
	shift 2
	sync
	wait_idle 2
	# shellcheck disable=SC2086 # words
	start_top "$name" $on
	completed >/run/before
	"$@"
	wait_idle 2
	completed >/run/after
	stop_top
	paste -d ' ' /run/before /run/after | awk '{ print $1, $7 - $2, $8 - $3, $9 - $4, $10 - $5 }' >"/out/$name.stat"
	sed "s/^/$name: /" "/out/$name.stat"
}

write_files() {
	mkdir -p "/mnt/$1/d"{1..20}
	for dir in "/mnt/$1"/d*; do echo "$dir" >"$dir/file"; done
	sync
}

# delayed NAME DISK READ WRITE FLUSH: prints the table of a dm-delay device, with delays in ms.
delayed() {
	local size
	size=$(blockdev --getsz "/dev/$2")
	printf '0 %s delay /dev/%s 0 %s /dev/%s 0 %s /dev/%s 0 %s\n' "$size" "$2" "$3" "$2" "$4" "$2" "$5"
}

# delay NAME DISK READ WRITE FLUSH: changes the delays of a dm-delay device.
delay() {
	dmsetup suspend "$1"
	delayed "$@" | dmsetup reload "$1"
	dmsetup resume "$1"
}

# beside FILE BLOCK COMMAND...: runs the command, and meanwhile reads a block of the file directly, again and again.
beside() {
	local file=$1 block=$2 writer
	shift 2
	"$@" &
	writer=$!
	while kill -0 "$writer" 2>/dev/null; do
		dd if="$file" of=/dev/null bs=4k count=1 skip="$block" iflag=direct status=none
	done
	wait "$writer"
}

# again COUNT COMMAND...: runs the command that often.
again() {
	local i
	for ((i = 0; i < $1; i++)); do "${@:2}"; done
}

# each COUNT BYTES FIRST STEP FILE: direct writes of that many bytes, at FIRST, FIRST + STEP and so on, in units of BYTES.
each() {
	local i
	for ((i = 0; i < $1; i++)); do
		dd if=/dev/zero of="$5" bs="$2" count=1 seek=$(($3 + i * $4)) oflag=direct conv=notrunc status=none
	done
}

# graph FUNCTION...: measures each call of these functions with the function graph tracer. Functions that this kernel lacks are
# skipped.
graph() {
	local function
	echo 0 >$tracing/tracing_on
	echo nop >$tracing/current_tracer
	echo 4096 >$tracing/buffer_size_kb
	: >$tracing/set_graph_function
	for function; do echo "$function" >>$tracing/set_graph_function 2>/dev/null || true; done
	echo 1 >$tracing/max_graph_depth
	echo function_graph >$tracing/current_tracer
	echo 1 >$tracing/options/funcgraph-proc
	echo 1 >$tracing/options/funcgraph-tail
	echo 1 >$tracing/tracing_on
}

# slow_disks COUNT SIZE: adds loop devices, with devices slow0, slow1, ... on them, without delays yet.
slow_disks() {
	local i first=${#disks[@]}
	add_disks "$1" "$2"
	for ((i = first; i < first + $1; i++)); do delayed "slow$i" "loop$i" 0 0 0 | dmsetup create "slow$i"; done
	dmsetup mknodes
}

# begin_slow NAME ARGS...: starts raidtrace slow and waits for its first line.
begin_slow() {
	name=$1 printed=0
	shift
	(cd / && exec raidtrace slow --json "$@" >"$out/$name.out" 2>"$out/$name.err") &
	pid=$!
	wait_until 900 has_printed "$out/$name.out" "$pid"
}

# end_part CASE: what it has printed since the last call goes to CASE.out, and the function graph to CASE.graph. A start of
# raidtrace takes longer than most cases.
end_part() {
	wait_intervals
	tail -n +$((printed + 1)) "$out/$name.out" >"$out/$1.out"
	printed=$(wc -l <"$out/$name.out")
	cp "$out/$name.err" "$out/$1.err"
	echo 0 >"$out/$1.status"
	end_graph "$1"
}
printed=0

end_graph() {
	echo 0 >$tracing/tracing_on
	cat $tracing/trace >"$out/$1.graph"
	echo nop >$tracing/current_tracer
}

# end_slow: ends it, and the function graph. SIGINT ends the last interval, which has all operations that have ended.
end_slow() {
	local status=0
	kill -INT "$pid"
	wait "$pid" || status=$?
	echo "$status" >"$out/$name.status"
	end_graph "$name"
	cat "$out/$name.err"
}

# in_cgroup DIR COMMAND...: the command, in that cgroup from its start.
in_cgroup() {
	local dir=$1
	shift
	# shellcheck disable=SC2016 # the inner shell's
	bash -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$dir" "$@"
}

# limited CASE DIR ARRAY: traces a process of the cgroup DIR, which has an IO limit, while it writes and reads, directly
# and through the page cache.
limited() {
	local name=$1 dir=$2 on=$3 file=/mnt/$3/direct
	start_top "$name" "$on"
	in_cgroup "$dir" dd if=/dev/zero of="$file" bs=1M count=10 oflag=direct conv=notrunc status=none
	in_cgroup "$dir" dd if="$file" of=/dev/null bs=1M count=4 iflag=direct status=none
	in_cgroup "$dir" dd if=/dev/zero of="/mnt/$on/$name" bs=1M count=4 conv=fsync status=none
	stop_top
	# Bytes of file data that dd wrote and read: lines "OPERATION BYTES".
	echo "write $((14 << 20))" >"/out/$name.did"
	echo "read $((4 << 20))" >>"/out/$name.did"
}

# alloc_punch DEVICE AWK: frees blocks of /big. AWK is run for each block number `at` of /big on the device and must advance `at`.
# free(N) frees N blocks from `at`, or none if they exceed the extent.
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

# alloc_watched NAME DIR COMMAND...: raidtrace alloc --json with alloc_options on DIR while COMMAND runs.
alloc_options=()
alloc_watched() {
	local name=$1 dir=$2 status=0 pid
	shift 2
	raidtrace alloc --json --interval "${interval:-0.5}" "${alloc_options[@]}" "$dir" >"/out/$name.out" 2>"/out/$name.err" &
	pid=$!
	wait_until 900 has_printed "/out/$name.out" "$pid"
	"$@"
	sync
	kill -INT "$pid"
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

# alloc_files DIR NAME COUNT BYTES: writes COUNT files of BYTES bytes, without starting a process for each.
alloc_files() {
	local text
	printf -v text '%*s' "$4" ''
	for ((i = 0; i < $3; i++)); do
		printf %s "$text" >"$1/$2$i"
		if ((i % 400 == 399)); then sync; fi
	done
}

# null_disk NUMBER ATTRIBUTE=VALUE...: creates /dev/nullbNUMBER of null_blk, and adds it to disks.
null_disk() {
	local at=/sys/kernel/config/nullb/nullb$1 setting
	modprobe null_blk nr_devices=0
	[ -d /sys/kernel/config/nullb ] || mount -t configfs none /sys/kernel/config
	mkdir "$at"
	for setting in "${@:2}"; do echo "${setting#*=}" >"$at/${setting%%=*}"; done
	echo 1 >"$at/power"
	disks+=("nullb$1")
}

# two_partitions TARGET FIRST SECTORS FIRST SECTORS: a DOS partition table of type Linux on a device or file.
two_partitions() {
	{
		head -c 446 /dev/zero
		partition_entry "$2" "$3"
		partition_entry "$4" "$5"
		head -c 32 /dev/zero
		printf '\125\252'
	} | dd of="$1" conv=notrunc,fsync status=none
}

partition_entry() {
	printf '\0\0\0\0\203\0\0\0'
	le32 "$1"
	le32 "$2"
}

le32() {
	local i
	for ((i = 0; i < 32; i += 8)); do printf '%b' "\\x$(printf %02x $(($1 >> i & 255)))"; done
}
