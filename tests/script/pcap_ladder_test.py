# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley pcap ladder: which connections of a capture are drawn."""
import os
import struct
import unittest

from cli import CliTest, run

REPLY = b"MPA ID Rep Frame" + struct.pack("!BBH", 0x40, 1, 512)


def segment(payload):
    """An Ethernet frame with TCP from 192.0.2.1:7471 to 192.0.2.2:40000; nobody looks at its checksums."""
    tcp = struct.pack("!HHIIBBHHH", 7471, 40000, 1000, 2000, 5 << 4, 0x10, 65535, 0, 0)
    total = 20 + len(tcp) + len(payload)
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, total, 0, 0x4000, 64, 6, 0, bytes([192, 0, 2, 1]), bytes([192, 0, 2, 2]))
    return bytes(12) + b"\x08\x00" + ip + tcp + payload


def capture(path, *frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for at, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 1, at, len(frame), len(frame)) + frame)


class Ladder(CliTest):
    def test_a_connection_that_holds_only_part_of_a_startup_frame_is_drawn_with_its_note(self):
        path, page = os.path.join(self.directory, "part.pcap"), os.path.join(self.directory, "part.html")
        capture(path, segment(REPLY + bytes(100)))
        words = "not whole: 120 of 532"
        done = run("pcap", "ladder", path)
        self.assertEqual(done.err, "")
        self.assertIn(words, " ".join(done.out.split()))
        done = run("pcap", "ladder", path, "--html", page)
        self.assertIn("1 connection drawn", done.out)
        with open(page, encoding="utf-8") as file:
            self.assertIn(words, file.read())


if __name__ == "__main__":
    unittest.main()
