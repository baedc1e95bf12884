# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The plugin says of a broken rule what `parley neg serve` and `dial` say of it: they are given the octets of
neg_broken.violations(), and their Abort is read. PARLEY is the command."""
import os
import re
import socket
import struct
import subprocess
import unittest

import harness
from neg_broken import violations
from neg_wire import ABORT
from wire import INITIATOR

PARLEY = os.environ["PARLEY"]
VALUES = ("--variant", "manual", "--set", "qpn=0x22", "--set", "gid=192.0.2.2", "--timeout", "20s")
# What a session cannot be brought to with the driver `manual`, which says all in one round; what comes when it is over;
# and what it does not mind.
NOT_ASKED = {"not yet through", "the peer is not through", "round left out", "round again", "first round", "data after the last",
             "no longer last", "no qkey", "backwards", "after the end", "done that nobody announced", "a stage left out early",
             "item of an abort", "critical item of an abort"}


def read_abort(stream):
    """The text of the first Abort; what comes before it is passed over."""
    octets = b""
    while True:
        more = stream.recv(65536)
        octets += more
        place = 0
        while len(octets) - place >= 16:
            type_, length = octets[place + 5], struct.unpack_from(">I", octets, place + 12)[0]
            if len(octets) - place - 16 < length:
                break
            if type_ == ABORT:
                return text_of(octets[place + 16:place + 16 + length])
            place += 16 + length
        if not more:
            raise AssertionError(f"no Abort in {octets.hex()}")


def text_of(items):
    while items:
        type_, length = struct.unpack_from(">HH", items)
        if type_ == 0x0011:
            return items[4:4 + length].decode()
        items = items[4 + length:]
    return ""


class Words(unittest.TestCase):
    def start(self, *arguments):
        process = subprocess.Popen([PARLEY, "neg", *arguments, "--json"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def asked(self, by_initiator):
        return [row for row in violations() if (row[2] == INITIATOR) == by_initiator and row[0] not in NOT_ASKED]

    def same(self, text, words):
        """Of a message that cannot be read, its kind of error stands before it."""
        self.assertEqual(text if text == words else text.split(": ", 1)[-1], words)

    def test_a_server_says_the_same(self):
        server = self.start("serve", "127.0.0.1", "-p", "0", *VALUES)
        port = int(re.search(r'"port":\s*(\d+)', server.stdout.readline()).group(1))
        for name, before, _, wrong, words in self.asked(by_initiator=True):
            with self.subTest(name), socket.create_connection(("127.0.0.1", port), harness.LIMIT) as stream:
                stream.sendall(b"".join(octets for side, octets in before if side == INITIATOR) + wrong)
                self.same(read_abort(stream), words)

    def test_a_dialler_says_the_same(self):
        for name, before, _, wrong, words in self.asked(by_initiator=False):
            with self.subTest(name), socket.create_server(("127.0.0.1", 0)) as listener:
                self.start("dial", f"127.0.0.1:{listener.getsockname()[1]}", *VALUES)
                listener.settimeout(harness.LIMIT)
                stream, _ = listener.accept()
                with stream:
                    stream.settimeout(harness.LIMIT)
                    stream.sendall(b"".join(octets for side, octets in before if side != INITIATOR) + wrong)
                    self.same(read_abort(stream), words)


if __name__ == "__main__":
    unittest.main()
