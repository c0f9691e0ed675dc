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
    """The types of a kernel or an object; with base, those of a kernel and one of its modules, which adds types and
    strings to the kernel's (Documentation/bpf/btf.rst, "split BTF")."""

    def __init__(self, data, base=None):
        magic, version, header, types, length, strings, text_length = struct.unpack_from("<HBxIIIII", data)
        if magic != 0xEB9F or version != 1:
            raise OSError("no BTF")
        self.base = base
        # Kind, name, size or type, number of entries, position of the first entry.
        self.types = list(base.types) if base else [(0, 0, 0, 0, 0)]
        start = len(base.data) if base else 0  # of this part
        self.first_text = base.end_text if base else 0  # offset of its first string
        self.end_text = self.first_text + text_length
        self.data = data = (base.data if base else b"") + data
        self.strings = start + header + strings
        at = start + header + types
        end = at + length
        while at < end:
            name, info, other = struct.unpack_from("<III", data, at)
            kind, count = info >> 24 & 31, info & 0xFFFF
            at += 12
            self.types.append((kind, name, other, count, at))
            at += ONCE.get(kind, 0) + EACH.get(kind, 0) * count

    def text(self, at):
        if at < self.first_text:
            return self.base.text(at)
        return text(self.data, self.strings + at - self.first_text)

    def name(self, number):
        return self.text(self.types[number][1])

    def kind(self, number):
        return self.types[number][0]

    @cached_property
    def numbers(self):
        """{(kind, name): numbers of the types}"""
        found = {key: list(all_) for key, all_ in self.base.numbers.items()} if self.base else {}
        first = len(self.base.types) if self.base else 0
        for number, (kind, name, *_) in enumerate(self.types[first:], first):
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
