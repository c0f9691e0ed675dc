# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The origin of each sector of an XFS filesystem at the time of an IO.

Superblocks, AG headers and the log have fixed addresses (xfs_db, `sb 0`). Every other block is allocated and freed during
a run, so its kind is that of the last bio that the filesystem submitted for it: a kprobe event on submit_bio_noacct logs
the name of the buffer's xfs_buf_ops (fs/xfs/xfs_buf.c), which the kernel itself uses to verify the content. A member
completes a request before the filesystem can reuse the block, so the last submission is the one that it completes.

xfs_db is the second account: `blockuse` and `fsmap` after the run must have the same kind for every block that is not free by then.
One disagreement, and the run has no verdict. A node of a directory has the same operations as a node of extended
attributes: its kind is that of blockuse. A block with neither has no origin (NO_ORIGIN): its bytes are unchecked.
"""

import re
from collections import Counter

from .account import NO_ORIGIN
from .ext4 import DYNAMIC, FixedBlocks
from .geometry import Unusable
from .stripes import read_symbols

# A run with a larger share of the filesystem's own bytes without an origin has no verdict.
MOST_OPEN = 0.01
NODE = "xfs_da3_node"
# Origins by the name of the buffer operations, without "_ra", "_reada" and "_quiet" of the reads ahead.
OPERATIONS = {
    "xfs_sb": "superblock",
    "xfs_agf": "ag_header", "xfs_agi": "ag_header", "xfs_agfl": "ag_header",
    "xfs_bnobt": "free_space_btree", "xfs_cntbt": "free_space_btree",
    "xfs_inobt": "inode_btree", "xfs_finobt": "inode_btree",
    "xfs_inode": "inode_cluster", "xfs_rmapbt": "rmap_btree", "xfs_refcountbt": "refcount_btree",
    "xfs_bmbt": "extent_tree",
    "xfs_dir3_block": "directory", "xfs_dir3_data": "directory", "xfs_dir3_leaf1": "directory", "xfs_dir3_leafn": "directory",
    "xfs_dir3_free": "directory",
    "xfs_attr3_leaf": "xattr", "xfs_attr3_rmt": "xattr",
    "xfs_dquot": "other_metadata", "xfs_symlink": "other_metadata",
}  # fmt: skip
# Origins by the type that blockuse prints (xfsprogs, db/check.c), and btbmap for the extent trees of fsmap.
TYPES = {
    "sb": "superblock", "log": "journal",
    "btbno": "free_space_btree", "btcnt": "free_space_btree", "btino": "inode_btree", "btfino": "inode_btree",
    "inode": "inode_cluster", "btrmap": "rmap_btree", "btrefcnt": "refcount_btree",
    "btbmap": "extent_tree", "dir": "directory", "attr": "xattr",
    "quota": "other_metadata", "symlink": "other_metadata",
    "data": "file_data", "rldata": "file_data", "cowdata": "file_data",
}  # fmt: skip
FREE = ("free1", "free2", "freelist")
METADATA = sorted({*OPERATIONS.values(), "journal"} - {"other_metadata"})

BUFFER, LOG, CHAIN = "xfs_buf_bio_end_io", "xlog_bio_end_io", "bio_chain_endio"
DATA = ("xfs_end_bio", "iomap_writepage_end_bio", "ioend_writeback_end_bio", "iomap_read_end_io", "iomap_dio_bio_end_io")
ENDS = (BUFFER, LOG, CHAIN, *DATA)
# The name of another bio than a buffer's may be any bytes.
EVENT = re.compile(r" xfs: \([^)]*\) o=(\S+) s=(\d+) n=(\d+) end=(\S+) dev=(\d+) name=(.*)")
DISCARD = 3


def definition(btf, first):
    """The event in the syntax of kprobe_events. `first` is the register of the first argument of a function."""
    at = lambda path: btf.offset("bio", path)  # noqa: E731
    operations = f"+{btf.offset('xfs_buf', 'b_ops')}(+{at('bi_private')}({first}))"
    fields = [f"o=+{at('bi_opf')}({first}):x32", f"s=+{at('bi_iter.bi_sector')}({first}):u64"]
    fields += [f"n=+{at('bi_iter.bi_size')}({first}):u32", f"end=+{at('bi_end_io')}({first}):x64"]
    fields += [f"dev=+{btf.offset('block_device', 'bd_dev')}(+{at('bi_bdev')}({first})):u32"]
    fields += [f"name=+0(+{btf.offset('xfs_buf_ops', 'name')}({operations})):string"]
    return "p:truth/xfs submit_bio_noacct " + " ".join(fields)


def buffer_ops_origin(name):
    """Origin of a buffer by the name of its operations: NODE is not resolved, NO_ORIGIN is not known."""
    name = re.sub(r"_(ra|reada|quiet)$", "", name)
    if name == NODE:
        return NODE
    return "other_metadata" if name.startswith("xfs_rt") else OPERATIONS.get(name, NO_ORIGIN)


class XfsVolume:
    """A filesystem. submitted() is called for its bios in the order of the trace, and locate() answers for that moment."""

    def __init__(self, fixed, block, blocks, symbols, dev=""):
        self.dev = dev  # "9:120"
        self.fixed, self.block, self.symbols = fixed, block, symbols
        self.blocks = blocks  # {block: type of blockuse after the run}
        self.now = {}  # {block: origin of the last bio of the filesystem}
        self.open = set()  # blocks whose last bio has no origin: reads of the device by a task
        self.disputes = Counter()  # (kernel, xfs_db): blocks
        self.agreed = Counter()  # origin: blocks
        self.freed = Counter()  # origin: blocks that are free after the run
        self.strange = Counter()  # bios without an origin: sectors by the name of their operations
        self.sectors = 0  # of all bios

    def submitted(self, line):
        found = EVENT.search(line)
        if not found:
            raise Unusable(f"not understood: {line.strip()}")
        flags, sector, size, end = int(found[1], 16), int(found[2]), int(found[3]), int(found[4], 16)
        end = self.symbols.get(end, "")
        first, last = sector // self.block, (sector + size // 512 - 1) // self.block
        if not size or (end == CHAIN and first in self.now):
            return  # a flush; a part of a bio that was logged as a whole
        if flags & 0xFF == DISCARD:
            kind = DYNAMIC
        elif end == BUFFER:
            kind = buffer_ops_origin(found[6].strip('"'))
        elif end == LOG:
            kind = "journal"
        else:
            kind = "file_data" if end in DATA else NO_ORIGIN
        fixed, _ = self.fixed.locate(sector)
        if fixed != DYNAMIC:
            if kind not in (fixed, NO_ORIGIN, DYNAMIC):
                self.disputes[kind, f"{fixed}, by address"] += 1
            return
        self.sectors += size // 512
        touched = range(first, last + 1)
        if kind == NO_ORIGIN:
            if end:  # else a task's read of the device
                self.strange[found[6]] += size // 512
            self.open.update(touched)
            return
        self.open.difference_update(touched)
        for block in touched:
            self.now[block] = self.resolve(block) if kind == NODE else kind
            if self.now[block] == NO_ORIGIN:
                self.strange[NODE] += self.block

    def resolve(self, block):
        """Origin of a node by the type of its block after the run."""
        kind = TYPES.get(self.blocks.get(block))
        return kind if kind in ("directory", "xattr") else NO_ORIGIN

    def locate(self, sector):
        """(origin of a sector now, number of sectors from there on with the same origin)"""
        origin, run = self.fixed.locate(sector)
        if origin != DYNAMIC:
            return origin, run
        block, rest = divmod(sector, self.block)
        kind = NO_ORIGIN if block in self.open else self.now.get(block)
        if kind is None:
            self.strange["never submitted"] += self.block - rest
            kind = NO_ORIGIN
        return kind, min(run, self.block - rest)

    def check(self):
        """Compares the last kind of each block with blockuse. Raises Unusable if they disagree on a block."""
        for block, kind in self.now.items():
            kept = self.blocks.get(block)
            if kind in (NO_ORIGIN, DYNAMIC):
                continue
            if kept in FREE:
                self.freed[kind] += 1
            elif TYPES.get(kept) == kind:
                self.agreed[kind] += 1
            else:
                self.disputes[kind, kept] += 1
        if self.disputes:
            found = (f"{count} blocks {ours}, xfs_db {theirs}" for (ours, theirs), count in self.disputes.most_common(5))
            raise Unusable(f"the kernel and xfs_db disagree: {'; '.join(found)}")
        if sum(self.strange.values()) > MOST_OPEN * self.sectors:
            raise Unusable(f"{sum(self.strange.values())} of {self.sectors} sectors have no origin: {dict(self.strange)}")
        if not self.agreed:
            raise Unusable("the trace has no bios of the filesystem")

    def summary(self):
        """A line on the agreement of the two accounts."""
        kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(self.agreed.items()))
        return f"xfs_db agrees on {sum(self.agreed.values())} blocks ({kinds}); {sum(self.freed.values())} are free since"


def read_superblock(text):
    """The fields that `xfs_db -c 'sb 0' -c p` prints."""
    fields = dict(re.findall(r"^(\w+) = (\S+)$", text, re.M))
    names = ("blocksize", "dblocks", "agblocks", "agcount", "sectsize", "logstart", "logblocks", "agblklog")
    if missing := [name for name in names if name not in fields]:
        raise Unusable(f"xfs_db prints no {missing[0]}")
    return {name: int(fields[name]) for name in names}


def fixed_blocks(sb):
    """The structures with a fixed address, by sector. The rest of an AG's header sectors up to a whole block holds nothing."""
    block, unit = sb["blocksize"] // 512, sb["sectsize"] // 512
    found = []
    for group in range(sb["agcount"]):
        at = group * sb["agblocks"] * block
        found += [(at, at + unit - 1, "superblock"), (at + unit, at + 4 * unit - 1, "ag_header")]
        if 4 * unit % block:
            found.append((at + 4 * unit, at + -(-4 * unit // block) * block - 1, NO_ORIGIN))
    if sb["logstart"]:  # 0: the log is on another device
        group, rest = divmod(sb["logstart"], 1 << sb["agblklog"])
        at = (group * sb["agblocks"] + rest) * block
        found.append((at, at + sb["logblocks"] * block - 1, "journal"))
    return FixedBlocks(found, 1, sb["dblocks"] * block)


def read_blocks(text, sb):
    """{block: type} from lines "fsblock count type" of blockuse, as guest/xfs.sh abbreviates it."""
    blocks = {}
    for line in text.splitlines():
        number, count, kind = line.split()
        group, rest = divmod(int(number), 1 << sb["agblklog"])
        first = group * sb["agblocks"] + rest
        for block in range(first, first + int(count)):
            blocks[block] = kind
    if len(blocks) != sb["dblocks"]:
        raise Unusable(f"blockuse prints {len(blocks)} of {sb['dblocks']} blocks")
    return blocks


def read_volume(directory, run):
    """The filesystem described by the files superblock and blocks of a directory; symbols.xfs of the run."""
    if not (run / "symbols.xfs").exists():
        raise Unusable("no kprobe on the bios of XFS: the kernel has no BTF for the module")
    symbols = read_symbols((run / "symbols.xfs").read_text())
    sb = read_superblock((directory / "superblock").read_text())
    blocks = read_blocks((directory / "blocks").read_text(), sb)
    return XfsVolume(fixed_blocks(sb), sb["blocksize"] // 512, blocks, symbols, (directory / "dev").read_text().strip())


def read_log_blocks(directory):
    """The device of an external log."""
    sb = read_superblock((directory / "superblock").read_text())
    if sb["logstart"]:
        raise Unusable("the filesystem has its log on its own device")
    sectors = sb["logblocks"] * sb["blocksize"] // 512
    return FixedBlocks([(0, sectors - 1, "journal")], 1, sectors)
