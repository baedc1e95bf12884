# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A conversation's units as TCP segments, cut, packed and acknowledged in any way that TCP permits, and as frames."""
import ipaddress
import random
import struct

import wire
from wire import ACK, FIN, INITIATOR, PSH, RESPONDER, RST, SYN


class Segment:
    """`begin`: in the octets of its side; SYN stands at -1."""

    __slots__ = ("side", "begin", "octets", "flags", "acks", "cap", "again")

    def __init__(self, side, begin, octets, flags, acks):
        self.side, self.begin, self.octets, self.flags, self.acks = side, begin, octets, flags, acks
        self.cap = None  # octets of the frame that are captured
        self.again = False

    @property
    def end(self):
        return self.begin + len(self.octets)

    def copy(self):
        other = Segment(self.side, self.begin, self.octets, self.flags, self.acks)
        other.cap, other.again = self.cap, self.again
        return other


class Layout:
    """The segments of one TCP connection, as they pass the place of the capture."""

    def __init__(self, conversation, seed, number, before=None):
        """`before`: the connection after which this one uses the same ports again."""
        draw = self.draw = random.Random(f"layout {seed}")
        self.conversation, self.number = conversation, number
        self.segments = []
        self.streams = [bytearray(), bytearray()]
        self.sent = [0, 0]  # octets that stand in segments
        self.seen = [-1, -1]  # of the other side's octets, by the acknowledgments of this side
        self.finished = [False, False]
        self.pushed = [0, 0]  # up to here nothing may wait for more
        self.way = draw.choice(["aligned", "aligned", "packed", "ragged", "offload"])
        self.mss = draw.choice({"ragged": [1460, 536, 100, 37]}.get(self.way, [1460, 1460, 1440, 536, 8960]))
        self.most = draw.choice([20000, 60000]) if self.way == "offload" else self.mss  # a NIC cuts them later
        self.padded = draw.random() < 0.5  # Ethernet's shortest frame
        self.lag = draw.choice([0.0, 0.3, 0.8])
        self.frame()
        self.address(draw)
        if before:
            self.hosts, self.ports, self.v6 = before.hosts, before.ports, before.v6
            self.first = [number + 100_000 + draw.getrandbits(20) for number in before.first]  # RFC 9293 §3.4.1
        self.lay_out()

    def address(self, draw):
        number = self.number
        self.v6 = draw.random() < 0.3
        self.tags = draw.choice([(), (), (), (7,), (100, 7)])
        self.options = draw.choice([b"", b"", b"\1\1\x08\x0a" + draw.randbytes(8)])
        net = ("2001:db8:1::", "2001:db8:2::") if self.v6 else ("10.0.0.0", "172.16.0.0")
        self.hosts = [ipaddress.ip_address(int(ipaddress.ip_address(text)) + number + 1) for text in net]
        ports = (draw.randint(40000, 60000), draw.choice([7471, 9001, draw.randint(30000, 39000)]))
        if draw.random() < 0.05:
            ports = (ports[1], ports[1])
        self.ports = ports
        self.first = [draw.choice([1000, draw.getrandbits(32), 2**32 - draw.randint(1, 3000)]) for _ in range(2)]

    def names(self):
        """As readers write the two ends."""
        return [f"[{host}]:{port}" if self.v6 else f"{host}:{port}" for host, port in zip(self.hosts, self.ports)]

    def frame(self):
        """The octets of all units: RFC 5044 §4."""
        c = self.conversation
        framer = [wire.Framer(c.crc, c.inserts[side], c.filler) for side in (INITIATOR, RESPONDER)]
        for unit in c.units:
            stream = self.streams[unit.side]
            unit.begin = len(stream)
            stream += framer[unit.side].fpdu(unit.body, **unit.damage) if unit.kind == "fpdu" else unit.body
            unit.end = len(stream)

    # --- segments ----------------------------------------------------------------------------------------
    def lay_out(self):
        draw = self.draw
        self.put(INITIATOR, -1, b"", SYN)
        self.seen = [0, 0]
        self.put(RESPONDER, -1, b"", SYN | ACK)
        if self.conversation.draw.random() < 0.95:
            self.put(INITIATOR, 0, b"", ACK)
        waiting = [0, 0]  # the end of what has been said by each side
        for unit in self.conversation.units:
            side = unit.side
            for need in unit.needs:
                if need.side == side:
                    continue
                due = need.end + (need.kind == "fin")
                self.flush(1 - side, waiting[1 - side], waiting[1 - side])
                if due > self.seen[side] and self.sent[side] < waiting[side]:
                    self.flush(side, waiting[side], waiting[side])  # what was said before does not know of it
                self.seen[side] = max(self.seen[side], due)
            if unit.kind in ("fin", "rst"):
                self.end(side, unit, waiting[side], waiting[1 - side])
                continue
            waiting[side] = unit.end
            if unit.glued:
                continue
            if unit.kind in ("request", "reply") or unit.apart:
                self.flush(side, unit.begin, unit.begin)
                self.flush(side, unit.end, unit.end, unit.kind != "fpdu" and draw.random() < 0.15)
            elif self.way == "aligned":
                self.flush(side, unit.end, unit.end)
            elif self.way in ("packed", "offload") and draw.random() < 0.6:
                self.flush(side, unit.end, unit.end)
            elif self.way == "ragged" and draw.random() < 0.7:
                self.flush(side, draw.randint(self.sent[side], unit.end), unit.end, True)
        for side in (INITIATOR, RESPONDER):
            if not self.finished[side]:
                self.flush(side, waiting[side], waiting[side])

    def end(self, side, unit, upto, others):
        draw = self.draw
        if unit.kind == "rst":
            self.flush(1 - side, others, others)
            self.flush(side, upto, upto)
            self.put(side, self.sent[side], b"", draw.choice([RST, RST | ACK]))
            self.finished = [True, True]
            return
        if draw.random() < 0.3 and self.sent[side] < upto <= self.sent[side] + self.most:
            octets = bytes(self.streams[side][self.sent[side]:upto])
            self.put(side, self.sent[side], octets, FIN | ACK | PSH)
        else:
            self.flush(side, upto, upto)
            self.put(side, upto, b"", FIN | ACK)
        self.sent[side] = upto + 1
        self.finished[side] = True
        if draw.random() < 0.8:
            self.seen[1 - side] = max(self.seen[1 - side], upto + 1)
            self.put(1 - side, self.sent[1 - side], b"", ACK)

    def flush(self, side, upto, whole, small=False):
        """Segments for all octets before `upto`."""
        draw = self.draw
        while self.sent[side] < upto:
            begin = self.sent[side]
            size = min(self.most, upto - begin)
            if small and draw.random() < 0.7:
                size = draw.randint(1, size)
            self.acknowledge(side)
            self.put(side, begin, bytes(self.streams[side][begin:begin + size]),
                     ACK | (PSH if begin + size == whole else 0))
            self.sent[side] = begin + size
            if draw.random() < 0.25 and not self.conversation.wish.get("terse"):
                self.acknowledge(1 - side)
                self.put(1 - side, self.sent[1 - side], b"", ACK)

    def acknowledge(self, side):
        """This side may have received more of the other's by now; never less."""
        if self.draw.random() >= self.lag:
            self.seen[side] = max(self.seen[side], min(self.sent[1 - side], 1 << 62))

    def put(self, side, begin, octets, flags):
        self.segments.append(Segment(side, begin, octets, flags, self.seen[side]))

    # --- frames ------------------------------------------------------------------------------------------
    def frames(self, segments):
        """The captured octets and the length on the wire of each segment."""
        hosts = [host.packed for host in self.hosts]
        for index, segment in enumerate(segments):
            side = segment.side
            options = self.options
            if segment.flags & SYN:
                options = b"\x02\x04" + struct.pack(">H", self.mss) + options
            header = struct.pack(
                ">HHIIBBHHH", self.ports[side], self.ports[1 - side], self.first[side] + 1 + segment.begin & 0xFFFFFFFF,
                self.first[1 - side] + 1 + segment.acks & 0xFFFFFFFF if segment.flags & ACK else 0,
                5 + len(options) // 4 << 4, segment.flags, 0xFFFF, 0, 0) + options
            packet = wire.packet(side, hosts[side], hosts[1 - side], header, segment.octets, index & 0xFFFF, self.tags)
            if self.padded:
                packet = packet.ljust(60, b"\0")
            yield packet[:segment.cap], len(packet)

    def frames_of(self, unit, segments):
        """The places in `segments` that hold octets of the unit for the first time."""
        return [index for index, segment in enumerate(segments)
                if segment.side == unit.side and segment.begin < unit.end and segment.end > unit.begin
                and not segment.again]


def pcap(frames):
    """A file of (captured octets, length on the wire), a tenth of a millisecond apart."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)]
    now = 1_200_000_000_000_000
    for captured, length in frames:
        out.append(struct.pack("<IIII", *divmod(now, 1_000_000), len(captured), length))
        out.append(captured)
        now += 100
    return b"".join(out)
