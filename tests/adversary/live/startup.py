# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Connection set-up with Parley on the other side, in either role: options for Parley and frames for the peer are drawn
together, and Parley's frame is held to RFC 5044 §7.1, RFC 6581 and the Rtr proposal.
"""
import struct

import wire
from strict import Line, Peer, demand

UNNEGOTIATED = 0x3FFF
IRD_MAX = 128  # to which Parley raises its IRD: --ird-max
BITS = {"send": "B", "write": "C", "read": "D"}
FORMS = {"write": (wire.write(1, 0), "RDMA Write"), "send": (None, "Send"), "read": (None, "Read Request")}


def depth_words(word_pair):
    ird, ord_ = struct.unpack(">HH", word_pair)
    kinds = "".join(bit for bit, there in zip("ABCD", (ird & 0x8000, ird & 0x4000, ord_ & 0x8000, ord_ & 0x4000)) if there)
    return ird & 0x3FFF, ord_ & 0x3FFF, kinds


class Frame:
    """A startup frame of Parley's, sound in itself."""

    def __init__(self, line, keys):
        head = line.take(20)
        demand(head[:16] in keys, f"key {head[:16]!r}")
        self.key, self.flags, self.revision = head[:16], head[16], head[17]
        length = struct.unpack(">H", head[18:])[0]
        demand(length <= 512, f"PD_Length {length}")
        demand(self.flags & 0x0F == 0, f"reserved bits of the flags: {self.flags:02x}")
        self.data = line.take(length)
        self.enhanced = None

    def split(self):
        """RFC 6581 §6."""
        demand(len(self.data) >= 4, f"S with {len(self.data)} octets of private data")
        self.enhanced, self.data = depth_words(self.data[:4]), self.data[4:]


