# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rows of roce_broken_messages.py go on: one field of one data packet, for each kind of packet and each field."""
import struct

import roce_wire as w
from roce_broken_again import plain, send
from roce_broken_cm import CONNECTED, RELIABLE, row
from roce_broken_data import begun, ended, goes_on, next_soon
from roce_talk import INITIATOR, RESPONDER

BOTH = (w.RC, w.UC)  # in which the responder asks, too


def sent(kind, size, part=0):
    """Plays a message of that size, and gives one of its packets."""
    def play(talk, side=0):
        return talk.push(side, kind, size(talk) if callable(size) else size, trouble=False)[part]
    return play


def acknowledged(talk, side=0):
    talk.push(side, "send", 10, trouble=False)
    return talk.sent[-1]


def refused(talk, side=0):
    """A gap, its NAK, and the packets again."""
    queue = talk.queues[side]
    gap, behind = queue.take(2), (queue.psn - 1) % 2**24
    talk.ask(side, "send_only", gap, payload=b"gone", lost=True)
    talk.ask(side, "send_only", behind, payload=b"abcd", ack_req=True)
    nak = talk.answer(1 - side, "ack", gap, talk.aeth(1 - side, 0x60))
    for psn, payload in ((gap, b"gone"), (behind, b"abcd")):
        talk.ask(side, "send_only", psn, payload=payload, ack_req=True)
        queue.executed(True)
        talk.messages += 1
    talk.answer(1 - side, "ack", behind, talk.aeth(1 - side))
    return nak


def not_ready(talk, side=0):
    psn = talk.queues[side].take()
    talk.ask(side, "send_only", psn, payload=b"abcd", ack_req=True)
    nak = talk.answer(1 - side, "ack", psn, talk.aeth(1 - side, 0x20 | 14))
    talk.wait(1300, 3000)
    talk.ask(side, "send_only", psn, payload=b"abcd", ack_req=True)
    talk.queues[side].executed(True)
    talk.messages += 1
    talk.answer(1 - side, "ack", psn, talk.aeth(1 - side))
    return nak


def answered_read(packets, which):
    return lambda talk, side=0: talk.read(side, packets * talk.mtu, trouble=False)[1][which]


REQUESTS = {"Send": sent("send", 40), "Send First": sent("send", lambda talk: 2 * talk.mtu + 4), "Send Last": sent("send", lambda talk: talk.mtu + 8, -1),
            "Write": sent("write", 40), "Write First": sent("write", lambda talk: 2 * talk.mtu + 4),
            "Write Middle": sent("write", lambda talk: 2 * talk.mtu + 4, 1), "Write Last": sent("write", lambda talk: talk.mtu + 8, -1),
            "Read": lambda talk, side=0: talk.read(side, 40, trouble=False)[0],
            "Atomic": lambda talk, side=0: talk.atomic(side, trouble=False)[0]}
ANSWERS = {"ACK": acknowledged, "NAK": refused, "RNR NAK": not_ready, "Atomic response": lambda talk, side=0: talk.atomic(side, trouble=False)[1],
           "Read response": answered_read(1, 0), "First of a Read": answered_read(3, 0), "Middle of a Read": answered_read(3, 1),
           "Last of a Read": answered_read(3, 2)}
PLAYS = {**REQUESTS, **ANSWERS}
OF_RELIABLE = {"Read", "Atomic", *ANSWERS}


def each(rule, kinds, change, suffix="", after=ended, transports=None):
    """A row for each of those packets, in which `change` of (talk, packet) breaks the rule."""
    for kind in kinds:
        def broken(talk, kind=kind):
            begun(talk)
            packet = PLAYS[kind](talk)
            change(talk, packet)
            return after(talk, packet)
        row(f"{rule}:{kind}{suffix}", transports or (RELIABLE if kind in OF_RELIABLE else CONNECTED))(broken)


def datagram(rule, change, name="datagram"):
    @row(f"{rule}:{name}", (w.UD,))
    def _(talk):
        talk.choose_service("udp")
        talk.outcome = "established"
        talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, talk.cma_header()))
        talk.wait(100)
        talk.message(RESPONDER, "SIDR_REP", w.sidr_rep(talk.request_id, 0, talk.qpn[1], talk.service, talk.q_key))
        talk.wait(100)
        packets = [talk.datagram(side) for side in (0, 1, 0)]
        packet = talk.chance.choice(packets[:-1])
        change(talk, packet)
        return packet


