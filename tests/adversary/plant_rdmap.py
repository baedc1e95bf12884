# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Violations of RDMAP, its Terminates, and of RFC 7306."""
import struct

import conversation
import wire
from plant import (ANY, CLOSED, Row, SHORT, a_write, asked_by, atomic, atomic_response, depths, drained,
                   field, put, read, resized, resized_request)
from wire import INITIATOR, RESPONDER

# --- RDMAP ------------------------------------------------------------------------------------------------
for opcode in (0xC, 0xD, 0xE, 0xF):
    Row(f"opcode_{opcode:x}", field(1, ">B", 0x40 | opcode), "rdmap.opcode", (0x02, 6))
    Row(f"opcode_{opcode:x}_tagged", field(1, ">B", 0x40 | opcode, say=a_write), "rdmap.opcode", (0x02, 6))
for opcode in (1, 3, 4, 5, 6, 7, 8, 9, 0xA, 0xB):
    Row(f"opcode_{opcode:x}_in_tagged_segment", field(1, ">B", 0x40 | opcode, say=a_write), "rdmap.tagged", (0x02, 6))
for opcode in (0, 2):
    Row(f"opcode_{opcode:x}_in_untagged_segment", field(1, ">B", 0x40 | opcode), "rdmap.tagged", (0x02, 6))


Row("read_request_short", resized_request(read, -1, -4, -27), "rdmap.read-request-length", ANY)
Row("read_request_long", resized_request(read, 1, 4, 100), "rdmap.read-request-length", ANY)


def wrapping_read(offset):
    """Source or sink run over the end of the 64-bit space: nothing answers."""
    def make(self, c, side):
        unit = read(self, c, side)
        c.peer[1 - side].owed.remove(unit)
        return put(unit, offset, ">Q", 2**64 - self.draw.randint(1, 19))  # of its 20 octets
    return make


Row("read_sink_wraps", wrapping_read(18 + 4), "rdmap.read-wrap", CLOSED, severity="warning")
Row("read_source_wraps", wrapping_read(18 + 20), "rdmap.read-wrap", CLOSED, severity="warning")


def unasked(self, c, side):
    drained(c, 1 - side)
    return c.stream(side, 2, *c.place(), self.draw.randbytes(self.draw.choice([0, 20])))


def answered_wrong(change):
    """The answer to a Read Request, wrong."""
    def make(self, c, side):
        request, = asked_by(self, c, side, "read")
        c.peer[side].owed.clear()
        stag, to = request.sink
        size = request.size
        stag, to, size = change(self, stag, to, size)
        return c.stream(side, 2, stag, to, self.draw.randbytes(size), [request])
    return make


def swapped(self, c, side):
    first, second = asked_by(self, c, side, "read", "read")
    c.peer[side].owed.clear()
    return c.stream(side, 2, *second.sink, bytes(second.size), [first, second])


def response_part(change):
    """A Read Response of several segments, of which the second is wrong."""
    def make(self, c, side):
        c.read(1 - side, 700, c.place(), c.place(), drained(c, 1 - side))
        begin = len(c.units)
        c.answer(side)
        units = c.units[begin:]
        change(units[1])
        del c.units[c.units.index(units[1]) + 1:]
        return units[1]
    return make


TWO = dict(depths(4, 4))
Row("read_response_unasked", unasked, "rdmap.read-unasked", ANY)
Row("read_response_stag", answered_wrong(lambda self, stag, to, size: (stag ^ 0x100, to, size)), "rdmap.read-sink", ANY)
Row("read_response_to", answered_wrong(lambda self, stag, to, size: (stag, to + 8, size)), "rdmap.read-sink", ANY)
Row("read_response_short", answered_wrong(lambda self, stag, to, size: (stag, to, size - self.draw.choice([1,
    size]))), "rdmap.read-length", ANY)
Row("read_response_long", answered_wrong(lambda self, stag, to, size: (stag, to, size + self.draw.choice([1, 30]))),
    "rdmap.read-length", ANY)
Row("read_responses_swapped", swapped, "rdmap.read-sink", ANY, **TWO)
Row("read_response_second_part_stag", response_part(lambda unit: put(unit, 2, ">I", unit.stag ^ 1)), "rdmap.read-sink", ANY, **SHORT)


def bounded(limit):
    def of(side, draw):
        values = [draw.choice([1, 2, 5, 0x3FFE]), draw.choice([1, 2, 5])]
        values[side] = limit
        return depths(*values)
    return of


def over(kind):
    def make(self, c, side):
        seen = drained(c, side)
        for _ in range(c.peer[side].limit):
            c.read(side, self.draw.choice([0, 30]), c.place(), c.place(), seen)
            seen = []
        unit = c.read(side, kind, c.place(), c.place(), seen)
        return unit
    return make


for limit in (0, 1, 2, 4):
    Row(f"read_over_bound_of_{limit}", over(16), "rdmap.read-limit", ANY, of=bounded(limit), outstanding=limit)
    Row(f"empty_read_over_bound_of_{limit}", over(0), "rdmap.read-limit", ANY, of=bounded(limit), outstanding=limit)


