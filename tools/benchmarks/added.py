# SPDX-License-Identifier: Apache-2.0 OR MIT
"""CPU time that tracers add per request, without the kernel's BPF statistics.

One thread writes batches of 32 random 4 KiB blocks (added.c). It and the kernel worker of the loop
device run on one CPU, so that the time of a batch is the CPU time of all its steps: submission,
device, completion, context switches, and tracing. The programs of each tracer are loaded
once, by the tracer itself, which also fills its maps. Then this script attaches and detaches them, for
slices of 40 ms in random order. The figure of a slice is a low quantile of its batches,
which ignores batches disturbed by other work. The difference from the slices without a tracer in the same
round is divided by their figure, because the machine may be slower for some seconds. The median of these
ratios is multiplied by the time of a request without a tracer (10th percentile of the rounds). The 95 %
confidence interval is a bootstrap over rounds.

"no tracer, again" is a control: its interval should include 0. Rounds in which another process had
the kernel's BPF statistics enabled are excluded.
"""

import contextlib
import ctypes
import fcntl
import os
import pathlib
import random
import re
import struct
import subprocess
import time
from statistics import median

from .measure import ATTACH_TIMEOUT, BPFTRACE, Skipped, bpf_statistics, end, loaded, run, running

SLICE = 40  # ms
QUANTILE = 0.10
MEASURED_SHARE = 0.02  # share of the time in which raidtrace enables statistics: src/probe/overhead.rs
RESAMPLES = 2000
WORKERS = pathlib.Path("/sys/devices/virtual/workqueue/cpumask")
SYS = {"x86_64": (321, 298), "aarch64": (280, 241)}  # bpf, perf_event_open
RAW_TRACEPOINT_OPEN, GET_FD_BY_ID, ENABLE_STATS = 17, 13, 32  # enum bpf_cmd
PERF_TYPE_TRACEPOINT = 2
PERF_ENABLE, PERF_SET_BPF = 0x2400, 0x40042408  # PERF_EVENT_IOC_*
LIBC = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    result = LIBC.syscall(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise Skipped(f"system call {number}: {os.strerror(error)}")
    return result


def bpf(command, attributes):
    """Calls bpf(2). Returns a file descriptor."""
    attributes = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    return call(SYS[os.uname().machine][0], command, attributes, len(attributes))


def perf_tracepoint(name):
    number = int(pathlib.Path(f"/sys/kernel/tracing/events/block/{name}/id").read_text())
    # type, size, config, sample_period, sample_type, read_format, flags, wakeup_events: as in bcc's library, which bpftrace uses
    attributes = struct.pack("IIQQQQQI", PERF_TYPE_TRACEPOINT, 128, number, 1, 1 << 10, 0, 0, 1)
    attributes = ctypes.create_string_buffer(attributes.ljust(128, b"\0"))
    return call(SYS[os.uname().machine][1], attributes, -1, 0, -1, 8)


def linked(pid):
    """Ids of programs that links of the process attach. bpftrace has perf events, no links."""
    texts = (info.read_text() for info in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir())
    found = (re.search(r"^link_type:.*^prog_id:\s*(\d+)", text, re.M | re.S) for text in texts)
    return {int(match[1]) for match in found if match}


class Programs:
    """Programs that a tracer loaded before it ended, with the maps that it filled."""

    def __init__(self, name, command, disk, least=2):
        self.name, self.programs = name, []
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + ATTACH_TIMEOUT
            with statistics():
                while running(process.pid, disk) < least:
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise Skipped(f"{name} does not trace")
                    time.sleep(0.1)
            time.sleep(0.5)
            links = linked(process.pid)
            for number, (program, _, _) in sorted(loaded(process.pid).items()):
                kind = next(k for k in ("rt_", "block_") if program.startswith(k))
                if kind == "rt_" and number not in links:
                    continue  # loaded, but not attached
                self.programs.append((kind, program, bpf(GET_FD_BY_ID, struct.pack("I", number))))
        finally:
            end(process)

    def counted(self):
        """(ns, runs) by program. The kernel counts them while statistics are enabled."""
        counts = {}
        for _, program, fd in self.programs:
            text = pathlib.Path(f"/proc/self/fdinfo/{fd}").read_text()
            counts[program] = [int(re.search(rf"^{field}:\s*(\d+)", text, re.M)[1])
                               for field in ("run_time_ns", "run_cnt")]
        return counts

    def runs(self):
        return sum(runs for _, runs in self.counted().values())

    @contextlib.contextmanager
    def attached(self):
        links = []
        try:
            for kind, program, fd in self.programs:
                if kind == "rt_":
                    links.append(bpf(RAW_TRACEPOINT_OPEN, struct.pack("QI", 0, fd)))
                    continue
                name = "block_rq_issue" if "issue" in program else "block_rq_complete"
                links.append(perf_tracepoint(name))
                fcntl.ioctl(links[-1], PERF_SET_BPF, fd)
                fcntl.ioctl(links[-1], PERF_ENABLE, 0)
            yield
        finally:
            for link in links:
                os.close(link)


@contextlib.contextmanager
def statistics():
    """The kernel's BPF statistics, enabled for a slice."""
    fd = bpf(ENABLE_STATS, b"")
    try:
        yield
    finally:
        os.close(fd)


@contextlib.contextmanager
def one_cpu(cpu):
    """Restricts unbound kernel workers, including those of loop devices, to this CPU."""
    was = WORKERS.read_text()
    WORKERS.write_text(f"{1 << cpu:x}")
    try:
        yield
    finally:
        WORKERS.write_text(was)


class Load:
    def __init__(self, binary, path, size, cpu):
        pin = ["taskset", "-c", str(cpu)]
        self.process = subprocess.Popen([*pin, binary, path, str(size)], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def slice(self):
        """ns per request: a low quantile of the batches."""
        print(SLICE, file=self.process.stdin, flush=True)
        batches = sorted(map(int, self.process.stdout.readline().split()))
        if not batches:
            raise Skipped("the load ended")
        return batches[int(len(batches) * QUANTILE)]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# States of a slice (the programs attached), and further rows of the table.
NONE, AGAIN, OURS, THEIRS = "no tracer", "no tracer, again", "raidtrace's programs", "bpftrace"
MEASURED, THEIRS_MEASURED = "statistics on", "bpftrace, statistics on"
PRICE, TOTAL, RATIO = "BPF statistics, all the time", "raidtrace with 2 % of them", "ratio"


def rounds_of(load, ours, theirs, seconds):
    """Nanoseconds per request by state and round; number of excluded rounds; (ns, runs) by program with statistics."""
    nothing = contextlib.nullcontext
    states = {
        NONE: nothing, AGAIN: nothing, OURS: ours.attached, THEIRS: theirs.attached,
        MEASURED: lambda: stack(ours.attached(), statistics()),
        THEIRS_MEASURED: lambda: stack(theirs.attached(), statistics()),
    }
    rounds, disturbed, order, sums = [], 0, random.Random(1), {}
    stop = time.monotonic() + seconds
    while time.monotonic() < stop:
        took, names, foreign = {}, list(states), 0
        order.shuffle(names)
        for name in names:
            tracer = theirs if name in (THEIRS, THEIRS_MEASURED) else ours
            with states[name]():
                before = tracer.counted()
                took[name] = load.slice()
                for program, (ns, runs) in tracer.counted().items():
                    ns, runs = ns - before[program][0], runs - before[program][1]
                    if name not in (MEASURED, THEIRS_MEASURED):
                        foreign += runs
                        continue
                    sum_ = sums.setdefault(program, [0, 0])
                    sum_[0], sum_[1] = sum_[0] + ns, sum_[1] + runs
        # Another process had statistics enabled, which slows down all slices.
        if foreign > 1000:
            disturbed += 1
        else:
            rounds.append(took)
    return rounds, disturbed, sums


@contextlib.contextmanager
def stack(*contexts):
    with contextlib.ExitStack() as all_:
        for context in contexts:
            all_.enter_context(context)
        yield


def added(rounds):
    """Nanoseconds per request that each state adds, and figures derived from them."""
    base = [(r[NONE] + r[AGAIN]) / 2 for r in rounds]
    quick = sorted(base)[len(base) // 10]

    def over(name, other):
        """Nanoseconds per request that the state `name` adds to `other`; None: to no tracer."""
        return quick * median((r[name] - r.get(other, b)) / b for r, b in zip(rounds, base))

    ours, theirs, price = over(OURS, None), over(THEIRS, None), over(MEASURED, OURS)
    total = ours + MEASURED_SHARE * price
    return {
        NONE: quick,
        AGAIN: over(AGAIN, NONE),
        OURS: ours,
        PRICE: price,
        TOTAL: total,
        THEIRS: theirs,
        RATIO: total / theirs if theirs else float("inf"),
    }


def bootstrap(rounds):
    """name -> (figure, lower, upper): 95 %, resampling rounds."""
    order = random.Random(2)
    figures = added(rounds)
    samples = [added(order.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES)]
    intervals = {}
    for name, figure in figures.items():
        values = sorted(s[name] for s in samples)
        intervals[name] = figure, values[int(0.025 * RESAMPLES)], values[int(0.975 * RESAMPLES)]
    return intervals


def measure(command, disk, path, size, scratch, seconds):
    """Intervals from bootstrap(), numbers of valid and excluded rounds, (ns, runs) by program."""
    source = pathlib.Path(__file__).with_suffix(".c")
    load_binary = f"{scratch}/added"
    run("cc", "-O2", "-o", load_binary, str(source))
    cpu = max(os.sched_getaffinity(0))
    ours = Programs("raidtrace", command, disk)
    theirs = Programs("bpftrace", ["bpftrace", "-e", BPFTRACE], disk)
    load = Load(load_binary, path, size, cpu)
    try:
        with one_cpu(cpu), bpf_statistics(False):
            rounds, disturbed, programs = rounds_of(load, ours, theirs, seconds)
    finally:
        load.close()
        for _, _, fd in ours.programs + theirs.programs:
            os.close(fd)
    if len(rounds) < 20:
        raise Skipped(f"{len(rounds)} rounds, {disturbed} disturbed by BPF statistics of other processes")
    return bootstrap(rounds), len(rounds), disturbed, programs
