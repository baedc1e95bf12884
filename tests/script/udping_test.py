# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley udping` over this machine's loopback, each side in a process of its own. Stock udaddy and mckey are its peers in
tests/interop/nics, IPv6 groups are in roce_groups_test.py."""
import json
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


def address(n):
    """Of this process, so that nobody else has the port there; n is 1 to 6."""
    pid = os.getpid()
    return f"127.{64 + (n << 3 | pid >> 16 & 7)}.{pid >> 8 & 255}.{pid & 255}"


class Udping(CliTest):
    def serve(self, n, *args):
        server = self.start("udping", "-b", address(n), *args)
        server.wait_for("listening")
        return server

    def test_messages_go_both_ways(self):
        capture = self.path("udping.pcapng")
        server = self.serve(1, "-c", 3, "-C", 20, "-S", 1024)
        done = self.ok(run("udping", "-s", address(1), "-c", 3, "-C", 20, "-S", 1024, "--json", "--pcapng", capture))
        self.assertEqual(done.event("summary")["messages"], {"received": 60, "sent": 60})
        way = done.event("established")["parameters"]["ud"]
        self.assertEqual(way["remote_qkey"], 0x01234567)
        ended = self.ok(server.finish()).event("summary")
        self.assertEqual((ended["clients"], ended["messages"]), (3, {"received": 60, "sent": 60}))
        verdict = json.loads(self.ok(run("pcap", "check", "--json", capture)).out)
        self.assertEqual([(c["service"], c["qp"], c["outcome"], c["findings"]) for c in verdict["connections"]],
                         [("udp:7174", "ud", "established", [])] * 3)

    def test_the_text(self):
        server = self.serve(2, "-P")
        done = self.ok(run("udping", "-s", address(2)))
        self.assertRegex(done.out, r"1 queue pair resolved in .*; 10 messages of 100 octets sent, 10 received in ")
        self.ok(run("udping", "-s", address(2), "-c", 5))
        self.assertEqual(self.ok(server.finish(stop=True)).event("summary")["clients"], 6)

    def test_without_messages(self):
        server = self.serve(3, "-C", 0)
        self.ok(run("udping", "-s", address(3), "-C", 0))
        self.assertEqual(self.ok(server.finish()).event("summary")["clients"], 1)

    def test_a_reject_and_a_service_that_is_not_there(self):
        server = self.serve(4, "--reject")
        self.refused(run("udping", "-s", address(4), "-p", 7175), 1, "service ID not supported (1)")
        self.refused(run("udping", "-s", address(4)), 1, "rejected by the service (2)")
        self.assertEqual(self.ok(server.finish()).event("summary")["refused"], 1)
        self.refused(run("udping", "-s", address(4)), 1, "nothing receives UDP port 4791 there")

    def test_a_listener_for_connections_serves_no_datagrams(self):
        server = self.start("listen", f"{address(5)}:7174", "--roce")
        server.wait_for("listening")
        self.refused(run("udping", "-s", address(5)), 1, "service ID not supported (1)")

    def test_sides_that_differ_say_so(self):
        server = self.serve(6, "-C", 5, "--timeout", "2s")
        self.refused(run("udping", "-s", address(6), "-C", 4, "--timeout", "1s"), 1, "0 of 4 messages came")
        done = server.finish()
        self.assertEqual(done.code, 1)
        self.assertIn("4 of 5 messages came from", done.err)

    def test_another_size_is_named(self):
        server = self.serve(6, "-P", "-S", 100, "--timeout", "500ms")
        self.refused(run("udping", "-s", address(6), "-S", 50, "--timeout", "500ms"), 1, "0 of 10 messages came")
        told = server.finish(stop=True).err
        self.assertRegex(told, "note: .*[0-9]+ other datagrams? (was|were) dropped.* sent 50 octets, not 100: give both sides the same -S")

    def datagram(self, source, to, qpn, words, sender=0x777777, immediate=None):
        """With the right Q_Key, and made by nobody who takes part."""
        chance = random.Random(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: the identification is 0
            sock.bind((source, 0))
            host = wire.Host("initiator", source, chance)
            host.port, host.tos = sock.getsockname()[1], 0
            kind, ext = "send_only", struct.pack(">II", 0x01234567, sender)
            if immediate is not None:
                kind, ext = "send_only_imm", ext + struct.pack(">I", immediate)
            sent = wire.Sent(host, wire.Host("responder", to, chance), 0, wire.UD | wire.OPS[kind], qpn, 0, ext, words)
            sent.ident = 0
            sock.sendto(sent.octets()[14 + 20 + 8:], (to, 4791))

    def test_stray_datagrams_end_neither_side(self):
        server = self.serve(6, "-C", 3, "-S", 100)
        client = self.start("udping", "-s", address(6), "-b", address(4), "-C", 2, "-S", 100, "--timeout", "20s")
        way = client.wait_for("established")["parameters"]["ud"]
        for to, qpn in ((address(6), way["remote_qp_num"]), (address(4), way["qp_num"])):
            for _ in range(5):  # more than there are receives
                self.datagram(address(5), to, qpn, b"x" * 7)
                self.datagram(address(5), to, qpn, b"x" * 100)
                self.datagram(address(5), to, qpn, b"x" * 100, immediate=0x123456)
                self.datagram(address(5), to, qpn, b"x" * 1000, immediate=0x777777)
        # The messages that each side still waits for, as if the other had sent them: again, where the strays took all receives.
        ends = ((client, address(4), way["qp_num"]), (server, address(6), way["remote_qp_num"]))
        while any(side.process.poll() is None for side, _, _ in ends):
            for (_, source, sender), (_, to, qpn) in (ends, reversed(ends)):
                self.datagram(source, to, qpn, b"x" * 100, sender, sender)
            time.sleep(0.1)
        self.assertRegex(self.ok(client.finish()).err, "note: [1-9][0-9]* other datagrams? (was|were) dropped")
        done = self.ok(server.finish())
        self.assertEqual(done.event("summary")["messages"], {"received": 3, "sent": 3})
        self.assertIn("note: " + address(4), done.err)

    def test_one_client_too_many_is_rejected_and_ends_nothing(self):
        server = self.serve(4, "-C", 5)
        first = self.start("udping", "-s", address(4), "-C", 4, "--timeout", "20s")  # keeps the server waiting
        first.wait_for("established")
        for _ in range(2):
            self.refused(run("udping", "-s", address(4), "-C", 5), 1, "rejected by the service (2)")
        first.finish(stop=True)
        ended = self.ok(server.finish(stop=True)).event("summary")
        self.assertEqual((ended["clients"], ended["refused"]), (0, 2))

    def test_wrong_words(self):
        self.refused(run("udping", "-s", "127.0.0.1", "-P"), 2, "are for the server")
        self.refused(run("udping", "-s", "127.0.0.1", "-S", 1025), 2, "-S")
        self.refused(run("udping", "--provider", "rdmacm", "--pcapng", "x.pcapng"), 2, "--pcapng is for --provider roce")
        self.refused(run("udping", "--provider", "rdmacm", "-m", "239.1.2.3"), 2, "-m needs --provider roce")
        self.refused(run("udping", "--device", "rxe0"), 2, "it belongs to --provider rdmacm")
        self.refused(run("udping", "-s", "no-such-host.invalid"), 3, "no-such-host.invalid")


class Group(CliTest):
    group = address(1).replace("127.", "239.", 1)

    def receiver(self, n, *args):
        started = self.start("udping", "-m", self.group, "-b", address(n), *args)
        joined = started.wait_for("joined")
        self.assertEqual((joined["group"], joined["gid"], joined["local"]), (self.group, f"::ffff:{self.group}", address(n)))
        return started

    def send(self, *args):
        return run("udping", "-m", self.group, "-b", address(3), "--send", *args)

    def test_every_receiver_gets_each_message(self):
        captures = [self.path(f"{n}.pcapng") for n in (1, 2, 3)]
        receivers = [self.receiver(n, "-C", 20, "-S", 1024, "--pcapng", captures[n - 1]) for n in (1, 2)]
        done = self.ok(self.send("-C", 20, "-S", 1024, "--json", "--pcapng", captures[2])).event("summary")
        self.assertEqual((done["role"], done["group"], done["messages"]), ("sender", self.group, {"received": 0, "sent": 20}))
        for receiver in receivers:
            ended = self.ok(receiver.finish()).event("summary")
            self.assertEqual((ended["role"], ended["group"], ended["messages"]),
                             ("receiver", self.group, {"received": 20, "sent": 0}))
        for capture in captures:
            verdict = json.loads(self.ok(run("pcap", "check", "--json", capture)).out)
            self.assertEqual([(c["responder"], c["from_initiator"]["messages"], c["verdict"], c["findings"])
                              for c in verdict["connections"]], [(f"{self.group}:0xffffff", 20, "passed", [])])

    def test_two_senders_fill_one_receiver(self):
        receiver = self.receiver(1, "-C", 8)
        self.assertRegex(self.ok(self.send("-C", 4)).out, rf"^4 messages of 100 octets sent to {self.group}\n$")
        self.ok(self.send("-C", 4))
        self.assertEqual(self.ok(receiver.finish()).event("summary")["messages"]["received"], 8)

    def test_what_does_not_come_is_told(self):
        receiver = self.receiver(1, "-C", 5, "--timeout", "2s")
        self.ok(self.send("-C", 4))
        self.refused(receiver.finish(), 1, "4 of 5 messages came, and none for 2s")
        # Without a time limit it waits until somebody ends it.
        self.refused(self.receiver(1).finish(stop=True), 1, "interrupted")

    def test_another_size_is_named(self):
        receiver = self.receiver(1, "-S", 100, "--timeout", "1s")
        self.ok(self.send("-S", 50))
        self.refused(receiver.finish(), 1, "0 of 10 messages came", "10 other datagrams were dropped", "sent 50 octets, not 100")

    def test_a_receiver_serves_no_client(self):
        receiver = self.receiver(1)
        self.refused(run("udping", "-s", address(1)), 1, "service ID not supported (1)")
        self.refused(receiver.finish(stop=True), 1, "interrupted")

    def test_wrong_words(self):
        for words, said in ((("-m", "192.0.2.1"), "-m 192.0.2.1: no multicast address"),
                            (("-m", f"{self.group}:7174"), "no multicast address"),
                            (("-m", self.group, "-s", "127.0.0.1"), "-s is about clients and servers"),
                            (("-m", self.group, "-c", "2"), "-c is about clients and servers, and -m makes this a receiver"),
                            (("-m", self.group, "-P", "--send"), "-P is about clients and servers, and -m makes this a sender"),
                            (("-m", self.group, "--send"), "--send needs -b ADDRESS"),
                            (("-m", self.group, "--send", "-b", "0.0.0.0"), "--send needs one address"),
                            (("-m", self.group, "-b", "::1"), "the other family"),
                            (("--send",), "--send needs -m GROUP")):
            with self.subTest(words):
                self.refused(run("udping", *words), 2, said)


main()
