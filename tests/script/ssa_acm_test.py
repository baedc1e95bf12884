# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley ssa acm` under stock ib_acme, on a subnet that `parley fabric` simulates and stock opensm manages: each path is the one that
saquery has."""
import ipaddress
import os
import re
import subprocess

import cli
from fabric_kit import OWN_PRELOAD, FabricTest

HOSTS = 16  # of managed_fat_tree()


def number(text):
    return int(text, 0)


def acme_paths(text):
    """{(source, destination) as asked: the members that ib_acme prints}; None: there was no path."""
    found = {}
    for part in text.split("Destination: ")[1:]:
        destination = part.splitlines()[0]
        source = re.search(r"^Source: (.*)$", part, re.M)
        said = dict(re.findall(r"^  ([\w ]+): (\S+)$", part, re.M))
        found[source[1] if source else None, destination] = said or None
    return found


def as_acme(record):
    """A record of saquery's dump, as ib_acme prints it."""
    flow = number(record["hop_flow_raw"])
    return {"dgid": record["dgid"], "sgid": record["sgid"], "dlid": record["dlid"], "slid": record["slid"],
            "flow label": hex(flow >> 8), "hop limit": str(flow & 0xFF), "tclass": str(number(record["tclass"])),
            "reversible": str(number(record["num_path_revers"]) >> 7), "pkey": hex(number(record["pkey"])), "sl": str(number(record["sl"])),
            "mtu": str(number(record["mtu"]) & 0x1F), "rate": str(number(record["rate"]) & 0x1F),
            "packet lifetime": str(number(record["pkt_life"]) & 0x1F)}


