# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Faults to plant, one to a connection, and what the RFCs prescribe in answer.

A fault is planted where neither side owes the other anything. Due is a Terminate with one of the codes and with the parts that
RFC 5040 §4.8 asks for, nothing behind it, then FIN; or the end of TCP without a Terminate where none can be sent. Parley must
tell it in an event with words, and end as failed.
"""
import struct
import time

import wire
from programs import PROGRAMS, Echo, RpingClient, RpingServer, Sink
from startup import Frame
from strict import SEND, Ended, Terminated, demand

ALL = tuple(sorted(PROGRAMS))
RESPONDERS = tuple(name for name in ALL if PROGRAMS[name].peer_is_initiator)
INITIATORS = tuple(name for name in ALL if not PROGRAMS[name].peer_is_initiator)
QUIET = tuple(name for name in ALL if name not in ("source", "echoed", "rping client"))  # Parley waits for a message
RPING_RECEIVE = 64  # octets of each receive that Parley's rping posts
UNKNOWN = 0x12345678  # an STag: Parley's begin low and count up


class Now(Exception):
    """The fault is to be planted here."""


class Fault:
    """`make`: from a Peer, the FPDUs of the fault as (ULPDU, damage); the last one is at fault."""

    in_set_up = False

    def __init__(self, name, codes, make, programs=ALL, wish=None, read=False, header=True, rounds=None):
        self.name, self.codes, self.make, self.programs = name, codes, make, programs
        self.wish, self.read, self.header, self.rounds = wish or {}, read, header, rounds

    def prepare(self, program):
        if isinstance(program, (Echo, Sink)):
            program.size = max(program.size, 13)

    def latest(self, program):
        """The last round before which it can be planted."""
        return program.rounds - 1 if self.rounds is None else self.rounds

    def carry_out(self, run, peer):
        if peer.strict.position == 0 and not run.program.peer_is_initiator:
            peer.next()  # RFC 5044 §7.1.2 rule 4: the initiator speaks first
        ulpdus = self.make(peer, run)
        octets = b"".join(peer.frame(ulpdu, **damage) if damage is not BARE else self.bare(peer, ulpdu)
                          for ulpdu, damage in ulpdus)
        more = run.draw.random() < 0.3
        if more:  # behind an error nothing is read any more: RFC 5044 §8, RFC 5040 §7
            octets += b"".join(peer.frame(wire.write(1, 0)) for _ in range(peer.draw.choice((1, 5))))
        try:
            peer.line.send(octets)
        except (BrokenPipeError, ConnectionResetError):
            demand(more, "the stream ended before the fault was sent")
        segment = peer.terminate()
        self.judge(segment.payload, ulpdus[-1][0])
        ending = peer.line.ending()
        # What comes when the program is gone already, the system answers by RST.
        demand(ending == "FIN" or more, f"{ending} behind the Terminate, which it may overtake")
        peer.line.close()
        tell(run, self.codes, True)

    @staticmethod
    def bare(peer, octets):
        return octets

    def judge(self, payload, ulpdu):
        layer, etype, code, bits = payload[0] >> 4, payload[0] & 15, payload[1], payload[2]
        demand((layer, etype, code) in self.codes, f"Terminate {payload[:3].hex()}, due is one of {self.codes}")
        demand(bits & 0x1F == 0 and payload[3] == 0, f"reserved bits of the Terminate: {payload[:4].hex()}")
        if layer == 2 or etype == 0:
            demand(bits == 0 and len(payload) == 4, f"an error of that kind carries no header: {payload.hex()}")
            return
        parts = struct.pack(">H", len(ulpdu)) + ulpdu[:14 if ulpdu[0] & 0x80 else 18]
        due = 0xC0
        if self.read and layer == 0:
            parts, due = parts + ulpdu[18:46], 0xE0
        demand(bits == due and payload[4:] == parts, f"parts {payload[2:].hex()}, due are {due:02x} and {parts.hex()}")


BARE = object()  # octets that are not framed


def tell(run, codes, sent):
    """The event, its words and the exit status of a connection that ended by a fault of the peer."""
    run.command.await_event("disconnected", "connect_failed")
    # rping's server goes on waiting for its client when a set-up fails.
    code = run.command.finish(stop=isinstance(run.program, RpingServer))
    event = next(event for event in run.command.said() if event["event"] in ("disconnected", "connect_failed"))
    demand(event["why"]["text"], "no words")
    if event["event"] == "disconnected":
        demand(not event["graceful"], "the end is called graceful")
        if codes:
            terminate = event.get("terminate")
            demand(terminate and terminate["sent"] == sent, f"Terminate in the event: {terminate}")
            demand((terminate["layer"], terminate["etype"], terminate["code"]) in codes, f"{terminate}")
            demand(terminate["text"], "no text")
    demand(code == 1, f"exit {code}")
    demand(run.command.complaint(), "it is not told in words")


def sound(ulpdu):
    return [(ulpdu, {})]


def flipped(peer, _run):
    return [(wire.send(peer.msn[0], b"abcd"), {"damage_crc": 1 << peer.draw.randrange(8)})]


def pointed(peer, _run):
    # A marker falls in an FPDU of 600 octets wherever it begins.
    return [(wire.write(UNKNOWN, 0, bytes(600)), {"damage_pointer": 4})]


def send_with(**more):
    return lambda peer, run: sound(wire.send(peer.msn[0], b"abcdefgh", **more))


def version(peer, _run):
    ddp = peer.draw.choice((0, 2, 3))
    return sound(wire.send(peer.msn[0], b"abcd", ddp=ddp))


def tagged_version(peer, _run):
    ulpdu = bytearray(wire.write(1, 0))
    ulpdu[0] = ulpdu[0] & 0xFC | peer.draw.choice((0, 2, 3))
    return sound(bytes(ulpdu))


def opcode(peer, _run):
    return sound(wire.untagged(peer.draw.choice((0xC, 0xD, 0xE, 0xF)), peer.draw.choice((0, 1, 2, 3)), 1, b"abcd"))


def queue(peer, _run):
    return sound(wire.untagged(SEND, peer.draw.choice((1, 2, 3, 4, 5, 0xFFFFFFFF)), peer.msn[0], b"abcd"))


def wrong_msn(peer, _run):
    return sound(wire.send((peer.msn[0] + peer.draw.choice((-1, 1, 1000))) & 0xFFFFFFFF, b"abcd"))


def hole(peer, _run):
    msn = peer.msn[0]
    return [(wire.send(msn, b"ab", offset=4, last=False), {}), (wire.send(msn, b"c", offset=6), {})]


def overlap(peer, _run):
    msn = peer.msn[0]
    return [(wire.send(msn, b"abcd", offset=4, last=False), {}), (wire.send(msn, b"cdef", offset=6, last=False), {})]


def last_in_the_middle(peer, _run):
    msn = peer.msn[0]
    return [(wire.send(msn, b"ef", offset=4, last=False), {}), (wire.send(msn, b"abcd"), {})]


def next_message(peer, _run):
    return [(wire.send(peer.msn[0], b"ab", last=False), {}), (wire.send(peer.msn[0] + 1, b"c"), {})]


def other_opcode(peer, _run):
    return [(wire.send(peer.msn[0], b"ab", last=False), {}), (wire.send(peer.msn[0], b"c", 5, offset=2), {})]


def room(run):
    """Octets of the receives that Parley has posted."""
    return run.program.size if not isinstance(run.program, (RpingServer, RpingClient)) else RPING_RECEIVE


def too_long(peer, run):
    size = room(run)
    if size > 4000 or peer.draw.random() < 0.5:
        return sound(wire.send(peer.msn[0], bytes(peer.draw.randint(1, 40)), offset=size))
    return sound(wire.send(peer.msn[0], bytes(size + peer.draw.randint(1, 40))))


def too_far(peer, run):
    return sound(wire.send(peer.msn[0], b"", offset=room(run) + peer.draw.randint(1, 1000), last=False))


def tagged_send(_peer, _run):
    return sound(wire.tagged(SEND, 1, 0, b"abcd"))


def untagged_write(peer, _run):
    return sound(wire.untagged(0, 0, peer.msn[0], b"abcd"))


def bad_write(peer, _run):
    return sound(wire.write(peer.draw.choice((0, 1, UNKNOWN, 0xFFFFFFFF)), peer.draw.getrandbits(64) & ~0xFF, b"abcd"))


def bad_read(peer, _run):
    return sound(wire.read_request(peer.msn[1], 16, (5, 6), (peer.draw.choice((0, 1, UNKNOWN)), 7)))


def read_msn(peer, _run):
    return sound(wire.read_request(peer.msn[1] + peer.draw.choice((1, 7)), 0))


def unasked_response(_peer, _run):
    return sound(wire.read_response(1, 0, b"abcd"))


def unasked_atomic(_peer, _run):
    return sound(wire.atomic_response(1, 1, 1))


def foreign_invalidate(peer, _run):
    return sound(wire.send(peer.msn[0], b"abcd", peer.draw.choice((4, 6)), reserved=UNKNOWN))


def immediate_of(length):
    return lambda peer, run: sound(wire.immediate(peer.msn[0], bytes(length), peer.draw.choice((8, 9))))


def misaligned(peer, _run):
    return sound(wire.atomic_request(peer.msn[1], 0, 1, 1, peer.draw.randrange(1, 8), 1))


def reserved_atomic(peer, _run):
    return sound(wire.atomic_request(peer.msn[1], 1, 1, 1, 0, 1))


def bad_atomic(peer, _run):
    return sound(wire.atomic_request(peer.msn[1], peer.draw.choice((0, 2)), 1, UNKNOWN, 0, 1))


def short_read(peer, _run):
    return sound(wire.untagged(1, 1, peer.msn[1], bytes(peer.draw.randrange(28))))


def no_length(peer, _run):
    size = peer.draw.choice((0, 64769, 65535))
    marker = bytes(4) if peer.framer.markers and peer.framer.position % 512 == 0 else b""
    return [(marker + struct.pack(">H", size) + bytes(30), BARE)]


def stub(peer, _run):
    size = peer.draw.randrange(1, 14)
    return sound(wire.write(1, 0)[:size])


class AtMemory(Fault):
    """Against `parley rping -c`, whose source and sink are known once it has advertised them."""

    def prepare(self, program):
        super().prepare(program)
        program.memory = None

    def carry_out(self, run, peer):
        run.program.advertised(peer)
        return super().carry_out(run, peer)


def beyond(peer, run):
    stag, to = run.program.memory
    return sound(wire.write(stag, to + (1 << 40), b"abcd"))


def before(peer, run):
    stag, to = run.program.memory
    return sound(wire.write(stag, to - 0x10000, b"abcd"))


def wraps(peer, run):
    return sound(wire.write(run.program.memory[0], (1 << 64) - 2, b"abcd"))


def read_beyond(peer, run):
    stag, to = run.program.memory
    return sound(wire.read_request(peer.msn[1], 64, (5, 6), (stag, to + (1 << 40))))


def read_wraps(peer, run):
    return sound(wire.read_request(peer.msn[1], 64, (5, 6), (run.program.memory[0], (1 << 64) - 2)))


class AtRead(Fault):
    """Against `parley rping -s`, which has asked for a Read of 100 octets."""

    def carry_out(self, run, peer):
        run.program.name(peer, bytearray(100), False)
        first, _ = peer.next()
        demand(peer.asked, f"{first} where a Read is expected")
        self.sink = peer.asked.popleft()
        return super().carry_out(run, peer)


def response(*parts):
    """(TO from the sink's, octets, last, STag from the sink's)"""
    def make(_peer, run):
        stag, to, *_ = run.fault.sink
        return [(wire.read_response(stag + other & 0xFFFFFFFF, to + at, bytes(size), last=last), {})
                for at, size, last, other in parts]
    return make


class Broken(Fault):
    """The stream ends where it must not: no Terminate is expected, and Parley says so."""

    def carry_out(self, run, peer):
        if peer.strict.position == 0 and not run.program.peer_is_initiator:
            peer.next()
        octets = self.make(peer, run)
        peer.line.send(octets)
        if self.name.startswith("RST"):
            time.sleep(0.002)
            peer.line.reset()
        else:
            peer.line.fin()
            try:
                while True:
                    peer.next()
            except (Ended, Terminated):
                pass  # what was under way is held to the RFCs; how Parley closes is its own affair
            peer.line.close()
        tell(run, (), False)


def half_fpdu(peer, _run):
    octets = peer.frame(wire.send(peer.msn[0], b"abcdefgh"))
    return octets[:peer.draw.randrange(1, len(octets))]


def half_message(peer, _run):
    return peer.frame(wire.send(peer.msn[0], b"abcd", last=False))


class Terminates(Fault):
    """The peer terminates: nothing more is sent, the stream is closed, and the Terminate is told as received."""

    def carry_out(self, run, peer):
        if peer.strict.position == 0 and not run.program.peer_is_initiator:
            peer.next()
        peer.line.send(peer.frame(self.make(peer, run)[0][0]))
        try:
            while True:
                peer.next()  # what was under way; a Terminate is not answered by one
        except Ended:
            pass
        peer.line.close()
        tell(run, self.codes, False)


class Silent(Fault):
    """Silence where a timer of Parley's runs: it closes, and says for what it waited. RFC 5044 §7.1.2 rules 8 and 10."""

    in_set_up = True
    LIMIT_MS = 300

    def __init__(self, name, option, stage, programs, wish=None):
        super().__init__(name, (), None, programs, wish)
        self.option, self.stage = option, stage

    def prepare(self, program):
        command = program.command
        program.command = lambda: [*command(), self.option, f"{self.LIMIT_MS}ms"]

    def carry_out(self, run, connection):
        line = run.line(connection)
        if self.stage == "wait_request":
            line.send(half(run.set_up.request(), run) if self.name.startswith("half") else b"")
        elif self.stage == "wait_rtr":
            line.send(run.set_up.request())
            run.set_up.judge_reply(Frame(line, {wire.REP}))
        else:
            request = run.set_up.judge_request(line)
            line.send(half(run.set_up.reply(request), run) if self.name.startswith("half") else b"")
        line.ending()
        took = (time.monotonic() - run.begun) * 1000  # at least: Parley's timer began later
        demand(took >= self.LIMIT_MS, f"closed after {took:.0f} ms, {self.LIMIT_MS} were allowed")
        line.close()
        run.command.await_event("connect_failed")
        code = run.command.finish(stop=run.program.peer_is_initiator)
        why = next(event for event in run.command.said() if event["event"] == "connect_failed")["why"]
        demand(why["step"] == self.stage, f"{why['step']}: {why['text']}")
        # Before its Request it is no connection of the listener's.
        demand(code == (0 if self.stage == "wait_request" else 1), f"exit {code}")


