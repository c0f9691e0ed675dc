# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Rows of tools/truth, and docs/measured/attribution.md, which keeps the last row of each cell."""

from .matrix import KERNELS, matrix

HEAD = ("level", "stack", "workload", "fixed", "overall", "unknown", "unchecked", "requests", "verdict")
TITLE = """# Measured attribution

Written by `tools/truth --write`: the last result of each cell. [attribution.md](../attribution.md#how-it-is-checked) explains
the columns. Shares are of bytes; *fixed* and *overall* are rounded down. QEMU without KVM, two cores, other work running.
"""


def at_least(share):
    """Rounded down, so that 100 % means all."""
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
    requests = f"all {verdict.requests}" if not verdict.strayed else f"{verdict.strayed} of {verdict.requests} off"
    shares = at_least(verdict.fixed), at_least(verdict.overall), about(verdict.unknown), about(verdict.unchecked)
    return (*names, *shares, requests, verdict.word)


def line(cells):
    return "| " + " | ".join(cells) + " |\n"


def read(path):
    """{(kernel, level, stack, workload): columns} of the file."""
    rows, kernel = {}, None
    for text in path.read_text().splitlines() if path.exists() else ():
        if text.startswith("## Linux "):
            kernel = text.removeprefix("## Linux ")
        elif text.startswith("| ") and not text.startswith(f"| {HEAD[0]} "):
            cells = tuple(cell.strip() for cell in text.strip("|").split("|"))
            rows[kernel, *cells[:3]] = cells
    return rows


def write(path, rows):
    order = {(cell.level, cell.stack, cell.workload): n for n, cell in enumerate(matrix())}
    kernels = sorted({key[0] for key in rows}, key=lambda kernel: (kernel not in KERNELS, KERNELS.index(kernel) if kernel in KERNELS else kernel))
    with open(path, "w") as file:
        file.write(TITLE)
        for kernel in kernels:
            mine = sorted((key[1:] for key in rows if key[0] == kernel), key=lambda key: (order.get(key, len(order)), key))
            verdicts = [rows[kernel, *key][-1] for key in mine]
            wrong = sum(not verdict.startswith("correct") for verdict in verdicts)
            file.write(f"\n## Linux {kernel}\n\n{len(mine) - wrong} of {len(mine)} cells are correct.\n\n")
            file.write(line(HEAD) + "|" + "---|" * len(HEAD) + "\n")
            file.writelines(line(rows[kernel, *key]) for key in mine)
