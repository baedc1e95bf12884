# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rows of roce_broken_cm.py go on: data."""
import struct

import roce_wire as w
from roce_broken_cm import RELIABLE, row, whole
from roce_talk import INITIATOR


# `begun` is a connection that has carried something, `ended` makes what follows
def begun(talk):
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    talk.exchange(talk.chance.randrange(3))
    talk.wait(50)


def ended(talk, packet):
    for _ in range(talk.chance.randrange(1, 3)):
        talk.push(0, "send", 20, trouble=False)
    if talk.chance.random() < 0.6:
        talk.close()
    return packet


def goes_on(talk, side):
    """That side sends on its queue pair, so late that no path may have delayed it."""
    talk.wait(25_000, 60_000)
    talk.push(0 if talk.reliable() else side, "send", 10, trouble=False)


def pushed(talk, change, kind=None, size=None):
    begun(talk)
    packet = talk.chance.choice(talk.push(0, kind, size, trouble=False))
    change(packet)
    return ended(talk, packet)


@row("ib.icrc")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "icrc", talk.chance.randrange(1, 2**32)), None, 10)


@row("ib.icrc:CM")
def _(talk):
    return whole(talk, lambda p: setattr(p, "icrc", 1), ("RTU", "DREQ", "DREP"))


@row("ib.tver")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "tver", talk.chance.randrange(1, 16)))


@row("ib.reserved")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "reserved7", talk.chance.randrange(1, 0x80)))


@row("ib.opcode")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "opcode", p.opcode & 0xE0 | talk.chance.choice((0x15, 0x18, 0x1F))), "send", 10)


@row("ib.service")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "opcode", (w.UC if talk.transport != w.UC else w.RC) | 4), "send", 10)


@row("ib.p-key")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "p_key", talk.chance.choice((0x8001, 0x7FFE))))


@row("ib.pad")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "pad", (p.pad or 0) + 1 if len(p.payload) % 4 == 0 else 0), None,
                  talk.chance.choice((4, 5, 99)))


@row("ib.pad-octets")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "pad_octet", 0x5A), None, talk.chance.choice((1, 6, 99)))


@row("ib.malformed")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "size", talk.chance.randrange(16, 24) // 4 * 4), "write", 40)


@row("ib.length:middle")
def _(talk):
    begun(talk)
    packets = talk.push(0, "send", 3 * talk.mtu, trouble=False)
    packet = talk.chance.choice(packets[:-1])
    packet.payload = packet.payload[:-4]
    return ended(talk, packet)


@row("ib.length:long")
def _(talk):
    return pushed(talk, lambda p: setattr(p, "payload", bytes(talk.mtu + 4)), "send", 10)


@row("ib.length:empty last")
def _(talk):
    begun(talk)
    packet = talk.push(0, "send", talk.mtu + 4, trouble=False)[-1]
    packet.payload = b""
    return ended(talk, packet)


@row("ib.length:read", RELIABLE)
def _(talk):
    begun(talk)
    packet, _ = talk.read(0, trouble=False)
    packet.payload = bytes(8)
    return ended(talk, packet)


@row("ib.sequence:only in a message")
def _(talk):
    begun(talk)
    queue = talk.queues[0]
    talk.ask(0, "send_first", queue.take(), payload=bytes(talk.mtu))
    packet = talk.ask(0, "send_only", queue.take(), payload=b"abcd")
    talk.wait(100)
    return packet


@row("ib.sequence:last without a first")
def _(talk):
    begun(talk)
    packet = talk.ask(0, "send_last", talk.queues[0].take(), payload=b"abcd")
    talk.wait(100)
    return packet


@row("ib.sequence:another kind")
def _(talk):
    begun(talk)
    talk.ask(0, "send_first", talk.queues[0].take(), payload=bytes(talk.mtu))
    packet = talk.ask(0, "write_last", talk.queues[0].take(), payload=b"abcd")
    talk.wait(100)
    return packet


@row("ib.psn-start")
def _(talk):
    talk.set_up()
    if talk.sent[-1].kind != "RTU":
        talk.message(INITIATOR, "RTU", talk.ids_body(0))
    packet = talk.ask(0, "send_only", (talk.queues[0].start - talk.chance.randrange(1, 1000)) % 2**24, payload=b"abcd")
    talk.push(0, "send", 10, trouble=False)
    return packet


@row("ib.psn-reused")
def _(talk):
    begun(talk)
    first = talk.push(0, "send", 12, trouble=False)[-1]
    talk.wait(2_200_000)
    packet = talk.ask(0, "write_only", first.psn, struct.pack(">QII", 8, 9, 12), bytes(12), ack_req=True)
    if talk.reliable():
        talk.answer(1, "ack", first.psn, talk.aeth(1))
    return ended(talk, packet)


