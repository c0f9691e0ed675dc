"""Simulated hosts for tests/fleet_prometheus.rs: pages of `raidtrace serve` and of node_exporter.

usage: hosts.py serve PAGE START
       hosts.py history PAGE START NAME...

PAGE is the snapshot of the metrics of one array in one second, START the time at which the history begins. `serve`
prints its port, and answers /HOST/metrics and /HOST/node. `history` writes HISTORY seconds of the metrics NAME as
OpenMetrics text with times.
"""
import functools
import http.server
import re
import sys
import time

HOSTS = 200
HISTORY, STEP = 1800, 60  # seconds
# Hosts with an anomaly.
SKEW, SLOW, STALLED, RESYNC, DEGRADED, STOPPED, LOSES, FAILED = 17, 42, 99, 111, 123, 131, 150, 160
RESYNC_SECONDS = (600, 1200)  # seconds after the start in which RESYNC is slow
MODELS = "ST4000NM0023", "MZ7LH3T8"

SAMPLE = re.compile(r"(\w+)(\{.*\})? (\S+)")


def read(path):
    """Lines of the page: comments, and tuples (name, labels, value, is cumulative)."""
    page = open(path).read().split("\n---\n", 1)[1].splitlines()
    kinds = dict(line.split(" ")[2:4] for line in page if line.startswith("# TYPE "))
    for line in page:
        if line.startswith("#") or not line:
            yield line
            continue
        name, labels, value = SAMPLE.fullmatch(line).groups()
        family = re.sub(r"_(total|bucket|sum|count)$", "", name)
        value = float(value) if "." in value else int(value)
        yield name, labels or "", value, kinds.get(family) in ("counter", "histogram")


def disks(i):
    """Members of the array of host i: partitions."""
    return [f"nvme{n}n1p2" if i % 2 else f"sd{'abcd'[n]}1" for n in range(4)]


@functools.cache
def lines(i):
    """Page of host i, with its own names and its anomaly. page() fills in what depends on the time."""
    names = {f"loop{n + 1}": name for n, name in enumerate(disks(i))} | {"md127": f"md{i % 3}"}
    slow = f'member="{names["loop3"]}"'
    recent = []
    host = []
    for line in PAGE:
        if isinstance(line, str):
            host.append(line)
            continue
        name, labels, value, cumulative = line
        labels = re.sub(r"\b(loop\d|md127)\b", lambda m: names[m[0]], labels)
        if name == "raidtrace_member_fail_slow_ratio" and i != SLOW:
            continue
        if name == "raidtrace_array_sync_ratio" and i != RESYNC:
            continue
        if name == "raidtrace_array_missing_members" and i == STOPPED:
            continue
        if name == "raidtrace_hotspot_skew":
            value = 3.9 if i == SKEW and "bitmap" in labels else 1 + i % 10 / 20
        elif name == "raidtrace_member_busy_seconds_total" and i == SKEW:
            value = 0.95 if f'"{names["loop1"]}"' in labels else value
        elif name == "raidtrace_lost_events_total" and i == LOSES and '"ring"' in labels:
            value = 7
        elif name == "raidtrace_update_failed" and i == FAILED:
            value = 1
        elif name == "raidtrace_array_missing_members" and i == DEGRADED:
            value = 1
        elif name == "raidtrace_member_up" and i == DEGRADED and f'"{names["loop4"]}"' in labels:
            value = 0
        elif name == "raidtrace_array_up" and i == STOPPED:
            value = 0
        elif i == SLOW and slow in labels and name.startswith("raidtrace_member_device_seconds"):
            if name.endswith("_sum"):
                value *= 8
            elif name.endswith("_bucket") and '+Inf"' not in labels:
                # Three edges further is eight times the duration.
                recent = [] if 'le="0.000016"' in labels else recent
                recent.append(value)
                value = recent[-4] if len(recent) > 3 else 0
        host.append((name, labels, value, cumulative))
    return host


def verdict(i, seconds):
    """Severity, cause, and how long tasks wait and hang."""
    if i == SLOW and seconds >= 300:
        return "slow", "member", 0.2, 0.4
    if i == STALLED:
        return "stalled", "filesystem", 0.05, seconds + 10.0
    if i == RESYNC and RESYNC_SECONDS[0] <= seconds < RESYNC_SECONDS[1]:
        return "slow", "resync", 0.1, 0.2
    return "none", "none", 0.001, 0.0


def page(i, seconds, names=None):
    """Lines of host i, `seconds` after the start. With `names`, only samples of these metrics."""
    severity, cause, wait, hung = verdict(i, seconds)
    for line in lines(i):
        if isinstance(line, str):
            if not names:
                yield line
            continue
        name, labels, value, cumulative = line
        if names and name not in names:
            continue
        if cumulative:
            value = value * (seconds + 1000)
        elif name == "raidtrace_verdict_info":
            labels = re.sub(r'severity=.*\}', f'severity="{severity}",cause="{cause}"}}', labels)
        elif name == "raidtrace_wait_seconds":
            value = wait
        elif name == "raidtrace_hung_task_seconds":
            value = hung
        yield f"{name}{labels} {value}"


def node(i):
    """Lines of node_exporter about the disks of host i."""
    yield "# HELP node_disk_info Info of /sys/block/<block_device>."
    yield "# TYPE node_disk_info gauge"
    for n, member in enumerate(disks(i)):
        device = re.sub(r"p2$|(?<=[a-d])1$", "", member)
        model = MODELS[i % 2]
        yield (
            f'node_disk_info{{device="{device}",major="8",minor="{16 * n}",model="{model}",path="",'
            f'revision="1",serial="{i}-{n}",wwn=""}} 1'
        )


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        _, host, what = self.path.split("/")
        i = int(host.removeprefix("host"))
        if what == "node":
            kind, answer = "text/plain; version=0.0.4; charset=utf-8", node(i)
        else:
            kind = "application/openmetrics-text; version=1.0.0; charset=utf-8"
            answer = page(i, int(time.time()) - START)
        body = ("\n".join(answer) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 2 * HOSTS


def history(names):
    for seconds in range(0, HISTORY + 1, STEP):
        for i in range(HOSTS):
            host = f'instance="host{i:03}:9753",job="raidtrace"'
            of_node = f'instance="host{i:03}:9100",job="node"'
            samples = [(line, host) for line in page(i, seconds, names)]
            if "node_disk_info" in names:
                samples += [(line, of_node) for line in node(i) if not line.startswith("#")]
            for line, target in samples:
                sample, value = line.rsplit(" ", 1)
                name, brace, labels = sample.partition("{")
                labels = f"{target},{labels}" if brace else f"{target}}}"
                print(f"{name}{{{labels} {value} {START + seconds}")
    print("# EOF")


PAGE = list(read(sys.argv[2]))
START = int(sys.argv[3])
if sys.argv[1] == "serve":
    server = Server(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()
else:
    history(set(sys.argv[4:]))
