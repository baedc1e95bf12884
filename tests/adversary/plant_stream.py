# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Violations of MPA framing and of DDP."""
import struct

import wire
from plant import ANY, LOCAL, Row, SHORT, a_write, atomic, atomic_response, field, put, read
from wire import RESPONDER

# --- framing ----------------------------------------------------------------------------------------------
def damaged(size=40, opcode=None, **damage):
    def make(self, c, side):
        unit = c.say(side, size=size(self) if callable(size) else size, opcode=opcode)
        unit.damage.update(damage)
        return unit
    return make


def marked(side, draw):
    m = [draw.random() < 0.5, draw.random() < 0.5]
    m[1 - side] = True
    return {"m": tuple(m), "mulpdu": 1442}


def unmarked(side, draw):
    m = [draw.random() < 0.5, draw.random() < 0.5]
    m[1 - side] = False
    return {"m": tuple(m)}


Row("crc_wrong", damaged(damage_crc=1), "mpa.crc", (0x20, 2))
Row("crc_of_zeros", damaged(crc=bytes(4)), "mpa.crc", (0x20, 2))
Row("crc_wrong_of_empty_send", damaged(size=0, damage_crc=0x80), "mpa.crc", (0x20, 2))
Row("crc_wrong_with_markers", damaged(size=700, damage_crc=0x10), "mpa.crc", (0x20, 2), of=marked)
Row("pad_not_zero", damaged(size=21, pad=b"\xff\0\1"), "mpa.pad")
Row("marker_pointer", damaged(size=700, damage_pointer=4), "mpa.marker-pointer", (0x20, 3), of=marked)
Row("marker_pointer_far", damaged(size=1100, damage_pointer=512), "mpa.marker-pointer", (0x20, 3), of=marked)
Row("marker_missing", damaged(size=1100, omit=True), "mpa.marker-missing", (0x20, 2), of=marked)
Row("marker_low_bits", damaged(size=700, damage_pointer=1), "mpa.marker-bits", severity="warning", of=marked)
Row("marker_reserved_half", damaged(size=700, reserved=0x100), "mpa.marker-bits", severity="warning", of=marked)


def switched(self, c, side):
    """From its first FPDU on, a side that does with markers what it must not."""
    c.inserts[side] = not c.inserts[side]
    if not c.peer[side].said:
        c.say(side, size=600)
    unit = c.peer[side].said[0]
    index = c.units.index(unit)
    c.units[index + 1:] = []
    c.peer[1 - side].said = [other for other in c.peer[1 - side].said if other in c.units] or (
        [unit] if side == RESPONDER else [])
    unit.apart = True
    return unit


Row("markers_left_out", switched, "mpa.markers-left-out", (0x20, 2), of=marked)
Row("markers_unasked", switched, "mpa.markers-unasked", (0x20, 2), of=unmarked)


def zero_length(self, c, side):
    unit = c.fpdu(side, b"")
    unit.apart = True
    return unit


Row("ulpdu_length_0", zero_length, "mpa.ulpdu-length", LOCAL)


def far_length(self, c, side):
    unit = damaged(length=self.draw.randint(64769, 65535))(self, c, side)
    unit.apart = True
    return unit


Row("ulpdu_length_above_64768", far_length, "mpa.ulpdu-length", LOCAL, of=unmarked)


def raw(*sizes):
    def make(self, c, side):
        return c.fpdu(side, wire.send(c.peer[side].msn[0], bytes(20))[:self.draw.choice(sizes)])
    return make


Row("ulpdu_without_header", raw(1, 2, 10, 13, 17), "ddp.header", LOCAL)

# --- DDP --------------------------------------------------------------------------------------------------


def empty_send(self, c, side):
    return c.say(side, size=0)


for version in (0, 2, 3):
    Row(f"ddp_version_{version}_untagged", field(0, ">B", lambda old, v=version: old & 0xFC | v), "ddp.version", (0x12, 6))
    Row(f"ddp_version_{version}_tagged", field(0, ">B", lambda old, v=version: old & 0xFC | v, say=a_write), "ddp.version",
        (0x11, 4))
    Row(f"rdmap_version_{version}", field(1, ">B", lambda old, v=version: old & 0x3F | v << 6), "rdmap.version", (0x02, 5))
