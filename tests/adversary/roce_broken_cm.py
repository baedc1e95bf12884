# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Conversations over RoCEv2 in which one side breaks one rule once. Each row plays its conversation and returns the packet that
shows the fault; its name is the rule's in docs/pcap-check.md, what follows a colon tells the ways to break it apart."""
import ipaddress
import struct

import roce_wire as w
from roce_talk import INITIATOR, RESPONDER, TIMEOUT

WARNINGS = {"cm.reserved", "cm.rej-unassigned", "cm.gid", "cm.cma-header", "cm.cma-address", "cm.early", "cm.after-rej", "cm.restarted", "cm.transaction", "cm.after-drep", "cm.unassigned", "cm.null-id", "cm.rej-late", "cm.rtu-unasked", "cm.sidr-changed", "cm.dropped", "ib.nak-again",
            "ib.ack-dropped", "ib.ack-after-end", "ib.eth-reserved", "ib.reserved",
            "ib.pad-octets", "ib.payload-changed", "ib.credits", "ib.credit-limit", "ib.early", "ib.ud-q-key", "ib.after-end", "ib.retries"}
ROWS = {}
RELIABLE, CONNECTED = (w.RC, w.XRC), (w.RC, w.UC, w.XRC)


def row(name, transports=CONNECTED):
    def add(play):
        ROWS[name] = (play, transports)
        return play
    return add


def whole(talk, change, kind=None):
    """A conversation in which one CM message is changed; `kind`: which it may be, or what tells that when all are sent."""
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    talk.close()
    kinds = kind() if callable(kind) else kind or ("REQ", "REP", "RTU", "DREQ", "DREP")
    those = [packet for packet in talk.sent if packet.kind in kinds]
    packet = talk.chance.choice(those)
    change(packet)
    return packet


@row("cm.mad-header:class version")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(2, 3))


@row("cm.mad-header:status")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(5, 0x1C))


@row("cm.q-key")
def _(talk):
    return whole(talk, lambda p: setattr(p, "ext", struct.pack(">II", 0x80010001, 1)))


@row("cm.p-key")
def _(talk):
    return whole(talk, lambda p: setattr(p, "p_key", 0x8000))


@row("cm.reserved:REQ")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(24 + 24, 1), ("REQ",))


@row("cm.reserved:DREQ")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(24 + 11, 1), ("DREQ",))


@row("cm.req-changed")
def _(talk):
    talk.send_req()
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.4)
    talk.req = {**talk.req, talk.chance.choice(("qpn", "psn", "ord", "guid")): 77}
    packet = talk.send_req(again=True)
    talk.wait(100)
    talk.rej(RESPONDER, 0, 28, local=0)
    talk.outcome = "rejected"
    return packet


@row("cm.rep-changed")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.4)
    talk.rep = {**talk.rep, talk.chance.choice(("psn", "ird", "guid")): 78}
    packet = talk.send_rep(again=True)
    talk.wait(100)
    talk.rej(INITIATOR, 1, 28)
    talk.outcome = "rejected"
    return packet


@row("cm.restarted")
def _(talk):
    talk.send_req()
    if talk.chance.random() < 0.5:
        talk.mra(RESPONDER, 0)
    else:
        talk.send_rep()
    talk.wait(TIMEOUT * 20, TIMEOUT * 24)
    talk.send_req(again=True)
    talk.ids[1] ^= talk.chance.randrange(1, 2**32)
    talk.qpn[1] ^= 1
    packet = talk.send_rep()
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    talk.push(0, "send", 10, trouble=False)
    talk.close()
    return packet


def other_id(talk, packet, at):
    struct.pack_into(">I", packet.payload, at, talk.chance.randrange(1, 2**32))


@row("cm.comm-id:REP")
def _(talk):
    return whole(talk, lambda p: other_id(talk, p, 24 + 4), ("REP",))


@row("cm.comm-id:peer's")
def _(talk):
    # The RTU behind a repeated REQ may be about another answer, of a peer that has forgotten the first one.
    def kinds():
        once = sum(packet.kind == "REQ" for packet in talk.sent) == 1
        return ("RTU", "DREQ", "DREP") if once else ("DREQ", "DREP")
    return whole(talk, lambda p: other_id(talk, p, 24 + 4), kinds)


@row("cm.comm-id:own")
def _(talk):
    return whole(talk, lambda p: other_id(talk, p, 24), ("RTU", "DREQ", "DREP"))


def exchange_ids(packet):
    packet.payload[24:32] = packet.payload[28:32] + packet.payload[24:28]


