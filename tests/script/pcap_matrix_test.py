# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley pcap matrix` over a directory of captures, as after a day at an interop event."""
import csv
import io
import os
import shutil

import cli

CAPTURES = os.path.join(cli.SOURCE_DIR, "tests", "captures", "iwarp")


class Matrix(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.captures = os.path.join(self.directory, "captures")
        os.makedirs(os.path.join(self.captures, "alpha--beta"))
        self.add("made_01_v1_nomarker.pcap", "alpha--beta", "run.pcap")
        self.add("made_12_v2_rtr_read.pcap", "gamma--delta.pcap")

    def add(self, name, *where):
        shutil.copy(os.path.join(CAPTURES, name), os.path.join(self.captures, *where))

    def matrix(self, *args):
        return cli.run("pcap", "matrix", self.captures, *args)

    def test_a_table_of_peers_and_forms(self):
        done = self.ok(self.matrix())
        self.assertIn("alpha -> beta", done.out)
        self.assertIn("gamma -> delta", done.out)
        self.assertIn("2 files, 2 connections", done.out)

    def test_a_broken_rule_fails_its_cell_and_the_command(self):
        self.add("made_10_badcrc.pcap", "alpha--beta", "bad.pcap")
        done = self.matrix()
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"failed .*bad\.pcap: alpha -> beta: [^\[]*1 error; frame\s+\d+: ")

    def test_json_names_the_frames_of_findings(self):
        self.add("made_10_badcrc.pcap", "alpha--beta", "bad.pcap")
        (about,) = self.matrix("--json").events
        self.assertEqual(about["failed"], 1)
        cell = next(c for c in about["cells"] if c["initiator"] == "alpha")
        self.assertEqual(cell["verdict"], "failed")
        found = [f for c in cell["connections"] for f in c["findings"]]
        self.assertTrue(any(f["frame"] > 0 and "RFC 5044" in f["rule"] for f in found))

    def test_a_capture_without_a_connection_is_a_row_and_fails(self):
        with open(os.path.join(CAPTURES, "made_01_v1_nomarker.pcap"), "rb") as file:
            header = file.read(24)
        with open(os.path.join(self.captures, "nothing.pcap"), "wb") as file:
            file.write(header)
        done = self.matrix()
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.out, r"nothing\.pcap  failed: no connection of a known protocol; the\s+capture\s+holds no packet")
        done = self.matrix("--json")
        self.assertEqual(done.events[0]["verdict"], "failed")
        (lacking,) = done.events[0]["lacking"]
        self.assertTrue(lacking["file"].endswith("nothing.pcap"))

    def test_a_file_with_fewer_connections_than_expected_fails(self):
        self.ok(self.matrix("--expect", "1"))
        done = self.matrix("--expect", "2")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("1 connection, at least 2 expected", done.out)

    def test_several_ports_carry_mpa(self):
        file = os.path.join(self.captures, "gamma--delta.pcap")
        for command in ("check", "ladder", "matrix"):
            self.ok(cli.run("pcap", command, "--mpa-port", "4000", "--mpa-port", "5000", file))

    def test_csv_and_page_are_written(self):
        page, table = self.path("m.html"), self.path("m.csv")
        self.ok(self.matrix("--html", page, "--csv", table))
        with open(table, encoding="utf-8") as file:
            rows = list(csv.DictReader(io.StringIO(file.read())))
        self.assertEqual([row["initiator"] for row in rows], ["alpha", "gamma"])
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertIn("</html>", text)
        self.assertNotRegex(text, r"https?://")

    def test_a_file_of_names_wins(self):
        (about,) = self.matrix("--json").events
        self.assertEqual(about["cells"][0]["initiator"], "alpha")
        found = cli.run("pcap", "check", "--json", os.path.join(self.captures, "gamma--delta.pcap")).events
        address = found[0]["connections"][0]["initiator"].rsplit(":", 1)[0]
        names = self.path("names", f"# who is who\n{address} zeta\n".encode())
        self.assertIn("zeta -> delta", self.ok(self.matrix("--names", names)).out)

    def test_unreadable_files_are_listed_and_stop_nothing(self):
        with open(os.path.join(self.captures, "broken.pcap"), "wb") as file:
            file.write(b"this is no capture")
        with open(os.path.join(self.captures, "notes.txt"), "wb") as file:
            file.write(b"nor is this, and nobody asks it to be")
        done = self.matrix()
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("alpha -> beta", done.out)
        self.assertRegex(done.out, r"cannot be read: .*broken\.pcap: ")
        self.assertNotIn("notes.txt", done.out)

    def test_mistakes_are_told_in_one_line(self):
        self.refused(cli.run("pcap", "matrix", self.path("nowhere")), 3, "no such file")
        os.makedirs(self.path("empty"))
        self.refused(cli.run("pcap", "matrix", self.path("empty")), 3, "no capture")
        self.refused(self.matrix("--names", self.path("bad", b"nobody x\n")), 2, "line 1")
        self.refused(self.matrix("--csv", os.path.join(self.captures, "gamma--delta.pcap")), 2, "captures")


if __name__ == "__main__":
    cli.main()
