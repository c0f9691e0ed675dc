# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Scores what raidtrace said about a played incident, against its declaration and the workload's own latency."""

import dataclasses
import datetime
import json
import re
import statistics
import subprocess

LIMIT_SECONDS = 10  # from the first slow operation to the right sentence
WARNINGS = ("warning", "slow", "stalled")


@dataclasses.dataclass
class Result:
    incident: object
    invalid: str = ""       # why there is no score
    before_ms: float = 0.0  # length of the workload's operations, by_time(), in the healthy phase
    during_ms: float = 0.0  # the same with the cause
    seconds: float = -1     # to the right sentence; -1: never
    said: str = ""          # the right sentence, or the last one during the cause
    accused: list = dataclasses.field(default_factory=list)
    alarms: int = 0         # intervals with a warning in healthy phases and in controls
    true_alarms: int = 0    # those of a control in which its own workload was slow
    report: str = ""        # first sentence of the recording
    report_right: bool = False
    dump: str = ""          # "right", "wrong" or "none": what serve wrote during the cause says
    batch: str = ""         # "right" or "wrong": what top --batch says from the first slow operation on

    @property
    def right(self):
        return not self.invalid and 0 <= self.seconds <= LIMIT_SECONDS

    @property
    def passed(self):
        return not self.invalid and (self.alarms == 0 if self.incident.healthy else self.right)


@dataclasses.dataclass
class Said:
    """Verdict of one interval."""

    time: float
    sentence: str
    warns: bool
    accused: list


def seconds_of(stamp):
    return datetime.datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def verdict(array):
    """(sentence, warns, accused) of an array's JSON object."""
    if v := array.get("verdict"):
        return v["sentence"], v["severity"] in WARNINGS, v["accused"]
    h = array.get("hotspot")
    if not h:
        return "", False, []
    warns = h["severity"] in WARNINGS
    blamed = warns and (h["kind"] in ("slow", "stalled") or "look at the disk" in h["headline"])
    return h["headline"], warns, h["members"] if blamed else []


def said(line):
    """What one JSON line said of all arrays: the arrays with a warning first."""
    parts = [verdict(array) for array in line["arrays"]]
    warned = [p for p in parts if p[1]] or parts
    return Said(
        seconds_of(line["time"]) if "time" in line else 0.0,
        "; ".join(p[0] for p in warned),
        any(p[1] for p in parts),
        [member for p in parts for member in p[2]],
    )


def is_right(incident, words):
    return words.warns and all(re.search(pattern, words.sentence, re.I) for pattern in incident.declared.says)


def innocent(incident, words):
    """Accused members that are not at fault."""
    return [m for m in words.accused if not any(re.fullmatch(fault, m) for fault in incident.declared.accused)]


def latencies(where):
    """(begin in s, length in ms) of the operations that wait, by fio's log: ms of the end, ns of latency."""
    rows = []
    for path in where.glob("victim*_lat*.log"):
        for line in path.read_text().splitlines():
            end, ns = line.split(",")[:2]
            rows.append((int(end) / 1e3 - int(ns) / 1e9, int(ns) / 1e6))
    return sorted(rows)


def by_time(lengths):
    """The median by time waited: one operation of 20 s outweighs a thousand of 10 ms."""
    ordered = sorted(lengths)
    half, total = sum(ordered) / 2, 0
    for length in ordered:
        total += length
        if total >= half:
            return length


def first_slow_second(operations, slow_ms, begin, end):
    """Begin of the first slow operation of the first two seconds in each of which most of the waited time is in slow
    operations: a command that changes an array may hold it for a moment."""
    def slow_begins(second):
        inside = [(begun, ms) for begun, ms in operations if begun < second + 1 and begun + ms / 1e3 >= second]
        is_slow = inside and by_time(ms for _, ms in inside) >= slow_ms
        return [begun for begun, ms in inside if ms >= slow_ms] if is_slow else []

    second = begin
    while second < end:
        if (begins := slow_begins(second)) and slow_begins(second + 1):
            return max(begin, min(begins))
        second += 1
    return None


def marks(where):
    return {name: float(at) for name, at in (line.split() for line in (where / "marks").read_text().splitlines())}


