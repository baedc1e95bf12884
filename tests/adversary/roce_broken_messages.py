# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rows of roce_broken_answers.py go on: one field of one message of the CM, for each message and each field."""
import struct

import roce_wire as w
from roce_broken_cm import CONNECTED, RELIABLE, row
from roce_talk import INITIATOR, RESPONDER, TIMEOUT

BODY = 24  # behind the header of the MAD


def established(talk):
    talk.send_req()
    talk.wait(200, 5000)
    talk.send_rep()
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"


def finish(talk):
    talk.push(0, "send", 10, trouble=False)
    talk.close()


def one(kind):
    """Plays a conversation with such a message, and gives the message."""
    def play(talk):
        established(talk)
        finish(talk)
        return next(packet for packet in talk.sent if packet.kind == kind)
    return play


def refused_req(talk):
    talk.send_req()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, 28)


def refused_rep(talk):
    talk.send_req()
    talk.send_rep()
    talk.wait(1000)
    talk.outcome = "rejected"
    return talk.rej(INITIATOR, 1, 28)


def held_req(talk):
    talk.send_req()
    packet = talk.mra(RESPONDER, 0)
    talk.wait(10**6)
    talk.send_rep()
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    finish(talk)
    return packet


def held_rep(talk):
    talk.send_req()
    talk.send_rep()
    packet = talk.mra(INITIATOR, 1)
    talk.wait(10**6)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    finish(talk)
    return packet


def alternate(which):
    def play(talk):
        established(talk)
        talk.push(0, "send", 10, trouble=False)
        packets = talk.alternate_path()
        talk.close()
        return packets[which]
    return play


def resolved(which):
    def play(talk):
        talk.choose_service("udp")
        talk.outcome = "established"
        asked = talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, talk.cma_header()))
        talk.wait(100)
        told = talk.message(RESPONDER, "SIDR_REP", w.sidr_rep(talk.request_id, 0, talk.qpn[1], talk.service, talk.q_key))
        return (asked, told)[which]
    return play


PLAYS = {"REQ": one("REQ"), "REP": one("REP"), "RTU": one("RTU"), "DREQ": one("DREQ"), "DREP": one("DREP"),
         "REJ of the REQ": refused_req, "REJ of the REP": refused_rep, "MRA of the REQ": held_req, "MRA of the REP": held_rep,
         "LAP": alternate(0), "APR": alternate(1), "SIDR_REQ": resolved(0), "SIDR_REP": resolved(1)}


def each(rule, kinds, change, suffix=""):
    """A row for each of those messages, in which `change` of (talk, packet) breaks the rule."""
    for kind in kinds:
        def broken(talk, kind=kind):
            packet = PLAYS[kind](talk)
            change(talk, packet)
            return packet
        row(f"{rule}:{kind}{suffix}", (w.UD,) if kind.startswith("SIDR") else CONNECTED)(broken)


def put(packet, at, octets):
    packet.payload[at:at + len(octets)] = octets


def flip(packet, at, mask, talk):
    """Sets some of these bits."""
    bits = [1 << bit for bit in range(8) if mask >> bit & 1]
    packet.payload[at] |= sum(talk.chance.sample(bits, talk.chance.randrange(1, len(bits) + 1)))


# --- the packet of a MAD and its header
QUIET = ("REJ of the REQ", "REJ of the REP", "MRA of the REQ", "MRA of the REP", "SIDR_REP", "APR")  # what nobody answers
each("cm.q-key", ("REQ", "REP", "SIDR_REQ", "LAP", *QUIET),
     lambda talk, p: setattr(p, "ext", struct.pack(">II", talk.chance.choice((0, 0x11111111, 0x80010001)), 1)))
each("cm.p-key", ("REQ", "REP", "SIDR_REQ", "LAP", *QUIET), lambda talk, p: setattr(p, "p_key", talk.chance.choice((0, 0x8000))))
each("cm.mad-header", ("REP", "DREP", "REJ of the REQ", "SIDR_REP"),
     lambda talk, p: put(p, 0, bytes([talk.chance.choice((0, 2, 0x80))])), ", base version")
each("cm.mad-header", ("REP", "DREP", "REJ of the REQ", "SIDR_REP"),
     lambda talk, p: put(p, 3, bytes([talk.chance.choice((1, 2, 0x81, 0x83))])), ", method")


