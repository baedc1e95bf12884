# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Octets of staged QP negotiations as docs/negotiation.md has them, made without any code of Parley's."""
import struct

from wire import ACK, INITIATOR, PSH, RESPONDER

HELLO, WELCOME, TURN, ABORT = 1, 2, 3, 4
NONE, INFO, READY, DONE = 0, 1, 2, 3
LAST = 0x80


def message(type_, body=b"", stage=NONE, flags=0, round_=0, version=1, reserved=0, length=None, magic=b"QPng"):
    return magic + struct.pack(">BBBBHHI", version, type_, stage, flags, round_, reserved,
                               len(body) if length is None else length) + body


def item(type_, value=b"", length=None):
    return struct.pack(">HH", type_, len(value) if length is None else length) + value


def hello(variant=b"manual", plugin=b"parley", done=False, more=b""):
    return message(HELLO, item(0x8001, plugin) + item(0x8002, variant) + (item(0x8003) if done else b"") + more)


def welcome(more=b""):
    return message(WELCOME, more)


def turn(stage, round_, body=b"", last=True, **more):
    return message(TURN, body, stage, LAST * last, round_, **more)


def abort(error=0x0104, text=b"a rule is broken", advice=b"", more=b""):
    return message(ABORT, item(0x8010, struct.pack(">H", error)) + item(0x0011, text) +
                   (item(0x0012, advice) if advice else b"") + more)


def qp_info(qpn=0x11, psn=5, transport=1, more=b""):
    return struct.pack(">BBH", 1, transport, 0) + item(0x8001, struct.pack(">I", qpn)) + \
        item(0x8002, struct.pack(">I", psn)) + item(4, bytes(10) + b"\xff\xff\xc0\0\2\1") + more


class Talk:
    """A negotiation that keeps the rules: bursts of (side, messages), drawn from `chance`."""

    def __init__(self, chance, variant=None, done=None):
        self.chance = chance
        self.variant = variant or chance.choice((b"manual", b"verbs-rc", b"counter"))
        self.done = chance.random() < 0.4 if done is None else done
        self.bursts = []
        self.rounds = [0, 0]  # of each side in the stage
        self.stage = INFO
        self.say(INITIATOR, hello(self.variant, done=self.done, more=chance.choice((b"", item(4, b"rank 3"), item(0x77, b"?")))))
        self.stages()

    def say(self, side, octets):
        """In one burst with what the side said just before."""
        if self.bursts and self.bursts[-1][0] == side:
            self.bursts[-1][1].append(octets)
        else:
            self.bursts.append((side, [octets]))

    def body(self, stage, first):
        if self.variant == b"counter":
            return self.chance.randbytes(self.chance.choice((0, 1, 40, 900)))
        if stage == INFO:
            return qp_info(self.chance.randrange(1, 1 << 24), self.chance.randrange(1 << 24)) if first else b""
        return bytes([self.chance.choice((1, 2, 3))]) if stage == READY else b""

    def stages(self):
        welcomed = False
        for self.stage in (INFO, READY, DONE) if self.done else (INFO, READY):
            plan = [self.chance.choice((1, 1, 2, 5)) for _ in range(2)]
            said, self.rounds, side = [False, False], [0, 0], INITIATOR
            while True:
                if side == RESPONDER and not welcomed:
                    self.say(RESPONDER, welcome())
                    welcomed = True
                self.rounds[side] += 1
                body = b"" if said[side] else self.body(self.stage, self.rounds[side] == 1)
                said[side] = said[side] or self.rounds[side] >= plan[side]
                self.say(side, turn(self.stage, self.rounds[side], body, said[side]))
                # Who hears the last Turn, having said its own, does not answer.
                if said[0] and said[1]:
                    break
                side = 1 - side


def cut(chance, octets, often=0.5):
    """Lengths of segments."""
    style = chance.choice(("whole", "octets", "few", "few"))
    if style == "octets" and len(octets) < 300:
        return [1] * len(octets)
    if style == "whole" or chance.random() > often:
        return [len(octets)]
    places = sorted({0, len(octets), *(chance.randrange(len(octets) + 1) for _ in range(4))})
    return [end - begin for begin, end in zip(places, places[1:])]


def send(connection, side, octets, chance=None, impaired=False):
    """One burst, in segments; the receiver has them all before it answers."""
    start, place, pieces = connection.next[side], 0, []
    for length in cut(chance, octets) if chance else [len(octets)]:
        pieces.append((place, octets[place:place + length]))
        place += length
    if impaired:
        for i in range(len(pieces) - 1):
            if chance.random() < 0.3:
                pieces[i], pieces[i + 1] = pieces[i + 1], pieces[i]
        again = [piece for piece in pieces if chance.random() < 0.2]
        pieces += again
    for place, piece in pieces:
        connection.segment(side, piece, PSH | ACK, number=start + place)
    connection.next[side] = start + len(octets) & 0xFFFFFFFF
