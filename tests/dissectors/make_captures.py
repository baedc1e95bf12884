#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Writes tests/dissectors/captures: one function for each file, whose name and first words it has.

    make_captures.py            write them
    make_captures.py --check    fail if a file differs from what would be written
"""
import struct
import sys
from pathlib import Path

from wire import (ACK, C, FIN, INITIATOR, M, PSH, R, REP, REQ, RESPONDER, RTR_HEX, RTR_TEXT, S, Capture, atomic_request,
                  atomic_response, enhanced, immediate, pattern, read_request, read_response, send, startup, tagged,
                  terminate, untagged, write)

FOLDER = Path(__file__).resolve().parent / "captures"
CAPTURES = {}

V1 = startup(REQ, C, 1), startup(REP, C, 1)
MARKED = startup(REQ, M | C, 1), startup(REP, M | C, 1)
BOTH = (True, True)


def capture(function):
    CAPTURES[function.__name__] = function
    return function


def v2(kinds, ird=8, ord_=8, answer=None, private=b""):
    """Request and Reply of revision 2."""
    answer = kinds if answer is None else answer
    return (startup(REQ, C | S, 2, enhanced(ird, ord_, kinds) + private),
            startup(REP, C | S, 2, enhanced(ord_, ird, answer)))


@capture
def enhanced_data(c):
    """Enhanced data of RFC 6581: A to D, IRD, ORD, 16383 for "not negotiated"; a Reply with reserved bits."""
    a = c.connect().set_up(*v2("ACD", 16, 4, answer="AD", private=b"hello"))
    a.fpdu(INITIATOR, read_request(1, 0))
    a.fpdu(RESPONDER, read_response(0, 0))
    b = c.connect().set_up(*v2("AB", 0x3FFF, 0x3FFF))
    b.fpdu(INITIATOR, send(1))
    d = c.connect().set_up(startup(REQ, C | S, 2, enhanced(1, 1)), startup(REP, C | S | 0x0F, 2, enhanced(1, 1)))
    d.fpdu(INITIATOR, send(1, b"first word"))


@capture
def rtr_frame(c):
    """The Rtr frame of 2007 in both spellings, alone and with an FPDU in its segment."""
    for key in RTR_TEXT, RTR_HEX:
        a = c.connect().set_up(startup(REQ, C | S, 1), startup(REP, C | S, 1))
        a.send(INITIATOR, startup(key, C, 1))
        a.fpdu(RESPONDER, send(1, b"the responder speaks first"))
        a.fpdu(INITIATOR, send(1, b"and the initiator answers"))
    a = c.connect().set_up(startup(REQ, M | C | S, 1), startup(REP, M | C | S, 1), markers=BOTH)
    a.send(INITIATOR, startup(RTR_TEXT, C, 1) + a.framer[INITIATOR].fpdu(send(1, b"glued to the Rtr frame")))
    a.fpdu(RESPONDER, send(1, b"got both"))


@capture
def rtr_fpdu(c):
    """Zero-length Send, Write and Read as RTR; what was not agreed; a responder that does not wait."""
    for kinds, rtr in ("AB", send(1)), ("AC", write(1, 0)), ("AD", read_request(1, 0)):
        a = c.connect().set_up(*v2(kinds))
        a.fpdu(INITIATOR, rtr)
        if kinds == "AD":
            a.fpdu(RESPONDER, read_response(0, 0))
        a.fpdu(RESPONDER, send(1, b"after the RTR"))
    agreed_read = c.connect().set_up(*v2("ACD", answer="AD"))
    agreed_read.fpdu(INITIATOR, write(1, 0))  # not the one that was agreed: RFC 6581 §9.2
    no_rtr = c.connect().set_up(*v2("AD"))
    no_rtr.fpdu(INITIATOR, send(1, b"a message in the RTR's place"))
    speaks_first = c.connect().set_up(*V1)
    speaks_first.fpdu(RESPONDER, send(1, b"too early"))  # RFC 5044 §7.1.2 rule 4
    speaks_first.fpdu(INITIATOR, send(1, b"late"))


@capture
def markers_one_direction(c):
    """Markers in one direction only: first from the responder, then from the initiator."""
    for request_m, reply_m in (M, 0), (0, M):
        a = c.connect().set_up(startup(REQ, request_m | C, 1), startup(REP, reply_m | C, 1),
                               markers=(bool(reply_m), bool(request_m)))
        for side in INITIATOR, RESPONDER:
            a.fpdu(side, send(1, pattern(200)))
            a.fpdu(side, send(2, pattern(700)))


@capture
def markers_several_in_fpdu(c):
    """FPDUs of 1200 octets with two and three markers each."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    for number in 1, 2:
        a.fpdu(INITIATOR, write(0x1111, 0x4000 * number, pattern(1200)))
    a.fpdu(INITIATOR, send(1, pattern(1200, 7)))


