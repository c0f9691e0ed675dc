# SPDX-License-Identifier: Apache-2.0 OR MIT
"""raidtrace compared with no tracer, bpftrace and blktrace, on disks without md.

4 KiB direct random writes by two jobs at queue depth 32, on one of twelve loop devices in memory
that raidtrace watches: first all over the device, then to a file of an ext4 on it (for which
raidtrace also finds the name and the origin). The tools take turns, so that a slow phase of the
machine affects all of them. ns/request and IOPS are those of the best turn, which other work
disturbed least; user CPU is the median, RSS the maximum.

  ns/request  time in the tool's BPF programs per completed request, from the kernel's own
              BPF statistics (kernel.bpf_stats_enabled), minus the cost of measuring, which
              is the time of an empty program in the same turn. blktrace has no such figure:
              compare IOPS.
  IOPS        under that load, and relative to no tracer
  user CPU    CPU time of the tool's process, as a share of one core
  lost        events that the tool reports as lost, in all turns

Then, with BPF statistics disabled: the CPU time that raidtrace and bpftrace add to a request,
including tracepoints, entry code and cache misses, with a 95 % confidence interval
(tools/benchmarks/added.py). Then raidtrace's own estimate of its overhead, under the same load: the share of the
time in which BPF statistics are enabled, the share of program runs that the kernel counts in that time, and the
estimated runs per request and ns per run. Last, the time from the start of `raidtrace top --json` to its first line.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from statistics import median

from . import added

from .measure import BPFTRACE, Skipped, Tool, binary, bpf_statistics, bpftrace_lost, ext4, fio, loops, machine_state
from .measure import completed, end, loaded, prepare, raidtrace_lost, tmpfs, print_checks

SIZE = 900  # MiB of the area that is written
STARTS = 9
# Share of bpftrace's program time; ns per request of `record`: 0.6 times the 396 and 481 ns first measured in version 0.1.0.
TARGETS = {
    "all over the device": (0.33, 238),
    "a file on ext4": (0.40, 289),
}


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
    prepare("fio", "bpftrace", "bpftool", "losetup", "cc", "taskset")
    with tmpfs() as scratch:
        images = [(scratch / f"disk{n}", 1 << (20 if n else 30)) for n in range(12)]
        with loops(images) as devices:
            first = first_figures(devices)
            estimated = estimate(devices[0], arguments)
            on_disk = load("all over the device", devices, devices[0], scratch, arguments)
            with ext4(devices[0], f"{scratch}/mnt") as where:
                on_file = load("a file on ext4", devices, f"{where}/file", scratch, arguments)
    return report([on_disk, on_file], first, estimated)


def estimate(device, arguments):
    """raidtrace's estimate of its overhead, and what the kernel counts while raidtrace has BPF statistics enabled."""
    disk = os.path.basename(device)
    with open(f"/sys/block/{disk}/stat", encoding="ascii") as stat, bpf_statistics(False):
        process = subprocess.Popen([binary(), "top", device, "--json"], stdout=subprocess.PIPE, text=True)
        try:
            lines = [process.stdout.readline()]
            before, requests = loaded(process.pid), completed(stat.read())
            fio(device, "randwrite", max(arguments.seconds, 5), f"--size={SIZE}M")
            stat.seek(0)
            after, requests = loaded(process.pid), completed(stat.read()) - requests
        finally:
            end(process)
        lines += process.stdout.read().splitlines()
    runs = sum(p[2] for p in after.values()) - sum(p[2] for p in before.values())
    each = [json.loads(line) for line in lines]
    seconds = sum(i["interval_s"] for i in each)
    events, ns = (sum(i["overhead"][name] for i in each) for name in ("bpf_events", "bpf_ns"))
    return {
        "share": sum(i["interval_s"] * i["overhead"]["measured_share"] for i in each) / seconds,
        "counted": runs / max(events, 1),
        "events": events / max(requests, 1),
        "ns": ns / max(events, 1),
    }


def load(name, devices, path, scratch, arguments):
    """The name, the tools after their turns, and the result of added.measure()."""
    tools, disk = tracers(devices, scratch), os.path.basename(devices[0])
    with bpf_statistics():
        turns(tools, disk, arguments, path)
    adds = None
    if arguments.added:
        command = [binary(), "top", *devices, "--json", "--no-overhead"]
        try:
            adds = added.measure(command, disk, path, SIZE << 20, scratch, arguments.added)
        except Skipped as reason:
            adds = str(reason)
    return name, tools, adds


