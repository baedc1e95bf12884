# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A RoCEv2 listener under a flood of REQs from made-up peers, none of which ever sends an RTU: honest peers are set up. And bad
packets of all kinds, which its metrics count."""
import os
import random
import socket
import struct
import sys
import time
from pathlib import Path

import exposition
from cli import LIMIT, CliTest, main, run

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

    def request(self, host, **bad):
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
        for member, value in bad.items():
            setattr(sent, member, value)
        return sent.octets()[FRAME_HEAD:]

    def send(self, count):
        for n in range(count):
            if n % 20 == 0:
                time.sleep(0.002)  # the receiver's socket holds some hundred packets
            sock, host = self.sockets[n % len(self.sockets)]
            sock.sendto(self.request(host), (str(self.server.address), 4791))

    def send_bad(self, count, **bad):
        sock, host = self.sockets[0]
        for n in range(count):
            if n % 20 == 0:
                time.sleep(0.002)
            sock.sendto(self.request(host, **bad), (str(self.server.address), 4791))

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

    def test_metrics_count_the_messages_of_the_connection_manager(self):
        here, ours, theirs = address(4), self.path("connect.prom"), self.path("listen.prom")
        server = self.listen(here, "--count", 3, "--metrics", theirs)
        self.ok(run("connect", f"{here}:{PORT}", "--roce", "--count", 3, "--metrics", ours))
        self.ok(server.finish())
        due = {"ib_req": "sent", "ib_rep": "received", "ib_rtu": "sent"}
        for path, back in ((ours, {}), (theirs, {"sent": "received", "received": "sent"})):
            found = self.counted(path)
            for kind, direction in due.items():
                with self.subTest(kind, path=path):
                    again = exposition.value(found, "parley_roce_cm_retransmissions_total", type=kind)
                    way = back.get(direction, direction)
                    total = exposition.value(found, "parley_messages_total", type=kind, direction=way)
                    self.assertGreaterEqual(total, 3)
                    if way == "sent":
                        self.assertEqual(total - again, 3)

    def test_metrics_count_what_is_sent_again(self):
        path = self.path("lost.prom")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as deaf:
            deaf.bind((address(5), 4791))
            done = run("connect", f"{address(5)}:{PORT}", "--roce", "--reply-timeout", "500ms", "--metrics", path)
        self.assertEqual(done.code, 1, str(done))
        found = self.counted(path)
        again = exposition.value(found, "parley_roce_cm_retransmissions_total", type="ib_req")
        self.assertGreater(again, 1)
        self.assertEqual(exposition.value(found, "parley_messages_total", type="ib_req", direction="sent"), 1 + again)
        self.assertEqual(exposition.value(found, "parley_messages_total", type="ib_rej", direction="sent"), 1, "it gave up")

    def counted(self, path):
        with open(path, "rb") as file:
            return exposition.read(file.read())

    def test_metrics_count_what_is_dropped_by_reason(self):
        here, path = address(3), self.path("roce.prom")
        server = self.listen(here, "--metrics", path, "--metrics-interval", "50ms")
        flood = self.flood(here, 1)
        bad = {"bad_icrc": (600, {"icrc": 1}), "too_short": (300, {"size": 12}), "qpn": (400, {"qpn": 0x123456}),
               "version": (500, {"tver": 3}), "q_key": (200, {"ext": struct.pack(">II", 0x11111111, 1)})}
        for packets, members in bad.values():
            flood.send_bad(packets, **members)
        name, total = "parley_roce_packets_dropped_total", sum(packets for packets, _ in bad.values())
        deadline = time.monotonic() + LIMIT
        while time.monotonic() < deadline:  # the file is written while the command runs
            found = self.counted(path)
            if name in found and sum(packets for _, _, packets in found[name].samples) >= total:
                break
            time.sleep(0.05)
        self.honest(here, 1)
        self.ok(server.finish(stop=True))
        found = self.counted(path)
        dropped = {labels["reason"]: packets for _, labels, packets in found[name].samples}
        self.assertEqual({reason: packets for reason, packets in dropped.items() if packets > 0},
                         {reason: packets for reason, (packets, _) in bad.items()})
        self.assertIn("p_key", dropped, "each reason is there from the start")
        self.assertEqual(exposition.value(found, "parley_roce_packets_unsent_total"), 0)
        received = exposition.value(found, "parley_roce_packets_total", direction="received")
        sent = exposition.value(found, "parley_roce_packets_total", direction="sent")
        self.assertGreaterEqual(received, total + 3, "REQ, RTU and DREQ of the honest one")
        self.assertGreaterEqual(sent, 2, "REP and DREP")

    def test_there_are_no_packets_over_tcp(self):
        path = self.path("tcp.prom")
        run("connect", "127.0.0.1:1", "--metrics", path)
        self.assertEqual([name for name in self.counted(path) if "roce" in name], [])


main()