@capture
def markers_many_fpdus_in_segment(c):
    """Six FPDUs with markers in one segment."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    a.fpdus(INITIATOR, *(send(msn, pattern(80 * msn)) for msn in range(1, 7)))


@capture
def markers_split(c):
    """An FPDU with markers over three segments, cut in its length, in a marker and in its CRC."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    a.fpdu(INITIATOR, send(1, pattern(1300)), cuts=(400, 900))
    octets = a.framer[INITIATOR].fpdu(send(2, pattern(1000)))
    a.send(INITIATOR, octets, cuts=(1, 153, len(octets) - 2))
    a.fpdus(INITIATOR, send(3, pattern(100)), send(4, pattern(500)), cuts=(130, 131))


@capture
def markers_at_borders(c):
    """A marker between two FPDUs, which belongs to the second, and one between pad and CRC."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    for msn, length in (1, 484), (2, 488), (3, 16), (4, 1300):  # as in tests/vectors/mpa_markers_crc.txt
        a.fpdu(INITIATOR, send(msn, pattern(length)))


@capture
def markers_wrap(c):
    """Sequence numbers that wrap within an FPDU with markers, and within a marker."""
    for first in 0xFFFFFC00, 0x100000000 - 20 - 1 - 512 - 2:
        a = c.connect(first_numbers=(first, 5000)).set_up(*MARKED, markers=BOTH)
        for msn in range(1, 5):
            a.fpdu(INITIATOR, send(msn, pattern(600)))


@capture
def markers_wrong_pointer(c):
    """An FPDUPTR that is four too high, under a good CRC; then one with its two low bits set, which count as 0."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    a.fpdu(INITIATOR, send(1, pattern(700)))
    a.fpdu(INITIATOR, send(2, pattern(700)), damage_pointer=4)
    a.fpdu(RESPONDER, terminate(0x20, 3))
    b = c.connect().set_up(*MARKED, markers=BOTH)
    b.fpdu(INITIATOR, send(1, pattern(400)))
    b.fpdu(INITIATOR, send(2, pattern(100)), damage_pointer=3)


