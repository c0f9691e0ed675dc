#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# raid.sh ROUNDS SECONDS LEVEL...
#
# In a guest: on an array of each level, turns of each tool under fio. Writes the figures of the
# kernel and the output of the tool to /out/LEVEL.RW.TOOL.ROUND, for each turn.
# shellcheck source-path=SCRIPTDIR/../../tests/lab
. ./lib.sh

rounds=$1 seconds=$2
shift 2
width=([0]=3 [1]=2 [10]=4 [5]=4 [6]=5)
echo 1 >/proc/sys/kernel/bpf_stats_enabled

programs() { bpftool --json prog show 2>/dev/null; }

# running: number of BPF programs that have run, those of the tool and the empty program.
running() { { programs | grep -o '"run_cnt":[1-9]' || true; } | wc -l; }

# nothing: starts an empty program that runs during all measurements; its id goes to /out/nothing.
nothing() {
	local id
	bpftrace -e "$(<nothing.bt)" >/dev/null 2>&1 &
	for ((tenth = 0; tenth < 1200; tenth++)); do
		id=$(programs | grep -o '"id":[0-9]*,"type":"tracepoint"' | grep -o '[0-9]*' || true)
		if [ -n "$id" ]; then echo "$id" >/out/nothing; return; fi
		sleep 0.1
	done
	return 1
}

# start TOOL DEVICE: starts a tool and waits until it traces. Sets pid (0 for no tracer); status 1 if it fails.
start() {
	local tool=$1 device=$2
	pid=0
	case $tool in
	none) return ;;
	raidtrace) raidtrace top --json --no-overhead "$device" >"$out/out" 2>"$out/err" & ;;
	beside) /lab/beside/raidtrace top --json --no-overhead "$device" >"$out/out" 2>"$out/err" & ;;
	bpftrace) bpftrace -e "$(<histogram.bt)" >"$out/out" 2>"$out/err" & ;;
	blktrace)
		blktrace "${members[@]/#/-d/dev/}" -o - >/dev/null 2>"$out/err" &
		pid=$!
		sleep 2
		[ ! -s "$out/err" ] && kill -0 "$pid"
		return
		;;
	esac
	pid=$!
	for ((tenth = 0; tenth < 1200; tenth++)); do
		if ! kill -0 "$pid" 2>/dev/null; then return 1; fi
		dd if="$device" of=/dev/null bs=4k count=1 iflag=direct status=none
		if [ "$(running)" -ge 3 ]; then return; fi
		sleep 0.1
	done
	return 1
}

# sample WHEN
sample() {
	programs >"$out/programs.$1"
	for member in "${members[@]}"; do cat "/sys/block/$member/stat"; done >"$out/stat.$1"
	if [ "$pid" != 0 ]; then cat "/proc/$pid/stat" >"$out/cpu.$1"; fi
	cat /proc/uptime >"$out/uptime.$1"
}

stop() {
	if [ "$pid" = 0 ]; then return; fi
	cat /sys/kernel/debug/block/loop*/dropped >"$out/dropped" 2>/dev/null || true
	kill -INT "$pid" 2>/dev/null || true
	# A process that does not end would block all turns: report it with its kernel stacks.
	for ((tenth = 0; tenth < 600; tenth++)); do
		if ! kill -0 "$pid" 2>/dev/null; then break; fi
		sleep 0.1
	done
	if kill -0 "$pid" 2>/dev/null; then
		echo "$(</proc/"$pid"/comm) does not end after SIGINT:"
		grep -E 'State|Sig' "/proc/$pid/status"
		for task in /proc/"$pid"/task/*; do echo "$(<"$task/comm"):" && cat "$task/stack"; done
		kill -KILL "$pid"
	fi
	wait "$pid" || true
}

work() {
	fio --name=bench --filename="/mnt/$name/file" --size=32M --rw="$1" --bs=4k --iodepth=32 --ioengine=libaio \
		--direct=1 --norandommap --randrepeat=1 --time_based --runtime="$seconds" --output-format=json
}

tools=(none raidtrace bpftrace blktrace)
if [ -e /lab/beside ]; then tools+=(beside); fi
nothing || { echo "bpftrace does not trace"; exit 1; }
number=120
for level; do
	name=md$number
	number=$((number + 1))
	first=${#disks[@]}
	chunk=()
	if [ "$level" != 1 ]; then chunk=(--chunk=64); fi
	array "$name" 48M "${width[$level]}" --level="$level" "${chunk[@]}"
	members=("${disks[@]:first}")
	filesystem "$name" -J size=4
	dd if=/dev/zero of="/mnt/$name/file" bs=1M count=32 conv=fsync status=none
	for ((round = 0; round < rounds; round++)); do
		for tool in "${tools[@]}"; do
			out=/out/turn
			rm -rf "$out"
			mkdir -p "$out"
			if ! start "$tool" "/dev/$name"; then
				stop
				echo "raid$level: $tool could not start"
				mv "$out" "/out/$level.failed.$tool.$round"
				continue
			fi
			for rw in randwrite randread; do
				sample before
				work "$rw" >"$out/fio"
				sample after
				cp -r "$out" "/out/$level.$rw.$tool.$round"
			done
			stop
			for rw in randwrite randread; do cp "$out"/{out,err,dropped} "/out/$level.$rw.$tool.$round/" 2>/dev/null || true; done
		done
		echo "raid$level: round $((round + 1)) of $rounds"
	done
	umount "/mnt/$name"
	mdadm --stop --quiet "/dev/$name"
done