class Startup(Fault):
    """A faulty startup frame: TCP is closed and nothing is said, or a Terminate where RFC 6581 asks for one."""

    in_set_up = True

    def prepare(self, program):
        pass

    def carry_out(self, run, connection):
        line = run.line(connection)
        if run.program.peer_is_initiator:
            return self.as_initiator(run, line)
        return self.as_responder(run, line)

    def as_initiator(self, run, line):
        octets = self.make(run.set_up.request(), run)
        line.send(octets)
        if self.name.startswith("half"):
            line.fin()
        ending = line.ending()
        demand(ending in ("FIN", "RST"), ending)
        line.close()
        code = run.command.finish(stop=True)
        failed = [event for event in run.command.said() if event["event"] == "connect_failed"]
        # rping's server tells in words.
        demand(failed and failed[0]["why"]["text"] or run.command.complaint(), "it is not told")
        demand(not [event for event in run.command.said() if event["event"] == "established"], "it is called established")
        demand(code in (0, 1), f"exit {code}")

    def as_responder(self, run, line):
        request = run.set_up.judge_request(line)
        line.send(self.make(run.set_up.reply(request), run), whole=True)
        if self.name.startswith("half"):
            line.fin()
        peer = run.set_up.peer(line, request)
        if self.codes:
            self.judge(peer.terminate().payload, b"")
        ending = line.ending()
        demand(ending in (("FIN",) if self.codes else ("FIN", "RST")), ending)
        line.close()
        code = run.command.finish()
        said = run.command.said()
        failed = [event for event in said if event["event"] in ("connect_failed", "rejected", "disconnected")]
        demand(failed and failed[0]["why"]["text"], f"it is not told: {said}")
        demand(code == 1 and run.command.complaint(), f"exit {code}")


