#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# The first case: two arrays of 12 x 100 GiB, RAID 0, chunk 512 KiB; mke2fs's
# defaults on md120, -g 32744 on md121; files created and removed in 400
# directories, which ext4 puts into as many groups as it can.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

for name in md120 md121; do array "$name" 100G 12 --level=0 --chunk=512; done
filesystem md120
filesystem md121 -g 32744 -E lazy_journal_init=1    # spares 1 GiB of zeroes
for name in md120 md121; do raidtrace layout "/mnt/$name" --json >"/out/layout.$name.json"; done
begin

printf -v content '%65536s' ''
for name in md120 md121; do mkdir "/mnt/$name"/d{1..400}; done
for dir in /mnt/md12[01]/d*; do
	printf %s "$content" >"$dir/kept"
	printf %s "$content" >"$dir/gone"
done
sync
rm /mnt/md12[01]/d*/gone
sync
rm -r /mnt/md12[01]/d*[05]
unmount /mnt/md120 /mnt/md121

end
