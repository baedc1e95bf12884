# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A RoCEv2 listener under a flood of REQs from made-up peers, none of which ever sends an RTU: honest peers are set up."""
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path

from cli import CliTest, main, run

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "adversary"))
import roce_wire as wire  # noqa: E402

PORT = 7175
FRAME_HEAD = 14 + 20 + 8  # Ethernet, IPv4, UDP


def address(n):
    """Of this process, so that nobody else has the port there."""
    pid = os.getpid()
    return f"127.{128 + (n << 4 | pid >> 16 & 15)}.{pid >> 8 & 255}.{pid & 255}"


class Flood:
    """REQs from addresses of 127.0.9.0/24 and its neighbours; what is answered to them nobody reads."""

    def __init__(self, server, hosts):
        self.chance, self.sockets = random.Random(1), []
        self.server = wire.Host("responder", server, self.chance)
        for n in range(hosts):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: the identification is 0
            sock.bind((f"127.0.{9 + n // 200}.{1 + n % 200}", 0))
            host = wire.Host("initiator", sock.getsockname()[0], self.chance)
            host.port, host.tos = sock.getsockname()[1], 0
            self.sockets.append((sock, host))

    def request(self, host):
        chance = self.chance
        body = wire.req({
            "id": chance.randrange(1, 2**32), "service": 0x0106 << 16 | PORT, "guid": chance.randrange(1, 2**64),
            "qpn": chance.randrange(2, 2**24), "ird": 1, "ord": 1, "timeout": 20, "transport": wire.RC, "flow_control": 0,
            "psn": chance.randrange(2**24), "p_key": 0xFFFF, "mtu": 3, "retries": 15, "gid": host.gid,
            "peer_gid": self.server.gid, "ack_timeout": 14,
            "private": wire.cma(0, chance.randrange(1, 2**16), host.address, self.server.address)})
        sent = wire.Sent(host, self.server, 0, wire.UD | wire.OPS["send_only"], 1, host.next_gsi(),
                         struct.pack(">II", wire.GSI_Q_KEY, 1), wire.mad("REQ", chance.randrange(2**64), body))
        sent.ident = 0
        return sent.octets()[FRAME_HEAD:]

    def send(self, count):
        for n in range(count):
            if n % 20 == 0:
                time.sleep(0.002)  # the receiver's socket holds some hundred packets
            sock, host = self.sockets[n % len(self.sockets)]
            sock.sendto(self.request(host), (str(self.server.address), 4791))

    def close(self):
        for sock, _ in self.sockets:
            sock.close()


class RoceFlood(CliTest):
    def listen(self, here, *args):
        server = self.start("listen", f"{here}:{PORT}", "--roce", *args)
        server.wait_for("listening")
        return server

    def flood(self, here, hosts):
        flood = Flood(here, hosts)
        self.addCleanup(flood.close)
        return flood

    def honest(self, here, count):
        done = self.ok(run("connect", f"{here}:{PORT}", "--roce", "--count", count, "--hold", "1ms", "--json", "--quiet"))
        self.assertEqual(done.event("summary")["good"], count)

    def test_a_request_of_the_flood_is_understood(self):
        here = address(1)
        server = self.listen(here)
        self.flood(here, 1).send(1)
        self.assertTrue(server.wait_for("connect_request")["peer"].startswith("127.0.9.1:"))

    def test_honest_peers_are_set_up_beside_a_flood(self):
        here = address(2)
        server = self.listen(here, "--concurrency", 64, "--quiet")
        flood = self.flood(here, 300)
        flood.send(1500)
        self.honest(here, 10)
        flood.send(1500)
        self.honest(here, 10)
        summary = server.finish(stop=True).event("summary")
        self.assertEqual(summary["established"], 20)
        self.assertGreater(summary["failed"], 2000, "half-open ones gave way")
        self.assertLessEqual(summary["started"] - summary["established"] - summary["failed"], 64 + 64 // 8, "what stood at the end")


main()
