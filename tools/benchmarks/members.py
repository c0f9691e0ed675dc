# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of members of RAID 0, 1 and 10 on this machine's CPU.

For kernels without md, and to avoid the emulated CPU of the lab: raidtrace treats four loop devices
of 1 TiB (sparse files in memory) as the members of an array with an ext4 (examples/as_members.rs).
For each of their requests it maps the member address to the array address, and that to the origin,
as for real members. Three loads, in turns with bpftrace:

  member  random 4 KiB writes at queue depth 32 on one of the members
  file    random 4 KiB writes to a file on the device of the array: the time of rt_bio_queue per
          bio of the array, which is missing in the load `member`
  raw     random 4 KiB reads all over the device of the array, without a file: also rt_bio_queue

ns/request is the time of `member` minus the cost of measuring, plus rt_bio_queue's time of `file` or
`raw`, as if each bio of the array caused one request on a member. On RAID 1 and 10 a write causes two.
Target: half of bpftrace's time for the same load on the member.
"""

import os

from .measure import BPFTRACE, ROOT, Tool, bpf_statistics, bpftrace_lost, ext4, fio, loops, machine_state, prepare
from .measure import raidtrace_lost, tmpfs, print_checks

LEVELS = ("0", "1", "10")
DISKS, TIB, OFFSET = 4, 1 << 40, 1 << 20
CAPACITY = {"0": 4, "1": 1, "10": 2}
PART = ("--offset=512G", "--size=800M")  # part of a member that is written; it takes memory
EXAMPLE = ROOT / "target/release/examples/as_members"


def members(arguments):
    prepare("fio", "bpftrace", "bpftool", "losetup", "mke2fs")
    if not EXAMPLE.exists():
        raise SystemExit("bench: no as_members: cargo build --release --example as_members")
    results = []
    with tmpfs() as scratch, bpf_statistics():
        images = [(scratch / f"disk{n}", TIB) for n in range(DISKS)]
        images += [(scratch / f"array{level}", CAPACITY[level] * (TIB - OFFSET)) for level in LEVELS]
        with loops(images) as devices:
            for level, array in zip(LEVELS, devices[DISKS:]):
                with ext4(array, f"{scratch}/mnt{level}") as where:
                    results.append((level, *turns(level, array, devices[:DISKS], where, arguments)))
    return report(results)


def turns(level, array, disks, where, arguments):
    names = [os.path.basename(d) for d in (array, *disks)]
    ours = [EXAMPLE, level, *names]
    on_member = Tool(f"RAID {level}", ours, 2, raidtrace_lost)
    on_file = Tool(f"RAID {level}", ours, 2, raidtrace_lost)
    on_raw = Tool(f"RAID {level}", ours, 2, raidtrace_lost)
    theirs = Tool("bpftrace", ["bpftrace", "-e", BPFTRACE], 2, bpftrace_lost)
    fio(disks[0], "write", 2, *PART, jobs=1)
    fio(f"{where}/file", "write", 2, "--size=400M", jobs=1)
    for _ in range(arguments.rounds):
        for tool in (on_member, theirs):
            tool.run_once(names[1], lambda: fio(disks[0], "randwrite", arguments.seconds, *PART))
        on_file.run_once(names[0], lambda: fio(f"{where}/file", "randwrite", arguments.seconds, "--size=400M"))
        on_raw.run_once(names[0], lambda: fio(array, "randread", arguments.seconds))
    return on_member, on_file, on_raw, theirs


def report(results):
    checks = []
    print(f"{'ns/request':8}{'load':5}{'rt_rq_issue':>13}{'rt_rq_complete':>16}{'rt_bio_queue':>14}{'of the array':>14}"
          f"{'together':>10}{'bpftrace':>10}{'ratio':>7}{'lost':>6}")
    for level, member, on_file, on_raw, theirs in results:
        for load, array in (("file", on_file), ("raw", on_raw)):
            why = member.why or array.why or theirs.why
            if why:
                checks.append((f"RAID {level}: {why}", False))
                continue
            each = {name: min(ns) for name, ns in member.detail.items()}
            above = min(array.detail["rt_bio_queue"])
            ns, bpftrace = min(member.ns) + above, min(theirs.ns)
            lost = member.lost + array.lost
            print(f"RAID {level:3}  {load:5}{each['rt_rq_issue']:13.0f}{each['rt_rq_complete']:16.0f}{each['rt_bio_queue']:14.0f}"
                  f"{above:14.0f}{ns:10.0f}{bpftrace:10.0f}{ns / bpftrace:7.2f}{lost:6}")
            checks.append((f"RAID {level}, {load}: {ns / bpftrace:.2f} of bpftrace's (target 0.50)", ns / bpftrace <= 0.5))
            checks.append((f"RAID {level}, {load}: lost events: {lost} (target 0)", lost == 0))
    print(machine_state())
    return print_checks(checks)
