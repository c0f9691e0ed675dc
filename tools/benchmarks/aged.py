# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of a request before and after raidtrace has learned many blocks, in one process, on one file. The two states alternate,
because the machine's other load changes meanwhile: what was learned is put into the maps and removed again."""

import contextlib
import ctypes
import errno
import json
import mmap
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile

from .measure import PROGRAMS, Tool, binary, empty_program, end, fio, loops, raidtrace_lost, run, running

LOADS = {"read 4k": ("randread", "4k"), "write 4k": ("randwrite", "4k"),
         "read 512k": ("randread", "512k"), "write 512k": ("randwrite", "512k")}
GIB = 1 << 30
INODES = 1_000_000
LEAVES = 60_000
# bpf/shared/limits.h
LEARNED_MAX, LINES, HASHES = 1 << 18, 16, 3
WORDS = 8 << LINES


def found(where):
    """Reads a million inodes."""
    run("find", f"{where}/tree", "-size", "+99G")


def make_tree(where):
    for n in range(INODES // 1000):
        os.makedirs(f"{where}/tree/{n}")
        for m in range(1000):
            os.mknod(f"{where}/tree/{n}/{m}")


def scattered(where):
    """Files of 5 extents: a block of the extent tree for each, 1.3 MiB apart."""
    os.mkdir(f"{where}/leaves")
    for n in range(LEAVES):
        if n % 1000 == 0:
            os.mkdir(f"{where}/leaves/{n}")
        fd = os.open(f"{where}/leaves/{n // 1000 * 1000}/{n}", os.O_CREAT | os.O_WRONLY)
        for extent in range(5):
            os.posix_fallocate(fd, extent << 20, 256 << 10)
        os.close(fd)
    run("sync")


def bpf(command, attributes):
    """bpf(2)"""
    syscall = {"x86_64": 321, "aarch64": 280}[os.uname().machine]
    result = ctypes.CDLL(None, use_errno=True).syscall(syscall, command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), "bpf")
    return result


def map_of(pid, name):
    names = {m["id"]: m.get("name") for m in json.loads(run("bpftool", "--json", "map", "show"))}
    for entry in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            for i in re.findall(r"^map_id:\s*(\d+)", entry.read_text(), re.M):
                if names[int(i)] == name:
                    return bpf(14, ctypes.create_string_buffer(struct.pack("IIIIIIII", int(i), 0, 0, 0, 0, 0, 0, 0)))
    raise OSError(f"no map {name}")


class Learned:
    """The maps of learned blocks of a raidtrace process."""

    LOOKUP, UPDATE, DELETE = 24, 26, 27  # BPF_MAP_*_BATCH

    def __init__(self, pid):
        self.blocks, filter_map = map_of(pid, "rt_learned"), map_of(pid, "rt_filter")
        self.view = mmap.mmap(filter_map, 16 * WORDS)
        os.close(filter_map)

    def batch(self, command, keys, values, count, position=None):
        """Number of entries done. position: (in, out) of a lookup."""
        first, then = position or (None, None)
        address = lambda it: ctypes.addressof(it) if it is not None else 0  # noqa: E731
        attributes = ctypes.create_string_buffer(
            struct.pack("QQQQIIQQ", address(first), address(then), address(keys), address(values), count, self.blocks, 0, 0))
        try:
            bpf(command, attributes)
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise
        return struct.unpack_from("I", attributes, 32)[0]

    def entries(self):
        """{key: value}"""
        found, size = {}, 4096
        keys, values, position = (ctypes.c_uint64 * size)(), (ctypes.c_uint64 * size)(), ctypes.c_uint64()
        first = None
        while count := self.batch(self.LOOKUP, keys, values, size, (first, position)):
            found.update(zip(keys[:count], values[:count]))
            first = position
        return found

    def state(self):
        """Entries and words of the filter. Of the copy with fewer lanes: the other one has obsolete ones, and is not in use."""
        copies = self.view[: 8 * WORDS], self.view[8 * WORDS :]
        return self.entries(), min(copies, key=lambda copy: int.from_bytes(copy, "little").bit_count())

    def put(self, state):
        entries, words = state
        old = list(self.entries())
        self.batch(self.DELETE, (ctypes.c_uint64 * len(old))(*old), None, len(old)) if old else None
        count = len(entries)
        if count:
            self.batch(self.UPDATE, (ctypes.c_uint64 * count)(*entries), (ctypes.c_uint64 * count)(*entries.values()), count)
        self.view[:] = words + words


