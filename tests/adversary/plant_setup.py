# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Violations of the set-up: startup frames, and who speaks first."""
import struct

import conversation
import wire
from plant import CLOSED, I, IGNORED, LOCAL, P2P, R, Row, V1, V2, put
from wire import INITIATOR, RESPONDER

# --- set-up: the Request ----------------------------------------------------------------------------------


def request(change, due=CLOSED):
    """A Request that is wrong, and what comes of it."""
    def make(self, c, _):
        unit = c.request
        change(self, c, unit)
        if due == CLOSED:
            c.units[c.before + 1:] = []
            c.peer[INITIATOR].said.clear()
        unit.about["due"] = due
        return unit
    return make


def flag(mask):
    return lambda self, c, unit: put(unit, 16, ">B", unit.body[16] | mask)


def key(text):
    def change(self, c, unit):
        unit.body = text + unit.body[16:]
    return change


def revision(*values):
    return lambda self, c, unit: put(unit, 17, ">B", self.draw.choice(values))


def long_private(self, c, unit):
    size = self.draw.choice([513, 514, 1000, 65535])
    unit.body = (unit.body[:18] + struct.pack(">H", size) + unit.body[20:24]).ljust(20 + min(size, 3000), b"\0")


def no_room(self, c, unit):
    size = self.draw.randrange(4)
    unit.body = unit.body[:18] + struct.pack(">H", size) + unit.body[20:20 + size]


def words(first, second):
    """The enhanced data of a startup frame, changed."""
    def change(self, c, unit):
        put(unit, 20, ">H", first(struct.unpack_from(">H", unit.body, 20)[0]))
        put(unit, 22, ">H", second(struct.unpack_from(">H", unit.body, 22)[0]))
    return change


def same(value):
    return value


def refused(change):
    """A Request that the responder may take amiss: it rejects."""
    def make(self, c, _):
        change(self, c, c.request)
        put(c.reply, 16, ">B", c.reply.body[16] | wire.R)
        if c.enhanced:
            put(c.reply, 20, ">I", 0)
        c.units[c.before + 2:] = []
        c.close(RESPONDER)
        c.request.about["due"] = None
        return c.request
    return make


Row("request_reserved_bits", request(flag(0x08), IGNORED), "mpa.reserved", sides=I)
Row("request_reserved_bits_low", request(flag(0x05), IGNORED), "mpa.reserved", sides=I, m=(False, False))
Row("request_r", request(flag(wire.R), IGNORED), "mpa.request-r", sides=I)
Row("request_key_unknown", request(key(b"MPA ID Foo Frame")), "mpa.request-key", sides=I)
Row("request_key_lower_case", request(key(b"MPA ID req Frame")), "mpa.request-key", sides=I)
Row("request_key_of_reply", request(key(wire.REP)), "mpa.initiator-reply", sides=I)
Row("request_revision_3", request(revision(3, 4, 255)), "mpa.revision", sides=I, s=False, **V1)
Row("request_revision_129", request(revision(129)), "mpa.revision", sides=I, s=False, **V1)
Row("request_private_data_513", request(long_private), "mpa.pd-length", sides=I)
Row("request_no_room_for_enhanced", request(no_room), "mpa.enhanced-room", sides=I, **V2)
Row("request_a_without_kinds", refused(words(lambda w: w & 0x3FFF | 0x8000, lambda w: w & 0x3FFF)), "mpa.a-without-kinds",
    sides=I, m=(False, False), **V2)
Row("request_b_without_a", request(words(lambda w: w & 0x3FFF | 0x4000, lambda w: w & 0x3FFF), IGNORED),
    "mpa.kinds-without-a", sides=I, **V2)
Row("request_c_without_a", request(words(lambda w: w & 0x3FFF, lambda w: w & 0x3FFF | 0x8000), IGNORED),
    "mpa.kinds-without-a", sides=I, **V2)
Row("request_d_without_a", request(words(lambda w: w & 0x3FFF, lambda w: w & 0x3FFF | 0x4000), IGNORED),
    "mpa.kinds-without-a", sides=I, **V2)


def behind_request(octets):
    def make(self, c, _):
        c.units[c.before + 1:] = []
        extra = c.add(INITIATOR, "extra", octets(self, c), due=CLOSED)
        return extra
    return make


def first_fpdu(self, c):
    return wire.Framer(True).fpdu(wire.send(1, self.draw.randbytes(self.draw.randint(0, 40))))


Row("octets_behind_request", behind_request(lambda self, c: self.draw.randbytes(self.draw.randint(1, 60))), "mpa.octets-before-reply",
    sides=I)
Row("fpdu_before_reply", behind_request(first_fpdu), "mpa.octets-before-reply", sides=I)
Row("second_request_before_reply", behind_request(lambda self, c: c.request.body), "mpa.octets-before-reply", sides=I)