def cut(talk, packet):
    packet.payload = packet.payload[:talk.chance.randrange(40, 252) // 4 * 4]
    if packet.kind in ("REJ", "SIDR_REP"):  # its receiver drops it
        talk.outcome = "incomplete"


each("cm.mad-packet", ("REJ of the REQ", "MRA of the REP", "SIDR_REP", "APR"), cut, ", short")
each("cm.mad-packet", ("REP", "DREQ", "SIDR_REQ", "SIDR_REP"),
     lambda talk, p: put(p, 6, struct.pack(">H", talk.chance.randrange(1, 2**16))), ", ClassSpecific")
each("ib.tver", ("RTU", "DREP", "REJ of the REQ", "SIDR_REP"), lambda talk, p: setattr(p, "tver", talk.chance.randrange(1, 16)))
each("ib.reserved", ("REQ", "DREQ", "SIDR_REP"), lambda talk, p: setattr(p, "reserved7", talk.chance.randrange(1, 0x80)))
each("ib.eth-reserved", ("REJ of the REP", "SIDR_REQ"),
     lambda talk, p: setattr(p, "ext", p.ext[:4] + struct.pack(">I", talk.chance.randrange(1, 256) << 24 | 1)))

# --- reserved bits: octet of the MAD, mask
RESERVED = {
    "REQ": ((BODY + 4, 0xFF), (BODY + 27, 0xFF), (BODY + 90, 0x0F), (BODY + 91, 0xC0), (BODY + 94, 7), (BODY + 95, 7), (BODY + 134, 0x0F)),
    "MRA of the REQ": ((BODY + 8, 0x3F), (BODY + 9, 7)), "REJ of the REQ": ((BODY + 8, 0x3F), (BODY + 9, 1)),
    "REP": ((BODY + 27, 0x0F),), "LAP": ((BODY + 8, 0xFF), (BODY + 15, 7), (BODY + 19, 0xFF), (BODY + 62, 7)),
    "APR": ((BODY + 10, 0xFF),), "SIDR_REQ": ((BODY + 7, 0xFF),), "RTU": ((18, 0xFF),), "DREP": ((19, 0xFF),),
}
for kind_, places in RESERVED.items():
    for at_, mask_ in places:
        each("cm.reserved", (kind_,), lambda talk, p, at=at_, mask=mask_: flip(p, at, mask, talk), f", octet {at_}")
each("cm.reserved", ("RTU", "DREQ", "REJ of the REP", "MRA of the REQ"),
     lambda talk, p: put(p, 20, struct.pack(">I", talk.chance.randrange(1, 2**32))), ", attribute modifier")


# --- IDs
def other_id(at):
    def change(talk, packet):
        put(packet, at, struct.pack(">I", talk.chance.randrange(1, 2**32)))
    return change


each("cm.comm-id", ("MRA of the REP", "REJ of the REP", "LAP", "APR"), other_id(BODY), ", own")
each("cm.comm-id", ("MRA of the REQ", "MRA of the REP", "LAP", "APR"), other_id(BODY + 4), ", peer's")
each("cm.transaction", ("MRA of the REQ", "MRA of the REP", "REJ of the REP", "SIDR_REP"),
     lambda talk, p: put(p, 8, struct.pack(">Q", talk.chance.randrange(2**64))))
# Any other ID may be that of a LAP which the capture lacks.
each("cm.transaction", ("APR",), lambda talk, p: put(p, 8, struct.pack(">Q", talk.transaction)))


@row("cm.null-id:REQ")
def _(talk):
    talk.ids[0] = 0
    packet = talk.send_req()
    talk.wait(1000)
    if talk.chance.random() < 0.5:
        talk.send_rep()
    talk.wait(1000)
    talk.outcome = "rejected"
    talk.rej(*((RESPONDER, 0) if talk.sent[-1].kind == "REQ" else (INITIATOR, 1)), 28)
    return packet


@row("cm.role:LAP")
def _(talk):
    established(talk)
    talk.wait(200, 5000)
    talk.transaction = talk.chance.randrange(2**64)
    gids = talk.hosts[1].gid, talk.hosts[0].gid
    return talk.message(RESPONDER, "LAP", w.lap((talk.ids[1], talk.ids[0]), talk.qpn[0], 20, *gids))


@row("cm.dreq-qpn:LAP")
def _(talk):
    packet = PLAYS["LAP"](talk)
    packet.payload[BODY + 14] ^= 1
    return packet


# --- codes and lengths
each("cm.unassigned", ("MRA of the REQ",), lambda talk, p: put(p, BODY + 8, b"\xc0"), ", message")
each("cm.unassigned", ("APR",), lambda talk, p: put(p, BODY + 9, bytes([talk.chance.choice((14, 99, 255))])))
each("cm.rej-info", ("APR",), lambda talk, p: put(p, BODY + 8, bytes([talk.chance.randrange(73, 256)])))
each("cm.rej-info", ("SIDR_REP",), lambda talk, p: put(p, BODY + 5, bytes([talk.chance.randrange(73, 256)])))


# --- what is sent again
def req_again(**change):
    def play(talk):
        talk.send_req()
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.4)
        talk.req = {**talk.req, **{key: value(talk) for key, value in change.items()}}
        packet = talk.send_req(again=True)
        talk.wait(100)
        talk.rej(RESPONDER, 0, 28, local=0)
        talk.outcome = "rejected"
        return packet
    return play


