#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How the stages of interop go on when guests are lost: tests/interop/stage.py, with boots that are played."""
import contextlib
import io
import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

import cli

sys.path.insert(0, os.path.join(cli.SOURCE_DIR, "tests", "interop"))
import captures  # noqa: E402
import stage  # noqa: E402

CASES = ["one", "two", "three", "four"]


class LostGuests(unittest.TestCase):
    def play(self, ends, console=""):
        """Boots that end after so many cases each. What each was given to run, and the Boots."""
        with tempfile.TemporaryDirectory() as folder:
            work, given, said = Path(folder), [], io.StringIO()
            boots = stage.Boots(work, CASES)

            def boot(number, left):
                given.append(left)
                (work / "all.pcap").write_text(f"boot {number}")
                (work / "a.log").write_text("some line\nguest b is lost\n")
                (work / "b.console").write_text(console)
                return ends[number - 1]

            with contextlib.redirect_stdout(said):
                boots.run(boot, ["all.pcap"])
            for number in range(1, len(given) + 1):
                self.assertEqual(stage.boot_file(work, number, "all.pcap").read_text(), f"boot {number}")
            self.said = said.getvalue()
            return given, boots

    def test_one_boot_is_enough_as_a_rule(self):
        given, boots = self.play([4])
        self.assertEqual(given, [CASES])
        self.assertEqual([boots.problems(case) for case in range(4)], [[], [], [], []])
        self.assertEqual(self.said, "")

    def test_the_case_that_was_on_is_begun_once_more(self):
        given, boots = self.play([1, 3])
        self.assertEqual(given, [CASES, ["two", "three", "four"]])
        self.assertEqual(boots.boot_of, {0: 1, 1: 2, 2: 2, 3: 2})
        self.assertEqual(boots.problems(1), [])
        self.assertEqual(self.said, "boot 1: the guests were lost in case 2 of 4: guest b is lost\n")

    def test_a_case_that_loses_the_guests_twice_has_failed_and_the_rest_goes_on(self):
        given, boots = self.play([1, 0, 2], "[   3.2] BUG: kernel NULL pointer dereference\nRIP: 0010:siw_run+0x1/0x2 [siw]\n")
        self.assertEqual(given[2], ["three", "four"])
        self.assertEqual(len(boots.problems(1)), 2)
        self.assertIn("the kernel of guest b died: BUG: kernel NULL pointer dereference in siw_run [siw]", boots.problems(1)[0])
        self.assertEqual([boots.problems(case) for case in (0, 2, 3)], [[], [], []])

    def test_the_last_case_that_loses_the_guests_twice_ends_the_run(self):
        given, boots = self.play([3, 0])
        self.assertEqual(len(given), 2)
        self.assertEqual(boots.problems(3), ["guest b is lost"] * 2)

    def test_guests_that_are_lost_again_and_again_are_not_booted_for_ever(self):
        given, boots = self.play([0, 1, 1, 0])
        self.assertEqual(len(given), stage.Boots.MAX)
        self.assertEqual(boots.problems(0), [])
        self.assertEqual(boots.problems(3), ["it was not begun in 4 boots"])
        self.assertTrue(boots.problems(2))

    def test_the_capture_of_a_guest_that_died_while_it_wrote_is_read_up_to_there(self):
        ip = bytes([0x45, 0, 0, 40]) + bytes(5) + bytes([6]) + bytes(10)
        tcp = struct.pack(">HHIIBBHHH", 1, 10000, 7, 0, 0x50, 2, 0, 0, 0)
        frame = bytes(12) + b"\x08\x00" + ip + tcp
        record = struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame
        with tempfile.TemporaryDirectory() as folder:
            for cut in range(1, len(record)):
                path = Path(folder, "torn.pcap")
                path.write_bytes(bytes(24) + record + record[:-cut])
                _, found = captures.split(path, 10000, 10001)
                self.assertEqual([kept.seq for kept in found[10000].frames], [7], cut)


if __name__ == "__main__":
    unittest.main()
