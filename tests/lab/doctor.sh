#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# doctor on an array with the metadata skew, on one created with the options that it
# recommends, and on one that has lost a disk; its commands must fix the findings. Then
# on arrays that wait, that lack members, or that this kernel refuses.
# Leaves NAME.json and NAME.status for tests/lab.rs.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# doctor NAME ARGS...
doctor() {
	local name=$1 status=0
	shift
	raidtrace doctor --json "$@" >"/out/$name.json" 2>"/out/$name.err" || status=$?
	echo "$status" >"/out/$name.status"
	cat "/out/$name.err"
}

# fix NAME: runs the commands of its first finding, as printed.
fix() {
	local commands
	commands=$(grep -o '"commands":\[[^]]*\]' "/out/$1.json" | head -n 1)
	commands=${commands#*\[\"}
	printf '%s\n' "${commands%\"\]}" | sed 's/","/\n/g' >"/out/$1.fix"
	bash -ex "/out/$1.fix"
}

for name in md120 md121; do array "$name" 100G 12 --level=0 --chunk=512; done
for member in "${disks[@]}"; do echo 1 >"/sys/block/$member/queue/rotational"; done
filesystem md120 -E lazy_journal_init=1
doctor empty md120
touch /mnt/md120/file
doctor first md120

options=$(grep -o '"better_options":"[^"]*"' /out/first.json)
options=${options#*:\"}
echo "advised: $options"
# shellcheck disable=SC2086
filesystem md121 ${options%\"} -e remount-ro -E lazy_journal_init=1
touch /mnt/md121/file
doctor advised md121

# Members that are SSDs, and a stripe: doctor's commands disable the stripe.
for member in "${disks[@]:12}"; do echo 0 >"/sys/block/$member/queue/rotational"; done
doctor stripe md121
fix stripe
doctor unstriped md121

# Files in 400 directories of the first array while it is traced. However slow the machine is, three whole rounds are written
# after the first programs are attached, so at least two after the last.
# shellcheck disable=SC2010 # names of links to anonymous inodes
has_hooks() { [ "$(ls -l "/proc/$1/fd" | grep -c bpf_link)" -ge 5 ] || has_ended "$1"; }
mkdir /mnt/md120/d{1..400}
status=0
raidtrace doctor --json md120 --live 3600 >/out/live.json 2>/out/live.err &
watching=$!
wait_until 900 has_hooks "$watching"
for round in 1 2 3; do
	for dir in /mnt/md120/d*; do echo "$round" >"$dir/$round"; done
	sync
done
kill -INT "$watching"
wait "$watching" || status=$?
echo "$status" >/out/live.status
cat /out/live.err
# The same from a recording.
# shellcheck disable=SC2016 # for the shell that is recorded
raidtrace record -o /out/load.rtrace /dev/md120 -- bash -c '
	for round in {1..3}; do
		for dir in /mnt/md120/d*; do echo "$round" >"$dir/recorded$round"; done
		sync
	done' 2>/out/load.record.err
doctor load md120 --load /out/load.rtrace

array md122 64M 4 --level=5 --chunk=64
mkfs.ext4 -q -e remount-ro /dev/md122
mkdir -p /mnt/md122
mount /dev/md122 /mnt/md122
doctor whole md122
failed=${disks[-1]}
mdadm --quiet /dev/md122 --fail "/dev/$failed"
doctor degraded md122
raidtrace inventory >/out/inventory.jsonl
mdadm --quiet /dev/md122 --remove "/dev/$failed"
doctor removed md122

# All arrays at once, as text: the degraded one is critical. The kernel has no findings.
status=0
raidtrace doctor >/out/all.txt 2>&1 || status=$?
echo "$status" >/out/all.status
[ "$status" -eq 4 ]
raidtrace doctor --kernel >/out/kernel.txt 2>&1
unmount /mnt/md120 /mnt/md121 /mnt/md122

# Two arrays on the same disks are synced one after the other.
add_disks 2 300M
for disk in "${disks[@]: -2}"; do
	two_partitions "/dev/$disk" 2048 200000 204800 200000
	losetup -d "/dev/$disk"
	losetup -P "/dev/$disk" "/tmp/disk${disk#loop}"
	wait_until 120 test -b "/dev/${disk}p2"
done
echo 1000 >/proc/sys/dev/raid/speed_limit_max
for part in 1 2; do
	create_array "md13$part" --level=1 --raid-devices=2 --bitmap=none "/dev/${disks[-2]}p$part" "/dev/${disks[-1]}p$part"
done
wait_until 120 grep -q delayed /sys/block/md132/md/sync_completed
doctor waiting md132
raidtrace top --json -n 1 md132 >/out/waiting.top 2>/out/waiting.top.err

# One of two members is here, as udev adds it.
mdadm --quiet --stop /dev/md132
mdadm --quiet --incremental "/dev/${disks[-2]}p2" || true    # its status tells whether the array runs
inactive=$(awk '/ : inactive / { print $1 }' /proc/mdstat)
[ "$inactive" ] || die 'no array is inactive'
doctor inactive

# Superblocks as Linux 6.19 and later write them: le32 at 224 is the logical block size, at 216 the sum of all words.
mdadm --quiet --stop "/dev/$inactive"
for member in "${disks[@]: -2}"; do
	sum=$(od -An -tu4 -j $((4096 + 216)) -N 4 "/dev/${member}p2")
	le32 512 | dd of="/dev/${member}p2" bs=1 seek=$((4096 + 224)) conv=notrunc,fsync status=none
	le32 $(((sum + 512) & 0xffffffff)) | dd of="/dev/${member}p2" bs=1 seek=$((4096 + 216)) conv=notrunc,fsync status=none
done
if mdadm --assemble /dev/md132 "/dev/${disks[-2]}p2" "/dev/${disks[-1]}p2"; then die "the kernel accepts a logical block size"; fi
doctor refused
