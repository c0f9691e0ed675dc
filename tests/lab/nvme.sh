#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# NVMe drives with two paths each: RAID 1 of whole drives and RAID 5 of partitions, under the reads and writes of a run
# (begin of lib.sh), and a filesystem on a drive without md. Then a path of a drive goes while it is traced: paths.out.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
modprobe nvme 2>/dev/null || true # or built in

# A head has the number of the first controller that was found.
has_drives() { heads=(/dev/nvme*n1) && [ "${#heads[@]}" = 6 ] && [ "$(compgen -G '/sys/block/nvme*c*n1' | wc -l)" = 12 ]; }
wait_until 120 has_drives
disks=("${heads[@]#/dev/}")
single=${disks[5]}

for drive in "${heads[@]:2:3}"; do
	two_partitions "$drive" 2048 1000000 1003520 1000000
	blockdev --rereadpt "$drive"
	wait_until 120 test -b "${drive}p2"
done
create_array md120 --assume-clean --level=1 --raid-devices=2 --bitmap=internal "${heads[@]:0:2}"
create_array md121 --assume-clean --level=5 --raid-devices=3 --chunk=64 --bitmap=none "${heads[2]}p2" "${heads[3]}p2" "${heads[4]}p2"
for array in md120 md121; do filesystem "$array" -J size=16; done
begin
printf -v small '%20000s' ''
for array in md120 md121; do
	mkdir /mnt/"$array"/d{1..40}
	for dir in /mnt/"$array"/d*; do
		for file in a b c; do printf %s "$small" >"$dir/$file"; done
	done
	dd if=/dev/zero of="/mnt/$array/large" bs=640k count=12 oflag=direct status=none
	sync
	dd if=/dev/zero of="/mnt/$array/large" bs=4k count=5 seek=400 oflag=direct conv=notrunc,fdatasync status=none
	rm -r /mnt/"$array"/d*5
done
sync
echo 3 >/proc/sys/vm/drop_caches
for array in md120 md121; do
	cat "/mnt/$array"/d*/[ab] >/dev/null
	dd if="/mnt/$array/large" of=/dev/null bs=1M iflag=direct status=none
	unmount "/mnt/$array"
done
end

# A drive without md. Both paths are used in turn; then one goes.
for policy in /sys/class/nvme-subsystem/*/iopolicy; do echo round-robin >"$policy"; done
mkfs.ext4 -q -E lazy_itable_init=0 "/dev/$single"
mkdir -p /mnt/single
mount -o noatime "/dev/$single" /mnt/single
dd if=/dev/zero of=/mnt/single/file bs=1M count=16 conv=fsync status=none
wait_idle 4
write() { dd if=/dev/zero of=/mnt/single/file bs=64k count=128 oflag=direct conv=notrunc status=none; }
start_top paths "/dev/$single"
write
wait_idle 1
wait_intervals
for path in /sys/block/"${single%n1}"c*n1/stat; do cat "$path"; done >/out/paths.each
controller=${path##*c}
echo 1 >"/sys/class/nvme/nvme${controller%n1/stat}/device/remove"
wait_until 120 has_noted "$single" 1 /out/paths.err "$pid"
wait_intervals
write
wait_idle 1
stop_top
