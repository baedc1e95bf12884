# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Captures as people have them: packed, cut, of another format, made longer than what was written."""
import gzip
import hashlib
import json
import os
import struct
import subprocess
import unittest

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, body, run

NAME = "siw_v2_p2p_write_rtr.pcap"
PLAIN = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", NAME)
PACKED = {kind: os.path.join(SOURCE_DIR, "tests", "captures", "packed", NAME + ending)
          for kind, ending in (("gzip", ".gz"), ("zstd", ".zst"), ("lz4", ".lz4"))}
GIB = 1 << 30


def content(path):
    with open(path, "rb") as file:
        return file.read()


def verdict(path):
    done = run("pcap", "check", "--json", path)
    answer = json.loads(done.out)
    del answer["file"], answer["report"]  # which name the file as it lies on the disk
    return done.code, answer


class CaptureInput(CliTest):
    def unreadable(self, path, *words, before=True, to_replay=None):
        """Exit 3 and one line from each command that reads captures; what came before it is judged."""
        out = self.path("out.pcap")
        for command in (("pcap", "check", path), ("pcap", "ladder", path), ("pcap", "matrix", path),
                        ("pcap", "anonymize", path, "-o", out), ("replay", path, "--list")):
            done = run(*command)
            self.assertEqual(done.code, 3, f"{command}: {done}")
            # A matrix tells it where it tells of all its files, the others on standard error.
            # The path goes: a temporary directory's random name may hold a word that is looked for.
            lines = (done.out if command[1] == "matrix" else done.err).replace(path, "FILE").splitlines()
            wanted = [to_replay] if to_replay and command[0] == "replay" else words
            told = [line for line in lines if all(word in line for word in wanted)]
            self.assertEqual(len(told), 1, f"{command}: {done}")
            if command[1] != "matrix":
                self.assertEqual(lines, told, str(command))
        if before:
            self.assertIn("established", run("pcap", "check", path).out)

    def test_packed_captures_have_the_verdict_of_the_plain_one(self):
        wanted = verdict(PLAIN)
        ladder = body(run("pcap", "ladder", PLAIN).out)
        for kind, path in PACKED.items():
            self.assertEqual(verdict(path), wanted, kind)
            self.assertEqual(body(run("pcap", "ladder", path).out).replace(path, PLAIN), ladder, kind)
            with open(path, "rb") as file:
                piped = subprocess.run([PARLEY, "pcap", "check", "--json", "-"], stdin=file, capture_output=True,
                                       text=True, timeout=LIMIT, check=False)
            self.assertEqual(len(json.loads(piped.stdout)["connections"]), 2, kind)
            played = run("replay", path, "-n", "1", "--role", "initiator", "--against", "sim:parley")
            self.assertEqual(played.code, run("replay", PLAIN, "-n", "1", "--role", "initiator", "--against",
                                              "sim:parley").code, kind)
            out = self.path(f"{kind}.pcap")
            self.ok(run("pcap", "anonymize", path, "--key", "k", "-o", out))
            plain_out = self.path("plain.pcap")
            self.ok(run("pcap", "anonymize", PLAIN, "--key", "k", "-o", plain_out))
            self.assertEqual(content(out), content(plain_out), kind)
            os.remove(out)
            os.remove(plain_out)

    def test_the_digest_can_be_left_out(self):
        for path in (PLAIN, PACKED["gzip"]):
            with_it, without = (json.loads(run("pcap", "check", "--json", *option, path).out)
                                for option in ((), ("--no-digest",)))
            (told,), (not_told,) = with_it.pop("report")["inputs"], without.pop("report")["inputs"]
            self.assertEqual(told["sha256"], hashlib.sha256(content(path)).hexdigest())
            self.assertEqual(not_told, {**told, "sha256": None})
            self.assertEqual(with_it, without)
        self.assertIn(", SHA-256 left out\n", run("pcap", "check", "--no-digest", PLAIN).out)

    def test_a_directory_of_packed_captures_is_a_matrix(self):
        done = self.ok(run("pcap", "matrix", "--json", os.path.dirname(PACKED["gzip"])))
        self.assertEqual(json.loads(done.out)["connection_count"], 6)

    def test_every_cut_is_told(self):
        for kind, path in PACKED.items():
            whole = content(path)
            for end in (5, 20, len(whole) // 2, len(whole) - 1):
                done = run("pcap", "check", self.path("cut", whole[:end]))
                self.assertEqual(done.code, 3, f"{kind} {end}: {done}")
                self.assertEqual(len(done.err.splitlines()), 1, f"{kind} {end}: {done}")
                self.assertIn(f"the file is cut: its {kind} data stops at octet {end}", done.err)
            self.unreadable(self.path("cut", whole[:-1]), "the file is cut")

    def test_damage_is_told(self):
        for kind, path in PACKED.items():
            whole = bytearray(content(path))
            whole[len(whole) // 2] ^= 0xFF
            done = run("pcap", "check", self.path("damaged", bytes(whole)))
            self.assertEqual(done.code, 3, f"{kind}: {done}")
            self.assertEqual(len(done.err.splitlines()), 1, f"{kind}: {done}")
            self.assertIn(f"the {kind} data is damaged near octet", done.err)
            self.unreadable(self.path("behind", content(path) + b"something else"), "something else")

    def test_several_frames_are_one_file(self):
        plain = content(PLAIN)
        pieces = b"".join(gzip.compress(plain[at:at + 3000]) for at in range(0, len(plain), 3000))
        self.assertEqual(verdict(self.path("pieces", pieces)), verdict(PLAIN))

    def test_packed_twice_is_one_time_too_many(self):
        self.unreadable(self.path("twice", gzip.compress(content(PACKED["gzip"]))), "compressed with gzip", before=False)

    def test_a_bomb_takes_time_and_no_memory(self):
        header = content(PLAIN)[:24]
        record = struct.pack("<IIII", 1, 0, 1500, 1500) + bytes(1500)
        member = gzip.compress(record * 4096)
        bomb = self.path("bomb", gzip.compress(header) + member * 100)  # 600 MB of packets
        child = subprocess.Popen([PARLEY, "pcap", "check", bomb], stdout=subprocess.PIPE, text=True)
        out = child.stdout.read()
        _, _, usage = os.wait4(child.pid, 0)
        child.stdout.close()
        child.returncode = 0
        self.assertIn("409600 other packets", out)
        self.assertLess(usage.ru_maxrss, 200 << 10, "KiB at the most")

    def test_a_zstd_window_beyond_the_bound_is_refused(self):
        # RFC 8878 §3.1.1.1.2: a window of 2 GiB.
        frame = bytes((0x28, 0xB5, 0x2F, 0xFD, 0x00, (31 - 10) << 3)) + bytes(64)
        self.unreadable(self.path("window", frame), "too much memory", before=False)

    def sparse(self, begin):
        path = self.path("sparse", begin)
        os.truncate(path, 5 * GIB)
        return path

    def test_files_above_4_gib_that_hold_no_more_than_their_beginning(self):
        self.unreadable(self.sparse(content(PLAIN)), "offset 13790", "nothing but zeros",
                        to_replay="longer than 256 MiB")
        self.unreadable(self.sparse(b""), "not a pcap or pcapng file (it begins with 00000000)", before=False,
                        to_replay="longer than 256 MiB")
        self.unreadable(self.sparse(content(PACKED["gzip"])), "behind its gzip data")
        section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
        self.unreadable(self.sparse(section), "offset 32", "length of 0 octets", before=False, to_replay="longer than 256 MiB")

    def test_what_is_no_capture_is_called_what_it_is(self):
        for begin, words in ((b"\x89PNG\r\n\x1a\n", "not a pcap or pcapng file (it begins with 89504e47)"),
                             (b"PK\3\4", "a zip archive"), (b"\xfd7zXZ\0", "xz"), (b"BZh91AY", "bzip2"),
                             (b"snoop\0\0\0", "snoop"), (b"", "the file is empty"), (b"\xd4\xc3", "too short")):
            self.unreadable(self.path("other", begin), words, before=False)

    def raw_ip(self):
        """The plain capture without its Ethernet headers: link type 101."""
        plain, at = content(PLAIN), 24
        out = plain[:20] + struct.pack("<I", 101)
        while at < len(plain):
            seconds, fraction, captured, original = struct.unpack_from("<IIII", plain, at)
            octets = plain[at + 16:at + 16 + captured]
            if octets[12:14] in (b"\x08\x00", b"\x86\xdd"):
                out += struct.pack("<IIII", seconds, fraction, captured - 14, original - 14) + octets[14:]
            at += 16 + captured
        return self.path("raw.pcap", out)

    def filtered(self, path, expression):
        answer = json.loads(run("pcap", "check", "--json", path, "--filter", expression).out)
        return [connection["responder"] for connection in answer["connections"]], answer

    def test_a_filter_chooses_packets_on_every_link_type(self):
        for path in (PLAIN, PACKED["zstd"], self.raw_ip()):
            self.assertEqual(self.filtered(path, "ip6")[0], ["[2001:db8::1]:9003"], path)
            self.assertEqual(self.filtered(path, "tcp port 9001 and host 192.0.2.2")[0], ["192.0.2.1:9001"], path)
            self.assertEqual(self.filtered(path, "tcp")[1]["packets"], 101, path)
        whole, some = verdict(PLAIN)[1], self.filtered(PLAIN, "ip6")[1]
        self.assertEqual(some["connections"], whole["connections"][1:], "frames keep their numbers")
        self.assertIn("the filter left 64 packets out", some["notes"])
        ladder = run("pcap", "ladder", PLAIN, "--filter", "ip6").out
        self.assertIn("9003", ladder)
        self.assertNotIn("9001", ladder)
        self.assertEqual(json.loads(run("pcap", "matrix", "--json", PLAIN, "--filter", "ip6").out)["connection_count"], 1)

    def test_a_wrong_filter_is_refused_in_the_words_of_libpcap(self):
        for command in ("check", "ladder", "matrix"):
            self.refused(run("pcap", command, PLAIN, "--filter", "tcp prot 1"), 2, "--filter: 'tcp prot 1': ",
                         "syntax error")
        self.refused(run("pcap", "check", self.raw_ip(), "--filter", "ether broadcast"), 3,
                     "cannot be used on link type 101: ", "not a broadcast link")


if __name__ == "__main__":
    unittest.main(verbosity=2)
