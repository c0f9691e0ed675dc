# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The comparison of the two accounts of a run.

`top --json` prints sums, so sums are compared, per member and operation. Two errors that cancel out on one member are
not found.

  bytes     of each origin. A block of a filesystem whose kind is unknown (ext4.DYNAMIC) may have any origin without a
            fixed address. If the kernel's account has no origin (NO_ORIGIN), raidtrace's origin is not checked.
  requests  of each member and kind, compared with the kernel's disk statistics; requests with data also by the origin
            of their first sector
  slots     of members, compared with mdadm
"""

import json
import re
from collections import Counter
from dataclasses import dataclass, field

from .account import DYNAMIC_KINDS, FIXED, NO_ORIGIN, SYNCS, KernelAccount, read_top
from .events import STAT, check_whole, read_stats
from .ext4 import DYNAMIC
from .geometry import Unusable
from .stack import read_bases, read_stacks
from .xfs import METADATA

# A correct cell whose share of unchecked bytes is larger than this is "correct where checked".
MOST_UNCHECKED = 0.1
LIMITED = "/limited"  # the cgroup of the workload "throttled"


@dataclass
class Verdict:
    fixed: float = 0.0  # share of bytes of origins with a fixed address that agree
    overall: float = 0.0  # share of bytes that agree
    unknown: float = 0.0  # share of bytes that raidtrace reports as unknown
    excused: float = 0.0  # share of bytes that are unknown to raidtrace and have no origin in the kernel's account of XFS, or
    # that raidtrace read to find filesystems
    unchecked: float = 0.0  # share of bytes whose origin the kernel's account does not have
    discards: float = 1.0  # share of discarded bytes that agree
    requests: int = 0
    mismatched: int = 0  # requests by which raidtrace differs from the disk statistics
    misplaced: int = 0  # requests whose first sector has another origin
    slots: int = 0  # members with another slot
    misnamed: int = 0  # bytes by which raidtrace differs from a cgroup's own account
    lost: int = 0  # events that raidtrace reports as lost, except for skipped runs and what follows from them
    missed: int = 0  # runs of raidtrace's programs that the kernel skipped
    words: list = field(default_factory=list)
    notes: list = field(default_factory=list)  # on the kernel's account, also of a correct run
    no_verdict: str = ""  # why the run cannot be checked

    @property
    def correct(self):
        shares = self.fixed == 1 and self.overall >= 0.999 and self.discards >= 0.999 and self.unknown - self.excused < 0.001
        wrong = self.mismatched or self.misplaced or self.slots or self.lost or self.misnamed or self.no_verdict
        return shares and not wrong

    @property
    def word(self):
        if self.no_verdict:
            return "no verdict"
        word = "WRONG" if not self.correct else "correct" if self.unchecked < MOST_UNCHECKED else "correct where checked"
        # Figures of members are correct in spite of skipped runs, because all of them were compared. Figures of tasks
        # were not compared.
        return f"{word}, {self.missed} missed" if self.missed else word


def share(part, whole):
    return part / whole if whole else 1.0


def of_key(counter, key):
    """{origin: count} for (member, operation)."""
    return {origin: count for (*rest, origin), count in counter.items() if tuple(rest) == key}


def compare_bytes(ours, theirs, fixed=FIXED):
    """Compares bytes by origin. `fixed`: origins that must agree in every byte. The share of discards is separate, because
    they move no data and are far larger."""
    verdict = Verdict()
    right, checked, moved = Counter(), Counter(), Counter()  # key: True for discards
    fixed_right = fixed_all = unknown = unchecked = excused = 0
    differ = []
    for key in sorted({key[:2] for key in set(ours) | set(theirs)}):
        mine, other = of_key(ours, key), of_key(theirs, key)
        left, dynamic = mine.pop(NO_ORIGIN, 0), mine.pop(DYNAMIC, 0)
        known = sum(mine.values())
        # Bytes of blocks of any kind without a fixed address.
        fitting = min(dynamic, sum(max(0, other.get(kind, 0) - mine.get(kind, 0)) for kind in DYNAMIC_KINDS))
        total = max(known + dynamic - fitting, sum(other.values()) - left - fitting)
        agree = sum(min(count, other.get(origin, 0)) for origin, count in mine.items())
        discard = key[1] == "discard"
        checked[discard] += total
        right[discard] += agree
        moved[discard] += known + dynamic + left
        if not discard:
            pairs = [(mine.get(o, 0), other.get(o, 0)) for o in fixed if o != "other_metadata"]
            # raidtrace uses other_metadata also for dynamic blocks, so a surplus is not an error of fixed addresses.
            here, there = mine.get("other_metadata", 0), other.get("other_metadata", 0)
            pairs.append((here, min(here, there)))
            surplus = sum(max(0, b - a) for a, b in pairs)
            fixed_right += sum(map(min, pairs))
            # For XFS, bytes that raidtrace reports as unknown are counted against the bytes without an origin first:
            # only the rest can explain a surplus.
            granted = min(left, other.get("unknown", 0)) if fixed is not FIXED else 0
            # An ext4 beside an XFS: its blocks of unknown kind may be directories, which must agree for the XFS.
            shared = {*DYNAMIC_KINDS} & {*fixed} - {"other_metadata"}
            loose = sum(max(0, other.get(kind, 0) - mine.get(kind, 0)) for kind in shared)
            fixed_all += sum(map(max, pairs)) - min(surplus, left - granted + min(dynamic, loose))
            excused += granted
            unknown += other.get("unknown", 0)
            unchecked += left + dynamic
        if agree != total:
            for origin in sorted(set(mine) | set(other)):
                a, b = mine.get(origin, 0), other.get(origin, 0)
                if a != b:
                    notes = [f"{count} {why}" for count, why in ((left, "unchecked"), (dynamic, "of unknown kind")) if count]
                    words = f"{' '.join(key)} {origin}: kernel {a}, raidtrace {b}"
                    differ.append((abs(a - b), f"{words} ({', '.join(notes)})" if notes else words))
    verdict.fixed, verdict.overall = share(fixed_right, fixed_all), share(right[False], checked[False])
    verdict.discards = share(right[True], checked[True])
    shares = (count / moved[False] if moved[False] else 0.0 for count in (unknown, unchecked, excused))
    verdict.unknown, verdict.unchecked, verdict.excused = shares
    verdict.words = [words for _, words in sorted(differ, reverse=True)]
    if unknown:
        verdict.words.insert(0, f"unknown to raidtrace: {unknown} of {moved[False]} bytes")
    return verdict


def compare_first(ours, theirs, verdict):
    """Compares requests by the origin of their first sector. raidtrace counts a write without data, which only requests a
    flush, under the origin that requested it. So it may have more writes; the disk statistics limit their number."""
    for key in sorted({key[:2] for key in set(ours) | set(theirs)}):
        mine, other = of_key(ours, key), of_key(theirs, key)
        more_allowed = mine.pop(NO_ORIGIN, 0) or key[1] == "write"
        for origin in sorted({*mine, *other} & set(FIXED) - {"other_metadata"}):
            a, b = mine.get(origin, 0), other.get(origin, 0)
            if a > b or (a < b and not more_allowed):
                verdict.misplaced += abs(a - b)
                verdict.words.append(f"{' '.join(key)} {origin} requests: kernel {a}, raidtrace {b}")


def compare_slots(stack, theirs, verdict):
    for owners in stack.owners().values():
        for _, member in owners:
            reported = theirs.slots.get(member.name, set())
            if member.slot is not None and reported - {member.slot}:
                verdict.slots += 1
                verdict.words.append(f"{member.name} slot: mdadm {member.slot}, raidtrace {sorted(reported, key=str)}")


def read_neighbour(directory):
    """{disk: Counter of requests by kind} of the filesystem on another partition."""
    at = directory / "neighbour"
    found = {}
    for line in at.read_text().splitlines() if at.exists() else ():
        name, *counts = line.split()
        found[name] = Counter(dict(zip(STAT, map(int, counts))))
    return found


def read_limited(directory):
    """Bytes that the cgroup with a limit read and wrote, by device number, from the cgroup's io.stat."""
    found = Counter()
    for name, sign in (("io.before", -1), ("io.after", 1)):
        for line in (directory / name).read_text().splitlines():
            dev, *words = line.split()
            for key, _, count in (word.partition("=") for word in words):
                if key in ("rbytes", "wbytes"):
                    found[dev, {"r": "read", "w": "write"}[key[0]]] += sign * int(count)
    return found


