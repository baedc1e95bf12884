# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The programs above: what Parley's commands do with a connection, played from the other side.

Each is given a Peer in full operation, goes on for some rounds and checks what comes back. `pause` is called between two
rounds, where neither side owes the other anything: that is where a fault is planted.
"""
import struct

from strict import SEND, SEND_SE, WRITE, demand


def ping_text(number, size):
    """What rping writes: a head, letters from 'A' to 'z' in turn, a zero octet."""
    text = f"rdma-ping-{number}: ".encode()[:size]
    letters = bytes(65 + (number + i) % 58 for i in range(size - len(text)))
    return (text + letters)[:size - 1] + b"\0"


class Program:
    """How Parley is started, and what the peer does."""

    peer_is_initiator = True
    tells_end = False  # Parley disconnects by itself when it has done its work

    def __init__(self, draw):
        self.draw = draw
        self.rounds = draw.choice((1, 2, 3, 5))
        self.size = draw.choice((1, 2, 13, 64, 500, 3000, 20000))

    def first(self, peer):
        """As initiator: the first message, where the set-up has said nothing, releases the responder."""

    def run(self, peer, pause):
        for number in range(self.rounds):
            pause(number)
            self.round(peer, number)
        pause(self.rounds)
        peer.all_responses()


class Echo(Program):
    """parley listen --echo"""

    def command(self):
        return ["listen", "127.0.0.1:0", "-n", 1, "--echo", "--size", self.size]

    def round(self, peer, _number):
        messages = [self.draw.randbytes(self.draw.randint(0, self.size)) for _ in range(self.draw.choice((1, 1, 2, 4)))]
        for message in messages:
            peer.spice()
            peer.send(message)
        for message in messages:
            _, payload = peer.expect(SEND)
            demand(payload == message, f"an echo of {len(payload)} octets to {len(message)}")


class Source(Program):
    """parley listen --send N: it may send when it has heard from the initiator, and not before."""

    def command(self):
        return ["listen", "127.0.0.1:0", "-n", 1, "--send", self.rounds, "--size", self.size]

    def run(self, peer, pause):
        pause(0)
        if peer.line.sent and not peer.framer.made:
            peer.write(7, 7, b"")
        for number in range(self.rounds):
            _, payload = peer.expect(SEND)
            demand(payload == bytes((number * 7 + at) & 0xFF for at in range(self.size)), "the message is another")
            peer.spice()
        peer.all_responses()


class Sink(Program):
    """parley listen --expect N"""

    def command(self):
        return ["listen", "127.0.0.1:0", "-n", 1, "--expect", self.rounds, "--size", self.size]

    def round(self, peer, _number):
        peer.spice()
        peer.send(self.draw.randbytes(self.draw.randint(1, self.size)))


class RpingServer(Program):
    """parley rping -s: the peer is its client."""

    def command(self):
        return ["rping", "-s", "-a", "127.0.0.1", "-p", 0, "-V"]

    def name(self, peer, memory, writable):
        stag = self.draw.randint(1, 0xFFFFFFFF)
        to = self.draw.getrandbits(40)
        peer.regions = {stag: (to, memory, writable)}
        peer.send(struct.pack(">QII", to, stag, len(memory)))

    def round(self, peer, number):
        size = max(2, self.size)
        text = ping_text(number, size)
        self.name(peer, bytearray(text), False)
        self.serve_reads(peer)
        sink = bytearray(size)
        peer.spice()
        self.name(peer, sink, True)
        _, payload = peer.expect(WRITE)
        demand(len(payload) == size and sink == text, "what was written is not what was read")
        _, payload = peer.expect(SEND, SEND_SE)
        demand(len(payload) == 16, f"a go-ahead of {len(payload)} octets")

    @staticmethod
    def serve_reads(peer):
        while True:
            first, payload = peer.next()
            if first.opcode == SEND:
                demand(len(payload) == 16, f"a go-ahead of {len(payload)} octets")
                return
            demand(peer.asked, f"{first} where a Read or the go-ahead is expected")
            peer.respond()


class Echoed(Program):
    """parley connect --send N --echoed: the peer returns each message."""

    peer_is_initiator, tells_end = False, True

    def command(self):
        return ["connect", "127.0.0.1:PORT", "--send", self.rounds, "--echoed", "--size", self.size]

    def round(self, peer, number):
        _, payload = peer.expect(SEND)
        demand(payload == bytes((number * 7 + at) & 0xFF for at in range(self.size)), "the message is another")
        peer.spice()
        peer.send(payload)


class RpingClient(Program):
    """parley rping -c: the peer is its server."""

    peer_is_initiator, tells_end = False, True

    def command(self):
        return ["rping", "-c", "-a", "127.0.0.1", "-p", "PORT", "-C", self.rounds, "-S", max(2, self.size), "-V"]

    def advertised(self, peer):
        _, payload = peer.expect(SEND)
        demand(len(payload) == 16, f"an advertisement of {len(payload)} octets")
        to, stag, size = struct.unpack(">QII", payload)
        demand(size == max(2, self.size), f"{size} octets advertised")
        self.memory = (stag, to)
        return stag, to, size

    def cuts(self, size):
        parts = min(self.draw.choice((1, 1, 2, 5)), size)
        inner = sorted(self.draw.sample(range(1, size), parts - 1)) if size > 1 else []
        return list(zip([0, *inner], [*inner, size]))

    def round(self, peer, number):
        stag, to, size = self.advertised(peer)
        text = ping_text(number, size)
        got = [peer.read((stag, to + begin), end - begin) for begin, end in self.cuts(size)]
        peer.all_responses()
        demand(b"".join(got) == text, "what was read is not the ping")
        peer.spice()
        peer.send(bytes(16))
        stag, to, size = self.advertised(peer)
        parts = self.cuts(size)
        self.draw.shuffle(parts)
        for begin, end in parts:
            peer.write(stag, to + begin, text[begin:end])
        peer.spice()
        peer.send(bytes(16))


PROGRAMS = {"echo": Echo, "source": Source, "sink": Sink, "rping server": RpingServer, "echoed": Echoed,
            "rping client": RpingClient}
