# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The files that `parley sim run` writes, in the hands of stock tools: tshark, capinfos, editcap, mergecap."""
import os
import re
import subprocess

from cli import LIMIT, CliTest, main, run

PLAIN, LOSSY, CRASH, V6 = "handshake_v2_read", "lossy_handshake", "crash_responder_in_data", "ipv6"
# What these programs say when they run as root, which says nothing of the file.
CHATTER = re.compile(r"Running as user|^\s*$")


class Files(CliTest):
    def tool(self, *command):
        """Standard output of a tool that must be content: exit 0 and nothing on standard error."""
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=LIMIT, check=False,
                              env={**os.environ, "HOME": self.directory, "LC_ALL": "C.UTF-8"})
        complaints = [line for line in done.stderr.splitlines() if not CHATTER.search(line)]
        self.assertEqual((done.returncode, complaints), (0, []), command)
        return done.stdout

    def fields(self, file, *names, condition=""):
        command = ["tshark", "-r", file, "-T", "fields"]
        for name in names:
            command += ["-e", name]
        if condition:
            command += ["-Y", condition]
        return [line.split("\t") for line in self.tool(*command).splitlines()]

    def record(self, scenario, *more):
        file = self.path(f"{scenario}.pcapng")
        return file, self.ok(run("sim", "run", scenario, "--pcapng", file, *more))

    def test_capinfos_knows_the_run_and_its_interfaces(self):
        file, _ = self.record(LOSSY, "--seed", "7")
        told = self.tool("capinfos", file)
        for word in ("pcapng", "nanoseconds (9)", "Strict time order:   True", "Number of interfaces in file: 2", "seed 7",
                     "Speed = "):
            self.assertIn(word, told)
        self.assertRegex(told, r"Capture application: parley \d+\.\d+\.\d+.*, scenario .*, seed 7")
        self.assertRegex(told, r"Name = \w+/p1\n\s+Description = link .*b/s, .*s, MTU \d+")

    def test_every_frame_that_no_fault_touched_is_right(self):
        for scenario in (PLAIN, LOSSY, CRASH, V6):
            with self.subTest(scenario):
                file, _ = self.record(scenario)
                bad = self.tool("tshark", "-r", file, "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-Y",
                                "!frame.comment && (tcp.checksum.status == 0 || ip.checksum.status == 0 || "
                                "icmpv6.checksum.status == 0)")
                self.assertEqual(bad, "")
                self.tool("tshark", "-r", file, "-V")

    def test_copies_of_a_frame_share_their_id_and_say_their_direction(self):
        file, _ = self.record(PLAIN)
        seen = {}
        for name, flags, ident in self.fields(file, "frame.interface_name", "frame.packet_flags_direction", "frame.packet_id"):
            seen.setdefault(ident, []).append((name, int(flags, 16)))
        self.assertGreater(len(seen), 5)
        for sights in seen.values():
            self.assertEqual([direction for _, direction in sights], [2, 1])  # outbound, then inbound
            self.assertNotEqual(sights[0][0], sights[1][0])

    def test_a_dropped_frame_says_why(self):
        file, _ = self.record(LOSSY)
        comments = [row[0] for row in self.fields(file, "frame.comment", condition="frame.comment")]
        self.assertTrue(any("dropped by" in comment for comment in comments), comments)
        file, _ = self.record(CRASH)
        comments = " ".join(row[0] for row in self.fields(file, "frame.comment", condition="frame.comment"))
        self.assertRegex(comments, r"host \w+ crashed at \d+\.\d{9} s")

    def test_addresses_have_the_names_of_the_hosts(self):
        file, _ = self.record(PLAIN)
        hosts = {name.split("/")[0] for (name,) in self.fields(file, "frame.interface_name")}
        named = self.tool("tshark", "-r", file, "-N", "n", "-Y", "tcp", "-T", "fields", "-e", "ip.src_host").split()
        self.assertEqual(set(named), hosts)

    def test_editcap_and_mergecap_keep_what_is_said(self):
        lossy, _ = self.record(LOSSY)
        plain, _ = self.record(PLAIN)
        part, merged = self.path("part.pcapng"), self.path("merged.pcapng")
        self.tool("editcap", "-r", lossy, part, "1-1000")
        self.assertEqual(self.fields(part, "frame.comment", "frame.packet_id"),
                         self.fields(lossy, "frame.comment", "frame.packet_id"))
        self.tool("mergecap", "-w", merged, lossy, plain)
        self.assertEqual(len(self.fields(merged, "frame.number")),
                         len(self.fields(lossy, "frame.number")) + len(self.fields(plain, "frame.number")))
        self.tool("capinfos", merged)
        self.ok(run("pcap", "check", part))

    def test_what_one_end_saw_is_a_capture_without_repetitions(self):
        file, _ = self.record(V6)
        name = self.fields(file, "frame.interface_name")[0][0]
        end = self.path("end.pcapng")
        self.tool("tshark", "-r", file, "-Y", f'frame.interface_name == "{name}"', "-w", end)
        self.assertEqual(self.fields(end, "frame.number", condition="_ws.malformed || tcp.analysis.retransmission"), [])
        self.ok(run("pcap", "check", end))

    def test_pcap_check_finds_nothing_in_runs_of_well_behaved_peers(self):
        for scenario in (PLAIN, LOSSY, CRASH, V6):
            with self.subTest(scenario):
                file, _ = self.record(scenario)
                done = self.ok(run("pcap", "check", file))
                self.assertIn("0 errors, 0 warnings", done.out)

    def test_the_hash_that_is_printed_is_the_files_and_the_same_again(self):
        file, done = self.record(LOSSY, "--seed", "11")
        with open(file, "rb") as octets:
            first = octets.read()
        value = 0xCBF29CE484222325
        for octet in first:
            value = ((value ^ octet) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.assertIn(f"{value:016x}", done.out)
        again, _ = self.record(LOSSY, "--seed", "11")
        with open(again, "rb") as octets:
            self.assertEqual(octets.read(), first)

    def test_the_ladder_and_the_page_show_the_same_run(self):
        page = self.path("run.html")
        done = self.ok(run("sim", "run", LOSSY, "--ladder", "--html", page))
        with open(page, encoding="utf-8") as file:
            text = file.read()
        for word in ("MPA Request", "MPA Reply", "SYN ACK"):
            self.assertIn(word, done.out)
            self.assertIn(word, text)
        self.assertIn("✗", done.out)


if __name__ == "__main__":
    main()
