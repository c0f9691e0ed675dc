# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the programs lose on a kernel that lacks one of the fields that they read: each field is removed in turn.

src/probe/fields.rs lists the fields of the main object, with what is lost. The lack of a field of its first entry stops raidtrace, with
an error that names it. Without any other field, the programs that cannot be left out still load; and if all programs load, the list has
the field, so that a note names it.
"""

import re
from pathlib import Path

from . import programs
from .types import Types

FIELDS = Path(__file__).resolve().parents[2] / "src/probe/fields.rs"
# Programs without which nothing can be traced (src/probe/plan.rs, src/probe/slow/hooks.rs).
REQUIRED = ("rt_rq_issue", "rt_rq_issue_q", "rt_rq_complete")


def listed():
    """(fields of the first entry, other fields), as "struct.field" with the last two names of the path."""
    text = FIELDS.read_text().split("pub const LOST", 1)[1].split("];\n", 1)[0]
    entries = re.findall(r'"([^"]*)"', re.sub(r"\\\n\s*", "", text))
    lists = [set(re.split(r"[ |]", entry.replace("?", ""))) for entry in entries if re.match(r"^\??\w+\.\w", entry)]
    return lists[0], set().union(*lists[1:])


class Without(Types):
    """A kernel without a member of a struct."""

    def __init__(self, kernel, owner, name):
        self.__dict__.update(kernel.__dict__)
        self.owner, self.gone = owner, name

    def member(self, number, wanted):
        if wanted == self.gone and self.name(self.plain(number)).split("___")[0] == self.owner:
            return None
        return super().member(number, wanted)


def members(match, relocation):
    """[("bio", "bi_iter"), ("bvec_iter", "bi_idx")] for bio.bi_iter.bi_idx, without members of unnamed structs."""
    types, path = match.object.types, match.path(relocation)
    owners = [types.name(path[0]), *(types.name(number) for _, number in path[1:])]
    return [(owner.split("___")[0], name) for owner, (name, _) in zip(owners, path[1:]) if owner and name]


class Removal:
    """The programs of one object on a kernel."""

    def __init__(self, object_, kernel):
        self.kernel, self.object = kernel, object_
        self.match = programs.Match(object_, kernel)
        hooked = {f: h for f, h in object_.programs().items() if programs.hooked(kernel, h)}
        self.programs = {function: self.match.program(function) for function in hooked}
        reads = {r for found in self.programs.values() for r in found if r.kind in programs.FIELDS}
        # Also those that a test of existence guards.
        tests = {r for s in object_.relocations.values() for r in s.values() if r.kind == programs.FIELD_EXISTS}
        self.fields = {}  # (owner, name): Relocations that end there
        self.through = {}  # (owner, name): Relocations that pass it
        for relocation in {r for s in object_.relocations.values() for r in s.values() if r.kind in programs.FIELDS}:
            found = members(self.match, relocation)
            for key in found:
                self.through.setdefault(key, set()).add(relocation)
            if found and relocation in reads | tests and self.match.has(relocation):
                self.fields.setdefault(found[-1], set()).add(relocation)

    def refused(self, owner, name):
        """Programs that the kernel refuses without this field."""
        match = programs.Match(self.object, Without(self.kernel, owner, name))
        changed = self.through[owner, name]
        match.resolved = {r: has for r, has in self.match.resolved.items() if r not in changed}
        sections = self.object.relocations
        for function, found in self.match.functions.items():
            own = (sections[function.section].get(at) for at in range(function.first, function.first + function.count))
            if not any(r in changed for r in own):
                match.functions[function] = found
        for function, before in self.programs.items():
            after = match.program(function)
            if any(not has and r.kind not in programs.EXISTS + programs.IDS and before.get(r, True) for r, has in after.items()):
                yield function.name


def problems(objects, kernel):
    """Errors, one line each, and the number of fields that were removed from the kernel."""
    essential, others = listed()
    main = next(o for o in objects if any(f.name in REQUIRED for f in o.functions.values()))

    def has(entries, owner, name):
        field = f"{owner}.{name}"
        return any(
            e == field or e.startswith(f"{field}.")
            or (e.endswith(f".{name}") and e.split(".")[0] in roots[owner, name])
            for e in entries
        )  # fmt: skip

    removal = Removal(main, kernel)
    roots = {key: {removal.object.types.name(r.type).split("___")[0] for r in found} for key, found in removal.fields.items()}
    found = []
    for owner, name in sorted(removal.fields, key=str):
        refused = sorted(removal.refused(owner, name))
        stops = set(refused) & set(REQUIRED)
        if has(essential, owner, name):
            continue
        if stops:
            found.append(f"without {owner}.{name}, raidtrace does not start ({', '.join(sorted(stops))}), and no error names it")
        elif not refused and not has(others, owner, name):
            found.append(f"without {owner}.{name}, no note says what is lost")
    return found, len(removal.fields)
