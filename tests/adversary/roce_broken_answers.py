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


# What a fault may bring with it: the receiver answers what it must drop, and the sender of that is at fault, too.
ALSO = {"cm.dropped": {*DROPPED_REQ}, "ib.ack-dropped": {"ib.tver", "ib.p-key", "ib.icrc", "ib.opcode", "ib.service"}}