@row("ib.payload-changed")
def _(talk):
    begun(talk)
    first = talk.push(0, "write", 12, trouble=False)[-1]
    talk.wait(2_200_000)
    packet = talk.ask(0, first.kind, first.psn, first.ext[4:] if talk.transport == w.XRC else first.ext, bytes(12), ack_req=True)
    return ended(talk, packet)


@row("ib.read-psn", RELIABLE)
def _(talk):
    begun(talk)
    asked, _ = talk.read(0, 3 * talk.mtu, trouble=False)
    packet = talk.ask(0, "send_only", (asked.psn + talk.chance.choice((1, 2))) % 2**24, payload=b"abcd")
    return ended(talk, packet)


@row("ib.dma-length:only")
def _(talk):
    begun(talk)
    packet = talk.push(0, "write", 40, trouble=False)[0]
    at = 4 if talk.transport == w.XRC else 0
    packet.ext = packet.ext[:at + 12] + struct.pack(">I", 44) + packet.ext[at + 16:]
    return ended(talk, packet)


@row("ib.dma-length:several")
def _(talk):
    begun(talk)
    packets = talk.push(0, "write", 2 * talk.mtu + 40, trouble=False)
    at = 4 if talk.transport == w.XRC else 0
    packets[0].ext = packets[0].ext[:at + 12] + struct.pack(">I", 2 * talk.mtu + 44)
    return ended(talk, packets[-1])


@row("ib.atomic-address", RELIABLE)
def _(talk):
    begun(talk)
    packet, _ = talk.atomic(0, trouble=False)
    at = 4 if talk.transport == w.XRC else 0
    packet.ext = packet.ext[:at + 7] + bytes([packet.ext[at + 7] | talk.chance.randrange(1, 8)]) + packet.ext[at + 8:]
    return ended(talk, packet)


def answered(talk, change):
    begun(talk)
    talk.push(0, "send", 10, trouble=False)
    packet = talk.sent[-1]
    packet.ext = change(packet)
    return ended(talk, packet)


@row("ib.syndrome", RELIABLE)
def _(talk):
    code = talk.chance.choice((0x40, 0x5F, 0x80, 0x9F, 0x65, 0x7F))
    return answered(talk, lambda p: bytes([code]) + p.ext[1:])


@row("ib.syndrome:response", RELIABLE)
def _(talk):
    begun(talk)
    _, packet = talk.atomic(0, trouble=False)
    packet.ext = b"\x61" + packet.ext[1:]
    return ended(talk, packet)


@row("ib.msn:low", RELIABLE)
def _(talk):
    return answered(talk, lambda p: p.ext[:1] + struct.pack(">I", (talk.queues[0].msn - 1) % 2**24)[1:])


def next_soon(talk, packet):
    talk.wait(25000, 60000)
    talk.push(0, "send", 10, trouble=False)
    return ended(talk, packet)


@row("ib.msn:high", RELIABLE)
def _(talk):
    begun(talk)
    talk.push(0, "send", 10, trouble=False)
    packet = talk.sent[-1]
    packet.ext = packet.ext[:1] + struct.pack(">I", (talk.queues[0].msn + 2) % 2**24)[1:]
    return next_soon(talk, packet)


@row("ib.ack-unsent", RELIABLE)
def _(talk):
    begun(talk)
    talk.push(0, "send", 10, trouble=False)
    packet = talk.sent[-1]
    packet.psn = (packet.psn + talk.chance.randrange(1, 5)) % 2**24
    return next_soon(talk, packet)


@row("ib.ack-unsent:before the start", RELIABLE)
def _(talk):
    begun(talk)
    packet = talk.answer(1, "ack", (talk.queues[0].start - talk.chance.randrange(2, 1000)) % 2**24, talk.aeth(1))
    return ended(talk, packet)


@row("ib.credits:no flow control", (w.RC,))
def _(talk):
    talk.flow_control = False
    return answered(talk, lambda p: bytes([talk.chance.randrange(31)]) + p.ext[1:])


@row("ib.credits:shared receives", RELIABLE)
def _(talk):
    talk.flow_control, talk.shared[1] = True, True
    return answered(talk, lambda p: bytes([talk.chance.randrange(31)]) + p.ext[1:])