@row("cm.comm-id:exchanged in a REP")
def _(talk):
    talk.send_req()
    talk.wait(200, 5000)
    packet = talk.send_rep()
    exchange_ids(packet)
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.4)
    talk.send_rep(again=True)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    talk.push(0, "send", 10, trouble=False)
    talk.close()
    return packet


@row("cm.comm-id:exchanged")
def _(talk):
    return whole(talk, exchange_ids, ("RTU", "DREQ", "DREP"))


@row("cm.transaction")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(15, p.payload[15] ^ 1), ("REP", "RTU", "DREP"))


@row("cm.transaction:REJ")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    packet = talk.rej(RESPONDER, 0, 28, local=0)
    packet.payload[12] ^= 1
    talk.outcome = "rejected"
    return packet


@row("cm.role:RTU")
def _(talk):
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    return talk.message(RESPONDER, "RTU", talk.ids_body(1))


@row("cm.role:REP")
def _(talk):
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    return talk.message(INITIATOR, "REP", w.rep({**talk.rep_fields(), "id": talk.ids[0], "remote": talk.ids[1]}))


@row("cm.rtu-before-rep")
def _(talk):
    # A management packet of another class: the responder's next one has the PSN behind it.
    talk.gsi(RESPONDER, w.mad(None, 1, b"", mgmt_class=4, attribute=0x12), "PerfMgt")
    talk.wait(1000)
    talk.send_req()
    talk.wait(1000)
    packet = talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.wait(25000)
    talk.send_rep()
    talk.wait(100)
    talk.push(0, "send", 10, trouble=False)
    talk.outcome = "established"
    return packet


@row("cm.after-rej")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28)
    talk.wait(3000)
    talk.outcome = "rejected"
    return talk.send_rep()


@row("cm.after-rej:RTU")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(1000)
    talk.rej(INITIATOR, 1, 28)
    talk.wait(3000)
    talk.outcome = "rejected"
    return talk.message(INITIATOR, "RTU", talk.ids_body(0))


@row("cm.after-drep")
def _(talk):
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    talk.message(RESPONDER, "DREQ", struct.pack(">III", talk.ids[1], talk.ids[0], talk.qpn[0] << 8))
    talk.message(INITIATOR, "DREP", talk.ids_body(0))
    talk.wait(3000)
    return talk.message(INITIATOR, "RTU", talk.ids_body(0))


@row("cm.rep-depths", RELIABLE)
def _(talk):
    talk.send_req()
    talk.wait(200, 5000)
    talk.rep = {**talk.rep_fields(), "ord": talk.req["ird"] + talk.chance.randrange(1, 9)}
    packet = talk.message(RESPONDER, "REP", w.rep(talk.rep))
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    talk.push(0, "send", 10, trouble=False)
    talk.close()
    return packet


@row("cm.mad-packet:short")
def _(talk):
    return whole(talk, lambda p: setattr(p, "payload", p.payload[:talk.chance.randrange(40, 252) // 4 * 4]), ("RTU", "DREQ", "DREP"))


@row("cm.mad-packet:long")
def _(talk):
    return whole(talk, lambda p: setattr(p, "payload", p.payload + bytes(4)), ("RTU", "DREQ", "DREP"))


@row("cm.mad-packet:immediate")
def _(talk):
    def change(packet):
        packet.opcode, packet.ext = w.UD | 5, packet.ext + bytes(4)
    return whole(talk, change, ("RTU", "DREQ", "DREP"))


@row("cm.mad-packet:source QP")
def _(talk):
    return whole(talk, lambda p: setattr(p, "ext", p.ext[:4] + struct.pack(">I", talk.chance.choice((0, 2, talk.qpn[0])))))


@row("cm.rej-about:REQ")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(INITIATOR, 0, 28)


@row("cm.rej-about:REP")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 1, 28)


@row("cm.rej-reason")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(INITIATOR, 1, talk.chance.choice((8, 9, 12, 17, 26, 32)))


@row("cm.rej-unassigned")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, talk.chance.choice((0, 34, 36, 999)), local=0)


@row("cm.unassigned:REJ")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 3, 28, local=0)


@row("cm.rej-info")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    packet = talk.rej(RESPONDER, 0, 28, local=0)
    packet.payload[24 + 9] = talk.chance.randrange(73, 128) << 1
    return packet


@row("cm.dreq-qpn")
def _(talk):
    return whole(talk, lambda p: p.payload.__setitem__(24 + 10, p.payload[24 + 10] ^ 1), ("DREQ",))


