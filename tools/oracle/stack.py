# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Arrays and the filesystems on them. Finds the origin of a member's sectors, through nested arrays, partitions and device
mapper, down to the blocks of a filesystem.
"""

from bisect import bisect_right
from dataclasses import dataclass

from .ext4 import DYNAMIC, forget_freed, read_fixed_blocks, read_kinds
from .geometry import FAR, Array, Layout, Member, read_array
from .xfs import XfsVolume, read_log_blocks, read_volume


@dataclass
class Volume:
    """An ext4 filesystem, or the external log of an XFS."""

    fixed: object  # FixedBlocks
    kinds: dict  # block: origin
    block_sectors: int

    def __post_init__(self):
        self.known = sorted(self.kinds)

    def locate(self, sector):
        origin, run = self.fixed.locate(sector)
        if origin != DYNAMIC:
            return origin, run
        block = sector // self.block_sectors
        if block in self.kinds:
            return self.kinds[block], min(run, self.block_sectors - sector % self.block_sectors)
        at = bisect_right(self.known, block)
        if at < len(self.known):
            run = min(run, self.known[at] * self.block_sectors - sector)
        return DYNAMIC, run


@dataclass
class Stack:
    """Arrays, including those that are members of others, and the filesystems on them."""

    arrays: dict
    volumes: dict
    maps: dict  # device: sorted list of (first sector, sectors, volume, first of these sectors within the volume)

    def xfs(self):
        """The XFS filesystems."""
        return [volume for volume in self.volumes.values() if isinstance(volume, XfsVolume)]

    @property
    def has_md(self):
        return any(array.layout.level != "single" for array in self.arrays.values())

    def owners(self):
        """{device number of a disk: [(array, member)]}"""
        found = {}
        for array in self.arrays.values():
            for member in array.members:
                if not member.name.startswith("md"):
                    for dev in dict.fromkeys(member.disks):
                        found.setdefault(dev, []).append((array, member))
        return found

    def of_member(self, array, member, sector, count):
        for origin, where, length in array.pieces(member, sector, count):
            if where is None:
                yield origin, length
            else:
                yield from self.of_array(array.name, where, length)

    def of_array(self, name, sector, count):
        """(origin, sectors) for each piece of a device's sectors."""
        for outer in self.arrays.values():
            for member in outer.members:
                if member.name == name != outer.name:
                    yield from self.of_member(outer, member, sector, count)
                    return
        pieces = self.maps.get(name, [])
        while count:
            origin, left = "raw", FAR
            after = bisect_right(pieces, sector, key=lambda piece: piece[0])
            first, length, volume, begin = pieces[after - 1] if after else (0, 0, None, 0)
            if sector < first + length:
                origin, left = self.volumes[volume].locate(sector - first + begin)
                left = min(left, first + length - sector)
            elif after < len(pieces):
                left = pieces[after][0] - sector
            run = min(left, count)
            yield origin, run
            sector += run
            count -= run


def read_arrays(directory, name):
    """{name: array}: the array, and the arrays that are its members."""
    found = {name: read_array(directory / name)}
    for member in found[name].members:
        if member.name.startswith("md"):
            found |= read_arrays(directory, member.name)
    return found


def read_bases(directory, level):
    """Names and device numbers of the arrays (or the disk without md) below the volumes of a run, for a RAID level as tools/truth
    names it."""
    bases = [line.split() for line in (directory / "bases").read_text().splitlines()]
    for base in [base for name, base in bases if name == level]:
        yield base, f"9:{base[2:]}" if base.startswith("md") else (directory / f"dev.{base}").read_text().strip()


def read_stack(directory, base, dev):
    """The stack on one array, or on a disk without md, from the files of a run."""
    if base.startswith("md") or (directory / base / "table").exists():
        arrays = read_arrays(directory, base)
        if (beside := directory / f"beside.{base}").exists():
            arrays |= read_arrays(directory, beside.read_text().strip())
    else:
        arrays = {base: Array(base, Layout("single", 1), [Member(base, dev, 0, 0)])}
    with open(directory / "trace", errors="replace") as lines:
        freed = [line for line in lines if "ext4_free_blocks:" in line]
    volumes, pieces, maps = {}, [], {}
    for line in (directory / "maps").read_text().splitlines() if (directory / "maps").exists() else ():
        device, first, length, name, begin = line.split()
        if device != base:
            continue
        pieces.append((int(first), int(length), name, int(begin)))
        at = directory / f"fs-{name}"
        if name not in volumes and (at / "superblock").exists():
            volumes[name] = read_volume(at, directory)
            if (at / "log").exists():
                log = (at / "log").read_text().strip()
                arrays |= read_arrays(directory, log)
                volumes[log] = Volume(read_log_blocks(at), {}, 1)
                maps[log] = [(0, FAR, log, 0)]
        if name not in volumes:
            fixed = read_fixed_blocks(at)
            kinds = read_kinds((at / "inodes").read_text(errors="replace")) if (at / "inodes").exists() else {}
            forget_freed(kinds, freed, (at / "dev").read_text().strip())
            volumes[name] = Volume(fixed, kinds, fixed.block_sectors)
    return Stack(arrays, volumes, maps | {base: sorted(pieces)})


def read_stacks(directory, bases):
    """The stack on several arrays, whose volumes may be on more than one of them."""
    stacks = [read_stack(directory, base, dev) for base, dev in bases]
    whole = stacks[0]
    for stack in stacks[1:]:
        whole = Stack(whole.arrays | stack.arrays, stack.volumes | whole.volumes, whole.maps | stack.maps)
    return whole
