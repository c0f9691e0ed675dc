# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of sampling all CPUs while they are busy.

One process per CPU reads /dev/zero in small pieces, so that samples have kernel stacks, and examples/profile samples them.
Shares are of the time of all CPUs in the same run.

  kernel    run time of the BPF program in the kernel's BPF statistics: includes the walk of the stack,
            but not the timer interrupt
  user      CPU time of the process that drains samples, resolves names and adds up, from the first sample on
  lost      samples that did not fit into the buffer
  busy      busy samples, compared with the number that the CPU time of all processes leads to; a virtual CPU that
            waits for a physical one misses samples
  idle      share of idle ticks, which make the rest cheaper
"""

import contextlib
import os
import pathlib
import re
import subprocess
import tempfile
import time

from .measure import ATTACH_TIMEOUT, ROOT, bpf_statistics, loaded, machine_state, prepare, print_checks

SAID = re.compile(r"(\d+) samples, (\d+) busy, \d+ in the allocator, (\d+) lost, (\d+) stacks")
TARGET = 0.01  # of CPU, at 99 Hz
BUSY = (0.5, 1.2)  # busy samples as a share of the expected number


def example():
    path = pathlib.Path(os.environ.get("RAIDTRACE_PROFILE", ROOT / "target/release/examples/profile"))
    if not path.exists():
        raise SystemExit("bench: no target/release/examples/profile: cargo build --release --example profile")
    return str(path)


@contextlib.contextmanager
def busy(cpus):
    """A reader on each CPU."""
    readers = []
    try:
        for cpu in cpus:
            readers.append(subprocess.Popen(["taskset", "--cpu-list", str(cpu), "dd", "if=/dev/zero", "of=/dev/null",
                                             "bs=512", "status=none"]))
        yield
    finally:
        for reader in readers:
            reader.kill()
            reader.wait()


def on_cpu(pid):
    """CPU seconds of the only thread. Clock ticks would miss shorter runs."""
    return int(pathlib.Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def busy_seconds():
    """CPU seconds of all processes, from /proc/stat: everything but idle, iowait and steal."""
    fields = [int(f) for f in pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:8]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def turn(hertz, seconds):
    with tempfile.NamedTemporaryFile("w+") as err:
        process = subprocess.Popen([example(), "/dev/null", str(seconds + 2), str(hertz)], stderr=err)
        said = pathlib.Path(err.name)
        end = time.monotonic() + ATTACH_TIMEOUT
        while "sampling" not in said.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench: profile: {said.read_text().strip()}")
            time.sleep(0.01)
        began, cpu, before = time.monotonic(), on_cpu(process.pid), loaded(process.pid)
        spent = busy_seconds()
        time.sleep(seconds)
        spent = busy_seconds() - spent
        after, cpu, wall = loaded(process.pid), on_cpu(process.pid) - cpu, time.monotonic() - began
        process.wait(timeout=ATTACH_TIMEOUT)
        samples, awake, lost, stacks = map(int, SAID.search(said.read_text()).groups())
    ns = sum(p[1] for p in after.values()) - sum(p[1] for p in before.values())
    runs = sum(p[2] for p in after.values()) - sum(p[2] for p in before.values())
    everything = wall * os.cpu_count()
    # The example samples for two seconds more than were measured.
    expected = hertz * spent / wall * (seconds + 2)
    return {"kernel": ns / 1e9 / everything, "user": cpu / everything,
            "ns": ns / max(runs, 1), "runs": runs / everything, "idle": 1 - awake / max(samples, 1), "lost": lost,
            "stacks": stacks, "busy": awake / max(expected, 1)}


def profile(arguments):
    prepare("taskset", "bpftool")
    checks = []
    print(f"{'Hz':>5}{'kernel':>9}{'user':>9}{'together':>10}{'ns/sample':>11}{'runs/s/CPU':>12}{'idle':>7}{'lost':>6}"
          f"{'stacks':>8}{'busy':>7}")
    with bpf_statistics(), busy(sorted(os.sched_getaffinity(0))):
        for hertz in (99, 999):
            each = [turn(hertz, arguments.seconds) for _ in range(arguments.rounds)]
            best = min(each, key=lambda t: t["kernel"] + t["user"])
            together = best["kernel"] + best["user"]
            lost = sum(t["lost"] for t in each)
            print(f"{hertz:5}{best['kernel']:9.3%}{best['user']:9.3%}{together:10.3%}{best['ns']:11.0f}"
                  f"{best['runs']:12.1f}{best['idle']:7.1%}{lost:6}{best['stacks']:8}"
                  f"{best['busy']:7.2f}")
            checks.append((f"{hertz} Hz: lost {lost} (target 0)", lost == 0))
            low, high = BUSY
            text = f"{hertz} Hz: {best['busy']:.2f} of the expected busy samples (target {low} to {high})"
            checks.append((text, low < best["busy"] < high))
            if hertz == 99:
                checks.append((f"99 Hz: {together:.3%} of all CPUs (target {TARGET:.0%})", together < TARGET))
    print(machine_state())
    return print_checks(checks)
