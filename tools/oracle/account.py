# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Two accounts of a run: the kernel's, from trace events, disk statistics, mdadm, dumpe2fs and debugfs; and
raidtrace's, from `top --json`.
"""

import json
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from . import stripes
from .events import EVENT, KIND, counts_as_request, operation
from .ext4 import DYNAMIC
from .geometry import Unusable

EXT4 = ("superblock", "group_descriptors", "block_bitmap", "inode_bitmap", "inode_table", "journal", "other_metadata")
# Further fixed origins of XFS. Its directories, attributes and extent trees must agree exactly, too (xfs.METADATA).
XFS = ("ag_header", "free_space_btree", "inode_btree", "inode_cluster", "rmap_btree", "refcount_btree")
MD = ("md_superblock", "md_bitmap", "md_journal", "parity")
FIXED = EXT4 + XFS + MD + ("raw",)
# Origins of blocks without a fixed address. raidtrace calls some of these other_metadata: quota files, symbolic links.
DYNAMIC_KINDS = ("file_data", "directory", "extent_tree", "xattr", "other_metadata", "unknown")
SYNCS = ("resync", "check", "repair", "recovery", "replace", "reshape", "turnover")
PARITY_LEVELS = ("raid4", "raid5", "raid6")
NO_ORIGIN = "?"  # the kernel's account has no origin: raidtrace's is not checked


@dataclass
class Account:
    bytes: Counter = field(default_factory=Counter)  # (member, operation, origin)
    first: Counter = field(default_factory=Counter)  # (member, operation, origin): requests whose first sector has it
    requests: Counter = field(default_factory=Counter)  # (member, kind)
    early: Counter = field(default_factory=Counter)  # (member, kind): requests before raidtrace can know the disk
    slots: dict = field(default_factory=lambda: defaultdict(set))  # member: slots reported by raidtrace


KNOWN = re.compile(r"tracing_mark_write: known: (\d+:\d+)$")
# Between these marks only a filesystem on another partition does IO.
NEIGHBOUR = re.compile(r"tracing_mark_write: neighbour: (begin|end)$")
XFS_DEVICE = re.compile(r" dev=(\d+) ")
# Sectors of a member, and the array sector of the first one.
REMAP = re.compile(r"block_bio_remap: (\d+),(\d+) (\w+) (\d+) \+ (\d+) <- \((\d+),(\d+)\) (\d+)$")


class KernelAccount:
    """The kernel's account of a run, built from its trace.

    Without "symbols" there was no kprobe on submit_bio_noacct (see stripes): then the origin of writes of RAID 4/5/6
    is known from the address, but the reason of its reads is not.
    """

    def __init__(self, directory, stack, facts, workload):
        self.stack, self.facts, self.workload = stack, facts, workload
        self.owners = stack.owners()
        self.begins = {}
        for array in stack.arrays.values():
            for member in array.members:
                if member.begin:
                    self.begins[member.number] = member.dev, member.begin
        self.labels = stripes.Labels()
        self.xfs = {volume.dev: volume for volume in stack.xfs()}
        self.remaps = {}  # (disk, sector): array sector of the last block_bio_remap
        self.shapes = set()  # users' IO during a reshape: (operation, True if the data had moved)
        self.account = Account()
        self.disputed = 0
        self.neighbour = False
        self.sees_stripes = (directory / "symbols").exists()
        symbols = stripes.read_symbols((directory / "symbols").read_text()) if self.sees_stripes else {}
        # Disks that join. mdadm reads and writes them before they are members, and md writes its superblock before
        # /proc/mdstat changes: raidtrace cannot know that they are members yet.
        with open(directory / "trace", errors="replace") as lines:
            self.joining = {found[1] for line in lines if (found := KNOWN.search(line))}
        with open(directory / "trace", errors="replace") as lines:
            for line in lines:
                if " submit: " in line:
                    self.submitted(stripes.read_bio(line, symbols))
                elif " xfs: (" in line:
                    self.submitted_by_xfs(line)
                elif "block_bio_remap:" in line:
                    self.remapped(line)
                elif "block_rq_complete:" in line:
                    self.completed(line)
                elif found := KNOWN.search(line):
                    self.joining.discard(found[1])
                elif found := NEIGHBOUR.search(line):
                    self.neighbour = found[1] == "begin"

    def submitted_by_xfs(self, line):
        if volume := self.xfs.get(f"{(dev := int(XFS_DEVICE.search(line)[1])) >> 20}:{dev & 0xFFFFF}"):
            volume.submitted(line)

    def remapped(self, line):
        """Stores the array sector of a user's bio: during a reshape of RAID 10 it is not known otherwise."""
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
            # A stripe has the old or the new number of disks.
            for array, _ in self.owners.get(dev, ()):
                self.shapes.add((bio.op, bio.fields["d"] == array.layout.disks))
        if what[0] == "stripe":
            # 5.10 has no BTF of stripe_head: the reason of a read is unknown.
            if bio.op != stripes.READ and self.workload not in SYNCS:
                return
            what = NO_ORIGIN, None
        elif what[0] in ("at", "parity") and bio.end in stripes.STRIPE_ENDS:
            self.check_place(dev, bio, begin, what)
        self.labels.put(dev, bio.op, bio.sector + begin, bio.sectors, what)

    def index(self, bio):
        """Index of the bio's block in its stripe."""
        return (bio.fields["b"] - bio.fields["sh"] - self.facts["dev"]) // self.facts["size"]

    def check_place(self, dev, bio, begin, what):
        """Counts blocks for which geometry.py and the kernel's stripe_head disagree on the array's sector."""
        kernel = bio.fields[f"a{self.index(bio)}"]
        for array, member in self.owners.get(dev, ()):
            if not self.holds(member, bio.sector + begin):
                continue
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
        if op == "write" and not count and (not self.stack.has_md or member.on_dm):
            # A write that completes again after its flush, or an empty write that only requests a flush. The sector of
            # the latter is 0, or since 5.17 0 remapped by device mapper (drivers/md/dm-linear.c, linear_map()), or that
            # of a write with a flush (drivers/md/dm.c, __send_empty_flush()).
            self.account.requests[member.name, "perhaps"] += 1
        elif counts_as_request(op, sector, count):
            self.account.requests[member.name, KIND[op]] += 1
            if dev in self.joining:
                self.account.early[member.name, KIND[op]] += 1
        first, labelled = 1, member.number if member.stripes else dev
        for sector, count in member.places(dev, sector, count):
            while count:
                label, run = self.labels.take(labelled, op, sector)
                run = min(run, count)
                for origin, length in self.origins(array, member, op, label, sector, run):
                    if op == "discard" and origin in DYNAMIC_KINDS and origin not in FIXED:
                        origin = DYNAMIC  # the block's content is gone
                    if dev in self.joining:
                        origin = NO_ORIGIN
                    self.account.bytes[member.name, op, origin] += length * 512
                    self.account.first[member.name, op, origin] += first
                    first = 0
                sector += run
                count -= run

    @staticmethod
    def holds(member, sector):
        return member.begin <= sector < member.begin + member.data_offset + member.data_sectors

    def origins(self, array, member, op, label, sector, count):
        if label is None:
            in_data = sector - member.begin >= member.data_offset and member.slot is not None
            # During a reshape, an address without a label is ambiguous.
            unlabelled = self.workload == "reshape" or (not self.sees_stripes and array.layout.level in PARITY_LEVELS and op == "read")
            if in_data and unlabelled:
                return [(NO_ORIGIN, count)]
            return list(self.stack.of_member(array, member, sector, count))
        what, where = label
        if what != "at":
            return [(what, count)]
        if where is None:
            return [(NO_ORIGIN, count)]
        return self.stack.of_array(array.name, where, count)


def read_top(directory, stack):
    """raidtrace's account: the sum of all lines but the first, which precedes the run; and its losses by reason."""
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
                name = member["name"]
                if name not in leaves:
                    continue
                account.slots[name].add(member["slot"])
                for row in member["io"]:
                    op, origin = row["op"], row["origin"]
                    account.requests[name, KIND.get(op, op)] += row["requests"]
                    account.bytes[name, op, origin] += row["bytes"]
                    if row["bytes"]:
                        account.first[name, op, origin] += row["requests"]
    return account, {reason: count for reason, count in lost.items() if count}
