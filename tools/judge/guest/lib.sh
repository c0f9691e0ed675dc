# shellcheck shell=bash disable=SC2004,SC2034,SC2154 # run.sh has the variables, and each file uses some
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A cell of tools/truth, in the guest: raidtrace and the kernel's own account of
# the same IO, from one moment of quiet to another. What it leaves in $out is
# what tools/judge reads.
set -euo pipefail

tracing=/sys/kernel/tracing

die() {
	echo "cell: $*" >&2
	exit 1
}

# at WHAT: for those who look where the time goes.
at() { echo "$1 at $((SECONDS - begun)) s"; }

# disks COUNT SIZE: sparse loop devices, behind those there are.
disks() {
	local count=$1 size=$2 first=${#loops[@]} i
	for ((i = first; i < first + count; i++)); do
		truncate -s "$size" "/tmp/disk$i"
		losetup "/dev/loop$i" "/tmp/disk$i"
		loops+=("loop$i")
	done
}

# create MDADM-OPTIONS... DEVICES...: an array, $md.
create() {
	md=md$((120 + ${#arrays[@]}))
	local name=$md
	arrays+=("$name")
	mdadm --create "/dev/$name" --run --quiet "$@" </dev/null
	# Bits of a bitmap that are cleared at once, so that there is quiet again soon.
	if [ -e "/sys/block/$name/md/bitmap/time_base" ]; then echo 0.2 >"/sys/block/$name/md/bitmap/time_base" 2>/dev/null || true; fi
}

# members: which there are of each array, in mdadm's words; twice, at the run's both ends.
members() {
	local name to path member dir
	for name in "${arrays[@]}"; do
		to=$out/$name
		mkdir -p "$to"
		for path in "/sys/block/$name/md"/dev-*; do
			member=${path##*/dev-}
			if [ ! -e "/sys/class/block/$member/dev" ]; then continue; fi
			echo "$(<"/sys/class/block/$member/dev") $member" >>"$to/members"
			if [ -e "$to/examine.$member" ]; then cp "$to/examine.$member" "$to/before.$member"; fi
			mdadm --examine "/dev/$member" >"$to/examine.$member"
			if [ -e "/sys/block/$name/md/bitmap/location" ]; then
				mdadm --examine-bitmap "/dev/$member" >"$to/bitmap.$member" 2>/dev/null || true
			fi
			# A partition: its disk and where it begins.
			dir=$(readlink -f "/sys/class/block/$member")
			if [ -e "$dir/partition" ]; then
				echo "$(<"${dir%/*}/dev") $(<"$dir/start")" >"$to/partition.$member"
			fi
		done
		sort -u -o "$to/members" "$to/members"
	done
}

# filesystem NAME DEVICE: where its fixed structures are.
fixed() {
	local name=$1 device=$2 to=$out/fs-$1
	mkdir -p "$to"
	dumpe2fs -h "$device" >"$to/header" 2>/dev/null
	dumpe2fs -g "$device" >"$to/groups" 2>/dev/null
	debugfs -R 'stat <8>' "$device" >"$to/inode.8" 2>/dev/null
	# In /dev/mapper there are nodes here, and no links.
	printf '%d:%d\n' "0x$(stat -L -c %t "$device")" "0x$(stat -L -c %T "$device")" >"$to/dev"
	debugfs -R 'stat <7>' "$device" 2>/dev/null | head -c 4000 >"$to/inode.7" || true
}

# dynamic NAME DEVICE: what each inode of $out/fs-NAME/numbers owns, when all is over.
dynamic() {
	local name=$1 device=$2 to=$out/fs-$1
	if [ ! -e "$to/numbers" ]; then return; fi
	sort -un "$to/numbers" | sed 's/.*/stat <&>/' >"$to/commands"
	debugfs -f "$to/commands" "$device" >"$to/inodes" 2>/dev/null
	rm "$to/commands"
}

# snapshot LABEL
snapshot() {
	local member figures disk
	for member in "${loops[@]}"; do
		read -r figures <"/sys/block/$member/stat"
		echo "$1 $member $figures"
	done >>"$out/stat"
}

# quiet HALF-SECONDS
quiet() {
	local wanted=$1 calm=0 before='' now member f
	for ((half = 0; half < 120; half++)); do
		now=''
		for member in "${loops[@]}"; do
			read -r -a f <"/sys/block/$member/stat"
			now+="${f[0]},${f[4]},${f[8]},${f[11]},${f[15]} "
		done
		if [ "$now" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
		if [ "$calm" -ge "$wanted" ]; then return; fi
		before=$now
		sleep 0.5
	done
	die 'the members were not quiet within 60 s'
}

# events: what tracefs is to write down. The kprobe, with the addresses of the functions that bios of
# md end in, so that no other is written down.
events() {
	local filter='' address name
	grep -E " ($(<ends))([[:space:]]|\$)" /proc/kallsyms >"$out/symbols" || true
	while read -r address _ name _; do
		filter+="${filter:+ || }end == 0x$address"
	done <"$out/symbols"
	echo >"$tracing/trace"
	echo counter >"$tracing/trace_clock"
	echo 40960 >"$tracing/buffer_size_kb"
	if [ -n "$filter" ]; then
		cat kprobe >"$tracing/kprobe_events"
		echo "$filter" >"$tracing/events/truth/submit/filter"
		echo 1 >"$tracing/events/truth/submit/enable"
	fi
	if [ -e "$out/remap" ]; then echo 1 >"$tracing/events/block/block_bio_remap/enable"; fi
	echo 1 >"$tracing/events/ext4/ext4_free_blocks/enable"
	echo 1 >"$tracing/events/block/block_rq_complete/enable"
}

no_events() {
	local event
	for event in block/block_rq_complete block/block_bio_remap ext4/ext4_free_blocks; do
		echo 0 >"$tracing/events/$event/enable"
	done
	if [ -e "$tracing/events/truth/submit" ]; then echo 0 >"$tracing/events/truth/submit/enable"; fi
	cat "$tracing/trace" >"$out/trace"
	cat "$tracing"/per_cpu/cpu*/stats >"$out/trace.stats"
	# Which empties the buffer.
	if [ -e "$tracing/events/truth/submit" ]; then echo >"$tracing/kprobe_events"; fi
}

# begin: both see all from here on, because the members are quiet.
begin() {
	local tenth
	sync
	at made
	members
	quiet 3
	raidtrace top --json --interval 1 "${targets[@]}" >"$out/top.json" 2>"$out/top.err" &
	raidtrace=$!
	for ((tenth = 0; ; tenth++)); do
		if read -r _ 2>/dev/null <"$out/top.json"; then break; fi
		if ! kill -0 "$raidtrace" 2>/dev/null || [ "$tenth" = 600 ]; then
			cat "$out/top.err" >&2
			die 'raidtrace printed no line'
		fi
		sleep 0.1
	done
	# The lab's kernels take every program: one that is refused is a mistake of ours.
	if grep -q "kernel refused" "$out/top.err"; then
		cat "$out/top.err" >&2
		die "a program was refused"
	fi
	quiet 1
	events
	snapshot start
	at begun
}

end() {
	local status=0
	at ending
	quiet 5
	snapshot end
	kill -INT "$raidtrace"
	wait "$raidtrace" || status=$?
	snapshot after
	no_events
	members
	echo "$status" >"$out/top.status"
	at ended
}
