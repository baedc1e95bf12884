# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Help, version, and every wrong command line: exit 2, one line, a hint."""
import json
import re
import subprocess

from cli import LIMIT, PARLEY, CliTest, main, run


class Usage(CliTest):
    def test_no_argument_is_help_and_exit_2(self):
        done = run()
        self.assertEqual(done.code, 2)
        for command in ("listen", "connect", "rping", "demo", "quirks", "pcap", "sim"):
            self.assertIn(command, done.err)

    def test_version(self):
        done = self.ok(run("--version"))
        self.assertRegex(done.out, r"^parley \d+\.\d+\.\d+\n$")

    def test_every_command_has_help_with_examples(self):
        self.ok(run("--help"))
        for command in ("listen", "connect", "rping", "udping", "cmtime", "demo", "quirks"):
            with self.subTest(command):
                done = self.ok(run(command, "--help"))
                self.assertIn("Examples:\n  parley " + command, done.out)
                self.assertIn("--json", done.out)

    def test_a_command_says_of_itself_what_the_list_of_all_says_of_it(self):
        listed = re.findall(r"^  ([a-z]+) {2,}(\S.*)$", self.ok(run("--help")).out, re.MULTILINE)
        self.assertGreater(len(listed), 20)
        for command, about in listed:
            with self.subTest(command):
                words = self.ok(run(command, "--help")).out
                self.assertTrue(words.startswith(about), words[:100])
                self.assertIn(f"parley {command} ", words)

    def test_what_nobody_takes_is_named(self):
        for words, told in ((("connect", "--bogus", "127.0.0.1:1"), "there is no option --bogus"),
                            (("connect", "--transport", "roce", "127.0.0.1:1"),
                             "there is no option --transport: this version has iWARP alone"),
                            (("connect", "--transport-timeout", "1s", "127.0.0.1:1"),
                             "there is no option --transport-timeout"),
                            (("connect", "a", "b", "c"), "unexpected argument 'b c'")):
            done = run(*words)
            self.assertEqual(done.code, 2, done)
            self.assertIn(f"parley connect: {told}; try 'parley connect --help'", done.err)

    def test_unknown_words_give_a_hint(self):
        self.refused(run("--nonsense"), 2, "--nonsense", "try 'parley --help'")
        self.refused(run("nonsense"), 2, "nonsense", "try 'parley --help'")
        self.refused(run("rping", "-s", "--nonsense"), 2, "--nonsense", "try 'parley rping --help'")

    def test_bad_option_values(self):
        for words, said in (
            (("--revision", "3"), "'3' is not one of 1, 2"),
            (("--revision", "two"), "'two' is not one of 1, 2"),
            (("--rtr", "wave"), "none, frame, send, write, read"),
            (("--rtr-offer", "frame"), "send, write, read"),
            (("--ird", "16383"), "0..16382 or none"),
            (("--ord", "-1"), "0..16382 or none"),
            (("--reply-timeout", "10"), "unit"),
            (("--reply-timeout", "ten"), "unit"),
            (("--timeout", "-1s"), "unit"),
            (("--peer-quirk", "nobody"), "parley quirks"),
            (("--play-quirk", "nobody"), "parley quirks"),
            (("--private-data-max", "513"), "'513' is not a number from 0 to 512"),
            (("--private-data", "hex:0g"), "'g' is not a hexadecimal digit"),
            (("--private-data", "hex:000"), "odd number"),
            (("--rtr", "frame", "--revision", "2"), "revision 1"),
            (("--rtr-fallback", "frame"), "without S"),
            (("--echoed",), "--send"),
            (("--port", "65536"), "'65536' is not a number, or too large"),
            (("--port", "mpa"), "'mpa' is not a number"),
            (("--size", "9999999"), "octets for one connection"),
        ):
            with self.subTest(words):
                self.refused(run("connect", "127.0.0.1:1", *words), 2, said)
        self.refused(run("connect"), 2, "--address")
        # An option that may be repeated takes one value: the next is the peer, who is not there.
        found = run("connect", "--backup", "127.0.0.1:1", "127.0.0.1:1", "--rounds", "1")
        self.assertEqual(found.code, 1, found.err)
        self.refused(run("connect", "127.0.0.1:x"), 2, "not a port")
        self.refused(run("connect", "127.0.0.1:65536"), 2, "not a port")
        self.refused(run("connect", "[::1"), 2, "lacks a ']'")
        self.refused(run("listen", "127.0.0.1:0", "--rtr-expected", "frame"), 2, "announced with S")
        self.refused(run("listen", "127.0.0.1:0", "--concurrency", "0"), 2, "--concurrency")

    def test_private_data_too_long(self):
        # RFC 5044 §7.1.1: 512 octets; RFC 6581 §9: 4 of them are for the enhanced data.
        self.refused(run("connect", "127.0.0.1:1", "--revision", "1", "--private-data", "x" * 513), 2, "513", "512")
        self.refused(run("connect", "127.0.0.1:1", "--revision", "2", "--private-data", "x" * 509), 2, "509", "508")
        self.refused(run("listen", "127.0.0.1:0", "--private-data", "x" * 509), 2, "509", "508")
        big = self.path("big", b"x" * 100000)
        self.refused(run("connect", "127.0.0.1:1", "--private-data", "@" + big), 2, "509 octets or more", "508")

    def test_rping_needs_a_side_and_a_server(self):
        self.assertEqual(run("rping").code, 2)
        self.assertEqual(run("rping", "-s", "-c").code, 2)
        self.refused(run("rping", "-c"), 2, "-a ADDRESS")
        self.refused(run("rping", "-c", "-a", "127.0.0.1", "-S", "65537"), 2, "65536")
        self.refused(run("rping", "-c", "-a", "127.0.0.1", "-S", "0"), 2, "-S")
        self.refused(run("rping", "-c", "-a", "127.0.0.1", "-C", "-1"), 2, "-C")

    def test_json_errors_are_objects_too(self):
        done = run("connect", "127.0.0.1:1", "--private-data", "hex:0g", "--json")
        self.assertEqual(done.code, 2)
        self.assertEqual(json.loads(done.out)["exit"], 2)
        self.assertIn("hexadecimal", json.loads(done.out)["text"])