def read_top_limited(directory, array):
    """Bytes of the same cgroup by operation, according to raidtrace, and of kernel workers that submit for it."""
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


def compare_limited(directory, base, dev, verdict):
    wanted = read_limited(directory)
    found, workers = read_top_limited(directory, base)
    for op in ("read", "write"):
        if not wanted[dev, op]:
            raise Unusable(f"the cgroup did not {op} on {dev}")
        if wanted[dev, op] != found[op]:
            verdict.misnamed += abs(wanted[dev, op] - found[op])
            verdict.words.append(f"cgroup {LIMITED}: {op} bytes: kernel {wanted[dev, op]}, raidtrace {found[op]}")
    for comm, count in workers.items():
        if count:
            verdict.misnamed += count
            verdict.words.append(f"{comm} has {count} bytes of other tasks")


def read_own_unknown(directory, stack):
    """Bytes of unknown origin that raidtrace's own tasks read. After an unmount they look for a filesystem on the device,
    also in its free blocks. How often depends on the number of intervals in which the unmounts fall."""
    found = 0
    for line in map(json.loads, (directory / "top.json").read_text().splitlines()[1:]):
        tasks = (task for array in line["arrays"] if array["name"] in stack.arrays for task in array.get("tasks", ()))
        rows = (row for task in tasks if task["comm"].startswith("raidtrace") for row in task["io"])
        found += sum(row["bytes"] for row in rows if (row["op"], row["origin"]) == ("read", "unknown"))
    return found


