# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Sections of 64-bit little-endian ELF files, and of the ELF file in a bzImage."""

import lzma
import struct
import subprocess
from dataclasses import dataclass

RELOCATIONS = 9  # SHT_REL
EXECUTABLE = 4  # SHF_EXECINSTR
FUNCTION = 2  # STT_FUNC


@dataclass(frozen=True)
class Section:
    name: str
    kind: int
    flags: int
    link: int  # of relocations: the symbol table
    info: int  # of relocations: the section to relocate
    data: memoryview


def sections(data):
    table, size, count, names = struct.unpack_from("<Q10xHHH", data, 0x28)
    headers = [struct.unpack_from("<IIQQQQII", data, table + i * size) for i in range(count)]
    found = []
    for name, kind, flags, _, offset, length, link, info in headers:
        start = headers[names][4] + name
        found.append(Section(text(data, start), kind, flags, link, info, memoryview(data)[offset : offset + length]))
    return found


def section(data, name):
    """Content of the first section of this name."""
    for found in sections(data):
        if found.name == name:
            return bytes(found.data)
    raise OSError(f"no section {name}")


def text(data, at):
    return data[at : data.index(b"\0", at)].decode()


def unpacked(data):
    """The ELF file: data, or the payload of a bzImage (Documentation/arch/x86/boot.rst)."""
    if data.startswith(b"\x7fELF"):
        return data
    if data[0x202:0x206] != b"HdrS":
        raise OSError("neither BTF, nor ELF, nor a bzImage")
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = ((data[0x1F1] or 4) + 1) * 512 + offset
    payload = data[start : start + length - 4]  # the last 4 bytes are the uncompressed size
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(payload)
    for magic, tool in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x02\x21\x4c\x18", "lz4")):
        if payload.startswith(magic):
            return subprocess.run([tool, "-dc"], input=payload, stdout=subprocess.PIPE, check=True).stdout
    raise OSError("compressed with an unsupported method")
