# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A host on two links, which has the same link-local address on both, as have its neighbours: iWARP and RoCEv2 over sockets, in network
namespaces with two pairs of virtual Ethernet. Such an address means something only within its link (RFC 4007).
"""
import json
import unittest

import netns
from cli import CliTest, main, run

LINKS = """exec 3<&0
ip link set lo up
for n in 1 2; do
  unshare -n cat <&3 & peer=$!
  until [ "$(readlink /proc/$peer/ns/net)" != "$(readlink /proc/$$/ns/net)" ]; do sleep 0.01; done
  there="nsenter --target=$peer --net"
  ip link add v$n type veth peer name w$n netns $peer
  ip link set v$n addrgenmode none; $there ip link set w$n addrgenmode none
  ip link set v$n up; $there ip link set w$n up; $there ip link set lo up
  ip -6 address add fe80::a/64 dev v$n nodad; $there ip -6 address add fe80::1/64 dev w$n nodad
  echo $peer
done
for n in $(seq 100); do ip -6 address | grep -q tentative || break; sleep 0.1; done
echo ready; exec cat
"""


@unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
class Iwarp(CliTest):
    words = ()

    def setUp(self):
        super().setUp()
        links = netns.made_by(self, LINKS)
        self.neighbours = [netns.inside(int(links.line())) for _ in range(2)]
        links.says("ready")
        self.host = netns.inside(links.process.pid)

    def serve(self, where, *args, inside):
        running = self.start("listen", where, "--echo", *args, inside=inside)
        running.wait_for("listening")
        return running

    def check(self, capture, connections):
        report = json.loads(self.ok(run("pcap", "check", capture, "--json")).out)
        self.assertEqual([c["verdict"] for c in report["connections"]], ["passed"] * connections, report)

    def test_answers_leave_by_the_link_that_the_request_came_by(self):
        capture = self.path("host.pcapng")
        server = self.serve("[::]:7175", *self.words, "--count", 2, "--pcapng", capture, inside=self.host)
        # Of one port, their TCP streams would have one name in the capture.
        clients = [self.start("connect", f"[fe80::a%w{n}]:7175", *self.words, "--local", f"[fe80::1%w{n}]:{40000 + n}", "--send", 300, "--echoed",
                              "--timeout", "10s", inside=inside) for n, inside in enumerate(self.neighbours, 1)]
        for client in clients:
            self.ok(client.finish())
        done = self.ok(server.finish())
        peers = {event["peer"].split("]")[0] for event in done.events if event["event"] == "connect_request"}
        self.assertEqual([peer.split("%")[0] for peer in peers], ["[fe80::1"] * 2, "of two links")
        self.check(capture, 2)

    def test_a_connection_leaves_by_the_interface_that_the_peers_address_names(self):
        servers = [self.serve(f"[fe80::1%w{n}]:7175", *self.words, "--private-data", f"neighbour {n}", "--count", 1, inside=inside)
                   for n, inside in enumerate(self.neighbours, 1)]
        for n in (2, 1):
            capture = self.path(f"{n}.pcapng")
            done = self.ok(run("connect", f"[fe80::1%v{n}]:7175", *self.words, "--send", 20, "--echoed", "--json", "--pcapng", capture,
                               inside=self.host))
            self.assertTrue(bytes.fromhex(done.event("established")["private_data"]["hex"]).startswith(b"neighbour %d" % n), done)
            self.check(capture, 1)
        for server in servers:
            self.ok(server.finish())

    def test_each_link_has_a_listener_of_its_own(self):
        servers = [self.serve(f"[fe80::a%v{n}]:7175", *self.words, "--private-data", f"link {n}", "--count", 1, inside=self.host)
                   for n in (1, 2)]
        for n, inside in enumerate(self.neighbours, 1):
            done = self.ok(run("connect", f"[fe80::a%w{n}]:7175", *self.words, "--send", 1, "--echoed", "--json", inside=inside))
            self.assertTrue(bytes.fromhex(done.event("established")["private_data"]["hex"]).startswith(b"link %d" % n), done)
        for server in servers:
            self.ok(server.finish())

    def test_the_other_link_is_not_tried(self):
        self.serve("[fe80::1%w1]:7175", *self.words, inside=self.neighbours[0])
        done = run("connect", "[fe80::1%v2]:7175", *self.words, "--timeout", "5s", inside=self.host)
        said = "nothing receives UDP port 4791 there" if self.words else "there is no listener at that address"
        self.refused(done, 1, said)

    def test_an_address_without_its_interface_is_refused(self):
        for command in (("connect", "[fe80::1]:7175"), ("listen", "[fe80::a]:7175"), ("rping", "-s", "-a", "fe80::a")):
            self.refused(run(*command, *self.words, inside=self.host), 3, "give the interface of a link-local address, as in fe80::1%eth0")
        for command in (("connect", "[fe80::1%v9]:7175"), ("listen", "[fe80::a%v9]:7175")):
            self.refused(run(*command, *self.words, inside=self.host), 3, "this host has no interface 'v9'")

    def test_source_and_peer_are_on_one_link(self):
        self.serve("[fe80::1%w2]:7175", *self.words, inside=self.neighbours[1])
        run_it = lambda peer, own: run("connect", f"[{peer}]:7175", "--local", own, *self.words, "--timeout", "5s", inside=self.host)
        self.ok(run_it("fe80::1%v2", "fe80::a%v2"))
        self.assertNotEqual(run_it("fe80::1%v1", "fe80::a%v2").code, 0)


class Roce(Iwarp):
    words = ("--roce",)


if __name__ == "__main__":
    main()