def lines(path):
    for line in path.read_text().splitlines():
        try:
            yield json.loads(line)
        except json.JSONDecodeError:
            pass  # the last line of a process that was killed


def disturbed(waits, begin, end):
    """True for the times at which a control's own workload took three times as long as usual: the machine below was busy."""
    usual = statistics.median([ms for begun, ms in waits if begin <= begun < end] or [0])

    def at(time):
        # An alarm is about the last 3 s, and may be printed a second or two later.
        for back in range(3):
            lately = [ms for begun, ms in waits if time - back - 3 <= begun + ms / 1e3 <= time - back]
            if lately and statistics.mean(lately) >= 3 * usual:
                return True
        return False
    return at


def recorded(incident, recording, binary):
    """What the recording says when it is opened elsewhere, and whether that is right."""
    done = subprocess.run([binary, "report", "--json", recording], capture_output=True, text=True)
    try:
        words = said(json.loads(done.stdout.splitlines()[0]))
    except (json.JSONDecodeError, IndexError, KeyError):
        return done.stderr.strip() or "no sentence", False
    if incident.healthy:
        return words.sentence, not words.warns
    return words.sentence, is_right(incident, words) and not innocent(incident, words)


def dumped(incident, where, binary):
    """What the dumps of raidtrace serve say: "none" without one."""
    dumps = sorted((where / "dumps").glob("*.rtrace"))
    says = [recorded(incident, dump, binary) for dump in dumps]
    return "none" if not says else "right" if says[0][1] else f"wrong: {says[0][0]}"


def batch(incident, path, first, last):
    """What the blocks of top --batch between these times say: "" without one. A block begins with its time."""
    says = ""
    for block in path.read_text().split("\n\n") if path.exists() else ():
        lines = block.strip().splitlines()
        try:
            inside = lines and first <= seconds_of(lines[0].split()[0]) <= last
        except ValueError:
            continue
        if inside:
            spoken = [line for line in lines if line.startswith("! ")]
            right = any(all(re.search(pattern, line, re.I) for pattern in incident.declared.says) for line in spoken)
            says = "right" if right or says == "right" else "wrong"
    return says


def score(incident, where, binary, failure):
    result = Result(incident, invalid=failure or "")
    if result.invalid:
        return result
    try:
        at = marks(where)
        spoken = [said(line) for line in lines(where / "top.json")]
    except (OSError, KeyError, ValueError) as error:
        result.invalid = f"incomplete: {error}"
        return result
    if "end" not in at:
        result.invalid = "the phases did not end"
        return result

    waits = latencies(where)
    before = [ms for begun, ms in waits if at["healthy"] <= begun < at["cause"]]
    during = [(begun, ms) for begun, ms in waits if at["cause"] <= begun + ms / 1e3 and begun < at["recovery"]]
    if before:
        result.before_ms = by_time(before)
    if during:
        result.during_ms = by_time(ms for _, ms in during)
    result.report, result.report_right = recorded(incident, where / "incident.rtrace", binary)
    if incident.serve:
        result.dump = dumped(incident, where, binary)

    if incident.healthy:
        is_slow = disturbed(waits, at["healthy"], at["end"])
        alarms = [s for s in spoken if s.warns and at["healthy"] <= s.time <= at["end"]]
        result.alarms = sum(not is_slow(s.time) for s in alarms)
        result.true_alarms = len(alarms) - result.alarms
        result.report_right = result.report_right or result.true_alarms > 0
        result.accused = sorted({m for s in spoken for m in s.accused if s.time >= at["healthy"]})
        result.said = next((s.sentence for s in reversed(spoken) if s.warns and s.time >= at["healthy"]), spoken[-1].sentence)
        return result

    slow_ms = incident.declared.slower * result.before_ms
    first = first_slow_second(during, slow_ms, at["cause"], at["recovery"]) if before else None
    if first is None or result.during_ms < slow_ms:
        result.invalid = f"the cause did not take effect: {result.before_ms:.1f} ms before, {result.during_ms:.1f} ms during"
        return result
    result.alarms = sum(s.warns for s in spoken if at["healthy"] + 5 <= s.time < at["cause"])
    result.batch = batch(incident, where / "top.txt", first, at["recovery"] + 2)
    sick = [s for s in spoken if first <= s.time <= at["recovery"] + 2]
    result.accused = sorted({m for s in sick for m in innocent(incident, s)})
    for words in sick:
        if is_right(incident, words):
            result.seconds, result.said = words.time - first, words.sentence
            break
    else:
        result.said = sick[-1].sentence if sick else "nothing"
    return result