@capture
def markers_first_lost(c):
    """The first FPDU is not in the capture: markers count from the end of the startup frame all the same."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    a.skip(INITIATOR, a.framer[INITIATOR].fpdu(send(1, pattern(300))))
    for msn in range(2, 8):
        a.fpdu(INITIATOR, send(msn, pattern(300)))
    for msn in range(1, 21):  # the responder acknowledges what the capture lacks
        a.fpdu(RESPONDER, send(msn, pattern(4)))


@capture
def equal_ports(c):
    """Source and destination have the same port."""
    a = c.connect(ports=(7471, 7471)).set_up(startup(REQ, M | C, 1), startup(REP, C, 1), markers=(False, True))
    a.fpdu(INITIATOR, read_request(1, 600, sink=(0xAA, 0x100), source=(0xBB, 0x200)))
    a.fpdu(RESPONDER, read_response(0xAA, 0x100, pattern(600)))


@capture
def reply_with_fpdu(c):
    """An FPDU in the segment of the Reply, which a responder may not send; a Reply cut in its key."""
    a = c.connect().handshake()
    a.send(INITIATOR, V1[0])
    a.send(RESPONDER, V1[1] + a.framer[RESPONDER].fpdu(send(1, b"glued to the Reply")))
    a.fpdu(INITIATOR, send(1, b"an answer"))
    b = c.connect().handshake()
    b.send(INITIATOR, V1[0], cuts=(3, 17))
    b.send(RESPONDER, V1[1], cuts=(9,))
    b.fpdu(INITIATOR, send(1, b"after frames in pieces"))


@capture
def port_of_another(c):
    """Port 4420, which NVMe over TCP claims and NVMe over RDMA uses as well."""
    a = c.connect(ports=(40001, 4420)).set_up(*v2("AD"))
    a.fpdu(INITIATOR, read_request(1, 0))
    a.fpdu(RESPONDER, read_response(0, 0))
    a.fpdu(INITIATOR, send(1, pattern(64)))


@capture
def mid_stream(c):
    """A capture that starts among FPDUs: no SYN, no startup frames; first without markers, then with."""
    for markers in False, True:
        a = c.connect()
        for framer in a.framer:
            framer.markers, framer.position = markers, 4096 - 1024
        for msn in range(5, 9):
            a.fpdu(INITIATOR, write(0x77, 0x1000 * msn, pattern(600)))
            a.fpdu(INITIATOR, send(msn, pattern(90)))
            a.fpdu(RESPONDER, send(msn, pattern(40)))


@capture
def mid_fpdu(c):
    """A capture that starts within an FPDU without markers."""
    a = c.connect()
    octets = a.framer[INITIATOR].fpdu(send(5, pattern(1000)))
    a.skip(INITIATOR, octets[:300])
    a.send(INITIATOR, octets[300:])
    for msn in range(6, 12):
        a.fpdu(INITIATOR, send(msn, pattern(100)))
    a.fpdu(RESPONDER, send(9, pattern(40)))


@capture
def out_of_order(c):
    """Segments out of order, one repeated, one repeated in part together with new octets."""
    a = c.connect().set_up(*MARKED, markers=BOTH)
    fpdus = [a.framer[INITIATOR].fpdu(send(msn, pattern(500, msn))) for msn in range(1, 6)]
    numbers = [a.next[INITIATOR]]
    for octets in fpdus:
        numbers.append(numbers[-1] + len(octets))
    for index in 0, 2, 1, 1, 3:
        a.segment(INITIATOR, fpdus[index], PSH | ACK, numbers[index])
    a.segment(INITIATOR, fpdus[3][200:] + fpdus[4], PSH | ACK, numbers[3] + 200)
    a.next[INITIATOR] = numbers[-1]
    a.fpdu(RESPONDER, send(1, b"all five came"))
    a.close()


@capture
def reply_lost_and_repeated(c):
    """The Request is repeated, and the Reply comes twice."""
    a = c.connect().handshake()
    first = list(a.next)
    a.send(INITIATOR, V1[0])
    c.wait(200_000)
    a.segment(INITIATOR, V1[0], PSH | ACK, first[INITIATOR])
    a.send(RESPONDER, V1[1])
    c.wait(200_000)
    a.segment(RESPONDER, V1[1], PSH | ACK, first[RESPONDER])
    a.fpdu(INITIATOR, send(1, b"at last"))


@capture
def bad_crc(c):
    """A CRC that is wrong, a good FPDU behind it in the segment, and the Terminate; then CRCs that are off and zero."""
    a = c.connect().set_up(*V1)
    a.fpdu(INITIATOR, send(1, b"good"))
    octets = a.framer[INITIATOR].fpdu(send(2, b"bad"), damage_crc=0x40) + a.framer[INITIATOR].fpdu(send(3, b"good"))
    a.send(INITIATOR, octets)
    a.fpdu(RESPONDER, terminate(0x20, 2))
    b = c.connect().set_up(startup(REQ, 0, 1), startup(REP, 0, 1), crc=False)
    b.fpdu(INITIATOR, send(1, b"no CRC wanted"))


@capture
def short_sends(c):
    """Sends of 0 to 8 octets, which are nobody's RPC."""
    a = c.connect().set_up(*V1)
    for length in range(9):
        a.fpdu(INITIATOR, send(length + 1, pattern(length)))


@capture
def two_sends_in_segment(c):
    """Two messages of two segments each in one TCP segment: each keeps its own payload."""
    a = c.connect().set_up(*V1)
    a.fpdus(INITIATOR, send(1, b"one: first half, ", last=False), send(1, b"one: second half", offset=17),
            send(2, b"two: first half, ", last=False), send(2, b"two: second half", offset=17))
    a.fpdus(INITIATOR, send(3, b"three alone"), send(4, b"four alone"))


@capture
def terminates(c):
    """A Terminate of each kind: RFC, siw's swapped octets, type 3 of Chelsio and Intel, M without D."""
    read, message, put = read_request(1, 64, source=(0xBAD, 0)), send(1, b"something wrong"), write(0xBAD, 0, pattern(64))
    quoted_read = struct.pack(">H", len(read)) + read
    quoted_message = struct.pack(">H", len(message)) + message[:18]
    quoted_write = struct.pack(">H", len(put)) + put[:14]
    for cause, *octets in (
            (read, 0x01, 0x00, 0xE0, quoted_read), (put, 0x11, 0x01, 0xC0, quoted_write),
            (message, 0x12, 0x01, 0xC0, quoted_message), (message, 0x02, 0x06, 0x40, message[:18]),
            (message, 0x12, 0x05, 0x80, quoted_message[:2]), (message, 0x20, 0x02), (message, 0x20, 0x07), (message, 0x23, 0x02),
            (message, 0x02, 0x02), (message, 0x20, 0x05, 0x03, quoted_message), (read, 0x10, 0x00, 0x07, quoted_read),
            (read, 0x01, 0x00, 0xE0, quoted_read[:20])):
        a = c.connect().set_up(*V1)
        a.fpdu(INITIATOR, cause)
        a.fpdu(RESPONDER, terminate(*octets))


