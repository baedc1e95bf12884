# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs one guest's part of each case, in step with the other guest: files in /out say how far each is."""
import json
import os
import re
import signal
import subprocess
import sys
import time

from guest_calls import end_by_force, reachable

LIMIT = 60          # seconds for a client, and for the other guest to come as far
SERVER_LIMIT = 15   # for a server to end once its client has
NETEM = ["delay", "2ms", "1ms", "loss", "3%"]  # jitter, which changes the order, too
ESTABLISHED, REQUESTED = r'"event":"established"|^established$', r"^request$"  # of a Parley with --json, or of end_peer
AGAIN = ".again"    # behind a case's number, before the number of its further attempt


def mark(name):
    with open(f"/out/.mark.{name}", "w", encoding="ascii"):
        pass


def wait_for(name, seconds=LIMIT + SERVER_LIMIT + 30):
    end = time.monotonic() + seconds
    while not os.path.exists(f"/out/.mark.{name}"):
        if time.monotonic() > end:
            sys.exit(f"the other guest did not come to {name}")
        time.sleep(0.05)


def tc(*words):
    nic = os.environ["NIC"]
    subprocess.run(["tc", "qdisc", words[0], "dev", nic, "root", *words[1:]], check=False)


def start(command, path):
    with open(path, "w", encoding="utf-8") as output:
        # Line by line, so that what a server said is there when it has to be interrupted.
        return subprocess.Popen(["stdbuf", "-oL", *command.split()], stdout=output, stderr=subprocess.STDOUT)


def finish(process, seconds):
    """Its exit status, or None if it had to be ended."""
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        end_by_force(process)
    return None


def listens(case, process, log):
    """Parley says so; of others, unless the case knows better, there is nothing to see but time."""
    end = time.monotonic() + LIMIT
    said = case["ready"] or "listening"
    while time.monotonic() < end and process.poll() is None:
        if not case["ready"] and ("parley" not in case["server"] or "parley verbs" in case["server"]):
            time.sleep(1)
            return
        with open(log, encoding="utf-8") as text:
            if said in text.read():
                return
        time.sleep(0.1)


def until_said(log, what):
    end = time.monotonic() + LIMIT / 2
    while time.monotonic() < end:
        with open(log, encoding="utf-8") as text:
            if re.search(what, text.read(), re.MULTILINE):
                break
        time.sleep(0.1)


def remove(device, log, outcome):
    until_said(log, ESTABLISHED)
    begin = time.monotonic()
    ended = subprocess.Popen(["rdma", "link", "delete", device])
    try:
        outcome["removal"] = ended.wait(30)
    except subprocess.TimeoutExpired:
        outcome["removal"] = None  # it cannot be interrupted, and the guest is of no further use
    outcome["removal_seconds"] = time.monotonic() - begin


class Tcpdump:
    """What guest a sees of siw's connections."""

    def __init__(self):
        with open("/out/tcpdump.log", "wb") as log:
            self.process = subprocess.Popen(["tcpdump", "-Z", "root", "-i", os.environ["NIC"], "-s", "0", "-B", "16384", "-U",
                                             "-w", "/out/siw.pcap", "tcp portrange 12000-13999"], stderr=log)
        end = time.monotonic() + 20
        while not os.path.getsize("/out/tcpdump.log") and time.monotonic() < end:
            time.sleep(0.05)

    def finish(self):
        time.sleep(1.5)  # the kernel gives tcpdump what it has once a second, and nothing more at its end
        self.process.send_signal(signal.SIGINT)
        self.process.wait()


def ended_ill(case, number):
    """Of an attempt that is over; both guests see the same."""
    for side in ("server", "client"):
        with open(f"/out/{number}.{side}.json", encoding="utf-8") as file:
            got = json.load(file)[f"{side}_exit"]
        if case[f"{side}_exit"] not in (None, got):
            return True
    return False


def serve(case, number):
    log = f"/out/{number}.server.log"
    outcome = {}
    process = start(case["server"], log)
    listens(case, process, log)
    mark(f"{number}.up")
    if case["remove"]:
        wait_for(f"{number}.started")
        remove(case["remove"], log, outcome)
    if case["on_request"]:
        until_said(log, REQUESTED)
        subprocess.run(case["on_request"], shell=True, check=False)
    wait_for(f"{number}.done")
    if case["interrupt"] and process.poll() is None:
        process.send_signal(signal.SIGINT)
    outcome["server_exit"] = finish(process, SERVER_LIMIT)
    with open(f"/out/{number}.server.json", "w", encoding="utf-8") as file:
        json.dump(outcome, file)
    mark(f"{number}.over")


def call(case, number):
    wait_for(f"{number}.up")
    begin = time.monotonic()
    log = f"/out/{number}.client.log"
    process = start(case["client"], log)
    mark(f"{number}.started")
    if case["meanwhile"]:
        until_said(log, ESTABLISHED)
        subprocess.run(case["meanwhile"], shell=True, check=False)
    outcome = {"client_exit": finish(process, LIMIT), "seconds": time.monotonic() - begin}
    with open(f"/out/{number}.client.json", "w", encoding="utf-8") as file:
        json.dump(outcome, file)
    mark(f"{number}.done")
    wait_for(f"{number}.over")


def change_device(before, after, me):
    """From none, or one kind, to another. rxe's module has UDP port 4791 as long as it is loaded, device or not."""
    if before:
        subprocess.run(["rdma", "link", "delete", f"{before}0"], check=False, stderr=subprocess.DEVNULL)
    kind, _, only = after.partition("-")
    if only in ("", me):
        subprocess.run(["rdma", "link", "add", f"{kind}0", "type", kind, "netdev", os.environ["NIC"]], check=True)
    else:
        subprocess.run(["rmmod", "rdma_rxe"], check=True)
        # For a second process on UDP port 4791.
        subprocess.run(["ip", "address", "add", "192.0.2.3/24", "dev", os.environ["NIC"]], check=True)


def main():
    me = "a" if os.environ["ME"] == "1" else "b"
    with open("/out/cases.json", encoding="utf-8") as file:
        cases = json.load(file)
    device = tcpdump = None
    for case in cases:
        number = case["number"]
        if case["device"] != device:
            change_device(device, case["device"], me)
            device = case["device"]
            mark(f"{device}.{me}")
            wait_for(f"{device}.{'b' if me == 'a' else 'a'}")
            if tcpdump:
                tcpdump.finish()
            tcpdump = Tcpdump() if device == "siw" and me == "a" else None
        if case["netem"]:
            tc("add", "netem", *NETEM)
        part = serve if case["server_guest"] == me else call
        part(case, number)
        # siw may sleep through a first FPDU. Whether it did is judged by the capture.
        attempt = number
        for turn, again in enumerate(case["again"]):
            if device != "siw" or case["remove"] or not ended_ill(case, attempt):
                break
            attempt = f"{number}{AGAIN}{turn}"
            part({**case, **again}, attempt)
        if case["netem"]:
            tc("del")
        if ended_ill(case, attempt) and not reachable("b" if me == "a" else "a"):
            sys.exit(f"the other guest does not answer any more after {case['name']}")
        if me == "a":
            with open("/out/ended", "w", encoding="ascii") as ended:
                ended.write(f"{number}\n")
    if tcpdump:
        tcpdump.finish()


main()
