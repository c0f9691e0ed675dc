# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Pages of docs/incidents, made from a played incident: what iostat shows, what raidtrace says, and what changed."""

import datetime
import statistics
import subprocess

from incident import score

COLUMNS = ("device", "r/s", "w/s", "MiB/s", "r_await", "w_await", "aqu-sz", "%util")


def samples(where):
    """(time, {device: fields of its stat file}) once a second."""
    now, found = None, []
    for line in (where / "kernel").read_text().splitlines():
        words = line.split()
        if words[0] == "time":
            now = float(words[1])
            found.append((now, {}))
        elif words[0].endswith("/stat") and now is not None:
            found[-1][1][words[0].split("/")[3]] = [int(word) for word in words[1:]]
    return found


def iostat(where, begin, end):
    """A table like that of iostat -x, of the devices that did something."""
    inside = [sample for sample in samples(where) if begin <= sample[0] <= end]
    if len(inside) < 2:
        return []
    (first, before), (last, after) = inside[0], inside[-1]
    rows = []
    for device, now in sorted(after.items()):
        if device not in before or not any(a - b for a, b in zip(now, before[device])):
            continue
        d = [a - b for a, b in zip(now, before[device])]
        seconds = last - first
        each = lambda ms, n: f"{ms / n:.1f}" if n else "-"  # noqa: E731
        rows.append((device, f"{d[0] / seconds:.0f}", f"{d[4] / seconds:.0f}", f"{(d[2] + d[6]) / 2048 / seconds:.1f}",
                     each(d[3], d[0]), each(d[7], d[4]), f"{d[10] / 1000 / seconds:.1f}", f"{min(100, d[9] / 10 / seconds):.0f}"))
    return rows


def text_table(rows):
    widths = [max(len(row[i]) for row in [COLUMNS, *rows]) for i in range(len(COLUMNS))]
    line = lambda row: "  ".join(f"{word:{'<' if i == 0 else '>'}{widths[i]}}" for i, word in enumerate(row))  # noqa: E731
    return "\n".join(map(line, [COLUMNS, *rows]))


def output(binary, recording, *arguments):
    """What a command prints, started beside the recording, so that no path of this machine is in it."""
    words = [recording.name if word == recording else word for word in arguments]
    done = subprocess.run([binary, *words], capture_output=True, text=True, cwd=recording.parent)
    return done.stdout.rstrip()


def stamp(at):
    return datetime.datetime.fromtimestamp(at, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def page(incident, where, recording, binary):
    at = score.marks(where)
    waits = score.latencies(where)
    spans = (("before", at["cause"] - 8, at["cause"]), ("with the cause", at["cause"] + 2, at["cause"] + 12),
             ("after the recovery", at["end"] - 6, at["end"]))
    name = f"tests/incidents/recorded/{recording.name}"
    parts = [f"# {incident.title}\n", f"Source: {incident.source}. Played by `tools/incidents {incident.name}` on Linux {incident.kernel}; "
             f"the file `tests/incidents/{incident.name}.toml` has the commands.\n", "## What the workload and iostat see\n"]
    for what, begin, end in spans:
        lengths = [ms for begun, ms in waits if begin <= begun + ms / 1e3 <= end]
        shown = f"{statistics.mean(lengths):.0f} ms on average, {max(lengths):.0f} ms at most" if lengths else "no operation returns"
        parts.append(f"{what[0].upper()}{what[1:]}: {len(lengths) / (end - begin):.0f} operations a second, {shown}.\n")
        parts.append(f"```text\n{text_table(iostat(where, begin, end))}\n```\n")
    cause, end = stamp(at["cause"]), stamp(at["cause"] + 12)
    parts += ["## What raidtrace says\n", f"```console\n$ raidtrace why --replay {name}\n{output(binary, recording, 'why', '--replay', recording)}\n```\n"]
    batch = output(binary, recording, "top", "--replay", recording, "--batch", "--from", stamp(at["cause"] + 6), "--to", stamp(at["cause"] + 8))
    first = batch.split("\n\n")[0]
    parts += ["The same seconds in `top --replay`:\n", f"```text\n{first}\n```\n"]
    parts += [f"Declared before it was played: what waits is {incident.declared.waits}; the cause is {incident.declared.name}.\n"]
    against = output(binary, recording, "report", recording, "--from", cause, "--to", end, "--against", recording, "--against-to", cause)
    lines = against.splitlines()[:24]
    parts += ["## What changed\n", "The seconds with the cause, compared with those before:\n",
              "```console\n$ raidtrace report after.rtrace --against before.rtrace\n" + "\n".join(lines) + "\n```\n"]
    return "\n".join(parts)


def write(incidents, out, recorded, binary, folder):
    folder.mkdir(exist_ok=True)
    for incident in incidents:
        recording = recorded / f"{incident.name}.rtrace"
        (folder / f"{incident.name}.md").write_text(page(incident, out / incident.name, recording, binary))
    # Those of earlier runs, too. A page begins with its title.
    pages = [path for path in sorted(folder.glob("*.md")) if path.name != "README.md"]
    lines = [f"* [{path.read_text().splitlines()[0].removeprefix('# ')}]({path.name})\n" for path in pages]
    (folder / "README.md").write_text(
        "# Incidents\n\nWhat iostat shows, what raidtrace says, and what changed. Made by `tools/incidents --pages` from played incidents; "
        "their recordings are in `tests/incidents/recorded`, so each command can be repeated.\n\n" + "".join(lines))