@capture
def immediate_and_atomic(c):
    """Immediate Data of 8 octets and of 7, with Solicited Event; FetchAdd and CmpSwap with their responses."""
    a = c.connect().set_up(*v2("", 8, 8))
    a.fpdu(INITIATOR, immediate(1, b"8 octets"))
    a.fpdu(INITIATOR, immediate(2, b"solicit!", opcode=9))
    a.fpdu(INITIATOR, atomic_request(1, 0, 0x51, 0xAB, 0x1000, 5, 0, 0))
    c.wait(150)
    a.fpdu(RESPONDER, atomic_response(1, 0x51, 37))
    a.fpdu(INITIATOR, atomic_request(2, 2, 0x52, 0xAB, 0x1008, 9, 42))
    c.wait(250)
    a.fpdu(RESPONDER, atomic_response(2, 0x52, 42))
    a.fpdu(INITIATOR, immediate(3, b"7 octet"))


@capture
def numbering(c):
    """MSN that leaps, MO that leaves a hole, a TO that goes back, and the MSN's wrap."""
    a = c.connect().set_up(*V1)
    a.fpdu(INITIATOR, send(1, b"as it should be"))
    a.fpdu(INITIATOR, send(3, b"where is 2?"))
    b = c.connect().set_up(*V1)
    b.fpdu(INITIATOR, send(1, b"0123456789", last=False))
    b.fpdu(INITIATOR, send(1, b"a hole before this", offset=20))
    d = c.connect().set_up(*V1)
    d.fpdu(INITIATOR, write(7, 0x100, pattern(64), last=False))
    d.fpdu(INITIATOR, write(7, 0x120, pattern(64)))
    e = c.connect()
    for msn in 0xFFFFFFFE, 0xFFFFFFFF, 0, 1:
        e.fpdu(INITIATOR, send(msn, pattern(40)))
        e.fpdu(RESPONDER, send(msn, pattern(40)))


@capture
def reads(c):
    """Reads and their responses, after 100, 200 and 300 us; one of three segments; then one more than ORD allows."""
    a = c.connect().set_up(*v2("", ird=8, ord_=2))
    a.fpdu(INITIATOR, read_request(1, 64, sink=(0x10, 0), source=(0x20, 0)))
    c.wait(100)
    a.fpdu(RESPONDER, read_response(0x10, 0, pattern(64)))
    a.fpdus(INITIATOR, read_request(2, 300, sink=(0x10, 0x100), source=(0x20, 0x100)),
            read_request(3, 32, sink=(0x10, 0x800), source=(0x20, 0x800)))
    c.wait(200)
    for offset in 0, 100, 200:
        a.fpdu(RESPONDER, read_response(0x10, 0x100 + offset, pattern(100, offset), last=offset == 200))
    c.wait(100)
    a.fpdu(RESPONDER, read_response(0x10, 0x800, pattern(32)))
    a.fpdus(INITIATOR, *(read_request(msn, 16, sink=(0x10, 16 * msn)) for msn in (4, 5, 6)))  # ORD is 2
    for msn in 4, 5, 6:
        a.fpdu(RESPONDER, read_response(0x10, 16 * msn, pattern(16)))


@capture
def send_in_segments(c):
    """A Send of three segments, which is no SMB Direct; a Write between them."""
    a = c.connect().set_up(*V1)
    a.fpdu(INITIATOR, send(1, pattern(1000), last=False))
    a.fpdu(INITIATOR, write(9, 0, pattern(50)))
    a.fpdu(INITIATOR, send(1, pattern(1000, 1000 % 256), offset=1000, last=False))
    a.fpdu(INITIATOR, send(1, pattern(500, 2000 % 256), offset=2000))


@capture
def reject_then_second_request(c):
    """A Request with M is rejected; the second one on the connection asks for no markers and no CRC."""
    a = c.connect().handshake()
    a.send(INITIATOR, startup(REQ, M | C, 1, b"please"))
    a.send(RESPONDER, startup(REP, C | R, 1, b"no markers here"))
    a.start(startup(REQ, 0, 1), startup(REP, 0, 1), crc=False)
    a.fpdu(INITIATOR, send(1, pattern(900)))
    a.fpdu(RESPONDER, send(1, pattern(900)))
    a.close()


