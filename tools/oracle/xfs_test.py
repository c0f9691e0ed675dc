# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Tests of xfs.py for selftest: the kind of a block at the time of an IO, and that falsified accounts differ."""

import tempfile
import unittest
from collections import Counter
from pathlib import Path

from .account import FIXED, NO_ORIGIN, KernelAccount
from .ext4 import DYNAMIC
from .geometry import Array, Layout, Member, Unusable
from .stack import Stack
from .verdict import compare_bytes
from .xfs import BUFFER, CHAIN, DATA, LOG, METADATA, XfsVolume, fixed_blocks, buffer_ops_origin, read_blocks, read_log_blocks, read_superblock

# Two AGs, of 100 and 90 blocks; the log is blocks 20 to 29 of the second.
SUPERBLOCK = """
magicnum = 0x58465342
blocksize = 4096
dblocks = 190
uuid = d889afe2-1235-4533-a0f8-21100bc3b8c1
logstart = 148
agblocks = 100
agcount = 2
logblocks = 10
sectsize = 512
agblklog = 7
"""
BLOCKS = """\
0 1 sb
1 2 btbno
3 2 btino
5 3 freelist
8 8 inode
16 4 data
20 2 dir
22 1 attr
23 1 btrefcnt
24 76 free1
128 1 sb
129 19 free2
148 10 log
158 60 free1
"""
ENDS = {BUFFER: 0x10, LOG: 0x20, CHAIN: 0x30, DATA[0]: 0x40, "mpage_end_io": 0x50}
SYMBOLS = {address: name for name, address in ENDS.items() if name != "mpage_end_io"}


def bio(sector, sectors, end=BUFFER, name="(fault)", op=1):
    name = name if name == "(fault)" else f'"{name}"'
    end, dev = ENDS[end], 9 << 20 | 120
    fields = f"o={op:#x} s={sector} n={sectors * 512} end={end:#x} dev={dev} name={name}"
    return f" x-1 [000] ..... 5: xfs: (submit_bio_noacct+0x4/0x550) {fields}\n"


def volume(text=BLOCKS):
    sb = read_superblock(SUPERBLOCK)
    return XfsVolume(fixed_blocks(sb), 8, read_blocks(text, sb), SYMBOLS, "9:120")