def keys(count, size, seed):
    """Blocks all over the first array, except for its first GIBs, which hold the file of the load."""
    numbers = random.Random(seed)
    return [numbers.randrange(64 * GIB >> 12, size >> 12) << 3 for _ in range(count)]


def month(pid, size):
    """rt_learned full, and as many more lanes of the filter set as it may have before it is rebuilt."""
    words, full = bytearray(8 * WORDS), keys(LEARNED_MAX, size, 1)
    lanes = memoryview(words).cast("Q")
    for at in full + keys(LEARNED_MAX // 2, size, 2):
        product = (at >> 11) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        product ^= product >> 32
        for which in range(HASHES):
            line = product >> 64 - LINES * (1 + which) & (1 << LINES) - 1
            lanes[line * 8 + (at >> 8 & 7)] |= 1 << (at >> 3 & 31) * 2
    lanes.release()
    Learned(pid).put((dict.fromkeys(full, 2), bytes(words)))


def cases():
    """Name, size and mkfs command of a device, what fills it before, and what ages raidtrace."""
    yield ("find", 40 * GIB, ("mkfs.xfs", "-q", "-f", "-K"), make_tree, lambda pid, where: found(where))
    ext4 = ("mke2fs", "-q", "-F", "-t", "ext4", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard")
    yield ("scattered", 100 * GIB, ext4, None, lambda pid, where: scattered(where))
    yield ("month", 1024 * GIB, ext4, None, lambda pid, where: month(pid, 1024 * GIB))


def by_age(scratch, arguments, groups):
    for name, size, mkfs, before, age in cases():
        image = scratch / f"aged-{name}"
        with loops([(image, size)]) as (device,):
            run(*mkfs, device)
            where = f"{image}.mnt"
            os.mkdir(where)
            run("mount", "-o", "noatime", device, where)
            try:
                path = f"{where}/file"
                fio(path, "write", 2, "--size=128M", "--bs=128k", jobs=1)
                if before:
                    before(where)
                run("umount", where)
                run("mount", "-o", "noatime", device, where)
                for load, tools in measure(device, path, lambda pid: age(pid, where), arguments).items():
                    groups[f"{name}, {load}"] = tools
            finally:
                subprocess.run(["umount", where], check=False)
        image.unlink()


def measure(device, path, age, arguments):
    """Tools "new" and "aged" for each load."""
    disk = os.path.basename(device)
    command = [binary(), "top", device, "--json", "--no-overhead"]
    measured = {load: [Tool("new", command, 2, raidtrace_lost), Tool("aged", command, 2, raidtrace_lost)] for load in LOADS}
    with tempfile.TemporaryFile("w+") as out, tempfile.NamedTemporaryFile("w+") as err, empty_program(disk) as baseline:
        process = subprocess.Popen(command, stdout=out, stderr=err)
        try:
            measured["read 4k"][0].ready(process, err, disk)
            learned = Learned(process.pid)
            states = [learned.state()]
            age(process.pid)
            states.append(learned.state())
            for turn in range(arguments.rounds):
                for load, (rw, size) in LOADS.items():
                    for state in (0, 1) if turn % 2 else (1, 0):
                        learned.put(states[state])
                        measured[load][state].measure(
                            process, baseline, disk, lambda: fio(path, rw, arguments.seconds, "--size=128M", f"--bs={size}"))
        finally:
            end(process)
        out.seek(0)
        lost = raidtrace_lost(out.read(), None)
    for tools in measured.values():
        for tool in tools:
            tool.lost = lost
            # the other programs run for everything on this machine
            tool.detail = {name: ns for name, ns in tool.detail.items() if name in PROGRAMS}
            tool.ns = [sum(turn) for turn in zip(*tool.detail.values())]
    return measured
