# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How connections end: real processes in network namespaces, over iWARP and RoCE on sockets. What the other side is told must be what
docs/cm.md has in its table of ends; PARLEY_REWRITE=1 writes the table anew. Times are limits for hangs: what the product promises about
time is tested in virtual time (tests/unit/nic/roce_watch_test.cpp, tests/unit/sim/ends_test.cpp)."""
import concurrent.futures
import os
import pathlib
import queue
import re
import subprocess
import time
import unittest

import netns

END_PEER = os.environ["PARLEY_END_PEER"]
DOCS = pathlib.Path(os.environ["PARLEY_SOURCE_DIR"], "docs/cm.md")
KEEPALIVE, DEAD_AFTER = 1000, 3000  # milliseconds
LIMIT = 90
AT_ONCE = 12

LINK = """exec 3<&0
ip link set lo up
unshare -n cat <&3 & peer=$!
until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
there="nsenter --target=$peer --net"
ip link add v type veth peer name w netns $peer
ip address add 192.0.2.1/24 dev v; $there ip address add 192.0.2.2/24 dev w
ip link set v up; $there ip link set w up; $there ip link set lo up
echo $peer
exec cat
"""

# cause: what the ending side does, and which end of the link goes instead
CAUSES = {
    "disconnect": ("disconnect", None),
    "close, nothing under way": ("close", None),
    "close, a Send not delivered": ("lost", None),
    "destroy": ("destroy", None),
    "exit": ("exit", None),
    "SIGKILL": ("kill", None),
    "SIGSTOP": ("stop", None),
    "host gone": ("hold", "its"),
    "link gone": ("hold", "own"),
}
PHASES = {
    "server killed, client waits for the decision": ("client", "kill", None),
    "client killed, server decides": ("server", "kill", None),
    "server's host gone, client waits for the decision": ("client", "hold", "its"),
    "client gives up, server decides": ("server", "destroy", None),
}
ROW = re.compile(r"end (\w+)\|([^|]*)\|([^|]*)\|(.*)")


class Watched:
    """Two hosts on a link of their own: `survivor` ("client" or "server") watches how the other end goes."""

    def __init__(self, test, provider, survivor, phase, how, cut):
        link = netns.made_by(test, LINK)
        peer = int(link.line())
        hosts = {"client": netns.inside(link.process.pid), "server": netns.inside(peer)}
        victim = "server" if survivor == "client" else "client"
        whose = {"own": survivor, "its": victim, None: None}[cut]
        self.parts = {}
        self.what = (provider, survivor, phase, how, cut)
        for role in ("server", "client"):
            self.parts[role] = netns.Process(test, *hosts[role], END_PEER, provider, role, "192.0.2.2:7471", phase,
                                             "watch" if role == survivor else how, str(KEEPALIVE), str(DEAD_AFTER))
            self.wait_for(role, "listening" if role == "server" else None)
        self.wait_for(survivor if survivor == "server" else "server", "request")
        if phase == "up":
            self.wait_for(survivor, "established")
        begin = time.monotonic()
        if whose:
            subprocess.run([*hosts[whose], "ip", "link", "set", "v" if whose == "client" else "w", "down"], check=True)
        # Of a stopped process over iWARP nothing is told: its system answers for it.
        self.told = self.end_of(survivor, 3 * DEAD_AFTER / 1000 if (provider, how) == ("iwarp", "stop") else LIMIT)
        self.seconds = time.monotonic() - begin
        for part in (*self.parts.values(), link):
            part.end()

    def wait_for(self, role, wanted):
        while wanted:
            try:
                line = self.parts[role].lines.get(timeout=LIMIT)
            except queue.Empty:
                raise AssertionError((self.what, role, wanted, {r: list(x.lines.queue) for r, x in self.parts.items()})) from None
            assert line and not line.startswith(("end ", "failed")), (role, wanted, line)
            if line == wanted:
                return

    def end_of(self, role, limit):
        try:
            for line in iter(lambda: self.parts[role].lines.get(timeout=limit), None):
                found = ROW.match(line)
                if found:
                    return found.groups()
        except queue.Empty:
            return "nothing", "", "", ""
        return "nothing", f"the {role} ended without a word", "", ""


def cell(told):
    event, status, stage, _ = told
    if event == "nothing":
        return "nothing: its system answers for it"
    return status if event == "disconnected" else f"{event} at `{stage}`: {status}"


@unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
class Ends(unittest.TestCase):
    def test_each_is_told_as_the_table_says(self):
        cases = {}
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for provider in ("iwarp", "roce"):
                for cause, (how, cut) in CAUSES.items():
                    for survivor in ("client", "server"):
                        cases[cause, provider, survivor] = pool.submit(Watched, self, provider, survivor, "up", how, cut)
                for cause, (survivor, how, cut) in PHASES.items():
                    cases[cause, provider, survivor] = pool.submit(Watched, self, provider, survivor, "request", how, cut)
        done = {case: future.result() for case, future in cases.items()}
        for (cause, provider, survivor), watched in done.items():
            print(f"{cause} | {provider} | {survivor} | {watched.seconds:.1f} s | {' | '.join(watched.told)}")
        self.compare(done)

    def compare(self, done):
        text = DOCS.read_text(encoding="utf-8")
        begin, end = "<!-- ends: begin -->\n", "<!-- ends: end -->"
        head, rest = text.split(begin)
        now, tail = rest.split(end)
        # The columns behind these two are of tests/unit/sim/ends_table_test.cpp and tests/interop/end_cases.py.
        others = {cells[0].strip(): [cell.strip() for cell in cells[3:]]
                  for cells in (line.strip("|").split("|") for line in now.splitlines())}
        rows = now.splitlines()[:2]
        for cause in (*CAUSES, *PHASES):
            row = []
            for provider in ("iwarp", "roce"):
                told = {cell(watched.told) for (c, p, _), watched in done.items() if (c, p) == (cause, provider)}
                self.assertEqual(len(told), 1, f"{cause} over {provider}: both roles are told the same: {told}")
                row.append(told.pop())
            rows.append(f"| {' | '.join([cause, *row, *others.get(cause, [])])} |")
        wanted = "\n".join(rows) + "\n"
        if os.environ.get("PARLEY_REWRITE"):
            DOCS.write_text(head + begin + wanted + end + tail, encoding="utf-8")
            return
        self.assertEqual(now, wanted)


if __name__ == "__main__":
    unittest.main(verbosity=2)
