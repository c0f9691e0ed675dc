# SPDX-License-Identifier: Apache-2.0 OR MIT
"""PostgreSQL of this machine for a guest, with a small database that is made here, where initdb takes a second."""

import os
import pathlib
import shutil
import subprocess
import threading

NOBODY = 65534  # PostgreSQL refuses to run as root
MAKING = threading.Lock()


class Missing(Exception):
    pass


def files(out):
    """Arguments of tools/vm --file. The paths are those of this machine, because PostgreSQL finds its files by them."""
    programs = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not programs:
        raise Missing("no PostgreSQL on this machine: tools/setup --lab installs it")
    bin_dir = programs[-1].parent
    version = bin_dir.parent.name
    cluster = out.resolve() / f"postgresql-{version}"
    with MAKING:
        if not cluster.exists():
            make(bin_dir, cluster)
    return [f"{bin_dir}/postgres:{bin_dir}/postgres", f"{bin_dir}/pgbench:{bin_dir}/pgbench", f"{cluster}:/lab/cluster",
            *(f"{path}:{path}" for path in (f"/usr/lib/postgresql/{version}/lib/plpgsql.so",
                                            f"/usr/share/postgresql/{version}/timezonesets", "/usr/share/zoneinfo/UTC"))]


def make(bin_dir, cluster):
    """A cluster with the tables of pgbench, about 50 MB."""
    work = cluster.with_suffix(".new")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    data = work / "data"
    if os.getuid() == 0:
        os.chown(work, NOBODY, NOBODY)

    def run(program, *arguments):
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        done = subprocess.run([bin_dir / program, *arguments], capture_output=True, text=True, cwd=work, **user)
        if done.returncode:
            raise Missing(f"{program} of PostgreSQL: {done.stderr.strip() or done.stdout.strip()}")

    run("initdb", "-D", data, "-U", "postgres", "--auth=trust", "--no-locale", "--wal-segsize=1", "--no-sync")
    with open(data / "postgresql.conf", "a") as conf:
        conf.write("listen_addresses = ''\nunix_socket_directories = '/tmp'\nshared_buffers = 32MB\nmin_wal_size = 4MB\n"
                   "max_wal_size = 32MB\nlog_timezone = 'UTC'\ntimezone = 'UTC'\nautovacuum = off\n")
    start = ("-D", data, "-w", "-l", work / "log", "-o", f"-F -k {work}")
    run("pg_ctl", *start, "start")
    try:
        run("pgbench", "-h", work, "-U", "postgres", "--initialize", "--quiet", "--scale=2", "postgres")
    finally:
        run("pg_ctl", "-D", data, "-w", "-m", "fast", "stop")
    data.rename(cluster)
    shutil.rmtree(work)