class SsaAcm(FabricTest):
    def acme(self, *options, code=0):
        done = subprocess.run(["ib_acme", "-S", self.socket, *options], capture_output=True, text=True, timeout=self.WAIT, check=False)
        self.assertEqual(done.returncode, code, f"{options}\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def serve_acm(self, *options):
        self.socket = f"{self.directory}/acm.sock"
        acm = self.start("ssa", "acm", "--socket", self.socket, "--transport", f"ibsim:{self.name}/H00001", *options)
        return acm, acm.wait_for("serving_acm")

    def setUp(self):
        super().setUp()
        self.server, self.manager = self.managed_fat_tree()
        dump = self.stock("H00001", "saquery", "-t", "20000", "PR", preload=OWN_PRELOAD)
        records = [dict(re.findall(r"^\s+(\w+)\.+(\S+)$", record, re.M)) for record in dump.split("PathRecord dump:")[1:]]
        self.table = {(record["slid"], record["dlid"]): record for record in records}
        nodes = [event for event in cli.run("mad", "discover", "--json", "--transport", f"ibsim:{self.name}/H00001").events
                 if event["event"] == "node"]
        self.lids = sorted(node["lid"] for node in nodes)
        self.hosts = {node["name"]: node for node in nodes if node["type"] == "channel_adapter"}
        self.assertEqual(len(self.hosts), HOSTS)

    def gid(self, name):
        return str(ipaddress.IPv6Address(0xFE80 << 112 | number(self.hosts[name]["port_guid"])))

    def due(self, source, destination):
        return as_acme(self.table[str(self.hosts[source]["lid"]), str(self.hosts[destination]["lid"])])

    def test_a_consumer_of_the_tree_answers_too_and_goes_on_without_its_parent(self):
        self.socket = f"{self.directory}/acm.sock"
        addresses = self.path("names", f"luna {self.gid('H00007')}\n".encode())
        daemons = {}
        for host, role, *options in ((0, "core"), (2, "access"), (4, "consumer", "--acm", self.socket, "--addresses", addresses)):
            daemons[host] = self.start("ssad", "--role", role, "--transport", f"ibsim:{self.name}/H{host:05d}", "--control", self.path(f"c{host}"),
                                       "--heartbeat", "500ms", *options)
        serving = daemons[4].wait_for("serving_acm")
        self.assertEqual((serving["sockets"], serving["ports"]), ([self.socket], len(self.lids)))
        some = ",".join(map(str, self.lids))
        for _ in range(2):
            found = acme_paths(self.acme("-f", "l", "-s", f"[{some}]", "-d", f"[{some}]"))
            self.assertEqual({pair: as_acme(self.table[pair]) for pair in found}, found)
            self.assertEqual(len(found), len(self.lids) ** 2)
            by_name = acme_paths(self.acme("-f", "n", "-s", "luna", "-d", "luna"))
            self.assertEqual(by_name, {("luna", "luna"): self.due("H00007", "H00007")})
            self.acme("-f", "n", "-s", "luna", "-d", "H00003", code=255)
            daemons[2].kill()
            daemons[0].kill()

    def test_each_path_is_that_of_saquery(self):
        addresses = self.path("hosts", "".join(f"192.0.2.{i} {self.gid(name)}\n" for i, name in enumerate(sorted(self.hosts))).encode())
        acm, serving = self.serve_acm("--addresses", addresses)
        self.assertEqual((serving["sockets"], serving["port"], serving["ports"]), ([self.socket], None, len(self.lids)))
        some = ",".join(map(str, self.lids))
        found = acme_paths(self.acme("-f", "l", "-s", f"[{some}]", "-d", f"[{some}]"))
        self.assertEqual(len(found), len(self.lids) ** 2)
        for pair, path in found.items():
            self.assertEqual(path, as_acme(self.table[pair]), pair)
        ones = [("H00003", other) for other in sorted(self.hosts)]
        by_name = acme_paths(self.acme("-f", "n", "-s", "H00003", "-d", f"H[00000-000{HOSTS - 1}]"))
        self.assertEqual(by_name, {pair: self.due(*pair) for pair in ones})
        by_gid = acme_paths(self.acme("-f", "g", "-s", self.gid("H00003"), "-d", self.gid("H00007")))
        self.assertEqual(list(by_gid.values()), [self.due("H00003", "H00007")])
        self.assertEqual(self.acme("-e").splitlines()[1].split(",")[-2:], ["H00001", "192.0.2.1"])
        by_ip = acme_paths(self.acme("-s", "192.0.2.3", "-d", f"192.0.2.[0-{HOSTS - 1}]"))
        self.assertEqual([by_ip["192.0.2.3", f"192.0.2.{i}"] for i in range(HOSTS)], [self.due(*pair) for pair in ones])
        # Without a source it is the port of the command, whose address the answer has.
        from_local = self.acme("-f", "i", "-d", "192.0.2.7")
        self.assertIn("Source: 192.0.2.1\n", from_local)
        self.assertEqual(list(acme_paths(from_local).values()), [self.due("H00001", "H00007")])
        local = str(self.hosts["H00001"]["lid"])
        self.assertEqual(list(acme_paths(self.acme("-f", "l", "-d", some.split(",")[0])).values()), [as_acme(self.table[local, some.split(",")[0]])])
        ended = acm.finish(stop=True)
        self.assertEqual(ended.code, 0)
        self.assertEqual(ended.event("summary")["missing"], 0)
        self.assertEqual(ended.event("summary")["refused"], 0)

    def test_other_requests_and_an_opensm_that_dies(self):
        acm, _ = self.serve_acm("--port", "0", "--port-file", f"{self.directory}/acm.port")
        one, two = self.hosts["H00001"]["lid"], self.hosts["H00002"]["lid"]
        self.assertIn("SA verification: success", self.acme("-f", "l", "-s", str(one), "-d", str(two), "-v"))
        self.assertIn("Cannot assign requested address", self.acme("-f", "l", "-s", str(one), "-d", "4000", code=255))
        endpoint = self.acme("-e").splitlines()
        self.assertEqual(endpoint[1], f"{self.socket},0x{number(self.hosts['H00001']['guid']):016x},1,0xffff,1,parley,H00001")
        names, counts = (line.split(",") for line in self.acme("-P").splitlines()[:2])
        said = dict(zip(names, counts))
        self.assertEqual((said["Resolve Count"], said["Route Cache Count"], said["Route Query Count"], said["Error Count"]), ("3", "1", "1", "1"))
        self.manager.kill()
        self.manager.wait()
        self.server.finish(stop=True)
        found = acme_paths(self.acme("-f", "l", "-s", str(one), "-d", str(two), "-C", "1000"))
        self.assertEqual(list(found.values()), [self.due("H00001", "H00002")])
        self.assertIn("SA verification: failed", self.acme("-f", "l", "-s", str(one), "-d", str(two), "-v", code=255))
        acm.finish(stop=True)

    def test_older_tables_stay_if_the_subnet_cannot_be_read(self):
        acm, serving = self.serve_acm("--refresh", "100ms")
        self.assertEqual((serving["lost"], serving["doubtful"]), (0, 0))
        refreshed = acm.wait_for("refreshed")
        self.assertEqual((refreshed["ports"], refreshed["lost"]), (len(self.lids), 0))
        self.server.finish(stop=True)
        self.assertGreater(acm.wait_for("refresh_failed")["age_s"], 0)
        one, two = (str(self.hosts[name]["lid"]) for name in ("H00001", "H00002"))
        self.assertEqual(list(acme_paths(self.acme("-f", "l", "-s", one, "-d", two)).values()), [self.due("H00001", "H00002")])
        self.assertEqual(acm.finish(stop=True).code, 0)

    def test_says_what_is_wrong(self):
        transport = ("--transport", f"ibsim:{self.name}/H00001")
        self.refused(cli.run("ssa", "acm", "--port-file", "x"), 2, "--port-file needs --port")
        self.refused(cli.run("ssa", "acm", "--addresses", "/missing", *transport), 3, "/missing cannot be read: No such file or directory")
        self.refused(cli.run("ssa", "acm", "--addresses", "/dev/zero", *transport), 3, "/dev/zero has more than 128 MiB")
        wrong = self.path("wrong", b"one fe80::1\ntwo")
        self.refused(cli.run("ssa", "acm", "--addresses", wrong, *transport), 3, "line 2 must have two words")
        self.serve_acm()
        self.refused(cli.run("ssa", "acm", "--socket", self.socket, *transport), 3, "another process listens there")
        self.refused(cli.run("ssa", "acm", "--socket", f"{self.directory}/missing/sock", *transport), 3, "missing/sock")
        link = f"{self.directory}/ibacm.sock"
        os.symlink("ibacm-unix.sock", link)
        hidden = ("ssa", "acm", "--socket", f"{self.directory}/ibacm-unix.sock", *transport)
        self.refused(cli.run(*hidden, inside=("env", f"PARLEY_ACM_LIBRDMACM_SOCKET={link}")), 3, "or use --librdmacm")
        daemon = cli.run("ssad", "--role", "consumer", "--acm", f"{self.directory}/ibacm-unix.sock", "--control", self.path("c"), *transport,
                         inside=("env", f"PARLEY_ACM_LIBRDMACM_SOCKET={link}"))
        self.refused(daemon, 3, "remove the link")
        self.assertNotIn("--librdmacm", daemon.err)


if __name__ == "__main__":
    cli.main()
