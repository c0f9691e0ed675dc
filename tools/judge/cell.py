# SPDX-License-Identifier: Apache-2.0 OR MIT
"""A cell of the matrix: what its guest left (tools/judge/guest), read and judged.

`top --json` gives sums, so sums are compared: of each member and operation, the
bytes of each origin that both accounts have are right; of two mistakes that make
up for each other on the same member nothing is seen.
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import stripes
from dynamic import forget_freed, read_kinds
from events import EVENT, KIND, check_whole, counts_as_request, operation, read_stats
from geometry import FAR, Array, Layout, Member, Unusable, read_array
from places import read_places

EXT4 = ("superblock", "group_descriptors", "block_bitmap", "inode_bitmap", "inode_table", "journal", "other_metadata")
MD = ("md_superblock", "md_bitmap", "md_journal", "parity")
FIXED = EXT4 + MD + ("raw",)
KINDS = ("read", "write", "discard", "flush")
SYNCS = ("resync", "check", "repair", "recovery", "replace", "reshape", "turnover")
OPEN = "?"  # the truth does not say; whatever raidtrace says is let pass


@dataclass
class Volume:
    """A filesystem."""

    places: object
    kinds: dict
    block: int  # sectors

    def locate(self, sector):
        origin, run = self.places.locate(sector)
        if origin != "dynamic":
            return origin, run
        return self.kinds.get(sector // self.block, OPEN), min(run, self.block - sector % self.block)


@dataclass
class Stack:
    """What lies on what: md members on disks, arrays in arrays, volumes on them."""

    arrays: dict
    volumes: dict
    maps: dict  # device: (first sector, sectors, volume, its first), sorted

    @property
    def has_md(self):
        return any(array.layout.level != "single" for array in self.arrays.values())

    def owners(self):
        """{disk's number: [(array, member)]}"""
        found = {}
        for array in self.arrays.values():
            for member in array.members:
                if not member.name.startswith("md"):
                    found.setdefault(member.dev, []).append((array, member))
        return found

    def of_member(self, array, member, sector, count):
        for origin, where, length in array.pieces(member, sector, count):
            if where is None:
                yield origin, length
            else:
                yield from self.of_array(array.name, where, length)

    def of_array(self, name, sector, count):
        """(origin, sectors) of a device's sectors."""
        for outer in self.arrays.values():
            for member in outer.members:
                if member.name == name != outer.name:
                    yield from self.of_member(outer, member, sector, count)
                    return
        while count:
            origin, left = "raw", FAR
            for first, length, volume, begin in self.maps.get(name, ()):
                if first <= sector < first + length:
                    origin, left = self.volumes[volume].locate(sector - first + begin)
                    left = min(left, first + length - sector)
                    break
                if first > sector:
                    left = min(left, first - sector)
            run = min(left, count)
            yield origin, run
            sector += run
            count -= run


def read_arrays(directory, name):
    """An array, and those that are members of it."""
    found = {name: read_array(directory / name)}
    for member in found[name].members:
        if member.name.startswith("md"):
            found |= read_arrays(directory, member.name)
    return found


def read_base(directory, level):
    """The name and the number of the device that a level's stack lies on."""
    base = dict(line.split() for line in (directory / "bases").read_text().splitlines())[level]
    if base.startswith("md"):
        return base, f"9:{base[2:]}"
    return base, (directory / f"dev.{base}").read_text().strip()


def read_stack(directory, level):
    """What a run left of one of its levels."""
    base, dev = read_base(directory, level)
    if base.startswith("md"):
        arrays = read_arrays(directory, base)
    else:
        arrays = {base: Array(base, Layout("single", 1), [Member(base, dev, 0, 0)])}
    with open(directory / "trace") as lines:
        freed = [line for line in lines if "ext4_free_blocks:" in line]
    volumes, pieces = {}, []
    for line in (directory / "maps").read_text().splitlines() if (directory / "maps").exists() else ():
        device, first, length, name, begin = line.split()
        if device != base:
            continue
        pieces.append((int(first), int(length), name, int(begin)))
        at = directory / f"fs-{name}"
        if name not in volumes:
            places = read_places(at)
            kinds = read_kinds((at / "inodes").read_text(errors="replace")) if (at / "inodes").exists() else {}
            forget_freed(kinds, freed, (at / "dev").read_text().strip())
            volumes[name] = Volume(places, kinds, places.block_sectors)
    return Stack(arrays, volumes, {base: sorted(pieces)})


@dataclass
class Account:
    bytes: Counter = field(default_factory=Counter)  # (member, operation, origin)
    kinds: Counter = field(default_factory=Counter)  # (member, kind): requests
    early: Counter = field(default_factory=Counter)  # of these, on a disk that joins, before raidtrace knows it


KNOWN = re.compile(r"tracing_mark_write: known: (\d+:\d+)$")
# What comes between these is done by a filesystem on another partition, while the members are idle.
NEIGHBOUR = re.compile(r"tracing_mark_write: neighbour: (begin|end)$")
# A member's sectors, and the array's that they stand for.
REMAP = re.compile(r"block_bio_remap: (\d+),(\d+) (\w+) (\d+) \+ (\d+) <- \((\d+),(\d+)\) (\d+)$")


class Truth:
    """The kernel's account."""

    def __init__(self, directory, stack, facts, workload):
        self.stack, self.facts, self.workload = stack, facts, workload
        self.owners = stack.owners()
        self.begins = {}
        for array in stack.arrays.values():
            for member in array.members:
                if member.begin:
                    self.begins[member.number] = member.dev, member.begin
        self.labels = stripes.Labels()
        self.remaps = {}  # (disk, sector): the array's sector, as md last said
        self.shapes = set()  # what users did during a reshape: (operation, whether it had moved)
        self.account = Account()
        self.disputed = 0
        self.neighbour = False
        symbols = stripes.read_symbols((directory / "symbols").read_text())
        # Disks that join. mdadm reads and writes them before md has heard of them, and md writes its superblock while it
        # tells that they have come: raidtrace cannot know them until it has been told.
        with open(directory / "trace") as lines:
            self.joining = {found[1] for line in lines if (found := KNOWN.search(line))}
        with open(directory / "trace") as lines:
            for line in lines:
                if " submit: " in line:
                    self.submitted(stripes.read_bio(line, symbols))
                elif "block_bio_remap:" in line:
                    self.remapped(line)
                elif "block_rq_complete:" in line:
                    self.completed(line)
                elif found := KNOWN.search(line):
                    self.joining.discard(found[1])
                elif found := NEIGHBOUR.search(line):
                    self.neighbour = found[1] == "begin"

    def remapped(self, line):
        """md says which of the array's sectors a user's bio stands for: of RAID 10 nothing else does in a reshape."""
        found = REMAP.search(line)
        if not found:
            raise Unusable(f"not understood: {line.strip()}")
        dev, sector, count, where = f"{found[1]}:{found[2]}", int(found[4]), int(found[5]), int(found[8])
        array = self.stack.arrays.get(f"md{found[7]}") if found[6] == "9" else None
        if array is None:
            return
        self.remaps[dev, sector] = where
        if array.layout.level == "raid10":
            op = self.labels.NAMES[operation(found[3])]
            disk, begin = self.begins.get(dev, (dev, 0))
            self.labels.put_at(disk, op, sector + begin, count, where)
            for moved, there in ((True, where < array.reshape[0]), (False, where >= array.reshape[1])):
                if there:
                    self.shapes.add((op, moved))

    def submitted(self, bio):
        what = stripes.label(bio, self.facts)
        dev, begin = self.begins.get(bio.dev, (bio.dev, 0))
        if bio.end == "raid5_align_endio" and self.workload == "reshape":
            if (where := self.remaps.get((bio.dev, bio.sector))) is not None:
                self.labels.put_at(dev, bio.op, bio.sector + begin, bio.sectors, where)
            return
        if what is None:
            return
        if self.workload == "reshape" and what[0] == "at":
            # A stripe has as many disks as the array had, or will have.
            for array, _ in self.owners.get(dev, ()):
                self.shapes.add((bio.op, bio.fields["d"] == array.layout.disks))
        if what[0] == "stripe":
            # Of 5.10's stripes nothing is known: reads are for whatever reason.
            if bio.op != stripes.READ and self.workload not in SYNCS:
                return
            what = OPEN, None
        elif what[0] in ("at", "parity") and bio.end in stripes.STRIPE_ENDS:
            self.check_place(dev, bio, begin, what)
        self.labels.put(dev, bio.op, bio.sector + begin, bio.sectors, what)

    def index(self, bio):
        """Which of its stripe's blocks it is."""
        return (bio.fields["b"] - bio.fields["sh"] - self.facts["dev"]) // self.facts["size"]

    def check_place(self, dev, bio, begin, what):
        """The kernel knows as well which of the array's sectors it is, or that it is parity."""
        kernel = bio.fields[f"a{self.index(bio)}"]
        for array, member in self.owners.get(dev, ()):
            for origin, where, _ in array.pieces(member, bio.sector + begin, 1):
                if origin != "parity" and where != kernel:
                    self.disputed += 1

    def completed(self, line):
        event = EVENT.search(line)
        if not event:
            raise Unusable(f"not understood: {line.strip()}")
        dev = f"{event[1]}:{event[2]}"
        owners = self.owners.get(dev)
        if not owners or self.neighbour:
            return
        op, sector, count = operation(event[3]), int(event[4]), int(event[5])
        array, member = next((o for o in owners if self.holds(o[1], sector)), owners[0])
        failed = event[6] != "0"
        if failed:
            raise Unusable(f"a request failed: {line.strip()}")
        if op == "write" and not count and not self.stack.has_md:
            # A write again, after its flush, or one that only asks for a flush: of that the sector is 0, or since 5.17
            # whatever device mapper has made of it (drivers/md/dm-linear.c, linear_map()).
            self.account.kinds[member.name, "perhaps"] += 1
        elif counts_as_request(op, sector, count):
            self.account.kinds[member.name, KIND[op]] += 1
            if dev in self.joining:
                self.account.early[member.name, KIND[op]] += 1
        while count:
            label, run = self.labels.take(dev, op, sector)
            run = min(run, count)
            for origin, length in self.origins(array, member, label, sector, run):
                if op == "discard" and origin not in FIXED:
                    origin = OPEN  # what was there is no more
                if dev in self.joining:
                    origin = OPEN
                self.account.bytes[member.name, op, origin] += length * 512
            sector += run
            count -= run

    @staticmethod
    def holds(member, sector):
        return member.begin <= sector < member.begin + member.data_offset + member.data_sectors

    def origins(self, array, member, label, sector, count):
        if label is None:
            found = list(self.stack.of_member(array, member, sector, count))
            # While a reshape is under way an address alone means nothing.
            if self.workload == "reshape" and sector - member.begin >= member.data_offset and member.slot is not None:
                found = [(OPEN, count)]
            return found
        what, where = label
        if what != "at":
            return [(what, count)]
        if where is None:
            return [(OPEN, count)]
        return self.stack.of_array(array.name, where, count)


def product(directory, stack):
    """raidtrace's account: the sum of all lines but the first, which comes before the run; and what it lost."""
    leaves = {member.name for owners in stack.owners().values() for _, member in owners}
    account, lost = Account(), Counter()
    lines = (directory / "top.json").read_text().splitlines()
    if len(lines) < 2:
        raise Unusable("top.json has no interval after the first")
    for line in map(json.loads, lines[1:]):
        if line["schema"] != "raidtrace.top/1":
            raise Unusable(f"schema {line['schema']}")
        lost.update(line["lost"])
        for array in line["arrays"]:
            for member in array["members"]:
                if member["name"] not in leaves:
                    continue
                for row in member["io"]:
                    account.kinds[member["name"], KIND.get(row["op"], row["op"])] += row["requests"]
                    account.bytes[member["name"], row["op"], row["origin"]] += row["bytes"]
    return account, {what: count for what, count in lost.items() if count}


def read_neighbour(directory):
    """{disk: Counter of requests by kind} of the filesystem on another partition."""
    at = directory / "neighbour"
    found = {}
    for line in at.read_text().splitlines() if at.exists() else ():
        name, *counts = line.split()
        found[name] = Counter(dict(zip(KINDS, map(int, counts))))
    return found


LIMITED = "/limited"


def read_limited(directory):
    """Bytes that the cgroup with a limit has read and written, by device number: the cgroup's own io.stat."""
    found = Counter()
    for name, sign in (("io.before", -1), ("io.after", 1)):
        for line in (directory / name).read_text().splitlines():
            dev, *words = line.split()
            for key, _, count in (word.partition("=") for word in words):
                if key in ("rbytes", "wbytes"):
                    found[dev, {"r": "read", "w": "write"}[key[0]]] += sign * int(count)
    return found


def product_limited(directory, array):
    """What raidtrace says of the same cgroup: bytes by operation, and the bytes of kernel workers that submit for it."""
    found, workers = Counter(), Counter()
    for line in map(json.loads, (directory / "top.json").read_text().splitlines()):
        tasks = (task for each in line["arrays"] if each["name"] == array for task in each["tasks"])
        for task in tasks:
            for row in task["io"]:
                if task["cgroup"] == LIMITED:
                    found[row["op"]] += row["bytes"]
                if "kthrotld" in task["comm"] or task["role"] == "kernel worker":
                    workers[task["comm"]] += row["bytes"]
    return found, workers


# The share of bytes that may be not judged in a cell that is called right without a word.
OPEN_MOST = 0.1


@dataclass
class Verdict:
    fixed: float = 0.0
    overall: float = 0.0
    unknown: float = 0.0
    open: float = 0.0  # the share of bytes that is not judged
    requests: int = 0
    discards: float = 1.0  # of their bytes, the share whose origin is right
    lost: int = 0  # events that raidtrace says it has lost, other than these:
    missed: int = 0  # runs of its programs that the kernel has skipped
    strayed: int = 0  # requests by which raidtrace differs from the disk statistics
    misnamed: int = 0  # bytes of the tasks of a cgroup with a limit, of which raidtrace has another account
    bytes: int = 0
    words: list = field(default_factory=list)
    why_not: str = ""

    @property
    def right(self):
        shares = self.fixed == 1 and self.overall >= 0.999 and self.discards >= 0.999 and self.unknown < 0.001
        return shares and not (self.strayed or self.lost or self.misnamed or self.why_not)

    @property
    def word(self):
        if self.why_not:
            return "not judged"
        # What is not judged may hide what is wrong: with much of it a cell proves little.
        word = "WRONG" if not self.right else "right" if self.open < OPEN_MOST else "right as far as judged"
        # All that a skipped run could have made wrong of a member has been compared. Processes have not.
        return f"{word}, {self.missed} missed" if self.missed else word


def share(part, whole):
    return part / whole if whole else 1.0


def compare(ours, theirs):
    """Counts the bytes that agree. Discards move none, and are far larger than what is moved: they are apart."""
    verdict = Verdict()
    right, judged, moved = Counter(), Counter(), Counter()  # by whether it is a discard
    fixed_right = fixed_all = unknown = opened = 0
    differ = []
    for member, op in sorted({key[:2] for key in set(ours) | set(theirs)}):
        mine = {key[2]: count for key, count in ours.items() if key[:2] == (member, op)}
        other = {key[2]: count for key, count in theirs.items() if key[:2] == (member, op)}
        left = mine.pop(OPEN, 0)
        total = max(sum(mine.values()), sum(other.values()) - left)
        agree = sum(min(count, other.get(origin, 0)) for origin, count in mine.items())
        discard = op == "discard"
        judged[discard] += total
        right[discard] += agree
        moved[discard] += sum(mine.values()) + left
        if not discard:
            fixed = [(mine.get(o, 0), other.get(o, 0)) for o in FIXED if o != "other_metadata"]
            if left:  # what is not judged may be any of them
                fixed = [(m, min(m, o)) for m, o in fixed]
            # raidtrace has that name for dynamic blocks too, which is no mistake about a fixed place.
            here, there = mine.get("other_metadata", 0), other.get("other_metadata", 0)
            fixed.append((here, min(here, there)))
            fixed_right += sum(map(min, fixed))
            fixed_all += sum(map(max, fixed))
            unknown += other.get("unknown", 0)
            opened += left
        if agree != total:
            for origin in sorted(set(mine) | set(other)):
                if mine.get(origin, 0) != other.get(origin, 0):
                    differ.append((abs(mine.get(origin, 0) - other.get(origin, 0)),
                        f"{member} {op} {origin}: kernel {mine.get(origin, 0)}, raidtrace {other.get(origin, 0)}"
                        + (f" ({left} not judged)" if left else "")))  # fmt: skip
    verdict.fixed, verdict.overall = share(fixed_right, fixed_all), share(right[False], judged[False])
    verdict.discards = share(right[True], judged[True])
    verdict.unknown, verdict.open = (count / moved[False] if moved[False] else 0.0 for count in (unknown, opened))
    verdict.bytes = moved[False]
    verdict.words = [words for _, words in sorted(differ, reverse=True)]
    if unknown:
        verdict.words.insert(0, f"unknown to raidtrace: {unknown} of {moved[False]} bytes")
    return verdict


def judge_limited(directory, level, verdict):
    base, dev = read_base(directory, level)
    wanted = read_limited(directory)
    found, workers = product_limited(directory, base)
    for op in ("read", "write"):
        if not wanted[dev, op]:
            raise Unusable(f"the cgroup did not {op} on {dev}")
        if wanted[dev, op] != found[op]:
            verdict.misnamed += abs(wanted[dev, op] - found[op])
            verdict.words.append(f"cgroup {LIMITED}: {op} bytes: kernel {wanted[dev, op]}, raidtrace {found[op]}")
    for comm, count in workers.items():
        if count:
            verdict.misnamed += count
            verdict.words.append(f"{comm} has {count} bytes that others asked for")


def judge(directory, facts, level, workload, kernel_only=False):
    """The verdict on a level of the run in DIR; Unusable where there is nothing to judge."""
    if not (directory / "done").exists():
        said = (directory / "said").read_text(errors="replace").strip() if (directory / "said").exists() else ""
        raise Unusable(f"the guest did not end: {said.splitlines()[-1] if said else 'nothing came back'}")
    check_whole(directory)
    stack = read_stack(directory, level)
    truth = Truth(directory, stack, facts, workload)
    ours = truth.account
    if not ours.bytes:
        raise Unusable("nothing happened")
    if truth.disputed and workload != "reshape":
        raise Unusable(f"geometry.py and the kernel disagree on {truth.disputed} blocks")
    if workload == "reshape" and facts and len(truth.shapes) < 4:
        raise Unusable(f"users did not read and write on both sides of the reshape: {sorted(truth.shapes)}")
    names = sorted({member.name for owners in stack.owners().values() for _, member in owners})
    disks = {member.name: re.sub(r"(?<=\d)p\d+$", "", member.name) for owners in stack.owners().values() for _, member in owners}
    stats = {name: read_stats(directory, disks[name]) for name in names}
    for name in names:
        stats[name].subtract(read_neighbour(directory).get(disks[name], Counter()))
    for name in names:
        for kind in KINDS:
            perhaps = ours.kinds[name, "perhaps"] if kind == "write" else 0
            if not 0 <= stats[name][kind] - ours.kinds[name, kind] <= perhaps:
                raise Unusable(
                    f"the events are not the run's: {name} {kind} requests: "
                    f"events {ours.kinds[name, kind]}, disk statistics {stats[name][kind]}"
                )
    if kernel_only:
        return ours, truth
    theirs, lost = product(directory, stack)
    verdict = compare(ours.bytes, theirs.bytes)
    for name in names:
        for kind in KINDS:
            counted, kernel = theirs.kinds[name, kind], stats[name][kind]
            verdict.requests += kernel
            # Of those that came early some may be counted, if not all.
            kernel -= min(max(kernel - counted, 0), ours.early[name, kind])
            verdict.strayed += abs(counted - kernel)
            if counted != kernel:
                verdict.words.append(f"{name} {kind} requests: raidtrace {counted}, disk statistics {kernel}")
    if workload == "throttled":
        judge_limited(directory, level, verdict)
    if lost:
        verdict.missed = lost.get("missed", 0)
        verdict.lost = lost.get("events", 0) - verdict.missed
        verdict.words.append(f"raidtrace lost {lost}")
    if (said := (directory / "top.err").read_text().strip()):
        verdict.words.append(f"raidtrace said: {'; '.join(said.splitlines())}")
    return verdict
