# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Octets of MPA connections and captures of them, for tests of what reads captures.

Made without any code of Parley or of Wireshark, so that it can be evidence against both. Everything is deterministic.
"""
import ipaddress
import struct

INITIATOR, RESPONDER = 0, 1
REQ, REP = b"MPA ID Req Frame", b"MPA ID Rep Frame"
RTR_TEXT, RTR_HEX = b"MPA ID Rtr Frame", b"MPA ID RtR Frame"  # OFA 2007-10 Rtr §1: its text and its octets differ
M, C, R, S = 0x80, 0x40, 0x20, 0x10
FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10


# --- CRC32c, RFC 5044 §4.4 ---------------------------------------------------------------------------------
def _table():
    for octet in range(256):
        for _ in range(8):
            octet = octet >> 1 ^ (0x82F63B78 if octet & 1 else 0)
        yield octet


TABLE = tuple(_table())


def crc32c(octets):
    value = 0xFFFFFFFF
    for octet in octets:
        value = value >> 8 ^ TABLE[(value ^ octet) & 0xFF]
    return struct.pack("<I", value ^ 0xFFFFFFFF)


assert crc32c(b"123456789") == bytes.fromhex("839206e3")


# --- MPA ---------------------------------------------------------------------------------------------------
def startup(key, flags, revision, private=b"", length=None):
    """RFC 5044 §7.1.1."""
    return key + struct.pack(">BBH", flags, revision, len(private) if length is None else length) + private


def enhanced(ird, ord_, kinds=""):
    """RFC 6581 §6: the two words; kinds names the bits, of "ABCD"."""
    ird |= 0x8000 * ("A" in kinds) | 0x4000 * ("B" in kinds)
    ord_ |= 0x8000 * ("C" in kinds) | 0x4000 * ("D" in kinds)
    return struct.pack(">HH", ird, ord_)


class Framer:
    """The FPDU stream of one direction: RFC 5044 §4. Position 0 is the first octet after the startup frames."""

    def __init__(self, crc=True, markers=False, filler=bytes(4)):
        self.crc, self.markers, self.position, self.filler = crc, markers, 0, filler
        self.made = []  # the length of each ULPDU

    def fpdu(self, ulpdu, pad=b"\0\0\0", damage_crc=0, length=None, crc=None, **markers):
        """`filler` stands where the CRC does if there is none: any value will do (RFC 5044 §4.4)."""
        self.made += [len(ulpdu)] if ulpdu else []  # RFC 5044 §3: a ULPDU has an octet at least
        octets = struct.pack(">H", len(ulpdu) if length is None else length) + ulpdu
        octets += pad[:-len(octets) % 4]
        out = self.marked(octets, **markers) if self.markers else octets
        self.position += 0 if self.markers else len(octets) + 4
        check = crc or (crc32c(out) if self.crc else self.filler)
        return out + bytes([check[0] ^ damage_crc]) + check[1:]

    def marked(self, octets, damage_pointer=0, reserved=0, omit=False):
        """RFC 5044 §4.3: the FPDU up to its CRC with the markers that fall into it; `omit` leaves the first one out."""
        words = [octets[i:i + 4] for i in range(0, len(octets), 4)]
        out, header = b"", None
        for word in words + [None]:  # None: the place of the CRC, before which a marker may fall
            if self.position % 512 == 0 and not omit:
                pointer = 0 if header is None else self.position - header
                out += struct.pack(">HH", reserved, pointer + damage_pointer)
                self.position += 4
            elif self.position % 512 == 0:
                omit = False
            if header is None:
                header = self.position
            if word is not None:
                out += word
            self.position += 4
        return out


# --- DDP and RDMAP -----------------------------------------------------------------------------------------
def untagged(opcode, queue, msn, payload=b"", offset=0, last=True, reserved=0, ddp=1, rdmap=1):
    """RFC 5041 §4.3."""
    return struct.pack(">BBIIII", 0x40 * last | ddp, rdmap << 6 | opcode, reserved, queue, msn, offset) + payload


def tagged(opcode, stag, offset, payload=b"", last=True):
    """RFC 5041 §4.2."""
    return struct.pack(">BBIQ", 0x80 | 0x40 * last | 1, 0x40 | opcode, stag, offset) + payload


def send(msn, payload=b"", opcode=3, **more):
    return untagged(opcode, 0, msn, payload, **more)


def write(stag, offset, payload=b"", **more):
    return tagged(0, stag, offset, payload, **more)


def read_request(msn, size, sink=(0, 0), source=(1, 0)):
    """RFC 5040 §4.4."""
    return untagged(1, 1, msn, struct.pack(">IQIIQ", *sink, size, *source))


def read_response(stag, offset, payload=b"", **more):
    return tagged(2, stag, offset, payload, **more)


def terminate(layer_and_type, code, header_bits=0, rest=b""):
    """RFC 5040 §4.8; the first octet and the bits as they shall stand on the wire."""
    return untagged(7, 2, 1, struct.pack(">BBBB", layer_and_type, code, header_bits, 0) + rest)


def immediate(msn, data, opcode=8):
    """RFC 7306 §6."""
    return untagged(opcode, 0, msn, data)


def atomic_request(msn, operation, request, stag, offset, data, compare=0, swap_mask=2**64 - 1, compare_mask=2**64 - 1):
    """RFC 7306 §5.1."""
    return untagged(0xA, 1, msn, struct.pack(">IIIQQQQQ", operation, request, stag, offset, data, swap_mask, compare,
                                             compare_mask))


def atomic_response(msn, request, value):
    return untagged(0xB, 3, msn, struct.pack(">IQ", request, value))


def pattern(length, start=0):
    return bytes((start + i) & 0xFF for i in range(length))


# --- TCP, IP, Ethernet -------------------------------------------------------------------------------------
def checksum(octets):
    """RFC 1071."""
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets[:len(octets) & ~1]))
    total += octets[-1] << 8 if len(octets) % 2 else 0
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(side, source, target, tcp, octets, identification=0, tags=()):
    """An Ethernet frame from address to address (packed: IPv4 or IPv6); the checksum of `tcp` is filled in. `tags`: VLANs."""
    length = len(tcp) + len(octets)
    sum_ = checksum(source + target + struct.pack(">IHH", length, 0, 6) + tcp + octets)
    tcp = tcp[:16] + struct.pack(">H", sum_) + tcp[18:]
    ethernet = b"\2\0\0\0\0" + bytes([2 - side]) + b"\2\0\0\0\0" + bytes([1 + side])
    ethernet += b"".join(struct.pack(">HH", 0x88A8 if tag != tags[-1] else 0x8100, tag) for tag in tags)
    if len(source) == 16:
        ip = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source + target
        return ethernet + b"\x86\xdd" + ip + tcp + octets
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, identification, 0x4000, 64, 6, 0) + source + target
    ip = ip[:10] + struct.pack(">H", checksum(ip)) + ip[12:]
    return ethernet + b"\x08\x00" + ip + tcp + octets


class Capture:
    """Ethernet frames with their times in microseconds."""

    def __init__(self):
        self.frames, self.now, self.connections = [], 1_200_000_000_000_000, []

    def wait(self, microseconds):
        self.now += microseconds

    def add(self, frame):
        self.frames.append((self.now, frame))
        self.now += 10

    def connect(self, **options):
        self.connections.append(Connection(self, len(self.connections) + 1, **options))
        return self.connections[-1]

    def ulpdus(self):
        """The lengths of all ULPDUs that are in the capture from their first octet to their last."""
        framers = (framer for connection in self.connections for framer in connection.framer)
        return sorted(length for framer in framers for length in framer.made)

    def octets(self, snap=65535):
        """A classic pcap file: the format that every tool has read for thirty years. `snap`: octets of each frame."""
        out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snap, 1)]
        for time, frame in self.frames:
            out.append(struct.pack("<IIII", *divmod(time, 1_000_000), min(len(frame), snap), len(frame)))
            out.append(frame[:snap])
        return b"".join(out)


class Connection:
    """One TCP connection in a Capture. A segment is written with send(); its number comes from what went before."""

    def __init__(self, capture, number, ports=None, first_numbers=(1000, 5000), v6=False):
        net = "2001:db8::" if v6 else "192.0.2."
        self.capture, self.v6 = capture, v6
        self.address = [ipaddress.ip_address(net + last) for last in ("1", "2")]
        self.port = ports or (40000 + number, 7471)  # rping's port, which no other dissector claims
        self.next = list(first_numbers)
        self.framer = [Framer(), Framer()]
        self.options = b""  # of TCP, whole words
        self.identification = 0

    def handshake(self):
        self.segment(INITIATOR, b"", SYN)
        self.segment(RESPONDER, b"", SYN | ACK)
        self.segment(INITIATOR, b"", ACK)
        return self

    def set_up(self, request, reply, crc=True, markers=(False, False)):
        """Both startup frames; markers by who sends the FPDUs."""
        self.handshake()
        self.start(request, reply, crc, markers)
        return self

    def start(self, request, reply, crc=True, markers=(False, False)):
        self.send(INITIATOR, request)
        self.send(RESPONDER, reply)
        self.framer = [Framer(crc, markers[INITIATOR]), Framer(crc, markers[RESPONDER])]

    def fpdu(self, side, ulpdu, cuts=(), **damage):
        """One FPDU in a segment of its own, or cut behind the given octets."""
        self.send(side, self.framer[side].fpdu(ulpdu, **damage), cuts)

    def fpdus(self, side, *ulpdus, cuts=()):
        """Several FPDUs in one segment."""
        self.send(side, b"".join(self.framer[side].fpdu(ulpdu) for ulpdu in ulpdus), cuts)

    def send(self, side, octets, cuts=()):
        for begin, end in zip((0, *cuts), (*cuts, len(octets))):
            self.segment(side, octets[begin:end], PSH | ACK)

    def ack(self, side):
        self.segment(side, b"", ACK)

    def close(self, side=INITIATOR):
        self.segment(side, b"", FIN | ACK)
        self.segment(1 - side, b"", FIN | ACK)
        self.ack(side)

    def skip(self, side, octets):
        """Octets of the last FPDU made that went over the wire and did not get into the capture."""
        self.framer[side].made.pop()
        self.next[side] = self.next[side] + len(octets) & 0xFFFFFFFF

    def skip_octets(self, side, count):
        """Octets that went over the wire and did not get into the capture."""
        self.next[side] = self.next[side] + count & 0xFFFFFFFF

    def segment(self, side, octets, flags, number=None):
        """One TCP segment. With a number it is a repetition, or one out of its place, and moves nothing."""
        own = self.next[side] if number is None else number
        acknowledged = self.next[1 - side] if flags & ACK else 0
        header = struct.pack(">HHIIBBHHH", self.port[side], self.port[1 - side], own & 0xFFFFFFFF, acknowledged,
                             5 + len(self.options) // 4 << 4, flags, 0xFFFF, 0, 0) + self.options
        self.capture.add(self.packet(side, header, octets))
        if number is None:
            self.next[side] = own + len(octets) + bool(flags & (SYN | FIN)) & 0xFFFFFFFF

    def packet(self, side, tcp, octets):
        source, target = self.address[side].packed, self.address[1 - side].packed
        self.identification += not self.v6
        return packet(side, source, target, tcp, octets, self.identification)
