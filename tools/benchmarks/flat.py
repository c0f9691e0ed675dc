# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of a request by size of the filesystem and number of disks.

ns per completed request in raidtrace's programs (kernel BPF statistics), on loop devices in
memory, with two jobs at queue depth 32, in turns; the best turn of each counts:

  file     ext4 of 1 GiB to 100 TiB (sparse), each watched alone: random 4 KiB writes to a
           file of 128 MiB on it
  all      the same file systems: random 4 KiB reads all over the device, so that each
           request looks up another entry of the boundary table
  members  2, 16 and 64 disks watched: random 4 KiB writes on one of them

  aged     requests of 4 and 512 KiB on a file of 128 MiB, in one process of raidtrace, before and
           after it has learned many blocks: a find over a million inodes of an XFS; 60,000
           scattered extent blocks of an ext4; and as many blocks on 1 TiB as it can learn, with
           as many obsolete ones as its filter can have (a month). The two states alternate, and
           the median of the ratios counts

Target: within each group the most expensive is at most 10 % above the cheapest; aged at most 30 %
above new. The images take about 4 GiB of memory.
"""

import contextlib
import os
from operator import truediv
from statistics import median

from .aged import by_age
from .measure import Tool, binary, bpf_statistics, ext4, fio, loops, machine_state, prepare, raidtrace_lost, run, tmpfs
from .measure import print_checks

GIB, TIB = 1 << 30, 1 << 40
SIZES = {"1 GiB": GIB, "1 TiB": TIB, "16 TiB": 16 * TIB, "100 TiB": 100 * TIB}
MEMBERS = (2, 16, 64)
FLAT, AGED = 1.10, 1.30


def raidtrace(name, targets):
    return Tool(name, [binary(), "top", *targets, "--json", "--no-overhead"], 2, raidtrace_lost)


@contextlib.contextmanager
def filesystems(scratch):
    """Devices of SIZES, each with an ext4 mounted on its image + ".mnt"."""
    images = [(scratch / f"fs{n}", size) for n, size in enumerate(SIZES.values())]
    with loops(images) as devices, contextlib.ExitStack() as mounted:
        yield devices, [mounted.enter_context(ext4(device, f"{image}.mnt")) for (image, _), device in zip(images, devices)]


def by_size(scratch, arguments, groups):
    with filesystems(scratch) as (devices, mounts):
        cases = []
        for name, device, where in zip(SIZES, devices, mounts):
            path = f"{where}/file"
            fio(path, "write", 2, "--size=128M", "--bs=128k", jobs=1)
            run("sync")
            on_file, all_over = raidtrace(name, [device]), raidtrace(name, [device])
            disk = os.path.basename(device)
            cases.append((on_file, disk, path, "randwrite", "--size=128M"))
            cases.append((all_over, disk, device, "randread", "--size=100%"))
            groups.setdefault("file", []).append(on_file)
            groups.setdefault("all", []).append(all_over)
        rounds(cases, arguments)


def by_members(scratch, arguments, groups):
    images = [(scratch / f"disk{n}", 1 << (20 if n else 28)) for n in range(max(MEMBERS))]
    with loops(images) as devices:
        groups["members"] = [raidtrace(f"{n} disks", devices[:n]) for n in MEMBERS]
        disk = os.path.basename(devices[0])
        rounds([(t, disk, devices[0], "randwrite", "--size=90%") for t in groups["members"]], arguments)


def rounds(cases, arguments):
    for turn in range(arguments.rounds):
        # Reverse the order every second time, so that no case is always first.
        for tool, disk, path, rw, size in cases[:: -1 if turn % 2 else 1]:
            tool.run_once(disk, lambda: fio(path, rw, arguments.seconds, size))


def flat(arguments):
    prepare("fio", "bpftrace", "bpftool", "losetup", "mke2fs")
    groups, aged = {}, {}
    with tmpfs() as scratch, bpf_statistics():
        by_members(scratch, arguments, groups)
        by_size(scratch, arguments, groups)
        by_age(scratch, arguments, aged)
    return report(groups, aged)


def report(groups, aged):
    checks = []
    for group, tools in {**groups, **aged}.items():
        print(f"{group:20}{'ns/request':>12}{'IOPS':>10}{'lost':>6}  ns by program")
        for t in tools:
            if t.why:
                print(f"MISS {group}: {t.why}")
                return 1
            each = " ".join(f"{name} {min(ns):.0f}" for name, ns in sorted(t.detail.items()) if min(ns) >= 0.5)
            print(f"  {t.name:18}{min(t.ns):12.0f}{max(t.iops):10.0f}{t.lost:6}  {each}")
        if group in aged:
            ratio, target, what = median(map(truediv, tools[1].ns, tools[0].ns)), AGED, "aged over new"
        else:
            costs = [min(t.ns) for t in tools]
            ratio, target, what = max(costs) / min(costs), FLAT, "most expensive over cheapest"
        checks.append((f"{group}: {what} {ratio:.2f} (target {target:.2f})", ratio <= target))
    print(machine_state())
    return print_checks(checks)
