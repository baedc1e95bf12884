#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How long it takes to find 13,284 nodes on a subnet that ibsim simulates, and how much memory: `parley mad discover` beside stock
ibnetdiscover, in turn, each with several windows. Output goes to a file in both.

usage: mad_discover.py PARLEY [--rounds N] [--fat-tree LEVELS,RADIX,PODS,HOSTS]"""
import argparse
import glob
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WINDOWS = (8, 16, 32, 64)


def preload():
    return next(iter(glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")), "")


def peak_of(pid):
    """Its most memory so far in MB; 0 once it has ended. What wait4 says would count the memory of Python before exec."""
    try:
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            return next((int(line.split()[1]) / 1024 for line in file if line.startswith("VmHWM:")), 0)
    except OSError:
        return 0


def measured(command, environment, out):
    """Wall clock and CPU seconds, and the most memory in MB."""
    began, peak, pid = time.monotonic(), 0, 0
    with open(out, "wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL, env=environment)
        while pid == 0:
            time.sleep(0.005)
            peak = max(peak, peak_of(process.pid))
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"mad_discover: {command[0]} ended with {process.returncode}")
    return time.monotonic() - began, used.ru_utime + used.ru_stime, peak


def ibsim(folder, net):
    environment = {**os.environ, "IBSIM_SOCKNAME": f"parleybench{os.getpid()}", "OSM_CACHE_DIR": folder}
    server = subprocess.Popen(["ibsim", "-s", "-n", "-N", "16000", "-S", "2000", "-P", "100000", net], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, env=environment)
    return server, environment


def until_served(parley, environment):
    end = time.monotonic() + 60
    while subprocess.run([parley, "mad", "query", "SubnGet", "NodeInfo", "0,"], env=environment, capture_output=True, check=False).returncode != 0:
        if time.monotonic() > end:
            sys.exit("mad_discover: ibsim does not serve")
        time.sleep(0.1)


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return sorted(line for line in file if line.strip() and not line.startswith("#"))


def show(options, folder, environment):
    parley = [os.path.abspath(options.parley), "mad", "discover", "--transport", f"ibsim:{environment['IBSIM_SOCKNAME']}/H00001", "--window"]
    stock = {**environment, "SIM_HOST": "H00002", "LD_PRELOAD": preload()}
    files = [os.path.join(folder, name) for name in ("parley", "stock")]
    best = [[], []]
    print(f"{'window':>7} {'parley mad discover':>32} {'ibnetdiscover':>32} {'ratio':>6}   (medians of {options.rounds}: wall, CPU, memory)")
    for window in WINDOWS:
        runs = [[], []]
        for _ in range(options.rounds):
            runs[0].append(measured([*parley, str(window)], environment, files[0]))
            runs[1].append(measured(["ibnetdiscover", "-o", str(window)], stock, files[1]))
        if lines_of(files[0]) != lines_of(files[1]):
            sys.exit("mad_discover: they found different subnets")
        medians = [[statistics.median(run[i] for run in which) for i in range(3)] for which in runs]
        for which in range(2):
            best[which].append(medians[which][0])
        words = [f"{wall:8.2f} s {cpu:8.2f} s {memory:7.0f} MB" for wall, cpu, memory in medians]
        print(f"{window:>7} {words[0]:>32} {words[1]:>32} {medians[0][0] / medians[1][0]:>6.2f}", flush=True)
    print(f"each at its best window: {min(best[0]):.2f} s and {min(best[1]):.2f} s, ratio {min(best[0]) / min(best[1]):.2f}")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("parley")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--fat-tree", default="3,36,36,18")
    options = arguments.parse_args()
    if not preload() or not shutil.which("ibsim") or not shutil.which("ibnetdiscover"):
        print("left out: no ibsim or ibnetdiscover (Debian: ibsim-utils infiniband-diags)")
        return
    with tempfile.TemporaryDirectory(prefix="parley-bench-") as folder:
        net = os.path.join(folder, "net")
        subprocess.run([options.parley, "fabric", "--fat-tree", options.fat_tree, "--write", net], check=True, stdout=subprocess.DEVNULL)
        server, environment = ibsim(folder, net)
        try:
            until_served(options.parley, environment)
            show(options, folder, environment)
        finally:
            server.kill()
            server.wait()


if __name__ == "__main__":
    main()