# --- Terminates -------------------------------------------------------------------------------------------
def ended(make):
    """A Terminate that is wrong; the other side closes."""
    def build(self, c, side):
        unit = make(self, c, side)
        unit.about["due"] = CLOSED
        return unit
    return build


def said_by_other(c, side, tagged=None):
    """A message of the other side that has been received."""
    if side == RESPONDER or c.peer[INITIATOR].said or c.rtr_frame:
        unit = c.write(1 - side, 20) if tagged else c.say(1 - side, size=20)
        return unit
    return None


def term(layer, code, bits=0, rest=b"", quotes=None, tagged=False, octet3=0, cut=None, **about):
    """`quotes`: what is copied of a message of the other side, by a function of it."""
    def make(self, c, side):
        if not c.peer[INITIATOR].said:
            c.say(INITIATOR, size=3)
        unit = said_by_other(c, side, tagged) if quotes else None
        copied = quotes(c, unit) if quotes else rest
        body = bytearray(wire.terminate(layer, code, bits, copied))
        body[21] = octet3
        return c.fpdu(side, bytes(body)[:cut], [unit] if unit else [], opcode=7, queue=2, msn=1)
    return ended(make)


def header(c, unit):
    return c.copied(unit)


Row("terminate_cut_in_control", term(0x00, 0, cut=20), "rdmap.terminate-length")
Row("terminate_without_control", term(0x00, 0, cut=18), "rdmap.terminate-length")
Row("terminate_cut_in_header", term(0x12, 2, 0xC0, quotes=header, cut=30), "rdmap.terminate-length")
Row("terminate_cut_in_tagged_header", term(0x11, 1, 0xC0, quotes=header, tagged=True, cut=30), "rdmap.terminate-length")
Row("terminate_octets_behind", term(0x00, 0, rest=bytes(4)), "rdmap.terminate-length")
Row("terminate_octets_behind_header", term(0x12, 2, 0xC0, quotes=lambda c, unit: c.copied(unit) + bytes(8)), "rdmap.terminate-length")
for bit in (0x10, 0x08, 0x04, 0x02, 0x01):
    Row(f"terminate_reserved_{bit:02x}", term(0x00, 0, bit), "rdmap.terminate-reserved", severity=("error", "warning"))
Row("terminate_reserved_octet", term(0x00, 0, octet3=1), "rdmap.terminate-reserved", severity=("error", "warning"))
Row("terminate_m_without_d", term(0x00, 0, 0x80, rest=b"\0\x26"), "rdmap.terminate-bits")
Row("terminate_r_without_d", term(0x01, 0, 0x20, rest=bytes(28)), "rdmap.terminate-bits")
Row("terminate_d_of_local_catastrophe", term(0x00, 0, 0xC0, quotes=header), "rdmap.terminate-parts", severity=("error", "warning"))
Row("terminate_d_of_mpa", term(0x20, 5, 0xC0, quotes=header), "rdmap.terminate-parts", severity=("error", "warning"))
Row("terminate_header_never_sent", term(0x12, 2, 0xC0, quotes=lambda c, unit: b"\0\x26" + put(
    conversation.Unit(0, "", unit.body), 10, ">I", 77).body[:18]), "rdmap.terminate-header")
Row("terminate_wrong_length", term(0x12, 2, 0xC0, quotes=lambda c, unit: struct.pack(">H",
    len(unit.body) - 18) + unit.body[:18]), "rdmap.terminate-segment")
Row("terminate_layer_3", term(0x30, 0), "rdmap.terminate-meaning", severity=("error", "warning"))
Row("terminate_layer_unknown", term(0x70, 0), "rdmap.terminate-meaning", severity=("error", "warning"))
Row("terminate_rdmap_type_unknown", term(0x03, 0), "rdmap.terminate-meaning", severity=("error", "warning"))
Row("terminate_rdmap_code_unknown", term(0x02, 0x77, 0xC0, quotes=header), "rdmap.terminate-meaning",
    severity=("error", "warning"))
Row("terminate_of_crc_without_cause", term(0x20, 2), "rdmap.no-cause", severity="warning")
Row("terminate_of_crc_switched_off", term(0x20, 2), "mpa.crc-complaint", c=(False, False))
Row("terminate_r_of_send", term(0x01, 9, 0xE0, quotes=lambda c, unit: c.copied(unit) + bytes(28)), "rdmap.terminate-read")
Row("terminate_nibbles_swapped", term(0x21, 2, 0x03, quotes=header), "rdmap.terminate-order")
Row("terminate_of_version_without_cause", term(0x02, 5, 0xC0, quotes=header), "rdmap.no-cause", severity="warning",
    revision=2)
Row("terminate_of_empty_write", ended(lambda self, c, side: _refusing(c, side, c.write(1 - side,
    0) if _spoken(c) else None, 0x11, 0)), "ddp.empty-refused")
