# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of raidtrace slow.

Two loads, each with and without the programs in turns: two processes that wake each other up, which
switches the context as often as possible and calls no filesystem; and fsync in a loop on ext4 in memory.
The run time of the programs is from the kernel's BPF statistics, which add 50 ns or more to each run. The target
for an fsync uses this run time, because the time of the loop itself varies by more than the target.
"""

import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import time

from .measure import ATTACH_TIMEOUT, binary, ext4, loaded, loops, prepare, tmpfs

SWITCHES = 100_000  # per second
SHARE = 0.01  # of all CPUs at SWITCHES
SLOWER = 0.03  # of an fsync
STATISTICS_NS = 50  # minimum that BPF statistics add to each run


def switches():
    for line in pathlib.Path("/proc/stat").read_text().splitlines():
        if line.startswith("ctxt"):
            return int(line.split()[1])
    raise RuntimeError("no ctxt in /proc/stat")


def ping_pong(seconds):
    """Context switches per second of two processes on one CPU that wake each other up."""
    a, b = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, {0})
        # Close the unused ends: a pipe without a writer ends the loop.
        os.close(a[1])
        os.close(b[0])
        with contextlib.suppress(OSError):
            while os.read(a[0], 1):
                os.write(b[1], b"x")
        os._exit(0)
    os.sched_setaffinity(0, {0})
    before, start = switches(), time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(1000):
            os.write(a[1], b"x")
            os.read(b[0], 1)
    rate = (switches() - before) / (time.monotonic() - start)
    os.sched_setaffinity(0, range(os.cpu_count()))
    for end in (*a, *b):
        os.close(end)
    os.waitpid(child, 0)
    return rate


def fsyncs(path, seconds):
    """Seconds per fsync of a block that is overwritten."""
    block, count = bytes(4096), 0
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        for _ in range(50):
            os.pwrite(file, block, 0)
            os.fsync(file)
        count += 50
    took = (time.monotonic() - start) / count
    os.close(file)
    return took


@contextlib.contextmanager
def tracing(where):
    """raidtrace slow on a mount point."""
    command = [binary(), "slow", "--json", "--interval", "1", str(where)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        end = time.monotonic() + ATTACH_TIMEOUT
        if not process.stdout.readline() or time.monotonic() > end:
            raise SystemExit("bench: raidtrace slow did not start")
        os.set_blocking(process.stdout.fileno(), False)
        try:
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate()


def slow(arguments):
    prepare("bpftool", "mke2fs", "losetup")
    statistics_switch = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    switch_ns, without, with_, in_programs, rate = [], [], [], [], 0
    with tmpfs() as scratch, loops([(scratch / "disk", 1 << 30)]) as (device,), ext4(device, scratch / "mnt") as mount:
        file = mount / "file"
        fsyncs(file, 0.5)
        for _ in range(arguments.rounds):
            without.append(fsyncs(file, arguments.seconds))
            with tracing(mount) as pid:
                with_.append(fsyncs(file, arguments.seconds))
                statistics_switch.write_text("1")
                before = loaded(pid)
                each = fsyncs(file, arguments.seconds)
                after = loaded(pid)
                spent = sum(ns - before[i][1] for i, (_, ns, _) in after.items() if i in before)
                runs = sum(n - before[i][2] for i, (_, _, n) in after.items() if i in before)
                calls = arguments.seconds / each
                in_programs.append((spent / 1e9 / calls, runs / calls, each))
                before = loaded(pid)
                rate = ping_pong(arguments.seconds)
                after = loaded(pid)
                statistics_switch.write_text("0")
                # Most switches include a wake-up.
                took = {name: (ns - before[i][1], runs - before[i][2]) for i, (name, ns, runs) in after.items() if i in before}
                total = sum(took[name][0] for name in ("rt_slow_switch", "rt_slow_waking"))
                switch_ns.append(total / max(took["rt_slow_switch"][1], 1))
    each = statistics.median(switch_ns)
    share = each * SWITCHES / 1e9 / os.cpu_count()
    spent, runs, fsync = (statistics.median(values) for values in zip(*in_programs))
    slower = (spent - runs * STATISTICS_NS / 1e9) / fsync
    print(f"context switch: {each:.0f} ns in the programs of switch and wake-up, statistics included ({rate:.0f} switches a second here)")
    print(
        f"fsync: {1e6 * statistics.median(without):.1f} us without, {1e6 * statistics.median(with_):.1f} us with; "
        f"{1e6 * spent:.2f} us in {runs:.0f} runs of programs, of which statistics take {1e-3 * runs * STATISTICS_NS:.2f} us"
    )
    checks = [
        (f"{100 * share:.2f} % of {os.cpu_count()} CPUs at {SWITCHES} switches a second (target {100 * SHARE:.0f} %)", share <= SHARE),
        (f"{100 * slower:.1f} % of an fsync on a disk in memory are in the programs (target {100 * SLOWER:.0f} %)", slower <= SLOWER),
    ]
    for text, ok in checks:
        print(f"{'ok' if ok else 'MISS'}: {text}")
    return 0 if all(ok for _, ok in checks) else 1
