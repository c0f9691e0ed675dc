# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of counting dirtied data while many files are created.

Creates 100,000 empty files on ext4 on a loop device in memory, in turns of 2,000 files: without
raidtrace's programs rt_dirty_*, without them again (control), and with them attached. The figure of
a turn is the median of its batches of 100 files. The result is the mean difference of the turns of
a round, with a 95 % interval (bootstrap over rounds). The other programs of raidtrace are not
attached: they run per request.

Target: at most 3 % of the time to create a file.

--guest KERNEL: in tools/vm, without raidtrace, without it again, with `raidtrace top` and with
`raidtrace top --dirtied-origins`, started and stopped for each turn. The clock of the emulator
counts instructions: ratios are exact and independent of other work on the machine, but they are
ratios of instructions, not of CPU time, which includes waits for memory. There is no target.
"""

import os
import pathlib
import random
import subprocess
from statistics import mean, median

from .added import Programs
from .measure import ROOT, binary, bpf_statistics, ext4, loops, machine_state, prepare, run, tmpfs, print_checks

FILES = 2000
MOST = 0.03
RESAMPLES = 1000


def interval(rounds, what):
    order = random.Random(2)
    values = sorted(mean(what(r) for r in order.choices(rounds, k=len(rounds))) for _ in range(RESAMPLES))
    return mean(map(what, rounds)), values[int(0.025 * RESAMPLES)], values[int(0.975 * RESAMPLES)]


def guest(arguments):
    prepare("cc", "qemu-system-x86_64")
    states = ("without", "again", "counted", "origins")
    number = max(arguments.files // (FILES * len(states)), 2)
    with tmpfs() as scratch:
        load_binary = f"{scratch}/dirtied"
        run("cc", "-O2", "-o", load_binary, str(pathlib.Path(__file__).with_suffix(".c")))
        lines = subprocess.run(
            [ROOT / "tools/vm", "--icount", "0", "--cpus", "1", "--timeout", "1800",
             "--file", f"{binary()}:/lab/raidtrace", "--file", load_binary,
             arguments.guest, pathlib.Path(__file__).with_suffix(".sh"), str(number), str(FILES), "1"],
            stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    rounds = {}
    for line in lines:
        words = line.split()
        if words[1:] and words[1] in states:  # other lines are the guest's standard error
            rounds.setdefault(words[0], {})[words[1]] = median(map(int, words[2:]))
    rounds = [r for r in rounds.values() if len(r) == len(states)]
    base = mean(r["without"] for r in rounds)
    print(f"Linux {arguments.guest}, emulated: {len(rounds)} rounds of {FILES} files each")
    print(f"{base:.0f} instructions to create a file")
    for name, base, title in (
        ("again", "without", "control, 0 is right"),
        ("counted", "without", "top"),
        ("origins", "without", "top --dirtied-origins"),
        ("origins", "counted", "--dirtied-origins over top"),
    ):
        share, low, high = interval(rounds, lambda r: r[name] / r[base] - 1)
        print(f"{title}: {share:+.1%} ({low:+.1%} to {high:+.1%})")
    print(machine_state())
    return 0


def dirtied(arguments):
    if arguments.guest:
        return guest(arguments)
    prepare("cc", "bpftool", "losetup", "mke2fs")
    rounds = []
    with tmpfs() as scratch, loops([(scratch / "disk", 4 << 30)]) as [device], ext4(device, f"{scratch}/mnt") as where:
        load_binary = f"{scratch}/dirtied"
        run("cc", "-O2", "-o", load_binary, str(pathlib.Path(__file__).with_suffix(".c")))
        programs = Programs("raidtrace", [binary(), "top", device, "--json", "--no-overhead"], os.path.basename(device))
        programs.programs = [program for program in programs.programs if program[1].startswith("rt_dirty")]
        print("programs:", ", ".join(name for _, name, _ in programs.programs))
        load = subprocess.Popen([load_binary, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def turn():
            load.stdin.write(f"{FILES}\n")
            load.stdin.flush()
            took = median(map(int, load.stdout.readline().split()))
            run("sync")
            return took

        def turn_with():
            with programs.attached():
                return turn()

        states = {"without": turn, "again": turn, "with": turn_with}
        order = random.Random(1)
        turn()
        with bpf_statistics(False):
            while len(rounds) * FILES * len(states) < arguments.files:
                names = list(states)
                order.shuffle(names)
                took = {}
                for name in names:
                    took[name] = states[name]()
                rounds.append(took)
        load.stdin.close()
        load.wait()
    base = mean(r["without"] for r in rounds)
    print(f"{len(rounds)} rounds of {FILES} files each; {base:.0f} ns to create a file")
    checks = []
    for name, what in (("again", "control, 0 is right"), ("with", "programs attached")):
        share, low, high = interval(rounds, lambda r: (r[name] - r["without"]) / r["without"])
        text = f"{what}: {share:+.1%} ({low:+.1%} to {high:+.1%})"
        if name == "with":
            checks.append((f"{text}; target {MOST:.0%}", share <= MOST))
        else:
            print(text)
    print(machine_state())
    return print_checks(checks)
