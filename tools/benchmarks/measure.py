# SPDX-License-Identifier: Apache-2.0 OR MIT
"""One run of one tool under one load, and its cost."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# A latency histogram from issue to completion: the one-liner of the bpftrace tutorial, with the
# keys of biolatency.bt.
BPFTRACE = """
tracepoint:block:block_rq_issue { @start[args->dev, args->sector] = nsecs; }
tracepoint:block:block_rq_complete /@start[args->dev, args->sector]/ {
  @us = hist((nsecs - @start[args->dev, args->sector]) / 1000);
  delete(@start[args->dev, args->sector]);
}
"""
# An empty program that runs equally often. Its run time in BPF statistics is the cost of the statistics.
NOTHING = "tracepoint:block:block_rq_issue { $nothing = 0; }"
# raidtrace also runs without one of these, but its figures would be too low.
PROGRAMS = ("rt_rq_issue", "rt_rq_complete", "rt_bio_queue")
ATTACH_TIMEOUT = 60  # maximum seconds for a tool to attach


class Skipped(Exception):
    """A tool cannot run on this machine; has the reason."""


def run(*command):
    done = subprocess.run(command, text=True, capture_output=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(map(str, command[:4]))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def prepare(*tools):
    """Exits if the measurement is not possible on this machine."""
    if os.geteuid():
        sys.exit("bench: needs root, to load BPF programs: sudo tools/bench ...")
    for tool in tools:
        if not shutil.which(tool):
            sys.exit(f"bench: {tool} is missing: tools/setup --bench")
    for kind, where in (("tracefs", "/sys/kernel/tracing"), ("debugfs", "/sys/kernel/debug")):
        if not os.path.ismount(where):
            subprocess.run(["mount", "-t", kind, kind, where], check=False, capture_output=True)


def binary():
    path = pathlib.Path(os.environ.get("RAIDTRACE_BINARY", ROOT / "target/release/raidtrace"))
    if not path.exists():
        sys.exit("bench: no target/release/raidtrace: cargo build --release")
    return str(path)


@contextlib.contextmanager
def bpf_statistics(enabled=True):
    """Enables (or disables) the kernel's BPF statistics within the context."""
    switch = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
    was = switch.read_text()
    switch.write_text(str(int(enabled)))
    try:
        yield
    finally:
        switch.write_text(was)


@contextlib.contextmanager
def loops(images):
    """Loop devices on files (path, size in bytes), which are created if necessary."""
    devices = []
    try:
        for path, size in images:
            if not os.path.exists(path):
                with open(path, "wb") as out:
                    out.truncate(size)
            devices.append(run("losetup", "--find", "--show", str(path)).strip())
        yield devices
    finally:
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=False)


@contextlib.contextmanager
def ext4(device, where):
    """Mounts a new ext4 on a new directory. Lazy initialization is configured and not started, so nothing is zeroed."""
    run("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", device)
    os.mkdir(where)
    run("mount", "-o", "noatime,noinit_itable", device, where)
    try:
        yield where
    finally:
        subprocess.run(["umount", where], check=False)


