# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Types of a kernel or a BPF object, from its BTF (Documentation/bpf/btf.rst)."""

import struct
from functools import cached_property

from .elf import section, text, unpacked

(INT, POINTER, ARRAY, STRUCT, UNION, ENUM, FORWARD, TYPEDEF, VOLATILE, CONST, RESTRICT, FUNCTION, PROTO, VAR, DATASEC, FLOAT,
 DECL_TAG, TYPE_TAG, ENUM64) = range(1, 20)  # fmt: skip
COMPOSITE = (STRUCT, UNION)
ALIASES = (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG)
# Bytes that follow the 12-byte header of a type: once per type, and for each of its entries.
ONCE = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
EACH = {STRUCT: 12, UNION: 12, ENUM: 8, PROTO: 8, DATASEC: 12, ENUM64: 12}


def btf(data):
    """The BTF of a kernel image or a BPF object; data itself if it is BTF."""
    return data if data[:2] == b"\x9f\xeb" else section(unpacked(data), ".BTF")


class Types:
    def __init__(self, data):
        magic, version, header, types, length, strings = struct.unpack_from("<HBxIIIII", data)[:6]
        if magic != 0xEB9F or version != 1:
            raise OSError("no BTF")
        self.data = data
        self.strings = header + strings
        self.types = [(0, 0, 0, 0, 0)]  # kind, name, size or type, number of entries, position of the first entry
        at, end = header + types, header + types + length
        while at < end:
            name, info, other = struct.unpack_from("<III", data, at)
            kind, count = info >> 24 & 31, info & 0xFFFF
            at += 12
            self.types.append((kind, name, other, count, at))
            at += ONCE.get(kind, 0) + EACH.get(kind, 0) * count

    def text(self, at):
        return text(self.data, self.strings + at)

    def name(self, number):
        return self.text(self.types[number][1])

    def kind(self, number):
        return self.types[number][0]

    @cached_property
    def numbers(self):
        """{(kind, name): numbers of the types}"""
        found = {}
        for number, (kind, name, *_) in enumerate(self.types):
            if name:
                found.setdefault((kind, self.text(name)), []).append(number)
        return found

    def find(self, kind, name):
        return self.numbers.get((kind, name), [])

    def plain(self, number):
        """The type without typedefs and qualifiers."""
        while self.types[number][0] in ALIASES:
            number = self.types[number][2]
        return number

    def members(self, number):
        """[(name, type)] of a struct or union; the name of an anonymous member is empty."""
        _, _, _, count, at = self.types[number]
        return [(self.text(m[0]), m[1]) for m in struct.iter_unpack("<III", self.data[at : at + 12 * count])]

    def member(self, number, wanted):
        """The type of a member, also of one in an anonymous struct or union; None if there is none."""
        number = self.plain(number)
        if self.kind(number) in COMPOSITE:
            for name, type_ in self.members(number):
                if name == wanted:
                    return type_
                if not name and (found := self.member(type_, wanted)) is not None:
                    return found
        return None

    def element(self, number):
        """The type of the elements of an array."""
        return struct.unpack_from("<I", self.data, self.types[number][4])[0]

    def enumerators(self, number):
        kind, _, _, count, at = self.types[number]
        size = EACH[kind]
        return [self.text(struct.unpack_from("<I", self.data, at + size * i)[0]) for i in range(count)]
