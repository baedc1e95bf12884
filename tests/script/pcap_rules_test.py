# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley pcap rules`, and what --ignore and --severity of the commands that judge captures make of findings."""
import csv
import io
import os

import cli

CAPTURES = os.path.join(cli.SOURCE_DIR, "tests", "captures", "iwarp")
BAD_CRC = os.path.join(CAPTURES, "made_10_badcrc.pcap")
GOOD = os.path.join(CAPTURES, "made_12_v2_rtr_read.pcap")


class Rules(cli.CliTest):
    def test_all_of_them_and_one_in_full(self):
        events = cli.run("pcap", "rules", "--json").events
        keys = [event["key"] for event in events]
        self.assertEqual(len(set(keys)), len(keys))
        self.assertLessEqual({"mpa.crc", "rdmap.terminate-order", "cm.comm-id", "ib.msn", "neg.round"}, set(keys))
        self.assertEqual(len(cli.run("pcap", "rules").out.splitlines()), len(keys))
        self.assertEqual(cli.run("pcap", "rules", "mpa.crc", "--json").events, [event for event in events if event["key"] == "mpa.crc"])
        one = self.ok(cli.run("pcap", "rules", "mpa.crc")).out
        for words in ("mpa.crc", "RFC 5044 §4.4", "error", "CRC32c", "snap length"):
            self.assertIn(words, one)

    def test_an_unknown_id_is_refused_and_near_ones_are_named(self):
        for words in (("pcap", "rules", "mpa.crcs"), ("pcap", "check", "--ignore", "mpa.crcs", GOOD),
                      ("pcap", "check", "--severity", "mpa.crcs=note", GOOD), ("pcap", "matrix", "--ignore", "mpa.crcs", GOOD)):
            done = cli.run(*words)
            self.assertEqual(done.code, 2, str(done))
            self.assertIn("mpa.crcs", done.err)
            self.assertIn("near: mpa.crc", done.err)
        self.assertIn("near: ", cli.run("pcap", "rules", "msn").err)

    def test_a_severity_must_be_one(self):
        for word in ("mpa.crc", "mpa.crc=fatal", "mpa.crc="):
            done = cli.run("pcap", "check", "--severity", word, GOOD)
            self.assertEqual(done.code, 2, str(done))
            self.assertIn("warning", done.err)


class Findings(cli.CliTest):
    def check(self, *args):
        return cli.run("pcap", "check", *args, BAD_CRC)

    def keys(self, *args):
        (verdict,) = self.check("--json", *args).events
        return verdict, {finding["key"]: finding["severity"] for connection in verdict["connections"]
                         for finding in connection["findings"] if "key" in finding}

    def test_each_names_its_rule(self):
        verdict, keys = self.keys()
        self.assertEqual(keys["mpa.crc"], "error")
        self.assertNotIn("ignored", verdict)
        self.assertIn("[RFC 5044 §4.4, mpa.crc]", self.check("--width", "200").out)

    def test_ignored_ones_are_counted_and_do_not_decide(self):
        self.assertIn("1 finding ignored (mpa.crc)", self.check("--ignore", "mpa.crc").out)
        verdict, keys = self.keys("--ignore", "mpa.crc")
        self.assertEqual((verdict["ignored"], verdict["errors"]), ({"mpa.crc": 1}, 0))
        self.assertNotIn("mpa.crc", keys)
        # A Terminate ended the connection, and that is no finding.
        self.assertEqual(verdict["connections"][0]["verdict"], "failed")
        self.assertNotIn("error", verdict["connections"][0]["reason"])

    def test_of_several_files_all_are_counted(self):
        *_, last = self.check("--json", "--ignore", "mpa.crc", BAD_CRC, GOOD).events
        self.assertEqual(last["total"]["ignored"], {"mpa.crc": 2})

    def test_a_severity_of_the_users(self):
        verdict, keys = self.keys("--severity", "mpa.crc=note", "--severity", "rdmap.terminated=warning")
        self.assertEqual((keys["mpa.crc"], keys["rdmap.terminated"]), ("note", "warning"))
        self.assertEqual((verdict["errors"], verdict["warnings"]), (0, 1))
        done = cli.run("pcap", "check", "--severity", "mpa.crc-not-asked=error", os.path.join(CAPTURES, "siw_v1.pcap"))
        self.assertEqual(done.code, 1, str(done))

    def test_junit_and_csv_name_the_rule(self):
        junit = self.check("--junit", "-").out
        self.assertIn("[RFC 5044 §4.4, mpa.crc]", junit)
        self.assertIn("1 finding ignored (mpa.crc)", self.check("--junit", "-", "--ignore", "mpa.crc").out)
        (line,) = csv.DictReader(io.StringIO(self.check("--csv", "-").out))
        self.assertEqual(line["first_error_key"], "mpa.crc")

    def test_a_matrix_does_so_too(self):
        folder = os.path.join(self.directory, "captures")
        os.makedirs(folder)
        os.symlink(BAD_CRC, os.path.join(folder, "a--b.pcap"))
        (about,) = cli.run("pcap", "matrix", folder, "--ignore", "mpa.crc", "--json").events
        self.assertEqual(about["ignored"], {"mpa.crc": 1})
        self.assertIn("1 finding ignored (mpa.crc)", cli.run("pcap", "matrix", folder, "--ignore", "mpa.crc").out)


if __name__ == "__main__":
    cli.main()
