# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rows of roce_broken_data.py go on: what is sent again or not, and how much is outstanding."""
import struct

import roce_wire as w
from roce_broken_cm import RELIABLE, row, whole
from roce_broken_data import begun, ended, goes_on, pushed


def plain(talk):
    """As begun(), where nothing is sent again."""
    talk.set_up()
    for _ in range(talk.chance.randrange(1, 4)):
        talk.push(0, "send", 10, trouble=False)
    talk.wait(50)


@row("ib.service:another PSN")
def _(talk):
    begun(talk)
    side = 0 if talk.transport == w.XRC else talk.chance.choice((0, 1))
    other = w.UC if talk.transport != w.UC else w.RC
    packet = talk.put(side, other | 4, talk.qpn[1 - side], (talk.queues[side].psn + talk.chance.randrange(2**20, 2**22)) % 2**24, payload=b"abcd")
    packet.kind = "send_only"
    goes_on(talk, 1 - side)
    return ended(talk, packet)


@row("ib.msn:high at the end", RELIABLE)
def _(talk):
    plain(talk)
    packet = talk.sent[-1]
    packet.ext = packet.ext[:1] + struct.pack(">I", (talk.queues[0].msn + talk.chance.randrange(1, 9)) % 2**24)[1:]
    talk.close()
    return packet


@row("ib.ack-form", RELIABLE)
def _(talk):
    begun(talk)
    if talk.chance.random() < 0.5:
        _, packet = talk.atomic(0, trouble=False)
    else:
        talk.push(0, "send", 10, trouble=False)
        packet = talk.sent[-1]
    packet.payload = bytes(talk.chance.choice((1, 4, 16)))
    return ended(talk, packet)


@row("ib.eth-reserved:DETH")
def _(talk):
    return whole(talk, lambda p: setattr(p, "ext", p.ext[:4] + struct.pack(">I", talk.chance.randrange(1, 256) << 24 | 1)))


@row("ib.eth-reserved:XRCETH", (w.XRC,))
def _(talk):
    return pushed(talk, lambda p: setattr(p, "ext", bytes([talk.chance.randrange(1, 256)]) + p.ext[1:]))


@row("ib.message-size")
def _(talk):
    begun(talk)
    return talk.ask(0, "write_first", talk.queues[0].take(), struct.pack(">QII", 8, 9, 2**31 + talk.chance.randrange(1, 99)), bytes(talk.mtu))


def read(talk, side):
    queue = talk.queues[side]
    queue.executed(False)
    talk.messages += 1
    psn = queue.take()
    if talk.chance.random() < 0.5:
        return talk.ask(side, "read", psn, struct.pack(">QII", 8, 9, 16), ack_req=True)
    return talk.ask(side, "fetch_add", psn, struct.pack(">QIQQ", 64, 9, 1, 0), ack_req=True)


def answer(talk, side, asked):
    aeth = struct.pack(">I", 31 << 24 | talk.queues[1 - side].msn)
    if asked.kind == "read":
        return talk.answer(side, "response_only", asked.psn, aeth, bytes(16))
    return talk.answer(side, "atomic_ack", asked.psn, aeth + bytes(8))


@row("ib.outstanding:none allowed", RELIABLE)
def _(talk):
    talk.depth = 0
    plain(talk)
    packet = read(talk, 0)
    talk.answer(1, "ack", packet.psn, talk.aeth(1, 0x61))
    return packet


@row("ib.outstanding:answered later", RELIABLE)
def _(talk):
    talk.depth = talk.chance.choice((1, 4))
    plain(talk)
    asked = [read(talk, 0) for _ in range(talk.depth + 1)]
    talk.wait(25000)
    for each in asked:
        answer(talk, 1, each)
    return ended(talk, asked[-1])


@row("ib.outstanding:NAK", RELIABLE)
def _(talk):
    talk.depth = talk.chance.choice((1, 4))
    plain(talk)
    asked = [read(talk, 0) for _ in range(talk.depth + 1)]
    talk.answer(1, "ack", asked[-1].psn, talk.aeth(1, 0x61))
    return asked[-1]


def send(talk, psn):
    return talk.ask(0, "send_only", psn, payload=b"abcd", ack_req=True)


def at_last(talk, psn, packet):
    """The peer takes it."""
    talk.queues[0].executed(True)
    talk.messages += 1
    talk.answer(1, "ack", psn, talk.aeth(1))
    return ended(talk, packet)


@row("ib.rnr-wait", RELIABLE)
def _(talk):
    plain(talk)
    psn = talk.queues[0].take()
    send(talk, psn)
    talk.answer(1, "ack", psn, talk.aeth(1, 0x20))  # 655.36 ms
    talk.wait(1000, 500_000)
    return at_last(talk, psn, send(talk, psn))


@row("ib.rnr-retries", RELIABLE)
def _(talk):
    talk.rnr = talk.chance.choice((0, 1, 3, 6))
    plain(talk)
    psn = talk.queues[0].take()
    send(talk, psn)
    for _ in range(talk.rnr + 1):
        talk.answer(1, "ack", psn, talk.aeth(1, 0x20 | 14))
        talk.wait(1300, 3000)
        packet = send(talk, psn)
    return at_last(talk, psn, packet)


@row("ib.retries", (w.RC,))
def _(talk):
    talk.retry = talk.chance.choice((1, 2, 6))
    plain(talk)
    psn = talk.queues[0].take()
    send(talk, psn)
    for _ in range(talk.retry + 1):
        talk.wait(2_200_000)
        packet = send(talk, psn)
    return at_last(talk, psn, packet)


@row("ib.nak-ignored", RELIABLE)
def _(talk):
    plain(talk)
    queue = talk.queues[0]
    talk.ask(0, "send_only", gap := queue.take(), payload=b"abcd")
    send(talk, queue.take())
    talk.answer(1, "ack", gap, talk.aeth(1, 0x60))
    talk.wait(8_700_000)
    packet = send(talk, queue.take())
    for _ in range(talk.chance.randrange(2, 5)):
        talk.wait(1000)
        send(talk, queue.take())
    return packet
