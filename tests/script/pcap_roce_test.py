# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCE captures through the commands: verdicts and exit codes of check, JUnit and CSV, ladders, matrix, anonymized copies. cli.py
holds each line of JSON against docs/schema."""
import csv
import glob
import json
import os
import xml.etree.ElementTree

from cli import SOURCE_DIR, CliTest, main, run

CAPTURES = sorted(glob.glob(os.path.join(SOURCE_DIR, "tests", "captures", "roce", "rxe61_*.pcap")))
CM = next(path for path in CAPTURES if path.endswith("rxe61_cm.pcap"))


def golden(path):
    name = os.path.basename(path).replace(".pcap", ".json")
    with open(os.path.join(SOURCE_DIR, "tests", "golden", "roce", name), encoding="utf-8") as file:
        return json.load(file)


def shape(connections):
    """What an anonymized copy keeps."""
    return [(c["first_frame"], c["outcome"], c["verdict"], c["qp"], c["retries"], c["ird"], c["ord"], c["end"]) for c in connections]


class Roce(CliTest):
    def test_check_says_what_was_reviewed(self):
        for path in CAPTURES:
            expected = golden(path)
            done = run("pcap", "check", "--json", path)
            self.assertEqual(done.code, 0 if expected["verdict"] == "passed" else 1, path)
            connections = done.events[0]["connections"]
            for finding in (f for c in connections for f in c["findings"]):
                del finding["text"], finding["rule"]
            self.assertEqual(connections, expected["connections"], path)

    def test_text_has_reasons_in_words(self):
        text = self.ok(run("pcap", "check", CM)).out
        for words in ("10 RoCE connections", "invalid service ID: there is no listener there", "RoCEv2 XRC, established, passed",
                      "vendor option (ECE) not supported", "IRD 1 ORD 1 (initiator)"):
            self.assertIn(words, text)

    def test_reports(self):
        junit, table = os.path.join(self.directory, "junit.xml"), os.path.join(self.directory, "table.csv")
        self.ok(run("pcap", "check", "--junit", junit, "--csv", table, CM))
        suite = xml.etree.ElementTree.parse(junit).getroot().find("testsuite")
        self.assertEqual(len(suite.findall("testcase")), 2 + 10 * 4)
        self.assertIsNone(suite.find("testcase/failure"))
        with open(table, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["protocol"] for row in rows], ["ibcm"] * 10)
        self.assertEqual((rows[0]["initiator"], rows[0]["service"], rows[0]["qp"]), ("192.0.2.2:0x000011", "tcp:9001", "rc"))

    def test_ladders(self):
        self.assertIn("REJ reason 28", run("pcap", "ladder", CM).out)
        lines = self.ok(run("pcap", "ladder", "--json", "-n", "1", CM)).events
        self.assertEqual((lines[0]["protocol"], lines[0]["initiator"]), ("ibcm", "192.0.2.2:0x000011"))
        self.assertTrue(lines[0]["ladder"][0]["text"].startswith("REQ QPN 0x000011"))
        page = os.path.join(self.directory, "page.html")
        self.ok(run("pcap", "ladder", "--html", page, CM))
        with open(page, encoding="utf-8") as file:
            self.assertIn("RC Acknowledge", file.read())

    def test_matrix(self):
        done = run("pcap", "matrix", "--json", CM)
        cells = self.ok(done).events[0]["cells"]
        self.assertEqual({(cell["transport"], cell["protocol"]) for cell in cells}, {("roce", "ibcm")})
        self.assertEqual({cell["form"] for cell in cells}, {"RoCEv2 RC", "RoCEv2 XRC"})

    def test_anonymized_copies_have_the_same_verdict(self):
        for path in CAPTURES:
            copy = os.path.join(self.directory, os.path.basename(path))
            self.ok(run("pcap", "anonymize", "--key", "of the test", path, "-o", copy))
            self.assertEqual(shape(run("pcap", "check", "--json", copy).events[0]["connections"]), shape(golden(path)["connections"]), path)


if __name__ == "__main__":
    main()
