# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of raidtrace slow.

Three loads, each with and without the programs in turns: two processes that wake each other up, which
switches the context as often as possible and calls no filesystem; fsync in a loop on ext4 in memory; and
asynchronous direct reads there (libaio, 32 in flight), as many as the CPUs can do.
The run time of the programs is from the kernel's BPF statistics, which add 50 ns or more to each run. The targets
for an fsync and for reads use this run time, because what the loops reach varies by more than the targets.
"""

import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import time

from .measure import ATTACH_TIMEOUT, binary, bpf_statistics, ext4, fio, loaded, loops, prepare, tmpfs

SWITCHES = 100_000  # per second
SHARE = 0.01  # of all CPUs at SWITCHES
SLOWER = 0.03  # of an fsync
ASYNCHRONOUS = 100_000  # reads per second
FEWER = 0.03  # of all CPUs, and so of what they can read, at ASYNCHRONOUS
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


def in_programs(pid, work):
    """Result of work(), and by program its seconds and runs meanwhile."""
    with bpf_statistics():
        before = loaded(pid)
        result = work()
        after = loaded(pid)
    took = {}
    for i, (name, ns, runs) in after.items():
        # The kernel cuts names: several programs may have the same one.
        was, sums = before[i], took.get(name, (0, 0))
        took[name] = (sums[0] + (ns - was[1]) / 1e9, sums[1] + runs - was[2])
    return result, took


def without_statistics(spent, runs):
    return spent - runs * STATISTICS_NS / 1e9


def slow(arguments):
    prepare("bpftool", "mke2fs", "losetup", "fio")
    seconds, cpus = arguments.seconds, os.cpu_count()
    switch, syncs, reads = [], [], []
    fsync_us, iops = ([], []), ([], [])  # without, with
    with tmpfs() as scratch, loops([(scratch / "disk", 1 << 30)]) as (device,), ext4(device, scratch / "mnt") as mount:
        file, data = mount / "file", mount / "data"
        fsyncs(file, 0.5)
        fio(data, "write", 2, "--size=128M", "--bs=128k", jobs=1)

        def read():
            return fio(data, "randread", seconds, "--size=128M")

        for _ in range(arguments.rounds):
            fsync_us[0].append(fsyncs(file, seconds) * 1e6)
            iops[0].append(read())
            with tracing(mount) as pid:
                fsync_us[1].append(fsyncs(file, seconds) * 1e6)
                iops[1].append(read())
                each, took = in_programs(pid, lambda: fsyncs(file, seconds))
                spent, runs = map(sum, zip(*took.values()))
                syncs.append((spent * each / seconds, runs * each / seconds, each))
                rate, took = in_programs(pid, read)
                spent, runs = map(sum, zip(*took.values()))
                reads.append((spent / rate / seconds, runs / rate / seconds))
                rate, took = in_programs(pid, lambda: ping_pong(seconds))
                # Most switches include a wake-up.
                total = took["rt_slow_switch"][0] + took["rt_slow_waking"][0]
                switch.append((total / max(took["rt_slow_switch"][1], 1), rate))
    median = statistics.median
    each, rate = map(median, zip(*switch))
    share = each * SWITCHES / cpus
    spent, runs, fsync = map(median, zip(*syncs))
    slower = without_statistics(spent, runs) / fsync
    print(f"context switch: {1e9 * each:.0f} ns in the programs of switch and wake-up, statistics included ({rate:.0f} switches a second here)")
    print(
        f"fsync: {median(fsync_us[0]):.1f} us without, {median(fsync_us[1]):.1f} us with; "
        f"{1e6 * spent:.2f} us in {runs:.0f} runs of programs, of which statistics take {1e-3 * runs * STATISTICS_NS:.2f} us"
    )
    spent, runs = map(median, zip(*reads))
    fewer = without_statistics(spent, runs) * ASYNCHRONOUS / cpus
    print(
        f"asynchronous read: {median(iops[0]):.0f} a second without, {median(iops[1]):.0f} with; "
        f"{1e9 * spent:.0f} ns in {runs:.1f} runs of programs, of which statistics take {runs * STATISTICS_NS:.0f} ns"
    )
    checks = [
        (f"{100 * share:.2f} % of {cpus} CPUs at {SWITCHES} switches a second (target {100 * SHARE:.0f} %)", share <= SHARE),
        (f"{100 * slower:.1f} % of an fsync on a disk in memory are in the programs (target {100 * SLOWER:.0f} %)", slower <= SLOWER),
        (f"{100 * fewer:.1f} % of {cpus} CPUs at {ASYNCHRONOUS} asynchronous reads a second (target {100 * FEWER:.0f} %)", fewer <= FEWER),
    ]
    for text, ok in checks:
        print(f"{'ok' if ok else 'MISS'}: {text}")
    return 0 if all(ok for _, ok in checks) else 1