for bit in (0x04, 0x08, 0x10, 0x20):
    Row(f"ddp_reserved_{bit:02x}", field(0, ">B", lambda old, b=bit: old | b), "ddp.reserved")
    Row(f"ddp_reserved_{bit:02x}_tagged", field(0, ">B", lambda old, b=bit: old | b, say=a_write), "ddp.reserved")
for bit in (0x10, 0x20):
    Row(f"rdmap_reserved_{bit:02x}", field(1, ">B", lambda old, b=bit: old | b), "rdmap.reserved")
for queue in (1, 2, 3, 4, 2**32 - 1):
    Row(f"send_on_queue_{queue:x}", field(6, ">I", queue), "rdmap.queue", (0x12, 1))
for queue in (0, 2, 3, 7):
    Row(f"read_request_on_queue_{queue}", field(6, ">I", queue, say=read), "rdmap.queue", (0x12, 1))
    Row(f"atomic_request_on_queue_{queue}", field(6, ">I", queue, say=atomic), "rdmap.queue", (0x12, 1))
for queue in (0, 1, 2):
    Row(f"atomic_response_on_queue_{queue}", field(6, ">I", queue, say=atomic_response), "rdmap.queue", (0x12, 1))
Row("send_msn_ahead", field(10, ">I", lambda old: old + 1, lambda old: old + 1000), "ddp.msn", (0x12, 3))
Row("send_msn_again", field(10, ">I", lambda old: old - 1, say=lambda self, c, side: (c.say(side, size=3), c.say(side,
    size=9))[1]), "ddp.msn", (0x12, 3))
Row("send_msn_far_behind", field(10, ">I", lambda old: old + 2**31 & 0xFFFFFFFF), "ddp.msn", (0x12, 3))
Row("read_request_msn_ahead", field(10, ">I", lambda old: old + 3, say=read), "ddp.msn", (0x12, 3))
Row("atomic_request_msn_ahead", field(10, ">I", lambda old: old + 1, say=atomic), "ddp.msn", (0x12, 3))
Row("atomic_response_msn_ahead", field(10, ">I", lambda old: old + 1, say=atomic_response), "ddp.msn", (0x12, 3))
Row("immediate_msn_ahead", field(10, ">I", lambda old: old + 1, say=lambda self, c, side: c.message(side, 8,
    bytes(8))), "ddp.msn", (0x12, 3))
Row("empty_send_msn_ahead", field(10, ">I", lambda old: old + 1, say=empty_send), "ddp.msn", (0x12, 3))


def parts(size=2000, **more):
    """A Send of several segments, the conversation's last: its units in order."""
    def make(self, c, side, opcode=3):
        begin = len(c.units)
        c.say(side, size=size, opcode=opcode)
        return c.units[begin:]
    return make


def overlapping(self, c, side):
    units = parts(700)(self, c, side)
    second = units[1]
    put(second, 14, ">I", second.offset - 8)
    del c.units[c.units.index(second) + 1:]
    return second


def reopened(self, c, side):
    """RFC 5041 §5.2: a message after one whose last segment never came."""
    units = parts(700)(self, c, side)
    c.units.remove(units[-1])
    return c.say(side, size=10)


def early_last(self, c, side):
    """L on a segment that more follow."""
    units = parts(700)(self, c, side)
    put(units[0], 0, ">B", units[0].body[0] | 0x40)
    del c.units[c.units.index(units[1]) + 1:]
    return units[1]


def other_opcode(self, c, side):
    units = parts(700)(self, c, side)
    put(units[1], 1, ">B", units[1].body[1] & 0xF0 | 5)
    del c.units[c.units.index(units[1]) + 1:]
    return units[1]


def other_word(opcode, word):
    def make(self, c, side):
        units = parts(700)(self, c, side, opcode)
        which = self.draw.choice([1, len(units) - 1])
        put(units[which], 2, ">I", struct.unpack_from(">I", units[which].body, 2)[0] ^ word)
        del c.units[c.units.index(units[which]) + 1:]
        return units[which]
    return make


