# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How connections end: real processes in network namespaces, over iWARP and RoCE on sockets. What the other side is told must be what
docs/cm.md has in its table of ends; PARLEY_REWRITE=1 writes the table anew, and docs/c.md's of what it means in C. Times are limits for hangs: what the product promises about
time is tested in virtual time (tests/unit/nic/roce_watch_test.cpp, tests/unit/sim/ends_test.cpp)."""
import concurrent.futures
import os
import pathlib
import queue
import re
import subprocess
import sys
import time
import unittest

import netns

END_PEER = os.environ["PARLEY_END_PEER"]
DOCS, C_DOCS = (pathlib.Path(os.environ["PARLEY_SOURCE_DIR"], "docs", name) for name in ("cm.md", "c.md"))
GRACEFUL = ("graceful", "closed by the peer; whether all was delivered is not known")
REJECT = str(pathlib.Path(__file__).with_name("icmp_reject.py"))
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

# The same with a router between the hosts, which forwards until the test changes its table 100.
ROUTED = """exec 3<&0
ip link set lo up
unshare -n cat <&3 & router=$!
unshare -n cat <&3 & peer=$!
for child in $router $peer; do
  until [ "$(readlink /proc/$child/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
done
between="nsenter --target=$router --net" there="nsenter --target=$peer --net"
ip link add v type veth peer name near netns $router
$between ip link add far type veth peer name w netns $peer
ip address add 192.0.2.1/24 dev v; ip link set v up;
$between ip address add 192.0.2.254/24 dev near; $between ip address add 198.51.100.254/24 dev far
$there ip address add 198.51.100.2/24 dev w
$between ip link set near up; $between ip link set far up; $between ip link set lo up
$there ip link set w up; $there ip link set lo up
ip route add default via 192.0.2.254; $there ip route add default via 198.51.100.254
$between sysctl -qw net.ipv4.ip_forward=1
for side in near far; do $between ip rule add iif $side lookup 100; done
echo $peer $router
exec cat
"""

# IPv6 on the same links, and no packet is forwarded in the end: icmp_reject.py answers.
DUAL = ROUTED.replace("echo $peer", """ip address add 2001:db8:1::1/64 dev v nodad
$between ip address add 2001:db8:1::fe/64 dev near nodad; $between ip address add 2001:db8:2::fe/64 dev far nodad
$there ip address add 2001:db8:2::2/64 dev w nodad
ip route add default via 2001:db8:1::fe; $there ip route add default via 2001:db8:2::fe
$between sysctl -qw net.ipv6.conf.all.forwarding=1
for side in near far; do $between ip -6 rule add iif $side lookup 100; done
echo $peer""")

# cause: what the ending side does, and which end of the link goes instead
CAUSES = {
    "disconnect": ("disconnect", None),
    "close, nothing under way": ("close", None),
    "close, a Send not delivered": ("lost", None),
    "destroy": ("destroy", None),
    "exit": ("exit", None),
    "SIGKILL": ("kill", None),
    "SIGSTOP": ("stop", None),
    "SIGSTOP, SIGCONT 1 s later, disconnect": ("stop-1000", None),
    "SIGSTOP, SIGCONT 6 s later, disconnect": ("stop-6000", None),
    "host gone": ("hold", "its"),
    "link gone": ("hold", "own"),
}
# Both hosts' packets are answered by the router between them, from when the connection is up, or from the client's first one.
REJECTED = {
    "ICMP port unreachable": "port",
    "ICMP host unreachable": "host",
    "ICMP administratively prohibited": "prohibited",
}
ROUTES = {"port": "blackhole", "host": "unreachable", "prohibited": "prohibit"}
ADDRESSES = {"client": "192.0.2.1", "server": "198.51.100.2"}  # with a router between them
ANSWERED = 4  # packets
PORT_UNREACHABLE = "3"  # which no route answers: icmp_reject.py does
PHASES = {
    "server killed, client waits for the decision": ("client", "kill", None),
    "client killed, server decides": ("server", "kill", None),
    "server's host gone, client waits for the decision": ("client", "hold", "its"),
    "client gives up, server decides": ("server", "destroy", None),
}
ROW = re.compile(r"end (\w+)\|([^|]*)\|([^|]*)\|(.*)")


class Watched:
    """Two hosts on a link of their own: `survivor` ("client" or "server") watches how the other end goes. `cut` is whose link goes down
    ("own" or "its"), or the ICMP error of REJECTED that a router between them answers with."""

    def __init__(self, test, provider, survivor, phase, how, cut):
        self.test = test
        link = netns.made_by(test, ROUTED if cut in ROUTES else LINK)
        peer, *router = link.line().split()
        self.hosts = {"client": netns.inside(link.process.pid), "server": netns.inside(peer),
                      **({"router": netns.inside(router[0])} if router else {})}
        victim = "server" if survivor == "client" else "client"
        whose = {"own": survivor, "its": victim}.get(cut)
        address = f"{ADDRESSES['server'] if router else '192.0.2.2'}:7471"
        self.parts = {}
        self.what = (provider, survivor, phase, how, cut)
        begin = time.monotonic()
        for role in ("server", "client"):
            if phase == "connect" and role == "client":
                self.reject(cut)
                begin = time.monotonic()
            self.parts[role] = netns.Process(test, *self.hosts[role], END_PEER, provider, role, address, phase,
                                             "watch" if role == survivor else how, str(KEEPALIVE), str(DEAD_AFTER))
            self.wait_for(role, "listening" if role == "server" else None)
        if phase != "connect":
            self.wait_for("server", "request")
            self.wait_for(survivor, "established" if phase == "up" else None)
            begin = time.monotonic()
            if whose:
                subprocess.run([*self.hosts[whose], "ip", "link", "set", "v" if whose == "client" else "w", "down"], check=True)
            elif router:
                # Over TCP an error about what arrived changes nothing, then or later.
                self.reject(cut, ADDRESSES[survivor] if provider == "iwarp" else None)
        # Of a stopped process over iWARP nothing is told: its system answers for it.
        self.told = self.end_of(survivor, 3 * DEAD_AFTER / 1000 if (provider, how) == ("iwarp", "stop") else LIMIT)
        self.seconds = time.monotonic() - begin
        for part in (*self.parts.values(), link):
            part.end()

    def reject(self, what, first=None):
        """`first` is the host of which several packets are answered and forwarded, a keepalive's acknowledgement among them."""
        if what == "port":
            self.parts["firewall"] = netns.Process(self.test, *self.hosts["router"], sys.executable, "-B", REJECT, PORT_UNREACHABLE,
                                                   "near", "far")
            self.parts["firewall"].says("rejecting")
            for _ in range(ANSWERED if first else 0):
                while self.parts["firewall"].line() != f"answered {first}":
                    pass
        subprocess.run([*self.hosts["router"], "ip", "route", "add", ROUTES[what], "default", "table", "100"], check=True)

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


class Prohibited(unittest.TestCase):
    """ICMP's ways to say "administratively prohibited", in the set-up over RoCE: while the server decides and the client waits for it."""

    # code: the end in both roles. Linux makes ENETUNREACH of code 9, EHOSTUNREACH of 10 and 13, and EACCES of those of ICMPv6.
    ENDS = {("4", "9"): "the peer cannot be reached", ("4", "10"): "the peer cannot be reached",
            ("4", "13"): "the peer cannot be reached", ("6", "1"): "the system does not permit the operation",
            ("6", "5"): "the system does not permit the operation", ("6", "6"): "the system does not permit the operation"}
    SERVER = {"4": "198.51.100.2:7471", "6": "[2001:db8:2::2]:7471"}
    KEEPALIVE_MS, NO_LIMIT = "200", str(1000 * LIMIT)

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    def test_it_ends_a_set_up_in_both_roles(self):
        link = netns.made_by(self, DUAL)
        peer, router = (netns.inside(pid) for pid in link.line().split())
        between = (*router, "ip")
        for (version, code), end in self.ENDS.items():
            with self.subTest(version=version, code=code):
                start = lambda host, role, at=self.SERVER[version]: netns.Process(
                    self, *host, END_PEER, "roce", role, at, "request", "watch", self.KEEPALIVE_MS, self.NO_LIMIT)
                server = start(peer, "server")
                server.says("listening")
                client = start(netns.inside(link.process.pid), "client")
                server.says("request")
                # First nothing is forwarded, then it is answered: a REJ of the one that ends first would end the other.
                subprocess.run([*between, f"-{version}", "route", "add", "blackhole", "default", "table", "100"], check=True)
                family = ["-6"] if version == "6" else []
                firewall = netns.Process(self, *router, sys.executable, "-B", REJECT, *family, code, "near", "far")
                firewall.says("rejecting")
                for part, stage in ((client, "reply"), (server, "decision")):
                    self.assertEqual(ROW.match(part.line()).groups()[:3], ("connect_failed", end, stage))
                subprocess.run([*between, f"-{version}", "route", "flush", "table", "100"], check=True)
                for part in (firewall, client, server):
                    part.end()


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
                for cause, code in REJECTED.items():
                    for survivor in ("client", "server"):
                        cases[cause, provider, survivor] = pool.submit(Watched, self, provider, survivor, "up", "hold", code)
                    cause = f"connect, {cause}"
                    cases[cause, provider, "client"] = pool.submit(Watched, self, provider, "client", "connect", "hold", code)
                for cause, (survivor, how, cut) in PHASES.items():
                    cases[cause, provider, survivor] = pool.submit(Watched, self, provider, survivor, "request", how, cut)
        done = {case: future.result() for case, future in cases.items()}
        for (cause, provider, survivor), watched in done.items():
            print(f"{cause} | {provider} | {survivor} | {watched.seconds:.1f} s | {' | '.join(watched.told)}")
        self.compare(done)

    def compare(self, done):
        begin, end = "<!-- ends: begin -->\n", "<!-- ends: end -->"
        now = DOCS.read_text(encoding="utf-8").split(begin)[1].split(end)[0]
        # The columns behind these two are of tests/unit/sim/ends_table_test.cpp and tests/interop/end_cases.py.
        others = {cells[0].strip(): [cell.strip() for cell in cells[3:]]
                  for cells in (line.strip("|").split("|") for line in now.splitlines())}
        rows, seen = now.splitlines()[:2], set()
        for cause in (*CAUSES, *REJECTED, *(f"connect, {cause}" for cause in REJECTED), *PHASES):
            row = []
            for provider in ("iwarp", "roce"):
                told = {cell(watched.told) for (c, p, _), watched in done.items() if (c, p) == (cause, provider)}
                self.assertEqual(len(told), 1, f"{cause} over {provider}: both roles are told the same: {told}")
                row.append(told.pop())
            rows.append(f"| {' | '.join([cause, *row, *others.get(cause, [])])} |")
            seen |= {*row, *others.get(cause, [])[1:]} - {"-"}
        self.compare_part(DOCS, begin, end, rows)
        self.compare_part(C_DOCS, begin, end, c_rows(seen))

    def compare_part(self, path, begin, end, rows):
        head, rest = path.read_text(encoding="utf-8").split(begin)
        now, tail = rest.split(end)
        wanted = "\n".join(rows) + "\n"
        if os.environ.get("PARLEY_REWRITE"):
            path.write_text(head + begin + wanted + end + tail, encoding="utf-8")
            return
        self.assertEqual(now, wanted)


def c_rows(cells):
    """What parley_event has for each cell of the table."""
    lines = subprocess.run([END_PEER, "codes"], capture_output=True, text=True, check=True).stdout.splitlines()
    codes = {words: code for code, words in (line.split("|") for line in lines)}
    yield from ("| In that table | `type` | `status` | `stage` |", "|---|---|---|---|")
    for text in sorted(cells):
        staged = re.fullmatch(r"(\w+) at `(\w+)`: (.*)", text)
        event, stage, words = staged.groups() if staged else ("disconnected", "", text)
        if text.startswith("nothing"):
            yield f"| {text} | no event | | |"
            continue
        status = codes.get(words, "0" if words.startswith(GRACEFUL) else "?")
        stage = f"`PARLEY_STAGE_{stage.upper()}`" if stage else ""
        yield f"| {text} | `PARLEY_EVENT_{event.upper()}` | `{status}` | {stage} |".replace("|  |", "| |")


if __name__ == "__main__":
    unittest.main(verbosity=2)
