# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Recordings of incidents that are kept in the repository, and what raidtrace says of them today."""

import concurrent.futures
import json
import re
import subprocess

from incident import score

MAX_BYTES = 200 * 1024
MAX_DEMOS = 600 * 1024  # of the recordings that are part of raidtrace
# Seconds before and after the cause: the longest period whose recording is not larger is kept.
PERIODS = ((11, 30), (9, 11), (7, 9), (6, 7), (5, 5), (4, 4))
# Exported in every format; each of the other recordings is exported in one.
EXPORTED = ("check-raid5", "control-steady", "frozen", "hang-raid5", "neighbour-reader", "slow-raid1")
FORMATS = ("csv", "ndjson", "parquet", "perfetto", "fio")


def causes(folder):
    """Time of the cause in each recording."""
    path = folder / "causes"
    if not path.exists():
        return {}
    return {name: float(at) for name, at in (line.split() for line in path.read_text().splitlines())}


def keep(results, out, folder, repack):
    """Copies the recordings of valid incidents, smaller, and cut where that is not enough. Prints what is not kept."""
    folder.mkdir(exist_ok=True)
    times = causes(folder)
    for result in results:
        name = result.incident.name
        if result.invalid:
            print(f"{name}: not kept: {result.invalid}")
            continue
        kept = folder / f"{name}.rtrace"
        cause = score.marks(out / name)["cause"]
        for before, after in PERIODS:
            period = (str(cause - before), str(cause + after))
            subprocess.run([repack, out / name / "incident.rtrace", kept, *period], check=True, stdout=subprocess.DEVNULL)
            if kept.stat().st_size <= MAX_BYTES:
                times[name] = cause
                break
        else:
            print(f"{name}: not kept: {kept.stat().st_size} bytes of {before} s before and {after} s after the cause")
            kept.unlink()
            times.pop(name, None)
    text = "".join(f"{name} {at:.3f}\n" for name, at in sorted(times.items()))
    (folder / "causes").write_text(text)


def demos(folder, code, repack):
    """Cuts and compresses the recordings that are part of raidtrace, whose names are in its code."""
    times = causes(folder)
    target = code.parent / "demo"
    target.mkdir(exist_ok=True)
    for old in target.iterdir():
        old.unlink()
    for name in re.findall(r'incident!\("([^"]+)"', code.read_text()):
        first, last = times[name] - 8, times[name] + 6
        kept = target / f"{name}.rtrace.zst"
        subprocess.run([repack, folder / f"{name}.rtrace", kept, str(first), str(last)], check=True, stdout=subprocess.DEVNULL)
        print(f"{kept.stat().st_size:7} {name}")
    print(f"{sum(path.stat().st_size for path in target.iterdir()):7} bytes, at most {MAX_DEMOS}")


def run(binary, *arguments):
    """(status, stdout, stderr) of a command."""
    done = subprocess.run([binary, *arguments], capture_output=True)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


def one_line(text):
    return " ".join(text.split())


def check(incident, recording, cause, binary, folder, formats):
    """Faults of what raidtrace says of a recording, one line each."""
    faults = []
    report, is_right = score.recorded(incident, recording, binary)
    if not is_right:
        faults.append(f"report says: {report}")
    # One engine: all views of a file begin with the same sentence.
    sentence = one_line(report.split("; writes to", 1)[0])[:120]
    _, page, _ = run(binary, "report", "--html", "-", recording)
    if html(sentence) not in one_line(page):
        faults.append(f"the HTML page does not say: {sentence}")
    status, answer, error = run(binary, "why", "--replay", recording)
    if status not in ((0,) if incident.healthy else (3, 4)):
        faults.append(f"why ends with {status}: {one_line(answer + error)[:200]}")
    status, lines, error = run(binary, "top", "--replay", recording, "--json")
    spoken = [score.said(json.loads(line)) for line in lines.splitlines()]
    if status or not spoken:
        faults.append(f"top --replay --json ends with {status}: {error.strip()}")
    if incident.healthy:
        faults += [f"a warning: {s.sentence}" for s in spoken if s.warns][:1]
    else:
        sick = [s for s in spoken if s.time >= cause]
        if not any(score.is_right(incident, s) and s.time <= cause + score.LIMIT_SECONDS for s in sick):
            faults.append(f"not named within {score.LIMIT_SECONDS} s")
        faults += [f"accused: {m}" for m in sorted({m for s in sick for m in score.innocent(incident, s)})]
    for form in formats:
        path = folder / f"{incident.name}.{form}"
        export = (binary, "export", recording, "-f", form, "-o", path)
        status, _, error = run(*export)
        if "several arrays" in error:
            status, _, error = run(*export, "--array", "md0")
        if status or not path.exists():
            faults.append(f"export -f {form} ends with {status}: {error.strip()}")
    return faults


def html(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def check_all(incidents, folder, binary, scratch):
    """Prints a line for each fault that is not in `folder`/known, and for each known one that is gone. True without any."""
    at = causes(folder)
    path = folder / "known"
    known = dict(line.split(": ", 1) for line in path.read_text().splitlines()) if path.exists() else {}
    present = [i for i in incidents if i.name in at]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        formats = (FORMATS if i.name in EXPORTED else [FORMATS[number % len(FORMATS)]] for number, i in enumerate(present))
        jobs = {i.name: pool.submit(check, i, folder / f"{i.name}.rtrace", at[i.name], binary, scratch, each)
                for i, each in zip(present, formats)}
        found = {name: job.result() for name, job in jobs.items()}
    new = {name: faults for name, faults in found.items() if faults and name not in known}
    for name, faults in new.items():
        for fault in faults:
            print(f"{name}: {fault}")
    gone = [name for name in known if name in found and not found[name]]
    for name in gone:
        print(f"{name}: right now; remove it from {path.name}: {known[name]}")
    print(f"{len(found) - len(new)} of {len(found)} recordings as expected, {sum(name in found for name in known)} of them with a known fault")
    return not new and not gone
