# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a sector of a member stands for: md's own places, parity, or a sector of
the array. From md(4) and from what `mdadm --examine` and `--examine-bitmap` say
of each member; RAID 0 of equal members, RAID 1, RAID 10 near-2, RAID 5
left-symmetric, metadata 1.2.
"""

import re
from dataclasses import dataclass, field

FAR = 1 << 60
PAGE = 8  # sectors; what md writes its superblock and bitmap in


class Unusable(Exception):
    """The run cannot be judged."""


@dataclass(frozen=True)
class Layout:
    """Where the data area's sectors go, chunk by chunk."""

    level: str
    disks: int
    chunk: int = 0  # sectors; RAID 1 has none

    def locate(self, slot, sector):
        """A sector of the data area -> (array sector or None for parity, sectors for which that holds)."""
        if self.level == "raid1":
            return sector, FAR
        row, rest = divmod(sector, self.chunk)
        index = getattr(self, self.level)(slot, row)
        left = self.chunk - rest
        return (None, left) if index is None else (index * self.chunk + rest, left)

    def raid0(self, slot, row):
        return row * self.disks + slot

    def raid10(self, slot, row):
        # Copies lie side by side, row by row.
        return (row * self.disks + slot) // 2

    def raid5(self, slot, row):
        # Parity begins on the last member and moves down by one with each row;
        # the row's data begins behind it and wraps round.
        parity = self.disks - 1 - row % self.disks
        if slot == parity:
            return None
        behind = slot - parity - 1 if slot > parity else slot + self.disks - parity - 1
        return row * (self.disks - 1) + behind


@dataclass
class Member:
    name: str
    dev: str  # "7:1"
    slot: int
    data_offset: int
    md: list = field(default_factory=list)  # (first sector, sectors, origin), sorted


@dataclass
class Array:
    name: str
    layout: Layout
    members: list

    def by_dev(self):
        return {member.dev: member for member in self.members}

    def pieces(self, member, sector, count):
        """A request's sectors as (origin, None, sectors) or (None, array sector, sectors)."""
        while count:
            if sector < member.data_offset:
                origin, left = "raw", member.data_offset - sector
                for first, length, what in member.md:
                    if first <= sector < first + length:
                        origin, left = what, first + length - sector
                        break
                    if first > sector:
                        left = first - sector
                        break
                where = None
            else:
                where, left = self.layout.locate(member.slot, sector - member.data_offset)
                origin = "parity" if where is None else None
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
        raise Unusable(f"mdadm does not say '{key}'")
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
    role = re.fullmatch(r"Active device (\d+)", words(examine, "Device Role"))
    if not role:
        raise Unusable(f"{name}: {words(examine, 'Device Role')}")
    superblock = sectors(examine, "Super Offset")
    member = Member(name, dev, int(role[1]), sectors(examine, "Data Offset"))
    member.md.append((superblock, PAGE, "md_superblock"))
    if found := re.match(r"(-?\d+) sectors from superblock", words(examine, "Internal Bitmap", "none")):
        # Its own superblock (256 bytes), then a bit for each of its chunks.
        bits = int(re.match(r"(\d+) bits", words(bitmap, "Bitmap"))[1])
        pages = -(-(256 + -(-bits // 8)) // (PAGE * 512))
        member.md.append((superblock + int(found[1]), pages * PAGE, "md_bitmap"))
    member.md.sort()
    return member


def read_array(directory, breakage=None):
    """DIR/ARRAY: members ("7:1 loop1" a line), examine.NAME, bitmap.NAME."""
    members = []
    for line in (directory / "members").read_text().splitlines():
        dev, name = line.split()
        examine = (directory / f"examine.{name}").read_text()
        bitmap = directory / f"bitmap.{name}"
        members.append(read_member(name, dev, examine, bitmap.read_text() if bitmap.exists() else ""))
    level = words(examine, "Raid Level")
    disks = int(words(examine, "Raid Devices"))
    if sorted(member.slot for member in members) != list(range(disks)):
        raise Unusable(f"{directory.name}: not every slot of {disks} has its member")
    layout = words(examine, "Layout", "")
    if level not in ("raid0", "raid1", "raid10", "raid5"):
        raise Unusable(f"{directory.name}: {level} is not known here")
    if (level, layout) not in (("raid10", "near=2"), ("raid5", "left-symmetric")) and level in ("raid10", "raid5"):
        raise Unusable(f"{directory.name}: {level} {layout} is not known here")
    chunk = 0 if level == "raid1" else bytes_of(words(examine, "Chunk Size")) // 512
    array = Array(directory.name, Layout(level, disks, chunk), members)
    if breakage:
        break_geometry(array, breakage)
    return array


def break_geometry(array, how):
    """On purpose, so that a comparison can be seen to fail."""
    if how == "slots":
        one, other = sorted(array.members, key=lambda member: member.slot)[:2]
        one.slot, other.slot = other.slot, one.slot
    elif how == "offset":
        for member in array.members:
            member.data_offset -= array.layout.chunk or 1024
