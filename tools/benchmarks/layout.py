# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Time and memory of `raidtrace layout`. Images are sparse files on tmpfs. The fastest of several turns counts, so caches are
warm.
Targets are for CPU time, because it does not depend on other work on the machine.

  27 TiB    an image, as text and as JSON: less than 1 s
  1 PiB     an image: less than 30 s and 256 MiB
  search    --plan 27T --search on one array: less than 5 s

The larger image takes 4 GiB of memory, and one or two minutes to create; --small skips it.
"""

import os
import subprocess
import time

from .measure import binary, machine_state, run, tmpfs, print_checks

# Options of the array.
ARRAY = ("--level", "0", "--disks", "12", "--chunk", "512K")


def image(scratch, size):
    path = scratch / f"image-{size}"
    with open(path, "wb") as out:
        out.truncate(size)
    run("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", str(path))
    return str(path)


def best(arguments, *words):
    """Seconds, CPU seconds and MiB of the fastest turn."""
    turns = []
    for _ in range(arguments.rounds):
        begun = time.monotonic()
        process = subprocess.Popen([binary(), "layout", *words], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        took = time.monotonic() - begun
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"bench: layout {' '.join(words)}: status {process.returncode}")
        turns.append((took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    return min(turns, key=lambda turn: turn[1])


def layout(arguments):
    checks = []

    def case(name, seconds, mib, *words):
        took, cpu, rss = best(arguments, *words)
        print(f"{name:16}{took:8.2f} s{cpu:8.2f} s CPU{rss:8.0f} MiB")
        checks.append((f"{name}: {cpu:.2f} s of CPU (target {seconds})", cpu < seconds))
        if mib:
            checks.append((f"{name}: {rss:.0f} MiB (target {mib})", rss < mib))

    with tmpfs() as scratch:
        large = image(scratch, 27 << 40)
        case("27 TiB", 1, None, large, *ARRAY)
        case("27 TiB, JSON", 1, None, large, *ARRAY, "--json")
        os.unlink(large)
        if not arguments.small:
            larger = image(scratch, 1 << 50)
            case("1 PiB", 30, 256, larger, *ARRAY)
            os.unlink(larger)
    case("search, 27 TiB", 5, None, "--plan", "27T", "--search", *ARRAY)
    print(machine_state())
    return print_checks(checks)
