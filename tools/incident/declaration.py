# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Incidents as files: how they are played, and what was declared before."""

import dataclasses
import re
import tomllib

PHASES = ("setup", "load", "cause", "recovery")
# cause.kind of raidtrace.why/1
KINDS = ("none", "load", "member", "neighbour", "resync", "cgroup_limit", "md", "journal", "allocator", "lock",
         "filesystem", "path", "unexplained")


class Invalid(Exception):
    pass


@dataclasses.dataclass
class Declared:
    """What is true about the incident, whatever raidtrace says.

    waits     task and operation that get slow
    kind      kind of the cause
    name      name of the cause: a device, a cgroup, a part of md
    says      regular expressions; a right first sentence contains each of them
    does      regular expressions, each of them in an action
    accused   members that are at fault; all others are innocent
    slower    the waiting operation takes at least this many times as long as before; less: the incident is invalid
    """

    waits: str = ""
    kind: str = "none"
    name: str = ""
    says: list = dataclasses.field(default_factory=list)
    does: list = dataclasses.field(default_factory=list)
    accused: list = dataclasses.field(default_factory=list)
    slower: float = 3.0


@dataclasses.dataclass
class Incident:
    name: str
    title: str
    source: str
    setup: str
    load: str
    cause: str
    recovery: str
    declared: Declared
    disks: list = dataclasses.field(default_factory=list)
    seconds: list = dataclasses.field(default_factory=lambda: [20, 30, 10])  # healthy, cause, recovery
    kernel: str = "6.12"
    memory: int = 1536  # MiB
    append: str = ""
    programs: list = dataclasses.field(default_factory=lambda: ["fio"])
    postgresql: bool = False  # the guest has PostgreSQL and a small database
    serve: bool = False       # raidtrace serve runs, too, and its dumps are scored
    groups: list = dataclasses.field(default_factory=list)

    @property
    def healthy(self):
        """True for a control."""
        return self.declared.kind == "none"

    def phases(self):
        return {name: getattr(self, name) for name in PHASES} | {"seconds": " ".join(map(str, self.seconds)) + "\n"}


def read(path):
    try:
        fields = tomllib.loads(path.read_text())
        declared = Declared(**fields.pop("declared"))
        incident = Incident(name=path.stem, declared=declared, **fields)
    except (tomllib.TOMLDecodeError, TypeError, KeyError) as error:
        raise Invalid(f"{path.name}: {error}")
    if declared.kind not in KINDS:
        raise Invalid(f"{path.name}: cause '{declared.kind}' is not one of {', '.join(KINDS)}")
    if not incident.healthy and not (declared.waits and declared.says):
        raise Invalid(f"{path.name}: declares no 'waits' or no 'says'")
    for pattern in declared.says + declared.does:
        re.compile(pattern)
    return incident


def load(folder, names):
    """The incidents with these names or groups, or all."""
    incidents = [read(path) for path in sorted(folder.glob("*.toml"))]
    groups = {group for i in incidents for group in i.groups}
    if both := [i.name for i in incidents if i.name in groups]:
        raise Invalid(f"{', '.join(both)}: the name of an incident and of a group")
    chosen = [i for i in incidents if not names or i.name in names or set(i.groups) & set(names)]
    if unknown := [n for n in names if not any(n == i.name or n in i.groups for i in incidents)]:
        raise Invalid(f"no incident or group {', '.join(unknown)}")
    return chosen
