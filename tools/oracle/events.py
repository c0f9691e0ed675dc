# SPDX-License-Identifier: Apache-2.0 OR MIT
"""block_rq_complete events in the format of tracefs, and /sys/block/X/stat of members before and after a run."""

import re
from collections import Counter

from .geometry import Unusable

# 6.12: "block_rq_complete: 7,1 WSM () 2048 + 8 none,0,0 [0]"; 6.1 has no "none,0,0".
EVENT = re.compile(r"block_rq_complete: (\d+),(\d+) ([A-Z]+) \([^)]*\) (\d+) \+ (\d+) (?:\w+,\d+,\d+ )?\[(-?\d+)\]$")
# Documentation/admin-guide/iostats: completed requests, by kind.
STAT = {"read": 0, "write": 4, "discard": 11, "flush": 15}
# The kind under which a request is counted.
KIND = {"read": "read", "write": "write", "write_zeroes": "write", "discard": "discard", "flush": "flush"}


def operation(rwbs):
    """The operation of an rwbs string: "FF" is a flush, "FWS" a write with a flush before it, "N" write_zeroes."""
    letter = re.match(r"F?([RWDNF])", rwbs)
    if not letter:
        raise Unusable(f"unknown operation '{rwbs}'")
    return {"R": "read", "W": "write", "D": "discard", "N": "write_zeroes", "F": "flush"}[letter[1]]


def check_whole(directory):
    """Raises Unusable if the trace buffer was too small."""
    stats = (directory / "trace.stats").read_text()
    lost = re.findall(r"^(overrun|commit overrun|dropped events): (\d+)$", stats, re.M)
    if not lost:
        raise Unusable("trace.stats has no number of lost events")
    if any(int(count) for _, count in lost):
        raise Unusable(f"the trace buffer was too small: {', '.join(' '.join(pair) for pair in lost)}")


def counts_as_request(op, sector, sectors):
    """True for a completion that counts as a request. A write whose FUA is emulated completes again, with its old address
    and 0 sectors; a write that only requests a flush has neither."""
    return sectors > 0 or op == "flush" or sector == 0


def read_stats(directory, member):
    """Requests that the kernel counted on a member during the run, by kind."""
    lines = {}
    for line in (directory / "stat").read_text().splitlines():
        label, name, *figures = line.split()
        if name == member:
            lines[label] = [int(figure) for figure in figures]
    counts = {label: {kind: lines[label][at] for kind, at in STAT.items()} for label in ("start", "end", "after")}
    if counts["end"] != counts["after"]:
        raise Unusable(f"{member} was not idle while raidtrace ended: {counts['end']}, then {counts['after']}")
    return Counter({kind: counts["end"][kind] - counts["start"][kind] for kind in STAT})
