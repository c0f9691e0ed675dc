#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# RAID 0, 1, 10 and 5 at once, with reads and writes of all fixed structures:
# small and large files, direct IO, discards, and reads of md's metadata at the
# start of each member.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

array md120 8G 3 --level=0 --chunk=512
array md121 8G 2 --level=1 --bitmap=internal --delay=1
array md122 8G 4 --level=10 --chunk=256 --bitmap=internal --delay=1
array md123 8G 4 --level=5 --chunk=64 --bitmap=internal --delay=1
for name in "${arrays[@]}"; do filesystem "$name" -J size=16; done
begin

printf -v small '%20000s' ''
for name in "${arrays[@]}"; do
	mkdir /mnt/"$name"/d{1..60}
	for dir in /mnt/"$name"/d*; do
		for file in a b c d; do printf %s "$small" >"$dir/$file"; done
	done
	dd if=/dev/zero of="/mnt/$name/large" bs=640k count=20 oflag=direct status=none
	dd if=/dev/zero of="/mnt/$name/buffered" bs=1M count=12 status=none
done
sync
for name in "${arrays[@]}"; do
	for block in 3 77 400 401 1999; do
		dd if=/dev/zero of="/mnt/$name/large" bs=4k count=1 seek="$block" oflag=direct conv=notrunc,fdatasync status=none
	done
	rm -r /mnt/"$name"/d*5
	ln -s "$small" "/mnt/$name/link" 2>/dev/null || true
done
sync
echo 3 >/proc/sys/vm/drop_caches
for name in "${arrays[@]}"; do
	cat "/mnt/$name"/d*/[ab] "/mnt/$name/buffered" >/dev/null
	dd if="/mnt/$name/large" of=/dev/null bs=1M iflag=direct status=none
	find "/mnt/$name" -newer /etc/passwd >/dev/null
	rm "/mnt/$name/buffered"
	fstrim "/mnt/$name" 2>/dev/null || echo "no discard on $name"
	unmount "/mnt/$name"
done
for member in "${disks[@]}"; do
	dd if="/dev/$member" of=/dev/null bs=128k count=4 iflag=direct status=none
done

end
