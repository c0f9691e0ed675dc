#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A journal of 1 MiB on disks that take 3 ms for a request, and directories by
# four tasks at a time. First the counts: top against the kernel's own events
# (checkpoints.out, checkpoints.trace). Then doctor, on the idle filesystem, under
# the load, and after its own commands. Leaves NAME.json and NAME.status.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

for number in 0 1; do null_disk "$number" size=160 memory_backed=1 irqmode=2 completion_nsec=3000000; done
mdadm --create /dev/md120 --run --quiet --level=0 --chunk=64 --raid-devices=2 /dev/nullb0 /dev/nullb1
filesystem md120 -b 1024 -J size=1 -E lazy_itable_init=0,lazy_journal_init=0

# directories ROUND
directories() {
	local task pids=()
	for task in {1..4}; do
		mkdir "/mnt/md120/$1.$task" "/mnt/md120/$1.$task/"{1..150} &
		pids+=($!)
	done
	wait "${pids[@]}"
}

# doctor NAME SECONDS [LOAD]
doctor() {
	local name=$1 status=0 round
	raidtrace doctor --json --live "$2" md120 >"/out/$name.json" 2>"/out/$name.err" &
	local pid=$!
	if [ "${3:-}" ]; then
		for ((round = 0; ; round++)); do
			kill -0 "$pid" 2>/dev/null || break
			directories "$name"
			rm -r "/mnt/md120/$name".*
			sleep 0.2    # a part of the load
		done
	fi
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
	echo "$name at ${EPOCHREALTIME%.*}"
}

sync -f /mnt/md120
start_top checkpoints md120
echo 1 >"$tracing/events/jbd2/jbd2_checkpoint_stats/enable"
for round in {1..5}; do directories "$round"; done
# chattr and umount flush the journal without a waiting task.
touch /mnt/md120/file
chattr +j /mnt/md120/file
directories more
chattr -j /mnt/md120/file
directories last
unmount /mnt/md120
stop_top
echo 0 >"$tracing/events/jbd2/jbd2_checkpoint_stats/enable"
cat "$tracing/trace" >/out/checkpoints.trace
mount -o noatime /dev/md120 /mnt/md120

doctor idle 2
# On a slow machine, the load needs longer to fill the journal as often.
for seconds in 6 30 120; do
	doctor loaded "$seconds" load
	if grep -q journal-small /out/loaded.json; then break; fi
done
grep -o '"commands":\[[^]]*\]' /out/loaded.json | grep has_journal |
	sed 's/^"commands":\["//; s/"\]$//; s/","/\n/g; s/DEVICE/\/dev\/md120/g' >/out/fix
bash -ex /out/fix
doctor fixed "$seconds" load
unmount /mnt/md120
e2fsck -fn /dev/md120 >/out/e2fsck
