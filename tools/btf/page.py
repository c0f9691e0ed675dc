# SPDX-License-Identifier: Apache-2.0 OR MIT
"""docs/kernels.md: what raidtrace lacks on each Debian kernel."""

import re

HEAD = """\
# Kernels

Each Debian kernel that could be had when this was written, with the programs that its types (BTF) allow. Written by
`tools/check-btf --newest --page`, which compares each field that the programs read, and each hook, with the kernel's types and those
of its modules jbd2, ext4 and XFS. `raidtrace doctor --kernel` asks the running kernel, and loads the programs. What older kernels
cannot tell is in [attribution.md](attribution.md#what-a-kernel-cannot-give); which kernels run in the lab, in [limits.md](limits.md).

| kernel | Debian suite | programs | fields that they read | lost |
|---|---|---|---|---|
"""
# Features that need the types of a module. Debian's 5.10 has none of modules.
MODULE_LOSSES = {
    "ext4": "`slow` and `alloc` on ext4, blocks that ext4 frees",
    "jbd2": "waits for room in a journal",
    "xfs": "`slow` on XFS",
}


def suites(cache, lab):
    """{kernel of `checks`: (package and version, suite)}"""
    found = {}
    for line in (lab / "kernels").read_text().splitlines():
        name, suite, *_ = line.split("#")[0].split() or [None, None]
        packages = cache / "kernels" / str(name) / "packages"
        if name and packages.exists():
            found[name] = packages.read_text().split()[0], suite
    return found


def release(package):
    """linux-image-6.12.117+deb13-cloud-amd64_6.12.117-1_amd64.deb: 6.12.117+deb13-cloud-amd64 (6.12.117-1)"""
    name, version, *_ = package.split("_")
    return re.sub(r"^linux-(image|binary)-", "", name), version


def write(path, checks, cache, lab):
    """checks: {name: Check}"""
    known = suites(cache, lab)
    rows = {}
    for name, check in checks.items():
        package, suite = known.get(name) or (name.split(", ")[0], name.partition("newest of ")[2])
        if not package.startswith("linux-"):
            continue  # the running kernel, or a file
        losses = [MODULE_LOSSES[module] for module in sorted(check.unchecked)]
        if name not in known and check.unchecked:
            losses = ["not compared: " + ", ".join(sorted(check.unchecked))]
        losses += sorted(check.losses)
        losses += [f"**does not start**: {what}" for what in sorted(check.missing | check.hooks)]
        kernel, version = release(package)
        row = f"| {kernel} ({version}) | {suite} | {check.checked} | {len(check.fields)} | {'; '.join(losses) or 'nothing'} |"
        if kernel not in rows or name in known:
            rows[kernel] = row
    order = sorted(rows, key=lambda kernel: [int(n) for n in re.findall(r"\d+", kernel)[:3]])
    path.write_text(HEAD + "".join(rows[kernel] + "\n" for kernel in order))
