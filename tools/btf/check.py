# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the programs of BPF objects lack on a kernel: fields and hooks."""

from . import programs
from .types import STRUCT

# Names of hooks and types of ext4 and jbd2, and of XFS, start with one of these.
EXT4 = ("__jbd2_", "ext4_", "jbd2_", "journal_", "transaction_")
XFS = ("xfs_",)

# Hooks that some kernels lack, and what the code uses there: another hook, or nothing.
INSTEAD = {
    "contention_begin": None,  # since 5.19
    "contention_end": None,
    "ext4_mb_scan_group": None,  # since 6.12; before it, ext4_mb_good_group is called for each group
    "ext4_mb_scan_groups_xa_range": None,
    "folio_wait_writeback": "wait_on_page_writeback",  # since 5.16
    "wait_on_page_writeback": "folio_wait_writeback",
    "iomap_dio_complete": None,  # a tracepoint of 6.12; before it, the function of that name
    "iomap_dio_rw_begin": None,
    "writeback_dirty_folio": "writeback_dirty_page",  # since 5.18
    "writeback_dirty_page": "writeback_dirty_folio",
}


class Check:
    """The programs on one kernel."""

    def __init__(self, objects, kernel):
        self.kernel = kernel
        self.fields = {}  # field: True if the kernel has it
        self.missing = {}  # field that the kernel lacks: programs
        self.hooks = {}  # hook that the kernel lacks: programs
        self.checked = self.unchecked = 0  # programs
        # Without struct journal_s in the image, jbd2 is a module, and so is ext4.
        self.modules = XFS if kernel.find(STRUCT, "journal_s") else XFS + EXT4
        for object_ in objects:
            match = programs.Match(object_, kernel)
            for function, hook in object_.programs().items():
                self.program(match, function, hook)

    def program(self, match, function, hook):
        if not programs.hooked(self.kernel, hook):
            name = hook.partition("/")[2]
            if name.startswith(self.modules):
                self.unchecked += 1
            elif not self.replaced(hook, name):
                self.hooks.setdefault(hook, set()).add(function.name)
            return
        self.checked += 1
        for relocation, has in match.program(function).items():
            if relocation.kind in programs.EXISTS + programs.IDS:
                continue
            field = match.describe(relocation)
            if not has and field.startswith(self.modules) and not match.candidates(relocation.type):
                continue  # a type of a module
            self.fields[field] = has
            if not has:
                self.missing.setdefault(field, set()).add(function.name)

    def replaced(self, hook, name):
        instead = INSTEAD.get(name, name)
        return instead is None or programs.hooked(self.kernel, hook.replace(name, instead))

    @property
    def ok(self):
        return not self.missing and not self.hooks

    def lines(self):
        text = f"{sum(self.fields.values())} of {len(self.fields)} fields of {self.checked} programs"
        if self.unchecked:
            text += f", {self.unchecked} in modules not checked"
        if renamed := sorted(f for f in self.fields if "___" in f and "___rt." not in f):
            text += f"; flavours: {', '.join(renamed)}"
        yield text
        for name, programs_ in sorted((self.missing | self.hooks).items()):
            yield f"no {name}: would not load: {', '.join(sorted(programs_))}"
