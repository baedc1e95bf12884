# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Violations of what a side owes for what the other one sent: set-ups that go on where they must not, answers to faults, Terminates that
do not arrive. The fault that is answered stands beside each."""
import struct

import wire
from plant import CLOSED, I, P2P, R, Row, SHORT, V1, V2, put
from plant_rdmap import term
from plant_setup import begin_again, key, one_kind, reply, words
from plant_stream import parts
from wire import INITIATOR, RESPONDER

RESERVED, NONE = 0x08, (False, False)


def ended(c, unit, by=RESPONDER):
    """Nothing follows the set-up; `by` closes."""
    begin_again(c)
    c.close(by)
    unit.about["due"] = None
    return unit


# --- the Request and its Reply ----------------------------------------------------------------------------
def another_protocol(self, c, unit):
    unit.body = b"HTTP/1.0 400 Bad Request\r\n\r\n"


def reject(c):
    put(c.reply, 16, ">B", c.reply.body[16] | wire.R)


def r_echoed(self, c, _):
    put(c.request, 16, ">B", c.request.body[16] | wire.R)
    reject(c)
    return ended(c, c.reply)


def s_echoed(self, c, _):
    for unit in (c.request, c.reply):
        put(unit, 16, ">B", unit.body[16] | wire.S | RESERVED)
    return ended(c, c.reply, INITIATOR)


def improper(rejects):
    def make(self, c, _):
        c.request.body = (c.request.body[:18] + struct.pack(">H", 513) + c.request.body[20:]).ljust(533, b"\0")
        if rejects:
            reject(c)
        return ended(c, c.reply, INITIATOR)
    return make


def extra_accepted(self, c, _):
    begin_again(c)
    c.units.remove(c.reply)
    extra = c.add(INITIATOR, "extra", self.draw.randbytes(1))
    c.reply.needs = [*c.reply.needs, extra]
    c.units.append(c.reply)
    c.close(INITIATOR)
    c.reply.about["due"] = None
    return c.reply


def without_enhanced(self, c, unit):
    private = unit.body[24:]
    unit.body = unit.body[:16] + bytes([unit.body[16] & ~wire.S, 2]) + struct.pack(">H", len(private)) + private


def revision_0(self, c, _):
    """Which has neither markers nor CRC of choice; the responder knows revision 1."""
    put(c.request, 17, ">B", 0)
    return ended(c, c.request, INITIATOR)


Row("reply_of_another_protocol", reply(another_protocol), "mpa.startup-frame", sides=R, **V1)
Row("reply_r_echoed", r_echoed, "mpa.reply-r-echoed", severity="warning", sides=R, beside="mpa.request-r", m=NONE, **V1)
Row("reply_s_and_reserved_echoed", s_echoed, "mpa.s-echoed", sides=R, beside="mpa.reserved", m=NONE, s=False, **V1)
Row("revision_0_without_markers", revision_0, "mpa.revision-0-flags", severity="warning", sides=I, m=NONE, s=False, **V1)
Row("improper_request_accepted", improper(False), "mpa.improper-accepted", sides=R, beside="mpa.pd-length", m=NONE, s=False,
    **V1)
Row("improper_request_rejected", improper(True), "mpa.improper-rejected", severity="warning", sides=R, beside="mpa.pd-length", m=NONE,
    s=False, **V1)
Row("octets_behind_request_accepted", extra_accepted, "mpa.extra-accepted", severity="warning", sides=R,
    beside="mpa.octets-before-reply", s=False, **V1)
Row("enhanced_request_unanswered", reply(without_enhanced), "mpa.enhanced-unanswered", severity="warning", sides=R, m=NONE,
    **V2)


# --- what the initiator makes of the Reply ----------------------------------------------------------------
def after_reply(change, say):
    def make(self, c, _):
        begin_again(c)
        change(self, c, c.reply)
        unit = say(self, c)
        unit.about["due"] = CLOSED
        return unit
    return make


def terminate(code):
    return lambda self, c: c.fpdu(INITIATOR, wire.terminate(0x20, code), opcode=7, queue=2, msn=1)


NO_KIND = words(lambda w: w & ~0x4000, lambda w: w & 0x3FFF | 0x8000)  # Write, where the Request has Send
BAD_KEY = key(b"MPA ID Foo Frame")


def closed_without_kind(self, c, _):
    begin_again(c)
    NO_KIND(self, c, c.reply)
    fin = c.add(INITIATOR, "fin", needs=[c.reply])
    c.add(RESPONDER, "fin", needs=[fin])
    fin.about["due"] = None
    return fin


Row("fpdu_after_invalid_reply", after_reply(BAD_KEY, lambda self, c: c.say(INITIATOR, size=9)), "mpa.after-invalid-reply", sides=I,
    beside="mpa.reply-key", s=False, **V1)
Row("terminate_after_invalid_reply", after_reply(BAD_KEY, terminate(5)), "mpa.invalid-reply-terminate", sides=I, beside="mpa.reply-key",
    s=False, **V1)
Row("no_kind_in_common", reply(NO_KIND, (0x20, 7)), "mpa.no-common-rtr", severity="warning", sides=R, **one_kind("send"))
Row("closed_without_kind_in_common", closed_without_kind, "mpa.no-rtr-terminate", severity="warning", sides=I,
    beside="mpa.no-common-rtr", m=NONE, **one_kind("send"))
Row("went_on_after_a_cleared", after_reply(words(lambda w: w & 0x3FFF, lambda w: w & 0x3FFF), lambda self, c: c.say(INITIATOR, size=9)),
    "mpa.went-on-without-a", severity="warning", sides=I, beside="mpa.a-answer", **P2P)


# --- the Rtr frame of 2007 --------------------------------------------------------------------------------
FRAME = dict(revision=1, rtr="frame", steps=0)


def rtr_frame(c):
    begin_again(c)
    c.rtr_frame = c.add(INITIATOR, "rtr", wire.startup(wire.RTR_TEXT, wire.C, 1), [c.reply])
    return c.rtr_frame


def no_rtr_frame(self, c, _):
    begin_again(c)
    fin = c.add(INITIATOR, "fin", needs=[c.reply])
    c.add(RESPONDER, "fin", needs=[fin])
    fin.about["due"] = None
    return fin


def reset_on_rtr_frame(self, c, _):
    reset = c.add(RESPONDER, "rst", needs=[rtr_frame(c)])
    reset.about["due"] = None
    return reset


def terminate_of_rtr_frame(self, c, _):
    unit = c.fpdu(RESPONDER, wire.terminate(0x11, 0), [rtr_frame(c)], opcode=7, queue=2, msn=1)
    unit.about["due"] = CLOSED
    return unit


Row("ends_without_rtr_frame", no_rtr_frame, "mpa.s-unproven", severity="warning", sides=R, m=NONE, **FRAME)
Row("reset_on_rtr_frame", reset_on_rtr_frame, "mpa.rtr-frame-reset", severity="warning", sides=R, **FRAME)
Row("rtr_frame_taken_for_an_fpdu", terminate_of_rtr_frame, "mpa.rtr-frame-as-fpdu", sides=R, beside="rdmap.terminate-parts", **FRAME)


# --- data -------------------------------------------------------------------------------------------------
def swapped_parts(self, c, side):
    units = parts(700)(self, c, side)
    at = c.units.index(units[0])
    c.units[at], c.units[at + 1] = c.units[at + 1], c.units[at]
    units[1].needs, units[0].needs = units[0].needs, []
    return units


def damaged_before(c, side):
    """A fault of the other side that `side` has received."""
    if not c.peer[INITIATOR].said:
        c.say(INITIATOR, size=3)
    unit = c.say(1 - side, size=20)
    unit.damage = {"damage_crc": 1}
    return unit


def closed_on_fault(self, c, side):
    fin = c.add(side, "fin", needs=[damaged_before(c, side)])
    c.add(1 - side, "fin", needs=[fin])
    fin.about["due"] = None
    return fin


def other_terminate(self, c, side):
    wrong = damaged_before(c, side)
    unit = c.fpdu(side, wire.terminate(0x12, 3, 0xC0, c.copied(wrong)), [wrong], opcode=7, queue=2, msn=1)
    unit.about["due"] = CLOSED
    return unit


Row("send_segments_out_of_order", swapped_parts, "ddp.order", severity="warning", **SHORT)
Row("closed_on_fault_without_terminate", closed_on_fault, "rdmap.no-terminate", severity="warning", beside="mpa.crc")
Row("terminate_of_another_fault", other_terminate, "rdmap.other-terminate", severity="warning", beside="mpa.crc")
Row("terminate_of_mpa_with_type_3", term(0x23, 5), "rdmap.terminate-type", severity="warning", beside="rdmap.terminate-meaning",
    revision=2)
