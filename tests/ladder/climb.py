#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Climbs the ladder of rungs.py: runs each rung and holds it to what rungs.py says.

usage: climb.py [--all] [--only WORDS] [--json FILE] | --table | --check-table FILE

--all     all rungs; otherwise those of ./dev test
--only    only rungs whose name contains WORDS
--json    writes one object per rung to FILE: group, rung, passed, expected, took_s, output of a failure
--table   prints the rungs as the table of docs/run.md, runs nothing
--check-table   whether FILE contains that table

PARLEY is the command, build/bin/parley by default. Exit status: 0 each rung did what is expected, 1 one did not, 3 a program is missing."""
import argparse
import collections
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from rungs import RUNGS

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "script"))
from cli import address  # noqa: E402
from stock import REJECTED, ended_well, free_port, listens, receives  # noqa: E402

PARLEY = os.environ.get("PARLEY", os.path.join(HERE, "..", "..", "build", "bin", "parley"))
LIMIT = 60        # seconds for a rung
LISTENS = 0.15    # seconds from the open device to a program's rdma_listen or join, which it does not report


def address_with_lid(n):
    """As address(), with a LID: all differ in the last two octets only. n is 1 or 2."""
    pid = os.getpid()
    return f"127.{96 + (pid >> 14 & 31)}.{1 + (pid >> 7 & 127)}.{(pid & 127) << 1 | (n - 1)}"


class Interfaces:
    """A network namespace with two interfaces and a link between them."""
    addresses = "198.18.0.1", "198.18.0.2"
    script = """
