#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Databases of this machine for a guest, with small data that is made here, where it takes a second.

  tools/incident/databases.py OUT NAME...    prints arguments of tools/vm, one a line

NAME is postgresql or mariadb. OUT keeps the data for the next guest. Status 1, with the reason, if a database is missing.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys

NOBODY = 65534  # PostgreSQL refuses to run as root


class Missing(Exception):
    pass


def run(program, *arguments, what, **options):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, **options)
    if done.returncode:
        raise Missing(f"{pathlib.Path(program).name} of {what}: {done.stderr.strip() or done.stdout.strip()}")


@contextlib.contextmanager
def one_at_a_time(out):
    """Several guests can start at once, in threads and in processes."""
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "databases.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def made(make, data):
    """Calls make(directory) unless there is data, so that an interrupted call leaves none."""
    work = data.with_suffix(".new")
    with one_at_a_time(data.parent):
        if not data.exists():
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            make(work)
            (work / "data").rename(data)
            shutil.rmtree(work)


def postgresql(out):
    """Arguments of tools/vm --file. The paths are those of this machine, because PostgreSQL finds its files by them."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        raise Missing("no PostgreSQL on this machine: tools/setup --lab installs it")
    bin_dir = programs[-1].parent
    version = bin_dir.parent.name
    cluster = out.resolve() / f"postgresql-{version}"
    made(lambda work: make_postgresql(bin_dir, work), cluster)
    return [f"{bin_dir}/postgres:{bin_dir}/postgres", f"{bin_dir}/pgbench:{bin_dir}/pgbench", f"{cluster}:/lab/cluster",
            *(f"{path}:{path}" for path in (f"/usr/lib/postgresql/{version}/lib/plpgsql.so",
                                            f"/usr/share/postgresql/{version}/timezonesets", "/usr/share/zoneinfo/UTC"))]


def make_postgresql(bin_dir, work):
    """A cluster with the tables of pgbench, about 50 MB."""
    data = work / "data"
    user = {}
    if os.getuid() == 0:
        os.chown(work, NOBODY, NOBODY)
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}

    def tool(program, *arguments):
        run(bin_dir / program, *arguments, what="PostgreSQL", cwd=work, **user)

    tool("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-locale", "--wal-segsize=1", "--no-sync")
    with open(data / "postgresql.conf", "a") as conf:
        conf.write("listen_addresses = ''\nunix_socket_directories = '/tmp'\nshared_buffers = 32MB\nmin_wal_size = 4MB\n"
                   "max_wal_size = 32MB\nlog_timezone = 'UTC'\ntimezone = 'UTC'\nautovacuum = off\n")
    start = ("-D", data, "-w", "-l", work / "log", "-o", f"-F -k {work}")
    tool("pg_ctl", *start, "start")
    try:
        tool("pgbench", "-h", work, "-U", "postgres", "--initialize", "--quiet", "--scale=2", "postgres")
    finally:
        tool("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")


# The option's name is that of MariaDB and of MySQL.
INNODB = ("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M", "--innodb-buffer-pool-dump-at-shutdown=OFF")
TABLES = """CREATE DATABASE lab;
USE lab;
CREATE TABLE log (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200)) ENGINE=InnoDB;
CREATE TABLE stock (id INT PRIMARY KEY, pad CHAR(200)) ENGINE=InnoDB;
INSERT INTO stock SELECT seq, REPEAT('x', 200) FROM seq_1_to_20000;
"""


def mariadb(out):
    """Arguments of tools/vm --file, as for PostgreSQL."""
    server, client, messages = "/usr/sbin/mariadbd", "/usr/bin/mariadb", "/usr/share/mysql/english"
    if not all(map(os.path.exists, (server, client, messages))):
        raise Missing("no MariaDB on this machine: tools/setup --lab installs it")
    data = out.resolve() / "mariadb"
    made(lambda work: make_mariadb(server, work), data)
    return [*(f"{path}:{path}" for path in (server, client, messages)), f"{data}:/lab/mariadb-data"]


def make_mariadb(server, work):
    """InnoDB tables of about 14 MB: "stock" for reads, "log" for commits."""
    options = (f"--datadir={work}/data", "--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve")
    run("mariadb-install-db", "--no-defaults", *options, *INNODB, what="MariaDB")
    run(server, "--no-defaults", f"--datadir={work}/data", "--user=root", "--bootstrap", *INNODB, what="MariaDB", input=TABLES)


DATABASES = {"postgresql": postgresql, "mariadb": mariadb}


def main(argv):
    try:
        for name in argv[1:]:
            for file in DATABASES[name](pathlib.Path(argv[0])):
                print("--file", file, sep="\n")
    except Missing as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
