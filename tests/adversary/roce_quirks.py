# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Conversations over RoCEv2 in which one side departs from the specification as Linux is known to. Each row plays its conversation and
returns the packet that shows the departure, and what the other side had done wrong before: [(packet, rule)]. If several packets show it, it
returns their list: the first of them is reported, or a later one if a loss hides what the first departs from. The name of a row is the quirk's
of `parley quirks`, what follows a colon tells the ways to show it apart."""
import struct

import roce_wire as w
from roce_broken_cm import CONNECTED, RELIABLE
from roce_broken_data import begun, ended
from roce_talk import INITIATOR, RESPONDER, SIDES, TIMEOUT

ROWS = {}
WHOLE = set()  # what only the whole of it shows


def row(name, transports=CONNECTED, whole=False):
    def add(play):
        WHOLE.update([name] * whole)
        ROWS[name] = (play, transports)
        return play
    return add


def asked_again(talk, over=False):
    """The REQ of a connection that is over comes once more; whoever it finds has another ID and queue pair."""
    if not over:
        talk.set_up()
        talk.push(0, "send", 10, trouble=False)
        talk.close()
    talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
    talk.send_req(again=True)
    talk.wait(200, 5000)
    talk.ids[1] ^= talk.chance.randrange(1, 2**32)
    talk.qpn[1] ^= talk.chance.randrange(1, 2**23)


@row("forgets-in-timewait:REP")
def _(talk):
    asked_again(talk)
    packet = talk.send_rep()
    how = talk.chance.randrange(3)
    if how == 0:
        talk.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
        talk.send_rep(again=True)
    elif how == 1:
        talk.close()
    else:  # and once more
        asked_again(talk, over=True)
        return [packet, talk.send_rep()], []
    return packet, []


@row("forgets-in-timewait:the initiator ends what it knows of", whole=True)
def _(talk):
    asked_again(talk)
    packet = talk.send_rep()
    talk.wait(1000)
    body = next(sent.payload for sent in talk.sent if sent.kind == "REP")[24:]
    qpn = 16 if talk.transport == w.XRC else 12
    talk.message(INITIATOR, "DREQ", struct.pack(">I", talk.ids[0]) + body[:4] + body[qpn:qpn + 4])
    return packet, []


@row("forgets-in-timewait:MRA")
def _(talk):
    asked_again(talk)
    packet = talk.mra(RESPONDER, 0)
    talk.wait(10**6)
    talk.send_rep()
    return packet, []


@row("forgets-in-timewait:REJ")
def _(talk):
    asked_again(talk)
    return talk.rej(RESPONDER, 0, talk.chance.choice((8, 28))), []


def asked_for(talk, change):
    talk.choose_service("tcp")
    talk.req = {**talk.req_fields(), **change}
    asked = talk.message(INITIATOR, "REQ", w.req(talk.req))
    talk.wait(200, 5000)
    return asked


@row("takes-path-mtu")
def _(talk):
    asked = asked_for(talk, {"mtu": talk.chance.choice((0, 6, 7, 15))})
    packet = talk.send_rep()
    talk.wait(100, 2000)
    talk.message(INITIATOR, "RTU", talk.ids_body(0))
    talk.outcome = "established"
    return ended(talk, packet), [(asked, "cm.path-mtu")]


def refused(talk):
    talk.outcome = "rejected"
    return talk.rej(RESPONDER, 0, 28, local=talk.chance.choice((0, talk.ids[1])))


@row("rejects-service-type:RD")
def _(talk):
    asked_for(talk, {"type": 2, "extended": 0})
    return refused(talk), []


@row("rejects-service-type:extended")
def _(talk):
    asked = asked_for(talk, {"type": 3, "extended": talk.chance.choice((0, 2, 7))})
    return refused(talk), [(asked, "cm.service")]


def either(talk):
    """Who asks: of XRC only the initiator does."""
    return 0 if talk.transport == w.XRC else talk.chance.choice((0, 1))


def short_message(talk, side, before):
    queue = talk.queues[side]
    for name in before:
        talk.ask(side, name, queue.take(), payload=bytes(talk.mtu))
    psn = queue.take()
    short = talk.ask(side, "send_middle" if before else "send_first", psn, payload=bytes(talk.mtu - 4), ack_req=True)
    packet = talk.answer(1 - side, "ack", psn, talk.aeth(1 - side))
    last = queue.take()
    talk.ask(side, "send_last", last, payload=b"abcd", ack_req=True)
    queue.msn = (queue.msn + 1) % 2**24
    talk.answer(1 - side, "ack", last, talk.aeth(1 - side))
    return packet, short


def sent_short(talk, before, times=1):
    begun(talk)
    talk.push(0, "send", 10, trouble=False)
    side = either(talk)
    answers, shorts = zip(*(short_message(talk, side, before) for _ in range(times)))
    return ended(talk, answers[0]), [(short, "ib.length") for short in shorts]


@row("takes-short-first:First", RELIABLE)
def _(talk):
    return sent_short(talk, ())


@row("takes-short-first:Middle", RELIABLE)
def _(talk):
    return sent_short(talk, ("send_first", "send_middle"))


@row("takes-short-first:twice, of which the first is told", RELIABLE, whole=True)
def _(talk):
    return sent_short(talk, (), 2)


def read_again(talk, over=False):
    begun(talk)
    side = either(talk)
    asked, _ = talk.read(side, 0, trouble=False)
    talk.wait(2_200_000)
    talk.ask(side, "read", asked.psn, asked.ext[-16:], ack_req=True)
    if over:
        talk.close()
    return talk.answer(1 - side, "ack", asked.psn, talk.aeth(1 - side, 0x62)), []


@row("looks-read-up-again", RELIABLE)
def _(talk):
    return read_again(talk)


@row("looks-read-up-again:behind the end", RELIABLE)
def _(talk):
    return read_again(talk, over=True)


@row("retries-for-ever", (w.RC,))
def _(talk):
    talk.retry = 7
    talk.set_up()
    talk.push(0, "send", 10, trouble=False)
    psn = talk.queues[0].take()
    talk.ask(0, "send_only", psn, payload=b"abcd", ack_req=True)
    for _ in range(8):
        talk.wait(2_200_000)
        packet = talk.ask(0, "send_only", psn, payload=b"abcd", ack_req=True)
    talk.queues[0].executed(True)
    talk.answer(1, "ack", psn, talk.aeth(1))
    return ended(talk, packet), []


def judge(case, base, found):
    """What `parley pcap check` says of it wrongly. `base`: the frames before the conversation."""
    _, quirk, side = case.due
    frames = [base + next(place for place, frame in enumerate(case.frames, 1) if frame[1] is packet)
              for packet in (case.shown if case.optional else case.shown[:1])
              if any(frame[1] is packet for frame in case.frames)]
    findings = [finding for connection in found for finding in connection["findings"]]
    notes = [(f["frame"], f["side"]) for f in findings if f["severity"] == "note" and f"(quirk {quirk})" in f["text"]]
    wrong = [f"also said: {f['text']}" for f in findings if f["severity"] == "note" and "(quirk " in f["text"]
             and f"(quirk {quirk})" not in f["text"]]
    if notes not in [[(frame, SIDES[side])] for frame in frames] and (notes or not case.optional):
        wrong.append(f"{quirk} of the {SIDES[side]} is told at {notes}, it is shown at {frames}")
    blamed = {(base + place, key) for place, frame in enumerate(case.frames, 1) for culprit, key in case.blamed if frame[1] is culprit}
    told = {(f["frame"], f["key"]): f["severity"] for f in findings if f["severity"] != "note"}
    more = [each for each, severity in sorted(told.items()) if each not in blamed and (severity == "error" or not case.optional)]
    return (wrong + [f"also said: {each}" for each in more] +
            [f"not found: {each}" for each in sorted(blamed - set(told)) if not case.optional])
