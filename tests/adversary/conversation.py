# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Valid MPA, DDP and RDMAP conversations out of a seed, as a list of what each side says in turn.

What is valid is decided by the RFCs alone: nothing here knows how Parley judges. A Unit is a startup frame, an Rtr frame,
an FPDU, or an end of a stream. It names the units of the other side that its sender must have received before, so that
segments.py can lay the units out in any way that TCP permits.
"""
import random
import struct

import wire
from wire import INITIATOR, RESPONDER

UNNEGOTIATED = 0x3FFF  # RFC 6581 §9.1
KINDS = {"send": "B", "write": "C", "read": "D"}
STARTUP = ("request", "reply", "rtr")


class Unit:
    """What one side says at once. `needs`: units of the other side that it has received by then."""

    def __init__(self, side, kind, body=b"", needs=(), **about):
        self.side, self.kind, self.body, self.needs = side, kind, body, list(needs)
        self.about = about  # opcode, queue, msn, offset, last, message: the first unit of its message
        self.damage = {}  # for Framer.fpdu
        self.begin = self.end = None  # in the octets of its side, once they are laid out
        self.apart = False  # in a segment of its own

    def __getattr__(self, name):
        if name.startswith("__") or name == "about":
            raise AttributeError(name)
        return self.about.get(name)

    def __repr__(self):
        return f"<{'IR'[self.side]} {self.kind} {self.about}>"


class Peer:
    """What one side knows when it speaks."""

    def __init__(self, draw=None, old=False):
        self.msn = {queue: 2**32 - draw.randint(1, 6) if old else 1 for queue in (0, 1, 3)}
        self.limit = None  # of requests outstanding: RFC 6581 §9.1; None: not agreed
        self.asked = []  # requests whose answer it has not seen
        self.owed = []  # requests of the other side that it has yet to answer
        self.said = []  # its FPDUs
        self.over = False


class Conversation:
    """`wish`: what a test needs of it, by the names of the attributes that Shape draws."""

    def __init__(self, seed, **wish):
        self.seed, self.wish = seed, wish
        self.draw = random.Random(seed)
        self.units, self.known = [], {}
        self.draw_shape()
        self.draw_tries()
        self.peer = (Peer(self.draw, self.old), Peer(self.draw, self.old))
        self.speak()

    # --- the draws ---------------------------------------------------------------------------------------
    def pick(self, name, choices):
        """One of the choices by their weights."""
        drawn = self.draw.choices(list(choices), list(choices.values()))[0]
        value = self.wish.get(name, drawn)
        setattr(self, name, value)
        return value

    def chance(self, name, probability):
        value = self.wish.get(name, self.draw.random() < probability)
        setattr(self, name, value)
        return value

    def draw_shape(self):
        draw = self.draw
        self.pick("style", {"data": 80, "reject": 6, "quiet": 4, "no_rtr": 3, "short_ird": 2, "local": 1, "no_reply": 2,
                            "no_revision": 2, "again": 2})
        self.pick("revision", {1: 1, 2: 1})
        if self.style in ("no_rtr", "short_ird", "no_revision"):
            self.revision = 2
        self.chance("enhanced", 0.9)
        self.enhanced = self.revision == 2 and (self.enhanced or self.style in ("no_rtr", "short_ird", "no_revision"))
        self.pick("c", {(True, True): 5, (True, False): 1, (False, True): 1, (False, False): 2})
        self.crc = any(self.c)
        self.pick("m", {(False, False): 3, (True, False): 1, (False, True): 1, (True, True): 1})
        if self.style == "reject":
            self.m = (False, self.m[1])  # RFC 5044 §4.3: a Request that requires markers is no reason to reject
        self.draw_private()
        self.draw_depths()
        self.draw_rtr()
        self.pick("mulpdu", {128: 1, 200: 1, 522: 1, 1000: 1, 1442: 2, 4000: 0.3, 64768: 0.1})
        self.pick("steps", {0: 1, 1: 1, 2: 1, 4: 2, 8: 3, 14: 2, 30: 0.3})
        self.chance("rfc7306", 0.4)
        self.chance("old", 0.03)  # set up long ago: message numbers are about to wrap
        self.pick("ending", {"close": 12, "terminate": 4, "reset": 1, "open": 1})
        self.inserts = [self.m[RESPONDER], self.m[INITIATOR]]  # RFC 5044 §4.3: M is for what the other side sends
        self.filler = draw.choice([bytes(4), bytes(4), b"\xff" * 4, draw.randbytes(4)])

    def draw_tries(self):
        """RFC 5044 §7.1.2 rule 2: a reject leaves TCP open, the ULP may begin again. What was rejected before."""
        draw = random.Random(f"tries {self.seed}")
        tries = draw.choices([0, 1, 2, 5], [90, 7, 2, 1])[0]
        tries = self.wish.get("tries", max(tries, self.style == "again"))
        same = {name: self.wish[name] for name in ("c",) if name in self.wish}
        self.rejected = [Conversation(draw.getrandbits(40), style="reject", tries=0, **same) for _ in range(tries)]

    def draw_private(self):
        draw = self.draw
        self.private = []
        for _ in range(2):
            room = 512 - 4 * self.enhanced
            length = draw.choice([0, 0, 0, draw.randint(1, 40), draw.randint(1, room), room])
            self.private.append(self.octets(length))

    def draw_depths(self):
        """RFC 6581 §9.1."""
        draw = self.draw

        def depth(*more):
            return draw.choice([0, 1, 1, 2, 4, 8, 128, 0x3FFE, *more])
        ird, ord_ = self.wish.get("depths", (depth(UNNEGOTIATED), depth(UNNEGOTIATED)))
        answer_ord = UNNEGOTIATED if ird == UNNEGOTIATED else min(depth(ird, ird), ird)
        answer_ird = UNNEGOTIATED if ord_ == UNNEGOTIATED else draw.choice(
            [ord_, ord_, ord_, max(ord_, depth()), min(ord_, depth())])
        self.asked_depths, self.answered_depths = [ird, ord_], [answer_ird, answer_ord]
        if "answered_depths" in self.wish:
            self.answered_depths = list(self.wish["answered_depths"])
        if self.style == "short_ird":
            self.asked_depths[1] = self.answered_depths[0] = depth()
            self.asked_depths[0] = draw.choice([0, 1, 8])
            self.answered_depths[1] = self.asked_depths[0] + draw.randint(1, 100)

    def draw_rtr(self):
        """Which side offers what, and what comes first: RFC 6581 §9.2, OFA 2007-10 Rtr §2."""
        draw, kinds = self.draw, list(KINDS)
        self.offered = self.answered = ()
        self.rtr, self.s = "none", (False, False)
        if self.enhanced:
            self.peer_to_peer = self.wish.get("peer_to_peer", draw.random() < 0.7) or self.style == "no_rtr"
            if self.peer_to_peer:
                self.draw_kinds(draw, kinds)
            return
        self.peer_to_peer = False
        if self.revision != 1 or self.style == "local":
            return
        # With nothing agreed, an initiator may still begin with a message of no octets.
        self.rtr = self.wish.get("rtr", draw.choice(["none", "none", "none", "frame", "send", "write", "read"]))
        if self.rtr == "frame":
            self.s, self.spelling = (True, True), draw.choice([wire.RTR_TEXT, wire.RTR_HEX])
        elif self.wish.get("s", draw.random() < 0.1):
            self.s = (True, False)

    def draw_kinds(self, draw, kinds):
        offered = draw.sample(kinds, draw.randint(1, 3))
        answered = draw.sample(kinds, draw.randint(1, 3))
        offered, answered = self.wish.get("kinds", (offered, answered))
        if "rtr" in self.wish and self.wish["rtr"] != "none":
            offered, answered = [*{*offered, self.wish["rtr"]}], [*{*answered, self.wish["rtr"]}]
        if self.style == "no_rtr":
            offered = offered[:2]
            answered = [kind for kind in kinds if kind not in offered]
        common = [kind for kind in kinds if kind in offered and kind in answered]
        if not common and self.style != "no_rtr":
            answered.append(offered[0])
            common = [offered[0]]
        self.offered, self.answered = offered, answered
        self.rtr = self.wish.get("rtr") or (draw.choice(common) if common else "none")
        if "read" in common:  # RFC 6581 §9.1: the responder raises its IRD to 1 for the Read
            self.answered_depths[0] = max(1, self.answered_depths[0])
            if self.asked_depths[1] == 0 and self.rtr == "read":
                self.asked_depths[1] = 1

    def octets(self, length):
        """Payload: also such that looks like frames."""
        draw = self.draw
        kind = draw.choice(["pattern", "random", "random", "zero", "ones", "header", "key"])
        if kind == "pattern":
            return wire.pattern(length, draw.randrange(256))
        if kind == "random":
            return draw.randbytes(length)
        if kind == "header":
            inner = draw.choice([wire.send(draw.randint(1, 9), draw.randbytes(6)), wire.write(1, 0, draw.randbytes(10)),
                                 wire.read_response(7, 0, draw.randbytes(14))])
            unit = struct.pack(">H", len(inner)) + inner
            unit += bytes(-len(unit) % 4)
            unit += draw.choice([bytes(4), draw.randbytes(4)])  # what has a right CRC is an FPDU (RFC 5044 §6)
            return (bytes(draw.choice([0, 0, 2])) + unit * (length // 24 + 1))[:length]
        if kind == "key":
            return (draw.choice([wire.REQ, wire.REP, wire.RTR_TEXT]) * (length // 16 + 1))[:length]
        return (b"\0" if kind == "zero" else b"\xff") * length

    # --- what is said ------------------------------------------------------------------------------------
    def add(self, side, kind, body=b"", needs=(), **about):
        self.units.append(Unit(side, kind, body, [need for need in needs if need], **about))
        return self.units[-1]

    def speak(self):
        self.start()
        {"data": self.data, "again": self.data, "quiet": self.quiet, "reject": self.quiet, "no_rtr": self.no_rtr,
         "short_ird": self.short_ird, "local": self.local, "no_reply": self.no_reply, "no_revision": self.no_revision,
         }[self.style]()
        self.tell()

    def words(self, side, depths, kinds):
        if not self.enhanced:
            return self.private[side]
        letters = "A" * bool(kinds) + "".join(KINDS[kind] for kind in kinds)
        return wire.enhanced(*depths, letters) + self.private[side]

    def flags(self, side, reject=False):
        s = self.enhanced or (self.revision == 1 and self.s[side])
        return wire.M * self.m[side] | wire.C * self.c[side] | wire.S * s | wire.R * reject

    def start(self):
        before = ()
        for one in self.rejected:
            request = self.add(INITIATOR, "request", one.request.body, before)
            before = [self.add(RESPONDER, "reply", one.reply.body, [request])]
        self.before = len(self.units)  # of the set-ups that were rejected
        self.request = self.add(INITIATOR, "request", wire.startup(
            wire.REQ, self.flags(INITIATOR), self.revision,
            self.words(INITIATOR, self.asked_depths, self.offered)), before)
        self.reply = self.rtr_frame = None
        if self.style in ("no_reply", "no_revision"):
            return
        reject = self.style == "reject"
        self.reply = self.add(RESPONDER, "reply", wire.startup(
            wire.REP, self.flags(RESPONDER, reject), self.revision,
            self.words(RESPONDER, self.answered_depths, self.answered)), [self.request])
        self.set_limits()

    def set_limits(self):
        if not self.enhanced:
            return
        (ird, ord_), (answer_ird, answer_ord) = self.asked_depths, self.answered_depths
        limit = ord_ if answer_ird == UNNEGOTIATED else min(ord_, answer_ird)
        self.peer[INITIATOR].limit = None if limit == UNNEGOTIATED else limit
        self.peer[RESPONDER].limit = None if UNNEGOTIATED in (answer_ord, ird) else min(answer_ord, ird)

    def fpdu(self, side, body, needs=(), **about):
        first = not self.peer[side].said
        rule4 = []
        if first:
            # RFC 5044 §7.1.2 rule 4: the responder waits for the initiator's first FPDU (or Rtr frame).
            rule4 = [self.reply] if side == INITIATOR else [self.rtr_frame or self.peer[INITIATOR].said[0]]
        unit = self.add(side, "fpdu", body, [*needs, *rule4], **about)
        self.peer[side].said.append(unit)
        return unit

    def message(self, side, opcode, payload, needs=(), word=0, queue=0, **about):
        """An untagged message, in as many segments as it takes."""
        peer = self.peer[side]
        msn, peer.msn[queue] = peer.msn[queue], (peer.msn[queue] + 1) % 2**32  # RFC 5041 §4.3
        room = self.mulpdu - 18
        cuts = list(range(0, len(payload), room)) or [0]
        order = self.order(len(cuts))
        first = None
        for index in order:
            offset = cuts[index]
            last = index == len(cuts) - 1
            unit = self.fpdu(side, wire.untagged(opcode, queue, msn, payload[offset:offset + room], offset, last, word),
                             needs if first is None else (), opcode=opcode, queue=queue, msn=msn, offset=offset, last=last,
                             parts=len(cuts), ordered=order == sorted(order), **about)
            first = first or unit
            unit.about["message"] = first
        return unit

    def stream(self, side, opcode, stag, to, payload, needs=(), **about):
        """A tagged message."""
        room = self.mulpdu - 14
        cuts = list(range(0, len(payload), room)) or [0]
        order = self.order(len(cuts) - 1) + [len(cuts) - 1]  # the one with L ends the message: it goes last
        first = None
        for index in order:
            offset = cuts[index]
            last = index == len(cuts) - 1
            unit = self.fpdu(side, wire.tagged(opcode, stag, to + offset, payload[offset:offset + room], last),
                             needs if first is None else (), opcode=opcode, stag=stag, to=to + offset, last=last,
                             offset=offset, parts=len(cuts), ordered=order == sorted(order), **about)
            first = first or unit
            unit.about["message"] = first
        return unit

    def order(self, parts):
        """RFC 5041 §5.3: the segments of a message should go in the order of MO or TO, and need not."""
        order = list(range(parts))
        if parts > 1 and self.wish.get("shuffle", self.draw.random() < 0.04):
            self.draw.shuffle(order)
        return order

    # --- one action after the other ----------------------------------------------------------------------
    def data(self):
        self.ready()
        self.go_on(self.steps)
        if not self.wish.get("open"):
            self.finish()

    def go_on(self, steps):
        for _ in range(steps):
            begun = self.peer[INITIATOR].said or self.rtr_frame
            self.step(self.draw.choice([INITIATOR, RESPONDER]) if begun else INITIATOR)

    def ready(self):
        """What the initiator says to be ready to receive."""
        draw, rtr = self.draw, self.rtr
        stag, to = draw.choice([(0, 0), (1, 0), (1, 1), (draw.getrandbits(32), draw.getrandbits(63))])
        if rtr == "frame":
            m, c = draw.choice([0, wire.M]), draw.choice([0, wire.C])
            self.rtr_frame = self.add(INITIATOR, "rtr", wire.startup(self.spelling, m | c, 1), [self.reply])
        elif rtr == "send":
            self.message(INITIATOR, 3, b"", rtr=True)
        elif rtr == "write":
            self.stream(INITIATOR, 0, stag, to, b"", rtr=True)
        elif rtr == "read":
            self.read(INITIATOR, 0, (stag, to), (draw.getrandbits(32), to), rtr=True)

    def step(self, side):
        peer, draw = self.peer[side], self.draw
        if peer.owed and draw.random() < 0.6:
            return self.answer(side)
        doing = draw.choice(["send", "send", "send", "write", "write", "read", "read"] +
                            ["immediate", "atomic", "atomic"] * self.rfc7306)
        if doing == "send":
            self.say(side)
        elif doing == "write":
            self.write(side)
        elif doing == "immediate":
            self.message(side, draw.choice([8, 9]), draw.randbytes(8))
        elif (needs := self.room(side)) is None:
            self.say(side)
        elif doing == "read":
            self.read(side, self.size(), self.place(), self.place(), needs)
        else:
            self.atomic(side, needs)

    def place(self):
        """STag and TO; some use the same ones again and again."""
        return self.draw.choice([(0, 0), (1, 0)]) if self.draw.random() < 0.2 else (
            self.draw.getrandbits(32), self.draw.getrandbits(62))

    def size(self):
        draw = self.draw
        return draw.choice([0, draw.randint(1, 64), draw.randint(1, 64), draw.randint(65, 600),
                            draw.randint(1, 3 * self.mulpdu) if self.mulpdu < 2000 else draw.randint(600, 5000)])

    def say(self, side, needs=(), **more):
        opcode = more.pop("opcode", None) or self.draw.choice([3, 3, 4, 5, 6])
        word = self.draw.getrandbits(32) if opcode in (4, 6) else 0
        return self.message(side, opcode, self.octets(more.pop("size", self.size())), needs, word, **more)

    def write(self, side, size=None, **more):
        draw = self.draw
        size = self.size() if size is None else size
        to = draw.choice([0, draw.getrandbits(40), 2**64 - size - draw.randint(1, 9)])
        return self.stream(side, 0, draw.choice([1, draw.getrandbits(32)]), to, self.octets(size), **more)

    def room(self, side):
        """The answers that this side must have seen before it may ask again; None if it may not ask at all.

        RFC 5040 §5.2.1, RFC 6581 §9.1: never more outstanding than agreed."""
        peer = self.peer[side]
        limit = 6 if peer.limit is None else min(peer.limit, self.wish.get("outstanding", 6))
        if limit == 0:
            return None
        if len(peer.asked) < limit:
            return []
        if not peer.asked[0].answered:
            self.answer(1 - side)
            if not peer.asked[0].answered:
                return None
        seen = peer.asked.pop(0).answered
        return [seen]

    def read(self, side, size, sink, source, needs=None, **more):
        needs = self.room(side) if needs is None else needs
        if needs is None:
            return None
        unit = self.message(side, 1, struct.pack(">IQIIQ", *sink, size, *source), needs, queue=1, size=size, sink=sink,
                            source=source, **more)
        self.ask(side, unit)
        return unit

    def ask(self, side, unit):
        self.peer[side].asked.append(unit)
        self.peer[1 - side].owed.append(unit)

    def atomic(self, side, needs=None, **more):
        """RFC 7306 §5.1: they share queue 1, and here the bound, with Reads."""
        draw = self.draw
        needs = self.room(side) if needs is None else needs
        if needs is None:
            return None
        operation = draw.choice([0, 2])
        ones = 2**64 - 1
        fields = [draw.getrandbits(64), draw.choice([0, ones, 1 << 31]), 0, ones] if operation == 0 else \
            [draw.getrandbits(64) for _ in range(4)]
        number = draw.getrandbits(32)
        unit = self.message(side, 0xA, struct.pack(">IIIQQQQQ", operation, number, draw.getrandbits(32),
                                                   8 * draw.getrandbits(59), *fields), needs, queue=1, number=number,
                            **more)
        self.ask(side, unit)
        return unit

    def answer(self, side):
        """The oldest request of the other side: RFC 5040 §5.2.2, RFC 7306 §5.2.2 have them answered in order."""
        request = self.peer[side].owed[0]
        if side == RESPONDER and not (self.peer[INITIATOR].said or self.rtr_frame):
            return
        self.peer[side].owed.pop(0)
        if request.opcode == 1:
            answer = self.stream(side, 2, *request.sink, self.octets(request.size), [request], answers=request)
        else:
            answer = self.message(side, 0xB, struct.pack(">IQ", request.number, self.draw.getrandbits(64)), [request],
                                  queue=3, answers=request)
        request.about["answered"] = answer

    # --- ends --------------------------------------------------------------------------------------------
    def finish(self):
        draw, ending = self.draw, self.ending
        if draw.random() < 0.9:
            for side in (INITIATOR, RESPONDER):
                while self.peer[side].owed:
                    self.answer(side)
        if ending == "terminate" and self.draw.random() < 0.2 and self.refuse_in_the_midst():
            return
        if ending == "terminate" and self.units[-1].kind == "fpdu":
            speakers = [INITIATOR] + [RESPONDER] * bool(self.peer[INITIATOR].said)
            self.terminate(draw.choice(speakers))
        elif ending == "close":
            self.close(draw.choice([INITIATOR, RESPONDER]))
        elif ending == "reset":
            self.add(draw.choice([INITIATOR, RESPONDER]), "rst", needs=self.units[-3:])

    def close(self, side, needs=()):
        """FIN by one side, then by the other: which may say more in between (RFC 5044 §7.2)."""
        fin = self.add(side, "fin", needs=needs)
        other = 1 - side
        if self.style == "data" and (self.peer[INITIATOR].said or self.rtr_frame) and self.draw.random() < 0.3:
            for _ in range(self.draw.randint(1, 2)):
                self.say(other) if self.draw.random() < 0.5 else self.write(other)
        # TCP resets the connection if its user closes it before reading all.
        end = "rst" if self.style == "data" and self.draw.random() < 0.1 else "fin"
        self.add(other, end, needs=[fin] if self.draw.random() < 0.7 else ())

    def terminate(self, side):
        """RFC 5040 §4.8, §5.4: of what the other side sent, or of a trouble of one's own."""
        quoted = self.draw.choice(self.peer[1 - side].said or [None])
        layer, code, bits, rest, needs = self.complaint(quoted)
        # RFC 5040 §5.4: the other side may have more under way.
        late = self.draw.random() < 0.2
        unit = self.fpdu(side, wire.terminate(layer, code, bits, rest), needs, opcode=7, queue=2, msn=1, quotes=quoted)
        if late:
            self.say(1 - side)
        self.peer[side].over = True
        self.style = "ended"
        self.close(self.draw.choice([side, 1 - side]) if not late else 1 - side, [unit])

    def refuse_in_the_midst(self):
        """RFC 5040 §4.8: of a Read that was answered in part, the Terminate copies what is left of it."""
        side = self.draw.choice([INITIATOR, RESPONDER]) if self.peer[INITIATOR].said else RESPONDER
        room, other = self.mulpdu - 14, 1 - side
        if self.mulpdu > 2000 or (needs := self.room(other)) is None or self.peer[side].owed:
            return False
        request = self.read(other, 3 * room, self.place(), self.place(), needs)
        (stag, to), source, size = request.sink, request.source, request.size
        done = 0
        for _ in range(self.draw.randint(1, 2)):
            self.fpdu(side, wire.tagged(2, stag, to + done, self.octets(room), False), [request], opcode=2, stag=stag,
                      to=to + done, answers=request)
            done += room
        left = struct.pack(">IQIIQ", stag, to + done, size - done, source[0], source[1] + done)
        unit = self.fpdu(side, wire.terminate(0x01, self.draw.choice([0, 1, 2, 3]), 0xE0, self.copied(request) + left),
                         [request], opcode=7, queue=2, msn=1, quotes=request)
        self.style = "ended"
        self.close(self.draw.choice([INITIATOR, RESPONDER]), [unit])
        return True

    def complaint(self, quoted):
        """Layer and type, code, M D R, what is copied: one that the octets need not bear out."""
        draw = self.draw
        own = [(0x00, draw.randrange(256)), (0x10, 0), (0x20, 5), (0x02, 7), (0x02, 8), (0x02, 0xFF)]
        if quoted is None or draw.random() < 0.25:
            layer, code = draw.choice(own)
            if layer != 0x02 or quoted is None:
                return layer if layer != 0x02 else 0x00, code, 0, b"", []
            return layer, code, 0xC0, self.copied(quoted), [quoted]
        opcode = quoted.opcode
        if opcode == 1:
            request = quoted.body[18:]
            if quoted.size == 0:  # RFC 5040 §5.2: the source of no octets is not looked at
                return 0x02, 7, 0xC0, self.copied(quoted), [quoted]
            return 0x01, draw.choice([0, 1, 2, 3, 4, 0xFF]), 0xE0, self.copied(quoted) + request, [quoted]
        if opcode in (0, 2):
            layer, code = draw.choice([(0x11, 0), (0x11, 1), (0x11, 2), (0x02, 7)])
        elif opcode in (4, 6):
            layer, code = draw.choice([(0x01, 9), (0x02, 9), (0x12, 2), (0x12, 5)])
        elif opcode == 0xA:
            layer, code = draw.choice([(0x01, 0), (0x01, 1), (0x01, 2), (0x02, 7)])
        elif opcode == 0xB:
            layer, code = 0x02, 7
        else:
            layer, code = draw.choice([(0x12, 2), (0x12, 5), (0x02, 7), (0x02, 8)])
        if len(quoted.body) == (14 if opcode in (0, 2) else 18) and layer == 0x11:
            layer, code = 0x02, 7  # RFC 5041 §5.1: STag and TO of no octets are not looked at
        return layer, code, 0xC0, self.copied(quoted), [quoted]

    @staticmethod
    def copied(unit):
        """RFC 5040 §4.8: the length of the DDP segment, and its header."""
        size = 14 if unit.body[0] & 0x80 else 18
        return struct.pack(">H", len(unit.body)) + unit.body[:size]

    # --- set-ups that end there --------------------------------------------------------------------------
    def quiet(self):
        side = self.draw.choice([INITIATOR, RESPONDER])
        self.close(side, [self.reply] if side == INITIATOR else ())

    def early(self, layer_and_type, code):
        unit = self.fpdu(INITIATOR, wire.terminate(layer_and_type, code), opcode=7, queue=2, msn=1)
        self.close(self.draw.choice([INITIATOR, RESPONDER]), [unit])

    def no_rtr(self):
        self.early(0x20, 7)  # RFC 6581 §9.2

    def short_ird(self):
        self.early(0x20, 6)  # RFC 6581 §9.1

    def local(self):
        if self.peer_to_peer:
            self.early(0x20, 5)  # RFC 6581 §9.2: any other failure
        else:
            self.early(0x00, 0)

    def no_reply(self):
        self.add(INITIATOR, "fin")
        self.add(RESPONDER, "fin", needs=[self.units[-1]])

    def no_revision(self):
        """RFC 6581 §10: one that knows revision 1 alone ends the connection; the initiator comes back with revision 1."""
        self.add(RESPONDER, self.draw.choice(["fin", "rst"]), needs=[self.request])
        if self.units[-1].kind == "fin":
            self.add(INITIATOR, "fin", needs=[self.units[-1]])

    # --- what a reader must make of it, if it sees all of it ---------------------------------------------
    def tell(self):
        known = self.known
        if self.reply is None or self.old:
            return
        known.update(revision=self.revision, crc=self.crc)
        if self.style == "reject":
            known["outcome"] = "rejected"
            return
        known.update(markers={"to_responder": self.m[RESPONDER], "to_initiator": self.m[INITIATOR]})
        if self.enhanced:
            (ird, ord_), (answer_ird, answer_ord) = self.asked_depths, self.answered_depths
            known["ord"] = ord_ if UNNEGOTIATED in (ord_, answer_ird) else min(ord_, answer_ird)
            known["ird"] = ird if UNNEGOTIATED in (ird, answer_ord) else max(ird, answer_ord)
        if self.style in ("data", "ended", "again"):
            if self.peer[INITIATOR].said or self.rtr_frame:  # else its end may as well be a refusal
                known["outcome"] = "established"
            if self.rtr != "none" or self.revision == 2:  # else the first message may happen to be empty
                known["rtr"] = self.rtr


def fall_back(seed, **wish):
    """The conversations of a seed: a second one follows where the first was refused for its revision."""
    first = Conversation(seed, **wish)
    if first.style != "no_revision":
        return [first]
    return [first, Conversation(seed ^ 1 << 40, **{**wish, "revision": 1, "style": "data", "old": False})]