def row(result):
    incident = result.incident
    if result.invalid:
        empty = " | ".join([""] * (3 if incident.healthy else 5))
        return f"| {incident.name} | - | {empty} | {result.invalid} |"
    if incident.healthy:
        mark = "alarmed" if result.alarms else "right"
        alarms = f"{result.alarms}, {result.true_alarms} while its workload was slow" if result.true_alarms else result.alarms
        return (f"| {incident.name} | {mark} | {alarms} | {' '.join(result.accused)} | "
                f"{'right' if result.report_right else 'wrong'} | {result.said} |")
    when = f"{result.seconds:.0f} s" if result.seconds >= 0 else "never"
    mark = "right" if result.right else "late" if result.seconds >= 0 else "wrong"
    return (f"| {incident.name} | {mark}, {when} | {result.before_ms:.1f}, {result.during_ms:.0f} ms | "
            f"{' '.join(result.accused)} | {'right' if result.report_right else 'wrong'} | {result.dump} | {result.batch} | {result.said} |")


HEADS = {
    False: "| incident | first sentence | wait before, with the cause | innocent accused | recording | dump | batch | sentence |",
    True: "| control | verdict | intervals with a warning | accused | recording | sentence |",
}


def table(results, kept=()):
    """`kept`: (incident, its line) of those that were not played now."""
    lines = {True: {}, False: {}}
    for incident, line in kept:
        lines[incident.healthy][incident.name] = line
    for result in results:
        lines[result.incident.healthy][result.incident.name] = row(result)
    text = []
    for healthy, head in HEADS.items():
        if lines[healthy]:
            rule = "|---" * (head.count(" | ") + 1) + "|"
            text += [head, rule, *(lines[healthy][name] for name in sorted(lines[healthy])), ""]
    incidents, controls = ([line.split(" | ") for line in lines[healthy].values()] for healthy in (False, True))
    valid = [cells for cells in incidents if cells[1] != "-"]
    well = [cells for cells in controls if cells[1] != "-"]
    times = sorted(int(cells[1].split()[1]) for cells in valid if "never" not in cells[1])
    spoken = lambda at: [cells[at].strip() for cells in valid if cells[at].strip()]  # noqa: E731
    text += [
        f"* right first sentence within {LIMIT_SECONDS} s: {sum(c[1].startswith('right') for c in valid)} of {len(valid)}"
        + (f", median {statistics.median(times):.0f} s" if times else ""),
        f"* recordings with the right first sentence: {sum(c[4] == 'right' for c in valid)} of {len(valid)}",
        f"* dumps of `serve` with the right first sentence: {spoken(5).count('right')} of {len(spoken(5))}",
        f"* incidents in which `top --batch` says the same: {spoken(6).count('right')} of {len(spoken(6))} whose output is kept",
        f"* incidents in which an innocent member was accused: {len(spoken(3))}",
        f"* controls with a warning: {sum(c[1] == 'alarmed' for c in well)} of {len(well)}",
        f"* invalid: {len(incidents) - len(valid) + len(controls) - len(well)}",
    ]
    return "\n".join(text)


def page(results, seconds, before, others):
    """`seconds`: time in which they were played; 0 if they were played before. `before`: the page until now, whose lines of
    the incidents `others` stay."""
    lines = {line.split()[1]: line for line in before.splitlines() if line.startswith("| ")}
    kept = [(incident, lines[incident.name]) for incident in others if incident.name in lines]
    played = f"\n\nAll were played in {seconds / 60:.0f} minutes." if seconds and not kept else ""
    return (
        "# Incidents\n\nWritten by `tools/incidents --write`. Each incident is a file in `tests/incidents`, which declares the cause; "
        "the wait is that of the workload itself: half of the waited time is in operations that take longer, before the cause and with it.\n\n"
        f"{table(results, kept)}{played}\n"
    )