def rep_again(**change):
    def play(talk):
        talk.send_req()
        talk.send_rep()
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.4)
        talk.rep = {**talk.rep, **{key: value(talk) for key, value in change.items()}}
        packet = talk.send_rep(again=True)
        talk.wait(100)
        talk.rej(INITIATOR, 1, 28)
        talk.outcome = "rejected"
        return packet
    return play


def other(field, of):
    return lambda talk: (getattr(talk, of)[field] + 1) % 8


CHANGED_REQ = {"timeout": {"timeout": lambda talk: 19}, "flow control": {"flow_control": lambda talk: 1 - talk.req["flow_control"]},
               "P_Key": {"p_key": lambda talk: 0x8456}, "path MTU": {"mtu": lambda talk: talk.req["mtu"] + 1},
               "retry count": {"retry": other("retry", "req")}, "RNR retry count": {"rnr": other("rnr", "req")},
               "CM retries": {"retries": lambda talk: talk.req["retries"] - 1}, "ACK timeout": {"ack_timeout": lambda talk: 18},
               "SRQ": {"srq": lambda talk: 1 - talk.req["srq"]}, "responder resources": {"ird": lambda talk: talk.req["ird"] + 1},
               "private data": {"private": lambda talk: talk.req["private"][:-1] + bytes([talk.req["private"][-1] ^ 1])
                                if talk.req["private"] else b"other"}}
CHANGED_REP = {"QPN": {"qpn": lambda talk: talk.rep["qpn"] ^ 1}, "flow control": {"flow_control": lambda talk: 1 - talk.rep["flow_control"]},
               "initiator depth": {"ord": lambda talk: talk.rep["ord"] - 1}, "RNR retry count": {"rnr": other("rnr", "rep")},
               "private data": {"private": lambda talk: talk.rep["private"] + b"\1" if len(talk.rep["private"]) < 196 else b"other"}}
for what, change_ in CHANGED_REQ.items():
    row(f"cm.req-changed:{what}")(req_again(**change_))
for what, change_ in CHANGED_REP.items():
    row(f"cm.rep-changed:{what}", (w.RC,))(rep_again(**change_))


@row("cm.req-changed:SIDR_REQ", (w.UD,))
def _(talk):
    talk.choose_service("udp")
    talk.outcome = "rejected"
    head = talk.cma_header()
    talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, head))
    talk.wait(TIMEOUT)
    packet = talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, head + b"\7"))
    talk.wait(100)
    talk.message(RESPONDER, "SIDR_REP", w.sidr_rep(talk.request_id, 1, 0, talk.service, 0))
    return packet


def told_otherwise(change):
    def play(talk):
        talk.choose_service("udp")
        talk.outcome = "established"
        head, answer = talk.cma_header(), {"qpn": talk.qpn[1], "q_key": talk.q_key}
        for more in ({}, change(talk)):
            talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, head))
            talk.wait(100)
            packet = talk.message(RESPONDER, "SIDR_REP", w.sidr_rep(talk.request_id, 0, service=talk.service, **{**answer, **more}))
            talk.wait(10**6, 2_500_000)
        return packet
    return play


row("cm.sidr-changed:QPN", (w.UD,))(told_otherwise(lambda talk: {"qpn": talk.qpn[1] ^ 4}))
row("cm.sidr-changed:Q_Key", (w.UD,))(told_otherwise(lambda talk: {"q_key": talk.q_key ^ 4}))


@row("cm.early:MRA of the REP")
def _(talk):
    talk.send_req()
    talk.send_rep()
    talk.mra(INITIATOR, 1)  # 8.6 s
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
    packet = talk.send_rep(again=True)
    talk.wait(1000)
    talk.rej(INITIATOR, 1, 28)
    talk.outcome = "rejected"
    return packet