class XfsTest(unittest.TestCase):
    def test_fixed_addresses(self):
        v = volume()
        self.assertEqual(v.locate(0), ("superblock", 1))
        self.assertEqual(v.locate(1), ("ag_header", 3))
        self.assertEqual(v.locate(4), (NO_ORIGIN, 4))  # holds nothing
        self.assertEqual(v.locate(801), ("ag_header", 3))
        self.assertEqual(v.locate(960), ("journal", 80))
        self.assertEqual(v.locate(190 * 8)[0], "raw")
        self.assertEqual(v.locate(64), (NO_ORIGIN, 8))
        outside = fixed_blocks(read_superblock(SUPERBLOCK.replace("logstart = 148", "logstart = 0")))
        self.assertEqual(outside.locate(960)[0], DYNAMIC)
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "superblock").write_text(SUPERBLOCK.replace("logstart = 148", "logstart = 0"))
            log = read_log_blocks(Path(directory))
            self.assertEqual([log.locate(at)[0] for at in (0, 79, 80)], ["journal", "journal", "raw"])
        large = fixed_blocks(read_superblock(SUPERBLOCK.replace("sectsize = 512", "sectsize = 4096")))
        self.assertEqual([large.locate(at)[0] for at in (7, 8, 31, 32)], ["superblock", "ag_header", "ag_header", DYNAMIC])

    def test_a_block_is_what_was_submitted_last(self):
        v = volume()
        v.submitted(bio(64, 32, name="xfs_inode_ra", op=0))
        self.assertEqual([v.locate(at)[0] for at in (63, 64, 95, 96)], [NO_ORIGIN, "inode_cluster", "inode_cluster", NO_ORIGIN])
        v.submitted(bio(72, 8, DATA[0]))
        self.assertEqual([v.locate(at)[0] for at in (64, 72, 80)], ["inode_cluster", "file_data", "inode_cluster"])
        v.submitted(bio(72, 0, DATA[0]))  # a flush
        v.submitted(bio(64, 8, CHAIN))  # a part of the bio
        self.assertEqual(v.locate(64)[0], "inode_cluster")
        v.submitted(bio(64, 8, DATA[0], op=3))
        self.assertEqual(v.locate(64)[0], DYNAMIC)

    def test_a_read_of_the_device_has_no_origin(self):
        v = volume()
        v.submitted(bio(64, 8, name="xfs_inode"))
        v.submitted(bio(0, 200, "mpage_end_io", op=0))
        self.assertEqual(v.locate(0)[0], "superblock")
        v.submitted(bio(64, 136, "mpage_end_io", op=0))
        self.assertEqual(v.locate(64)[0], NO_ORIGIN)
        v.check()
        v.submitted(bio(64, 8, name="xfs_inode"))
        self.assertEqual(v.locate(64)[0], "inode_cluster")

    def test_a_node_is_what_blockuse_says(self):
        v = volume()
        for block in (20, 22, 24, 16):
            v.submitted(bio(block * 8, 8, name="xfs_da3_node"))
        self.assertEqual([v.locate(block * 8)[0] for block in (20, 22, 24, 16)], ["directory", "xattr", NO_ORIGIN, NO_ORIGIN])

    def test_too_many_blocks_without_a_kind(self):
        v = volume()
        for line in (bio(64, 32, name="xfs_inode"), bio(64, 64, "mpage_end_io", op=0), bio(64, 8, name="xfs_inode")):
            v.submitted(line)
        v.check()  # a task's read of the device does not count
        v.submitted(bio(24 * 8, 8, name="xfs_da3_node"))
        with self.assertRaises(Unusable):
            v.check()
        v = volume()
        v.submitted(bio(64, 32, name="xfs_inode"))
        v.locate(160)  # completed, but never submitted
        with self.assertRaises(Unusable):
            v.check()

    def test_buffer_ops_determine_the_origin(self):
        want = {"xfs_agf": "ag_header", "xfs_dir3_data_reada": "directory", "xfs_sb_quiet": "superblock", "xfs_dquot": "other_metadata"}
        self.assertEqual({name: buffer_ops_origin(name) for name in want}, want)
        self.assertEqual(buffer_ops_origin("(fault)"), NO_ORIGIN)

    def test_the_kprobe_and_xfs_db_must_agree(self):
        good = [bio(64, 32, name="xfs_inode"), bio(160, 8, name="xfs_dir3_block"), bio(192, 8, name="xfs_bmbt"), bio(1, 1, name="xfs_agf")]
        v = volume()
        for line in good:
            v.submitted(line)
        v.check()
        self.assertEqual(v.agreed, {"inode_cluster": 4, "directory": 1})
        self.assertEqual(v.freed, {"extent_tree": 1})
        for wrong in (
            bio(160, 8, name="xfs_bmbt"),
            bio(160, 8, DATA[0]),
            bio(128, 8, name="xfs_attr3_leaf"),
            bio(1, 1, name="xfs_sb"),  # at the address of the AGF
            bio(8, 8, LOG),
        ):
            with self.subTest(wrong=wrong):
                v = volume()
                for line in (*good, wrong):
                    v.submitted(line)
                with self.assertRaises(Unusable):
                    v.check()
        v = volume(BLOCKS.replace("8 8 inode", "8 8 data"))
        v.submitted(good[0])
        with self.assertRaises(Unusable):
            v.check()
        with self.assertRaises(Unusable):
            volume().check()  # no bios: the kprobe did not work

    def test_blockuse_must_be_whole(self):
        with self.assertRaises(Unusable):
            volume(BLOCKS.replace("148 10 log", "148 9 log"))
        with self.assertRaises(Unusable):
            read_superblock(SUPERBLOCK.replace("agcount", "x"))

    def test_a_request_has_the_kind_of_its_time(self):
        """A block is an inode cluster, then data, then part of a directory."""
        v = volume()
        array = Array("md120", Layout("raid1", 2), [Member("loop1", "7:1", 0, 16)])
        stack = Stack({"md120": array}, {"v": v}, {"md120": [(0, 1520, "v", 0)]})
        done = " x-1 [000] ..... 5: block_rq_complete: 7,1 {} () 176 + 8 none,0,0 [0]\n"
        lines = [
            bio(160, 8, name="xfs_inode"), done.format("W"),
            bio(160, 8, DATA[0]), done.format("W"), done.format("R"),
            bio(160, 8, name="xfs_dir3_block").replace("dev=", "dev=1"), done.format("W"),  # another device
            bio(160, 8, name="xfs_dir3_block"), done.format("W"),
        ]  # fmt: skip
        with tempfile.TemporaryDirectory() as directory:
            (Path(directory) / "trace").write_text("".join(lines))
            account = KernelAccount(Path(directory), stack, {}, "mix").account
        write = {"inode_cluster": 4096, "file_data": 8192, "directory": 4096}
        want = {("loop1", "write", kind): count for kind, count in write.items()} | {("loop1", "read", "file_data"): 4096}
        self.assertEqual(account.bytes, want)
        v.check()

    def test_one_wrong_metadata_block_is_not_correct(self):
        key = "a", "write"
        oracle = Counter({(*key, "file_data"): 1 << 30, (*key, "directory"): 40960, (*key, "refcount_btree"): 4096})
        fixed = sorted({*FIXED, *METADATA})
        self.assertTrue(compare_bytes(oracle, Counter(oracle), fixed).correct)
        # "unknown" is right where the kernel's account has no origin, and only there.
        without, unknown = Counter(oracle), Counter(oracle)
        without[*key, NO_ORIGIN] = unknown[*key, "unknown"] = 4 << 20
        self.assertTrue(compare_bytes(without, unknown, fixed).correct)
        wrong = Counter(unknown)
        wrong[*key, "file_data"] -= 4096
        wrong[*key, "directory"] += 4096
        self.assertFalse(compare_bytes(without, wrong, fixed).correct)
        unknown[*key, "file_data"] -= 4 << 20
        unknown[*key, "unknown"] += 4 << 20
        self.assertFalse(compare_bytes(without, unknown, fixed).correct)
        for wrong in ("directory", "rmap_btree", "file_data", "unknown"):
            raidtrace = Counter(oracle)
            raidtrace[*key, wrong] += raidtrace.pop((*key, "refcount_btree"))
            self.assertFalse(compare_bytes(oracle, raidtrace, fixed).correct)

    def test_a_directory_of_an_ext4_beside_it_may_be_of_unknown_kind(self):
        key, fixed = ("a", "read"), sorted({*FIXED, *METADATA})
        oracle = Counter({(*key, "directory"): 8192, (*key, DYNAMIC): 4096, (*key, "inode_cluster"): 4096})
        raidtrace = Counter({(*key, "directory"): 12288, (*key, "inode_cluster"): 4096})
        self.assertTrue(compare_bytes(oracle, raidtrace, fixed).correct)
        raidtrace[*key, "directory"] += raidtrace.pop((*key, "inode_cluster"))
        self.assertFalse(compare_bytes(oracle, raidtrace, fixed).correct)
