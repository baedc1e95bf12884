# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs the matrix from guest a: Parley over this guest's plain TCP, Linux's siw and stock rping in guest b.

Reads /out/cases.json, writes /out/results.json (a list of attempts, of those cases that came to their end) and /out/all.pcap. It
judges nothing beyond exit codes: the host does, with the captures at hand. When guest b is lost it ends: the host boots anew.
"""
import json
import os
import signal
import subprocess
import sys
import time

from guest_calls import ADDRESS, Guest, Remote, ended_well

LIMIT_S = {False: 60, True: 120}  # pings take about a second; on the disturbed wire each loss costs 0.2 s or more
CAPTURE_LATE_S = 1.5             # the kernel gives tcpdump what it has once a second, and nothing more at its end
LINGER_S = 10                    # how long the other side may take to see the end


def commands(plan, case, port):
    """The server's and the client's command line."""
    parley = plan["parley"]
    numbers = ["-p", str(port), "-C", str(case["count"])]
    to_siw = case["direction"] == "to-siw"
    server_address = ADDRESS["b" if to_siw else "a"][case["family"]]
    ours, stock = parley, ["rping"]
    server = (stock if to_siw else ours) + ["-s", "-a", server_address, *numbers, "-S", str(max(case["size"], 64))]
    client = (ours if to_siw else stock) + ["-c", "-a", server_address, *numbers, "-S", str(case["size"]), "-V"]
    if case["kind"] == "v1":
        server += ["-v", "-d"] if to_siw else ["-v"]
        if to_siw:
            client += plan["revision_1"]
    return server, client


def attempt(plan, case, port, here, there):
    to_siw = case["direction"] == "to-siw"
    server_side, client_side = (there, here) if to_siw else (here, there)
    server, client = commands(plan, case, port)
    result = {"name": case["name"], "port": port, "case_port": case["port"], "server": None, "client": None, "error": None,
              "commands": [" ".join(server), " ".join(client)]}
    there.siw(case["siw"])
    result["error"] = server_side.start(server, port)
    if result["error"]:
        return result
    if case["netem"]:
        there.netem(True)
        here.netem(True)
    begin = time.monotonic()
    try:
        result["error"] = client_side.start(client)
        if not result["error"]:
            result["client"] = client_side.finish(LIMIT_S[case["netem"]])
    finally:
        if case["netem"]:
            here.netem(False)
            there.netem(False)
    result["seconds"] = time.monotonic() - begin
    result["server"] = server_side.finish(LINGER_S if result["client"] and result["client"]["status"] == 0 else 2)
    return result


def passed(case, result):
    server, client = result["commands"]
    return case["kind"] != "rping" or (ended_well(client, result["client"]) and ended_well(server, result["server"]))


def attempts(plan, case, here, there):
    """All that it takes, until one has passed."""
    results = []
    for number in range(plan["attempts"]):
        result = attempt(plan, case, case["port"] + number, here, there)
        results.append(result)
        with open("/out/progress", "a", encoding="utf-8") as progress:
            progress.write(f"{case['name']} {number} {passed(case, result)} {result.get('seconds', 0):.1f}\n")
        if passed(case, result):
            break
    return results


def carry_out(plan, here, there):
    """Runs all cases, or as many as guest b lives for: then why it is taken for lost."""
    results = []
    for case in plan["cases"]:
        try:
            results += attempts(plan, case, here, there)
        except OSError as error:
            return f"guest b is lost in {case['name']}: {error}"
        with open("/out/results.new", "w", encoding="utf-8") as file:
            json.dump(results, file)
        os.replace("/out/results.new", "/out/results.json")
    there.leave()
    return None


def main():
    with open("/out/cases.json", encoding="utf-8") as file:
        plan = json.load(file)
    here, there = Guest(), Remote()
    with open("/out/tcpdump.log", "wb") as log:
        tcpdump = subprocess.Popen(["tcpdump", "-Z", "root", "-i", os.environ["NIC"], "-s", "0", "-B", "16384",
                                    "-w", "/out/all.pcap", "tcp portrange 10000-19999"], stderr=log)
    deadline = time.monotonic() + 20
    while not os.path.getsize("/out/tcpdump.log") and time.monotonic() < deadline:
        time.sleep(0.05)
    lost = carry_out(plan, here, there)
    time.sleep(CAPTURE_LATE_S)
    tcpdump.send_signal(signal.SIGINT)
    tcpdump.wait()
    return lost


if __name__ == "__main__":
    sys.exit(main())
