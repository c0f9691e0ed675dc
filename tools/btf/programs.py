# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The kernel fields that each program of a BPF object reads on a given kernel.

Follows libbpf and the verifier: a CO-RE relocation that the kernel's BTF cannot resolve makes
its instruction invalid (lib/bpf/relo_core.c, bpf_core_poison_insn()), and a program with such
an instruction is refused if the instruction can be reached. bpf_core_field_exists() and
bpf_core_type_exists() become constants. Branches on constants are followed as the verifier
follows them, so a read that a test of existence guards counts only where it runs.
"""

import struct
from dataclasses import dataclass

from . import elf
from .types import ARRAY, COMPOSITE, ENUM, ENUM64, FUNCTION, TYPEDEF, Types

# enum bpf_core_relo_kind
(FIELD_OFFSET, FIELD_SIZE, FIELD_EXISTS, FIELD_SIGNED, FIELD_LEFT, FIELD_RIGHT, ID_LOCAL, ID_KERNEL, TYPE_EXISTS, TYPE_SIZE,
 ENUM_EXISTS, ENUM_VALUE, TYPE_MATCHES) = range(13)  # fmt: skip
EXISTS = (FIELD_EXISTS, TYPE_EXISTS, ENUM_EXISTS, TYPE_MATCHES)
FIELDS = (FIELD_OFFSET, FIELD_SIZE, FIELD_EXISTS, FIELD_SIGNED, FIELD_LEFT, FIELD_RIGHT)
# Without the type these are 0, and the instruction stays valid.
IDS = (ID_LOCAL, ID_KERNEL, TYPE_SIZE)


@dataclass(frozen=True)
class Relocation:
    kind: int
    type: int
    access: str


@dataclass(frozen=True)
class Function:
    name: str
    section: int
    first: int  # its first instruction in the section
    count: int


class Object:
    """A compiled and linked BPF object."""

    def __init__(self, data):
        self.sections = elf.sections(data)
        contents = {s.name: bytes(s.data) for s in self.sections}
        self.types = Types(contents[".BTF"])
        self.code = {}  # section: [(code, dst, src, offset, immediate)]
        for number, section in enumerate(self.sections):
            if section.flags & elf.EXECUTABLE and section.data:
                self.code[number] = [
                    (code, registers & 15, registers >> 4, offset, immediate)
                    for code, registers, offset, immediate in struct.iter_unpack("<BBhi", section.data)
                ]
        self.functions = {}  # (section, first instruction)
        self.calls = {number: {} for number in self.code}  # section: {instruction: (section, first instruction)}
        self.unknown = {number: set() for number in self.code}  # section: instructions that libbpf changes, for example addresses of maps
        for section in self.sections:
            if section.kind == elf.RELOCATIONS and section.info in self.code:
                self.read_calls(section)
        for section in self.code:
            self.read_local_calls(section)
        self.relocations = {number: {} for number in self.code}  # section: {instruction: Relocation}
        self.read_relocations(contents[".BTF.ext"])

    def symbols(self, table):
        names = self.sections[self.sections[table].link].data.tobytes()
        for name, info, _, section, value, size in struct.iter_unpack("<IBBHQQ", self.sections[table].data):
            yield elf.text(names, name), info & 15, section, value, size

    def read_calls(self, relocations):
        symbols = list(self.symbols(relocations.link))
        for name, kind, section, value, size in symbols:
            if kind == elf.FUNCTION and section in self.code:
                self.functions[section, value // 8] = Function(name, section, value // 8, size // 8)
        number = relocations.info
        for offset, info in struct.iter_unpack("<QQ", relocations.data):
            at = offset // 8
            code, _, _, _, immediate = self.code[number][at]
            _, _, section, value, _ = symbols[info >> 32]
            self.unknown[number].add(at)
            if section not in self.code:
                continue
            # A call counts instructions from the next one; the address of a function is in bytes.
            first = value // 8 + immediate + 1 if code == 0x85 else (value + immediate) // 8
            self.calls[number][at] = (section, first)

    def read_local_calls(self, number):
        for at, (code, _, src, _, immediate) in enumerate(self.code[number]):
            if code == 0x85 and src == 1 and at not in self.unknown[number]:
                self.calls[number][at] = (number, at + immediate + 1)

    def read_relocations(self, data):
        """The CO-RE relocations of .BTF.ext (Documentation/bpf/btf.rst, section 4.2)."""
        header, start, length = struct.unpack_from("<4xI16xII", data)
        by_name = {self.sections[number].name: number for number in self.code}
        at, end = header + start + 4, header + start + length
        while at < end:
            name, count = struct.unpack_from("<II", data, at)
            at += 8
            section = by_name[self.types.text(name)]
            for offset, type_, access, kind in struct.iter_unpack("<IIII", data[at : at + 16 * count]):
                self.relocations[section][offset // 8] = Relocation(kind, type_, self.types.text(access))
            at += 16 * count

    def programs(self):
        """{function: hook}, for example "tp_btf/block_rq_issue"."""
        names = {f: self.sections[f.section].name for f in self.functions.values()}
        return {f: name.lstrip("?") for f, name in names.items() if name != ".text"}


class Match:
    """A BPF object on a kernel."""

    def __init__(self, object_, kernel):
        self.object, self.kernel = object_, kernel
        self.resolved = {}  # Relocation: True if the kernel has its field, type or value
        self.functions = {}  # Function: the result of reached()

    def program(self, function):
        """{Relocation: True if the kernel resolves it} of the instructions of a program and its subprograms that can be
        reached."""
        found, seen, todo = {}, set(), [function]
        while todo:
            function = todo.pop()
            if function in seen:
                continue
            seen.add(function)
            if function not in self.functions:
                self.functions[function] = self.reached(function)
            relocations, calls = self.functions[function]
            found |= {r: self.has(r) for r in relocations}
            todo += calls
        return found

    def describe(self, relocation):
        """The field of a relocation as libbpf prints it, for example "bio.bi_iter.bi_sector"."""
        types = self.object.types
        root, *parts = self.path(relocation)
        if relocation.kind in (ENUM_EXISTS, ENUM_VALUE):
            return f"{types.name(root)}::{types.enumerators(root)[int(relocation.access)]}"
        return ".".join([types.name(root), *(name for name, _ in parts if name)])

    def path(self, relocation):
        """[type, (member, type), ...] of the relocation's access. The member is None for an element of an array, and empty
        if it is anonymous."""
        types = self.object.types
        path = [relocation.type]
        if relocation.kind not in FIELDS:
            return path
        number = types.plain(relocation.type)
        for index in map(int, relocation.access.split(":")[1:]):
            if types.kind(number) == ARRAY:
                name, number = None, types.element(number)
            else:
                name, number = types.members(number)[index]
            number = types.plain(number)
            path.append((name, number))
        return path

    def has(self, relocation):
        if relocation not in self.resolved:
            candidates = self.candidates(relocation.type)
            self.resolved[relocation] = relocation.kind in IDS or any(self.fits(relocation, number) for number in candidates)
        return self.resolved[relocation]

    def candidates(self, number):
        """The kernel's types of the same kind and name. A flavour is what follows ___ (CO-RE ignores it)."""
        types = self.object.types
        return self.kernel.find(types.kind(number), types.name(number).split("___")[0])

    def fits(self, relocation, number):
        """True if a type of the kernel has the relocation's field or value."""
        if relocation.kind in (ENUM_EXISTS, ENUM_VALUE):
            wanted = self.object.types.enumerators(relocation.type)[int(relocation.access)]
            return wanted.split("___")[0] in self.kernel.enumerators(number)
        for name, type_ in self.path(relocation)[1:]:
            if name is None:
                number = self.kernel.element(number) if self.kernel.kind(number) == ARRAY else None
            elif name:
                number = self.kernel.member(number, name)
            else:
                continue  # the members of an anonymous struct are found through the outer struct
            if number is None:
                return False
            number = self.kernel.plain(number)
            if not self.compatible(type_, number):
                return False
        return True

    def compatible(self, ours, theirs):
        kinds = {self.object.types.kind(ours), self.kernel.kind(theirs)}
        return len(kinds) == 1 or kinds <= {*COMPOSITE} or kinds <= {ENUM, ENUM64}

    def reached(self, function):
        """(Relocations, called functions) of the instructions of a function that can be reached. A register is a constant,
        or None if it may have several values."""
        section = function.section
        code, calls = self.object.code[section], self.object.calls[section]
        relocations, unknown = self.object.relocations[section], self.object.unknown[section]
        constants = {at: int(self.has(r)) for at, r in relocations.items() if r.kind in EXISTS}
        unknown = unknown | {at for at in relocations if at not in constants}
        states, todo = {}, [(function.first, (None,) * 11)]
        while todo:
            at, registers = todo.pop()
            if at in states:
                registers = tuple(a if a == b else None for a, b in zip(states[at], registers))
                if registers == states[at]:
                    continue
            states[at] = registers
            todo += step(code, at, registers, constants, unknown)
        found = {relocations[at] for at in states if at in relocations}
        return found, {self.object.functions[calls[at]] for at in states if at in calls}


