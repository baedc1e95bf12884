# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs `parley conform` in guest a against Linux's siw and stock rping in guest b.

Reads /out/runs.json; each run leaves NAME.md, NAME.json, NAME.xml and NAME.pcapng in /out, and all of them results.json.
Cases that end otherwise than expected are asked again (NAME.again1.md, ...): some answers depend on a race between siw and
the program above it. The host judges.
"""
import json
import re
import subprocess
import sys
import time

from conform_peer import PORT as PEER_PORT
from guest_calls import ADDRESS, Remote

LIMIT_S = 900  # of one run; the longest case waits for a peer's own timer, a minute
AGAIN = 3      # how often a case that ended otherwise than expected is asked again
ODD_MAX = 12   # more than that is no race


def fresh_rping(role, port):
    """A shell command that has guest b run a new rping for as long as the command lives."""
    return f"exec bash -c 'exec 3<>/dev/tcp/{ADDRESS['b'][4]}/{PEER_PORT} && echo {role} {port} >&3 && exec cat <&3'"


def verdicts(report):
    """Verdict by case, from the table of a report."""
    rows = (line.split(" | ") for line in report.splitlines() if re.match(r"\| [0-9+-]+ \| ", line))
    return {row[1]: row[4] for row in rows if len(row) > 5}


def command(run, name, options):
    port = run["port"]
    if run["iut"] == "responder":
        words = ["/out/parley", "conform", "responder", f"{ADDRESS['b'][4]}:{port}", "--run", fresh_rping("server", port)]
    else:
        words = ["/out/parley", "conform", "initiator", "--listen", f"{ADDRESS['a'][4]}:{port}", "--run",
                 fresh_rping("client", port)]
    return words + ["--run-limit", "0s", "--ulp", "rping", "--markdown", f"/out/{name}.md", "--junit", f"/out/{name}.xml",
                    "--pcapng", f"/out/{name}.pcapng", "--json", *options]


def once(run, name, options):
    """Verdict by case of one run of the tool, its exit status, and what went wrong."""
    with open(f"/out/{name}.json", "wb") as out, open(f"/out/{name}.err", "wb") as err:
        try:
            status = subprocess.run(command(run, name, options), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                    timeout=LIMIT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            return {}, None, f"not done after {LIMIT_S} s"
    try:
        with open(f"/out/{name}.md", encoding="utf-8") as report:
            return verdicts(report.read()), status, None
    except OSError:
        return {}, status, "no report"


def carry_out(run, there):
    there.siw(run["siw"])
    begin = time.monotonic()
    found, status, error = once(run, run["name"], run["options"])
    history = {case: [verdict] for case, verdict in found.items()}
    for again in range(1, AGAIN + 1):
        odd = [case for case, verdict in found.items() if run["expected"].get(case, verdict) != verdict]
        if error or not odd or len(odd) > ODD_MAX:
            break
        newer, _, _ = once(run, f"{run['name']}.again{again}", ["--only", f"^({'|'.join(odd)})$"])
        for case in odd:
            if case in newer:
                found[case] = newer[case]
                history[case].append(newer[case])
    return {"name": run["name"], "status": status, "error": error, "verdicts": found,
            "changed": {case: seen for case, seen in history.items() if len(set(seen)) > 1},
            "seconds": time.monotonic() - begin}


def main():
    with open("/out/runs.json", encoding="utf-8") as file:
        runs = json.load(file)
    there = Remote()
    results = []
    for run in runs:
        results.append(carry_out(run, there))
        with open("/out/results.json", "w", encoding="utf-8") as file:
            json.dump(results, file)
    there.leave()


if __name__ == "__main__":
    sys.exit(main())
