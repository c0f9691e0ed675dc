# shellcheck shell=bash disable=SC2034 # the scripts that source it use all of it
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The guest's part of tools/oracle, for tools/truth and tests/lab: creates disks and arrays, and records a run. A run is
# the time between begin_run and end_run. The members are idle at both ends, so that raidtrace and the kernel's trace
# events cover the same IO. The files for tools/oracle are written to $out.
set -euo pipefail

tracing=/sys/kernel/tracing
out=/out
disks=()         # all members of all arrays: "loop0 loop1 ..."
arrays=()        # "md120 md121 ..."
targets=()       # arguments of raidtrace top
trace_kib=16384  # trace buffer of each CPU

die() {
	echo "guest: $*" >&2
	exit 1
}

# wait_until SECONDS COMMAND...: waits until the command succeeds. The script fails if it does not within SECONDS, with the command
# as the reason. A guest on a busy host is several times slower, so limits are much longer than any wait.
wait_until() {
	local limit=$1 end=$((SECONDS + $1))
	shift
	until "$@"; do
		if ((SECONDS >= end)); then die "not within $limit s: $*"; fi
		sleep 0.1
	done
}

# add_disks COUNT SIZE: sparse loop devices, numbered after the existing ones.
add_disks() {
	local count=$1 size=$2 first=${#disks[@]} i
	for ((i = first; i < first + count; i++)); do
		truncate -s "$size" "/tmp/disk$i"
		losetup "/dev/loop$i" "/tmp/disk$i"
		disks+=("loop$i")
	done
}

# create_array NAME MDADM-OPTIONS... DEVICES...
create_array() {
	local name=$1
	shift
	arrays+=("$name")
	mdadm --create "/dev/$name" --run --quiet "$@" </dev/null
}

# describe_volume NAME: the ranges of a volume in a container on its members, see read_volume() in geometry.py.
describe_volume() {
	local container path dir to=$out/$1
	container=$(<"/sys/block/$1/md/metadata_version")
	container=${container#external:?}
	mdadm --detail "/dev/$1" >"$to/detail"
	for path in "/sys/block/$1/md"/dev-*; do
		dir=/sys/block/${container%%/*}/md/${path##*/}
		echo "$(<"$path/offset") $((2 * $(<"$path/size"))) $(<"$path/slot") $(<"$dir/offset")" >"$to/volume.${path##*/dev-}"
	done
}

# describe_arrays: writes mdadm's description of the members of each array. Called at both ends of a run: before.MEMBER
# keeps the first description.
describe_arrays() {
	local name to path member dir volume
	for name in ${arrays[@]+"${arrays[@]}"}; do
		to=$out/$name
		mkdir -p "$to"
		volume=''
		if grep -q '^external:' "/sys/block/$name/md/metadata_version"; then volume=1 && describe_volume "$name"; fi
		for path in "/sys/block/$name/md"/dev-*; do
			member=${path##*/dev-}
			if [ ! -e "/sys/class/block/$member/dev" ]; then continue; fi
			echo "$(<"/sys/class/block/$member/dev") $member" >>"$to/members"
			if [ "$volume" ]; then continue; fi
			if [ -e "$to/examine.$member" ]; then cp "$to/examine.$member" "$to/before.$member"; fi
			mdadm --examine "/dev/$member" >"$to/examine.$member"
			if [ -e "/sys/block/$name/md/bitmap/location" ]; then
				mdadm --examine-bitmap "/dev/$member" >"$to/bitmap.$member" 2>/dev/null || true
			fi
			# A partition: its disk and first sector.
			dir=$(readlink -f "/sys/class/block/$member")
			if [ -e "$dir/partition" ]; then
				echo "$(<"${dir%/*}/dev") $(<"$dir/start")" >"$to/partition.$member"
			elif [ -e "$dir/dm" ]; then
				dmsetup table "$(<"$dir/dm/name")" >"$to/table.$member"
			fi
		done
		sort -u -o "$to/members" "$to/members"
	done
}

# describe_filesystem NAME DEVICE: the blocks of its structures, in $out/fs-NAME.
describe_filesystem() {
	local name=$1 device=$2 to=$out/fs-$1
	mkdir -p "$to"
	dumpe2fs -h "$device" >"$to/header" 2>/dev/null
	# Without -g dumpe2fs also reads the bitmaps: 13 s for 9600 groups in this guest.
	dumpe2fs -g "$device" >"$to/groups" 2>/dev/null
	debugfs -R 'stat <8>' "$device" >"$to/inode.8" 2>/dev/null
	debugfs -R 'stat <7>' "$device" 2>/dev/null | head -c 4000 >"$to/inode.7" || true
	# -L: /dev/mapper has device nodes in this guest, but links on other systems.
	printf '%d:%d\n' "0x$(stat -L -c %t "$device")" "0x$(stat -L -c %T "$device")" >"$to/dev"
}

# statistics DISK: those of the kernel. The head of NVMe multipath counts nothing up to 6.1: the sum over its paths.
statistics() {
	case $1 in
	nvme*) awk '{ for (i = 1; i <= NF; i++) sum[i] += $i } END { for (i = 1; i <= NF; i++) printf "%d ", sum[i]; print "" }' \
		/sys/block/"${1%n*}"c*n"${1##*n}"/stat ;;
	*) cat "/sys/block/$1/stat" ;;
	esac
}

# snapshot LABEL: disk statistics of all members.
snapshot() {
	local disk figures
	for disk in "${disks[@]}"; do
		read -r figures < <(statistics "$disk")
		echo "$1 $disk $figures"
	done >>"$out/stat"
}

# wait_idle SECONDS: waits until no member has completed a request for that time, and none is in flight.
wait_idle() {
	local wanted=$((2 * $1)) idle=0 before='' now disk f end=$((SECONDS + 600)) in_flight
	while :; do
		now='' in_flight=0
		for disk in "${disks[@]}"; do
			read -r -a f < <(statistics "$disk")
			now+="${f[0]},${f[4]},${f[8]},${f[11]},${f[15]} "
			in_flight=$((in_flight + f[8]))
		done
		if [ "$now" = "$before" ] && [ "$in_flight" = 0 ]; then idle=$((idle + 1)); else idle=0; fi
		if [ "$idle" -ge "$wanted" ]; then return; fi
		if ((SECONDS >= end)); then die "the members were not idle within 600 s: $now, $in_flight in flight"; fi
		before=$now
		sleep 0.5
	done
}

# unmount DIR...: retries while raidtrace resolves the path of a file there.
unmount() {
	local dir
	for dir; do wait_until 120 unmounted "$dir"; done
}

# unmounted DIR: one attempt. Any error other than EBUSY ends the script.
unmounted() {
	if umount "$1" 2>"$out/unmount.err"; then return; fi
	grep -q busy "$out/unmount.err" || die "$(<"$out/unmount.err")"
	return 1
}

# start_events: enables trace events for completed requests, freed blocks and, if $out/remap exists, remapped bios. If the
# current directory has the files kprobe and ends (from tools/truth), also enables the event truth/submit that kprobe defines,
# only for the completion functions named in ends.
start_events() {
	local filter='' address name dev
	echo >"$tracing/trace"
	echo counter >"$tracing/trace_clock"
	echo "$trace_kib" >"$tracing/buffer_size_kb"
	if [ -e kprobe ]; then
		grep -E " ($(<ends))([[:space:]]|\$)" /proc/kallsyms >"$out/symbols" || true
		while read -r address _ name _; do
			filter+="${filter:+ || }end == 0x$address"
		done <"$out/symbols"
		if [ -n "$filter" ]; then
			cat kprobe >"$tracing/kprobe_events"
			echo "$filter" >"$tracing/events/truth/submit/filter"
			echo 1 >"$tracing/events/truth/submit/enable"
		fi
	fi
	# The event truth/xfs: bios of XFS filesystems, which have the file superblock in $out/fs-NAME.
	if [ -e kprobe.xfs ] && compgen -G "$out/fs-*/superblock" >/dev/null; then
		grep -E " ($(<ends.xfs))([[:space:]]|\$)" /proc/kallsyms >"$out/symbols.xfs" || true
		cat kprobe.xfs >>"$tracing/kprobe_events"
		filter=''
		for name in "$out"/fs-*/superblock; do
			IFS=: read -r address dev <"${name%/*}/dev"
			filter+="${filter:+ || }dev == $((address << 20 | dev))"
		done
		echo "$filter" >"$tracing/events/truth/xfs/filter"
		echo 1 >"$tracing/events/truth/xfs/enable"
	fi
	if [ -e "$out/remap" ]; then echo 1 >"$tracing/events/block/block_bio_remap/enable"; fi
	if [ -e "$tracing/events/ext4" ]; then echo 1 >"$tracing/events/ext4/ext4_free_blocks/enable"; fi
	echo 1 >"$tracing/events/block/block_rq_complete/enable"
}

# name_heads: gives the requests in the trace that were on paths of NVMe multipath, hidden disks, the numbers of the heads.
# /proc/diskstats has the numbers of the paths.
name_heads() {
	local major minor path edits=()
	while read -r major minor path _; do
		if [[ $path =~ ^(nvme[0-9]+)c[0-9]+(n[0-9]+)$ ]]; then
			edits+=(-e "s/block_rq_complete: $major,$minor /block_rq_complete: $(tr : , <"/sys/block/${BASH_REMATCH[1]}${BASH_REMATCH[2]}/dev") /")
		fi
	done </proc/diskstats
	if [ "${#edits[@]}" -gt 0 ]; then sed -i "${edits[@]}" "$out/trace"; fi
}

stop_events() {
	local event
	for event in block/block_rq_complete block/block_bio_remap ext4/ext4_free_blocks truth/submit truth/xfs; do
		if [ -e "$tracing/events/$event" ]; then echo 0 >"$tracing/events/$event/enable"; fi
	done
	cat "$tracing/trace" >"$out/trace"
	cat "$tracing"/per_cpu/cpu*/stats >"$out/trace.stats"
	name_heads
	# Removing the event empties the buffer.
	if [ -e "$tracing/events/truth" ]; then echo >"$tracing/kprobe_events"; fi
}

# has_printed FILE PID: a whole line, or the process has ended.
has_printed() {
	read -r _ 2>/dev/null <"$1" || has_ended "$2"
}

has_ended() { # PID
	! kill -0 "$1" 2>/dev/null
}

# hasten_bitmaps: md clears bits of a write-intent bitmap in rounds, 5 s apart unless told otherwise. With rounds 1 s apart,
# an array that was idle for some seconds has none left to clear, which would be counted by only one side at the end of a run.
hasten_bitmaps() {
	local name file
	for name in ${arrays[@]+"${arrays[@]}"}; do
		file=/sys/block/$name/md/bitmap/time_base
		if [ -w "$file" ]; then echo 1 >"$file"; fi
	done
}

# begin_run: starts raidtrace top on $targets, then the kernel's events.
begin_run() {
	hasten_bitmaps
	sync
	describe_arrays
	wait_idle 2
	raidtrace top --json --interval 1 "${targets[@]}" >"$out/top.json" 2>"$out/top.err" &
	raidtrace=$!
	wait_until 900 has_printed "$out/top.json" "$raidtrace"
	if [ ! -s "$out/top.json" ]; then
		cat "$out/top.err" >&2
		die 'raidtrace printed no line'
	fi
	# All kernels of the lab accept every program: a refused program is a bug of raidtrace.
	if grep -q 'kernel refused' "$out/top.err"; then
		cat "$out/top.err" >&2
		die 'a program was refused'
	fi
	wait_idle 1
	start_events
	snapshot start
	echo "run begun at $SECONDS s"
}

# end_run: stops raidtrace, whose exit status goes to top.status, and the events.
end_run() {
	local status=0
	# raidtrace reads superblocks again after changes, on a busy machine late.
	wait_idle 6
	snapshot end
	kill -INT "$raidtrace"
	wait "$raidtrace" || status=$?
	snapshot after
	stop_events
	describe_arrays
	echo "$status" >"$out/top.status"
	echo "run ended at $SECONDS s with $status"
}
