# SPDX-License-Identifier: Apache-2.0 OR MIT
"""raidtrace beside no tracer, bpftrace and blktrace, on disks without md.

4 KiB direct random writes at queue depth 32 by two jobs, on one loop device in memory of
twelve that raidtrace watches: first all over the device, then to a file of an ext4 on it
(whose name and origin raidtrace finds out besides). The tools take turns, so that a slow minute hits all; figures are
those of the best turn, the one that other work disturbed least.

  ns/request  time in the tool's BPF programs per completed request, from the kernel's own
              BPF statistics (kernel.bpf_stats_enabled), less what measuring itself adds to
              each run: what an empty program beside them is said to take, in the same turn.
              blktrace has no such figure: compare IOPS.
  IOPS        under that load, and relative to no tracer
  user CPU    of one core, of the tool's process
  lost        events that the tool says it has lost, in all turns
"""

import os
import shutil
import subprocess
from statistics import median

from .measure import BPFTRACE, Tool, binary, bpf_statistics, bpftrace_lost, ext4, fio, loops, memory, prepare
from .measure import raidtrace_lost, state, verdict


def tracers(devices, scratch):
    top = [binary(), "top", *devices, "--json", "--no-overhead"]
    bpftrace = ["bpftrace", "-e", BPFTRACE]
    tools = [
        Tool("no tracer"),
        Tool("raidtrace top", top, 2, raidtrace_lost),
        Tool("bpftrace", bpftrace, 2, bpftrace_lost),
        Tool("blktrace", ["blktrace", "-d", devices[0], "-o", "-"]),
        Tool("raidtrace record", [binary(), "record", *devices, "-o", f"{scratch}/recording", "--force"], 2),
    ]
    if not shutil.which("blktrace"):
        tools[3].why = "blktrace: not installed (tools/setup --bench)"
    help_ = subprocess.run([binary(), "record", "--help"], capture_output=True, text=True)
    if help_.returncode:
        tools[4].why = "raidtrace record: this binary has no such command"
    return tools


def top(arguments):
    prepare("fio", "bpftrace", "bpftool", "losetup")
    with memory() as scratch, bpf_statistics():
        images = [(scratch / f"disk{n}", 1 << (20 if n else 30)) for n in range(12)]
        with loops(images) as devices:
            disk = os.path.basename(devices[0])
            raw, on_file = tracers(devices, scratch), tracers(devices, scratch)
            turns(raw, disk, arguments, devices[0])
            with ext4(devices[0], f"{scratch}/mnt") as where:
                turns(on_file, disk, arguments, f"{where}/file")
    return report({"all over the device": raw, "a file on ext4": on_file})


def turns(tools, disk, arguments, path):
    fio(path, "write", 2, "--size=900M", jobs=1)
    for _ in range(arguments.rounds):
        for tool in tools:
            tool.turn(disk, lambda: fio(path, "randwrite", arguments.seconds, "--size=900M"))


def table(tools):
    base = max(tools[0].iops)
    print(f"{'':18}{'ns/request':>10}{'IOPS':>10}{'relative':>10}{'user CPU':>10}{'RSS MiB':>9}{'lost':>6}")
    for t in tools:
        if not t.iops:
            continue
        ns = f"{min(t.ns):.0f}" if t.ns else "-"
        cpu = f"{median(t.cpu):.2%}" if t.cpu else "-"
        rss = f"{max(t.rss):.1f}" if t.rss else "-"
        lost = "-" if t.lost is None else t.lost
        print(f"{t.name:18}{ns:>10}{max(t.iops):10.0f}{max(t.iops) / base:10.2f}{cpu:>10}{rss:>9}{lost:>6}")
        for name, each in sorted(t.detail.items(), key=lambda kv: -min(kv[1])):
            print(f"  {name:16}{min(each):10.0f}")
    prices = [p for t in tools for p in t.price]
    if prices:
        print(f"not in it, of each run: {min(prices):.0f} to {max(prices):.0f} ns, the price of measuring")
    for t in tools:
        if t.why:
            print(f"skipped {t.why}")


def report(loads):
    checks = []
    for load, tools in loads.items():
        print(f"{load}:")
        table(tools)
        ours, theirs = tools[1], tools[2]
        if ours.why or theirs.why:
            checks.append((f"{load}: {ours.why or theirs.why}", False))
            continue
        ratio = min(ours.ns) / min(theirs.ns)
        checks += [
            (f"{load}: kernel time per request {ratio:.2f} of bpftrace's (target 0.50)", ratio <= 0.5),
            (f"{load}: lost events at {max(ours.iops):.0f} IOPS: {ours.lost} (target 0)", ours.lost == 0),
            (f"{load}: userspace {median(ours.cpu):.2%} of a core (target 1 %)", median(ours.cpu) < 0.01),
            (f"{load}: resident {max(ours.rss):.1f} MiB (target 32)", max(ours.rss) < 32),
        ]
    print(state())
    return verdict(checks)
