# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The reason why md submitted a bio, from the kernel's structures at submission: a kprobe event on
submit_bio_noacct (Documentation/trace/kprobetrace.rst) with offsets from the kernel's BTF.

  READ by the stripe cache of RAID 4/5/6 (drivers/md/raid5.c, ops_run_io)
    this block has a `toread`             the block's origin: a user's read
    STRIPE_SYNCING, STRIPE_EXPAND_SOURCE  resync
    another block has a `toread`          that block's origin (lowest index if several): read to rebuild it
    else                                  rmw_read
  WRITE by the stripe cache
    a block has a `written`               parity, or this block's origin
    STRIPE_SYNCING, STRIPE_EXPANDING or
    STRIPE_EXPAND_READY                   resync
    else                                  parity, or this block's origin
  a bio that ends in RAID 1's or 10's end_sync_* or end_reshape_*  resync
  any other bio                           by its address

A stripe in a batch has its own `written`, and the state of the batch's head.
"""

import re
from collections import Counter, defaultdict, deque
from dataclasses import dataclass

from .geometry import FAR, Unusable

STRIPE_ENDS = ("raid5_end_read_request", "raid5_end_write_request")
SYNC_ENDS = ("end_sync_read", "end_sync_write", "end_reshape_read", "end_reshape_write")
DISKS = 6  # disks of a stripe that the event reads
READ, WRITE = 0, 1
STATES = ("STRIPE_SYNCING", "STRIPE_EXPANDING", "STRIPE_EXPAND_READY", "STRIPE_EXPAND_SOURCE")
UNIT = 8  # sectors of a block of a stripe


def definition(btf, first):
    """The event in the syntax of kprobe_events, and the offsets and enum values that label() needs. `first` is the register
    of the first argument of a function."""
    at = lambda path: btf.offset("bio", path)  # noqa: E731
    fields = [f"o=+{at('bi_opf')}({first}):x32", f"s=+{at('bi_iter.bi_sector')}({first}):u64"]
    fields += [f"n=+{at('bi_iter.bi_size')}({first}):u32", f"end=+{at('bi_end_io')}({first}):x64"]
    if btf.has("bio", "bi_bdev"):
        fields.append(f"dev=+{btf.offset('block_device', 'bd_dev')}(+{at('bi_bdev')}({first})):u32")
    else:  # before 5.12
        disk = f"+{at('bi_disk')}({first})"
        fields += [f"major=+{btf.offset('gendisk', 'major')}({disk}):u32"]
        fields += [f"minor=+{btf.offset('gendisk', 'first_minor')}({disk}):u32", f"part=+{at('bi_partno')}({first}):u8"]
    facts = {}
    if btf.has("stripe_head"):
        head = f"+{at('bi_private')}({first})"
        of = lambda path: btf.offset("stripe_head", path)  # noqa: E731
        fields += [f"b={first}:x64", f"sh={head}:x64"]
        fields += [f"st=+{of('state')}({head}):x64", f"bh=+{of('batch_head')}({head}):x64"]
        fields += [f"hs=+{of('state')}(+{of('batch_head')}({head})):x64"]
        fields += [f"p=+{of('pd_idx')}({head}):s16", f"q=+{of('qd_idx')}({head}):s16", f"d=+{of('disks')}({head}):s32"]
        size = btf.size("stripe_head", "dev")
        for k in range(DISKS):
            for letter, path in (("r", "toread"), ("w", "written"), ("a", "sector")):
                kind = "u64" if letter == "a" else "x64"
                fields.append(f"{letter}{k}=+{of('dev.' + path) + k * size}({head}):{kind}")
        facts = {"dev": of("dev"), "size": size, "rreq": btf.offset("stripe_head", "dev.rreq") - of("dev")}
        facts |= {name: btf.value(name) for name in STATES}
    return "p:truth/submit submit_bio_noacct " + " ".join(fields), facts


FIELD = re.compile(r"(\w+)=(\S+)")


@dataclass
class Bio:
    """A submitted bio."""

    dev: str
    op: int
    sector: int
    sectors: int
    end: str  # the function's name
    fields: dict


def read_symbols(text):
    """"ffffffffc064ac80 t raid5_end_write_request [raid456]" a line -> {address: name}"""
    return {int(line.split()[0], 16): line.split()[2] for line in text.splitlines()}


def read_bio(line, symbols):
    fields = {key: int(value, 0) for key, value in FIELD.findall(line[line.index("submit:") :])}
    if "dev" in fields:
        dev = f"{fields['dev'] >> 20}:{fields['dev'] & 0xFFFFF}"
    else:
        dev = f"{fields['major']}:{fields['minor'] + fields['part']}"
    end = symbols.get(fields["end"], "")
    return Bio(dev, fields["o"] & 0xFF, fields["s"], fields["n"] // 512, end, fields)


def label(bio, facts):
    """(label, array sector or None): the label is an origin, or "at" if the array sector determines it."""
    if bio.end in SYNC_ENDS:
        return "resync", None
    if bio.end not in STRIPE_ENDS:
        return None
    if not facts:
        return "stripe", None  # without BTF of stripe_head
    f = bio.fields
    index, rest = divmod(f["b"] - f["sh"] - facts["dev"], facts["size"])
    disks = range(min(f["d"], DISKS))
    if f["d"] > DISKS or index not in disks or rest not in (0, facts["rreq"]):
        raise Unusable(f"the bio is outside its stripe: {f}")
    state = f["hs"] if f["bh"] else f["st"]
    is_set = lambda name: state >> facts[name] & 1  # noqa: E731
    parity = index in (f["p"], f["q"])
    own = ("parity", None) if parity else ("at", f[f"a{index}"])
    if bio.op == READ:
        if f[f"r{index}"]:
            return own
        if is_set("STRIPE_SYNCING") or is_set("STRIPE_EXPAND_SOURCE"):
            return "resync", None
        for k in disks:
            if f[f"r{k}"]:
                return "at", f[f"a{k}"]
        return "rmw_read", None
    if any(f[f"w{k}"] for k in disks):
        return own
    # A stripe of the new shape no longer has STRIPE_EXPANDING when it is written.
    if is_set("STRIPE_SYNCING") or is_set("STRIPE_EXPANDING") or is_set("STRIPE_EXPAND_READY"):
        return "resync", None
    return own


class Labels:
    """Labels of the blocks in flight, by device, operation and sector."""

    NAMES = {"read": READ, "write": WRITE, "discard": 3, "write_zeroes": 9}

    def __init__(self):
        self.waiting = defaultdict(deque)
        self.count = Counter()  # of (device, operation) in flight

    def put(self, dev, op, sector, sectors, what):
        for at in range(sector, sector + sectors, UNIT):
            self.waiting[dev, op, at].append(what)
            self.count[dev, op] += 1

    def put_at(self, dev, op, sector, sectors, where):
        """Labels sectors that hold array sectors from `where` on."""
        for at in range(0, sectors, UNIT):
            self.put(dev, op, sector + at, min(UNIT, sectors - at), ("at", where + at))

    def take(self, dev, op, sector):
        """(label or None, number of sectors with that label)"""
        key = dev, self.NAMES.get(op)
        if not self.count[key]:
            return None, FAR
        waiting = self.waiting.get((*key, sector))
        if waiting:
            self.count[key] -= 1
            return waiting.popleft(), UNIT
        return None, UNIT - sector % UNIT
