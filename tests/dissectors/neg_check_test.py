# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley pcap check` and the plugin say the same of staged QP negotiations, in the same frames. PARLEY is the command."""
import json
import os
import random
import subprocess
import unittest

import harness
from gaps_test import TCP_WORDS
from neg_broken import AT_ONCE, violations
from neg_wire import Talk, abort, send
from wire import Capture

PARLEY = os.environ["PARLEY"]
SEED = int(os.environ.get("PARLEY_SEED", "7177"))
REAL = harness.SOURCE / "tests/captures/neg"
SEVERITIES = {"8388608": "error", "6291456": "warning"}


class NegCheck(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tshark = cls.enterClassContext(harness.Tshark(True))

    def same(self, octets):
        path = self.tshark.file(f"{self._testMethodName}.pcap", octets)
        frames = self.tshark.fields(path, ("_ws.expert.severity", "_ws.expert.message", "parley_neg", "parley_neg.type"))
        shown = [(int(number), SEVERITIES[severity], text) for number, layers in frames.items() if "parley_neg" in layers
                 for severity, text in zip(layers.get("_ws.expert.severity", ()), layers.get("_ws.expert.message", ()))
                 if severity in SEVERITIES and not TCP_WORDS.search(text)]
        done = subprocess.run([PARLEY, "pcap", "check", "--json", path], capture_output=True, text=True, timeout=harness.LIMIT, check=False)
        negotiations = json.loads(done.stdout)["negotiations"]
        said = sorted((f["frame"], f["severity"], f["text"]) for n in negotiations for f in n["findings"]
                      if f["severity"] in SEVERITIES.values())
        self.assertEqual(said, sorted(shown))
        self.assertEqual(sum(n[side]["messages"] for n in negotiations for side in ("from_initiator", "from_responder")),
                         sum(len(layers.get("parley_neg.type", ())) for layers in frames.values()))
        return said

    def test_of_real_ones(self):
        for path in sorted(REAL.glob("*.pcap")):
            with self.subTest(path.name):
                self.assertEqual(self.same(path.read_bytes()), [])

    def test_of_valid_ones(self):
        capture = Capture()
        for seed in range(100):
            chance = random.Random(SEED * 1000 + seed)
            a = capture.connect(ports=(20000 + seed, 7177)).handshake()
            for side, said in Talk(chance).bursts:
                send(a, side, b"".join(said), chance, impaired=True)
            a.close()
        self.assertEqual(self.same(capture.octets()), [])

    def test_of_each_broken_rule(self):
        capture = Capture()
        for number, (_, before, side, wrong, words) in enumerate(violations()):
            a = capture.connect(ports=(20000 + number, 7177)).handshake()
            for who, octets in before:
                send(a, who, octets)
            a.send(side, wrong, (16,) if len(wrong) > 17 and not words.startswith(AT_ONCE) and number % 2 else ())
            a.send(1 - side, abort())
            a.close(1 - side)
        self.assertEqual(sorted(text for _, _, text in self.same(capture.octets())), sorted(row[4] for row in violations()))


if __name__ == "__main__":
    unittest.main()
