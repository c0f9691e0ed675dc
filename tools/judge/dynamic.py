# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What ext4's blocks without a fixed place hold, when all is over, in debugfs's
words; and which of them were freed meanwhile, by the kernel's ext4_free_blocks
events: those may have held something else before, and are not judged.
"""

import re

# "(0-3):100-103", "(4-7[u]):104-107", "(ETB0):9", "(DIND):9"
EXTENT = re.compile(r"\((ETB\d+|[DT]?IND|\d+(?:-\d+)?)(?:\[u\])?\):(\d+)(?:-(\d+))?")
FREED = re.compile(r"ext4_free_blocks: dev (\d+),(\d+) ino \d+ mode 0\d+ block (\d+) count (\d+) ")
FIXED_INODES = (7, 8)  # the resize inode and the journal


def read_kinds(text):
    """{block: origin} of `stat <N>` for all inodes. Not a symbolic link's block: since 5.18 it goes
    through the journal, as metadata (ext4_init_symlink_block), before that it is as a file's."""
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
    """Takes out what was freed on dev ("9:120"); gives how many blocks were."""
    count = 0
    for line in lines:
        found = FREED.search(line)
        if found and f"{found[1]}:{found[2]}" == dev:
            for block in range(int(found[3]), int(found[3]) + int(found[4])):
                kinds.pop(block, None)
                count += 1
    return count
