#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# A RAID 5 and a RAID 0 of two RAID 1, traced by `record` and `top` at the same time.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

array md120 512M 4 --level=5 --chunk=64 --bitmap=internal --delay=1
array md117 256M 2 --level=1 --bitmap=none
array md118 256M 2 --level=1 --bitmap=none
mdadm --create /dev/md119 --run --quiet --level=0 --chunk=64 --raid-devices=2 /dev/md117 /dev/md118
for on in md120 md119; do
	filesystem "$on" -J size=8
	dd if=/dev/zero of="/mnt/$on/file" bs=1M count=16 oflag=direct status=none
done
sync
echo 3 >/proc/sys/vm/drop_caches
wait_idle 3

start_top top /dev/md120 /dev/md119
raidtrace record -o /out/a.rtrace /dev/md120 /dev/md119 2>/out/record.err &
recorder=$!
wait_until 900 has_noted "raidtrace: recording" 1 /out/record.err "$recorder"
if ! kill -0 "$recorder"; then
	cat /out/record.err >&2
	die "raidtrace does not record"
fi

for on in md120 md119; do
	# Single blocks, each in another stripe; then whole stripes; then ext4's own blocks.
	for ((i = 0; i < 40; i++)); do
		dd if=/dev/zero of="/mnt/$on/file" bs=4k count=1 seek=$((i * 97)) oflag=direct conv=notrunc status=none
	done
	dd if=/dev/zero of="/mnt/$on/file" bs=192k count=10 oflag=direct conv=notrunc status=none
	dd if="/mnt/$on/file" of=/dev/null bs=300k count=8 iflag=direct status=none
	for ((i = 0; i < 60; i++)); do echo words >"/mnt/$on/f$i"; done
	sync -f "/mnt/$on"
	rm "/mnt/$on"/f?
done
sync
wait_idle 4

status=0
kill -INT "$recorder"
wait "$recorder" || status=$?
echo "$status" >/out/record.status
cat /out/record.err
stop_top