def request_that_ends(self, c, _):
    """RFC 5044 §7.1.2 rule 9: PD_Length is more than comes before the FIN."""
    c.units[c.before + 1:] = []
    if len(c.request.body) == 20:
        c.request.body += bytes(self.draw.randint(1, 30))
    put(c.request, 18, ">H", min(512, len(c.request.body) - 20 + self.draw.randint(1, 100)))
    c.request.body = c.request.body[:20 + max(0, struct.unpack_from(">H", c.request.body,
        18)[0] - self.draw.randint(1, 30))]
    fin = c.add(INITIATOR, "fin")
    c.add(RESPONDER, "fin", needs=[fin])
    c.request.about["due"] = None
    fin.about["due"] = None
    return [c.request, fin]


Row("request_ends_in_private_data", request_that_ends, "mpa.pd-missing", sides=I)


# --- set-up: the Reply ------------------------------------------------------------------------------------
def reply(change, due=CLOSED):
    def make(self, c, _):
        unit = c.reply
        change(self, c, unit)
        if due != IGNORED:
            begin_again(c)
        unit.about["due"] = due
        return unit
    return make


Row("reply_reserved_bits", reply(flag(0x08), IGNORED), "mpa.reserved", sides=R)
Row("reply_s_unasked", reply(flag(wire.S), IGNORED), "mpa.s-unasked", sides=R, s=False, **V1)
Row("reply_key_of_request", reply(key(wire.REQ)), "mpa.two-initiators", sides=R)
Row("reply_key_unknown", reply(key(b"MPA ID Rex Frame")), "mpa.reply-key", sides=R)
Row("reply_key_of_rtr", reply(key(wire.RTR_TEXT)), "mpa.reply-key", sides=R)
Row("reply_revision_3", reply(revision(3, 77)), "mpa.revision", sides=R, s=False, **V1)
Row("reply_revision_2_to_1", reply(revision(2)), "mpa.reply-revision", sides=R, s=False, **V1)
Row("reply_private_data_513", reply(long_private), "mpa.pd-length", sides=R)
Row("reply_no_room_for_enhanced", reply(no_room), "mpa.enhanced-room", sides=R, **V2)
Row("reply_a_cleared", reply(words(lambda w: w & 0x3FFF, lambda w: w & 0x3FFF), (0x20, 7)), "mpa.a-answer", sides=R,
    **P2P)
Row("reply_a_without_kinds", reply(words(lambda w: w & 0x3FFF | 0x8000, lambda w: w & 0x3FFF), (0x20, 7)),
    "mpa.a-without-kinds", sides=R,
    beside="mpa.no-common-rtr", **P2P)
Row("reply_a_unasked", reply(words(lambda w: w | 0xC000, same), (0x20, 7)), "mpa.a-answer", sides=R, **V2)
Row("reply_kinds_without_a", reply(words(lambda w: w & 0x3FFF, lambda w: w | 0xC000), IGNORED), "mpa.kinds-without-a",
    sides=R, **V2)
Row("reply_ird_to_unnegotiated", reply(words(lambda w: 8, same), IGNORED), "mpa.depth-unnegotiated", sides=R, depths=(8,
    0x3FFF), **V2)
Row("reply_ord_to_unnegotiated", reply(words(same, lambda w: 8), IGNORED), "mpa.depth-unnegotiated", sides=R, depths=(0x3FFF,
    8), **V2)


def enhanced_unasked(self, c, unit):
    private = wire.enhanced(8, 8) + unit.body[20:528]
    unit.body = unit.body[:18] + struct.pack(">H", len(private)) + private
    put(unit, 16, ">B", unit.body[16] | wire.S)


Row("reply_enhanced_unasked", reply(enhanced_unasked), "mpa.enhanced-unasked", sides=R, revision=2, enhanced=False)


def early_reply(self, c, _):
    """RFC 5044 §7.1.2 rule 2: the responder answers before the whole Request has come."""
    body = c.request.body
    part = self.draw.randint(1, len(body) - 1)
    rest = conversation.Unit(INITIATOR, "request", body[part:])
    c.request.body = body[:part]
    c.units.insert(c.before + 2, rest)
    for unit in c.units[c.before + 3:]:
        unit.needs = [rest if need is c.request else need for need in unit.needs]
    c.reply.about["due"] = IGNORED
    return c.reply


Row("reply_before_request_whole", early_reply, "mpa.reply-early", sides=R)


def begin_again(c):
    """Nothing but the set-up has been said."""
    del c.units[c.before + 2:]
    c.peer, c.rtr_frame = (conversation.Peer(), conversation.Peer()), None
    c.set_limits()


def second_reply(self, c, _):
    begin_again(c)
    return c.add(RESPONDER, "reply", c.reply.body)


Row("second_reply", second_reply, "mpa.second-startup", LOCAL, sides=R, s=False, **V1)


