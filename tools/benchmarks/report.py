# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Time and memory to read recordings.

Creates recordings of random 4 KiB writes by 8 threads (examples/recording.rs) on a disk and on a
RAID 0 of 12 disks, and runs report (JSON and HTML) and export on them. Prints requests per second of CPU time (user
and system) in the best round, the largest RSS, and bytes per request on disk. Needs no root.

Targets: requests per second of CPU time: report 2 million, HTML page 1 million, Parquet export 1 million. RSS: report
and export 256 MiB, page 512 MiB. Size: 16 bytes per request (recording of one disk), 2 MB for a page.
"""

import os
import pathlib
import subprocess
import tempfile

from .measure import ROOT, binary, print_checks

SPEED = {"report": 2e6, "html": 1e6, "parquet": 1e6}
MEMORY = {"report": 256 << 20, "html": 512 << 20, "parquet": 256 << 20}
PAGE = 2_000_000
BYTES = 16


def cost(*command):
    """CPU seconds and bytes of memory of a command."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"bench: {' '.join(command[:3])}: exit status {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def report(arguments):
    maker = ROOT / "target/release/examples/recording"
    if not maker.exists():
        raise SystemExit(f"bench: {maker.relative_to(ROOT)} is missing: cargo build --release --example recording")
    checks = []
    print(f"{'':10} {'bytes/request':>14} {'':9} {'M requests/s':>13} {'MiB':>6}")
    with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
        for disks in (1, 12):
            file = pathlib.Path(folder) / f"{disks}.rtrace"
            subprocess.run([maker, file, str(arguments.requests), str(disks)], check=True, stdout=subprocess.DEVNULL)
            size = file.stat().st_size / arguments.requests
            if disks == 1:
                checks.append((f"{size:.1f} bytes per request on one disk (target {BYTES})", size <= BYTES))
            name = f"{disks} disk{'s' if disks > 1 else ''}"
            page = file.with_suffix(".html")
            commands = {"report": ["report", file, "--json"],
                        "html": ["report", file, "--html", page, "--force"],
                        "parquet": ["export", file, "-f", "parquet", "-o", f"{file}.out", "--force"]}
            for what, command in commands.items():
                runs = [cost(binary(), *map(str, command)) for _ in range(arguments.rounds)]
                speed = arguments.requests / min(seconds for seconds, _ in runs)
                memory = max(memory for _, memory in runs)
                print(f"{name:10} {size:14.2f} {what:9} {speed / 1e6:13.2f} {memory / (1 << 20):6.0f}")
                checks.append((f"{what}, {name}: {speed / 1e6:.2f} million requests per second (target {SPEED[what] / 1e6:.0f})",
                               speed >= SPEED[what]))
                checks.append((f"{what}, {name}: {memory >> 20} MiB (target {MEMORY[what] >> 20})", memory <= MEMORY[what]))
            checks.append((f"page, {name}: {page.stat().st_size} bytes (target {PAGE})", page.stat().st_size <= PAGE))
            file.unlink()
    return print_checks(checks)
