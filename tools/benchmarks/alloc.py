# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of counting a group that a search considers.

Runs the code that counts (tools/benchmarks/alloc.bpf.c) with BPF_PROG_TEST_RUN, which needs no
fentry support, and subtracts the time of an empty program. Not included: the cost of fexit itself,
and about ten reads to find the reason of one refusal in 64.
"""

import os
import pathlib
import re
import statistics
import sys
import tempfile

from .measure import ROOT, prepare, run

PROGRAMS = ("nothing", "accepted", "refused", "asked")
TARGET = 40  # ns per call
BPFFS = pathlib.Path("/sys/fs/bpf")


def headers():
    """Directory of libbpf's headers from the build."""
    for found in sorted(ROOT.glob("target/*/build/libbpf-sys-*/out/include")):
        return found
    sys.exit("bench: libbpf's headers are missing: run cargo build")


def alloc(arguments):
    prepare("clang", "bpftool")
    # The map has space for one CPU.
    os.sched_setaffinity(0, {0})
    mounted = not os.path.ismount(BPFFS)
    if mounted:
        run("mount", "-t", "bpf", "bpf", str(BPFFS))
    pins = BPFFS / f"raidtrace-bench-{os.getpid()}"
    took = {name: [] for name in PROGRAMS}
    with tempfile.TemporaryDirectory(prefix="raidtrace-bench.") as scratch:
        object_, data = f"{scratch}/alloc.o", pathlib.Path(scratch) / "data"
        run("clang", "-g", "-O2", "-target", "bpf", "-mcpu=v3", f"-I{headers()}", f"-I{ROOT / 'bpf'}",
            "-c", str(pathlib.Path(__file__).with_suffix(".bpf.c")), "-o", object_)
        data.write_bytes(bytes(64))
        try:
            run("bpftool", "prog", "loadall", object_, str(pins))
            for _ in range(arguments.rounds):
                for name in PROGRAMS:
                    said = run("bpftool", "prog", "run", "pinned", str(pins / name), "data_in", str(data),
                               "repeat", str(arguments.calls))
                    result = re.search(r"Return value: 1, duration \(average\): (\d+)ns", said)
                    if not result:
                        sys.exit(f"bench: bpftool: {said.strip()}")
                    took[name].append(int(result[1]))
        finally:
            for name in PROGRAMS:
                (pins / name).unlink(missing_ok=True)
            if pins.is_dir():
                pins.rmdir()
            if mounted:
                run("umount", str(BPFFS))
    median = {name: statistics.median(all_) for name, all_ in took.items()}
    print(f"{'':10}{'ns/call':>10}{'less empty':>14}")
    for name, ns in median.items():
        print(f"{name:10}{ns:10.0f}{ns - median['nothing']:14.0f}")
    worst = max(median.values()) - median["nothing"]
    print(f"{'ok' if worst <= TARGET else 'MISS'}: {worst:.0f} ns per call without fexit itself, target {TARGET}")
    return 0 if worst <= TARGET else 1
