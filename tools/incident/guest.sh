# shellcheck shell=bash disable=SC2016,SC2034,SC2317,SC1091
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The guest's part of tools/incidents: plays the phases of an incident, which are in files of the current directory
# (setup, load, cause, recovery, seconds), while raidtrace watches. Files for the score are written to /out.
set -uo pipefail

out=/out
mkdir -p $out/dumps /cg
# Phases can limit processes by cgroup: in_cgroup.
cgroups=/sys/fs/cgroup
echo '+io +memory +cpu' >$cgroups/cgroup.subtree_control 2>/dev/null

die() {
	echo "incident: $*" >&2
	exit 1
}

wait_until() { # SECONDS COMMAND...
	local end=$((SECONDS + $1)) limit=$1
	shift
	until "$@"; do
		if ((SECONDS >= end)); then die "not within $limit s: $*"; fi
		sleep 0.2
	done
}

# limit DISK IOPS: QEMU lets this many requests of 64 KiB a second pass; 0: no limit.
limit() {
	echo "$1 $2" >/dev/vport0p4
	sleep 0.3
}

# raid NAME LEVEL MDADM-OPTIONS... DEVICES...: an array of the named devices, without an initial resync.
raid() {
	local name=$1 level=$2 options=() devices=() word
	shift 2
	for word; do if [[ $word == /dev/* || $word == missing ]]; then devices+=("$word"); else options+=("$word"); fi; done
	mdadm --create "/dev/$name" --run --quiet --assume-clean --level "$level" --raid-devices "${#devices[@]}" \
		${options[@]+"${options[@]}"} "${devices[@]}" </dev/null || die "mdadm --create $name"
}

# hdd NAME SIZE-MB MILLISECONDS [DEPTH]: /dev/NAME, a disk with this time for each request, DEPTH at a time (default: 1).
hdd() {
	local dir=/sys/kernel/config/nullb/$1
	[ -d /sys/module/null_blk ] || modprobe null_blk nr_devices=0 || die 'no null_blk'
	# its directory comes with the module
	[ -d /sys/kernel/config/nullb ] || mount -t configfs none /sys/kernel/config || die 'no configfs'
	mkdir "$dir"
	echo "$2" >"$dir/size"
	echo 1 >"$dir/memory_backed"
	echo 2 >"$dir/irqmode"
	echo $(($3 * 1000000)) >"$dir/completion_nsec"
	echo "${4:-1}" >"$dir/hw_queue_depth"
	echo 1 >"$dir/power"
	[ -b "/dev/$1" ] || die "null_blk made no /dev/$1"
}

# ext4 DEVICE DIR MKE2FS-OPTIONS...
ext4() {
	local device=$1 dir=$2
	shift 2
	mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 "$@" "$device" || die "mkfs.ext4 $device"
	mkdir -p "$dir"
	mount -o "noatime,${mount_options:-rw}" "$device" "$dir" || die "mount $device"
}

xfs() {
	local device=$1 dir=$2
	shift 2
	mkfs.xfs -q "$@" "$device" || die "mkfs.xfs $device"
	mkdir -p "$dir"
	mount -o "noatime,${mount_options:-rw}" "$device" "$dir" || die "mount $device"
}

# named NAME COMMAND...: runs a copy of the command under another name, as the task that raidtrace shows.
named() {
	local name=$1
	named_copy "$name" "$2"
	shift 2
	"/tmp/named/$name" "$@"
}

named_copy() { # NAME PROGRAM
	local program
	program=$(type -P "$2") || die "no $2"
	mkdir -p /tmp/named
	[ -e "/tmp/named/$1" ] || cp "$program" "/tmp/named/$1"
}

# database DIR FIO-OPTIONS...: the workload that waits. Small synchronous writes, each of them with its time in victim_lat.
database() {
	local dir=$1 options
	shift
	options=(--name=wal --directory="$dir" --size=32M --rw=randwrite --bs=8k --ioengine=psync --direct=1 --sync=dsync
		--fallocate=none "$@")
	# Lay out the files before the phases begin.
	fio --create_only=1 "${options[@]}" >/dev/null || die 'fio cannot lay out its files'
	sync
	named postgres fio --time_based --runtime=3600 --write_lat_log="$out/victim" --log_unix_epoch=1 \
		--output="$out/victim.fio" "${options[@]}" >/dev/null 2>&1 &
}

# postgresql DIR CLIENTS: PostgreSQL with its data in DIR, and clients of pgbench, each of which commits one small
# transaction after another. Times of the transactions are in the victim's log.
postgresql() {
	local dir=$1 clients=$2 bin
	bin=$(echo /usr/lib/postgresql/*/bin)
	cp -r cluster "$dir/cluster"
	chown -R 65534:65534 "$dir/cluster"
	chmod 700 "$dir/cluster"
	chmod 1777 /tmp
	sync
	setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/postgres" -D "$dir/cluster" >"$out/postgresql.log" 2>&1 &
	answers() { "$bin/pgbench" -h /tmp -U postgres -S -t 1 postgres >/dev/null 2>&1; }
	wait_until 300 answers
	(cd "$out" && exec "$bin/pgbench" -h /tmp -U postgres -N --no-vacuum -c "$clients" -T 3600 --log --log-prefix=pgbench postgres) >"$out/pgbench.out" 2>&1 &
	logs() { compgen -G "$out/pgbench.*[0-9]" >/dev/null; }
	wait_until 300 logs
}

# Transactions of pgbench as lines of fio's log: end in ms, and length in ns.
pgbench_log() {
	local file
	for file in "$out"/pgbench.*[0-9]; do
		if [ -e "$file" ]; then awk '{ printf "%.0f, %.0f, 1, 0, 0\n", $5 * 1e3 + $6 / 1e3, $3 * 1e3 }' "$file"; fi
	done >"$out/victim_lat.1.log"
}

# hungry NAME: a process with 90 MB, of which a cgroup lets it keep 40 MB; the rest is swapped out, and in again.
hungry() {
	mkdir -p "$cgroups/hungry"
	echo 40M >"$cgroups/hungry/memory.max"
	# tail keeps what may be its last line.
	in_cgroup hungry bash -c 'while :; do head -c 90000000 /dev/zero | "$0" >/dev/null; done' "/tmp/named/$1" &
	hungry=$!
}

# timed COMMAND...: a line of the victim's log for each run of the command.
timed() {
	local begun=${EPOCHREALTIME/./} end
	"$@"
	end=${EPOCHREALTIME/./}
	echo "$((end / 1000)), $(((end - begun) * 1000)), 1, 0, 0" >>"$out/victim_lat.1.log"
}

# in_cgroup NAME COMMAND...
in_cgroup() {
	mkdir -p "$cgroups/$1"
	(
		echo "$BASHPID" >"$cgroups/$1/cgroup.procs"
		shift
		"$@"
	)
}

device_of() { cat "/sys/class/block/$1/dev"; }

# Kernel's figures, once a second: time, then a file and its content in one line.
sample() {
	local file words
	while :; do
		{
			echo "time $EPOCHREALTIME"
			for file in /sys/block/{vd*,md*,dm-*,n[0-9]*,nullb*,loop*}/stat /sys/block/md*/inflight /proc/pressure/io; do
				if [ -e "$file" ]; then mapfile -t words <"$file" && echo "$file ${words[*]}"; fi
			done
			for file in /sys/block/md*/md/sync_action; do
				if [ -e "$file" ]; then read -r words <"$file" && echo "$file $words"; fi
			done
		} >>$out/kernel
		command sleep 1
	done
}

recorded_before=11 recorded_after=12 # seconds; report --against needs ten

mark() { echo "$1 $EPOCHREALTIME" >>$out/marks; }

has_lines() { [ "$(wc -l <"$1")" -ge "$2" ]; }

. ./setup || die setup
read -r healthy sick after <seconds

raidtrace top --json -i 1 >$out/top.json 2>$out/top.err &
watchers=($!)
# The same as text, as in a pipe: a block each 3 s.
raidtrace top --batch -i 3 >$out/top.txt 2>$out/batch.err &
watchers+=($!)
wait_until 600 has_lines $out/top.json 2
wait_until 600 has_lines $out/top.txt 2
sample &
sampler=$!

. ./load
sleep 3
# Starts after the load has written its files, because serve would write a dump for that, too.
if [ -e serve ]; then
	raidtrace serve --dump-dir $out/dumps >$out/serve.out 2>&1 &
	watchers+=($!)
	wait_until 600 grep -q http $out/serve.out
fi
mark healthy
sleep $((healthy - recorded_before))
# The recording has the telling part only, so that it is small.
raidtrace record -o $out/incident.rtrace --slow=50ms >$out/record.out 2>&1 &
recorder=$!
wait_until 600 [ -s $out/incident.rtrace ]
sleep "$recorded_before"
mark cause
. ./cause
sleep "$recorded_after"
kill -INT "$recorder"
wait "$recorder"
sleep $((sick - recorded_after))
mark recovery
. ./recovery
sleep "$after"
mark end
kill "$sampler"
for watcher in "${watchers[@]}"; do kill -INT "$watcher"; done
wait "${watchers[@]}"
# fio and pgbench write their logs at the end.
pkill -INT pgbench 2>/dev/null
pkill -INT postgres 2>/dev/null || killall -INT postgres 2>/dev/null
for _ in {1..100}; do pidof postgres >/dev/null || break; sleep 0.2; done
if [ -e "$out/pgbench.out" ]; then pgbench_log; fi
exit 0
