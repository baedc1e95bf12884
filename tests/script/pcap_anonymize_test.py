# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley pcap anonymize`: same verdict as `parley pcap check` sees it, and nothing of the original."""
import glob
import os
import re
import struct

import cli

CAPTURES = sorted(glob.glob(os.path.join(cli.SOURCE_DIR, "tests", "captures", "iwarp", "*.pcap")))


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Anonymize(cli.CliTest):
    def verdict(self, path):
        """What check says, without addresses, private data and the numbers of octets."""
        (about,) = cli.run("pcap", "check", "--json", path).events
        del about["file"], about["report"]
        for c in about["connections"]:
            for key in ("initiator", "responder"):
                del c[key]
            for frame in ("request", "reply"):
                if c["mpa"][frame]:
                    c["mpa"][frame]["private_data"] = c["mpa"][frame]["private_data"]["length"]
            for finding in c["findings"]:
                finding["text"] = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{8}\b", "#", finding["text"])
            c["findings"].sort(key=lambda f: (f["frame"], f["text"]))
        return about

    def anonymize(self, source, *args, name="public.pcap"):
        target = self.path(name)
        return self.ok(cli.run("pcap", "anonymize", source, "-o", target, *args)), target

    def test_check_says_the_same_of_every_capture(self):
        for capture in CAPTURES:
            with self.subTest(os.path.basename(capture)):
                _, target = self.anonymize(capture)
                self.assertEqual(self.verdict(capture), self.verdict(target))
                self.assertEqual(os.path.getsize(capture), os.path.getsize(target))

    def test_check_says_the_same_of_simulated_runs_with_faults(self):
        # Loss, reordering, duplicates, altered octets, markers, FPDUs that straddle segments.
        for scenario in ("duplicate_and_reorder_storm", "lossy_marker_stream", "corrupt_frames", "corrupt_fpdu_crc",
                         "corrupt_marker", "rdma_writes_and_reads", "lossy_handshake"):
            with self.subTest(scenario):
                capture = self.path(scenario + ".pcapng")
                cli.run("sim", "run", scenario, "--pcapng", capture)
                _, target = self.anonymize(capture, name=scenario + "-public.pcapng")
                self.assertEqual(self.verdict(capture), self.verdict(target))
                octets = read(target)
                for secret in (b"welcome", b"hello", scenario.encode(), b"Parley", b"parley"):
                    self.assertNotIn(secret, octets)

    def test_without_a_key_no_two_are_alike_and_with_one_all_are(self):
        files = [read(self.anonymize(CAPTURES[0], *key, name=f"{i}.pcap")[1])
                 for i, key in enumerate([(), (), ("--key", "k"), ("--key-file", self.path("key", b"k\n"))])]
        self.assertNotEqual(files[0], files[1])
        self.assertEqual(files[2], files[3])

    def test_times_move_to_the_beginning_when_asked(self):
        def times(octets):
            at, found = 24, []
            while at < len(octets):
                seconds, fraction, captured = struct.unpack_from("<III", octets, at)
                found.append((seconds, fraction))
                at += 16 + captured
            return found
        kept = times(read(self.anonymize(CAPTURES[0], name="kept.pcap")[1]))
        self.assertEqual(kept, times(read(CAPTURES[0])))
        moved = times(read(self.anonymize(CAPTURES[0], "--shift-time", name="moved.pcap")[1]))
        self.assertEqual(min(moved), (0, 0))
        self.assertEqual(len(moved), len(kept))

    def test_json_tells_what_became_of_what(self):
        done, _ = self.anonymize(CAPTURES[0], "--json")
        (about,) = done.events
        self.assertGreater(about["packets"], 0)
        self.assertGreater(about["kept"]["fpdus"], 0)
        self.assertEqual(about["key"], "random")
        self.assertTrue(about["complete"])

    def test_a_damaged_capture_leaves_its_beginning(self):
        source = self.path("cut.pcap", read(CAPTURES[0])[:-5])
        target = self.path("public.pcap")
        done = cli.run("pcap", "anonymize", source, "-o", target)
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("truncated", done.err)
        self.assertEqual(cli.run("pcap", "check", target).code, 0)

    def test_check_says_the_same_of_connections_set_up_before_the_capture(self):
        whole, at, records = read(CAPTURES[0]), 24, []
        while at < len(whole):
            size = 16 + struct.unpack_from("<I", whole, at + 8)[0]
            records.append(whole[at:at + size])
            at += size
        source = self.path("late.pcap", whole[:24] + b"".join(records[5:]))
        outcomes = {c["outcome"] for c in self.verdict(source)["connections"]}
        self.assertEqual(outcomes, {"handshake_not_captured"})
        _, target = self.anonymize(source)
        self.assertEqual(self.verdict(source), self.verdict(target))

    def test_a_link_type_that_is_not_decoded_is_refused_by_name(self):
        whole = read(CAPTURES[0])
        target = self.path("public.pcap")
        for number, name in ((189, "link type 189 (USB, Linux)"), (299, "link type 299 is")):
            source = self.path("link.pcap", whole[:20] + struct.pack("<I", number) + whole[24:])
            self.refused(cli.run("pcap", "anonymize", source, "-o", target), 3, name)
            self.refused(cli.run("pcap", "check", source), 3, name)
        self.assertFalse(os.path.exists(target))

    def test_mistakes_are_told_in_one_line_and_write_nothing(self):
        target = self.path("public.pcap")
        self.refused(cli.run("pcap", "anonymize", self.path("none"), "-o", target), 3, "No such file")
        self.refused(cli.run("pcap", "anonymize", self.path("text", b"no capture"), "-o", target), 3)
        self.refused(cli.run("pcap", "anonymize", "-", "-o", target), 2, "standard input")
        source = self.path("in.pcap", read(CAPTURES[0]))
        self.refused(cli.run("pcap", "anonymize", source, "-o", source), 2, "overwrite")
        self.refused(cli.run("pcap", "anonymize", source, "-o", "-"), 2, "written to a file")
        self.refused(cli.run("pcap", "anonymize", source, "-o", target, "--key", ""), 2, "key is empty")
        self.assertFalse(os.path.exists(target))
        self.assertEqual(read(source), read(CAPTURES[0]))


if __name__ == "__main__":
    cli.main()
