# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The distribution tree as processes on a simulated subnet with stock opensm: they join, answer as subnet administration does, are
killed, and their children go on."""
import ipaddress
import json
import os
import re
import socket
import stat
import urllib.request

import cli
import exposition
from exposition import value
from fabric_kit import FabricTest

ROLES = {0: "core", 1: "distribution", 2: "access", 3: "access", 4: "consumer", 5: "consumer", 6: "consumer"}


def gid(number):
    """Of the only port of a generated subnet's host."""
    return str(ipaddress.IPv6Address(0xFE80 << 112 | 0x100001 + 2 * number))


class Ssad(FabricTest):
    def setUp(self):
        super().setUp()
        self.daemons = {}

    def control(self, host):
        return self.path(f"c{host}")

    def daemon(self, host, *options, roles=None):
        """`parley ssad` at this host. All times of the tree are a quarter of the usual ones."""
        name = f"ibsim:{self.name}/H{host:05d}"
        running = self.start("ssad", "--role", roles or ROLES[host], "--transport", name, "--control", self.control(host),
                             "--heartbeat", "500ms", "--collect-every", "2s", *options)
        self.daemons[host] = running
        running.wait_for("listening")
        return running

    def ask(self, host, *question):
        return cli.run("ssa", *question, "--control", self.control(host), "--json")

    def status(self, host):
        return self.ask(host, "status").event("status")

    def is_current(self, host):
        status = self.status(host)
        return status["state"] == "connected" and status["current"]

    def wait_for_tree(self, hosts):
        for host in hosts:
            self.wait_until(f"host {host} has the newest database", lambda host=host: self.is_current(host))

    def boot(self):
        options = {0: ("--metrics-http", 0), 4: ("--metrics-http", 0, "--stale-after", "1s"), 6: ("--metrics", self.path("6.prom"))}
        for host in sorted(ROLES, reverse=True):  # the root last
            self.daemon(host, *options.get(host, ()))
        self.wait_for_tree(ROLES)

    def metrics(self, host):
        """What it exports over HTTP now."""
        url = next(json.loads(line)["url"] for line in self.daemons[host].seen if '"metrics"' in line)
        with urllib.request.urlopen(url, timeout=self.WAIT) as answer:
            return exposition.read(answer.read())

    def check_metrics(self):
        """The root's and a consumer's, once the tree stands: all are documented, and they say what `status` says."""
        root, consumer = self.metrics(0), self.metrics(4)
        with open(os.path.join(cli.SOURCE_DIR, "docs", "ssa.md"), encoding="utf-8") as file:
            documented = set(re.findall(r"`(parley_ssa_[a-z_]+)`", file.read()))
        self.assertEqual(set(root), documented | {"parley_build_info"})
        self.assertEqual(set(root) - set(consumer), {"parley_ssa_members", "parley_ssa_collections_total"})
        self.assertEqual(value(root, "parley_ssa_members"), len(ROLES) - 1)
        self.assertGreater(value(root, "parley_ssa_collections_total", result="good"), 0)
        self.assertGreater(value(root, "parley_ssa_streams_total", kind="whole"), 0)
        status = self.status(4)
        self.assertEqual(f'{value(consumer, "parley_ssa_epoch_incarnation")}.{value(consumer, "parley_ssa_epoch_counter")}', status["epoch"])
        self.assertEqual(value(consumer, "parley_ssa_state", state="connected"), 1)
        self.assertEqual(value(consumer, "parley_ssa_state", state="orphan"), 0)
        self.assertEqual((value(consumer, "parley_ssa_current"), value(consumer, "parley_ssa_stale")), (1, 0))
        self.assertEqual(value(consumer, "parley_ssa_loads_total", kind="whole"), 1)
        asked, missing = (value(consumer, "parley_ssa_lookups_total", by="control", result=result) for result in ("found", "missing"))
        self.ok(self.ask(4, "query", f"{gid(4)},{gid(5)}"))
        self.assertEqual(self.ask(4, "query", f"{gid(4)},{gid(99)}").code, 1)
        after = self.metrics(4)
        self.assertEqual(value(after, "parley_ssa_lookups_total", by="control", result="found"), asked + 1)
        self.assertEqual(value(after, "parley_ssa_lookups_total", by="control", result="missing"), missing + 1)
        self.assertGreater(value(after, "parley_ssa_questions_total", question="status"), 0)

    def check_page(self):
        """The root's tree as a page: all nodes, and no two with one place."""
        page = self.path("tree.html")
        self.ok(self.ask(0, "tree", "--html", page))
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(len(re.findall("<tr id=", text)), len(ROLES))
        self.assertEqual(len(set(re.findall("<rect x=\"[0-9]+\" y=\"[0-9]+\"", text))), len(ROLES))
        self.assertEqual(text.count('<line class="parent"'), len(ROLES) - 1)
        for host in ROLES:
            self.assertIn(f">{gid(host)}<", text)
        self.assertIn("all have parents", text)
        self.assertNotIn("http", text.split("<footer")[0])
        self.refused(self.ask(0, "tree", "--html", self.path("no/such.html")), 3, "no/such.html")
        self.ok(self.ask(2, "tree", "--html", page))
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Not the whole tree", text)
        self.assertIn(f">{gid(2)}<", text)

    def parent(self, host):
        """The host that is its parent; None: it has none."""
        parent = self.status(host)["parent"]
        return None if parent is None else next(host for host in ROLES if gid(host) == parent)

    def members(self):
        """The roles by GID, as the root knows them."""
        return {e["gid"]: e["roles"] for e in self.ask(0, "tree").events if e["event"] == "member"}

    def compare(self, host):
        """It says what subnet administration says."""
        mine, asked = self.both(host)
        self.assertEqual(mine, asked)
        self.assertEqual(len(mine), 16)

    def is_same(self, host):
        mine, asked = self.both(host)
        return mine == asked and len(mine) == 16

    def both(self, host):
        """The paths that it says, and those of subnet administration. A pair without a path is None."""
        pairs = self.path("pairs", "".join(f"{gid(a)},{gid(b)}\n" for a in range(0, 16, 5) for b in range(1, 16, 4)).encode())
        asked = cli.run("mad", "sa", "--from", pairs, "--json", "--transport", f"ibsim:{self.name}/H00015").events
        mine = self.ask(host, "query", "--from", pairs).events
        return [e.get("record") for e in mine], [e.get("record") for e in asked if e["event"] in ("path", "no_path")]

    def test_a_tree_answers_as_subnet_administration_does_while_its_nodes_die(self):
        self.managed_fat_tree()
        self.boot()
        self.wait_until("all members", lambda: self.members() == {gid(host): roles for host, roles in ROLES.items() if host != 0})
        for host in (4, 5, 6):
            self.wait_until("an access node as parent", lambda host=host: self.parent(host) in (2, 3))
        self.wait_until("equal databases", lambda: len({self.ask(host, "epoch").event("epoch")["digest"] for host in ROLES}) == 1)
        self.compare(4)
        self.check_metrics()
        self.check_page()

        # An access node is killed: its children are the other one's, and answer all the time.
        self.wait_until("a backup", lambda: self.status(4)["backup"] is not None)
        self.wait_until("a parent", lambda: self.parent(4) in (2, 3))
        victim = self.parent(4)
        other = 5 - victim
        self.daemons[victim].kill()
        self.compare(4)
        self.wait_until("the backup", lambda: self.parent(4) == other and self.is_current(4))

        # A switch's link is cut: opensm routes around it, and the tree gets what changed.
        before = self.ask(4, "epoch").event("epoch")["counter"]
        self.assertEqual(cli.run("fabric", "--name", self.name, "--tell", "down S0000:1").code, 0)
        self.wait_until("a new version", lambda: self.ask(4, "epoch").event("epoch")["counter"] > before)
        self.wait_until("the new paths", lambda: self.is_same(4))

        # The root and the distribution node are killed: their children are connected all the same, but know no newest version.
        for host in (0, 1):
            self.daemons[host].kill()
        for host in (4, 5, 6):
            self.wait_until(f"host {host} does not know the newest", lambda host=host: not self.status(host)["current"])
        age = self.status(4)["age_s"]
        self.wait_until("it becomes older", lambda: self.status(4)["age_s"] > age + 1)

        # Without any parent, a consumer answers from what it has, and says how old it is.
        self.daemons[other].kill()
        self.wait_until("no parent", lambda: self.status(4)["parent"] is None)
        self.assertFalse(self.status(4)["current"])
        self.assertGreater(self.status(4)["age_s"], 0)
        self.wait_until("it is stale", lambda: self.status(4)["stale"])
        self.assertFalse(self.status(5)["stale"])  # an hour, by default
        answered = self.ok(self.ask(4, "query", f"{gid(4)},{gid(5)}"))
        path = answered.event("path")
        self.assertEqual((path["current"], path["stale"]), (False, True))
        self.assertGreater(path["age_s"], 1)
        self.assertRegex(answered.err, r"stale: known to be the newest [0-9.]+ s ago")
        left = self.metrics(4)
        self.assertEqual(value(left, "parley_ssa_stale"), 1)
        self.assertGreater(value(left, "parley_ssa_age_seconds"), 1)
        self.assertGreater(value(left, "parley_ssa_lost_total", node="parent"), 0)
        self.daemons[4].wait_for("database_stale")

        # A new master has a new incarnation; the tree forms again.
        old = self.ask(4, "epoch").event("epoch")["incarnation"]
        for host in (0, 1, 2, 3):
            self.daemon(host)
        self.wait_for_tree(ROLES)
        self.assertGreater(self.ask(4, "epoch").event("epoch")["incarnation"], old)
        self.daemons[4].wait_for("database_renewed")
        self.assertFalse(self.status(4)["stale"])

        # SIGTERM ends a node, and the tree goes on without it.
        self.ok(self.daemons[6].finish(stop=True))
        with open(self.path("6.prom"), "rb") as file:
            self.assertGreater(value(exposition.read(file.read()), "parley_ssa_pulls_total"), 1)
        self.wait_until("host 6 is gone", lambda: gid(6) not in self.members())

    def test_bad_input_harms_nobody(self):
        self.managed_fat_tree()
        key, other = self.path("key", b"0x1234\n"), self.path("other", b"0x1235\n")
        self.refused(cli.run("ssad", "--role", "core", "--key-file", key, "--transport", f"ibsim:{self.name}/H00000"), 3, "mode 0600")
        for file in (key, other):
            os.chmod(file, 0o600)
        self.daemon(0, "--key-file", key).wait_for("database")
        self.daemon(2, "--key-file", key)
        self.daemon(4, "--key-file", key)
        self.daemon(5, "--key-file", other)
        self.wait_for_tree((2, 4))
        self.assertEqual(stat.S_IMODE(os.stat(self.control(4)).st_mode), 0o600)

        # Garbage on the data connection and on the control socket.
        host, port = json.loads(self.daemons[2].seen[0])["data"].rsplit(":", 1)
        for octets in (b"GET / HTTP/1.1\r\n\r\n", b"\0" * 100, b"\xff" * 68):
            with socket.create_connection((host, int(port)), timeout=self.WAIT) as link:
                link.sendall(octets)
                if len(octets) >= 68:
                    try:
                        self.assertEqual(link.recv(1), b"")
                    except ConnectionResetError:
                        pass
        for octets in (b"x" * 5000, b"query 1\n", b"query 1 2 3\n", b"\0\n", b"tree\xff\n"):
            with socket.socket(socket.AF_UNIX) as link:
                link.settimeout(self.WAIT)
                link.connect(self.control(2))
                try:
                    link.sendall(octets)
                    link.recv(100)
                except (BrokenPipeError, ConnectionResetError):
                    pass
        self.assertEqual(self.status(2)["data_malformed"], 2)
        self.wait_for_tree((2,))
        self.assertNotEqual(self.status(5)["state"], "connected")
        self.assertEqual(set(self.members()), {gid(2), gid(4)})
        self.wait_until("the wrong key", lambda: self.status(0)["wrong_key"] > 0)
        self.refused(cli.run("ssa", "status", "--control", self.path("nobody")), 3, "parley ssad")
        second = cli.run("ssad", "--role", "consumer", "--transport", f"ibsim:{self.name}/H00007", "--control", self.control(4))
        self.refused(second, 3, "another process listens there")

    def test_roles_come_from_a_file(self):
        self.managed_fat_tree()
        nodes = self.path("nodes", f"# all of them\n{0x100001:#x} core 127.0.0.1\n{0x100005:#x} access,distribution 127.0.0.1\n* consumer\n".encode())
        for host in (0, 2, 4):
            name = f"ibsim:{self.name}/H{host:05d}"
            self.daemons[host] = self.start("ssad", "--nodes", nodes, "--transport", name, "--control", self.control(host), "--heartbeat", "500ms")
        self.assertEqual([self.daemons[host].wait_for("listening")["roles"] for host in (0, 2, 4)], ["core", "distribution,access", "consumer"])
        self.wait_for_tree((0, 2, 4))
        self.refused(cli.run("ssad", "--nodes", self.path("wrong", b"0x1 king\n")), 3, "line 1", "king")
        self.refused(cli.run("ssad"), 2, "--role")


if __name__ == "__main__":
    cli.main()
