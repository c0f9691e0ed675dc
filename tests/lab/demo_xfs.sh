#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Makes a recording that tests and docs/layout.md use: 19,200 touch in 400 directories on a RAID 5 of seven disks of 8 TB (loop1 to
# loop7) with mdadm's defaults and mkfs.xfs without options; then the same on an XFS with the agsize that raidtrace layout suggests.
# tools/vm --memory 5000 --timeout 900 --file target/release/raidtrace --file tests/lab/lib.sh
# --file tools/oracle/guest/guest.sh --out DIR 6.12 tests/lab/demo_xfs.sh
# leaves DIR/demo.rtrace and DIR/even.rtrace, and the kernel's requests of each member in DIR/stat.demo and DIR/stat.even; then
# cargo run --example repack -- DIR/demo.rtrace src/commands/top/replay/xfs.rtrace.zst
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
modprobe -a raid456 xfs
mkdir -p /out /srv

truncate -s 1M /tmp/nothing
losetup /dev/loop0 /tmp/nothing    # so that the members are loop1 to loop7
for ((i = 1; i <= 7; i++)); do
	truncate -s 8000000000000 "/tmp/disk$i"
	losetup "/dev/loop$i" "/tmp/disk$i"
done
mdadm --create /dev/md127 --run --assume-clean --quiet --raid-devices=7 --level=5 /dev/loop{1..7} </dev/null

# Push all metadata 4 s after the last push instead of 30: each takes seconds here. Before mount, which starts the first 30 s.
echo 400 >/proc/sys/fs/xfs/xfssyncd_centisecs

cat >/tmp/touch.sh <<'END'
sleep 1
for round in {1..12}; do
	touch /srv/d{1..400}/"$round".{1..4}
	sleep 0.3
done
sync
sleep 4
END

stat_of_members() {
	local i
	for ((i = 1; i <= 7; i++)); do echo "$1 loop$i $(cat "/sys/block/loop$i/stat")"; done >>"/out/stat.$2"
}

# incident NAME MKFS-OPTIONS...
incident() {
	local name=$1
	shift
	mkfs.xfs -f "$@" /dev/md127 >"/out/mkfs.$name" 2>&1
	mount /dev/md127 /srv
	mkdir /srv/d{1..400}
	sync
	sleep 9    # two pushes
	raidtrace layout /srv >"/out/layout.$name"
	stat_of_members before "$name"
	raidtrace record md127 -o "/out/$name.rtrace" -- bash /tmp/touch.sh
	stat_of_members after "$name"
	umount /srv
}
incident demo
agsize=$(grep -Eo 'agsize=[0-9]+ is even' /out/layout.demo | grep -o '[0-9]*')
incident even -d "agsize=$agsize"
