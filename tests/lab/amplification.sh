#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Cost of writes on every level: single blocks, each in a stripe that is not in
# the stripe cache; then full stripes; then small files with fsync, so that
# journal and file data dirty the same stripes. /out/phases has for each phase the
# number of raidtrace's lines before it and at its end.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

readonly chunk=$((64 << 10)) block=4096 singles=40 stripes=24

array md120 2G 4 --level=5 --chunk=64 --bitmap=none
array md121 2G 5 --level=5 --chunk=64 --bitmap=internal --delay=1
array md122 2G 5 --level=6 --chunk=64 --bitmap=none
array md123 2G 7 --level=6 --chunk=64 --bitmap=none
array md124 2G 2 --level=1 --bitmap=none
array md125 2G 4 --level=10 --chunk=64 --bitmap=none
array md126 2G 3 --level=0 --chunk=64
# RAID 0 over a RAID 5 and a RAID 1.
array md117 2G 3 --level=5 --chunk=64 --bitmap=none
array md118 2G 2 --level=1 --bitmap=none
mdadm --create /dev/md119 --run --quiet --level=0 --chunk=64 --raid-devices=2 /dev/md117 /dev/md118
arrays=("${arrays[@]:0:7}" md119)
# Number of data members per stripe.
declare -A data=([md120]=3 [md121]=4 [md122]=3 [md123]=5 [md124]=1 [md125]=2 [md126]=3 [md119]=2)

for name in "${arrays[@]}"; do
	filesystem "$name" -J size=8
	dd if=/dev/zero of="/mnt/$name/file" bs=1M count=32 oflag=direct status=none
done
sync

# first NAME: offset of the first full stripe in the file, in bytes.
first() {
	local place stripe=$((data[$1] * chunk))
	place=$(debugfs -R 'bmap /file 0' "/dev/$1" 2>/dev/null)
	echo $(((stripe - place * block % stripe) % stripe))
}

# phase NAME FUNCTION: runs a phase, with idle members before and after it.
phase() {
	local before on
	before=$(wc -l </out/top.out)
	for on in "${arrays[@]}"; do "$2" "$on"; done
	sync
	wait_idle 2
	wait_intervals
	echo "$1 $before $(wc -l </out/top.out)" >>/out/phases
}

write() {
	dd if=/dev/zero of="$1" bs="$2" count="$3" oflag=direct,seek_bytes seek="$4" conv=notrunc status=none
}

# The next stripe, the next member, the next block of the chunk.
single() {
	local step=$((data[$1] * chunk + chunk + block))
	for ((i = 0; i < singles; i++)); do
		write "/mnt/$1/file" "$block" 1 $((i * step))
	done
}

full() {
	write "/mnt/$1/file" $((data[$1] * chunk)) "$stripes" "$(first "$1")"
}

small() {
	mkdir "/mnt/$1/small"
	for ((i = 0; i < 20; i++)); do
		dd if=/dev/zero of="/mnt/$1/small/$i" bs=12k count=1 conv=fsync status=none
	done
}

interval=1 start_top top "${arrays[@]/#//dev/}"
# The lab's kernels accept every program: one that is refused is a bug of raidtrace.
if grep -q "kernel refused" /out/top.err; then
	cat /out/top.err >&2
	exit 1
fi
wait_idle 2
wait_intervals
for which in single full small; do phase "$which" "$which"; done
stop_top
