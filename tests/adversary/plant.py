# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The table of violations: each row breaks one rule in a conversation that is valid but for it.

A row makes its fault in an open conversation, and names the rules, by id, of which one must be found broken, and the severity; it may be
found at the frames that hold the octets of its units. The other side then does what it must: it answers with the Terminate that is due, closes, or
takes no notice. What a capture cannot show has no row.
"""
import random
import struct

import conversation
import wire
from said import TABLE
from wire import INITIATOR, RESPONDER

SIDES = ("initiator", "responder")
ROWS = {}
IGNORED, CLOSED, ANY, LOCAL = "ignored", "closed", (0x02, 7), (0x00, 0)
V1, V2 = dict(revision=1, rtr="none"), dict(revision=2, enhanced=True, peer_to_peer=False)
P2P = dict(revision=2, enhanced=True, peer_to_peer=True)
I, R = (INITIATOR,), (RESPONDER,)
SHORT = dict(mulpdu=200)


class Row:
    """`keys`: the ids of include/parley/wire/rules.h; `clauses`: what those cite, for a reader that gives no ids."""

    def __init__(self, name, make, keys, due=IGNORED, severity="error", sides=(INITIATOR, RESPONDER), beside=None,
                 **wish):
        self.name, self.make, self.due, self.sides, self.wish = name, make, due, sides, wish
        self.severity = (severity,) if isinstance(severity, str) else severity
        self.keys = (keys,) if isinstance(keys, str) else keys
        self.clauses = {TABLE[key].clause for key in self.keys}
        self.beside = beside  # what a reader may say of it in another sentence
        assert name not in ROWS
        ROWS[name] = self


class Planted:
    """One row in one conversation."""

    def __init__(self, name, seed):
        row = self.row = ROWS[name]
        draw = random.Random(f"{name} {seed}")
        self.side = draw.choice(row.sides)
        wish = {"style": "data", "open": True, "c": (True, True), "steps": draw.randint(1, 8), "shuffle": False,
                "old": False, **row.wish}
        wish.update(wish.pop("of", lambda *_: {})(self.side, draw))
        if "depths" not in wish:  # enough for what the rows ask
            wish["depths"] = wish["answered_depths"] = draw.choice([(8, 8), (128, 128), (0x3FFF, 0x3FFF)])
        self.conversation = c = conversation.Conversation(seed, **wish)
        self.draw = c.draw
        made = row.make(self, c, self.side)
        self.units = made if isinstance(made, list) else [made]
        self.react(self.units[-1])

    def react(self, unit):
        c, other = self.conversation, 1 - self.side
        due = unit.about.pop("due", self.row.due)
        c.style = "planted"
        if due is None:
            return
        if due == IGNORED:
            c.go_on(self.draw.randint(0, 4))
            c.ending = "close"
            c.finish()
        elif due == CLOSED:
            c.close(other, [unit])
        else:
            code, rest = due[1], b""
            copied = unit.kind == "fpdu" and due[0] not in (0x00, 0x20)
            if copied:
                rest = c.copied(unit)
            c.fpdu(other, wire.terminate(due[0], code, 0xC0 if copied else 0, rest), [unit], opcode=7, queue=2, msn=1)
            c.close(self.draw.choice([INITIATOR, RESPONDER]), [c.units[-1]])


def put(unit, offset, form, value):
    body = bytearray(unit.body)
    struct.pack_into(form, body, offset, value)
    unit.body = bytes(body)
    return unit


def field(offset, form, *values, size=20, opcode=None, say=None):
    """Breaks a field of a message: of one segment, the conversation's last."""
    def make(self, c, side):
        unit = say(self, c, side) if say else c.say(side, size=size, opcode=opcode)
        old = struct.unpack_from(form, unit.body, offset)[0]
        value = self.draw.choice(values)
        return put(unit, offset, form, value(old) if callable(value) else value)
    return make


def drained(c, side):
    """All that `side` asked is answered, and it has seen that."""
    while c.peer[1 - side].owed:
        c.answer(1 - side)
    asked = c.peer[side].asked
    seen = [asked[-1].answered] if asked else []
    asked.clear()
    return seen


def read(self, c, side, size=20):
    return c.read(side, size, c.place(), c.place(), drained(c, side))


def a_write(self, c, side):
    return c.write(side, 20)


def atomic(self, c, side):
    return c.atomic(side, drained(c, side))


def asked_by(self, c, side, *makers):
    """Requests of the other side, which `side` owes an answer."""
    needs = drained(c, 1 - side)
    out = []
    for make in makers:
        if make == "read":
            sink = c.draw.getrandbits(32), c.draw.getrandbits(62)  # another one for each
            out.append(c.read(1 - side, 40, sink, c.place(), needs))
        else:
            out.append(c.atomic(1 - side, needs))
        needs = []
    return out


def atomic_response(self, c, side):
    asked_by(self, c, side, "atomic")
    c.answer(side)
    return c.units[-1]


def depths(initiator_reads, responder_reads):
    """A set-up under which each side may have so many requests outstanding."""
    return dict(revision=2, enhanced=True, peer_to_peer=False, depths=(responder_reads, initiator_reads),
                answered_depths=(initiator_reads, responder_reads))


def resized(make, *by):
    def build(self, c, side):
        unit = make(self, c, side)
        change = self.draw.choice(by)
        unit.body = unit.body[:change] if change < 0 else unit.body + bytes(change)
        return unit
    return build


def resized_request(make, *by):
    """A request of the wrong size: nothing answers it."""
    build = resized(make, *by)

    def made(self, c, side):
        unit = build(self, c, side)
        c.peer[1 - side].owed.remove(unit)
        return unit
    return made