def first_figures(devices):
    """(seconds from the start to the first line, CPU seconds until the end) of several runs."""
    took = []
    for _ in range(STARTS):
        began = time.monotonic()
        process = subprocess.Popen([binary(), "top", *devices, "--json"], stdout=subprocess.PIPE)
        with contextlib.closing(process.stdout):
            line = process.stdout.readline()
            took_s = time.monotonic() - began
            process.send_signal(signal.SIGINT)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if line:
            took.append((took_s, usage.ru_utime + usage.ru_stime))
    return took


def turns(tools, disk, arguments, path):
    fio(path, "write", 2, f"--size={SIZE}M", jobs=1)
    for _ in range(arguments.rounds):
        for tool in tools:
            tool.run_once(disk, lambda: fio(path, "randwrite", arguments.seconds, f"--size={SIZE}M"))


def table(tools):
    base = max(tools[0].iops, default=0)
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
    prices = [p for t in tools for p in t.stats_overhead_ns]
    if prices:
        print(f"not included: the cost of measuring, {min(prices):.0f} to {max(prices):.0f} ns per run")
    for t in tools:
        if t.why:
            print(f"skipped {t.why}")


def added_table(adds):
    figures, rounds, disturbed, programs = adds
    print(f"added without BPF statistics, {rounds} rounds ({disturbed} more disturbed by statistics of other processes):")
    print(f"{'':30}{'ns/request':>11}{'95 % interval':>18}")
    for name, (figure, low, high) in figures.items():
        digits = 2 if name == added.RATIO else 0
        interval = f"{low:.{digits}f} to {high:.{digits}f}"
        print(f"{name:30}{figure:11.{digits}f}{interval:>18}")
    each = [f"{name} {ns / runs:.0f}" for name, (ns, runs) in sorted(programs.items()) if runs]
    print(f"ns per run in BPF statistics, including the cost of the statistics: {', '.join(each)}")


def report(loads, first, estimated):
    checks = []
    for name, tools, adds in loads:
        print(f"{name}:")
        table(tools)
        ours, theirs, record = tools[1], tools[2], tools[4]
        share, record_ns = TARGETS[name]
        if ours.why or theirs.why:
            checks.append((f"{name}: {ours.why or theirs.why}", False))
        elif ours.ns:
            ratio = min(ours.ns) / min(theirs.ns)
            checks += [
                (f"{name}: kernel time per request {ratio:.2f} of bpftrace's (target {share:.2f})", ratio <= share),
                (f"{name}: lost events at {max(ours.iops):.0f} IOPS: {ours.lost} (target 0)", ours.lost == 0),
                (f"{name}: userspace {median(ours.cpu):.2%} of a core (target 1 %)", median(ours.cpu) < 0.01),
                (f"{name}: resident {max(ours.rss):.1f} MiB (target 32)", max(ours.rss) < 32),
            ]
        if record.ns:
            text = f"{name}: record: {min(record.ns):.0f} ns of programs per request (target {record_ns})"
            checks.append((text, min(record.ns) <= record_ns))
        if isinstance(adds, str):
            checks.append((f"{name}: added: {adds}", False))
        elif adds:
            added_table(adds)
            ratio, low, high = adds[0][added.RATIO]
            text = f"{name}: added {ratio:.2f} of what bpftrace adds ({low:.2f} to {high:.2f}; target 0.40)"
            checks.append((text, ratio <= 0.40))
    share, counted, events, ns = (estimated[name] for name in ("share", "counted", "events", "ns"))
    checks += [
        (f"estimate: BPF statistics enabled for {share:.1%} of the time (target 5 %)", share < 0.05),
        (f"estimate: {counted:.1%} of the runs counted by the kernel (target 25 %)", 0 < counted < 0.25),
        (f"estimate: {events:.1f} runs per request (target 0.5 to 10)", 0.5 < events < 10),
        (f"estimate: {ns:.0f} ns per run (target 10 to 100000)", 10 < ns < 100_000),
    ]
    if first:
        after, cpu = [t[0] for t in first], [t[1] for t in first]
        text = (f"first figures after {median(after):.2f} s ({min(after):.2f} to {max(after):.2f}; target 0.50; "
                f"{median(cpu):.2f} s of CPU time)")
        checks.append((text, median(after) <= 0.5))
    else:
        checks.append(("first figures: none", False))
    print(machine_state())
    return print_checks(checks)
