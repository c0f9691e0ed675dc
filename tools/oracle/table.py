# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Formats the results of tools/truth as table rows, and maintains docs/measured/attribution.md, which has the last result of each
cell (kernel, level, stack, workload)."""

from .matrix import KERNELS, matrix

# Version and architecture of the lab kernels whose name is not just a version.
ARCHITECTURES = {
    "arm64-6.1": ("6.1", "arm64"),
    "arm64-6.12": ("6.12", "arm64"),
    "arm64-16k": ("6.12", "arm64, 16 KiB pages"),
}
X86 = "x86-64"
HEAD = ("level", "stack", "workload", "fixed", "overall", "unknown", "unchecked", "requests", "verdict")
TITLE = """# Measured attribution

Written by `tools/truth --write`: the last result of each cell. [attribution.md](../attribution.md#how-it-is-checked) explains
the columns. Shares are of bytes; *fixed* and *overall* are rounded down. QEMU without KVM, two cores, other work running.
"""


def at_least(share):
    """Percentage, rounded down, so that 100 % means all."""
    return f"{int(share * 10000 + 1e-6) / 100:.6g} %"


def about(share):
    if not share:
        return "0"
    return f"{share * 100:.3g} %" if share >= 0.0001 else "< 0.01 %"


def cells_of(cell, verdict):
    """The columns of HEAD."""
    names = (cell.level, cell.stack, cell.workload)
    if verdict.no_verdict:
        return (*names, "", "", "", "", "", verdict.word)
    requests = f"all {verdict.requests}" if not verdict.mismatched else f"{verdict.mismatched} of {verdict.requests} differ"
    shares = at_least(verdict.fixed), at_least(verdict.overall), about(verdict.unknown), about(verdict.unchecked)
    return (*names, *shares, requests, verdict.word)


def line(cells):
    return "| " + " | ".join(cells) + " |\n"


def read(path):
    """{(kernel, level, stack, workload): columns} of the file."""
    names = {platform: kernel for kernel, platform in ARCHITECTURES.items()}
    rows, version = {}, None
    for text in path.read_text().splitlines() if path.exists() else ():
        if text.startswith("## Linux "):
            version = text.removeprefix("## Linux ")
        elif text.startswith("| ") and not text.startswith("| architecture "):
            architecture, *cells = (cell.strip() for cell in text.strip("|").split("|"))
            kernel = names.get((version, architecture), version)
            rows[kernel, *cells[:3]] = tuple(cells)
    return rows


def write(path, rows):
    order = {(cell.level, cell.stack, cell.workload): n for n, cell in enumerate(matrix())}
    platforms = {kernel: ARCHITECTURES.get(kernel, (kernel, X86)) for kernel, *_ in rows}
    versions = sorted({version for version, _ in platforms.values()}, key=lambda v: (v not in KERNELS, KERNELS.index(v) if v in KERNELS else v))
    with open(path, "w") as file:
        file.write(TITLE)
        for version in versions:
            mine = [key for key in rows if platforms[key[0]][0] == version]
            mine.sort(key=lambda key: (platforms[key[0]][1] != X86, platforms[key[0]][1], order.get(key[1:], len(order)), key))
            wrong = sum(not rows[key][-1].startswith("correct") for key in mine)
            file.write(f"\n## Linux {version}\n\n{len(mine) - wrong} of {len(mine)} cells are correct.\n\n")
            file.write(line(("architecture", *HEAD)) + "|" + "---|" * (len(HEAD) + 1) + "\n")
            file.writelines(line((platforms[key[0]][1], *rows[key])) for key in mine)
