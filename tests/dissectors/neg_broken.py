# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The broken rules of staged QP negotiations (docs/negotiation.md, Rules): for each what keeps the rules, then the message that
does not. The plugin, `parley pcap check` and live sessions are held to one sentence each."""
from neg_wire import (DONE, HELLO, INFO, LAST, READY, TURN, abort, hello, item, message, qp_info, turn, welcome)
from wire import INITIATOR, RESPONDER

INFO_11 = turn(INFO, 1, qp_info())
AT_ONCE = ("the message has version", "the message announces", "the peer speaks")


def violations():
    """[(name, bursts that keep the rules, who breaks one, the message that does, what is said of it)]"""
    i, r = INITIATOR, RESPONDER
    start = [(i, hello() + INFO_11)]
    talking = [*start, (r, welcome() + turn(INFO, 1, qp_info(0x22)))]
    ready = [*talking, (i, turn(READY, 1, b"\1"))]
    slow = [(i, hello(b"counter") + turn(INFO, 1, b"1", last=False)), (r, welcome() + turn(INFO, 1, b"2", last=False))]
    half = [(i, hello(b"counter") + turn(INFO, 1, b"1")), (r, welcome() + turn(INFO, 1, b"2", last=False))]
    return [
        ("version", start, r, message(2, version=2), "the message has version 2; this side supports 1"),
        ("version of the first", [], i, message(HELLO, hello()[16:], version=7), "the message has version 7; this side supports 1"),
        ("type", talking, i, message(5), "the message has type 5"),
        ("stage", talking, i, message(TURN, stage=4, round_=1), "the message has stage 4"),
        ("turn of no stage", talking, i, message(TURN, b"\1", round_=1), "a message of type 3 has stage 0"),
        ("hello of a stage", [], i, message(HELLO, hello()[16:], stage=INFO), "a message of type 1 has stage 1"),
        ("flags", talking, i, turn(READY, 1, b"\1")[:7] + b"\x81" + turn(READY, 1, b"\1")[8:], "reserved bits are set: flags 129, reserved 0"),
        ("last of a hello", [], i, message(HELLO, hello()[16:], flags=LAST), "reserved bits are set: flags 128, reserved 0"),
        ("reserved", talking, i, turn(READY, 1, b"\1", reserved=258), "reserved bits are set: flags 128, reserved 258"),
        ("length", talking, i, message(TURN, b"\1", READY, LAST, 1, length=0x100001), "the message announces 1048577 octets; at most 1048576"),
        ("item cut", [], i, hello(more=item(4, b"x", length=9)), "an item of 9 octets is cut off"),
        ("half an item", [], i, hello(more=b"\0\4\0"), "an item of 0 octets is cut off"),
        ("critical item", [], i, hello(more=item(0x8077)), "item 32887 is unknown and must not be skipped"),
        ("critical item of a welcome", start, r, welcome(item(0x8078, b"x")), "item 32888 is unknown and must not be skipped"),
        ("item of an abort", talking, i, abort(more=b"\0"), "an item of 0 octets is cut off"),
        ("critical item of an abort", talking, i, abort(more=item(0x8077)), "item 32887 is unknown and must not be skipped"),
        ("second hello", start, i, hello(), "a Hello where none is expected"),
        ("hello of the responder", start, r, hello(), "a Hello where none is expected"),
        ("second welcome", talking, r, welcome(), "a Welcome where none is expected"),
        ("welcome of the initiator", start, i, welcome(), "a Welcome where none is expected"),
        ("welcome first", [], i, welcome(), "a Welcome where none is expected"),
        ("no welcome", start, r, turn(INFO, 1, qp_info(0x22)), "a Turn before the Welcome"),
        ("no hello", [], i, INFO_11, "a Turn before the Welcome"),
        ("backwards", ready, i, turn(INFO, 2), "a Turn of the stage info; the stage is ready"),
        ("info goes on", talking, i, turn(INFO, 2), "a Turn of the stage info; the stage is ready"),
        ("a stage left out", talking, i, turn(DONE, 1), "a Turn of the stage done; the stage is ready"),
        ("a stage left out early", start, i, turn(DONE, 1), "a Turn of the stage done; the stage is info"),
        ("after the end", [*ready, (r, turn(READY, 1, b"\1"))], i, turn(READY, 2), "a Turn of the stage ready after the end of the session"),
        ("not yet through", slow, i, turn(READY, 1, b"1"), "a Turn of the stage ready; the stage is info"),
        ("the peer is not through", half, i, turn(READY, 1, b"1"), "a Turn of the stage ready; the stage is info"),
        ("done that nobody announced", [*ready, (r, turn(READY, 1, b"\1"))], i, turn(DONE, 1),
         "a Turn of the stage done; the Hello announced no such stage"),
        ("round left out", slow, i, turn(INFO, 3, b"1"), "round 3 follows round 1"),
        ("round again", slow, i, turn(INFO, 1, b"1"), "round 1 follows round 1"),
        ("first round", [(i, hello(b"counter"))], i, turn(INFO, 0, b"1"), "round 0 follows round 0"),
        ("round of a new stage", talking, i, turn(READY, 2, b"\1"), "round 2 follows round 0"),
        ("data after the last", half, i, turn(INFO, 2, b"more"), "a Turn with data after the peer's last one"),
        ("no longer last", half, i, turn(INFO, 2, last=False), "a Turn with data after the peer's last one"),
        ("another protocol", start, r, b"SSH-2.0-OpenSSH_9.2\r\n",
         "the peer speaks another protocol: 53 53 48 2d 32 2e 30 2d 4f 70 65 6e 53 53 48 5f ('SSH-2.0-OpenSSH_')"),
        ("no magic later", talking, i, b"\0QPng", "the peer speaks another protocol: 00 51 50 6e 67 ('.QPng')"),
        ("no psn", [], i, hello() + turn(INFO, 1, qp_info()[:12]), "the item psn is missing"),
        ("no qkey", [], i, hello(b"verbs-ud") + turn(INFO, 1, qp_info(transport=3)), "the item qkey is missing; UD needs it"),
        ("size of an item", [], i, hello() + turn(INFO, 1, qp_info(more=item(5, b"12"))), "item 0x0005 has 2 octets, 4 are expected"),
        ("critical item of a queue pair", [], i, hello() + turn(INFO, 1, qp_info(more=item(0x80FF))),
         "item 0x80ff is unknown and must not be skipped"),
        ("item of a queue pair cut", [], i, hello() + turn(INFO, 1, qp_info(more=item(5, b"12", length=4))), "item 0x0005 of 4 octets is cut off"),
        ("version of attributes", [], i, hello() + turn(INFO, 1, b"\2" + qp_info()[1:]), "the attributes have version 2; this side supports 1"),
        ("short attributes", [], i, hello() + turn(INFO, 1, b"\1"), "1 octet, 4 are expected"),
        ("no word", talking, i, turn(READY, 1, b"\7"), "07 is not a word of the stage ready"),
    ]