def with_key(key):
    return lambda frame, run: key + frame[16:]


def with_revision(frame, run):
    return frame[:17] + bytes([run.draw.choice((3, 4, 129, 255))]) + frame[18:]


def private_data(length):
    return lambda frame, run: frame[:18] + struct.pack(">H", length) + bytes(length if length < 2000 else 600)


def bare_enhanced(frame, run):
    length = run.draw.randrange(4)
    return frame[:18] + struct.pack(">H", length) + frame[20:20 + length]


def half(frame, run):
    return frame[:run.draw.randrange(1, len(frame))]


def glued(frame, run):
    return frame + wire.Framer(True, False).fpdu(wire.write(1, 0))


def depths(ird, ord_, kinds):
    return lambda frame, run: frame[:20] + wire.enhanced(ird, ord_, kinds) + frame[24:]


V2 = {"revision": 2, "unnegotiated": False, "bare": False}
CRC = {"own_crc": True}
TABLE = [
    Fault("wrong CRC", {(2, 0, 2)}, flipped, wish=CRC),
    Fault("wrong FPDUPTR", {(2, 0, 3)}, pointed, wish={"markers": True}),
    Fault("ULPDU_Length out of range", {(2, 0, 3)}, no_length),
    Fault("ULPDU shorter than a header", {(1, 0, 0)}, stub),
    Fault("DDP version, untagged", {(1, 2, 6)}, version),
    Fault("DDP version, tagged", {(1, 1, 4)}, tagged_version),
    Fault("RDMAP version", {(0, 2, 5)}, lambda peer, run: send_with(rdmap=peer.draw.choice((0, 2, 3)))(peer, run)),
    Fault("opcode", {(0, 2, 6)}, opcode),
    Fault("queue", {(1, 2, 1)}, queue),
    Fault("MSN", {(1, 2, 3)}, wrong_msn),
    Fault("hole", {(1, 2, 4)}, hole, QUIET),
    Fault("octets placed before", {(1, 2, 4)}, overlap, QUIET),
    Fault("L not on the highest MO", {(1, 2, 4)}, last_in_the_middle, QUIET),
    Fault("MO behind the receive", {(1, 2, 4)}, too_far, QUIET),
    Fault("message too long", {(1, 2, 5)}, too_long, QUIET),
    Fault("next MSN in a message", {(1, 2, 3)}, next_message, QUIET),
    Fault("another opcode in a message", {(0, 2, 6)}, other_opcode, QUIET),
    Fault("tagged Send", {(0, 2, 6)}, tagged_send),
    Fault("untagged Write", {(0, 2, 6)}, untagged_write),
    Fault("Write to an unknown STag", {(1, 1, 0)}, bad_write),
    Fault("Read from an unknown STag", {(0, 1, 0)}, bad_read, wish={"revision": 1}, read=True),
    Fault("MSN of a Read", {(1, 2, 3)}, read_msn),
    Fault("short Read Request", {(0, 2, 7)}, short_read, wish={"revision": 1}),
    Fault("Read Response unasked", {(0, 2, 6)}, unasked_response, ("echo", "sink", "echoed", "rping client")),
    Fault("Atomic Response unasked", {(0, 2, 6)}, unasked_atomic, ("echo", "sink", "echoed", "rping client")),
    Fault("Invalidate of a foreign STag", {(0, 1, 9)}, foreign_invalidate, QUIET),
    Fault("Immediate Data of 7 octets", {(0, 2, 7)}, immediate_of(7), QUIET),
    Fault("Immediate Data of 9 octets", {(1, 2, 5)}, immediate_of(9), QUIET),
    Fault("misaligned Atomic", {(0, 2, 7)}, misaligned, wish={"revision": 1}),
    Fault("reserved Atomic operation", {(0, 2, 6)}, reserved_atomic, wish={"revision": 1}),
    Fault("Atomic at an unknown STag", {(0, 1, 0)}, bad_atomic, wish={"revision": 1}),
    AtMemory("Write beyond the memory", {(1, 1, 1)}, beyond, ("rping client",)),
    AtMemory("Write before the memory", {(1, 1, 1)}, before, ("rping client",)),
    AtMemory("Write that wraps", {(1, 1, 3)}, wraps, ("rping client",)),
    AtMemory("Read beyond the memory", {(0, 1, 1)}, read_beyond, ("rping client",), read=True),
    AtMemory("Read that wraps", {(0, 1, 4)}, read_wraps, ("rping client",), read=True),
    AtRead("Read Response to another STag", {(1, 1, 0)}, response((0, 100, True, 1)), ("rping server",)),
    AtRead("Read Response before the sink", {(1, 1, 1)}, response((-4, 50, False, 0)), ("rping server",)),
    AtRead("Read Response behind the sink", {(1, 1, 1)}, response((96, 5, False, 0)), ("rping server",)),
    AtRead("Read Response, octets placed before", {(1, 1, 1)}, response((50, 50, False, 0), (40, 11, False, 0)),
           ("rping server",)),
    AtRead("Read Response with a hole", {(0, 2, 7)}, response((0, 50, False, 0), (51, 49, True, 0)), ("rping server",)),
    Broken("FIN in an FPDU", (), half_fpdu),
    Broken("FIN in a message", (), half_message, QUIET),
    Broken("RST", (), lambda peer, run: b""),
    Terminates("Terminate of the LLP", {(2, 0, 5)}, lambda peer, run: sound(wire.terminate(0x20, 5))),
    Terminates("Terminate with a header", {(1, 2, 2)}, lambda peer, run: sound(wire.terminate(
        0x12, 2, 0xC0, struct.pack(">H", 22) + wire.send(1)))),
    Silent("no Request", "--request-timeout", "wait_request", RESPONDERS),
    Silent("half a Request", "--request-timeout", "wait_request", RESPONDERS),
    Silent("no RTR", "--rtr-timeout", "wait_rtr", RESPONDERS,
           {**V2, "form": "write"}),
    Silent("no Reply", "--reply-timeout", "wait_reply", INITIATORS),
    Silent("half a Reply", "--reply-timeout", "wait_reply", INITIATORS),
    Startup("wrong key", (), with_key(b"MPA ID Foo Frame")),
    Startup("key of the other side", (), lambda frame, run: with_key(
        wire.REP if run.program.peer_is_initiator else wire.REQ)(frame, run)),
    Startup("revision", (), with_revision),
    Startup("PD_Length 513", (), private_data(513)),
    Startup("PD_Length 65535", (), private_data(65535)),
    Startup("enhanced data cut", (), bare_enhanced, wish=V2),
    Startup("half a frame", (), half),
    Startup("octets behind the Request", (), glued, RESPONDERS, wish={"revision": 1, "form": "none"}),
    Startup("octets behind the Reply", (), glued, INITIATORS),
    Startup("no common RTR", {(2, 0, 7)}, depths(8, 0, "AB"), INITIATORS, wish={**V2, "form": "read", "others": []}),
    Startup("A not copied", {(2, 0, 7)}, depths(8, 0, ""), INITIATORS, wish={**V2, "form": "write", "others": []}),
    Startup("ORD that no IRD can meet", {(2, 0, 6)}, depths(8, 300, ""), INITIATORS,
            wish={**V2, "form": "none", "others": []}),
]


def names():
    return {fault.name for fault in TABLE}


def draw(_draw, seed):
    """Each in its turn, so that a range of seeds as long as the table has them all."""
    return TABLE[seed % len(TABLE)]
