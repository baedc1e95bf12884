# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Staged QP negotiations: what the plugin shows of real ones, that it accuses nobody who keeps the rules, and that it
finds every broken rule once, in its frame. PARLEY_REWRITE=1 writes golden/neg anew: read the difference."""
import json
import os
import random
import unittest

import harness
from gaps_test import TCP_WORDS, compact
from neg_broken import AT_ONCE, INFO_11, violations
from neg_wire import (ABORT, HELLO, INFO, READY, Talk, abort, hello, item, message, qp_info, send, turn,
                      welcome)
from wire import ACK, C, FIN, INITIATOR, REP, REQ, RESPONDER, RST, Capture, startup

SEED = int(os.environ.get("PARLEY_SEED", "7177"))
REAL = harness.SOURCE / "tests/captures/neg"
GOLDEN = harness.HERE / "golden/neg"
SHOWN = ("_ws.col.Protocol", "_ws.col.Info", "_ws.malformed", *(f"parley_neg.{name}" for name in """
    from type stage flags.last round length plugin variant done_stage label error text advice item.type qp.item.type item.critical
    qp.transport qp.qpn qp.psn qp.gid qp.mtu qp.ird qp.ord qp.qkey qp.srqn qp.ini_qpn qp.memory.rkey qp.memory.vaddr
    qp.memory.length ready data""".split()))
ERROR, WARNING, NOTE = "8388608", "6291456", "4194304"
TWO_PASSES = ("-2",)


class Neg(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tshark = cls.enterClassContext(harness.Tshark(True))

    def frames(self, capture, fields, options=()):
        return self.tshark.fields(self.tshark.file(f"{self._testMethodName}.pcap", capture.octets()), fields, options)

    def said(self, capture, severities=(ERROR, WARNING), options=()):
        """[(frame, words)] of the negotiation's expert items, the same in one pass and in two."""
        passes = []
        for more in (), TWO_PASSES:
            frames = self.frames(capture, ("_ws.expert.severity", "_ws.expert.message", "parley_neg"), (*options, *more))
            passes.append([(int(number), text) for number, layers in frames.items() if "parley_neg" in layers
                           for severity, text in zip(layers.get("_ws.expert.severity", ()), layers.get("_ws.expert.message", ()))
                           if severity in severities and not TCP_WORDS.search(text)])
        self.assertEqual(*passes)
        return passes[0]

    def infos(self, capture, options=()):
        """{frame: info} of those that are a negotiation's."""
        return {int(number): layers["_ws.col.Info"][0] for number, layers in
                self.frames(capture, ("_ws.col.Protocol", "_ws.col.Info"), options).items() if layers["_ws.col.Protocol"] == ["QPng"]}

    # ---------------------------------------------------------------- real ones

    def test_real_negotiations_are_shown_as_reviewed(self):
        paths = sorted(REAL.glob("*.pcap"))
        self.assertGreater(len(paths), 3)
        for path in paths:
            copy = self.tshark.file(path.name, path.read_bytes())
            views = [self.tshark.fields(copy, (*SHOWN, "tcp.len"), options) for options in ((), TWO_PASSES)]
            self.assertEqual(*views)
            text = compact({number: {field: values[0] if len(values) == 1 else values for field, values in sorted(layers.items())}
                            for number, layers in views[0].items() if layers.pop("tcp.len", ["0"]) != ["0"]}) + "\n"
            golden = GOLDEN / f"{path.stem}.json"
            if os.environ.get("PARLEY_REWRITE"):
                GOLDEN.mkdir(exist_ok=True)
                golden.write_text(text, encoding="utf-8")
            with self.subTest(capture=path.name):
                self.assertEqual(golden.read_text(encoding="utf-8") if golden.exists() else "", text)

    def test_the_tree_of_a_hello(self):
        lines = self.tshark.run("-n", "-r", self.tshark.file("tree.pcap", (REAL / "manual.pcap").read_bytes()), "-V", "-Y",
                                "frame.number == 4").stdout.splitlines()
        for line in ("Staged QP negotiation: Hello manual (of rank 3)", "    Magic: QPng", "        Variant: manual",
                     "Staged QP negotiation: info round 1, last", "        Queue pair number: 0x00000011",
                     "        GID: ::ffff:192.0.2.1", "            Virtual address: 0x0000000000001000"):
            self.assertIn(line, lines)

    # ---------------------------------------------------------------- who keeps the rules is not accused

    def drawn(self, seeds, impaired, handshake=True, lose=False):
        capture, messages = Capture(), 0
        for seed in seeds:
            chance = random.Random(SEED * 1000 + seed)
            a = capture.connect(ports=(20000 + seed, 7177), first_numbers=(chance.randrange(2**32), chance.randrange(2**32)))
            if handshake:
                a.handshake()
            talk = Talk(chance)
            over = chance.randrange(1, len(talk.bursts)) if chance.random() < 0.2 else len(talk.bursts)
            for number, (side, said) in enumerate(talk.bursts[:over]):
                octets = b"".join(said)
                messages += len(said)
                if lose and number > 0 and chance.random() < 0.2:
                    a.skip_octets(side, len(octets))
                    continue
                send(a, side, octets, chance, impaired)
                if chance.random() < 0.3:
                    a.ack(1 - side)
            if over < len(talk.bursts):
                send(a, talk.bursts[over][0], abort(text=b"enough"), chance, impaired)
                messages += 1
            a.close(chance.choice((INITIATOR, RESPONDER)))
        return capture, messages

    def test_nobody_is_accused_and_every_message_is_found(self):
        for impaired in False, True:
            with self.subTest(impaired=impaired):
                capture, messages = self.drawn(range(150), impaired)
                self.assertEqual(self.said(capture), [])
                for options in (), TWO_PASSES:
                    found = self.frames(capture, ("parley_neg.type",), options)
                    self.assertEqual(sum(len(layers["parley_neg.type"]) for layers in found.values()), messages)

    def test_nobody_is_accused_where_the_capture_lacks_something(self):
        for handshake, lose in (False, False), (True, True), (False, True):
            with self.subTest(handshake=handshake, lose=lose):
                capture, messages = self.drawn(range(150), False, handshake, lose)
                self.assertEqual(self.said(capture), [])
                found = sum(len(layers["parley_neg.type"]) for layers in self.frames(capture, ("parley_neg.type",)).values())
                self.assertGreater(found, messages // 3)

    def test_strangers_are_left_alone(self):
        capture = Capture()
        for number, words in enumerate((b"GET / HTTP/1.1\r\n\r\n", b"Q", b"QUIT\r\n", b"QPng is a magic, and this is no message",
                                        b"220 " + hello(), bytes(64), message(9, version=9), message(HELLO, stage=7, version=7))):
            a = capture.connect(ports=(30000 + number, 7177)).handshake()
            a.send(INITIATOR, words)
            a.send(RESPONDER, b"as you say")
            a.send(INITIATOR, hello())  # in the middle of another protocol
            a.close()
        for options in (), TWO_PASSES:
            self.assertEqual(self.frames(capture, ("parley_neg",), options), {})

    def test_a_port_of_another_and_the_switches(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 80)).handshake()
        send(a, INITIATOR, hello() + INFO_11)
        self.assertEqual(self.infos(capture), {4: "Hello manual, info round 1, last"})
        for off in ("--disable-protocol", "parley_neg"), ("--disable-heuristic", "parley_neg_tcp"):
            self.assertEqual(self.infos(capture, off), {})
        self.assertEqual(self.infos(capture, ("--disable-protocol", "parley")), {4: "Hello manual, info round 1, last"})

    def test_decode_as_says_who_speaks_another_protocol(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        a.send(INITIATOR, b"SSH-2.0-OpenSSH_9.2\r\n")
        self.assertEqual(self.said(capture), [])
        self.assertEqual(self.said(capture, options=("-d", "tcp.port==7177,parley_neg")),
                         [(4, "the peer speaks another protocol: 53 53 48 2d 32 2e 30 2d 4f 70 65 6e 53 53 48 5f ('SSH-2.0-OpenSSH_')")])

    # ---------------------------------------------------------------- pieces

    def test_a_message_in_pieces_is_linked_with_them(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        octets = hello() + INFO_11
        for begin, end in (0, 3), (3, 30), (30, len(octets) - 1):
            a.send(INITIATOR, octets[begin:end])
        a.send(INITIATOR, octets[-1:])
        a.send(RESPONDER, welcome()[:9])  # the capture ends with it
        fields = ("parley_neg.whole_in", "parley_neg.first_frame", "parley_neg.part", "parley_neg.type")
        self.assertEqual({number: {name[11:]: value for name, value in layers.items()} for number, layers in
                          self.frames(capture, fields, TWO_PASSES).items()},
                         {"4": {"whole_in": ["6"], "part": [octets[:3].hex()]}, "5": {"whole_in": ["6"], "part": [octets[3:30].hex()]},
                          "6": {"first_frame": ["4"], "type": ["1"], "whole_in": ["7"], "part": [octets[len(hello()):-1].hex()]},
                          "7": {"first_frame": ["6"], "type": ["3"]}, "8": {"part": [welcome()[:9].hex()]}})
        self.assertEqual(self.infos(capture, TWO_PASSES)[8], "part of a message")

    def test_the_first_segment_comes_second(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        octets, start = hello() + INFO_11, a.next[INITIATOR]
        a.segment(INITIATOR, octets[20:], ACK, number=start + 20)
        a.segment(INITIATOR, octets[:20], ACK, number=start)
        self.assertEqual({n: text.split("] ")[-1] for n, text in self.infos(capture).items()}, {5: "Hello manual, info round 1, last"})

    def test_a_fin_and_a_reset_in_the_middle_of_a_message(self):
        for flags, word in (FIN | ACK, "FIN"), (RST | ACK, "RST"):
            capture = Capture()
            a = capture.connect(ports=(40001, 7177)).handshake()
            a.send(INITIATOR, hello() + INFO_11[:20])
            a.segment(INITIATOR, b"", flags)
            self.assertEqual(self.said(capture), [(5, f"{word} after 20 octets of a message")])

    def test_what_the_capture_lacks_is_said(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        send(a, INITIATOR, hello() + INFO_11)
        a.skip_octets(RESPONDER, len(welcome() + INFO_11))
        for round_ in range(1, 25):
            send(a, INITIATOR, turn(READY, round_, b"\3", last=False))
            send(a, RESPONDER, turn(READY, round_, b"\3", last=False))
        said = self.said(capture, (ERROR, WARNING, NOTE))
        self.assertEqual([text for _, text in said], [f"{len(welcome() + INFO_11)} octets of the responder are not in the capture"])

    # ---------------------------------------------------------------- what the peer says

    def test_texts_of_the_peer_are_escaped(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        a.send(INITIATOR, hello(b"\x1b[2J", more=item(4, b"a\nb\x07")))
        a.send(RESPONDER, abort(0x0302, b"no\x1b]0;x\x07\n", b"try\r\n"))
        path = self.tshark.file("escape.pcap", capture.octets())
        done = self.tshark.run("-n", "-r", path, "-V")
        summary = self.tshark.run("-n", "-r", path, "-T", "tabs", "-o", 'gui.column.format:"Info","%i"').stdout
        for text in done.stdout, summary:
            self.assertFalse(set(text) & {"\x1b", "\x07", "\r"})
        self.assertIn(r"\033[2J", summary)
        self.assertEqual(len(summary.splitlines()), 5)

    def test_unknown_items_are_shown_with_type_and_length(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        a.send(INITIATOR, hello(more=item(0x0077, b"12345")) + turn(INFO, 1, qp_info(more=item(0x0078, b"123"))))
        layers = self.frames(capture, ("parley_neg.item.unknown", "parley_neg.item.type", "parley_neg.qp.item.type",
                                       "parley_neg.item.value", "parley_neg.item.length"))["4"]
        self.assertEqual(layers["parley_neg.item.unknown"], ["1", "1"])
        self.assertEqual((layers["parley_neg.item.type"][-1], layers["parley_neg.qp.item.type"][-1]), ("0x0077", "0x0078"))
        self.assertEqual(layers["parley_neg.item.value"], [b"12345".hex(), b"123".hex()])
        self.assertEqual(self.said(capture), [])

    def test_a_variant_of_another_plugin_is_not_read_as_a_queue_pair(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        a.send(INITIATOR, hello(b"rc", b"acme") + INFO_11)
        self.assertEqual(self.infos(capture), {4: "Hello acme/rc, info round 1, last"})
        layers = self.frames(capture, ("parley_neg.data", "parley_neg.qp.qpn"))["4"]
        self.assertEqual(layers, {"parley_neg.data": [qp_info().hex()]})

    def test_messages_in_private_data(self):
        capture = Capture()
        a = capture.connect().handshake()
        a.send(INITIATOR, startup(REQ, C, 1, hello() + INFO_11 + bytes(7)))
        a.send(RESPONDER, startup(REP, C, 1, welcome() + turn(INFO, 1, qp_info(0x22))))
        b = capture.connect().handshake()
        b.send(INITIATOR, startup(REQ, C, 1, hello() + b"and more"))  # no messages: it does not end with zeros
        found = self.frames(capture, ("parley_neg.type", "parley_neg.qp.qpn", "parley.private.format", "_ws.col.Info"))
        self.assertEqual(found["4"]["parley_neg.type"], ["1", "3"])
        self.assertEqual(found["5"]["parley_neg.qp.qpn"], ["0x00000022"])
        self.assertEqual(found["4"]["parley.private.format"], ["Parley negotiation"])
        self.assertIn("Hello manual, info round 1, last", found["4"]["_ws.col.Info"][0])
        self.assertEqual(found["9"]["parley.private.format"], ["plain octets"])

    # ---------------------------------------------------------------- broken rules

    def test_each_broken_rule_is_found_once_in_its_frame(self):
        capture, expected = Capture(), []
        for number, (name, before, side, wrong, words) in enumerate(violations()):
            for repeat in range(6):
                chance = random.Random(SEED + 1000 * number + repeat)
                a = capture.connect(ports=(20000 + 10 * number + repeat, 7177)).handshake()
                for who, octets in before:
                    send(a, who, octets, chance, impaired=repeat > 2)
                # What is wrong in a header shows with the header: no segment ends before it.
                a.send(side, wrong, (chance.randrange(16, len(wrong)),) if len(wrong) > 17 and not words.startswith(AT_ONCE) and
                       repeat % 2 else ())
                expected.append((len(capture.frames), name, words))
                a.send(1 - side, abort())
                a.close(1 - side)
        said = self.said(capture)
        names = {frame: name for frame, name, _ in expected}
        self.assertEqual([(frame, names.get(frame), text) for frame, text in said], expected)

    def test_nothing_follows_an_abort_and_that_is_said_once(self):
        capture = Capture()
        a = capture.connect(ports=(40001, 7177)).handshake()
        for octets in hello() + INFO_11, abort(), turn(INFO, 2), message(ABORT):
            send(a, INITIATOR, octets)
        send(a, RESPONDER, abort())  # it had not heard of the other one
        self.assertEqual(self.said(capture), [(6, "a message after its sender's Abort in frame 5")])
        self.assertEqual(self.said(capture, (NOTE,))[0], (5, "the initiator gave up: protocol_violation: a rule is broken"))


if __name__ == "__main__":
    unittest.main()