WIDE = 0x18  # an instruction of two slots that loads 64 bits
ALU, ALU64, JUMP, JUMP32 = 4, 7, 5, 6
COMPUTED = {
    0x00: lambda a, b: a + b, 0x10: lambda a, b: a - b, 0x40: lambda a, b: a | b, 0x50: lambda a, b: a & b,
    0xA0: lambda a, b: a ^ b, 0xB0: lambda a, b: b,
}  # fmt: skip
COMPARED = {
    0x10: lambda a, b: a == b, 0x20: lambda a, b: a > b, 0x30: lambda a, b: a >= b, 0x40: lambda a, b: a & b != 0,
    0x50: lambda a, b: a != b, 0xA0: lambda a, b: a < b, 0xB0: lambda a, b: a <= b,
}  # fmt: skip


def step(code, at, registers, constants, unknown):
    """[(next instruction, registers)] after an instruction (Documentation/bpf/standardization/instruction-set.rst)."""
    op, dst, src, offset, immediate = code[at]
    class_, operation = op & 7, op & 0xF0
    after = list(registers)
    right = registers[src] if op & 8 else constants.get(at, None if at in unknown else immediate)
    if class_ in (JUMP, JUMP32):
        if operation == 0x90:  # exit
            return []
        if operation == 0x80:  # call
            return [(at + 1, (None,) * 6 + registers[6:])]
        if operation == 0x00:  # goto
            return [(at + 1 + (immediate if class_ == JUMP32 else offset), registers)]
        ways = [(at + 1, registers), (at + 1 + offset, registers)]
        if registers[dst] is None or right is None or operation not in COMPARED:
            return ways
        mask = (1 << (32 if class_ == JUMP32 else 64)) - 1
        return [ways[COMPARED[operation](registers[dst] & mask, right & mask)]]
    if op == WIDE:
        after[dst] = None if at in unknown or src else constants.get(at, immediate & 0xFFFFFFFF | code[at + 1][4] << 32)
        return [(at + 2, tuple(after))]
    if class_ in (ALU, ALU64):
        known = operation in COMPUTED and not offset and right is not None and (operation == 0xB0 or registers[dst] is not None)
        value = COMPUTED[operation](registers[dst], right) if known else None
        after[dst] = None if value is None else value & ((1 << (32 if class_ == ALU else 64)) - 1)
    elif class_ == 1:  # a load
        after[dst] = None
    elif op & 0xE7 == 0xC3:  # an atomic operation may return the old value
        after[src] = after[0] = None
    return [(at + 1, tuple(after))]


def hooked(kernel, hook):
    """True if the kernel's BTF has the hook; also if its kind does not need BTF."""
    kind, _, name = hook.partition("/")
    if kind == "tp_btf":
        return bool(kernel.find(TYPEDEF, f"btf_trace_{name}"))
    return kind not in ("fentry", "fexit") or bool(kernel.find(FUNCTION, name))