class SetUp:
    """What both sides agree on, drawn from a seed. `parley` holds the options of the command under test.

    wish: what a case needs, by the names of the attributes drawn here."""

    def __init__(self, draw, initiator, ulp, **wish):
        self.draw, self.initiator, self.wish = draw, initiator, wish  # initiator: the peer is
        rping = ulp.startswith("rping")
        self.revision = self.pick("revision", (1, 2, 2))
        self.crc = self.pick("crc", (True, True, False))  # Parley's
        self.own_crc = self.pick("own_crc", (True, True, False))
        self.markers = self.pick("markers", (False, False, True))  # that Parley wants to receive
        self.own_markers = self.pick("own_markers", (False, False, True))
        self.ird = self.pick("ird", (1, 2, 32, 128))
        self.ord = self.pick("ord", (1, 2, 32, 128) if rping else (0, 1, 32))
        self.own_ird = self.pick("own_ird", (1, 2, 16, 200))
        self.own_ord = self.pick("own_ord", (1, 2, 16, 200) if rping else (0, 1, 2, 16))
        most = 512 if self.revision == 1 else 508
        self.data = draw.randbytes(self.pick("data", (0, 0, 1, 4, 64, most)))
        self.own_data = draw.randbytes(self.pick("own_data", (0, 0, 1, 20, 64, most)))
        self.form = self.pick("form", ("none", "none", "send", "write", "read") if self.revision == 2 else
                              ("none", "none", "frame"))
        others = [kind for kind in BITS if kind != self.form and draw.random() < 0.3] if self.form in BITS else []
        self.others = wish.get("others", others)
        self.spelling = self.pick("spelling", ("text", "hex"))
        self.unnegotiated = self.pick("unnegotiated", (False,) * 9 + (True,)) and not rping
        # RFC 6581 §10: revision 2 without enhanced data is as revision 1.
        self.bare = self.pick("bare", (False,) * 9 + (True,)) and initiator and self.revision == 2 and not rping
        if self.bare:
            self.form, self.others = "none", []
        self.fallen = "none"  # the form that was asked for before a fall-back to revision 1

    def pick(self, name, choices):
        drawn = self.draw.choice(choices)
        return self.wish.get(name, drawn)

    # --- Parley's command line ---------------------------------------------------------------------------------
    def options(self):
        out = ["--crc" if self.crc else "--no-crc", "--ird", self.ird, "--ord", self.ord]
        out += ["--markers"] if self.markers else []
        out += ["--private-data", "hex:" + self.data.hex()] if self.data else []
        if self.initiator:
            if self.revision == 1 and (len(self.data) > 508 or self.draw.random() < 0.5):
                out += ["--revision", 1]
            return out
        if self.form != "frame":
            out += ["--revision", self.revision]
        if self.form != "none":
            out += ["--rtr", self.form]
        if self.others:
            out += ["--rtr-offer", ",".join(self.others)]
        return out + (["--rtr-spelling", self.spelling] if self.form == "frame" else [])

    # --- the peer as initiator ---------------------------------------------------------------------------------
    def request(self):
        flags = wire.M * self.own_markers | wire.C * self.own_crc
        data = self.own_data
        if self.revision == 1 or self.bare:
            return wire.startup(wire.REQ, flags | wire.S * (self.form == "frame"), self.revision, data)
        kinds = "".join(BITS[kind] for kind in [self.form, *self.others] if kind in BITS)
        depths = (UNNEGOTIATED,) * 2 if self.unnegotiated else (self.own_ird, self.own_ord)
        return wire.startup(wire.REQ, flags | wire.S, 2, wire.enhanced(*depths, "A" + kinds if kinds else "") + data)

    def as_initiator(self, connection):
        line = Line(connection, self.draw)
        line.send(self.request())
        reply = Frame(line, {wire.REP})
        crc = self.judge_reply(reply)
        if reply.enhanced and not self.unnegotiated:
            ird, ord_, _ = reply.enhanced
            reads, served = min(ird, self.own_ord), min(ord_, self.own_ird)
        else:
            reads, served = min(self.ird, self.own_ord), self.ord
        peer = Peer(line, self.draw, crc=crc, markers_out=bool(reply.flags & wire.M), markers_in=self.own_markers,
                    reads=reads, served=served)
        if self.draw.random() < 0.15:
            line.quiet(0.01)  # RFC 5044 §7.1.2 rule 4
        self.indicate(peer, reply)
        return peer

    def judge_rejection(self, line):
        """Of `parley listen --reject`: RFC 5044 §7.1.2 rule 2."""
        reply = Frame(line, {wire.REP})
        demand(reply.flags & wire.R and reply.revision == self.revision, f"{reply.flags:02x}/{reply.revision} for a rejection")
        if reply.flags & wire.S and self.revision == 2:
            reply.split()
        demand(reply.data == self.data, f"private data {reply.data.hex()}")

    def judge_reply(self, reply):
        demand(bool(reply.flags & wire.M) == self.markers, f"M of the Reply: {reply.flags:02x}")
        demand(reply.flags & wire.C or not self.crc, f"C of the Reply: {reply.flags:02x}")
        demand(not reply.flags & wire.R, "the Reply rejects")
        demand(reply.revision == self.revision, f"Rev {reply.revision} of the Reply")
        if self.revision == 1 or self.bare:
            demand(bool(reply.flags & wire.S) == (self.form == "frame"), f"S of the Reply: {reply.flags:02x}")
        else:
            demand(reply.flags & wire.S, "S of the Reply is not set")
            reply.split()
            self.judge_depths(*reply.enhanced)
        demand(reply.data == self.data, f"private data {reply.data.hex()}")
        return bool(reply.flags & wire.C) or self.own_crc

    def judge_depths(self, ird, ord_, kinds):
        """RFC 6581 §9.1, §9.2."""
        if self.unnegotiated:
            demand((ird, ord_) == (UNNEGOTIATED,) * 2, f"IRD {ird:x} and ORD {ord_:x} to 3FFF")
        else:
            demand(ord_ <= self.own_ird, f"ORD {ord_} to an IRD of {self.own_ird}")
            demand(ird >= min(self.own_ord, max(self.ird, IRD_MAX)), f"IRD {ird} to an ORD of {self.own_ord}")
        offered = {BITS[kind] for kind in [self.form, *self.others] if kind in BITS}
        demand(("A" in kinds) == bool(offered), f"A of the Reply: {kinds}")
        demand(not offered or offered & set(kinds), f"kinds {kinds} to {offered}")
        demand(offered or not kinds, f"kinds {kinds} without A")
        demand("D" not in kinds or ird >= 1, "a Read as RTR with IRD 0")
        self.common = [kind for kind in BITS if BITS[kind] in kinds and BITS[kind] in offered]

    def indicate(self, peer, reply):
        if self.revision == 1:
            if reply.flags & wire.S:
                key = wire.RTR_TEXT if self.spelling == "text" else wire.RTR_HEX
                peer.line.send(wire.startup(key, reply.flags & (wire.M | wire.C), 1))
            return
        if self.bare or not self.common:
            return
        form = self.draw.choice(self.common)
        if form == "write":
            peer.say(wire.write(self.draw.choice((0, 1, 0xFFFFFFFF)), self.draw.getrandbits(64)))
        elif form == "send":
            peer.say(wire.send(peer.next_msn(0)))
        else:
            peer.reads = max(peer.reads, 1)
            peer.read((self.draw.choice((0, 1)), self.draw.getrandbits(64)), 0)

    # --- the peer as responder ---------------------------------------------------------------------------------
    def reply(self, request):
        flags = wire.M * self.own_markers | wire.C * self.own_crc
        if self.revision == 1:
            return wire.startup(wire.REP, flags | request.flags & wire.S, 1, self.own_data)
        ird, ord_, offered = request.enhanced
        self.agreed = ""
        if "A" in offered:
            usable = [bit for bit in "BCD" if bit in offered]
            self.agreed = "".join(bit for bit in usable if self.draw.random() < 0.5) or self.draw.choice(usable)
        own_ord = min(self.own_ord, ird)
        own_ird = max(self.own_ird, 1 if "D" in self.agreed else 0)
        depths = (UNNEGOTIATED,) * 2 if self.unnegotiated else (own_ird, own_ord)
        self.own_ord, self.own_ird = own_ord, own_ird
        return wire.startup(wire.REP, flags | wire.S, 2,
                            wire.enhanced(*depths, "A" + self.agreed if self.agreed else "") + self.own_data)

    def judge_request(self, line):
        request = Frame(line, {wire.REQ})
        demand(not request.flags & wire.R, "R of the Request")
        demand(bool(request.flags & wire.M) == self.markers, f"M of the Request: {request.flags:02x}")
        demand(bool(request.flags & wire.C) == self.crc, f"C of the Request: {request.flags:02x}")
        demand(request.revision == self.revision, f"Rev {request.revision} of the Request")
        if self.revision == 1:
            demand(bool(request.flags & wire.S) == (self.form == "frame"), f"S of the Request: {request.flags:02x}")
        else:
            demand(request.flags & wire.S, "S of the Request is not set")
            request.split()
            ird, ord_, kinds = request.enhanced
            demand(ird == self.ird and ord_ == max(self.ord, 1 if "D" in kinds else 0), f"depths {ird} and {ord_}")
            due = {BITS[kind] for kind in [self.form, *self.others] if kind in BITS}
            demand(set(kinds) == (due | {"A"} if due else set()), f"kinds {kinds}, {due} are expected")
        demand(request.data == self.data, f"private data {request.data.hex()}")
        # RFC 5044 §7.1.2 rule 1: nothing before the Reply.
        demand(not line.more(), "octets behind the Request")
        return request

    def as_responder(self, connection):
        line = Line(connection, self.draw)
        request = self.judge_request(line)
        if self.draw.random() < 0.1:
            line.quiet(0.01)
        line.send(self.reply(request))
        peer = self.peer(line, request)
        self.indicated(peer, request)
        return peer

    def fall_back(self):
        """From here on under revision 1, which has no depths and no kinds."""
        self.fallen = self.form
        self.revision, self.form, self.others = 1, "none", []

    def peer(self, line, request):
        """The peer behind the Reply."""
        if self.revision == 2 and not self.unnegotiated:
            reads, served = min(self.own_ord, request.enhanced[0]), min(self.own_ird, request.enhanced[1])
        else:
            reads, served = min(self.own_ord, self.ird), max(self.ord, 1)
        return Peer(line, self.draw, crc=self.own_crc or self.crc, markers_out=self.markers, markers_in=self.own_markers,
                    reads=reads, served=max(served, 1 if "D" in getattr(self, "agreed", "") else 0))

    def indicated(self, peer, request):
        """The indication that was agreed comes first: RFC 6581 §9.2, and the proposal of 2007."""
        if self.revision == 1:
            if self.form == "frame":
                rtr = Frame(peer.line, {wire.RTR_TEXT if self.spelling == "text" else wire.RTR_HEX})
                demand(rtr.revision == 1 and not rtr.data and not rtr.flags & (wire.R | wire.S), "the Rtr frame's fields")
            if self.fallen != "none":  # what nothing announces any more; a Send would reach the program (docs/mpa-rtr.md)
                kind, payload = peer.next()
                demand(kind.opcode == (1 if self.fallen == "read" else 0), f"{kind} after a fall-back from {self.fallen}")
                if self.fallen == "read":
                    demand(peer.asked[0][2] == 0, f"a Read of {peer.asked[0][2]} octets as indication")
                    peer.respond()
                else:
                    demand(not payload, f"an indication of {len(payload)} octets")
            return
        if not self.agreed:
            return
        kind, payload = peer.next()
        demand(kind.last, f"an indication of several segments: {kind}")
        form = {0: "C", 1: "D", 3: "B"}.get(kind.opcode)
        demand(form is not None and form in self.agreed, f"{kind} as indication, {self.agreed} were agreed")
        if form == "D":
            demand(peer.asked[0][2] == 0, f"a Read of {peer.asked[0][2]} octets as indication")
            peer.respond()
        else:
            demand(not payload, f"an indication of {len(payload)} octets")
