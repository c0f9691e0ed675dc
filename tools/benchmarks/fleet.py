# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Size of a fleet's dataset, speed of the export that makes it, and how the time of each query of contrib/sql grows.

For each number of host-hours, tools/fleet makes recordings of made-up hosts and the dataset; the views of contrib/sql then run on
DuckDB and on Spark, each engine in a process of its own with 2 threads. A query's time is that of the fastest round, and includes the
reading of all its rows. Needs no root; needs the release builds of raidtrace and of examples/fleet, and 3 GB of disk for each
1,000 host-hours.

Targets: export a host-hour in 2 s of CPU time, in 256 MiB; 25 bytes of dataset per request; a query that reads at least 0.5 s
grows at most as the number of requests (and 20 %); 1.5 GiB of memory for DuckDB.
"""

import json
import pathlib
import subprocess
import tempfile

from .measure import ROOT, binary, machine_state, print_checks
from .report import cost

PYTHON = ROOT / "target/python/bin/python"
HOSTS, MINUTES = (16, 500), 60  # fewest and most made-up hosts, longest recording; each host has two
EXPORTED = 40  # recordings whose export is measured
HOUR, EXPORT_MEMORY, BYTES = 2, 256 << 20, 25
MEMORY = 3 << 29
SHORT = 0.5  # seconds; below it, a query's time is mostly that of opening files and of planning
SLACK = 1.2


def make(host_hours, where):
    """Makes a fleet of about that many host-hours in `where`. Returns the host-hours that it has."""
    hosts = max(HOSTS[0], min(HOSTS[1], host_hours // 2))
    minutes = max(1, min(MINUTES, round(host_hours * 60 / hosts / 2)))
    generator = ROOT / "target/release/examples/fleet"
    if not generator.exists():
        raise SystemExit(f"bench: {generator.relative_to(ROOT)} is missing: cargo build --release --example fleet")
    subprocess.run([PYTHON, ROOT / "tools/fleet", "--out", where, "--hosts", str(hosts), "--minutes", str(minutes),
                    "--raidtrace", binary(), "--generator", generator], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return hosts * 2 * minutes / 60


def bytes_below(directory):
    return sum(file.stat().st_size for file in directory.rglob("*.parquet"))


def answers(engine, where):
    """What fleet_queries.py measures: rows of the tables, seconds of each view, bytes of memory."""
    done = subprocess.run([PYTHON, pathlib.Path(__file__).with_name("fleet_queries.py"), engine, ROOT / "contrib/sql"],
                          cwd=where, text=True, capture_output=True)
    if done.returncode:
        raise SystemExit(f"bench: {engine}: {done.stderr.strip().splitlines()[-1:]}")
    return json.loads(done.stdout)


def fleet(arguments):
    checks, sizes, found = [], [], {engine: [] for engine in arguments.engine or ("duckdb", "spark")}
    print(machine_state())
    for wanted in sorted(arguments.host_hours or (10, 100)):
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            where = pathlib.Path(folder) / "made"
            hours = make(wanted, where)
            for engine, measured in found.items():
                measured.append(answers(engine, where))
            dataset = where / "fleet"
            requests = next(iter(found.values()))[-1]["requests"]
            sizes.append((hours, requests))
            each = bytes_below(dataset / "requests") / requests
            print(f"{hours:.0f} host-hours: {requests / 1e6:.2f} million requests, {sum(1 for _ in dataset.rglob('*.parquet'))} files, "
                  f"{bytes_below(dataset) / 1e6:.0f} MB; of that, for a million requests {each:.1f} MB; for a host-hour "
                  f"{bytes_below(dataset / 'intervals') / hours / 1e3:.0f} KB of intervals")
            checks.append((f"{hours:.0f} host-hours: {each:.1f} bytes per request in the dataset (target {BYTES})", each <= BYTES))
            every = sorted(str(path) for path in (where / "recordings").glob("0*.rtrace"))
            recordings = every[:EXPORTED]
            seconds, memory = cost(binary(), "export", "-f", "parquet", "--dataset", str(where / "again"), *recordings)
            # Made-up hosts have few requests a second: most of the time is that of intervals and verdicts.
            hourly = seconds / (hours * len(recordings) / len(every))
            checks.append((f"{hours:.0f} host-hours, export of {len(recordings)} recordings: {hourly:.2f} s of CPU time per host-hour "
                           f"(target {HOUR})", hourly <= HOUR))
            checks.append((f"{hours:.0f} host-hours, export: {memory >> 20} MiB (target {EXPORT_MEMORY >> 20})", memory <= EXPORT_MEMORY))
    more = [b / a for (_, a), (_, b) in zip(sizes, sizes[1:])]
    for engine, measured in found.items():
        print(f"\n{engine:24}" + "".join(f"{hours:>9.0f} h" for hours, _ in sizes) + "".join(f"{'x' + format(n, '.1f'):>9}" for n in more))
        for view in measured[0]["views"]:
            times = [one["views"][view] for one in measured]
            grown = [b / a for a, b in zip(times, times[1:])]
            print(f"{view:24}" + "".join(f"{t:11.2f}" for t in times) + "".join(f"{'x' + format(g, '.1f'):>9}" for g in grown))
            for t, g, n in zip(times[1:], grown, more):
                if t >= SHORT:
                    checks.append((f"{engine}, {view}: x{g:.1f} for x{n:.1f} requests (target x{n * SLACK:.1f})", g <= n * SLACK))
        print(f"{'memory, MiB':24}" + "".join(f"{one['memory'] >> 20:11}" for one in measured))
        if engine == "duckdb":
            most = max(one["memory"] for one in measured)
            checks.append((f"duckdb: {most >> 20} MiB (target {MEMORY >> 20})", most <= MEMORY))
    print()
    return print_checks(checks)
