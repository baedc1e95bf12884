# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rows of roce_broken_again.py go on: answers to what needs none, and messages that come too late."""
import struct

import roce_wire as w
from roce_broken_again import plain, send
from roce_broken_cm import RELIABLE, row
from roce_talk import INITIATOR, RESPONDER


@row("cm.null-id")
def _(talk):
    talk.ids[1] = 0
    talk.send_req()
    packet = talk.send_rep()
    talk.wait(1000)
    talk.rej(INITIATOR, 1, 28)
    talk.outcome = "rejected"
    return packet


@row("cm.rej-unknown-id")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, 6, local=talk.chance.choice((0, talk.ids[1])))


@row("cm.rej-late:REQ")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(1000)
    if talk.chance.random() < 0.5:
        talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, talk.chance.choice((1, 5, 28)))


@row("cm.rej-late:REQ, without the REP")
def _(talk):
    talk.send_req()
    talk.send_rep(lost=True)
    talk.wait(1000)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.wait(21000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, talk.chance.choice((1, 5, 28)))


@row("cm.rej-late:REP")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "rejected"
    return talk.rej(INITIATOR, 1, talk.chance.choice((1, 5, 28)))


@row("cm.rtu-unasked")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28)
    talk.wait(21000)
    talk.outcome = "rejected"
    return talk.message(INITIATOR, "RTU", talk.ids_body(0))


def sidr_req(talk, header):
    return talk.message(INITIATOR, "SIDR_REQ", struct.pack(">IHHQ", talk.request_id, 0xFFFF, 0, talk.service) + header)


@row("cm.sidr-changed", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    talk.outcome = "rejected"
    header = talk.cma_header()
    for status in talk.chance.sample((1, 2, 3), 2):
        sidr_req(talk, header)
        talk.wait(100)
        packet = talk.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", talk.request_id, status << 24, 0, talk.service, 0))
        talk.wait(10**6, 2_500_000)
    return packet


# What the receiver must drop, and the rule that its sender breaks.
DROPPED_REQ = {
    "cm.q-key": lambda p: setattr(p, "ext", struct.pack(">II", 0x1234, 1)),
    "cm.p-key": lambda p: setattr(p, "p_key", 0x8000),
    "cm.mad-header": lambda p: p.payload.__setitem__(3, 0x81),
    "ib.tver": lambda p: setattr(p, "tver", 1),
}


@row("cm.dropped")
def _(talk):
    request = talk.send_req()
    DROPPED_REQ[talk.chance.choice(list(DROPPED_REQ))](request)
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, 28, local=0)


@row("cm.dropped:SIDR", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    DROPPED_REQ["cm.q-key"](sidr_req(talk, talk.cma_header()))
    talk.wait(100)
    talk.outcome = "rejected"
    return talk.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", talk.request_id, 1 << 24, 0, talk.service, 0))


@row("ib.ack-dropped", RELIABLE)
def _(talk):
    plain(talk)
    psn = talk.queues[0].take()
    request = send(talk, psn)
    how = talk.chance.choice(({"tver": 1}, {"p_key": 0x8001}, {"icrc": 7}, {"opcode": talk.transport | 0x1F}, {"opcode": w.UC | 4}))
    for name, value in how.items():
        setattr(request, name, value)
    talk.queues[0].executed(True)
    return talk.answer(1, "ack", psn, talk.aeth(1))


@row("ib.nak-again", RELIABLE)
def _(talk):
    plain(talk)
    queue = talk.queues[0]
    gap = queue.take()
    for _ in range(2):
        send(talk, queue.take())
        packet = talk.answer(1, "ack", gap, talk.aeth(1, 0x60))
        talk.wait(3000, 500_000)
    return packet


@row("ib.ack-after-end", RELIABLE)
def _(talk):
    plain(talk)
    psn = talk.queues[0].psn - 1
    talk.message(INITIATOR, "DREQ", struct.pack(">III", talk.ids[0], talk.ids[1], talk.qpn[1] << 8))
    talk.message(RESPONDER, "DREP", talk.ids_body(1))
    talk.wait(21000)
    return talk.answer(1, "ack", psn % 2**24, talk.aeth(1))


def asked_for(talk, side, name, pieces=1):
    """A request whose answer is a response: its PSN, and the last one of its response."""
    queue = talk.queues[side]
    ext = struct.pack(">QII", 8, 9, (pieces - 1) * talk.mtu + 16) if name == "read" else struct.pack(">QIQQ", 64, 9, 1, 0)
    psn = queue.take(pieces)
    queue.executed(False)
    talk.messages += 1
    return talk.ask(side, name, psn, ext, ack_req=True), (queue.psn - 1) % 2**24


def acknowledged(name, pieces=1, which=-1, side=0, behind_send=False):
    """An ACK without credits in place of a response; the requester asks again."""
    def play(talk):
        plain(talk)
        if side:
            talk.push(1, "send", 10, trouble=False)
        if behind_send:
            talk.need_credits(side)
            talk.ask(side, "send_only", talk.queues[side].take(), payload=b"abcd")
            talk.queues[side].executed(True)
        asked, last = asked_for(talk, side, name, pieces)
        packet = talk.answer(1 - side, "ack", last if which < 0 else (asked.psn + which) % 2**24, talk.aeth(1 - side, 31))
        if talk.chance.random() < 0.5:
            talk.wait(2_200_000)
            talk.ask(side, name, asked.psn, asked.ext[4:] if talk.transport == w.XRC else asked.ext, ack_req=True)
            talk.answer(1 - side, "ack", last, talk.aeth(1 - side, 31))
        return packet
    return play


for name_ in ("read", "cmp_swap", "fetch_add"):
    row(f"ib.response-kind:{name_}, ack", RELIABLE)(acknowledged(name_))
    row(f"ib.response-kind:{name_} behind a Send, ack", RELIABLE)(acknowledged(name_, behind_send=True))
    row(f"ib.response-kind:{name_} of the responder, ack", (w.RC,))(acknowledged(name_, side=1))
for which_ in range(3):
    row(f"ib.response-kind:number {which_ + 1} of 3 of a Read, ack", RELIABLE)(acknowledged("read", 3, which_))


@row("ib.response-kind:Read of a connection that is no longer new, ack", RELIABLE)
def _(talk):
    talk.depth = talk.chance.choice((1, 4))
    plain(talk)
    talk.wait(3_000_000)
    for _ in range(talk.depth):
        talk.read(0, 16, trouble=False)
    asked, last = asked_for(talk, 0, "read", talk.chance.randrange(1, 4))
    return talk.answer(1, "ack", last, talk.aeth(1, 31))


# What a fault may bring with it: the receiver answers what it must drop, and the sender of that is at fault, too.
ALSO = {"cm.dropped": {*DROPPED_REQ}, "ib.ack-dropped": {"ib.tver", "ib.p-key", "ib.icrc", "ib.opcode", "ib.service"}}
