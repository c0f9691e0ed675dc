# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Size of raidtrace's programs for the verifier of each kernel.

Loads them in a virtual machine with each kernel (tools/vm) with a RAID 5, a RAID 1+0 of md
over md and a dm-crypt on RAID 10, so that the verifier removes no branch as dead; and on
this machine, on one loop device. Prints instructions verified (the kernel's limit is 1,000,000)
and bytes of machine code, and writes them to docs/measured/verifier.txt. 5.10 does not count
instructions and is excluded. Figures are comparable only for the same version of clang.

Fails if a program needs over 500,000 instructions. --check writes nothing, and also fails if a
program needs over 25 % more than in the file, or if a program of the file was not loaded.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

from .measure import ROOT, binary, loops, prepare, tmpfs

FILE = ROOT / "docs/measured/verifier.txt"
KERNELS = ("6.1", "6.12", "6.18", "7.2", "7.3")
HOST = "here"
GROWTH, MOST = 1.25, 500_000
LINE = re.compile(r"^(rt_\w+): (\d+) instructions verified, (\d+) bytes", re.M)
HEAD = """\
# tools/bench verifier: instructions verified, bytes of machine code, of each program.
# Kernels are those of tools/lab/kernels; "here" is a machine without md, Linux {host}.
"""


def figures(text):
    return {name: (int(instructions), int(size)) for name, instructions, size in LINE.findall(text)}


def in_guest(kernel):
    with tempfile.TemporaryDirectory(prefix="raidtrace-bench.") as out:
        here = pathlib.Path(__file__).parent
        done = subprocess.run([ROOT / "tools/vm", "--file", binary(), "--file", ROOT / "tests/lab/lib.sh",
                               "--file", ROOT / "tools/oracle/guest/guest.sh", "--out", out, kernel, here / "verifier.sh"], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"bench: {kernel}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
        return figures((pathlib.Path(out) / "verifier").read_text())


def on_host():
    prepare("losetup")
    with tmpfs() as scratch, loops([(scratch / "disk", 1 << 26)]) as devices:
        done = subprocess.run([binary(), "-v", "top", "--json", "--count", "1", *devices],
                              capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"bench: {done.stderr.strip()}")
        return figures(done.stderr)


def file_figures():
    """Figures of the file by kernel and program, and the kernel of its host."""
    rows, host = {}, None
    for line in FILE.read_text().splitlines() if FILE.exists() else []:
        if found := re.search(r"without md, Linux (\S+?)\.$", line):
            host = found[1]
        fields = line.split()
        if len(fields) == 4 and fields[1].startswith("rt_"):
            rows.setdefault(fields[0], {})[fields[1]] = (int(fields[2]), int(fields[3]))
    return rows, host


def lines(found):
    yield f"{'kernel':8}{'program':18}{'instructions':>14}{'bytes':>10}"
    for kernel, programs in found.items():
        for name, (instructions, size) in sorted(programs.items()):
            yield f"{kernel:8}{name:18}{instructions:14}{size:10}"


def compare(found, before):
    """Errors, one line each. Prints new programs."""
    for kernel, programs in found.items():
        for name, (instructions, _) in programs.items():
            known = before.get(kernel, {}).get(name)
            if instructions > MOST:
                yield f"{kernel} {name}: {instructions} instructions, over {MOST}"
            elif not known:
                print(f"new: {kernel} {name}: not in {FILE.name}")
            elif instructions > known[0] * GROWTH:
                yield f"{kernel} {name}: {instructions} instructions, {instructions / known[0]:.2f} times {known[0]}"
        for name in before.get(kernel, {}).keys() - programs.keys():
            yield f"{kernel} {name}: in {FILE.name}, but was not loaded"


def verifier(arguments):
    release = os.uname().release
    before, host = file_figures()
    found = {kernel: in_guest(kernel) for kernel in arguments.kernel or KERNELS}
    if not arguments.kernel:
        if not arguments.check or release == host:
            found[HOST] = on_host()
        else:
            print(f"skipped row {HOST!r}: this is Linux {release}, and {FILE.name} is of {host or 'no machine'}")
    for kernel, programs in found.items():
        if not programs:
            sys.exit(f"bench: {kernel}: raidtrace reported no program")
    print("\n".join(lines(found)))
    wrong = list(compare(found, before if arguments.check else {}) if arguments.check else compare(found, found))
    for line in wrong:
        print(f"MISS {line}")
    if not arguments.check:
        rows = {kernel: found.get(kernel) or before.get(kernel) for kernel in (*KERNELS, HOST)}
        rows = {kernel: programs for kernel, programs in rows.items() if programs}
        host = release if HOST in found else host
        FILE.write_text(HEAD.format(host=host) + "\n".join(lines(rows)) + "\n")
        print(f"written: {FILE.relative_to(ROOT)}")
    return 1 if wrong else 0
