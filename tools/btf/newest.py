# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The BTF of the newest kernel in each suite of tools/lab/suites.

Only the BTF is kept, in CACHE/btf/PACKAGE_VERSION. CACHE/btf/newest has a line "SUITE PACKAGE
VERSION" per suite. apt reads the package lists only if that file is older than REFRESH seconds: they
are 100 MB.
"""

import lzma
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from .types import btf

LAB = Path(__file__).resolve().parent.parent / "lab"
# Kernels of the flavour cloud are small and have ext4 built in. Since 6.19, the kernel is in linux-binary-*, and
# linux-image-* of the same version is empty.
PACKAGE = re.compile(r"Package: (linux-(?:image|binary)-(\d.*)-cloud-amd64)\nVersion: (.*)")
REFRESH = 24 * 3600
APT_SECONDS = 300


@dataclass(frozen=True)
class Kernel:
    package: str
    version: str

    @property
    def file(self):
        return f"{self.package}_{self.version}"


class Unavailable(Exception):
    """A reason why newer kernels cannot be fetched."""


def highest(packages):
    """(package, version) of the newest kernel of a package list."""

    def order(match):
        package, release, _ = match
        return [int(n) for n in re.findall(r"\d+", release)], package.startswith("linux-binary-")

    # PACKAGE needs two fields of the many that are in a list.
    fields = re.findall(r"^(?:Package: linux-.*|Version: .*)$", packages, flags=re.M)
    found = sorted(PACKAGE.findall("\n".join(fields)), key=order)
    return (found[-1][0], found[-1][2]) if found else None


def run(*command, **options):
    try:
        done = subprocess.run(command, capture_output=True, timeout=APT_SECONDS, **options)
    except FileNotFoundError:
        raise Unavailable(f"no {command[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} did not end in {APT_SECONDS} s") from None
    return done


def checked(*command, **options):
    done = run(*command, **options)
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise Unavailable(f"{Path(command[0]).name} failed: {lines[-1] if lines else done.returncode}")
    return done.stdout


class Apt:
    """A private list of apt sources (tools/lab/sources)."""

    def __init__(self, dir_, suites):
        if not shutil.which("apt-get"):
            raise Unavailable("no apt-get on this machine")
        checked(LAB / "sources", dir_, *suites)
        self.dir = dir_
        self.options = (dir_ / "options").read_text().splitlines()
        # A suite that cannot be read has no list afterwards.
        run("apt-get", "-qq", *self.options, "-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20", "update")

    def newest(self):
        """{suite: Kernel} of the suites that can be read."""
        form = "$(RELEASE) $(FILENAME)"
        output = checked("apt-get", *self.options, "indextargets", "--format", form, "Created-By: Packages")
        found = {}
        for suite, path in map(str.split, output.decode().splitlines()):
            if os.path.exists(path):
                packages = checked("/usr/lib/apt/apt-helper", *self.options, "cat-file", path).decode()
                if kernel := highest(packages):
                    found[suite] = Kernel(*kernel)
        return found

    def fetch(self, kernel, path):
        """Writes the BTF of a kernel to path."""
        home = Path(tempfile.mkdtemp(dir=self.dir))
        checked("apt-get", "-qq", *self.options, "download", f"{kernel.package}={kernel.version}", cwd=home)
        (deb,) = home.glob("*.deb")
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tree:
            image = vmlinuz(tree.stdout)
            tree.kill()
        deb.unlink()
        if not image:
            raise Unavailable(f"no vmlinuz in {deb.name}")
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_bytes(btf(image))
        part.rename(path)


def vmlinuz(stream):
    """The kernel image in a tar file, which is read only up to the image."""
    with tarfile.open(fileobj=stream, mode="r|") as files:
        for file in files:
            if file.isfile() and Path(file.name).name.startswith("vmlinuz"):
                return files.extractfile(file).read()
    return None


def read_list(path):
    """{suite: Kernel} of CACHE/btf/newest."""
    rows = (line.split() for line in path.read_text().splitlines()) if path.exists() else ()
    return {suite: Kernel(*rest) for suite, *rest in rows}


def newest(cache):
    """({path: names of the suites}, reasons why suites are missing or may be out of date)."""
    home = cache / "btf"
    home.mkdir(parents=True, exist_ok=True)
    list_ = home / "newest"
    suites = [line for line in (LAB / "suites").read_text().splitlines() if line and not line.startswith("#")]
    kernels, reasons = read_list(list_), []
    complete = kernels.keys() == set(suites) and all((home / k.file).exists() for k in kernels.values())
    if not complete or list_.stat().st_mtime < time.time() - REFRESH:
        try:
            kernels, reasons = refresh(home, suites, kernels)
        except Unavailable as why:
            reasons = [str(why)]
        else:
            list_.write_text("".join(f"{suite} {k.package} {k.version}\n" for suite, k in kernels.items()))
            if reasons:
                os.utime(list_, (0, 0))  # try again in the next run
            for path in home.iterdir():
                if path != list_ and path.name not in {k.file for k in kernels.values()}:
                    path.unlink()
    found = {}
    for suite, kernel in kernels.items():
        found.setdefault(home / kernel.file, []).append(suite)
    return {path: ", ".join(names) for path, names in found.items() if path.exists()}, reasons


def refresh(home, suites, before):
    """The newest kernel of each suite, and reasons. Where a suite or its package cannot be read, the kernel before stays."""
    kernels, reasons = {}, []
    with tempfile.TemporaryDirectory(prefix="check-btf-") as dir_:
        apt = Apt(Path(dir_), suites)
        found = apt.newest()
        if not found:
            raise Unavailable("apt-get cannot read the package lists")
        for suite in suites:
            kernel = found.get(suite)
            try:
                if not kernel:
                    raise Unavailable("no package list, or no kernel in it")
                if not (home / kernel.file).exists():
                    apt.fetch(kernel, home / kernel.file)
            except (Unavailable, OSError, lzma.LZMAError, tarfile.TarError) as why:
                reasons.append(f"{suite}: {why}")
                kernel = before.get(suite)
            if kernel:
                kernels[suite] = kernel
    return kernels, reasons
