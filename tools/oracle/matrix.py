# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The cells of tools/truth, a selection of all combinations: every level under a mixed load, every workload on a plain, a
mirrored and a parity level, every stack on a level of each kind, every sync action on the levels that have it.
"""

from dataclasses import dataclass

KERNELS = ("5.10", "5.10-plain", "6.1", "6.1-plain", "6.12", "6.18", "7.2", "7.3")
LEVELS = (
    "single", "raid0", "raid1", "raid10", "raid10-near3", "raid10-far", "raid10-offset", "raid4", "raid5", "raid5-la", "raid5-ra",
    "raid5-rs", "raid5-nobitmap", "raid5-journal", "raid5-ppl", "raid6", "raid6-ra",
    "raid1-degraded", "raid10-degraded", "raid4-degraded", "raid5-degraded", "raid6-degraded",
)  # fmt: skip
STACKS = ("partitions", "partition", "lvm", "crypt")
BESIDE = "neighbour"  # a filesystem on another partition of a member's disk
DM_RAID = ("raid0", "raid1", "raid10", "raid4", "raid5", "raid6", "raid6-nr", "raid6-nc")  # what LVM makes
JOINED = ("raid1+raid5", "raid0+raid10+raid6")  # arrays below one volume
MEMBERS = ("on-linear", "on-striped", "on-crypt")  # device mapper devices that are members
WORKLOADS = (
    "storm", "fio_random_direct", "fio_random_buffered", "fio_sequential_direct", "fio_sequential_buffered", "fsyncs", "falloc",
    "discard", "raw", "cold", "mkfs_again", "lazy_init", "dir_linear", "indirect",
    "device_read", "throttled",
)  # fmt: skip
SYNCS = {
    "raid1": ("resync", "check", "repair", "recovery", "replace", "turnover"),
    "raid10": ("resync", "check", "repair", "recovery", "replace", "reshape"),
    "raid4": ("check", "recovery", "reshape"),
    "raid5": ("resync", "check", "repair", "recovery", "replace", "reshape", "turnover"),
    "raid6": ("resync", "check", "repair", "recovery", "replace", "reshape"),
}
# Debian's 5.10 has no BTF for md, which shows the volume that a flush is for, and none for dm_mod.
VOLUME_KERNELS = tuple(kernel for kernel in KERNELS if not kernel.startswith("5.10"))
# Debian's 5.10 has no BTF for xfs.
XFS_KERNELS = ("6.1", "6.12", "7.2", "7.3")
XFS_LEVELS = ("raid0", "raid1", "raid10", "raid5", "raid6")
CORE = ("single", "raid0", "raid1", "raid10", "raid4", "raid5", "raid6")


@dataclass(frozen=True)
class Cell:
    level: str
    stack: str
    workload: str
    groups: tuple = ()
    kernels: tuple = KERNELS

    @property
    def name(self):
        return f"{self.level}.{self.run}"

    @property
    def run(self):
        """Name of the run. Cells with the same name can share a run, each with its own array."""
        return f"{self.stack}.{self.workload}"


def matrix():
    yield from (Cell(level, "whole", "mix", ("core", "levels") if level in CORE else ("levels",)) for level in LEVELS)
    # Debian builds it for 6.1 only.
    yield Cell("linear", "whole", "mix", ("levels",), ("6.1", "6.1-plain"))
    for workload in WORKLOADS:
        yield from (Cell(level, "whole", workload, ("workloads",)) for level in ("single", "raid0", "raid1", "raid5"))
        if workload in ("storm", "cold"):
            yield Cell("raid01", "whole", workload, ("stacks",))
    for workload in ("resync", "check", "repair", "recovery", "replace", "reshape", "turnover"):
        yield from (Cell(level, "whole", workload, ("syncs",)) for level in SYNCS if workload in SYNCS[level])
    for stack in STACKS:
        # raidtrace watches a disk without md as a whole, not its partitions.
        levels = ("raid0", "raid10", "raid5") if stack == "partitions" else ("single", "raid0", "raid10", "raid5")
        yield from (Cell(level, stack, "mix", ("stacks",)) for level in levels)
    yield from (Cell(level, BESIDE, "mix", ("stacks",)) for level in ("raid1", "raid5"))
    for stack in MEMBERS:
        yield from (Cell(level, stack, "mix", ("members",), VOLUME_KERNELS) for level in ("raid1", "raid5", "raid6", "raid10"))
    yield from (Cell(level, "on-linear", "check", ("members",), VOLUME_KERNELS) for level in ("raid1", "raid5", "raid6", "raid10"))
    for workload in ("mix", "cold"):
        yield from (Cell(level, "dm-raid", workload, ("dm-raid",), VOLUME_KERNELS) for level in DM_RAID)
        yield from (Cell(level, "striped", workload, ("joined",), VOLUME_KERNELS) for level in JOINED)
        # ext4 puts nothing on a third piece.
        yield Cell(JOINED[0], "linear", workload, ("joined",), VOLUME_KERNELS)
    yield Cell("raid01", "whole", "mix", ("stacks",))
    yield Cell("ddf", "whole", "mix", ("stacks",), VOLUME_KERNELS)
    for workload in ("every_kind", "mix", "remount"):
        yield from (Cell(level, "xfs", workload, ("xfs",), XFS_KERNELS) for level in XFS_LEVELS)
    yield from (Cell(level, "xfs-lvm", "every_kind", ("xfs",), XFS_KERNELS) for level in ("raid0", "raid5"))
    yield Cell("raid5", "xfs-log", "every_kind", ("xfs",), XFS_KERNELS)
    yield from (Cell(level, "xfs-ext4", "mix", ("xfs",), XFS_KERNELS) for level in ("raid0", "raid5"))


def cells(levels, stacks, workloads, groups):
    def fits(value, wanted):
        return not wanted or value in wanted

    found = [
        cell
        for cell in matrix()
        if fits(cell.level, levels) and fits(cell.stack, stacks) and fits(cell.workload, workloads)
        and (not groups or set(groups) & set(cell.groups))
    ]  # fmt: skip
    if levels and stacks and workloads and not groups:
        every = [Cell(level, stack, workload) for level in levels for stack in stacks for workload in workloads]
        have = {(cell.level, cell.run) for cell in found}
        found += [cell for cell in every if (cell.level, cell.run) not in have]
    return found


def runs(chosen, most):
    """[(name, cells)]: cells that share a run, at most `most` in one."""
    by_run = {}
    for cell in chosen:
        by_run.setdefault(cell.run, []).append(cell)
    for name, group in by_run.items():
        for first in range(0, len(group), most):
            some = group[first : first + most]
            yield f"{name}.{'+'.join(cell.level for cell in some)}", some
