# SPDX-License-Identifier: Apache-2.0 OR MIT
"""What the programs of BPF objects lack on a kernel: fields and hooks."""

from . import programs
from .types import STRUCT

# Names of hooks and types of these modules start with one of these.
MODULES = {
    "jbd2": ("__jbd2_", "jbd2_", "journal_", "transaction_"),
    "ext4": ("ext4_",),
    "xfs": ("xfs_",),
}
# A type of a module that is built into the kernel.
BUILT_IN = {"jbd2": "journal_s", "ext4": "ext4_sb_info", "xfs": "xfs_mount"}

# Hooks that some kernels lack: another hook that the code uses there, or what is lost (nothing: where it is used, the
# kernel has nothing to report).
INSTEAD = {
    "contention_begin": "`slow` does not name the holder of an inode's lock (since 5.19)",
    "contention_end": "`slow` does not name the holder of an inode's lock (since 5.19)",
    "ext4_mb_scan_group": "",  # since 6.17; before it, ext4_get_group_info() is called for each group
    "ext4_mb_scan_groups_xa_range": "",
    "folio_wait_writeback": ("wait_on_page_writeback",),  # since 5.16
    "wait_on_page_writeback": ("folio_wait_writeback",),
    "iomap_dio_complete": "",  # a tracepoint since 6.6; before it, the function of that name
    "iomap_dio_rw_begin": "",
    "writeback_dirty_folio": ("writeback_dirty_page",),  # since 5.18
    "writeback_dirty_page": ("writeback_dirty_folio",),
}


class Check:
    """The programs on one kernel. modules: {name: its types with the kernel's}."""

    def __init__(self, objects, kernel, modules=None):
        self.modules = modules or {}
        self.places = [kernel, *self.modules.values()]
        self.fields = {}  # field: True if the kernel has it
        self.missing = {}  # field that the kernel lacks: programs
        self.hooks = {}  # hook that the kernel lacks: programs
        self.losses = set()  # what is lost without hooks that the kernel lacks
        self.checked = 0  # programs
        self.unchecked = {}  # module whose types are not known: number of programs
        self.unknown = {name: MODULES[name] for name in MODULES if not kernel.find(STRUCT, BUILT_IN[name]) and name not in self.modules}
        for object_ in objects:
            matches = {id(place): programs.Match(object_, place) for place in self.places}
            for function, hook in object_.programs().items():
                self.program(matches, function, hook)

    def module(self, name):
        """The module of a hook or a type, if its types are not known."""
        return next((module for module, starts in self.unknown.items() if name.startswith(starts)), None)

    def program(self, matches, function, hook):
        place = next((place for place in self.places if programs.hooked(place, hook)), None)
        if not place:
            name = hook.partition("/")[2]
            if module := self.module(name):
                self.unchecked[module] = self.unchecked.get(module, 0) + 1
            elif not self.replaced(hook, name):
                self.hooks.setdefault(hook, set()).add(function.name)
            return
        self.checked += 1
        match = matches[id(place)]
        for relocation, has in match.program(function).items():
            if relocation.kind in programs.EXISTS + programs.IDS:
                continue
            field = match.describe(relocation)
            if not has and not match.candidates(relocation.type) and (self.module(field) or self.elsewhere(matches, relocation)):
                continue  # a type of a module
            self.fields[field] = has
            if not has:
                self.missing.setdefault(field, set()).add(function.name)

    @staticmethod
    def elsewhere(matches, relocation):
        """True if a module has the field."""
        return any(match.has(relocation) for match in matches.values())

    def replaced(self, hook, name):
        instead = INSTEAD.get(name)
        if isinstance(instead, tuple):
            return any(programs.hooked(place, hook.replace(name, instead[0])) for place in self.places)
        if instead:
            self.losses.add(instead)
        return instead is not None

    @property
    def ok(self):
        return not self.missing and not self.hooks

    def lines(self):
        text = f"{sum(self.fields.values())} of {len(self.fields)} fields of {self.checked} programs"
        if self.unchecked:
            text += f", {sum(self.unchecked.values())} in modules not checked ({', '.join(sorted(self.unchecked))})"
        if renamed := sorted(f for f in self.fields if "___" in f and "___rt." not in f):
            text += f"; flavours: {', '.join(renamed)}"
        yield text
        for name, programs_ in sorted((self.missing | self.hooks).items()):
            yield f"no {name}: would not load: {', '.join(sorted(programs_))}"
