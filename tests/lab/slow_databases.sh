#!/bin/bash
# SPDX-License-Identifier: Apache-2.0 OR MIT
#
# PostgreSQL on ext4 on a RAID 5, and MariaDB (io_uring) on XFS on a RAID 1, each with one slow member. Leaves slow.out of
# raidtrace slow, and the databases' own logs, which have the duration of each statement: postgresql.log, mariadb.log.
# mariadb.times has the server's clock around each statement: "begin NAME SECONDS", "end NAME SECONDS".
# shellcheck source-path=SCRIPTDIR
. ./lib.sh

mkdir -p "$out"
modprobe -a raid456 xfs dm_delay
slow_disks 5 400M
create_array md120 --level=5 --raid-devices=3 --chunk=64 --assume-clean --bitmap=none /dev/mapper/slow{0,1,2}
# Reads go to the slow member.
create_array md121 --level=1 --raid-devices=2 --assume-clean --bitmap=none /dev/mapper/slow3 --write-mostly /dev/mapper/slow4
for md in md120 md121; do echo 600 >"/sys/block/$md/md/safe_mode_delay"; done
filesystem md120 -J size=8
mkfs.xfs -q /dev/md121
mkdir -p /mnt/md121
mount -o noatime /dev/md121 /mnt/md121

bin=$(echo /usr/lib/postgresql/*/bin)
cp -r cluster /mnt/md120/cluster
chown -R 65534:65534 /mnt/md120/cluster
chmod 700 /mnt/md120/cluster
cp -r mariadb-data /mnt/md121/data
sync
echo 3 >/proc/sys/vm/drop_caches
setpriv --reuid 65534 --regid 65534 --clear-groups "$bin/postgres" -D /mnt/md120/cluster \
	-c log_min_duration_statement=0 -c "log_line_prefix=%n %p " -c max_parallel_workers_per_gather=0 2>"$out/postgresql.log" &
postgresql=$!
mariadbd --no-defaults --datadir=/mnt/md121/data --user=root --skip-networking --socket=/tmp/mariadb --innodb-log-file-size=4M \
	--innodb-buffer-pool-size=32M --innodb-buffer-pool-load-at-startup=OFF --lc-messages-dir=/usr/share/mysql \
	--slow-query-log --slow-query-log-file="$out/mariadb.log" --long-query-time=0 2>"$out/mariadb.err" &
mariadb=$!

# pg NAME TIMES SQL: a connection that runs the statement so many times.
pg() {
	echo "$3" >"/run/$1.sql"
	"$bin/pgbench" -h /tmp -U postgres -n -f "/run/$1.sql" -t "$2" postgres >"$out/$1.pgbench" 2>&1
}
sql() { mariadb --no-defaults --socket=/tmp/mariadb --skip-column-names lab; }
# timed NAME SQL: SQL of the statement, with the server's clock before and after it.
timed() {
	echo "SELECT 'begin', '$1', UNIX_TIMESTAMP(SYSDATE(6)); $2; SELECT 'end', '$1', UNIX_TIMESTAMP(SYSDATE(6));"
}
answers() { pg first 1 'SELECT 1' && echo 'SELECT 1' | sql >/dev/null 2>&1; }
wait_until 900 answers
sync
begin_slow slow -t 20ms md120 md121
delay slow1 loop1 60 60 90
delay slow3 loop3 60 60 90

for i in 1 2 3; do pg commit 2 "INSERT INTO pgbench_history (tid, bid, aid, delta) VALUES ($i, 1, 1, 1)"; done
pg read 1 'SELECT sum(abalance) FROM pgbench_accounts WHERE aid IN (1, 30000, 60000, 90000, 120000, 150000, 180000, 199000)'
pg update 1 'UPDATE pgbench_accounts SET abalance = 1 WHERE aid % 4000 = 0'
pg checkpoint 1 CHECKPOINT
{
	for i in 1 2 3; do timed commit "INSERT INTO log (note) VALUES ('$i')"; done
	timed read 'SELECT SUM(LENGTH(pad)) FROM stock'
	timed update "UPDATE stock SET pad = MD5(id) WHERE id IN ($(echo {500..20000..500} | tr ' ' ,))"
	timed flush 'FLUSH TABLES stock FOR EXPORT'
	echo 'UNLOCK TABLES;'
} | sql >"$out/mariadb.times"
wait_intervals # paths are looked up after an operation has ended
end_slow
delay slow1 loop1 0 0 0
delay slow3 loop3 0 0 0
kill -INT "$postgresql"
kill -TERM "$mariadb"
wait "$postgresql" "$mariadb"