Row("terminate_of_empty_read", ended(lambda self, c, side: _refusing(c, side, read(self, c, 1 - side,
    0) if _spoken(c) else None, 0x01, 0)), "rdmap.empty-read-refused")


def _spoken(c):
    if not c.peer[INITIATOR].said:
        c.say(INITIATOR, size=3)
    return True


def _refusing(c, side, unit, layer, code):
    rest, bits = c.copied(unit), 0xC0
    if unit.opcode == 1:
        rest, bits = rest + unit.body[18:], 0xE0
    return c.fpdu(side, wire.terminate(layer, code, bits, rest), [unit], opcode=7, queue=2, msn=1)


def own_terminate(self, c, side):
    _spoken(c)
    return c.fpdu(side, wire.terminate(0x00, 0), opcode=7, queue=2, msn=1)


def after_terminate(say):
    def make(self, c, side):
        _spoken(c)
        c.fpdu(side, wire.terminate(0x00, 0), opcode=7, queue=2, msn=1)
        unit = say(self, c, side)
        unit.about["due"] = CLOSED
        return unit
    return make


Row("send_after_terminate", after_terminate(lambda self, c, side: c.say(side, size=5)), "rdmap.after-terminate")
Row("write_after_terminate", after_terminate(lambda self, c, side: c.write(side, 5)), "rdmap.after-terminate")
Row("read_request_after_terminate", after_terminate(read), "rdmap.after-terminate")
Row("terminate_again", after_terminate(lambda self, c, side: put(own_terminate(self, c, side), 10, ">I", 2)),
    "rdmap.after-terminate")
Row("terminate_on_queue_0", field(6, ">I", 0, say=own_terminate), "rdmap.queue", (0x12, 1))
Row("terminate_msn_2", field(10, ">I", 2, say=own_terminate), "ddp.msn", (0x12, 3))
Row("terminate_at_mo_4", field(14, ">I", 4, say=own_terminate), "ddp.mo-begin", (0x12, 4))
Row("terminate_not_last", field(0, ">B", 0x01, say=own_terminate), "rdmap.one-segment", ANY)

# --- RFC 7306 ---------------------------------------------------------------------------------------------
for size in (0, 1, 4, 7, 9, 16):
    Row(f"immediate_of_{size}", lambda self, c, side, size=size: c.message(side, self.draw.choice([8, 9]),
        bytes(size)), "rdmap.immediate-length", ANY)


def requested(offset, form, change):
    def make(self, c, side):
        unit = atomic(self, c, side)
        c.peer[1 - side].owed.remove(unit)
        return put(unit, offset, form, change(self, struct.unpack_from(form, unit.body, offset)[0]))
    return make


Row("atomic_misaligned", requested(30, ">Q", lambda self, old: old + self.draw.randint(1, 7)), "rdmap.atomic-address", ANY)
for operation in (1, 3, 4, 9, 15):
    Row(f"atomic_operation_{operation}", requested(18, ">I", lambda self, old, o=operation: o), "rdmap.atomic-opcode", ANY)
for bit in (4, 8, 16, 31):
    Row(f"atomic_reserved_bit_{bit}", field(18, ">I", lambda old, b=bit: old | 1 << b, say=atomic), "rdmap.atomic-reserved")
Row("atomic_request_short", resized_request(atomic, -1, -8, -51), "rdmap.atomic-length", ANY)
Row("atomic_request_long", resized_request(atomic, 1, 8), "rdmap.atomic-length", ANY)
Row("atomic_response_short", resized(atomic_response, -1, -12), "rdmap.atomic-length", ANY)
Row("atomic_response_long", resized(atomic_response, 1, 4), "rdmap.atomic-length", ANY)
Row("atomic_response_other_number", field(18, ">I", lambda old: old ^ 0x55, say=atomic_response), "rdmap.atomic-unasked",
    ANY)


def atomic_unasked(self, c, side):
    drained(c, 1 - side)
    return c.message(side, 0xB, bytes(12), queue=3)


def out_of_turn(*kinds):
    """RFC 7306 §5.2.2: the second request is answered first."""
    def make(self, c, side):
        first, second = asked_by(self, c, side, *kinds)
        c.peer[side].owed.clear()
        if kinds[1] == "read":
            return c.stream(side, 2, *second.sink, bytes(second.size), [first, second])
        return c.message(side, 0xB, struct.pack(">IQ", second.number, 5), [first, second], queue=3)
    return make


Row("atomic_response_unasked", atomic_unasked, "rdmap.atomic-unasked", ANY)
Row("atomic_responses_swapped", out_of_turn("atomic", "atomic"), "rdmap.atomic-order", ANY, **TWO)
Row("atomic_response_before_read_response", out_of_turn("read", "atomic"), "rdmap.answer-order", ANY, **TWO)
Row("read_response_before_atomic_response", out_of_turn("atomic", "read"), "rdmap.answer-order", ANY, **TWO)
