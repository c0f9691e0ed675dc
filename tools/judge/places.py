# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What a sector of an ext4 filesystem holds, from the words of dumpe2fs and
debugfs: the places that are fixed when it is made. Everything else within it is
"dynamic": file data, directories, extent blocks, attribute blocks.
"""

import re
from bisect import bisect_right

from geometry import FAR, Unusable

# "(0-4095):1000-5095", "(ETB0):999", "(DIND):9257"
EXTENT = re.compile(r"\(([-\dA-Z]+)\):(\d+)(?:-(\d+))?")


class Places:
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
        """(origin, sectors for which that holds)"""
        if sector >= self.end:
            return "raw", FAR
        at = bisect_right(self.starts, sector) - 1
        if at >= 0 and sector < self.ends[at]:
            return self.origins[at], self.ends[at] - sector
        until = self.starts[at + 1] if at + 1 < len(self.starts) else self.end
        return "dynamic", until - sector


def number(text, key):
    found = re.search(rf"^{key}:\s+(\d+)$", text, re.M)
    if not found:
        raise Unusable(f"dumpe2fs does not say '{key}'")
    return int(found[1])


def extents(text):
    for name, first, last in EXTENT.findall(text):
        yield name, int(first), int(last or first)


def group_places(header, table):
    """`dumpe2fs -h` and `dumpe2fs -g`: "group:block:super:gdt:bbitmap:ibitmap:itable" and a line a group, -1: none."""
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


def read_places(directory):
    """DIR/ARRAY: header and groups (dumpe2fs -h, -g), inode.7 and inode.8 (debugfs -R 'stat <8>')."""
    header = (directory / "header").read_text(errors="replace")
    if re.search(r"^Filesystem features:.* (meta_bg|bigalloc)\b", header, re.M):
        raise Unusable("meta_bg and bigalloc are not known here")
    size = number(header, "Block size")
    found = list(group_places(header, (directory / "groups").read_text()))

    journal = (directory / "inode.8").read_text()
    mapped = [(first, last, "journal") for name, first, last in extents(journal) if name[0].isdigit()]
    if sum(last - first + 1 for first, last, _ in mapped) * size != int(re.search(r"Size: (\d+)", journal)[1]):
        raise Unusable("debugfs does not say where the whole journal is")
    found += mapped

    # The resize inode's own block; what that points to are the reserved GDT blocks.
    resize = (directory / "inode.7").read_text()
    found += [(first, last, "other_metadata") for name, first, last in extents(resize) if name == "DIND"]
    return Places(found, size // 512, number(header, "Block count"))