def dreq(talk, side):
    return talk.message(side, "DREQ", struct.pack(">III", talk.ids[side], talk.ids[1 - side], talk.qpn[1 - side] << 8))


def begun(talk):
    established(talk)
    talk.push(0, "send", 10, trouble=False)
    return talk.chance.choice((0, 1))


@row("cm.retries:DREQ")
def _(talk):
    talk.max_retries = 2
    side = begun(talk)
    dreq(talk, side)
    for _ in range(talk.max_retries + 1):
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.3)
        packet = dreq(talk, side)
    return packet


@row("cm.early:DREQ")
def _(talk):
    side = begun(talk)
    dreq(talk, side)
    talk.wait(3000, TIMEOUT * 0.8)
    packet = dreq(talk, side)
    talk.message(1 - side, "DREP", talk.ids_body(1 - side))
    return packet


@row("cm.after-drep:REP")
def _(talk):
    begun(talk)
    dreq(talk, INITIATOR)
    talk.message(RESPONDER, "DREP", talk.ids_body(1))
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.3)
    return talk.send_rep(again=True)


# --- the addresses of the set-up
def refused(change, **fields):
    def play(talk):
        talk.choose_service("tcp")
        talk.req = {**talk.req_fields(), **{key: value(talk) for key, value in fields.items()}}
        packet = talk.message(INITIATOR, "REQ", w.req(talk.req))
        if change:
            change(talk, packet)
        talk.wait(1000)
        talk.rej(RESPONDER, 0, 28, local=0)
        talk.outcome = "rejected"
        return packet
    return play


row("cm.gid:destination")(refused(None, peer_gid=lambda talk: bytes([0x20, 1, 0xD, 0xB8, *bytes(11), 0x78])))
row("cm.req-p-key")(refused(None, p_key=lambda talk: talk.chance.choice((0, 0x8000))))
each("cm.req-p-key", ("SIDR_REQ",), lambda talk, p: put(p, BODY + 4, talk.chance.choice((b"\0\0", b"\x80\0"))))
row("cm.cma-header:reserved")(refused(lambda talk, p: put(p, BODY + 141, bytes([p.payload[BODY + 141] | talk.chance.randrange(1, 16)]))))


@row("cm.cma-address:SIDR_REQ", (w.UD,))
def _(talk):
    packet = PLAYS["SIDR_REQ"](talk)
    packet.payload[BODY + 16 + talk.chance.choice((19, 35))] ^= 0x40
    return packet


@row("cm.cma-header:SIDR_REQ", (w.UD,))
def _(talk):
    packet = PLAYS["SIDR_REQ"](talk)
    packet.payload[BODY + 16] = 0x10
    return packet


# --- what its receiver must drop
def dropped(change, kind="REQ"):
    def play(talk):
        if kind == "REQ":
            request = talk.send_req()
        else:
            talk.choose_service("udp")
            request = talk.message(INITIATOR, "SIDR_REQ", w.sidr_req(talk.request_id, talk.service, talk.cma_header()))
        change(talk, request)
        talk.wait(1000)
        talk.outcome = "rejected"
        if kind == "REQ":
            return talk.rej(RESPONDER, 0, 28, local=0)
        return talk.message(RESPONDER, "SIDR_REP", w.sidr_rep(talk.request_id, 1, 0, talk.service, 0))
    return play


for what, change_ in {"base version": lambda talk, p: put(p, 0, b"\2"), "method": lambda talk, p: put(p, 3, b"\x81"),
                      "P_Key": lambda talk, p: setattr(p, "p_key", 0), "transport version": lambda talk, p: setattr(p, "tver", 2)}.items():
    row(f"cm.dropped:REQ, {what}")(dropped(change_))
    row(f"cm.dropped:SIDR_REQ, {what}", (w.UD,))(dropped(change_, "SIDR_REQ"))


@row("cm.rep-depths:none", RELIABLE)
def _(talk):
    talk.send_req()
    talk.req = {**talk.req, "ird": 0}
    talk.sent[-1].payload[BODY + 35] = 0
    talk.wait(200, 5000)
    talk.rep = {**talk.rep_fields(), "ord": talk.chance.randrange(1, 256)}
    packet = talk.message(RESPONDER, "REP", w.rep(talk.rep))
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    finish(talk)
    return packet