ip link set lo up
ip link add r1 type veth peer name r2
ip addr add 198.18.0.1/24 dev r1
ip addr add 198.18.0.2/24 dev r2
ip link set r1 up
ip link set r2 up
echo
exec sleep infinity
"""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "-n", "sh", "-ec", self.script], stdout=subprocess.PIPE)
        self.holder.stdout.readline()

    def inside(self):
        return "nsenter", f"--target={self.holder.pid}", "--net"

    def end(self):
        self.holder.kill()
        self.holder.communicate()


class Climb:
    """The processes of a rung."""

    def __init__(self, rung, folder):
        self.rung = rung
        self.folder, self.port, self.copy = folder, free_port(), os.path.join(folder, "copy")
        self.interfaces = Interfaces() if rung.interfaces else None
        self.names = {"a": self.server_name(), "p": self.port, "from": os.path.join(HERE, "rungs.py"), "to": self.copy}
        self.processes = []
        if rung.compiler:
            self.names["mpi"] = os.path.join(folder, rung.compiler)
            if not os.path.exists(self.names["mpi"]):
                subprocess.run([rung.compiler, "-o", self.names["mpi"], os.path.join(HERE, "ranks.c")], check=True)

    def server_name(self):
        if self.interfaces:
            return self.interfaces.addresses[0]
        return address(1) if self.rung.ready == "roce" or self.rung.group == "rsockets" else "127.0.0.1"

    def own_address(self, n):
        """n is 1 for the server, 2 for the client."""
        n = 1 if self.rung.together else n
        if self.interfaces:  # libfabric's server listens at 127.0.0.1
            return self.interfaces.addresses[n - 1] + (",127.0.0.1" if n == 1 else "")
        return address_with_lid(n) if self.rung.under else address(n)

    def begin(self, n, words):
        where = self.interfaces.inside() if self.interfaces else ()
        process = subprocess.Popen([*where, PARLEY, "run", "-a", self.own_address(n), *self.rung.under, *(word.format(**self.names) for word in words)],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL, cwd=self.folder,
                                   env=os.environ | dict(word.split("=", 1) for word in self.rung.env))
        self.processes.append(process)
        return process

    def wait_until_ready(self, server):
        of = self.interfaces.holder.pid if self.interfaces else "self"
        ready = (lambda: listens(self.port, of)) if self.rung.ready == "tcp" else (lambda: receives(self.names["a"], of))
        end = time.monotonic() + LIMIT
        while not ready() and server.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        if self.rung.ready == "roce":
            time.sleep(LISTENS)

    def what_is_wrong(self, who, process, said):
        if not ended_well(process, said):
            return f"{who}: exit status {process.returncode}\n{said}"
        missing = [held for held in self.rung.holds if (who == "client" or self.rung.both) and not re.search(held, said)]
        return f"{who}: no {missing[0]}\n{said}" if missing else ""

    def client_of(self, server):
        """A client that ended, and what it said. It starts again while the server does not listen yet."""
        end = time.monotonic() + LIMIT
        while True:
            client = self.begin(2, self.rung.client)
            said = client.communicate(timeout=LIMIT)[0]
            too_early = server and self.rung.ready == "roce" and re.search(REJECTED, said) and server.poll() is None
            if not too_early or time.monotonic() > end:
                return client, said

    def run(self):
        """What is wrong; empty: nothing."""
        try:
            return self.run_both()
        finally:
            if self.interfaces:
                self.interfaces.end()

    def run_both(self):
        server = self.begin(1, self.rung.server) if self.rung.server else None
        if server:
            self.wait_until_ready(server)
        try:
            wrong = ""
            wrong = self.what_is_wrong("client", *self.client_of(server))
            if not wrong and server and not self.rung.serves_on:
                wrong = self.what_is_wrong("server", server, server.communicate(timeout=LIMIT)[0])
        except subprocess.TimeoutExpired as late:
            wrong = f"not over after {LIMIT} s\n{(late.stdout or b'').decode(errors='replace')}"
        for process in self.processes:
            process.kill()
            if not process.stdout.closed:
                rest = process.communicate()[0]
                wrong += f"\n--- {' '.join(process.args[2:])}\n{rest}" if wrong and rest else ""
        if not wrong and "{to}" in " ".join(self.rung.client):
            with open(self.names["from"], "rb") as sent, open(self.copy, "rb") as got:
                wrong = "" if sent.read() == got.read() else "the copy differs"
        return wrong


def table():
    """Markdown: for each group and server program, the options that were run."""
    rows = collections.defaultdict(list)
    for rung in RUNGS:
        words = rung.name.removeprefix(" ".join(rung.env)).split()
        text = re.sub(r"(^| )(-g 0|-n \d+|-C \d+|-V|-v|-c -a|-s(?! \d)|{from}:{to})(?= |$)", "", " ".join([*words[1:], *rung.env])).strip() or "(none)"
        rows[rung.group, words[0]].append((text, rung.fails))
    lines = ["| Program | Options of the rungs | Fails today |", "| --- | --- | --- |"]
    for (_, program), tried in rows.items():
        good = ", ".join(f"`{text}`" for text, fails in tried if not fails)
        bad = "; ".join(f"`{text}`: {fails}" for text, fails in tried if fails)
        lines.append(f"| `{program}` | {good} | {bad} |")
    return "\n".join(lines)


def is_expected(rung, wrong):
    """A rung that fails has to end by itself, with an exit status and the message that rungs.py has."""
    if not rung.fails:
        return not wrong
    return bool(re.match(r"client: exit status \d", wrong) and re.search(rung.message, wrong))


def climb(rungs, results):
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for n, rung in enumerate(rungs, 1):
            begin = time.monotonic()
            if rung.interfaces and os.getuid() != 0:
                print(f"ok {n} {rung.name} # skip: only root can make network namespaces", flush=True)
                continue
            wrong = Climb(rung, folder).run()
            took = time.monotonic() - begin
            expected = is_expected(rung, wrong)
            good = good and expected
            verdict = "ok" if expected else "not ok"
            note = f" # fails: {rung.fails}" if rung.fails and expected else ""
            if rung.fails and not wrong:
                note = " # passes: take its reason out of rungs.py"
            print(f"{verdict} {n} {rung.name} ({took:.1f} s){note}", flush=True)
            if wrong and not expected:
                print("\n".join(f"    {line}" for line in wrong.splitlines()[-30:]), flush=True)
            results.append({"group": rung.group, "rung": rung.name, "passed": not wrong, "expected": expected, "took_s": round(took, 2),
                            "output": wrong})
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--check-table")
    options = parser.parse_args()
    if options.table:
        print(table())
        return 0
    if options.check_table:
        with open(options.check_table, encoding="utf-8") as file:
            same = table() in file.read()
        print("the table is that of climb.py --table" if same else f"{options.check_table} does not contain the table of climb.py --table")
        return 0 if same else 1
    rungs = [rung for rung in RUNGS if (options.all or rung.ci) and options.only in rung.name]
    programs = {word for rung in rungs for word in (*rung.server[:1], rung.client[0], rung.compiler) if word}
    missing = sorted(program for program in programs if not shutil.which(program))
    if missing:
        print(f"not installed: {', '.join(missing)} (./dev has the list of Debian's packages: LADDER_PACKAGES)", file=sys.stderr)
        return 3
    print(f"1..{len(rungs)}")
    results = []
    good = climb(rungs, results)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)
    print(f"{sum(r['passed'] for r in results)} passed, {sum(not r['passed'] for r in results)} failed, of them "
          f"{sum(not r['passed'] and r['expected'] for r in results)} as expected; {sum(r['took_s'] for r in results):.0f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
