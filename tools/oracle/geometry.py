# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Maps a sector of a member to md's metadata, parity, or a sector of the array, according to md(4) and to the output of
`mdadm --examine` and `--examine-bitmap` for each member. Supports RAID 0 of equal members, 1, 4, 5, 6 and 10 in
all their layouts, and linear; metadata 1.2.
"""

import re
from dataclasses import dataclass, field, replace

FAR = 1 << 60
PAGE = 8  # sectors; the unit in which md writes superblock and bitmap


class Unusable(Exception):
    """The run cannot be compared."""


@dataclass(frozen=True)
class Layout:
    """The chunk layout of the data area. `variant` is the name that mdadm uses: "left-symmetric", "far=2"."""

    level: str
    disks: int
    chunk: int = 0  # sectors; RAID 1 has none
    variant: str = ""
    stride: int = 0  # chunks from one copy to the next on a member of RAID 10's far layout
    starts: tuple = ()  # linear: the first sector of the array on each slot
    shift: int = 0  # RAID 6 of device mapper: rows by which the places of parity are ahead

    def locate(self, slot, sector):
        """Maps a sector of the data area to (array sector or None for parity, number of sectors with the same mapping)."""
        if self.level in ("raid1", "single"):
            return sector, FAR
        if self.level == "linear":
            return self.starts[slot] + sector, FAR
        row, rest = divmod(sector, self.chunk)
        index = getattr(self, self.level)(slot, row)
        left = self.chunk - rest
        return (None, left) if index is None else (index * self.chunk + rest, left)

    def raid0(self, slot, row):
        return row * self.disks + slot

    def raid10(self, slot, row):
        kind, _, copies = (self.variant or "near=2").partition("=")
        copies = int(copies)
        if kind == "near":
            # Copies are on adjacent members, row by row.
            return (row * self.disks + slot) // copies
        # Each copy is a RAID 0, shifted by one member relative to the previous copy, and located after it (far) or
        # row by row below it (offset).
        copy, row = divmod(row, self.stride) if kind == "far" else (row % copies, row // copies)
        return row * self.disks + (slot - copy) % self.disks

    def raid4(self, slot, row):
        parity = 0 if self.variant == "first" else self.disks - 1
        return None if slot == parity else row * (self.disks - 1) + slot - (slot > parity)

    def raid5(self, slot, row):
        return self.rotating(slot, row, 1)

    def raid6(self, slot, row):
        return self.rotating(slot, row, 2)

    def rotating(self, slot, row, parities):
        """Left: parity starts on the last member and moves down by one with each row. Right: it starts on the first and
        moves up. Q follows P. Symmetric: the data of a row starts after the last parity and wraps around.
        Asymmetric: it starts on the first member."""
        side, _, kind = (self.variant or "left-symmetric").partition("-")
        turn = (row + self.shift) % self.disks
        first = turn if side == "right" else self.disks - 1 - turn
        behind = (slot - first) % self.disks
        if behind < parities:
            return None
        if kind == "symmetric":
            index = behind - parities
        else:
            index = sum((other - first) % self.disks >= parities for other in range(slot))
        return row * (self.disks - parities) + index


VARIANTS = {
    "raid10": re.compile(r"(near|far|offset)=[2-9]"),
    "raid5": re.compile(r"(left|right)-a?symmetric"),
    "raid6": re.compile(r"(left|right)-a?symmetric"),
}
LEVELS = ("raid0", "raid1", "raid4", "raid5", "raid6", "raid10", "linear")


@dataclass
class Member:
    name: str
    dev: str  # "7:1": device number of its disk
    slot: int  # None: a spare, a journal
    data_offset: int
    md: list = field(default_factory=list)  # (first sector, sectors, origin), sorted
    data_sectors: int = FAR
    begin: int = 0  # first sector on its disk
    number: str = ""  # device number of the partition or the device mapper device, if it is one
    on_dm: bool = False
    stripes: tuple = ()  # of a striped device: sectors of a chunk, (disk, first sector) of each leg, sectors of a leg
    rest: str = "raw"  # origin outside data and metadata


    @property
    def disks(self):
        """Device numbers of its disks; one, except for a striped member."""
        return [dev for dev, _ in self.stripes[1]] if self.stripes else [self.dev]

    def places(self, dev, sector, count):
        """(sector, sectors) for each piece of sectors of a disk: on the disk or, for a striped member, on the member."""
        if not self.stripes:
            yield sector, count
            return
        chunk, legs, length = self.stripes
        while count:
            leg = next((i for i, (disk, first) in enumerate(legs) if disk == dev and first <= sector < first + length), None)
            if leg is None:
                raise Unusable(f"{self.name}: sector {sector} of {dev} is not on a leg")
            row, rest = divmod(sector - legs[leg][1], chunk)
            run = min(count, chunk - rest)
            yield (row * len(legs) + leg) * chunk + rest, run
            sector += run
            count -= run

    def mapped(self, table):
        """Reads a table of device mapper with one target: "0 N linear 7:0 2048"."""
        _, size, kind, *words = table.split()
        if kind == "striped":
            count, chunk, *legs = words
            places = list(zip(legs[::2], map(int, legs[1::2])))
            self.dev, self.stripes = legs[0], (int(chunk), places, int(size) // int(count))
        elif kind in ("linear", "crypt"):
            self.dev, self.begin = words[0 if kind == "linear" else 3], int(words[1 if kind == "linear" else 4])
        else:
            raise Unusable(f"{self.name}: device mapper target {kind}")


@dataclass
class Array:
    name: str
    layout: Layout
    members: list
    reshape: tuple = ()  # position at the start and at the end of the run, in sectors of the array

    def by_dev(self):
        return {member.dev: member for member in self.members}

    def pieces(self, member, sector, count):
        """Splits sectors of a disk into (origin, None, sectors) and (None, array sector, sectors)."""
        end = member.data_offset + member.data_sectors
        while count:
            at = sector - member.begin
            origin, where, left = member.rest, None, FAR
            if member.slot is not None and member.data_offset <= at < end:
                where, left = self.layout.locate(member.slot, at - member.data_offset)
                origin, left = "parity" if where is None else None, min(left, end - at)
            else:
                for first, length, what in member.md:
                    if first <= at < first + length:
                        origin, left = what, first + length - at
                        break
                    if first > at:
                        left = first - at
                        break
                if at < member.data_offset:
                    left = min(left, member.data_offset - at)
            length = min(left, count)
            yield origin, where, length
            sector += length
            count -= length


def words(text, key, default=None):
    """The value in a line "key : value" of mdadm."""
    found = re.search(rf"^\s*{key} : (.*?)\s*$", text, re.M)
    if found:
        return found[1]
    if default is None:
        raise Unusable(f"mdadm prints no '{key}'")
    return default


def sectors(text, key):
    value = words(text, key)
    if not (found := re.match(r"(\d+) sectors", value)):
        raise Unusable(f"'{key} : {value}' is not in sectors")
    return int(found[1])


def bytes_of(text):
    number, unit = re.fullmatch(r"(\d+)([KM])", text).groups()
    return int(number) << {"K": 10, "M": 20}[unit]


def read_member(name, dev, examine, bitmap):
    if words(examine, "Version") != "1.2":
        raise Unusable(f"{name}: metadata {words(examine, 'Version')}")
    role = words(examine, "Device Role")
    # "Active device 1", "Replacement device 1", "spare", "Journal"
    slot = re.search(r" device (\d+)$", role)
    superblock = sectors(examine, "Super Offset")
    member = Member(name, dev, int(slot[1]) if slot else None, sectors(examine, "Data Offset"))
    member.md.append((superblock, PAGE, "md_superblock"))
    if found := re.search(r"available at offset (\d+) sectors", words(examine, "Bad Block Log", "none")):
        member.md.append((superblock + int(found[1]), PAGE, "md_superblock"))
    if found := re.match(r"(-?\d+) sectors from superblock", words(examine, "Internal Bitmap", "none")):
        # The superblock of the bitmap (256 bytes), then one bit per chunk.
        bits = int(re.match(r"(\d+) bits", words(bitmap, "Bitmap"))[1])
        pages = -(-(256 + -(-bits // 8)) // (PAGE * 512))
        member.md.append((superblock + int(found[1]), pages * PAGE, "md_bitmap"))
    if found := re.match(r"(\d+) sectors at offset (\d+) sectors from superblock", words(examine, "PPL", "none")):
        member.md.append((superblock + int(found[2]), int(found[1]), "md_journal"))
    member.md.sort()
    if role == "Journal":
        member.rest = "md_journal"
    return member


def read_volume(directory):
    """A volume of a container, described by detail (of mdadm) and volume.NAME: first data sector, sectors and slot on the
    member's disk, and the first sector of the container's metadata, which end with the disk."""
    detail = (directory / "detail").read_text()
    members = []
    for line in (directory / "members").read_text().splitlines():
        dev, name = line.split()
        begin, count, slot, metadata = map(int, (directory / f"volume.{name}").read_text().split())
        md = [(metadata - begin, FAR, "md_superblock")]
        members.append(Member(name, dev, slot, 0, md, data_sectors=count, begin=begin))
    return Array(directory.name, read_layout(words(detail, "Raid Level"), detail), members)


# Layouts by the name of device mapper's target (dm-raid.rst; raid5_compute_sector() of drivers/md/raid5.c).
DM_RAID = {
    "raid0": ("raid0", "", 0),
    "raid1": ("raid1", "", 0),
    "raid10": ("raid10", "near=2", 0),
    "raid4": ("raid4", "first", 0),  # ALGORITHM_PARITY_0
    "raid5_ls": ("raid5", "left-symmetric", 0),
    "raid6_zr": ("raid6", "right-asymmetric", 0),
    "raid6_nr": ("raid6", "left-asymmetric", 1),
    "raid6_nc": ("raid6", "left-symmetric", 1),
}


def read_dm_raid(directory):
    """An array of device mapper, described by its table and those of its devices (table.NUMBER): each linear on a loop device.
    The metadata device of a slot has a superblock of 4 KiB, then the bitmap."""
    _, sectors, target, kind, count, *rest = (directory / "table").read_text().split()
    sectors = int(sectors)
    if target != "raid" or kind not in DM_RAID:
        raise Unusable(f"target {target} {kind} is not supported by this account")
    params, (disks, *devices) = rest[: int(count)], rest[int(count) :]
    chunk, params = int(params[0]), [word for word in params[1:] if word != "nosync"]
    options = dict(zip(params[::2], params[1::2]))
    if options.pop("raid10_copies", "2") != "2" or set(options) - {"region_size", "daemon_sleep"}:
        raise Unusable(f"parameters {params} are not supported by this account")
    level, variant, shift = DM_RAID[kind]
    members = []
    for slot, (metadata, data) in enumerate(zip(devices[::2], devices[1::2])):
        table = (directory / f"table.{data}").read_text()
        member = Member("", "", slot, 0, number=data, on_dm=True, data_sectors=int(table.split()[1]))
        member.mapped(table)
        member.name = f"loop{member.dev.split(':')[1]}"
        if metadata != "-":
            _, size, _, disk, first = (directory / f"table.{metadata}").read_text().split()
            if disk != member.dev:
                raise Unusable(f"{metadata} and {data} are not on one disk")
            at = int(first) - member.begin
            # One bit per region, after the superblock of the bitmap (256 bytes).
            covered = sectors if kind == "raid10" else member.data_sectors
            bits = -(-covered // int(options["region_size"]))
            pages = -(-(256 + -(-bits // 8)) // (PAGE * 512))
            member.md = [(at, PAGE, "md_superblock"), (at + PAGE, pages * PAGE, "md_bitmap")]
        members.append(member)
    return Array(directory.name, Layout(level, int(disks), chunk, variant, shift=shift), members)


def read_layout(level, examine):
    variant = words(examine, "Layout", "")
    if level not in LEVELS or level in VARIANTS and not VARIANTS[level].fullmatch(variant):
        raise Unusable(f"{level} {variant} is not supported by this account")
    chunk = 0 if level in ("raid1", "linear") else bytes_of(words(examine, "Chunk Size")) // 512
    stride = 0
    if variant.startswith("far="):
        stride = data_sectors(examine) // chunk // int(variant[4:])
    return Layout(level, int(words(examine, "Raid Devices")), chunk, variant, stride)


def data_sectors(examine):
    """Size of the part of a member's data area that the array uses."""
    used = sectors(examine, "Used Dev Size") if "Used Dev Size" in examine else 0
    return used or sectors(examine, "Avail Dev Size")  # of a linear array, "Used Dev Size : 0 sectors"


