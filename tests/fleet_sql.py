"""Runs the views of a directory on DuckDB and on Spark, over the dataset in the working directory.

    fleet_sql.py VIEWS

Prints {engine: {view: {"columns": [...], "rows": [...]}}} as JSON. Before that, removes columns from some files, as if an older
version had written them.
"""
import datetime
import json
import os
import pathlib
import sys

import duckdb
import pyarrow
import pyarrow.parquet
from pyspark.sql import SparkSession

VIEWS = pathlib.Path(sys.argv[1])
# Hosts whose files lack columns.
OLDER = {"intervals/*/host=host14": ["requeues", "requeue_us"], "commits/*/host=host15": ["state_commit_record_us"],
         "requests/date=2026-11-25/host=host16": ["host_id"]}


def make_older():
    for pattern, columns in OLDER.items():
        files = sorted(pathlib.Path("fleet").glob(pattern + "/*.parquet"))
        assert files, pattern
        for file in files:
            table = pyarrow.parquet.read_table(file, partitioning=None)
            pyarrow.parquet.write_table(table.drop_columns(columns), file)


def statements(file):
    lines = [line for line in file.read_text().splitlines() if not line.startswith("--")]
    return [one for one in "\n".join(lines).split(";") if one.strip()]


def answers(engine, execute, fetch):
    for declarations in [f"tables.{engine}.sql", f"tables.cgroups.{engine}.sql"]:
        for one in statements(VIEWS / declarations):
            execute(one)
    found = {}
    for file in sorted(VIEWS.glob("*.sql")):
        if not file.name.startswith("tables."):
            execute(file.read_text())
            columns, rows = fetch(f"select * from {file.stem}")
            found[file.stem] = {"columns": columns, "rows": [[value(v) for v in row] for row in rows]}
    return found


def value(v):
    """Numbers, texts and null as they are; times as text."""
    return v if v is None or isinstance(v, (int, float, str)) else str(v).removesuffix("+00:00")


def duckdb_rows(sql):
    found = duckdb.sql(sql)
    return found.columns, found.fetchall()


def spark_rows(sql):
    found = spark.sql(sql)
    return found.columns, found.collect()


def add_cgroups():
    """Adds minutes of `serve --with-cgroups` on two hosts: a backup makes a database wait, and itself."""
    backup, database = "/system.slice/backup.service", "/system.slice/postgresql@15-main.service"
    for host in ["host01", "host02"]:
        rows = [(database, [(backup, 1_500_000), (database, 9_000_000)]), (backup, [(backup, 70_000_000)]), ("other", [])]
        row = {"time": datetime.datetime(2026, 11, 26, 2, 10, tzinfo=datetime.timezone.utc), "array": "md0", "host_name": host, "host_id": host * 4}
        rows = [row | {"cgroup": cgroup, "made_wait": [{"by": by, "us": us} for by, us in made_wait]} for cgroup, made_wait in rows]
        folder = pathlib.Path("fleet/cgroups/date=2026-11-26") / f"host={host}"
        folder.mkdir(parents=True)
        kind = {"time": pyarrow.timestamp("us", "UTC"), "array": pyarrow.string(), "host_name": pyarrow.string(), "host_id": pyarrow.string(),
                "cgroup": pyarrow.string(), "made_wait": pyarrow.list_(pyarrow.struct({"by": pyarrow.string(), "us": pyarrow.int64()}))}
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, pyarrow.schema(kind)), folder / "20261126T020000-serve.parquet")


def copy_as_serve():
    """Adds the intervals and verdicts of two hosts once more, as if serve had written them."""
    for host in ["incident3", "host05"]:
        for file in [file for table in ["intervals", "verdicts"] for file in pathlib.Path("fleet").glob(f"{table}/*/host={host}/*.parquet")]:
            table = pyarrow.parquet.read_table(file, partitioning=None)
            names = [f"{name}-serve" for name in table.column("recording").to_pylist()]
            at = table.schema.get_field_index("recording")
            table = table.set_column(at, table.schema.field(at), pyarrow.array(names, pyarrow.string()))
            pyarrow.parquet.write_table(table, file.with_name(f"{names[0]}.parquet"))


make_older()
add_cgroups()
before = answers("duckdb", duckdb.execute, duckdb_rows)
copy_as_serve()
# Half the CPU time: a short program is done before compiled code pays.
os.environ["PYSPARK_SUBMIT_ARGS"] = ("--driver-memory 700m --driver-java-options '-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
                                     "pyspark-shell")
settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN", "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.log.level": "ERROR",
            "spark.sql.warehouse.dir": str(pathlib.Path("warehouse").resolve())}
builder = SparkSession.builder.master("local[2]")
for name, setting in settings.items():
    builder = builder.config(name, setting)
spark = builder.getOrCreate()
both = {"duckdb": answers("duckdb", duckdb.execute, duckdb_rows), "spark": answers("spark", spark.sql, spark_rows)}
spark.stop()
for view, answer in before.items():
    assert both["duckdb"][view] == answer, f"{view} counts twice: {answer} {both['duckdb'][view]}"
print(json.dumps(both))