def set_to(name, *values):
    return lambda talk, p: setattr(p, name, talk.chance.choice(values))


def ext_at(talk, packet, at, octets):
    """`at` is behind the XRCETH, which requests have."""
    at += 4 if talk.transport == w.XRC and packet.kind not in w.RESPONSES else 0
    packet.ext = packet.ext[:at] + octets + packet.ext[at + len(octets):]


# --- the BTH and what every packet has
each("ib.tver", ("Read", "Atomic", "ACK", "NAK", "Atomic response", "Read response", "Middle of a Read"), set_to("tver", 1, 3, 15))
each("ib.reserved", ("Send", "Write First", "Read", "ACK", "Atomic response", "Last of a Read"),
     lambda talk, p: setattr(p, "qpn", p.qpn | talk.chance.randrange(1, 0x40) << 24), ", with the congestion bits")
each("ib.reserved", ("Atomic", "ACK", "NAK", "Read response"), set_to("reserved7", 1, 2, 0x40))
each("ib.p-key", ("Read", "Atomic", "ACK", "Atomic response", "Read response", "Middle of a Read"), set_to("p_key", 0x8001, 0x7FFE, 0x8000))
each("ib.icrc", ("Send", "Read", "Atomic", "ACK", "NAK", "Atomic response", "Read response", "Last of a Read"), set_to("icrc", 1, 0x80000000))
each("ib.eth-reserved", ("Send", "Write", "Read", "Atomic"), lambda talk, p: setattr(p, "ext", bytes([talk.chance.randrange(1, 256)]) + p.ext[1:]),
     transports=(w.XRC,))
datagram("ib.tver", set_to("tver", 1, 7))
datagram("ib.reserved", set_to("reserved7", 1, 0x7F))
datagram("ib.icrc", set_to("icrc", 1, 0x80000000))
datagram("ib.eth-reserved", lambda talk, p: setattr(p, "ext", p.ext[:4] + bytes([talk.chance.randrange(1, 256)]) + p.ext[5:]))
datagram("ib.pad", lambda talk, p: setattr(p, "pad", (-len(p.payload) + 1) % 4))
datagram("ib.malformed", set_to("size", 16, 20), "cut in its DETH")


