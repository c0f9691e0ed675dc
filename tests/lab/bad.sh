#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Errors during tracing: stopped arrays, damaged filesystems, wrong targets. Each
# case leaves NAME.out, NAME.err and NAME.status for tests/lab.rs.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# attempt NAME ARGS...: runs raidtrace top.
attempt() {
	local name=$1 status=0
	shift
	timeout 300 raidtrace top "$@" >"/out/$name.out" 2>"/out/$name.err" </dev/null || status=$?
	echo "$status" >"/out/$name.status"
}

# top_during NAME TARGET SHOWN COMMAND...: runs raidtrace top on TARGET, COMMAND after its first line, and sends SIGINT once a
# line of its output or its errors matches SHOWN, unless it has ended.
top_during() {
	local name=$1 target=$2 shown=$3 status=0
	shift 3
	raidtrace top --json --interval 0.5 "$target" >"/out/$name.out" 2>"/out/$name.err" &
	local pid=$!
	wait_until 900 has_printed "/out/$name.out" "$pid"
	"$@" >"/out/$name.did" 2>&1 || echo "failed: $?" >>"/out/$name.did"
	wait_until 900 has_shown "$shown"
	kill -INT "$pid" 2>/dev/null || true
	# raidtrace must not hang.
	wait_until 120 has_ended "$pid"
	wait "$pid" || status=$?
	echo "$status" >"/out/$name.status"
}
# The output's first line comes before the command.
has_shown() {
	[ -z "$1" ] || grep -q -- "$1" <<<"$(tail -n +2 "/out/$name.out"; cat "/out/$name.err")" || has_ended "$pid"
}

array md120 2G 3 --level=1 --bitmap=internal --delay=1
filesystem md120 -J size=16

remove_member() {
	mdadm /dev/md120 --fail /dev/loop1 && remove md120 /dev/loop1
	touch /mnt/md120/degraded
	sync
}
top_during removed md120 degraded remove_member
attempt degraded --json --count 2 md120

add_member() {
	mdadm /dev/md120 --add /dev/loop1
	touch /mnt/md120/added
	sync
}
top_during added md120 loop1 add_member

stop_array() {
	unmount /mnt/md120
	wait_until 900 is_rebuilt md120
	mdadm --stop /dev/md120
}
top_during stopped md120 stopped stop_array

attempt gone --json --count 1 md120
attempt absent --json --count 1 /dev/nosuch
attempt null --json --count 1 /dev/null
attempt file --json --count 1 /etc/passwd
attempt proc --json --count 1 /proc
attempt escape --json --count 1 $'\033[2Jnosuch'

# XFS, then an ext4 with a damaged superblock, then an intact one. md120 is
# stopped.
array md121 2G 3 --level=0 --chunk=64
mkdir /mnt/md121
write_file() {
	dd if=/dev/zero of=/mnt/md121/file bs=1M count=8 conv=fsync status=none
}
mkfs.xfs -q -f /dev/md121
mount /dev/md121 /mnt/md121
top_during xfs md121 '' write_file
unmount /mnt/md121

write_array() {
	dd if=/dev/zero of=/dev/md121 seek=64 bs=1M count=8 oflag=direct status=none
}
mkfs.ext4 -q -F /dev/md121
dd if=/dev/urandom of=/dev/md121 bs=1 seek=1028 count=52 conv=notrunc,fsync status=none
top_during corrupt md121 '' write_array

check_array() {
	echo 3 >/proc/sys/vm/drop_caches
	e2fsck -fn /dev/md121
}
mkfs.ext4 -q -F /dev/md121
top_during unmounted md121 '' check_array

mount -o noatime,noinit_itable /dev/md121 /mnt/md121
raidtrace top --batch --interval 0.5 md121 2>/out/pipe.err | head -n 1 >/out/pipe.out || true
echo "${PIPESTATUS[0]}" >/out/pipe.status
attempt usage --interval 0 md121

umount /sys/kernel/debug /sys/kernel/tracing
top_during tracefs md121 '' write_file
unmount /mnt/md121
