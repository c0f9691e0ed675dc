# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The origin of each sector of an ext4 filesystem, as dumpe2fs and debugfs describe it.

FixedBlocks has the structures that mke2fs creates at a fixed address. All other blocks of the filesystem are
DYNAMIC: file data, directories, extent blocks, attribute blocks. read_kinds() finds the content of these blocks at
the end of the run. Blocks that were freed during the run (the kernel's ext4_free_blocks events) may have had other
content, and stay DYNAMIC.
"""

import re
from bisect import bisect_right

from .geometry import FAR, Unusable

DYNAMIC = "dynamic"

# "(0-3):100-103", "(4-7[u]):104-107", "(ETB0):9", "(DIND):9"
EXTENT = re.compile(r"\((ETB\d+|[DT]?IND|\d+(?:-\d+)?)(?:\[u\])?\):(\d+)(?:-(\d+))?")
FREED = re.compile(r"ext4_free_blocks: dev (\d+),(\d+) ino \d+ mode 0\d+ block (\d+) count (\d+) ")
FIXED_INODES = (7, 8)  # the resize inode and the journal


class FixedBlocks:
    def __init__(self, ranges, block_sectors, blocks):
        """ranges: (first block, last block, origin)."""
        self.block_sectors = block_sectors
        self.starts, self.ends, self.origins = [], [], []
        for first, last, origin in sorted(ranges):
            if self.ends and first * block_sectors < self.ends[-1]:
                raise Unusable(f"block {first} is {self.origins[-1]} and {origin}")
            self.starts.append(first * block_sectors)
            self.ends.append((last + 1) * block_sectors)
            self.origins.append(origin)
        self.end = blocks * block_sectors

    def locate(self, sector):
        """(origin of a sector, number of sectors from there on with the same origin)"""
        if sector >= self.end:
            return "raw", FAR
        at = bisect_right(self.starts, sector) - 1
        if at >= 0 and sector < self.ends[at]:
            return self.origins[at], self.ends[at] - sector
        until = self.starts[at + 1] if at + 1 < len(self.starts) else self.end
        return DYNAMIC, until - sector


def number(text, key):
    found = re.search(rf"^{key}:\s+(\d+)$", text, re.M)
    if not found:
        raise Unusable(f"dumpe2fs prints no '{key}'")
    return int(found[1])


def extents(text):
    for name, first, last in EXTENT.findall(text):
        yield name, int(first), int(last or first)


def group_blocks(header, table):
    """Ranges from `dumpe2fs -h` and `dumpe2fs -g`: a line "group:block:super:gdt:bbitmap:ibitmap:itable" per group; -1: none."""
    reserved = re.search(r"^Reserved GDT blocks:\s+(\d+)$", header, re.M)
    inode_blocks = number(header, "Inode blocks per group")
    lines = [line for line in table.splitlines() if re.match(r"\d+:", line)]
    blocks, first, group = (number(header, what) for what in ("Block count", "First block", "Blocks per group"))
    if len(lines) != -(-(blocks - first) // group):
        raise Unusable(f"dumpe2fs lists {len(lines)} groups")
    for line in lines:
        _, _, superblock, descriptors, block_bitmap, inode_bitmap, inode_table = line.split(":")
        if superblock != "-1":
            yield int(superblock), int(superblock), "superblock"
        if descriptors != "-1":
            begin, _, end = descriptors.partition("-")
            yield int(begin), int(end or begin) + (int(reserved[1]) if reserved else 0), "group_descriptors"
        yield int(block_bitmap), int(block_bitmap), "block_bitmap"
        yield int(inode_bitmap), int(inode_bitmap), "inode_bitmap"
        yield int(inode_table), int(inode_table) + inode_blocks - 1, "inode_table"


def read_fixed_blocks(directory):
    """The filesystem described by header and groups (dumpe2fs -h, -g), inode.7 and inode.8 (debugfs -R 'stat <8>')."""
    header = (directory / "header").read_text(errors="replace")
    if re.search(r"^Filesystem features:.* (meta_bg|bigalloc)\b", header, re.M):
        raise Unusable("meta_bg and bigalloc are not supported by this account")
    size = number(header, "Block size")
    found = list(group_blocks(header, (directory / "groups").read_text()))

    journal = (directory / "inode.8").read_text()
    mapped = [(first, last, "journal") for name, first, last in extents(journal) if name[0].isdigit()]
    if sum(last - first + 1 for first, last, _ in mapped) * size != int(re.search(r"Size: (\d+)", journal)[1]):
        raise Unusable("debugfs does not print all blocks of the journal")
    found += mapped

    # The double indirect block of the resize inode. It points to the reserved GDT blocks, which are group_descriptors.
    resize = (directory / "inode.7").read_text()
    found += [(first, last, "other_metadata") for name, first, last in extents(resize) if name == "DIND"]
    return FixedBlocks(found, size // 512, number(header, "Block count"))


def read_kinds(text):
    """{block: origin} from `stat <N>` of all inodes. Excludes blocks of symbolic links: since 5.18 these are journaled
    metadata (ext4_init_symlink_block), before they are file data."""
    kinds = {}
    number = data = None
    for line in text.splitlines():
        if found := re.match(r"Inode: (\d+)\s+Type: (\w+)", line):
            number = int(found[1])
            data = {"directory": "directory", "regular": "file_data"}.get(found[2])
        elif found := re.search(r"File ACL: (\d+)", line):
            if int(found[1]):
                kinds[int(found[1])] = "xattr"
        elif number is not None and number not in FIXED_INODES and line.startswith("("):
            for what, first, last in EXTENT.findall(line):
                kind = data if what[0].isdigit() else "extent_tree"
                for block in range(int(first), int(last or first) + 1) if kind else ():
                    kinds[block] = kind
    return kinds


def forget_freed(kinds, lines, dev):
    """Removes the blocks that were freed on dev ("9:120"). Returns their number."""
    count = 0
    for line in lines:
        found = FREED.search(line)
        if found and f"{found[1]}:{found[2]}" == dev:
            for block in range(int(found[3]), int(found[3]) + int(found[4])):
                kinds.pop(block, None)
                count += 1
    return count