@row("ib.pad:Read response", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.read(0, talk.chance.choice((5, 6, 7)), trouble=False)[1][0]
    packet.pad = 0
    return ended(talk, packet)


@row("ib.pad-octets:Read response", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.read(0, talk.chance.choice((5, 6, 7)), trouble=False)[1][0]
    packet.pad_octet = 0x5A
    return ended(talk, packet)


@row("ib.malformed:more pad than octets")
def _(talk):
    begun(talk)
    packet = talk.push(0, "send", 0, trouble=False)[0]
    packet.pad_count, packet.opcode, packet.ext = 3, packet.opcode & 0xE0 | 4, packet.ext[:4 if talk.transport == w.XRC else 0]
    return ended(talk, packet)


# octets of UDP payload, as from the BTH on, and ICRC
for kind_, size_ in {"Read": 28, "Atomic": 40, "ACK": 16, "NAK": 16, "Atomic response": 24, "Read response": 16, "Write First": 24}.items():
    each("ib.malformed", (kind_,), set_to("size", size_, size_ - (0 if size_ == 16 else 4)))
each("ib.malformed", ("Send",), set_to("size", 16), ", cut in its XRCETH", transports=(w.XRC,))


@row("ib.malformed:immediate data")
def _(talk):
    begun(talk)
    packet = talk.ask(0, "send_only_imm", talk.queues[0].take(), b"imm.")
    talk.queues[0].executed(True)
    packet.size = 16 + (4 if talk.transport == w.XRC else 0)
    if talk.reliable():
        talk.answer(1, "ack", packet.psn, talk.aeth(1))
    return ended(talk, packet)


@row("ib.malformed:key to invalidate", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.ask(0, "send_only_inv", talk.queues[0].take(), b"key.")
    talk.queues[0].executed(True)
    packet.size = 16 + (4 if talk.transport == w.XRC else 0)
    talk.answer(1, "ack", packet.psn, talk.aeth(1))
    return ended(talk, packet)


# --- opcodes
STRAY = {0x0A: (struct.pack(">QII", 8, 9, 16), 16), 0x11: (b"\x1f\0\0\1", 0)}  # what else is a Send of 32 octets, if anything


def stray(code):
    """A packet beside the valid ones, with the PSN that is next."""
    def play(talk):
        begun(talk)
        ext, size = STRAY.get(code & 0x1F, (b"", 32))
        packet = talk.put(0, code, talk.qpn[1], talk.queues[0].psn, bytes(4 * (code & 0xE0 == w.XRC and code & 0x1F != 0x11)) + ext, bytes(size))
        packet.kind = "send_only"
        if code & 0xE0 == w.UD:
            goes_on(talk, 1)
        return ended(talk, packet)
    return play


for what, code_, transports_ in (("Read over UC", w.UC | 0x0C, (w.UC,)), ("Atomic over UC", w.UC | 0x13, (w.UC,)), ("ACK over UC", w.UC | 0x11, (w.UC,)),
                                 ("SEND Only with Invalidate over UC", w.UC | 0x17, (w.UC,)), ("First over UD", w.UD | 0x00, CONNECTED),
                                 ("Write over UD", w.UD | 0x0A, CONNECTED), ("class of CNPs", 0x82, CONNECTED),
                                 ("XRC", w.XRC | 0x15, (w.XRC,)), ("RC", 0x1E, (w.RC,))):
    row(f"ib.opcode:{what}", transports_)(stray(code_))
for what, code_, transports_ in (("UC on RC", w.UC | 0x04, (w.RC,)), ("XRC on RC", w.XRC | 0x04, (w.RC,)), ("UD on RC", w.UD | 0x04, (w.RC,)),
                                 ("RC on UC", 0x04, (w.UC,)), ("XRC on UC", w.XRC | 0x0A, (w.UC,)), ("UD on UC", w.UD | 0x05, (w.UC,)),
                                 ("RC on XRC", 0x0A, (w.XRC,)), ("UC on XRC", w.UC | 0x0A, (w.XRC,)),
                                 ("ACK of RC on UC", 0x11, (w.UC,)), ("ACK of XRC on RC", w.XRC | 0x11, (w.RC,))):
    row(f"ib.service:{what}", transports_)(stray(code_))


# --- lengths
def resized(change):
    def play(talk, packet):
        packet.payload = bytes(change(talk, len(packet.payload)))
    return play


each("ib.length", ("Send First", "Write First", "Write Middle"), resized(lambda talk, n: n - 4 * talk.chance.randrange(1, 9)), ", short")
each("ib.length", ("Send First", "Write First", "Write Middle", "Send Last"), resized(lambda talk, n: talk.mtu + 4 * talk.chance.randrange(1, 9)), ", long")
each("ib.length", ("Atomic",), resized(lambda talk, n: 4 * talk.chance.randrange(1, 9)), ", with payload")


@row("ib.length:Write, long")
def _(talk):
    begun(talk)
    packet = talk.push(0, "write", talk.mtu, trouble=False)[0]
    packet.payload = bytes(talk.mtu + 4)
    ext_at(talk, packet, 12, struct.pack(">I", talk.mtu + 4))
    return ended(talk, packet)


def announced(kind, change, shown=0):
    def play(talk):
        begun(talk)
        packets = talk.push(0, "write", 40 if kind == "only" else 2 * talk.mtu + 40, trouble=False)
        size = struct.unpack_from(">I", packets[0].ext, 16 if talk.transport == w.XRC else 12)[0]
        ext_at(talk, packets[0], 12, struct.pack(">I", change(talk, size)))
        return ended(talk, packets[shown])
    return play


row("ib.dma-length:only, less")(announced("only", lambda talk, size: size - 4))
row("ib.dma-length:only, none")(announced("only", lambda talk, size: 0))
row("ib.dma-length:several, less")(announced("several", lambda talk, size: size - talk.chance.randrange(1, 40), -1))
row("ib.dma-length:several, of one packet")(announced("several", lambda talk, size: talk.mtu, -1))


@row("ib.message-size:Read", RELIABLE)
def _(talk):
    begun(talk)
    return talk.ask(0, "read", talk.queues[0].take(), struct.pack(">QII", 8, 9, 2**31 + talk.chance.randrange(1, 2**20)), ack_req=True)


# --- the order of packets
EXT = {"write_first": 16, "write_only": 16, "write_only_imm": 20, "write_last_imm": 4, "send_only_imm": 4, "send_last_imm": 4, "send_only_inv": 4,
       "send_last_inv": 4, "read": 16, "cmp_swap": 28, "fetch_add": 28}


def plainly(talk, name, psn=None, total=None):
    """That operation, of a whole packet or of 4 octets; a First announces that total."""
    ext = bytearray(EXT.get(name, 0))
    size = 0 if name in ("read", "cmp_swap", "fetch_add") else talk.mtu if name.endswith(("first", "middle")) else 4
    if name.startswith(("write_first", "write_only", "read")):
        struct.pack_into(">QII", ext, 0, 64, 9, (total or talk.mtu + 4) if name == "write_first" else 4)
    elif name in ("cmp_swap", "fetch_add"):
        struct.pack_into(">QIQQ", ext, 0, 64, 9, 1, 0)
    return talk.ask(0, name, talk.queues[0].take() if psn is None else psn, bytes(ext), bytes(size))


def in_this_order(*names):
    def play(talk):
        begun(talk)
        for name in names:
            packet = plainly(talk, name, total=(names.count("write_middle") + 1) * talk.mtu + 4)
        talk.wait(100)
        return packet
    return play


for names_ in (("send_first", "send_first"), ("send_first", "send_only_imm"), ("send_first", "write_only"), ("send_first", "write_first"),
               ("send_first", "write_middle"), ("send_first", "write_last_imm"), ("write_first", "write_first"), ("write_first", "write_only"),
               ("write_first", "write_only_imm"), ("write_first", "send_middle"), ("write_first", "send_last"), ("write_first", "send_only"),
               ("send_first", "send_middle", "send_only"), ("send_first", "send_middle", "send_first"), ("write_first", "write_middle", "write_first"),
               ("send_only", "send_middle"), ("send_only", "send_last_imm"), ("write_only", "write_middle"), ("write_only", "write_last"),
               ("send_first", "send_last", "send_last"), ("write_first", "write_last", "write_last"), ("send_first", "send_last", "send_middle")):
    row(f"ib.sequence:{', '.join(names_)}")(in_this_order(*names_))
for names_ in (("send_first", "read"), ("write_first", "read"), ("send_first", "cmp_swap"), ("write_first", "fetch_add"), ("read", "send_last"),
               ("read", "write_middle"), ("fetch_add", "send_middle"), ("cmp_swap", "write_last"), ("send_first", "send_only_inv"),
               ("send_only", "send_last_inv"), ("write_first", "send_last_inv")):
    row(f"ib.sequence:{', '.join(names_)}", RELIABLE)(in_this_order(*names_))


@row("ib.sequence:a Middle begins")
def _(talk):
    talk.set_up()
    return plainly(talk, talk.chance.choice(("send_middle", "write_middle", "send_last", "write_last_imm")))


# --- PSNs
def used_again(first, second):
    """A request, and 2.2 s later another one with its PSN."""
    def play(talk):
        begun(talk)
        before = plainly(talk, first)
        talk.queues[0].executed(first.startswith("send"))
        talk.messages += 1
        talk.wait(2_200_000)
        packet = plainly(talk, second, before.psn)
        if second == first:
            ext_at(talk, packet, 6, bytes([talk.chance.randrange(1, 256)]))
        return packet
    return play


for first_, second_ in (("write_only", "send_only"), ("send_only", "send_only_imm"), ("write_only", "write_only_imm"), ("write_only", "write_only"),
                        ("send_only", "send_first"), ("write_only", "write_first")):
    row(f"ib.psn-reused:{first_}, {second_}")(used_again(first_, second_))
for first_, second_ in (("send_only", "read"), ("read", "send_only"), ("read", "write_only"), ("read", "cmp_swap"), ("cmp_swap", "fetch_add"),
                        ("cmp_swap", "cmp_swap"), ("fetch_add", "read"), ("fetch_add", "write_only"), ("send_only", "send_only_inv")):
    row(f"ib.psn-reused:{first_}, {second_}", RELIABLE)(used_again(first_, second_))


def inside(name):
    def play(talk):
        begun(talk)
        asked, _ = talk.read(0, 4 * talk.mtu, trouble=False)
        return ended(talk, plainly(talk, name, (asked.psn + talk.chance.choice((1, 2))) % 2**24))
    return play


for name_ in ("write_only", "cmp_swap", "fetch_add", "send_only_imm", "write_first"):
    row(f"ib.read-psn:{name_}", RELIABLE)(inside(name_))


@row("ib.read-psn:a longer Read", RELIABLE)
def _(talk):
    begun(talk)
    asked, _ = talk.read(0, 4 * talk.mtu, trouble=False)
    talk.wait(2_200_000)
    packet = talk.ask(0, "read", (asked.psn + 2) % 2**24, struct.pack(">QII", 64, 9, 8 * talk.mtu), ack_req=True)
    return ended(talk, packet)


def before_the_start(name):
    def play(talk):
        talk.set_up()
        if talk.sent[-1].kind != "RTU":
            talk.message(INITIATOR, "RTU", talk.ids_body(0))
        packet = plainly(talk, name, (talk.queues[0].start - talk.chance.randrange(1, 1000)) % 2**24)
        talk.push(0, "send", 10, trouble=False)
        return packet
    return play


for name_ in ("write_only", "read", "fetch_add", "send_first"):
    row(f"ib.psn-start:{name_}", RELIABLE if name_ in ("read", "fetch_add") else CONNECTED)(before_the_start(name_))


@row("ib.psn-start:responder", BOTH)
def _(talk):
    begun(talk)
    packet = talk.ask(1, "send_only", (talk.queues[1].start - talk.chance.randrange(1, 1000)) % 2**24, payload=b"abcd")
    talk.push(1, "send", 10, trouble=False)
    return packet


@row("ib.payload-changed:Send")
def _(talk):
    begun(talk)
    first = talk.push(0, "send", 12, trouble=False)[-1]
    talk.wait(2_200_000)
    packet = talk.ask(0, first.kind, first.psn, first.ext[4:] if talk.transport == w.XRC else first.ext, bytes(12), ack_req=True)
    return ended(talk, packet)


@row("ib.payload-changed:First")
def _(talk):
    begun(talk)
    first, last = talk.push(0, "send", talk.mtu + 4, trouble=False)
    talk.wait(2_200_000)
    packet = talk.ask(0, first.kind, first.psn, first.ext[4:] if talk.transport == w.XRC else first.ext, bytes(talk.mtu))
    talk.ask(0, last.kind, last.psn, last.ext[4:] if talk.transport == w.XRC else last.ext, last.payload, ack_req=True)
    return ended(talk, packet)


for name_ in ("cmp_swap", "fetch_add"):
    @row(f"ib.atomic-address:{name_}", RELIABLE)
    def _(talk, name=name_):
        begun(talk)
        packet = plainly(talk, name)
        ext_at(talk, packet, 7, bytes([64 + talk.chance.randrange(1, 8)]))
        return packet


# --- answers
def msn_of(change):
    def play(talk, packet):
        at = packet.ext[:1] + struct.pack(">I", (int.from_bytes(packet.ext[1:4], "big") + change(talk)) % 2**24)[1:]
        packet.ext = at + packet.ext[4:]
    return play


each("ib.msn", ("NAK", "Atomic response", "Read response", "Last of a Read", "First of a Read"), msn_of(lambda talk: -talk.chance.choice((2, 3, 1000))), ", low")
each("ib.msn", ("Atomic response", "Read response"), msn_of(lambda talk: talk.chance.randrange(1, 1000)), ", high", next_soon)
each("ib.ack-form", ("NAK", "RNR NAK", "Atomic response"), lambda talk, p: setattr(p, "payload", bytes(talk.chance.choice((1, 4, 16)))), ", payload")
each("ib.ack-form", ("ACK", "NAK"), set_to("ack_req", True), ", AckReq")
each("ib.ack-form", ("ACK", "RNR NAK"), set_to("solicited", True), ", solicited event")
each("ib.syndrome", ("Atomic response", "Read response", "First of a Read", "Last of a Read"),
     lambda talk, p: setattr(p, "ext", bytes([talk.chance.choice((0x20, 0x2E, 0x60, 0x62))]) + p.ext[1:]), ", NAK")
each("ib.syndrome", ("ACK", "NAK", "Atomic response", "Read response"),
     lambda talk, p: setattr(p, "ext", bytes([talk.chance.choice((0x40, 0x5F, 0x80, 0x9F, 0xE0))]) + p.ext[1:]), ", reserved kind")
each("ib.syndrome", ("NAK",), lambda talk, p: setattr(p, "ext", bytes([talk.chance.randrange(0x65, 0x80)]) + p.ext[1:]), ", reserved code")


def too_generous(kind, shared):
    def play(talk):
        talk.flow_control = shared
        talk.shared[1] = shared
        begun(talk)
        packet = PLAYS[kind](talk)
        packet.ext = bytes([talk.chance.randrange(31)]) + packet.ext[1:]
        return ended(talk, packet)
    return play


for kind_ in ("Atomic response", "Read response", "Last of a Read"):
    row(f"ib.credits:{kind_}, no flow control", (w.RC,))(too_generous(kind_, False))
    row(f"ib.credits:{kind_}, shared receives", (w.RC,))(too_generous(kind_, True))


# What is sent before the request that it answers.
def unasked(name, ext):
    def play(talk):
        begun(talk)
        talk.push(0, "send", 10, trouble=False)
        aeth = talk.aeth(1, *((0x60,) if name == "NAK" else ()))
        packet = talk.answer(1, "ack" if name == "NAK" else name, talk.queues[0].psn, aeth + bytes(ext[0]), bytes(ext[1]))
        return next_soon(talk, packet)
    return play


for name_, ext_ in {"response_only": (0, 8), "response_first": (0, 256), "atomic_ack": (8, 0), "NAK": (0, 0)}.items():
    row(f"ib.ack-unsent:{name_}", RELIABLE)(unasked(name_, ext_))
for name_, ext_ in {"response_only": (0, 8), "atomic_ack": (8, 0)}.items():
    @row(f"ib.ack-unsent:{name_} before the start", RELIABLE)
    def _(talk, name=name_, ext=ext_):
        begun(talk)
        psn = (talk.queues[0].start - talk.chance.randrange(2, 1000)) % 2**24
        return ended(talk, talk.answer(1, name, psn, talk.aeth(1) + bytes(ext[0]), bytes(ext[1])))


@row("ib.ack-unsent:by the initiator", (w.RC,))
def _(talk):
    begun(talk)
    talk.push(1, "send", 10, trouble=False)
    packet = talk.sent[-1]
    packet.psn = (packet.psn + talk.chance.randrange(1, 5)) % 2**24
    talk.wait(25000, 60000)
    talk.push(1, "send", 10, trouble=False)
    return ended(talk, packet)


def responses(change):
    """Of a Read of three packets, which the change of (talk, response) breaks in one."""
    def play(talk):
        begun(talk)
        return ended(talk, change(talk, talk.read(0, 2 * talk.mtu + 40, trouble=False)[1]))
    return play


def opcode_of(which, name):
    def change(talk, those):
        packet = those[which]
        packet.opcode = packet.opcode & 0xE0 | w.OPS[f"response_{name}"]
        packet.ext = b"" if name == "middle" else packet.ext or talk.aeth(1)
        return packet
    return change


def longer(which, octets):
    def change(_, those):
        those[which].payload += bytes(octets)
        return those[which]
    return change


for which_, name_ in ((0, "only"), (0, "middle"), (0, "last"), (1, "only"), (2, "middle"), (2, "first")):
    row(f"ib.read-response:{name_} as number {which_ + 1} of 3", RELIABLE)(responses(opcode_of(which_, name_)))
for which_ in range(3):
    row(f"ib.read-response:number {which_ + 1} of 3 longer", RELIABLE)(responses(longer(which_, 4)))


@row("ib.read-response:empty", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.read(0, 40, trouble=False)[1][0]
    packet.payload = b""
    return ended(talk, packet)


@row("ib.read-response:octets of an empty Read", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.read(0, 0, trouble=False)[1][0]
    packet.payload = bytes(4)
    return ended(talk, packet)


def answered_by(kind, name):
    def play(talk):
        begun(talk)
        request = PLAYS[kind](talk)
        packet = next(packet for packet in talk.sent if packet.kind in w.RESPONSES and packet.psn == request.psn and packet.side == 1
                      and packet.time >= request.time)
        packet.opcode, packet.ext = packet.opcode & 0xE0 | w.OPS[name], packet.ext[:4] + bytes(8 if name == "atomic_ack" else 0)
        packet.payload = bytes(talk.mtu if name == "response_first" else 0 if name == "atomic_ack" else 8)
        return ended(talk, packet)
    return play


for kind_, name_ in (("Send", "response_only"), ("Send", "response_first"), ("Send", "atomic_ack"), ("Write", "response_only"), ("Write", "atomic_ack"),
                     ("Read", "atomic_ack"), ("Atomic", "response_only"), ("Atomic", "response_first")):
    row(f"ib.response-kind:{kind_}, {name_}", RELIABLE)(answered_by(kind_, name_))


# --- what is outstanding, and how often something is sent again
def asked(talk, side, name):
    packet = talk.ask(side, name, talk.queues[side].take(), struct.pack(">QII", 64, 9, 16) if name == "read" else struct.pack(">QIQQ", 64, 9, 1, 0),
                      ack_req=True)
    talk.queues[side].executed(False)
    talk.messages += 1
    return packet


def too_many(name, side):
    def play(talk):
        talk.depth = talk.chance.choice((1, 4))
        plain(talk)
        if side:
            talk.push(1, "send", 10, trouble=False)
        those = [asked(talk, side, name) for _ in range(talk.depth + 1)]
        talk.answer(1 - side, "ack", those[-1].psn, talk.aeth(1 - side, 0x61))
        return those[-1]
    return play


for name_ in ("read", "cmp_swap", "fetch_add"):
    row(f"ib.outstanding:{name_}", RELIABLE)(too_many(name_, 0))
    row(f"ib.outstanding:{name_} of the responder", (w.RC,))(too_many(name_, 1))


def pressed(side, code, least, most):
    """Sent again too soon after an RNR NAK."""
    def play(talk):
        plain(talk)
        talk.push(side, "send", 10, trouble=False)
        psn = talk.queues[side].take()
        talk.ask(side, "send_only", psn, payload=b"abcd", ack_req=True)
        talk.answer(1 - side, "ack", psn, talk.aeth(1 - side, 0x20 | code))
        talk.wait(least, most)
        packet = talk.ask(side, "send_only", psn, payload=b"abcd", ack_req=True)
        talk.queues[side].executed(True)
        talk.messages += 1
        talk.answer(1 - side, "ack", psn, talk.aeth(1 - side))
        return ended(talk, packet)
    return play


row("ib.rnr-wait:491.52 ms", RELIABLE)(pressed(0, 31, 1000, 400_000))
row("ib.rnr-wait:163.84 ms", RELIABLE)(pressed(0, 28, 1000, 120_000))
row("ib.rnr-wait:responder", (w.RC,))(pressed(1, 0, 1000, 500_000))


@row("ib.rnr-retries:responder", (w.RC,))
def _(talk):
    talk.rnr = talk.chance.choice((0, 1, 3))
    plain(talk)
    talk.push(1, "send", 10, trouble=False)
    psn = talk.queues[1].take()
    talk.ask(1, "send_only", psn, payload=b"abcd", ack_req=True)
    for _ in range(talk.rnr + 1):
        talk.answer(0, "ack", psn, talk.aeth(0, 0x20 | 14))
        talk.wait(1300, 3000)
        packet = talk.ask(1, "send_only", psn, payload=b"abcd", ack_req=True)
    talk.queues[1].executed(True)
    talk.answer(0, "ack", psn, talk.aeth(0))
    return ended(talk, packet)


def tried(side, name):
    def play(talk):
        talk.retry = talk.chance.choice((0, 1, 3))
        plain(talk)
        talk.push(side, "send", 10, trouble=False)
        psn = talk.queues[side].take()
        for _ in range(talk.retry + 2):
            packet = talk.ask(side, name, psn, bytes(7) + b"\x40" + bytes(4) + struct.pack(">I", 8) if name == "read" else b"",
                              b"" if name == "read" else b"abcd", ack_req=True)
            talk.wait(2_200_000)
        return packet
    return play


row("ib.retries:Read", (w.RC,))(tried(0, "read"))
row("ib.retries:responder", (w.RC,))(tried(1, "send_only"))


@row("ib.nak-ignored:responder", (w.RC,))
def _(talk):
    plain(talk)
    talk.push(1, "send", 10, trouble=False)
    queue = talk.queues[1]
    talk.ask(1, "send_only", gap := queue.take(), payload=b"abcd")
    talk.ask(1, "send_only", queue.take(), payload=b"abcd", ack_req=True)
    talk.answer(0, "ack", gap, talk.aeth(0, 0x60))
    talk.wait(8_700_000)
    packet = talk.ask(1, "send_only", queue.take(), payload=b"abcd")
    for _ in range(3):
        talk.wait(1000)
        talk.ask(1, "send_only", queue.take(), payload=b"abcd")
    return packet


# --- too soon and too late
def too_soon(name):
    def play(talk):
        talk.send_req()
        talk.wait(500)
        talk.send_rep()
        talk.wait(100)
        packet = talk.read(1, 40, trouble=False)[0] if name == "Read" else talk.push(1, "write", 10, trouble=False)[0]
        talk.wait(25000)
        talk.message(INITIATOR, "RTU", talk.ids_body(0))
        talk.wait(2000)
        talk.outcome = "established"
        return ended(talk, packet)
    return play


row("ib.early:Write", BOTH)(too_soon("Write"))
row("ib.early:Read", (w.RC,))(too_soon("Read"))


def late(side, asks, name="Send"):
    """Data of that side behind its DREQ, or behind its DREP."""
    def play(talk):
        begun(talk)
        talk.push(side, "send", 10, trouble=False)
        first = side if asks else 1 - side
        talk.message(first, "DREQ", struct.pack(">III", talk.ids[first], talk.ids[1 - first], talk.qpn[1 - first] << 8))
        if not asks:
            talk.message(side, "DREP", talk.ids_body(side))
        talk.wait(25000)
        return PLAYS[name](talk, side) if talk.reliable() else talk.push(side, "write", 10, trouble=False)[0]
    return play


row("ib.after-end:DREQ of the responder", BOTH)(late(1, True))
row("ib.after-end:DREP of the initiator")(late(0, False))
row("ib.after-end:DREP of the responder", BOTH)(late(1, False))
row("ib.after-end:Read", RELIABLE)(late(0, True, "Read"))


def late_answer(side, name):
    def play(talk):
        plain(talk)
        asks = 1 - side
        if name == "ACK":
            psn = talk.push(asks, "send", 10, trouble=False)[0].psn
        else:
            psn = talk.read(asks, 8, trouble=False)[0].psn
        talk.message(asks, "DREQ", struct.pack(">III", talk.ids[asks], talk.ids[side], talk.qpn[side] << 8))
        talk.message(side, "DREP", talk.ids_body(side))
        talk.wait(21000)
        return talk.answer(side, "ack" if name == "ACK" else "response_only", psn, talk.aeth(side), b"" if name == "ACK" else bytes(8))
    return play


row("ib.ack-after-end:Read response", RELIABLE)(late_answer(1, "Read response"))
row("ib.ack-after-end:ACK of the initiator", (w.RC,))(late_answer(0, "ACK"))


def taken(change, transports=RELIABLE):
    def play(talk):
        plain(talk)
        psn = talk.queues[0].take()
        change(talk, send(talk, psn))
        talk.queues[0].executed(True)
        return talk.answer(1, "ack", psn, talk.aeth(1))
    return play


for what, change_ in {"transport version": set_to("tver", 1, 9), "P_Key": set_to("p_key", 0x8001, 1), "ICRC": set_to("icrc", 1, 7),
                      "opcode": lambda talk, p: setattr(p, "opcode", talk.transport | 0x18)}.items():
    row(f"ib.ack-dropped:{what}", RELIABLE)(taken(change_))


@row("ib.target-request", (w.XRC,))
def _(talk):
    begun(talk)
    packet = talk.ask(1, "send_only", talk.queues[1].take(), payload=b"abcd")
    talk.wait(100)
    return packet
