# SPDX-License-Identifier: Apache-2.0 OR MIT
"""raidtrace compared with no tracer, bpftrace and blktrace, on md arrays.

In a virtual machine (tools/vm), on RAID 0, 1, 10, 5 and 6 of loop disks with an ext4 each:
random 4 KiB direct reads and writes of a file at queue depth 32, in turns; the best turn counts.

The CPU is emulated: absolute nanoseconds and IOPS are meaningless, only ratios within a run are
useful, and even these are approximate, because emulation makes some instructions more expensive than
others. ns is the time in the tool's BPF programs (kernel BPF statistics, minus those of an empty
program) per request completed by the members. For raidtrace it includes the programs for bios of the
array and for the stripe cache of RAID 4/5/6. Targets: at most half of bpftrace's time on RAID 0, 1
and 10, at most all of it on 5 and 6.
"""

import pathlib
import shutil
import subprocess
import sys
import tempfile
from statistics import median

from .measure import BPFTRACE, NOTHING, PROGRAMS, ROOT, binary, bpftrace_lost, completed, iops, machine_state, stats_overhead_ns
from .measure import programs, raidtrace_lost, spent, ticks, print_checks

LEVELS = ("0", "1", "10", "5", "6")
TARGET = {"0": 0.5, "1": 0.5, "10": 0.5, "5": 1.0, "6": 1.0}
TOOLS = ("none", "raidtrace", "bpftrace", "blktrace", "beside")
OURS = ("raidtrace", "beside")
LOST = dict.fromkeys(OURS, raidtrace_lost) | {"bpftrace": bpftrace_lost}


class Turn:
    """Files of one turn, /out/LEVEL.RW.TOOL.ROUND of the guest."""

    def __init__(self, path):
        def text(name):
            return (path / name).read_text() if (path / name).exists() else ""

        self.level, self.rw, self.tool, _ = path.name.split(".")
        stats = [sum(completed(line) for line in text(f"stat.{when}").splitlines()) for when in ("before", "after")]
        self.requests = stats[1] - stats[0]
        self.iops = iops(text("fio"))
        before, after = (programs(text(f"programs.{when}")) for when in ("before", "after"))
        nothing = int((path.parent / "nothing").read_text())
        self.stats_overhead_ns = stats_overhead_ns({0: before.pop(nothing)}, {0: after.pop(nothing)})
        self.detail = spent(before, after, self.requests, self.stats_overhead_ns)
        if self.tool in OURS and not set(PROGRAMS) <= {n.removesuffix("_q") for n in self.detail}:
            sys.exit(f"bench: {path.name}: raidtrace loaded only {' '.join(self.detail)}")
        self.ns = sum(self.detail.values())
        cpu = [text(f"cpu.{when}") for when in ("before", "after")]
        wall = [float(text(f"uptime.{when}").split()[0]) for when in ("before", "after")]
        self.cpu = (ticks(cpu[1]) - ticks(cpu[0])) / 100 / (wall[1] - wall[0]) if all(cpu) else None
        self.lost = None
        if self.tool == "blktrace":
            self.lost = sum(map(int, text("dropped").split()))
        elif self.tool in LOST:
            self.lost = LOST[self.tool](text("out"), text("err"))


def guest(arguments, out):
    for tool in ("fio", "bpftrace", "bpftool", "blktrace", "qemu-system-x86_64"):
        if not shutil.which(tool):
            sys.exit(f"bench: {tool} is missing: tools/setup --lab --bench")
    here = pathlib.Path(__file__).parent
    scripts = {out / "histogram.bt": BPFTRACE, out / "nothing.bt": NOTHING}
    for script, text in scripts.items():
        script.write_text(text)
    files = [binary(), ROOT / "tests/lab/lib.sh", ROOT / "tools/oracle/guest/guest.sh", *scripts, *(shutil.which(t) for t in ("fio", "bpftrace", "blktrace"))]
    command = [ROOT / "tools/vm", "--memory", "4096", "--timeout", "7200", "--out", out]
    for file in files:
        command += ["--file", file]
    if arguments.beside:
        command += ["--file", f"{arguments.beside}:/lab/beside/raidtrace"]
    command += [arguments.kernel, here / "raid.sh", str(arguments.rounds), str(arguments.seconds)]
    status = subprocess.run([*command, *(arguments.level or LEVELS)], stdout=sys.stderr).returncode
    if status:
        sys.exit(f"bench: the guest did not finish its turns: tools/vm ended with {status}")


