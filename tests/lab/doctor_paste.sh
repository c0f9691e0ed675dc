#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Pastes every command of every finding, placeholders and all, on arrays with
# data and as many problems as a guest allows, and checks that the data is intact.
# Leaves NAME.json, NAME.log and kept for tests/lab/doctor.rs.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# data NAME: creates files and notes their checksums.
data() {
	mkdir -p "/mnt/$1/d"
	for file in {1..20}; do head -c 100000 /dev/urandom >"/mnt/$1/d/$file"; done
	sync
	(cd "/mnt/$1" && md5sum d/*) >"/out/$1.md5"
}

# pasted NAME ARGS...: runs doctor and each of its commands unchanged.
pasted() {
	local name=$1 command
	shift
	raidtrace doctor --json "$@" >"/out/$name.json" 2>"/out/$name.err" || echo "$name: status $?"
	grep -o '"commands":\["[^]]*\]' "/out/$name.json" |
		sed 's/^"commands":\["//; s/"\]$//; s/","/\n/g' >"/out/$name.commands" || true
	while IFS= read -r command <&3; do
		echo "$ $command"
		timeout 300 bash -c "$command" </dev/null 2>&1 || echo "status $?"
	done 3<"/out/$name.commands" >"/out/$name.log"
	sed "s/^/$name: /" "/out/$name.log"
}

# kept NAME ARRAY: checks that the files are unchanged.
kept() {
	while umount "/mnt/$2" 2>/dev/null; do :; done
	# ext4 would zero inode tables until the memory behind the disks is full.
	if mount -o noinit_itable "/dev/$2" "/mnt/$2" && (cd "/mnt/$2" && md5sum -c "/out/$2.md5" >"/out/$1.sums"); then
		echo "$1 kept" >>/out/kept
	else
		echo "$1 LOST" >>/out/kept
	fi
}

# rotational VALUE MEMBER...
rotational() {
	local value=$1 member
	shift
	for member; do echo "$value" >"/sys/block/$member/queue/rotational"; done
}

# A skew below another mount, then without that mount.
array md120 100G 12 --level=0 --chunk=512
rotational 1 "${disks[@]}"
filesystem md120 -E lazy_journal_init=1
data md120
mount -t tmpfs none /mnt/md120
pasted covered md120
kept covered md120
pasted skew md120
kept skew md120

# A RAID 6 with every problem except a lost disk.
array md121 10G 5 --level=6 --chunk=64 --bitmap=internal --bitmap-chunk=4M
of=("${disks[@]: -5}")
md=/sys/block/md121/md
rotational 1 "${of[@]}"
rotational 0 "${of[0]}"
echo none >"/sys/block/${of[1]}/queue/scheduler" || true
echo 64 >"/sys/block/${of[2]}/queue/nr_requests" || true
echo 128 >"/sys/block/${of[2]}/queue/max_sectors_kb"
echo 0 >"/sys/block/${of[3]}/queue/iostats"
echo 8 >/sys/block/md121/queue/read_ahead_kb
mkfs.ext4 -q -e continue -E lazy_journal_init=1,stride=16,stripe_width=32 /dev/md121
mkdir -p /mnt/md121
mount -o noinit_itable,nobarrier,data=writeback,journal_async_commit,nodelalloc /dev/md121 /mnt/md121
data md121
echo 3 >"$md/dev-${of[3]}/errors"
echo 8000000 8 >"$md/dev-${of[4]}/bad_blocks"
# Overwrites a part of the last member without files, so that parity is wrong there.
head -c 1M /dev/urandom | dd of="/tmp/disk$((${#disks[@]} - 1))" bs=1M seek=120 conv=notrunc status=none
echo 400000 >"$md/sync_max"
echo check >"$md/sync_action"
is_checked() { # SECTORS
	local at
	read -r at _ <"$md/sync_completed"
	[ "$at" != none ] && [ "$at" != delayed ] && [ "$at" -ge "$1" ]
}
wait_until 900 is_checked 400000
echo idle >"$md/sync_action"
echo "mismatches: $(<"$md/mismatch_cnt") after $(<"$md/last_sync_action")"
echo frozen >"$md/sync_action"
echo provoked >/sys/fs/ext4/md121/trigger_fs_error
pasted raid6 md121
echo idle >"$md/sync_action"
kept raid6 md121

# A degraded array with SSDs and a stripe.
array md122 256M 4 --level=5 --chunk=64
rotational 0 "${disks[@]: -4}"
filesystem md122
data md122
mount -o remount,nobarrier /mnt/md122
mdadm --quiet /dev/md122 --fail "/dev/${disks[-1]}"
pasted degraded md122
raidtrace doctor --json md122 >/out/fixed.json || true
kept degraded md122

# A mirror without a bitmap on members with free space. The added space is not
# synced here, because it would not fit into memory.
array md123 104G 2 --level=1 --bitmap=none --size=102G
echo 1 >/sys/block/md123/md/sync_speed_min
echo 1 >/sys/block/md123/md/sync_speed_max
rotational 1 "${disks[-1]}"
rotational 0 "${disks[-2]}"
echo writemostly >"/sys/block/md123/md/dev-${disks[-2]}/state"
filesystem md123 -E lazy_journal_init=1
data md123
pasted mirror md123
kept mirror md123

# A pending resync without a write since assembly, and an array that md does not run.
for name in md124 md125; do
	for i in {0..3}; do
		truncate -s 128M "/tmp/$name.$i"
		losetup "/dev/loop$((100 + i + 10 * (${name: -1} - 4)))" "/tmp/$name.$i"
	done
done
pending=(/dev/loop10{0..3})
partial=(/dev/loop11{0..3})
mdadm --create /dev/md124 --run --quiet --level=6 --raid-devices=4 --chunk=64 "${pending[@]}"
echo 1 >/sys/block/md124/md/sync_speed_min
echo 1 >/sys/block/md124/md/sync_speed_max
mdadm --create /dev/md125 --run --quiet --assume-clean --level=5 --raid-devices=4 --chunk=64 "${partial[@]}"
for name in md124 md125; do
	filesystem "$name"
	data "$name"
	umount "/mnt/$name"
	mdadm --quiet --stop "/dev/$name"
done
echo 1 >/sys/module/md_mod/parameters/start_ro
mdadm --quiet --assemble /dev/md124 "${pending[@]}"
echo 0 >/sys/module/md_mod/parameters/start_ro
grep . /sys/block/md124/md/{array_state,sync_action,resync_start} || true
pasted pending md124
kept pending md124
# Three of four members, one by one: md waits for the last.
for member in "${partial[@]:0:3}"; do mdadm --incremental --quiet "$member" || true; done
grep . /sys/block/md*/md/array_state
# All arrays at once.
pasted all
for name in md120 md121 md122 md123 md124 md125; do kept "all:$name" "$name"; done
cat /out/kept
unmount /mnt/md12{0..5}