def position(examine):
    """Position of a reshape in sectors of the array; 0 without a reshape."""
    return int(words(examine, "Reshape pos'n", "0").split()[0]) * 2


def read_array(directory, breakage=None):
    """The array described by members (lines "7:1 loop1"), examine.NAME, bitmap.NAME, and for a partition partition.NAME
    ("7:0 2048": device number of the disk, first sector)."""
    if (directory / "detail").exists():
        return read_volume(directory)
    if (directory / "table").exists():
        return read_dm_raid(directory)
    members, layouts, reshape = [], {}, []
    level = "single"
    for line in (directory / "members").read_text().splitlines():
        dev, name = line.split()
        examine = (directory / f"examine.{name}").read_text()
        bitmap = directory / f"bitmap.{name}"
        member = read_member(name, dev, examine, bitmap.read_text() if bitmap.exists() else "")
        # Use the description from the start of the run: md may have moved the data since.
        before = directory / f"before.{name}"
        if before.exists():
            old = before.read_text()
            reshape = [position(old), position(examine)]
            member.data_offset = min(member.data_offset, sectors(old, "Data Offset"))
            if member.slot is None and (slot := re.search(r" device (\d+)$", words(old, "Device Role"))):
                member.slot = int(slot[1])
        level = words(examine, "Raid Level")
        member.data_sectors = data_sectors(examine)
        partition = directory / f"partition.{name}"
        if partition.exists():
            member.number = dev
            member.dev, begin = partition.read_text().split()
            member.begin = int(begin)
        if (table := directory / f"table.{name}").exists():
            member.number, member.on_dm = dev, True
            member.mapped(table.read_text())
        # A failed member's superblock is out of date: the highest event count is current.
        layouts[int(words(examine, "Events"))] = read_layout(level, examine)
        members.append(member)
    layout = layouts[max(layouts)]
    if level == "linear":
        # Members one after the other, each rounded down.
        sizes = {}
        for member in members:
            rounding = bytes_of(words((directory / f"examine.{member.name}").read_text(), "Rounding", "1K")) // 512
            sizes[member.slot] = member.data_sectors = member.data_sectors // rounding * rounding
        layout = replace(layout, starts=tuple(sum(sizes[slot] for slot in range(end)) for end in range(len(sizes))))
    array = Array(directory.name, layout, members, tuple(reshape))
    if breakage:
        break_geometry(array, breakage)
    return array


def break_geometry(array, fault):
    """Falsifies the geometry, so that a comparison must fail."""
    if fault == "slots":
        one, other = sorted(array.members, key=lambda member: member.slot)[:2]
        one.slot, other.slot = other.slot, one.slot
    elif fault == "offset":
        for member in array.members:
            member.data_offset -= array.layout.chunk or 1024