def raid(arguments):
    with tempfile.TemporaryDirectory(prefix="raidtrace-bench.") as scratch:
        out = arguments.keep or pathlib.Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        began = machine_state()
        guest(arguments, out)
        turns = [Turn(p) for p in sorted(out.iterdir()) if p.name.count(".") == 3]
        failed = {}
        for path in out.glob("*.failed.*"):
            level, _, tool, _ = path.name.split(".")
            said = (path / "err").read_text().strip() if (path / "err").exists() else ""
            failed[level, tool] = said.splitlines()[0] if said else "it did not start tracing"
    print(f"Linux {arguments.kernel} in an emulated machine: only ratios within this run are meaningful")
    print(f"host: {began}; at the end: {machine_state()}")
    return report(turns, failed, arguments.level or LEVELS)


def best(turns):
    """One line of the table, from all turns of a tool."""
    cpu = [t.cpu for t in turns if t.cpu is not None]
    lost = [t.lost for t in turns if t.lost is not None]
    return {
        "ns": min(t.ns for t in turns),
        "iops": max(t.iops for t in turns),
        "cpu": f"{median(cpu):.1%}" if cpu else "-",
        "lost": sum(lost) if lost else "-",
        "detail": {n: min(t.detail.get(n, 0) for t in turns) for n in turns[0].detail},
    }


def report(turns, failed, levels):
    checks, lost = [], 0
    print(f"{'':18}{'tool':12}{'ns/request':>11}{'of bpftrace':>12}{'IOPS':>8}{'relative':>9}"
          f"{'user CPU':>9}{'lost':>6}  ns by program")
    for level in levels:
        for rw in ("randwrite", "randread"):
            rows = {}
            for tool in TOOLS:
                mine = [t for t in turns if (t.level, t.rw, t.tool) == (level, rw, tool)]
                if mine:
                    rows[tool] = best(mine)
                elif rw == "randwrite" and (tool != "beside" or (level, tool) in failed):
                    print(f"skipped RAID {level}: {tool}: {failed.get((level, tool), 'no turn')}")
            name = f"RAID {level} {rw}"
            for tool, row in rows.items():
                theirs = rows["bpftrace"]["ns"] if "bpftrace" in rows else 0
                ratio = row["ns"] / theirs if theirs and tool in OURS else None
                relative = row["iops"] / rows["none"]["iops"]
                ns = f"{row['ns']:.0f}" if row["ns"] else "-"
                each = " ".join(f"{n} {v:.0f}" for n, v in row["detail"].items() if v >= 0.5)
                print(f"{name:18}{tool:12}{ns:>11}{f'{ratio:.2f}' if ratio else '-':>12}{row['iops']:8.0f}"
                      f"{relative:9.2f}{row['cpu']:>9}{row['lost']:>6}  {each if tool in OURS else ''}")
                if tool in OURS:
                    lost += row["lost"]
                if tool == "raidtrace" and ratio:
                    target = TARGET[level]
                    checks.append((f"{name}: {ratio:.2f} of bpftrace's (target {target:.2f})", ratio <= target))
            if not {"raidtrace", "bpftrace"} <= rows.keys():
                checks.append((f"{name}: raidtrace and bpftrace were not both measured", False))
    prices = [t.stats_overhead_ns for t in turns]
    print(f"not included: the cost of measuring, {min(prices):.0f} to {max(prices):.0f} ns per run")
    checks.append((f"lost events: {lost} (target 0)", lost == 0))
    return print_checks(checks)