def hole(self, c, side):
    """RFC 5041 §5.2: a message of which a segment never came is over when the next one begins."""
    units = parts(700)(self, c, side)
    c.units.remove(units[1])
    after = c.say(side, size=10)
    return [*units[2:], after]


def twice(self, c, side):
    """A segment that DDP sends a second time."""
    unit = c.say(side, size=20)
    again = c.fpdu(side, unit.body, opcode=unit.opcode, queue=0, msn=unit.msn)
    return again


# RFC 5041 §5.3: until the message is over, its segments may be out of order, which is worth a warning.
AHEAD = "ddp.order"
Row("segment_of_message_missing", hole, "ddp.octets-missing", (0x12, 4), beside=AHEAD, **SHORT)
Row("message_twice", twice, "ddp.msn", (0x12, 3))
Row("send_segments_overlap", overlapping, "ddp.mo", (0x12, 4), **SHORT)
Row("message_before_last_segment", reopened, "ddp.message-open", ANY, **SHORT)
Row("last_too_early", early_last, "ddp.msn", (0x12, 3), **SHORT)
Row("opcode_changes_in_message", other_opcode, "ddp.opcode-changed", ANY, **SHORT)
Row("invalidate_stag_changes", other_word(4, 0x100), "ddp.stag-changed", ANY, **SHORT)
Row("invalidate_stag_changes_se", other_word(6, 1), "ddp.stag-changed", ANY, **SHORT)
Row("word_of_send_not_zero", field(2, ">I", 1, 2**31, opcode=3), "rdmap.stag-word", severity="warning")
Row("word_of_solicited_send_not_zero", field(2, ">I", 7, opcode=5), "rdmap.stag-word", severity="warning")
Row("word_of_read_request_not_zero", field(2, ">I", 1, say=read), "rdmap.stag-word", severity="warning")


def mo_of_the_only(self, c, side):
    unit = c.say(side, size=20)
    put(unit, 14, ">I", self.draw.choice([1, 4, 4096]))
    after = c.say(side, size=4)
    after.about["due"] = (0x12, 4)
    return [unit, after]


Row("send_at_mo_4", mo_of_the_only, "ddp.mo-begin", (0x12, 4), beside=AHEAD)


def at_mo(make):
    """A message that has one segment, which does not begin at 0."""
    return field(14, ">I", 4, say=make)


Row("read_request_at_mo_4", at_mo(read), "ddp.mo-begin", (0x12, 4))
Row("atomic_request_at_mo_4", at_mo(atomic), "ddp.mo-begin", (0x12, 4))
Row("immediate_at_mo_4", at_mo(lambda self, c, side: c.message(side, 9, bytes(8))), "ddp.mo-begin", (0x12, 4))


def not_last(make):
    """RFC 5040 §4.2: these messages have one segment."""
    return field(0, ">B", lambda old: old & ~0x40, say=make)


Row("read_request_not_last", not_last(read), "rdmap.one-segment", ANY)
Row("atomic_request_not_last", not_last(atomic), "rdmap.one-segment", ANY)
Row("atomic_response_not_last", not_last(atomic_response), "rdmap.one-segment", ANY)
Row("immediate_not_last", not_last(lambda self, c, side: c.message(side, 8, bytes(8))), "rdmap.one-segment", ANY)


def write_parts(offset, form, change):
    def make(self, c, side):
        begin = len(c.units)
        c.write(side, 700)
        units = c.units[begin:]
        unit = units[1]
        put(unit, offset, form, change(struct.unpack_from(form, unit.body, offset)[0]))
        del c.units[c.units.index(unit) + 1:]
        return unit
    return make


# A loss before it leaves a hole where the segment of another STag would have been.
Row("write_stag_changes", write_parts(2, ">I", lambda old: old ^ 0x100), "ddp.write-place", ANY, beside=AHEAD, **SHORT)
Row("write_to_wraps", field(6, ">Q", 2**64 - 10, say=a_write), "ddp.to-wrap", (0x11, 3))
