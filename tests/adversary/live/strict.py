# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A strict MPA, DDP and RDMAP peer on a TCP socket: what it sends is drawn from all that the RFCs allow, and each octet that
comes is held to them. It shares no code with Parley.

Line is TCP, Strict reads FPDUs and judges them, Peer speaks and keeps account of what either side owes the other.
"""
import collections
import select
import socket
import struct
import time

import wire

LIMIT = 300  # seconds for any one answer: only a hang takes as long, on a slow machine too
TERMINATE, READ_REQUEST, READ_RESPONSE, WRITE, SEND, SEND_SE, IMMEDIATE = 7, 1, 2, 0, 3, 5, 8
QUEUES = {1: 1, 3: 0, 4: 0, 5: 0, 6: 0, 7: 2, 8: 0, 9: 0, 0xA: 1, 0xB: 3}  # RFC 5040 §4.1, RFC 7306 §4
TAGGED = {0, 2}


class Wrong(Exception):
    """Parley did what an RFC forbids, or did not do what it asks for."""


class Ended(Exception):
    """The stream ended: "FIN" or "RST"."""


class Terminated(Exception):
    """A Terminate came, which was sound in itself: its segment is args[0]."""


def demand(condition, words):
    if not condition:
        raise Wrong(words)


class Line:
    """One TCP connection. What is written is cut at random, so that FPDUs fall into segments in any way."""

    def __init__(self, connection, draw):
        self.socket, self.draw, self.buffer, self.sent = connection, draw, b"", 0
        connection.settimeout(LIMIT)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def mss(self):
        return self.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)

    def send(self, octets, whole=False):
        cuts = [] if whole else sorted(self.draw.sample(range(len(octets) + 1), min(len(octets), self.draw.choice((0, 0, 1, 2, 5)))))
        for begin, end in zip([0, *cuts], [*cuts, len(octets)]):
            if begin > 0 and self.draw.random() < 0.05:
                time.sleep(0.001)  # lets the other side read what there is
            self.socket.sendall(octets[begin:end])
        self.sent += len(octets)

    def fill(self, count):
        while len(self.buffer) < count:
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                raise Ended("RST") from None
            except socket.timeout:
                raise Wrong(f"nothing came for {LIMIT} s; {len(self.buffer)} octets of {count} are there") from None
            if not more:
                raise Ended("FIN")
            self.buffer += more

    def take(self, count):
        self.fill(count)
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def more(self):
        """Whether octets have come that nobody took; the end of the stream is none."""
        if self.buffer or not select.select([self.socket], [], [], 0)[0]:
            return bool(self.buffer)
        try:
            return bool(self.socket.recv(1, socket.MSG_PEEK))
        except ConnectionResetError:
            return False

    def quiet(self, seconds):
        """Nothing may come for so long."""
        ready = self.buffer or select.select([self.socket], [], [], seconds)[0]
        demand(not ready, "it spoke where it must be silent")

    def fin(self):
        self.socket.shutdown(socket.SHUT_WR)

    def ending(self):
        """How the stream ends, with no octet before that."""
        demand(not self.buffer, f"octets where the stream should end: {self.buffer[:40].hex()}")
        try:
            self.fill(1)
        except Ended as end:
            return str(end)
        raise Wrong(f"octets where the stream should end: {self.buffer[:40].hex()}")

    def close(self):
        self.socket.close()

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


Segment = collections.namedtuple("Segment", "opcode tagged last stag to word queue msn offset payload ulpdu")


def parse(ulpdu):
    """RFC 5041 §4, RFC 5040 §4.1, and all that can be told without what came before."""
    demand(len(ulpdu) >= 14, f"a ULPDU of {len(ulpdu)} octets")
    ddp, rdmap = ulpdu[0], ulpdu[1]
    demand(ddp & 0x3C == 0, f"reserved bits of the DDP control octet: {ddp:02x}")
    demand(ddp & 0x03 == 1, f"DDP version {ddp & 3}")
    demand(rdmap >> 6 == 1, f"RDMAP version {rdmap >> 6}")
    demand(rdmap & 0x30 == 0, f"reserved bits of the RDMAP control octet: {rdmap:02x}")
    opcode, last = rdmap & 0x0F, bool(ddp & 0x40)
    demand(opcode in QUEUES or opcode in TAGGED, f"opcode {opcode:x}")
    demand(bool(ddp & 0x80) == (opcode in TAGGED), f"the T bit of opcode {opcode:x}")
    if ddp & 0x80:
        stag, to = struct.unpack(">IQ", ulpdu[2:14])
        return Segment(opcode, True, last, stag, to, 0, None, None, None, ulpdu[14:], ulpdu)
    demand(len(ulpdu) >= 18, f"an untagged ULPDU of {len(ulpdu)} octets")
    word, queue, msn, offset = struct.unpack(">IIII", ulpdu[2:18])
    demand(queue == QUEUES[opcode], f"opcode {opcode:x} on queue {queue}")
    demand(word == 0 or opcode in (4, 6), f"{word:08x} in the reserved word of opcode {opcode:x}")
    return Segment(opcode, False, last, None, None, word, queue, msn, offset, ulpdu[18:], ulpdu)


class Strict:
    """The octets of one direction, from the first behind the startup frames."""

    def __init__(self, line, crc, markers, mulpdu):
        self.line, self.crc, self.markers, self.mulpdu = line, crc, markers, mulpdu
        self.position, self.header = 0, None
        self.msn = {0: 1, 1: 1, 2: 1, 3: 1}
        self.open = None  # the last segment of a message that is not whole
        self.over = False

    def word(self, covered):
        if self.markers and self.position % 512 == 0:
            pointer = 0 if self.header is None else self.position - self.header
            marker = self.line.take(4)
            demand(marker == struct.pack(">HH", 0, pointer), f"marker {marker.hex()} at {self.position}, {pointer:04x} is expected")
            covered += marker
            self.position += 4
        if self.header is None:
            self.header = self.position
        self.position += 4
        return self.line.take(4)

    def ulpdu(self):
        """RFC 5044 §4: one FPDU."""
        self.header, covered = None, bytearray()
        first = self.word(covered)
        covered += first
        length = struct.unpack(">H", first[:2])[0]
        demand(0 < length <= self.mulpdu, f"ULPDU_Length {length}; MULPDU is {self.mulpdu}")
        octets = bytearray(first[2:])
        for _ in range((2 + length + 3) // 4 - 1):
            word = self.word(covered)
            covered += word
            octets += word
        check = self.word(covered)
        demand(not any(octets[length:]), f"pad {octets[length:].hex()}")
        demand(not self.crc or check == wire.crc32c(covered), f"CRC {check.hex()}, {wire.crc32c(covered).hex()} is expected")
        return bytes(octets[:length])

    def segment(self):
        s = parse(self.ulpdu())
        demand(not self.over, f"opcode {s.opcode:x} after the Terminate (RFC 5040 §5.4)")
        before, self.open = self.open, None if s.last else s
        if before:  # the segments of one message stay together and come in order
            demand((s.opcode, s.queue, s.msn, s.word, s.stag) ==
                   (before.opcode, before.queue, before.msn, before.word, before.stag), f"{s} inside {before}")
            if s.tagged:
                demand(s.to == before.to + len(before.payload), f"TO {s.to:x} behind {before}")
            else:
                demand(s.offset == before.offset + len(before.payload), f"MO {s.offset} behind {before}")
        elif not s.tagged:
            demand(s.offset == 0, f"a message begins at MO {s.offset}")
            demand(s.msn == self.msn[s.queue], f"MSN {s.msn} on queue {s.queue}, {self.msn[s.queue]} is expected")
            self.msn[s.queue] = s.msn + 1 & 0xFFFFFFFF
        if s.opcode == TERMINATE:
            self.over = True
            raise Terminated(s)
        return s

    def message(self):
        """(first segment, all payload)"""
        first = s = self.segment()
        payload = bytearray(s.payload)
        while not s.last:
            s = self.segment()
            payload += s.payload
        return first, bytes(payload)


class Peer:
    """One side of a connection in full operation."""

    def __init__(self, line, draw, *, crc, markers_out, markers_in, reads, served):
        self.line, self.draw, self.crc = line, draw, crc
        emss = line.mss()
        self.markers_in = markers_in
        # RFC 5044 §4.5. The MSS that this side has asked for bounds that of the other.
        self.mulpdu = max(128, emss - (6 + 4 * -(-emss // 512) + emss % 4 if markers_in else 6 + emss % 4))
        self.strict = Strict(line, crc, markers_in, self.mulpdu)
        self.framer = wire.Framer(crc, markers_out)
        self.msn = {0: 1, 1: 1, 3: 1}
        self.reads, self.served = reads, served  # Reads this side may have outstanding; those that it answers at once
        self.owed = collections.deque()  # (sink STag, sink TO, octets) of own Reads
        self.asked = collections.deque()  # Read Requests of the other side
        self.waiting = collections.deque()  # messages that came while a Read Response was waited for
        self.regions = {}  # STag: (TO, bytearray, who may write)

    # --- what goes out -----------------------------------------------------------------------------------------
    def frame(self, ulpdu, **damage):
        octets = self.framer.fpdu(ulpdu, **damage)
        # RFC 5044 §4.4: without CRC its field may hold anything.
        return octets if self.crc else octets[:-4] + self.draw.randbytes(4)

    def say(self, *ulpdus):
        if self.draw.random() < 0.4:
            return self.line.send(b"".join(self.frame(ulpdu) for ulpdu in ulpdus))
        for ulpdu in ulpdus:
            self.line.send(self.frame(ulpdu))
        return None

    def pieces(self, length):
        """Where a message of that length is cut, in the order in which its segments are sent: the last one last."""
        most = self.draw.choice((1, 7, 64, 500, 1400, 4000))
        most = max(most, length // 60)  # so many FPDUs at most
        cuts, at = [], 0
        while at < length:
            size = min(self.draw.randint(1, most), length - at)
            cuts.append((at, at + size))
            at += size
        if not cuts or self.draw.random() < 0.05:
            cuts.append((length, length))
        *others, last = cuts
        order = self.draw.random()
        if order < 0.4:
            self.draw.shuffle(others)  # RFC 5041 §5.3: increasing order is a SHOULD
        elif order < 0.5:
            others.reverse()
        return [(begin, end, False) for begin, end in others] + [(*last, True)]

    def send_ulpdus(self, payload, opcode=SEND):
        msn = self.next_msn(0)
        return [wire.send(msn, payload[begin:end], opcode, offset=begin, last=last)
                for begin, end, last in self.pieces(len(payload))]

    def next_msn(self, queue):
        msn, self.msn[queue] = self.msn[queue], self.msn[queue] + 1
        return msn

    def send(self, payload, opcode=None):
        self.say(*self.send_ulpdus(payload, opcode or self.draw.choice((SEND, SEND, SEND_SE))))

    def write(self, stag, to, payload):
        self.say(*[wire.write(stag, to + begin, payload[begin:end], last=last)
                   for begin, end, last in self.pieces(len(payload))])

    def read(self, source, octets):
        """Asks for `octets` at source; they land in a region of their own, which is returned."""
        while len(self.owed) >= self.reads:
            self.response()
        sink = (self.draw.getrandbits(32), self.draw.getrandbits(48))
        self.owed.append((*sink, octets, into := bytearray()))
        self.say(wire.read_request(self.next_msn(1), octets, sink, source))
        return into

    def spice(self):
        """Now and then something that asks for nothing, and that changes nothing."""
        kind = self.draw.choice(("", "", "write", "read"))
        if kind == "write":  # RFC 5041 §5.2: STag and TO of a zero-length message are not looked at
            self.say(wire.write(self.draw.getrandbits(32), self.draw.getrandbits(64)))
        if kind == "read" and self.reads > 0:
            self.read((self.draw.getrandbits(32), self.draw.getrandbits(64)), 0)

    def respond(self):
        """Answers the oldest Read of the other side, from the region that it named."""
        request = self.asked.popleft()
        sink_stag, sink_to, size, stag, to = request
        if size == 0:
            return self.say(wire.read_response(sink_stag, sink_to))
        demand(stag in self.regions, f"a Read from STag {stag:08x}, which was not named")
        begin, memory, _ = self.regions[stag]
        demand(begin <= to and to + size <= begin + len(memory), f"a Read of {size} octets at {to:x}, out of bounds")
        data = bytes(memory[to - begin:to - begin + size])
        return self.say(*[wire.read_response(sink_stag, sink_to + first, data[first:end], last=last)
                          for first, end, last in self.pieces(size)])

    # --- what comes in -----------------------------------------------------------------------------------------
    def next(self):
        """The next message that is no Read Response; those are held to what was asked for. Writes are placed."""
        if self.waiting:
            return self.waiting.popleft()
        while True:
            first, payload = self.strict.message()
            if first.opcode == READ_RESPONSE:
                self.take_response(first, payload)
                continue
            return self.placed(first, payload)

    def placed(self, first, payload):
        if first.opcode == READ_REQUEST:
            demand(len(payload) == 28, f"a Read Request of {len(payload)} octets")
            self.asked.append(struct.unpack(">IQIIQ", payload))
            demand(len(self.asked) <= self.served, f"{len(self.asked)} Reads at once, {self.served} were agreed")
        if first.opcode == WRITE and payload:
            demand(first.stag in self.regions, f"a Write to STag {first.stag:08x}, which was not named")
            begin, memory, writable = self.regions[first.stag]
            at = first.to - begin
            demand(writable and 0 <= at and at + len(payload) <= len(memory), f"a Write out of bounds: {first}")
            memory[at:at + len(payload)] = payload
        return first, payload

    def take_response(self, first, payload):
        demand(self.owed, f"a Read Response that nothing asked for: {first}")
        stag, to, octets, into = self.owed.popleft()
        demand((first.stag, first.to) == (stag, to), f"the sink {stag:08x} {to:x} is not copied: {first}")
        demand(len(payload) == octets, f"a Read Response of {len(payload)} octets to a Read of {octets}")
        into += payload

    def response(self):
        """Waits for the oldest Read Response; what else comes is kept for its turn."""
        first, payload = self.strict.message()
        if first.opcode == READ_RESPONSE:
            self.take_response(first, payload)
        else:
            self.waiting.append(self.placed(first, payload))

    def all_responses(self):
        while self.owed:
            self.response()

    def expect(self, *opcodes):
        first, payload = self.next()
        demand(first.opcode in opcodes, f"opcode {first.opcode:x}, due is one of {opcodes}")
        return first, payload

    def terminate(self):
        """The Terminate that is expected; what was under way before it is held to the RFCs as well."""
        try:
            while True:
                self.next()
        except Terminated as end:
            return end.args[0]
