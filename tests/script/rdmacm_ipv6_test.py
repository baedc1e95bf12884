# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley run` with IPv6 addresses, and groups with several members, in a network of the test's own: stock programs of libibverbs and librdmacm."""
import re
import socket
import time
import unittest

import netns
from cli import LIMIT, PARLEY, main
from stock import StockTest, free_port, listens, receives

NETWORK = """ip link set lo up
ip link add v1 type veth peer name w1
for n in v1 w1; do ip link set $n addrgenmode none; ip link set $n up; done
for n in 1 2 3; do ip -6 address add fd00::$n/64 dev v1 nodad; ip address add 198.18.0.$n/24 dev v1; done
echo ready; exec cat
"""
ONE, TWO, THREE = "fd00::1", "fd00::2", "fd00::3"


@unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
class Ipv6(StockTest):
    def setUp(self):
        super().setUp()
        host = netns.made_by(self, NETWORK)
        host.says("ready")
        self.host = host.process.pid

    def begin(self, where, *command):
        return self.launch(*netns.inside(self.host), PARLEY, "run", "-v", "-a", where, *command)

    def until(self, what, server):
        end = time.monotonic() + LIMIT
        while not what():
            self.assertIsNone(server.poll(), server.args)
            self.assertLess(time.monotonic(), end, server.args)
            time.sleep(0.02)

    def members(self, group):
        """How many sockets have joined the IPv6 group, on any interface."""
        octets = socket.inet_pton(socket.AF_INET6, group).hex()
        with open(f"/proc/{self.host}/net/igmp6", encoding="ascii") as file:
            return sum(int(row[3]) for row in map(str.split, file) if row[2] == octets)

    def pair(self, servers, server, clients, client):
        """A server and a client that finds it; what the client said."""
        serving = self.begin(servers, *server)
        self.until(lambda: receives(servers.split(",")[-1], self.host), serving)
        said = self.call(serving, lambda: self.begin(clients, *client))
        self.finish(serving)
        return said

    def test_programs_of_librdmacm(self):
        said = self.pair(ONE, ("rping", "-s", "-a", ONE, "-C", 5, "-V"), TWO, ("rping", "-c", "-a", ONE, "-C", 5, "-v", "-V"))
        self.assertEqual(said.count("ping data: rdma-ping-"), 5)
        self.pair("::1", ("ucmatose", "-b", "::1", "-c", 2, "-C", 5), "::1", ("ucmatose", "-s", "::1", "-c", 2, "-C", 5))
        self.pair(ONE, ("udaddy", "-b", ONE, "-C", 5), ONE, ("udaddy", "-s", ONE, "-C", 5))
        said = self.pair(ONE, ("rstream", "-b", ONE, "-S", 64, "-C", 50), TWO, ("rstream", "-s", ONE, "-S", 64, "-C", 50))
        self.assertRegex(said, r"(?m)^custom +64 ")

    def test_both_families_on_one_device(self):
        both = "198.18.0.1," + ONE
        said = self.finish(self.begin(both, "ibv_devinfo", "-v"))
        self.assertEqual(re.findall(r"GID\[ *(\d+)\]:\s+(\S+),", said), [("0", "::ffff:198.18.0.1"), ("1", ONE)])
        for place in ("198.18.0.1", ONE):
            said = self.pair(both, ("rping", "-s", "-C", 3), both, ("rping", "-c", "-a", place, "-C", 3, "-v"))
            self.assertEqual(said.count("ping data: rdma-ping-"), 3)

    def test_queue_pairs_by_gids(self):
        port = free_port()
        words = ("ibv_rc_pingpong", "-p", port, "-g", 1, "-n", 20)
        server = self.begin("127.0.0.1," + ONE, *words)
        self.until(lambda: listens(port, self.host), server)
        said = self.finish(self.begin("127.0.0.1," + TWO, *words, "127.0.0.1"))
        self.assertRegex(said, rf"remote address: .* GID {ONE}\n")
        self.finish(server)

    def test_an_ipv4_address_as_getaddrinfo_maps_it(self):
        """With IPv6 on an interface and IPv4 on the loopback interface alone, getaddrinfo(3) returns ::ffff:127.0.0.1."""
        host = netns.made_by(self, "ip link set lo up\nip -6 address add fd00::1/64 dev lo nodad\necho ready; exec cat\n")
        host.says("ready")
        self.host = host.process.pid
        said = self.pair("127.0.0.1,::1", ("rping", "-s", "-a", "127.0.0.1", "-C", 3), "127.0.0.1", ("rping", "-c", "-a", "127.0.0.1", "-C", 3, "-v"))
        self.assertEqual(said.count("ping data: rdma-ping-"), 3)

    def test_each_member_of_a_group_receives(self):
        """Three members, two of them at one address; when they have left, the fourth still receives."""
        group = "ff0e::7174"
        members = [self.begin(where, "mckey", "-m", group, "-C", 5) for where in (ONE, ONE, TWO)]
        last = self.begin(THREE, "mckey", "-m", group, "-C", 10)
        self.until(lambda: self.members(group) == 4, last)
        sender = ("mckey", "-m", group, "-s", "-C", 5)
        self.finish(self.begin(TWO, *sender))
        for member in members:
            self.assertIn("return status 0", self.finish(member))
        self.until(lambda: self.members(group) == 1, last)
        self.finish(self.begin(TWO, *sender))
        self.assertIn("return status 0", self.finish(last))
        self.assertEqual(self.members(group), 0)

    def test_the_loopback_interface_has_no_ipv6_groups(self):
        said, _ = self.begin("::1", "mckey", "-b", "::1", "-m", "ff0e::7174", "-C", 1).communicate(timeout=LIMIT)
        self.assertIn("RDMA_CM_EVENT_MULTICAST_ERROR", said)
        self.assertIn("ibv_attach_mcast: the loopback interface has no IPv6 groups", said)


main()