@capture
def private_data(c):
    """What ULPs put there: SMB Direct's IRD and ORD in both octet orders, also behind enhanced data; NVMe over RDMA."""
    for port, order in (40100, ">II"), (40200, "<II"):
        words = struct.pack(order, 16, 32)
        a = c.connect(ports=(port, 5445)).set_up(startup(REQ, C, 1, words), startup(REP, C, 1, words))
        a.fpdu(INITIATOR, send(1, pattern(20)))
        b = c.connect(ports=(port + 1, 5445)).set_up(startup(REQ, C | S, 2, enhanced(16, 32) + words),
                                                 startup(REP, C | S, 2, enhanced(16, 32) + words))
        b.fpdu(INITIATOR, send(1, pattern(20)))
    request = struct.pack("<HHHHH", 0, 1, 128, 127, 1) + bytes(22)  # recfmt qid hrqsize hsqsize cntlid
    reply = struct.pack("<HH", 0, 128) + bytes(28)                  # recfmt crqsize
    d = c.connect(ports=(40300, 4420))
    d.set_up(startup(REQ, C | S, 2, enhanced(16, 16) + request), startup(REP, C | S, 2, enhanced(16, 16) + reply))
    d.fpdu(INITIATOR, send(1, pattern(64)))
    e = c.connect(ports=(40301, 4420))
    e.set_up(startup(REQ, C | S, 2, enhanced(16, 16) + request),
             startup(REP, C | R | S, 2, enhanced(0, 0) + struct.pack("<HH", 0, 6)))
    e.close(RESPONDER)


@capture
def bad_startup(c):
    """Startup frames against the rules: PD_Length 513, revision 3, PD_Length 2 with S, two Requests, other revisions."""
    for request, reply in ((startup(REQ, C, 1, bytes(513)), b""), (startup(REQ, C, 3), b""),
                           (startup(REQ, C | S, 2, b"ab"), startup(REP, C | S | R, 2)), (V1[0], V1[0]),
                           (startup(REQ, C | S, 2, enhanced(1, 1)), startup(REP, C, 1)),
                           (startup(REQ, C | R, 1), startup(REP, C, 1))):
        a = c.connect().handshake()
        a.send(INITIATOR, request)
        if reply:
            a.send(RESPONDER, reply)
        a.close(RESPONDER)


@capture
def bad_headers(c):
    """DDP and RDMAP against the rules: versions, opcode 15, T bit, queue number, ULPDU too short, length 0."""
    for ulpdu in (send(1, b"dv 0", ddp=0), send(1, b"rv 0", rdmap=0), untagged(15, 0, 1, b"op F"),
                  tagged(3, 1, 0, b"tagged Send"),
                  untagged(0, 0, 1, b"untagged Write"), untagged(3, 5, 1, b"QN 5"), send(1)[:10], b"", b"\x41"):
        a = c.connect().set_up(*V1)
        a.fpdu(INITIATOR, ulpdu)
        a.fpdu(INITIATOR, send(1, b"behind it"))


@capture
def ipv6(c):
    """IPv6, markers, and a Read."""
    a = c.connect(v6=True).set_up(*MARKED, markers=BOTH)
    a.fpdu(INITIATOR, read_request(1, 700, sink=(3, 0), source=(4, 0)))
    a.fpdu(RESPONDER, read_response(3, 0, pattern(700)))
    a.close()


@capture
def not_mpa(c):
    """Connections that are not MPA: HTTP, the words of a key within text, keys cut off, other octets."""
    for octets in (b"GET / HTTP/1.1\r\n\r\n", b"about MPA ID Req Frame and such", REQ[:15], b"MPA ID R",
                   b"MPA ID Xxx Frame" + bytes(4), bytes(1000), pattern(1400)):
        a = c.connect().handshake()
        a.send(INITIATOR, octets)
        a.send(RESPONDER, octets[::-1])
        a.segment(INITIATOR, b"", FIN | ACK)


def made(name):
    c = Capture()
    CAPTURES[name](c)
    return c


def main(arguments):
    stale = []
    FOLDER.mkdir(exist_ok=True)
    for name in CAPTURES:
        path, octets = FOLDER / f"{name}.pcap", made(name).octets()
        if arguments == ["--check"]:
            if not path.exists() or path.read_bytes() != octets:
                stale.append(path.name)
        else:
            path.write_bytes(octets)
    if arguments == ["--check"]:
        stale += [path.name for path in FOLDER.glob("*.pcap") if path.stem not in CAPTURES]
    for name in stale:
        print(f"{name}: not what make_captures.py writes", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