@row("cm.mra-about")
def _(talk):
    talk.send_req()
    talk.wait(1000)
    side = talk.chance.choice((0, 1))
    packet = talk.mra(side, side)
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28)
    talk.outcome = "rejected"
    return packet


def refused_req(talk, change):
    talk.choose_service("tcp")
    talk.req = {**talk.req_fields(), **change}
    packet = talk.message(INITIATOR, "REQ", w.req(talk.req))
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28, local=0)
    talk.outcome = "rejected"
    return packet


@row("cm.path-mtu")
def _(talk):
    return refused_req(talk, {"mtu": talk.chance.choice((0, 6, 15))})


@row("cm.service")
def _(talk):
    return refused_req(talk, {"type": 3, "extended": talk.chance.choice((0, 2, 7))})


@row("cm.req-qpn")
def _(talk):
    return refused_req(talk, {"qpn": talk.chance.choice((0, 1, 0xFFFFFF))})


@row("cm.rep-qpn")
def _(talk):
    talk.send_req()
    talk.rep = {**talk.rep_fields(), "qpn": talk.chance.choice((1, 0xFFFFFF) if talk.transport == w.XRC else (0, 1, 0xFFFFFF))}
    packet = talk.message(RESPONDER, "REP", w.rep(talk.rep))
    talk.wait(1000)
    talk.rej(INITIATOR, 1, 28)
    talk.outcome = "rejected"
    return packet


@row("cm.gid")
def _(talk):
    return refused_req(talk, {"gid": ipaddress.ip_address("2001:db8::77").packed})


@row("cm.cma-header:version")
def _(talk):
    packet = refused_req(talk, {})
    packet.payload[24 + 140] = 0x10
    return packet


@row("cm.cma-header:IP version")
def _(talk):
    packet = refused_req(talk, {})
    packet.payload[24 + 141] = 0x50
    return packet


@row("cm.cma-address")
def _(talk):
    packet = refused_req(talk, {})
    packet.payload[24 + talk.chance.choice((159, 175))] ^= 0x40
    return packet


@row("cm.early:REQ")
def _(talk):
    talk.send_req()
    talk.wait(2000, TIMEOUT * 0.8)
    packet = talk.send_req(again=True)
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28, local=0)
    talk.outcome = "rejected"
    return packet


@row("cm.early:MRA")
def _(talk):
    talk.send_req()
    talk.mra(RESPONDER, 0)  # 8.6 s
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
    packet = talk.send_req(again=True)
    talk.wait(1000)
    talk.rej(RESPONDER, 0, 28, local=0)
    talk.outcome = "rejected"
    return packet


@row("cm.early:REP")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(2000, TIMEOUT * 0.8)
    packet = talk.send_rep(again=True)
    talk.wait(1000)
    talk.rej(INITIATOR, 1, 28)
    talk.outcome = "rejected"
    return packet


@row("cm.retries")
def _(talk):
    talk.max_retries = 2
    talk.send_req()
    packet = None
    for _ in range(talk.max_retries + 1):
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.3)
        packet = talk.send_req(again=True)
    talk.outcome = "failed"
    return packet


@row("cm.retries:REP")
def _(talk):
    talk.max_retries = 2
    talk.send_req()
    talk.send_rep()
    packet = None
    for _ in range(talk.max_retries + 1):
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.3)
        packet = talk.send_rep(again=True)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    talk.push(0, "send", 10, trouble=False)
    talk.close()
    return packet


@row("cm.sidr-service", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    talk.outcome = "established"
    talk.message(INITIATOR, "SIDR_REQ", struct.pack(">IHHQ", talk.request_id, 0xFFFF, 0, talk.service) + talk.cma_header())
    talk.wait(100)
    return talk.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", talk.request_id, 0, talk.qpn[1] << 8, talk.service ^ 1, 7))


@row("cm.unassigned:SIDR_REP", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    talk.outcome = "rejected"
    talk.message(INITIATOR, "SIDR_REQ", struct.pack(">IHHQ", talk.request_id, 0xFFFF, 0, talk.service) + talk.cma_header())
    talk.wait(100)
    status = talk.chance.randrange(6, 256)
    return talk.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", talk.request_id, status << 24, 0, talk.service, 0))


@row("cm.sidr-qpn", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    talk.outcome = "established"
    talk.message(INITIATOR, "SIDR_REQ", struct.pack(">IHHQ", talk.request_id, 0xFFFF, 0, talk.service) + talk.cma_header())
    talk.wait(100)
    return talk.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", talk.request_id, 0, talk.chance.choice((0, 1)) << 8,
                                                           talk.service, 7))
