#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# md's metadata on a member, at the addresses that mdadm --examine prints: reads
# each place a different number of times and compares raidtrace's origins. Each
# case leaves NAME.out (raidtrace), NAME.status and NAME.places: member, origin,
# bytes. Then a journal device, a PPL and a replacement under load.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

# field TEXT FILE: the first number after TEXT.
field() {
	sed -n "s/.*$1 : [^-0-9]*\(-\?[0-9]\+\).*/\1/p" "$2" | head -n 1
}

# read_at MEMBER SECTOR TIMES ORIGIN
read_at() {
	for ((n = 0; n < $3; n++)); do
		dd "if=/dev/$1" of=/dev/null bs=4096 count=1 skip=$(($2 * 512)) iflag=direct,skip_bytes status=none
	done
	echo "$1 $4 $((4096 * $3))" >>"/out/$name.places"
}

# examined MEMBER VERSION: reads at each address in its superblock.
examined() {
	local at=/tmp/examine.$1 sectors super bitmap log data
	sectors=$(<"/sys/block/$1/size")
	if [ "$2" = 0.90 ]; then
		super=$(((sectors & ~127) - 128))
		bitmap=8
		data=0
	else
		super=$(field 'Super Offset' "$at")
		bitmap=$(field 'Internal Bitmap' "$at")
		log=$(sed -n 's/.*Bad Block Log.*offset \(-\?[0-9]\+\) sectors.*/\1/p' "$at")
		data=$(field 'Data Offset' "$at")
	fi
	read_at "$1" "$super" 1 md_superblock
	read_at "$1" "$((super + bitmap))" 2 md_bitmap
	if [ -n "${log:-}" ]; then read_at "$1" "$((super + log))" 4 md_superblock; fi
	read_at "$1" "$((data + 800))" 8 raw
	echo "$1 $2: super $super bitmap $bitmap log ${log:-none} data $data"
}

number=120
for version in 0.90 1.0 1.1 1.2; do
	array "md$number" 300M 2 --level=1 --metadata="$version" --bitmap=internal
	number=$((number + 1))
done
for member in "${disks[@]}"; do mdadm --examine "/dev/$member" >"/tmp/examine.$member"; done
wait_idle 4
start_top examine md120 md121 md122 md123
number=0
for version in 0.90 1.0 1.1 1.2; do
	for ((i = 0; i < 2; i++)); do examined "loop$number" "$version" && number=$((number + 1)); done
done
stop_top

work() {
	mkdir -p "/mnt/$1/d"{1..10}
	for dir in "/mnt/$1"/d*; do dd if=/dev/zero of="$dir/file" bs=20k count=2 conv=fsync status=none; done
	sync
}

# The journal device is the last one.
truncate -s 300M /tmp/disk11
losetup /dev/loop11 /tmp/disk11
array md124 200M 3 --level=5 --chunk=64 --write-journal=/dev/loop11
disks+=(loop11)    # 8, 9 and 10 before it
filesystem md124 -J size=4
array md125 200M 3 --level=5 --chunk=64 --consistency-policy=ppl
filesystem md125 -J size=4
wait_idle 4
start_top logs md124 md125
work md124
work md125
wait_idle 3
stop_top

# A member is replaced under load.
is_replaced() { # ARRAY MEMBER: md fails a member once its replacement is complete.
	grep -q faulty "/sys/block/$1/md/dev-$2/state" && [ "$(<"/sys/block/$1/md/sync_action")" = idle ]
}
truncate -s 200M /tmp/disk15
losetup /dev/loop15 /tmp/disk15
mdadm --quiet /dev/md125 --add /dev/loop15
wait_idle 4
start_top replace md125
mdadm --quiet /dev/md125 --replace /dev/loop12 --with /dev/loop15
work md125
wait_until 900 is_replaced md125 loop12
work md125
wait_idle 3
stop_top

# Swap space is noticed, and all of its IO is swap.
disks+=(loop15)
array md126 200M 2 --level=1
mkswap /dev/md126
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir -p /sys/fs/cgroup/swaps /memory
echo 32M >/sys/fs/cgroup/swaps/memory.max
mount -t tmpfs -o size=200M none /memory
wait_idle 4
start_top swap md126
wait_for_note 'md126 is swap' swapon /dev/md126
written=$(awk '{ print $7 }' /sys/block/md126/stat)
in_cgroup /sys/fs/cgroup/swaps dd if=/dev/urandom of=/memory/file bs=1M count=64 status=none    # zeros are not swapped out
wait_idle 3
echo $((($(awk '{ print $7 }' /sys/block/md126/stat) - written) * 512)) >/out/swap.written
stop_top
