# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of recording in userspace, and its losses.

4 KiB direct random writes by two jobs at queue depth 32, as fast as possible, on a loop device in
memory: first all over the device, then to a file of an ext4 on it. raidtrace records them with its
default buffer into a file in memory. Costs are those of the best round; losses are the sum of all
rounds.

  drain     CPU time of the thread that drains events, joins requests with submissions and collects
            rows, as a share of one core per 100,000 requests a second
  writer    the same for the thread that converts rows to Arrow columns, compresses and writes them
  bytes     bytes on disk per request
  RSS       RSS of the process in MiB, including the pages of the ring buffer, which is mapped twice
"""

import contextlib
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from .measure import ATTACH_TIMEOUT, binary, completed, ext4, fio, loops, machine_state, prepare, ticks, tmpfs, print_checks

SAID = re.compile(r"(\d+) requests, (\d+) submissions, ([\d.]+) MiB(?:, ([\d.]+) bytes a request)?")


def threads(pid):
    """CPU seconds by thread name."""
    spent = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            name = (task / "comm").read_text().strip()
            spent[name] = spent.get(name, 0) + ticks((task / "stat").read_text()) / os.sysconf("SC_CLK_TCK")
    return spent


def recorded(device, path, scratch, seconds):
    """One turn: its cost, and the summary that raidtrace printed."""
    out = scratch / "recording"
    with tempfile.NamedTemporaryFile("w+") as err:
        process = subprocess.Popen([binary(), "record", device, "-o", out, "--force"], stderr=err)
        said = pathlib.Path(err.name)
        end = time.monotonic() + ATTACH_TIMEOUT
        while "recording" not in said.read_text():
            if process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"bench: record: {said.read_text().strip()}")
            time.sleep(0.05)
        stat = pathlib.Path(f"/sys/block/{os.path.basename(device)}/stat")
        before, requests = threads(process.pid), completed(stat.read_text())
        rate = fio(path, "randwrite", seconds, "--size=900M")
        time.sleep(1.5)  # events that are not in the file yet
        requests = completed(stat.read_text()) - requests
        spent = {name: cpu - before.get(name, 0) for name, cpu in threads(process.pid).items()}
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)
        text = said.read_text()
    match = SAID.search(text)
    if not match:
        raise SystemExit(f"bench: record: {text.strip()}")
    writer = spent.pop("writer", 0)
    return {
        "iops": rate,
        "requests": requests,
        "drain": sum(spent.values()) * 1e5 / requests,
        "writer": writer * 1e5 / requests,
        "bytes": out.stat().st_size / requests,
        "rss": int(re.search(r"VmHWM:\s*(\d+)", status)[1]) / 1024,
        "lost": sum(int(n) for n in re.findall(r"(\d+) \(", text.partition("lost: ")[2].partition("\n")[0])),
        "missing": requests - int(match[1]),
    }


def record(arguments):
    prepare("fio", "losetup")
    loads = {}
    with tmpfs() as scratch, loops([(scratch / "disk", 1 << 30)]) as (device,):
        turns(loads, "all over the device", device, device, scratch, arguments)
        with ext4(device, f"{scratch}/mnt") as where:
            turns(loads, "a file on ext4", device, f"{where}/file", scratch, arguments)
    return report(loads)


def turns(loads, name, device, path, scratch, arguments):
    fio(path, "write", 2, "--size=900M", jobs=1)
    loads[name] = [recorded(device, path, scratch, arguments.seconds) for _ in range(arguments.rounds)]


def report(loads):
    checks = []
    print(f"{'':20}{'IOPS':>9}{'drain':>8}{'writer':>8}{'bytes':>8}{'RSS MiB':>9}{'lost':>6}")
    for load, each in loads.items():
        best = {key: min(turn[key] for turn in each) for key in ("drain", "writer", "bytes")}
        fastest, rss = max(turn["iops"] for turn in each), max(turn["rss"] for turn in each)
        lost = sum(turn["lost"] for turn in each)
        print(f"{load:20}{fastest:9.0f}{best['drain']:8.1%}{best['writer']:8.1%}{best['bytes']:8.1f}"
              f"{rss:9.1f}{lost:6}")
        checks += [
            (f"{load}: lost at {fastest:.0f} IOPS: {lost} (target 0)", lost == 0),
            (f"{load}: {best['drain'] + best['writer']:.1%} of a core per 100,000 requests/s, compression "
             "included (target 10 % without)", best["drain"] + best["writer"] <= 0.1),
            (f"{load}: {best['bytes']:.1f} bytes per request (target 16)", best["bytes"] <= 16),
            (f"{load}: resident {rss:.1f} MiB (target 64)", rss < 64),
        ]
    print(machine_state())
    return print_checks(checks)
