#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# Empty files made by touch, a file of 8 MiB, and two files written by two tasks:
# which task dirtied the blocks that jbd2 and writeback write later. Leaves dirtied.out,
# and in dirtied.kernel the blocks of jbd2's transactions (/proc/fs/jbd2). The same
# for a filesystem in two pieces: pieces.out, pieces.kernel.
# shellcheck source-path=SCRIPTDIR
. ./lib.sh
mkdir -p /out

array md120 300M 4 --level=0 --chunk=64
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/md120
mkdir -p /mnt/fs
mount -o noatime,commit=300 /dev/md120 /mnt/fs
mkdir /mnt/fs/d{1..10}
sync -f /mnt/fs
wait_idle 2

# logged DISK: transactions, and blocks of all of them; the kernel prints a mean, rounded down.
logged() {
	awk '/ transactions / { n = $1 } /blocks per transaction/ && !/logged/ { mean = $1 }
		END { print n, n * mean }' "/proc/fs/jbd2/$1"-*/info
}

# noted_by_kernel NAME: appends the counts of jbd2 before and after.
noted_by_kernel() {
	{
		echo "transactions $transactions $transactions_after"
		echo "blocks $blocks $blocks_after"
	} >"/out/$1.kernel"
	cat "/out/$1.kernel"
}

start_top dirtied --dirtied-origins md120
read -r transactions blocks < <(logged md120)
touch /mnt/fs/d{1..10}/{1..200}
head -c 8M /dev/zero >/mnt/fs/big
head -c 1200K /dev/zero >/mnt/fs/one
head -c 400K /dev/zero >/mnt/fs/two
head -c 200K /dev/zero | tee -a /mnt/fs/one >/dev/null
head -c 800K /dev/zero | tee -a /mnt/fs/two >/dev/null
sync -f /mnt/fs
read -r transactions_after blocks_after < <(logged md120)
wait_intervals    # paths can be looked up while it is mounted
unmount /mnt/fs
wait_idle 2
stop_top
noted_by_kernel dirtied

wipefs -qa /dev/md120
dmsetup create pieces <<'END'
0 409600 linear /dev/md120 819200
409600 409600 linear /dev/md120 0
END
dmsetup mknodes
mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/pieces
mount -o noatime,commit=300 /dev/mapper/pieces /mnt/fs
mkdir /mnt/fs/d{1..10}
sync -f /mnt/fs
wait_idle 2
start_top pieces --dirtied-origins md120
read -r transactions blocks < <(logged dm-0)
touch /mnt/fs/d{1..10}/{1..200}
head -c 8M /dev/zero >/mnt/fs/big
sync -f /mnt/fs
read -r transactions_after blocks_after < <(logged dm-0)
wait_intervals
unmount /mnt/fs
wait_idle 2
stop_top
noted_by_kernel pieces
