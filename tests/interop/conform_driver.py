# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs `parley conform` in guest a against Linux's siw and stock rping in guest b.

Reads /out/runs.json; each run leaves NAME.md, NAME.json, NAME.xml and NAME.pcapng in /out, and all of them results.json.
It judges nothing: the host compares the reports.
"""
import json
import subprocess
import sys
import time

from conform_peer import PORT as PEER_PORT
from guest_calls import ADDRESS, Remote

LIMIT_S = 900  # of one run; the longest case waits for a peer's own timer, a minute


def fresh_rping(role, port):
    """A shell command that has guest b run a new rping for as long as the command lives."""
    return f"exec bash -c 'exec 3<>/dev/tcp/{ADDRESS['b'][4]}/{PEER_PORT} && echo {role} {port} >&3 && exec cat <&3'"


def command(run):
    name, port = run["name"], run["port"]
    if run["iut"] == "responder":
        words = ["/out/parley", "conform", "responder", f"{ADDRESS['b'][4]}:{port}", "--run", fresh_rping("server", port)]
    else:
        words = ["/out/parley", "conform", "initiator", "--listen", f"{ADDRESS['a'][4]}:{port}", "--run",
                 fresh_rping("client", port)]
    return words + ["--run-limit", "0s", "--ulp", "rping", "--markdown", f"/out/{name}.md", "--junit", f"/out/{name}.xml",
                    "--pcapng", f"/out/{name}.pcapng", "--json", *run["options"]]


def carry_out(run, there):
    there.siw(run["siw"])
    result = {"name": run["name"], "command": " ".join(command(run)), "status": None, "error": None}
    begin = time.monotonic()
    with open(f"/out/{run['name']}.json", "wb") as out, open(f"/out/{run['name']}.err", "wb") as err:
        try:
            result["status"] = subprocess.run(command(run), stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                              timeout=LIMIT_S, check=False).returncode
        except subprocess.TimeoutExpired:
            result["error"] = f"not done after {LIMIT_S} s"
    result["seconds"] = time.monotonic() - begin
    return result


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