class Mad(CliTest):
    NODE_INFO = "01 01 01 01 0000 0000 0000000000000007 0011 0000 00000000" + "00" * 232

    def test_a_datagram_is_shown_by_name(self):
        out = self.ok(run("mad", "decode", *self.NODE_INFO.split())).out
        self.assertTrue(out.startswith("SubnGet(NodeInfo)\n"), out)
        self.assertRegex(out, r"\n  16  0011 +mad_header.attribute_id +0x0011\n")
        self.assertIn("\nNodeInfo.num_ports=0\n", self.ok(run("mad", "decode", "--form", "dotted", self.NODE_INFO)).out)
        self.assertEqual(json.loads(self.ok(run("mad", "decode", "--json", self.NODE_INFO)).out)["attribute"], "NodeInfo")

    def test_what_is_none_is_refused(self):
        self.refused(run("mad", "decode", "01zz"), 2, "'z' is not a hexadecimal digit")
        self.refused(run("mad", "decode", "010"), 2, "an odd number of hexadecimal digits")
        self.refused(run("mad", "decode", "0101"), 2, "at least 24 octets, not 2")

    def test_lines_of_standard_input_are_one_datagram_each(self):
        lines = f"# two\n\n{self.NODE_INFO}\n0x0101\n"
        done = subprocess.run([PARLEY, "mad", "decode"], input=lines, capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("line 4: ", done.stderr)
        self.assertTrue(done.stdout.startswith("SubnGet(NodeInfo)\n"))


class Quirks(CliTest):
    def test_the_table_is_printed(self):
        done = self.ok(run("quirks"))
        for name in ("siw", "cxgb4", "irdma", "erdma", "siw-no-a", "cxgb4-stag0"):
            self.assertIn(f"\n{name}\n", "\n" + done.out)

    def test_json_has_one_object_per_quirk(self):
        entries = [json.loads(line) for line in self.ok(run("quirks", "--json")).out.splitlines()]
        siw = next(entry for entry in entries if entry["name"] == "siw")
        self.assertEqual(set(siw), {"name", "transport", "protocol", "summary", "evidence", "departures", "private_data_max"})
        self.assertIn("echoes_reserved", siw["departures"])
        self.assertEqual(siw["private_data_max"], 256)

    def test_peers_over_roce_have_each_departure_with_its_evidence(self):
        rxe, = (json.loads(line) for line in self.ok(run("quirks", "rxe", "--json")).out.splitlines())
        self.assertEqual((rxe["transport"], rxe["protocol"]), ("roce", "ibcm"))
        self.assertEqual([d["name"] for d in rxe["details"]], rxe["departures"])
        self.assertIn("forgets-in-timewait", rxe["departures"])
        self.assertTrue(all(d["text"] and d["evidence"] for d in rxe["details"]), rxe)
        self.assertIn("\nrxe\n", self.ok(run("quirks")).out)

    def test_a_quirk_belongs_to_its_transport(self):
        self.refused(run("listen", "--play-quirk", "rxe"), 2, "RoCE; this side MPA")
        self.refused(run("listen", "--roce", "--play-quirk", "siw"), 2, "MPA; this side RoCE")
        self.refused(run("connect", "192.0.2.1", "--roce", "--peer-quirk", "rxe"), 2, "--peer-quirk is about MPA")

    def test_one_or_none(self):
        self.assertEqual(len(self.ok(run("quirks", "siw", "--json")).out.splitlines()), 1)
        self.refused(run("quirks", "nobody"), 2, "nobody")


if __name__ == "__main__":
    main()
