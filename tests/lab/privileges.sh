#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# raidtrace top as another user than root, with some capabilities; as root, what it keeps; and the
# command of raidtrace record as the user who called sudo. A RAID 5, so that the kernel's reasons matter.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

array md120 200M 3 --level=5 --chunk=64
filesystem md120
chmod 755 /lab
echo 'ann:x:1000:1000:Ann:/home/ann:/bin/sh' >>/etc/passwd
echo 'ann:x:1000:' >>/etc/group

# as_ann CAPABILITIES COMMAND...: becomes the command, with these capabilities (bpf,perfmon) and no others.
as_ann() {
	local list=-all${1:+,+${1//,/,+}}
	shift
	exec setpriv --reuid=1000 --regid=1000 --clear-groups --inh-caps="$list" --ambient-caps="$list" "$@"
}

# try NAME CAPABILITIES: raidtrace ($raidtrace) top of $target with these; files are written meanwhile.
raidtrace=raidtrace target=md120
try() {
	local pid
	(as_ann "$2" "$raidtrace" top "$target" --json --interval 1 >"$out/$1.out" 2>"$out/$1.err") &
	pid=$!
	wait_until 900 has_printed "$out/$1.out" "$pid"
	write_files "$target"
	kill -INT "$pid" 2>/dev/null || true
	wait "$pid" && echo 0 >"$out/$1.status" || echo $? >"$out/$1.status"
	rm -r "/mnt/$target"/d*
	sync
}

all=bpf,perfmon,dac_read_search,syslog
try all+sys_admin $all,sys_admin
try all $all
for without in bpf perfmon dac_read_search syslog; do
	try "no_$without" "$(tr , '\n' <<<$all | grep -vx $without | paste -sd,)"
done
try none ''

# The capabilities of a file, and no others.
cp "$(type -P raidtrace)" /mnt/md120/raidtrace
setcap cap_bpf,cap_perfmon,cap_dac_read_search,cap_syslog=ep /mnt/md120/raidtrace
sync
raidtrace=/mnt/md120/raidtrace
try setcap ''
raidtrace=raidtrace

# A volume of device mapper on another array.
array md121 100M 2 --level=1
echo "0 $(blockdev --getsz /dev/md121) linear /dev/md121 0" | dmsetup create volume
dmsetup mknodes
target=volume
filesystem mapper/volume
mkdir -p /mnt/volume
mount --move /mnt/mapper/volume /mnt/volume
target=volume
try "volume+sys_admin" $all,sys_admin
try volume $all
umount /mnt/volume
dmsetup remove volume

# The capabilities of each thread of a raidtrace that root has started; then a reload of its programs.
start_top root
wait_intervals
grep -hE '^(Name|CapPrm|CapEff|NoNewPrivs)' /proc/"$pid"/task/*/status >"$out/kept"
wait_for_note unmounted unmount /mnt/md120
wait_for_note mounted mount -o noatime,noinit_itable /dev/md120 /mnt/md120
write_files md120
wait_intervals
stop_top

SUDO_UID=1000 SUDO_GID=1000 raidtrace record md120 -o "$out/user.rtrace" -- bash -c "id -u; echo \$HOME; grep CapEff /proc/self/status" >"$out/user"
SUDO_UID=1000 SUDO_GID=1000 raidtrace record md120 -o "$out/root.rtrace" --as-root -- id -u >"$out/as_root"
umount /mnt/md120
