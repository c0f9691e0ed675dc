# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Offsets and enum values from a kernel's BTF (Documentation/bpf/btf.rst), read without libbpf."""

import struct

from .geometry import Unusable

MAGIC = 0xEB9F
(INT, ARRAY, STRUCT, UNION, ENUM, TYPEDEF, VOLATILE, CONST, RESTRICT) = (1, 3, 4, 5, 6, 8, 9, 10, 11)
(FUNC_PROTO, VAR, DATASEC, DECL_TAG, TYPE_TAG, ENUM64) = (13, 14, 15, 17, 18, 19)
# Bytes that follow the 12-byte header of a type, by BTF_KIND_*: once per type, and for each of its vlen entries.
ONCE = {INT: 4, ARRAY: 12, VAR: 4, DECL_TAG: 4}
EACH = {STRUCT: 12, UNION: 12, ENUM: 8, FUNC_PROTO: 8, DATASEC: 12, ENUM64: 12}


class Btf:
    """Types of vmlinux, then of a module, whose type ids and string offsets continue those of vmlinux."""

    def __init__(self, *blobs):
        self.types = [(0, 0, 0, 0, b"")]  # kind, name, flags and vlen, size or type, data after the header
        self.strings = b""
        self.structs, self.values = {}, {}
        for blob in blobs:
            self.read(blob)

    def read(self, blob):
        magic, _, _, header, type_at, type_len, string_at, string_len = struct.unpack_from("<HBBIIIII", blob)
        if magic != MAGIC:
            raise Unusable("not BTF")
        first = len(self.types)
        self.strings += blob[header + string_at : header + string_at + string_len]
        at, end = header + type_at, header + type_at + type_len
        while at < end:
            name, info, size = struct.unpack_from("<III", blob, at)
            kind, parts = info >> 24 & 0x1F, info & 0xFFFF
            trailing_len = ONCE.get(kind, 0) + EACH.get(kind, 0) * parts
            self.types.append((kind, name, info, size, blob[at + 12 : at + 12 + trailing_len]))
            at += 12 + trailing_len
        for number in range(first, len(self.types)):
            kind, name, _, _, trailing = self.types[number]
            if kind == STRUCT and name:
                self.structs.setdefault(self.text(name), number)
            elif kind == ENUM:
                for at in range(0, len(trailing), 8):
                    name, value = struct.unpack_from("<Ii", trailing, at)
                    self.values.setdefault(self.text(name), value)

    def text(self, at):
        return self.strings[at : self.strings.index(b"\0", at)].decode()

    def has(self, name, field=None):
        try:
            return self.struct(name) and (field is None or self.member(self.struct(name), field)) is not None
        except Unusable:
            return False

    def struct(self, name):
        if name not in self.structs:
            raise Unusable(f"this kernel's BTF has no struct {name}")
        return self.structs[name]

    def value(self, name):
        if name not in self.values:
            raise Unusable(f"this kernel's BTF has no value {name}")
        return self.values[name]

    def plain(self, number):
        """The type without typedefs and qualifiers."""
        while self.types[number][0] in (TYPEDEF, VOLATILE, CONST, RESTRICT, TYPE_TAG):
            number = self.types[number][3]
        return number

    def member(self, number, field):
        """(offset in bytes, type) of a field, also in an anonymous member; None if there is no such field."""
        kind, _, info, _, data = self.types[number]
        if kind not in (STRUCT, UNION):
            return None
        for at in range(0, len(data), 12):
            name, inner, bits = struct.unpack_from("<III", data, at)
            offset = (bits & 0xFFFFFF if info >> 31 else bits) // 8
            if name and self.text(name) == field:
                return offset, self.plain(inner)
            if not name and (found := self.member(self.plain(inner), field)):
                return offset + found[0], found[1]
        return None

    def field(self, name, path):
        """(offset, type) of "a.b" in a struct. For an array, its first element."""
        offset, number = 0, self.struct(name)
        for part in path.split("."):
            found = self.member(number, part)
            if not found:
                raise Unusable(f"this kernel's struct {name} has no {path}")
            offset, number = offset + found[0], found[1]
            if self.types[number][0] == ARRAY:
                number = self.plain(struct.unpack_from("<I", self.types[number][4])[0])
        return offset, number

    def offset(self, name, path):
        return self.field(name, path)[0]

    def size(self, name, path):
        """Size in bytes of a struct within a struct."""
        return self.types[self.field(name, path)[1]][3]