@contextlib.contextmanager
def tmpfs():
    """A directory on tmpfs, for sparse files of any size."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="raidtrace-bench.") as path:
        yield pathlib.Path(path)


def programs(text):
    """(name, run time in ns, runs) by id from `bpftool --json prog show`."""
    return {p["id"]: (p.get("name", p["type"]), p.get("run_time_ns", 0), p.get("run_cnt", 0))
            for p in json.loads(text or "[]")}


def owned(pid):
    """BPF programs of a process, by id. Other processes may trace too."""
    ids = set()
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            ids.update(int(i) for i in re.findall(r"^prog_id:\s*(\d+)", entry.read_text(), re.M))
    return ids


def loaded(pid):
    mine = owned(pid)
    return {i: p for i, p in programs(run("bpftool", "--json", "prog", "show")).items() if i in mine}


def stats_overhead_ns(before, after):
    """ns that BPF statistics add to each run of a program, from the programs of NOTHING."""
    ns = sum(p[1] for p in after.values()) - sum(p[1] for p in before.values())
    runs = sum(p[2] for p in after.values()) - sum(p[2] for p in before.values())
    return ns / runs if runs else 0


def spent(before, after, requests, each_run):
    """ns per request in each program, minus each_run ns per run."""
    each = {}
    for i, (name, ns, runs) in after.items():
        _, ns_before, runs_before = before.get(i, ("", 0, 0))
        took = ns - ns_before - each_run * (runs - runs_before)
        each[name] = each.get(name, 0) + max(took, 0) / max(requests, 1)
    return each


def completed(stat):
    """Requests of a line of /sys/block/*/stat: reads, writes, discards, flushes."""
    fields = [int(f) for f in stat.split()]
    return sum(fields[i] for i in (0, 4, 11, 15) if i < len(fields))


def ticks(stat):
    """CPU time of a line of /proc/PID/stat, in clock ticks."""
    fields = stat.rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def fio(path, rw, seconds, *more, jobs=2):
    out = run("fio", "--name=bench", f"--filename={path}", f"--rw={rw}", "--bs=4k", "--iodepth=32",
              f"--numjobs={jobs}", "--group_reporting", "--ioengine=libaio", "--direct=1", "--norandommap",
              "--time_based", f"--runtime={seconds}", "--output-format=json", *more)
    return iops(out)


def iops(text):
    jobs = json.loads(text[text.index("{"):])["jobs"]
    return sum(job[kind]["iops"] for job in jobs for kind in ("read", "write"))


def raidtrace_lost(out, _):
    return sum(json.loads(line)["lost"]["events"] for line in out.splitlines() if line.startswith("{"))


def bpftrace_lost(out, err):
    return sum(map(int, re.findall(r"Lost (\d+) events", out + err)))


class Tool:
    """A participant of the comparison: a command that traces, or none."""

    def __init__(self, name, command=None, bpf=0, lost=None, prepare=None):
        """bpf: number of programs that run at every request."""
        self.name, self.command, self.bpf, self.lost_in, self.prepare = name, command, bpf, lost, prepare
        self.ns, self.iops, self.cpu, self.rss, self.detail, self.stats_overhead_ns = [], [], [], [], {}, []
        self.lost, self.why = None, None

    def ready(self, process, err, disk):
        end = time.monotonic() + ATTACH_TIMEOUT
        while time.monotonic() < end:
            if not self.bpf:
                time.sleep(1)
            complaint = pathlib.Path(err.name).read_text().strip()
            if process.poll() is not None or (complaint and not self.bpf):
                raise Skipped(f"it printed: {complaint.splitlines()[0] if complaint else process.returncode}")
            if not self.bpf:
                return
            if running(process.pid, disk) >= self.bpf:
                return
            time.sleep(0.1)
        raise Skipped(f"it traced nothing within {ATTACH_TIMEOUT} s")

    def run_once(self, disk, load):
        """load: a function that runs a load on the disk and returns its IOPS."""
        if self.why:
            return
        if not self.command:
            self.iops.append(load())
            return
        if self.prepare:
            self.prepare()
        with (tempfile.TemporaryFile("w+") as out, tempfile.NamedTemporaryFile("w+") as err,
              empty_program(disk) if self.bpf else contextlib.nullcontext() as baseline):
            sink = out if self.bpf else subprocess.DEVNULL
            process = subprocess.Popen(self.command, stdout=sink, stderr=err)
            try:
                self.ready(process, err, disk)
                time.sleep(0.5)
                self.measure(process, baseline, disk, load)
            except Skipped as reason:
                self.why = f"{self.name}: {reason}"
            finally:
                end(process)
            out.seek(0)
            if self.lost_in and not self.why:
                said = pathlib.Path(err.name).read_text()
                self.lost = (self.lost or 0) + self.lost_in(out.read(), said)

    def measure(self, process, baseline, disk, load):
        stat = pathlib.Path(f"/sys/block/{disk}/stat")
        own = pathlib.Path(f"/proc/{process.pid}/stat")
        baseline_before = loaded(baseline.pid) if baseline else {}
        before, requests, cpu = loaded(process.pid), completed(stat.read_text()), ticks(own.read_text())
        began = time.monotonic()
        self.iops.append(load())
        wall = time.monotonic() - began
        after, requests = loaded(process.pid), completed(stat.read_text()) - requests
        self.cpu.append((ticks(own.read_text()) - cpu) / os.sysconf("SC_CLK_TCK") / wall)
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        self.rss.append(int(re.search(r"VmRSS:\s*(\d+)", status)[1]) / 1024)
        names = {name.removesuffix("_q") for name, _, _ in after.values()}
        if names & set(PROGRAMS) and not names >= set(PROGRAMS):
            raise Skipped(f"loaded only {' '.join(sorted(names))}")
        if baseline:
            each_run = stats_overhead_ns(baseline_before, loaded(baseline.pid))
            self.stats_overhead_ns.append(each_run)
            self.add(spent(before, after, requests, each_run))

    def add(self, each):
        self.ns.append(sum(each.values()))
        for name, ns in each.items():
            self.detail.setdefault(name, []).append(ns)


def running(pid, disk):
    """Number of a process's programs that run when one block of the disk is read."""
    run("dd", f"if=/dev/{disk}", "of=/dev/null", "bs=4k", "count=1", "iflag=direct", "status=none")
    return sum(1 for _, _, runs in loaded(pid).values() if runs)


@contextlib.contextmanager
def empty_program(disk):
    """Runs an empty program during the measurement."""
    process = subprocess.Popen(["bpftrace", "-e", NOTHING], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + ATTACH_TIMEOUT
        while not running(process.pid, disk):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("bench: bpftrace does not trace: the cost of measuring is unknown")
            time.sleep(0.1)
        yield process
    finally:
        end(process)


def end(process):
    process.send_signal(signal.SIGINT)
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def machine_state():
    """CPUs, kernel and load of the machine."""
    load = pathlib.Path("/proc/loadavg").read_text().split()
    return f"load average {load[0]} {load[1]} {load[2]}, {os.cpu_count()} CPUs, Linux {os.uname().release}"


def print_checks(checks):
    """Prints each (text, True if met). Returns the exit status."""
    for text, holds in checks:
        print(f"{'ok  ' if holds else 'MISS'} {text}")
    return 0 if all(holds for _, holds in checks) else 1