def read_requests(directory, stack):
    """{member: Counter of requests by kind} of the disk statistics, without those of a neighbour partition."""
    found = {}
    for owners in stack.owners().values():
        for _, member in owners:
            found[member.name] = Counter()
            loops = [f"loop{dev.split(':')[1]}" for dev in dict.fromkeys(member.disks)]
            for disk in loops if member.on_dm else [re.sub(r"(?<=\d)p\d+$", "", member.name)]:
                found[member.name].update(read_stats(directory, disk))
                found[member.name].subtract(read_neighbour(directory).get(disk, Counter()))
    return found


def check_events(account, stats):
    """Raises Unusable if the trace and the disk statistics disagree: the events are not those of this run."""
    for name, kinds in stats.items():
        for kind in STAT:
            perhaps = account.requests[name, "perhaps"] if kind == "write" else 0
            if not 0 <= kinds[kind] - account.requests[name, kind] <= perhaps:
                raise Unusable(
                    f"the events are not those of the run: {name} {kind} requests: "
                    f"events {account.requests[name, kind]}, disk statistics {kinds[kind]}"
                )


def compare(directory, stack, facts=None, workload=""):
    """(verdict, the kernel's account, raidtrace's account) of a run; Unusable if there is nothing to compare."""
    check_whole(directory)
    kernel = KernelAccount(directory, stack, facts or {}, workload)
    ours = kernel.account
    if not any(ours.bytes.values()):
        raise Unusable("no IO on the members")
    if kernel.disputed and workload != "reshape":
        raise Unusable(f"geometry.py and the kernel disagree on {kernel.disputed} blocks")
    if workload == "reshape" and facts and len(kernel.shapes) < 4:
        raise Unusable(f"users did not read and write on both sides of the reshape: {sorted(kernel.shapes)}")
    stats = read_requests(directory, stack)
    check_events(ours, stats)
    theirs, lost = read_top(directory, stack)
    for volume in stack.xfs():
        volume.check()
    fixed = sorted({*FIXED, *METADATA}) if stack.xfs() else FIXED
    verdict = compare_bytes(ours.bytes, theirs.bytes, fixed)
    own = share(read_own_unknown(directory, stack), sum(ours.bytes.values()))
    verdict.excused = max(verdict.excused, own)
    verdict.notes = [volume.summary() for volume in stack.xfs()]
    # raidtrace counts the bios of a striped member, not its requests.
    by_bio = {member.name for owners in stack.owners().values() for _, member in owners if member.stripes}
    stats = {name: kinds for name, kinds in stats.items() if name not in by_bio}
    firsts = (Counter({key: n for key, n in account.first.items() if key[0] not in by_bio}) for account in (ours, theirs))
    compare_first(*firsts, verdict)
    if workload not in SYNCS:
        compare_slots(stack, theirs, verdict)
    for name, kinds in stats.items():
        for kind in STAT:
            counted, expected = theirs.requests[name, kind], kinds[kind]
            verdict.requests += expected
            # Requests from before raidtrace could know the disk may be counted or not.
            expected -= min(max(expected - counted, 0), ours.early[name, kind])
            verdict.mismatched += abs(counted - expected)
            if counted != expected:
                verdict.words.append(f"{name} {kind} requests: raidtrace {counted}, disk statistics {expected}")
    if lost:
        verdict.missed = lost.get("missed", 0)
        # A request whose issue was seen by no program has no times, which are not compared.
        verdict.lost = lost.get("events", 0) - verdict.missed - min(lost.get("issue", 0), verdict.missed)
        verdict.words.append(f"raidtrace lost {lost}")
    if printed := (directory / "top.err").read_text().strip():
        verdict.words.append(f"raidtrace printed: {'; '.join(printed.splitlines())}")
    return verdict, ours, theirs


def check_cell(directory, facts, level, workload):
    """The verdict on one level of a run of tools/truth; Unusable if there is nothing to compare."""
    if not (directory / "done").exists():
        at = directory / "output"
        printed = at.read_text(errors="replace").strip() if at.exists() else ""
        raise Unusable(f"the guest did not finish the run: {printed.splitlines()[-1] if printed else 'no output'}")
    bases = list(read_bases(directory, level))
    if not bases:
        raise Unusable(f"the run has no {level}")
    stack = read_stacks(directory, bases)
    verdict, ours, _ = compare(directory, stack, facts, workload)
    for base, _ in bases if len(bases) > 1 else ():
        if not any(count for (member, *_), count in ours.bytes.items() if member in {m.name for m in stack.arrays[base].members}):
            raise Unusable(f"no IO on {base}")
    if workload == "throttled":
        compare_limited(directory, *bases[0], verdict)
    return verdict