def beyond_credits(talk, play):
    """A sender that may ask for credits with one message and sends another one."""
    talk.flow_control, talk.shared, talk.counts, talk.codes = True, [False, False], ["always", "always"], (0, 1, 2, 3)
    begun(talk)
    queue = talk.queues[0]
    talk.need_credits(0)
    queue.posted = limit = queue.limit
    executed = [((queue.psn - 1) % 2**24, queue.msn)]
    while sum(queue.sent) <= limit:
        name, ext = talk.chance.choice((("send_only", b""), ("write_only_imm", bytes(20))))
        talk.ask(0, name, queue.take(), ext)
        queue.executed(True)
        talk.messages += 1
        executed.append(((queue.psn - 1) % 2**24, queue.msn))
    if talk.chance.random() < 0.5:  # which takes none
        talk.ask(0, "write_only", queue.take(), bytes(16))
        queue.executed(False)
        talk.messages += 1
    packet = play(queue)
    queue.executed(True)
    talk.messages += 1
    talk.wait(25000, 40000)
    # What the other says then. A code of 4 or more may stand for a receive more than it says.
    psn, msn = talk.chance.choice([(psn, msn) for psn, msn in executed if limit - 3 <= queue.receives(msn) <= limit])
    talk.answer(1, "ack", psn, struct.pack(">I", limit - queue.receives(msn) << 24 | msn))
    talk.wait(2000, 5000)
    talk.answer(1, "ack", (queue.psn - 1) % 2**24, talk.aeth(1))
    return ended(talk, packet)


@row("ib.credit-limit:one packet", (w.RC,))
def _(talk):
    name, ext = talk.chance.choice((("send_only", b""), ("send_only_imm", b"abcd"), ("send_only_inv", b"abcd"), ("write_only_imm", bytes(20))))
    return beyond_credits(talk, lambda queue: talk.ask(0, name, queue.take(), ext))


@row("ib.credit-limit:Send", (w.RC,))
def _(talk):
    def play(queue):
        packet = talk.ask(0, "send_first", queue.take(), payload=bytes(talk.mtu))
        talk.ask(0, "send_last", queue.take(), payload=b"abcd")
        return packet
    return beyond_credits(talk, play)


@row("ib.credit-limit:Write", (w.RC,))
def _(talk):
    def play(queue):
        talk.ask(0, "write_first", queue.take(), struct.pack(">QII", 8, 9, talk.mtu + 4), bytes(talk.mtu))
        return talk.ask(0, "write_last_imm", queue.take(), b"imm.", b"abcd")
    return beyond_credits(talk, play)


@row("ib.read-response:opcode", RELIABLE)
def _(talk):
    begun(talk)
    _, responses = talk.read(0, 3 * talk.mtu, trouble=False)
    packet = responses[1]
    packet.opcode, packet.ext = packet.opcode & 0xE0 | w.OPS["response_last"], talk.aeth(1)
    return ended(talk, packet)


@row("ib.read-response:length", RELIABLE)
def _(talk):
    begun(talk)
    _, responses = talk.read(0, 2 * talk.mtu + 40, trouble=False)
    packet = talk.chance.choice(responses)
    packet.payload = packet.payload[:-4]
    return ended(talk, packet)


@row("ib.response-kind", RELIABLE)
def _(talk):
    begun(talk)
    talk.push(0, "send", 10, trouble=False)
    packet = talk.sent[-1]
    name = talk.chance.choice(("response_only", "atomic_ack"))
    packet.opcode = packet.opcode & 0xE0 | w.OPS[name]
    packet.ext += bytes(8) if name == "atomic_ack" else b""
    return ended(talk, packet)


@row("ib.atomic-response", RELIABLE)
def _(talk):
    begun(talk)
    asked, answered_ = talk.atomic(0, trouble=False)
    talk.wait(2_200_000)
    talk.ask(0, asked.kind, asked.psn, asked.ext[4:] if talk.transport == w.XRC else asked.ext, ack_req=True)
    packet = talk.answer(1, "atomic_ack", asked.psn, answered_.ext[:4] + bytes(8))
    return ended(talk, packet)


@row("ib.early", (w.RC, w.UC))
def _(talk):
    talk.send_req()
    talk.wait(500)
    talk.send_rep()
    talk.wait(100)
    packet = talk.push(1, "send", 10, trouble=False)[0]
    talk.wait(25000)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.wait(2000)
    talk.outcome = "established"
    return ended(talk, packet)


@row("ib.after-end")
def _(talk):
    begun(talk)
    talk.message(INITIATOR, "DREQ", struct.pack(">III", talk.ids[0], talk.ids[1], talk.qpn[1] << 8))
    talk.wait(25000)
    return talk.push(0, "send", 10, trouble=False)[0]


@row("ib.ud-q-key", (w.UD,))
def _(talk):
    while True:
        talk.sent, talk.messages, talk.retries = [], 0, 0
        talk.sidr()
        if talk.outcome == "established":
            break
        talk.request_id += 1
        talk.time += 10**7
    packet = talk.datagram(0)
    packet.ext = struct.pack(">I", talk.q_key + 1) + packet.ext[4:]
    return packet
