# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Time and memory to lay a recording onto other filesystems and arrays.

Creates a recording of random 4 KiB writes by 8 threads (examples/recording.rs) on a RAID 0 of 12 disks, and runs
layout --load on it. Prints submissions per second of CPU time (user and system) in the best round, and the largest RSS.
Needs no root.

Targets: 1 million submissions a second of a core, 512 MiB. --search --load computes 13 plans at once and has no target.
"""

import pathlib
import subprocess
import tempfile

from .measure import ROOT, binary, print_checks
from .report import cost

SPEED = 1e6
MEMORY = 512 << 20
CASES = {
    "-g 32744": ["-g", "32744"],
    "-G 4": ["-G", "4"],
    "RAID 10": ["--level", "10"],
    "RAID 6": ["--level", "6"],
    "--search": ["--search"],
}


def load(arguments):
    maker = ROOT / "target/release/examples/recording"
    if not maker.exists():
        raise SystemExit("bench: cargo build --release --example recording")
    checks = []
    print(f"{'':10} {'M submissions/s':>16} {'MiB':>6}")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        file = pathlib.Path(folder) / "12.rtrace"
        subprocess.run([maker, file, str(arguments.submissions), "12"], check=True, stdout=subprocess.DEVNULL)
        for name, options in CASES.items():
            command = [binary(), "layout", "--json", "--load", str(file), *options]
            runs = [cost(*command) for _ in range(arguments.rounds)]
            speed = arguments.submissions / min(seconds for seconds, _ in runs)
            memory = max(memory for _, memory in runs)
            print(f"{name:10} {speed / 1e6:16.2f} {memory / (1 << 20):6.0f}")
            checks.append((f"{name}: {memory >> 20} MiB (target {MEMORY >> 20})", memory <= MEMORY))
            if name != "--search":
                checks.append((f"{name}: {speed / 1e6:.2f} million submissions per second (target {SPEED / 1e6:.0f})",
                               speed >= SPEED))
    return print_checks(checks)
