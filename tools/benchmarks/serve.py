# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Cost of `raidtrace serve` in userspace: scrapes, memory, and many clients.

  scrape    time of GET /metrics with 12 and 64 disks, each with an ext4 in use, compared with
            node_exporter on the same machine (median of --scrapes)
  scrapes   memory before and after 10,000 scrapes
  idle      CPU time with a scrape every 10 s
  clients   50 clients that scrape and 20 pages for --seconds, while fio writes: number of lost events

The BPF programs are those of top (with --keep 0) and of record: see tools/bench top and record.
Targets: 10 ms for 12 members and 50 ms for 64; 64 MiB besides the recording; 1 % of a core.
"""

import contextlib
import http.client
import os
import shutil
import statistics
import subprocess
import threading
import time

from .measure import binary, end, ext4, fio, loops, machine_state, prepare, tmpfs, print_checks

MIB = 1 << 20


@contextlib.contextmanager
def running(devices, *options):
    """A running serve: its process and port."""
    command = [binary(), "serve", *devices, "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in process.stderr if "serving " in line)
        threading.Thread(target=process.stderr.read, daemon=True).start()
        yield process, int(line.strip().rstrip("/").rsplit(":", 1)[1])
    finally:
        end(process)


def get(port, path="/metrics"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    body = connection.getresponse().read().decode()
    connection.close()
    return body


def values(text, name):
    return [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name)]


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MIB


def scrape_ms(port, count):
    times = []
    for _ in range(count):
        begun = time.perf_counter()
        get(port)
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def use(mounts):
    """Causes IO of several origins on each filesystem."""
    for turn in range(2):
        for where in mounts:
            for number in range(5):
                with open(f"{where}/d{turn}{number}", "wb") as out:
                    out.write(b"x" * 65536)
            os.makedirs(f"{where}/dir{turn}", exist_ok=True)
            os.sync()


def node_exporter(count):
    if not shutil.which("prometheus-node-exporter"):
        return None
    process = subprocess.Popen(
        ["prometheus-node-exporter", "--web.listen-address=127.0.0.1:19100"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                get(19100)
                break
            time.sleep(0.1)
        return scrape_ms(19100, count)
    finally:
        end(process)


def clients(process, port, where, seconds):
    """Number of scrapes, events, and lost events."""
    until = time.monotonic() + seconds
    counts = {"scrapes": 0, "events": 0}
    lock = threading.Lock()

    def count(what):
        with lock:
            counts[what] += 1

    def scraper():
        while time.monotonic() < until:
            get(port)
            count("scrapes")

    def page():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", "/api/events")
        answer = connection.getresponse()
        while time.monotonic() < until and (line := answer.readline()):
            if line.startswith(b"data:"):
                count("events")
        connection.close()

    threads = [threading.Thread(target=scraper) for _ in range(50)]
    threads += [threading.Thread(target=page) for _ in range(20)]
    for thread in threads:
        thread.start()
    fio(f"{where}/load", "randwrite", seconds, "--size=4M", jobs=1)
    for thread in threads:
        thread.join()
    lost = sum(values(get(port), 'raidtrace_lost_events_total{reason="ring"'))
    return counts, lost, resident(process)


def serve(arguments):
    prepare("fio", "losetup", "mke2fs")
    print(f"{machine_state()}\n")
    checks = []
    with tmpfs() as scratch:
        images = [(scratch / f"disk{n}", 16 * MIB) for n in range(64)]
        with loops(images) as devices, contextlib.ExitStack() as mounted:
            mounts = [mounted.enter_context(ext4(d, f"{image}.mnt")) for (image, _), d in zip(images, devices)]
            for count, most in ((12, 10), (64, 50)):
                with running(devices[:count], "--keep", "0") as (process, port):
                    use(mounts[:count])
                    time.sleep(2.5)
                    text = get(port)
                    series = sum(1 for line in text.splitlines() if not line.startswith("#"))
                    taken = scrape_ms(port, arguments.scrapes)
                    before = resident(process)
                    print(f"{count} members: {series} series, {len(text) / 1024:.0f} KiB, {taken:.1f} ms a scrape, {before:.1f} MiB resident")
                    checks.append((f"{count} members: {taken:.1f} ms a scrape (target {most} ms)", taken < most))
                    if count == 12:
                        checks += grows(process, port, before)
                        checks += idle(port, arguments.seconds)
            if other := node_exporter(arguments.scrapes):
                print(f"node_exporter here: {other:.1f} ms a scrape")
            with running(devices[:12]) as (process, port):
                counts, lost, after = clients(process, port, mounts[0], arguments.seconds)
                kept = values(get(port), "raidtrace_flight_recorder_bytes")[0] / MIB
                print(f"50 clients and 20 pages for {arguments.seconds} s: {counts['scrapes']} scrapes, {counts['events']} events, "
                      f"{lost:.0f} lost, {after:.1f} MiB resident, of which {kept:.1f} are the recording")
                checks.append((f"{lost:.0f} events lost with 50 clients and 20 pages", lost == 0))
                checks.append((f"{after - kept:.1f} MiB besides the recording (target 64)", after - kept < 64))
    return print_checks(checks)


def grows(process, port, before):
    for _ in range(10_000):
        get(port)
    after = resident(process)
    print(f"after 10,000 scrapes: {after:.1f} MiB")
    return [(f"{after - before:.1f} MiB more after 10,000 scrapes (target 4)", after - before < 4)]


def idle(port, seconds):
    name = "process_cpu_seconds_total"
    first, begun = values(get(port), name)[0], time.monotonic()
    while time.monotonic() < begun + seconds:
        time.sleep(10)
        last = values(get(port), name)[0]
    share = (last - first) / (time.monotonic() - begun) * 100
    print(f"a scrape every 10 s: {share:.2f} % of a core")
    return [(f"{share:.2f} % of a core with a scrape every 10 s (target 1 %)", share < 1)]