# --- who speaks first -------------------------------------------------------------------------------------
def too_early(glued):
    def make(self, c, side):
        first = c.peer[INITIATOR].said[0]
        unit = conversation.Unit(RESPONDER, "fpdu", wire.send(1, self.draw.randbytes(self.draw.randint(0, 30))),
            opcode=3, queue=0,
                                 msn=1, due=IGNORED)
        c.units.insert(c.units.index(first), unit)
        c.reply.about["glued"] = glued
        unit.apart = not glued
        for later in c.units:
            if later.side == RESPONDER and later.queue == 0 and later is not unit:
                put(later, 10, ">I", later.msn + 1)
        c.peer[RESPONDER].msn[0] += 1
        c.peer[RESPONDER].said.insert(0, unit)
        first.needs = [need for need in first.needs if need.kind != "fpdu"]
        return unit
    return make


Row("responder_before_first_fpdu", too_early(False), "mpa.fence", sides=R, rtr="none", **{"steps": 2, "revision": 1})
Row("responder_in_segment_of_reply", too_early(True), "mpa.fence", sides=R, rtr="none", **{"steps": 2, "revision": 1})


def instead_of_rtr(self, c, side):
    """RFC 6581 §9.2: the first FPDU is an RTR of a kind that both sides named."""
    begin_again(c)
    unit = c.say(INITIATOR, size=20)
    c.units[-1].about["due"] = IGNORED
    return unit


def other_rtr(self, c, side):
    begin_again(c)
    unit = c.stream(INITIATOR, 0, 1, 0, b"") if c.rtr == "send" else c.message(INITIATOR, 3, b"")
    unit.about["due"] = IGNORED
    return unit


def one_kind(kind):
    return dict(P2P, rtr=kind, kinds=([kind], [kind]), steps=0)


Row("message_instead_of_rtr", instead_of_rtr, "mpa.rtr-kind", sides=I, steps=0, **P2P)
Row("rtr_send_not_agreed", other_rtr, "mpa.rtr-kind", sides=I, **one_kind("write"))
Row("rtr_write_not_agreed", other_rtr, "mpa.rtr-kind", sides=I, **one_kind("send"))
Row("rtr_not_the_read_agreed", other_rtr, "mpa.rtr-kind", sides=I, **one_kind("read"))
Row("message_instead_of_rtr_frame", instead_of_rtr, "mpa.rtr-frame-omitted", sides=I, steps=0, revision=1, rtr="frame")


# --- what becomes of a set-up -----------------------------------------------------------------------------
def rtr_frame_unasked(self, c, side):
    begin_again(c)
    unit = c.add(INITIATOR, "rtr", wire.startup(wire.RTR_TEXT, wire.C, 1), [c.reply])
    c.close(INITIATOR)  # to the responder these octets are the head of an FPDU, of which it awaits more
    unit.about["due"] = None
    return unit


def given_up(code):
    """The initiator terminates instead of sending its RTR."""
    def make(self, c, side):
        begin_again(c)
        unit = c.fpdu(INITIATOR, wire.terminate(0x20, code), opcode=7, queue=2, msn=1)
        unit.about["due"] = CLOSED
        return unit
    return make


def unanswered(self, c, side):
    """The responder closes instead of answering; with revision 2 it may (RFC 6581 §10)."""
    c.units[c.before + 1:] = []
    fin = c.add(RESPONDER, "fin", needs=[c.request])
    c.add(INITIATOR, "fin", needs=[fin])
    fin.about["due"] = None
    return fin


def rejected(self, c, side):
    put(c.reply, 16, ">B", c.reply.body[16] | wire.R)
    c.units[c.before + 2:] = []
    c.close(RESPONDER)
    c.reply.about["due"] = None
    return c.reply


Row("rtr_frame_unasked", rtr_frame_unasked, "mpa.rtr-frame-unasked", sides=I, s=False, steps=0, **V1)
Row("no_matching_rtr_said_of_a_match", given_up(7), "mpa.rtr-match-denied", sides=I, **P2P)
Row("no_ird_said_of_enough", given_up(6), "mpa.ird-denied", severity="warning", sides=I, **P2P)
Row("reply_called_invalid", given_up(4), "mpa.reply-called-invalid", severity="warning", sides=I, **P2P)
Row("request_unanswered", unanswered, "mpa.request-unanswered", severity="warning", sides=R, **V1)
Row("markers_rejected", rejected, "mpa.markers-refused", severity="warning", sides=R, m=(True, False), s=False, **V1)
Row("crc_not_asked", request(lambda self, c, unit: None, IGNORED), "mpa.crc-not-asked", severity="warning", sides=I,
    c=(False, True))
Row("reply_ord_above_ird", reply(words(same, lambda w: w & 0xC000 | 9), (0x20, 6)), "mpa.ord-above-ird", severity="warning",
    sides=R, depths=(8, 8), answered_depths=(8, 8), **V2)
Row("read_agreed_with_ird_0", reply(words(lambda w: w & 0xC000, same), (0x20, 6)), "mpa.read-rtr-ird", severity="warning",
    sides=R, depths=(8, 0), answered_depths=(0, 8), kinds=(["read"], ["read"]), rtr="read", **P2P)
Row("reply_revision_1_to_2", reply(revision(1)), "mpa.reply-revision-lower", severity="warning", sides=R, revision=2, enhanced=False)
