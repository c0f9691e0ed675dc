#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Creates a recording that tests use: touch creates 20,000 files on a RAID 0 of 12 disks (loop1 to loop12) with a chunk of
# 512 KiB and mkfs.ext4 without options. tools/vm --file target/release/raidtrace --file tests/lab/lib.sh
# --file tools/oracle/guest/guest.sh --out DIR 6.12 tests/lab/demo.sh leaves DIR/demo.rtrace; then
# cargo run --example repack -- DIR/demo.rtrace src/commands/top/replay/demo.rtrace
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

truncate -s 1M /tmp/nothing
losetup /dev/loop0 /tmp/nothing    # so that the members are loop1 to loop12
for ((i = 1; i <= 12; i++)); do
	truncate -s 100G "/tmp/disk$i"
	losetup "/dev/loop$i" "/tmp/disk$i"
done
mdadm --create /dev/md127 --run --assume-clean --quiet --raid-devices=12 \
	--level=0 --chunk=512 /dev/loop{1..12}
mkfs.ext4 -q /dev/md127
mkdir -p /srv
mount -o noinit_itable,commit=1 /dev/md127 /srv
mkdir /srv/d{1..100}
sync

# Commit and write back after 1 s instead of 5 and 30, so that every interval has IO.
echo 100 >/proc/sys/vm/dirty_writeback_centisecs
echo 100 >/proc/sys/vm/dirty_expire_centisecs
cat >/tmp/touch.sh <<'EOF'
sleep 1
for round in {1..20}; do
	touch /srv/d{1..100}/"$round".{1..10}
	sleep 0.3
done
sync
sleep 2
EOF
./raidtrace record md127 -o /out/demo.rtrace -- bash /tmp/touch.sh
