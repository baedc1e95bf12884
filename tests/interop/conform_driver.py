# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs `parley conform` in guest a against Linux's siw and stock rping in guest b.

Reads /out/runs.json; each run leaves STEM.md, STEM.json, STEM.xml and STEM.pcapng in /out, and all of them results.json.
Cases that end otherwise than expected are asked again (STEM.again1.md, ...): some answers depend on a race between siw and
the program above it. The host judges. It also watches guest b's console and marks in /out when that kernel has died: then
the tool is told to end, and nothing more is run.
"""
import json
import os
import re
import signal
import subprocess
import sys
import time

from conform_peer import PORT as PEER_PORT
from guest_calls import ADDRESS, Remote, end_by_force

DIED = "/out/.mark.b-died"
LIMIT_S = 900     # of one run; the longest case waits for a peer's own timer
BOOT_S = 240      # until guest b answers; both boot at once, on a machine that may be busy
AGAIN = 3         # how often a case that ended otherwise than expected is asked again
ODD_MAX = 20      # more than that is no race
ONLY_OCTETS = 900  # of names in one --only, which takes no more than 1000
GONE = 3          # exit status of the tool whose peer is not there any more
PACE = ["--pause", "50ms", "--timer", "30s", "--first-fpdu-after", "100ms"]  # each case has a fresh rping; siw's timers are 10 s


def fresh_rping(role, port):
    """A shell command that has guest b run a new rping for as long as the command lives.

    Told to end, it waits for rping's end: the next case must not reach the rping of this one.
    """
    return f"exec bash -c 'exec 3<>/dev/tcp/{ADDRESS['b'][4]}/{PEER_PORT} || exit; " \
           f"trap \"echo end >&3; cat <&3; exit\" TERM; echo {role} {port} $PARLEY_CASE >&3; " \
           "while read -r line <&3; do echo $line; done'"


def verdicts(report):
    """Verdict by case, from the table of a report."""
    rows = (line.split(" | ") for line in report.splitlines() if re.match(r"\| [0-9+-]+ \| ", line))
    return {row[1]: row[4] for row in rows if len(row) > 5}


def chunks(names, at_once=1000):
    """Expressions for --only that name all the cases, in as few pieces as its length allows."""
    piece = []
    for name in names:
        if piece and (len(piece) == at_once or len("|".join([*piece, name])) > ONLY_OCTETS):
            yield f"^({'|'.join(piece)})$"
            piece = []
        piece.append(name)
    if piece:
        yield f"^({'|'.join(piece)})$"


def command(run, stem, options):
    port = run["port"]
    if run["iut"] == "responder":
        words = ["/tmp/parley", "conform", "mpa", "responder", f"{ADDRESS['b'][4]}:{port}", "--run", fresh_rping("server", port),
                 "--connect-timeout", "20s"]  # rping takes its time to listen where the host is busy
    else:
        words = ["/tmp/parley", "conform", "mpa", "initiator", "--listen", f"{ADDRESS['a'][4]}:{port}", "--run",
                 fresh_rping("client", port)]
    return words + ["--run-limit", "0s", "--ulp", "rping", *PACE, "--markdown", f"/out/{stem}.md", "--junit",
                    f"/out/{stem}.xml", "--pcapng", f"/out/{stem}.pcapng", "--json", *options]


def end_of(process):
    """Exit status of the tool, and what went wrong with it or with guest b."""
    deadline = time.monotonic() + LIMIT_S
    error = None
    while error is None:
        try:
            return process.wait(0.2), None
        except subprocess.TimeoutExpired:
            if os.path.exists(DIED):
                error = "dead"
            elif time.monotonic() > deadline:
                error = f"not done after {LIMIT_S} s"
    process.send_signal(signal.SIGTERM)  # it writes its reports then
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        end_by_force(process)
    return process.returncode, error


def once(run, stem, options):
    """Verdict by case of one run of the tool, its exit status, and what went wrong."""
    with open(f"/out/{stem}.json", "wb") as out, open(f"/out/{stem}.err", "wb") as err:
        status, error = end_of(subprocess.Popen(command(run, stem, options), stdin=subprocess.DEVNULL, stdout=out,
                                                stderr=err))
    if error is None and status == GONE:
        error = "dead"
    try:
        with open(f"/out/{stem}.md", encoding="utf-8") as report:
            return verdicts(report.read()), status, error
    except OSError:
        return {}, status, error or "no report"


def first_pass(run):
    """Verdicts of all cases of the run; a run that goes on after a crash is told which are left."""
    if run["cases"] is None:
        return once(run, run["stem"], run["options"] + (["--only", run["only"]] if run["only"] else []))
    found, status, error = {}, 0, None
    for number, only in enumerate(chunks(run["cases"], run["at_once"])):
        newer, status, error = once(run, f"{run['stem']}.{number}" if number else run["stem"],
                                    [*run["options"], "--only", only])
        found.update({case: verdict for case, verdict in newer.items() if case in run["cases"] and case not in found
                      and re.search(only, case)})
        if error:
            break
    return found, status, error


def carry_out(run):
    begin = time.monotonic()
    found, status, error = first_pass(run)
    result = {"name": run["name"], "stem": run["stem"], "status": status, "again": []}
    history = {case: [verdict] for case, verdict in found.items()}
    for again in range(1, AGAIN + 1):
        odd = [case for case, verdict in found.items() if run["expected"].get(case, verdict) != verdict]
        if error or not odd or len(odd) > ODD_MAX:
            break
        result["again"] = odd
        for number, only in enumerate(chunks(odd)):
            newer, _, error = once(run, f"{run['stem']}.again{again}.{number}", [*run["options"], "--only", only])
            if error:
                break
            for case in odd:
                if re.search(only, case) and case in newer:
                    found[case] = newer[case]
                    history[case].append(newer[case])
    return {**result, "error": error, "verdicts": found,
            "changed": {case: seen for case, seen in history.items() if len(set(seen)) > 1},
            "seconds": time.monotonic() - begin}


def main():
    with open("/out/runs.json", encoding="utf-8") as file:
        runs = json.load(file)
    there = Remote(BOOT_S)
    results = []
    for run in runs:
        there.siw(run["siw"])
        results.append(carry_out(run))
        with open("/out/results.new", "w", encoding="utf-8") as file:
            json.dump(results, file)
        os.replace("/out/results.new", "/out/results.json")
        if results[-1]["error"] == "dead":
            return
    there.leave()


if __name__ == "__main__":
    sys.exit(main())
