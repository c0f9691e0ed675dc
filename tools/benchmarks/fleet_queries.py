# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Times the views of a directory over the dataset `fleet` in the working directory.

    fleet_queries.py duckdb|spark VIEWS

Prints {"requests": rows of that table, "views": {name: seconds}, "memory": bytes} as JSON.
"""
import json
import os
import pathlib
import resource
import sys
import time

sys.path.pop(0)  # this directory, whose profile.py is not Python's

ROUNDS = 3
LONG = 20  # seconds; such a query runs once
THREADS = 2


def statements(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("--")]
    return [one for one in "\n".join(lines).split(";") if one.strip()]


def duckdb_engine():
    import duckdb

    duckdb.execute(f"set threads = {THREADS}; set memory_limit = '1GB'")
    return duckdb.execute, lambda sql: duckdb.sql(sql).fetchall()


def spark_engine():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_SUBMIT_ARGS"] = "--driver-memory 2g pyspark-shell"
    settings = {"spark.sql.shuffle.partitions": str(THREADS), "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
                "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "ERROR",
                "spark.sql.warehouse.dir": str(pathlib.Path("warehouse").resolve())}
    builder = SparkSession.builder.master(f"local[{THREADS}]")
    for name, setting in settings.items():
        builder = builder.config(name, setting)
    spark = builder.getOrCreate()
    return spark.sql, lambda sql: spark.sql(sql).collect()


def peak():
    """Most memory of this process, or of the JVM, in bytes."""
    kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        try:
            fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
        except OSError:
            continue
        if fields["PPid"].strip() == str(os.getpid()) and "VmHWM" in fields:
            kib = max(kib, int(fields["VmHWM"].split()[0]))
    return kib * 1024


# Made-up hosts have no cgroups.
WITHOUT = {"waits_by_tenant"}


def main():
    engine, views = sys.argv[1], pathlib.Path(sys.argv[2])
    execute, fetch = {"duckdb": duckdb_engine, "spark": spark_engine}[engine]()
    for one in statements(views / f"tables.{engine}.sql"):
        execute(one)
    requests = fetch("select count(*) from requests")[0][0]
    seconds = {}
    for file in sorted(views.glob("*.sql")):
        if file.name.startswith("tables.") or file.stem in WITHOUT:
            continue
        execute(file.read_text())
        for _ in range(ROUNDS):
            begun = time.monotonic()
            fetch(f"select * from {file.stem}")
            took = time.monotonic() - begun
            seconds[file.stem] = min(took, seconds.get(file.stem, took))
            if took > LONG:
                break
    print(json.dumps({"requests": requests, "views": seconds, "memory": peak()}))


main()
