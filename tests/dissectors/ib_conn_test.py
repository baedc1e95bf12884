# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What belongs together in RoCE and the InfiniBand CM: messages to their connection and to what they answer, data to the
set-up of its queue pair."""
import os
import random
import unittest

import ib_wire as ib
from ib_case import LINKS, Case, links

RULES = ("parley.rule.ib.service", "parley.rule.cm.comm_id")
FIELDS = (*LINKS, "_ws.col.Info", "parley.ib", "parley.ibcm.retransmission", *RULES)
# Of each test, which has hosts of its own: who sends what. ">": from the side that connects, "<": back; "c": with a third host, "x":
# between the side that connects and a third host;
# "=": with itself; "6": over IPv6; "1": RoCEv1; "+": two seconds later.
TALKS = {
    "a_connection_from_its_req_to_its_drep": [
        (">", ib.req(1, ("tcp", 7174), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)),
        (">", ib.data(4, 0x22)),
        ("<", ib.data(0x11, 0x11)),
        ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)),
        (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)),
    ],
    "repeated_messages_know_their_first": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.cm(ib.MRA, local_comm_id=2, remote_comm_id=1, service_timeout=20)),
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)),
    ],
    "an_id_that_is_used_again_begins_anew": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.req(1, ("tcp", 2), 0x11, transaction=2)),
        ("<", ib.rep(3, 1, 0x22, transaction=2)),
        (">", ib.data(4, 0x22)),
        ("<", ib.data(4, 0x11)),
    ],
    "queue_pairs_are_free_again_after_a_reject": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.data(4, 0x22, psn=200)),
        ("<", ib.cm(ib.REJ, local_comm_id=2, remote_comm_id=1, reason=28)),
        ("+>", ib.data(4, 0x22, psn=0x700000)),
    ],
    "queue_pairs_are_free_again_after_a_drep": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.data(4, 0x22, psn=200)),
        ("<", ib.cm(ib.DREP, local_comm_id=2, remote_comm_id=1)),
        ("+>", ib.data(4, 0x22, psn=0x700000)),
        ("<", ib.data(4, 0x11, psn=0x700000)),
    ],
    "data_of_another_transport_on_a_live_queue_pair_is_an_error": [
        (">", ib.req(1, ("tcp", 1), 0x11, transport=ib.UC)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.data(0x24, 0x22, 200)),
        (">", ib.data(0x04, 0x22, 201)),
        (">", ib.data(0x64, 0x22, 202)),
    ],
    "xrc_has_its_queue_pair_where_an_ee_context_stands": [
        (">", ib.req(1, ("ib", 9015), 0x55, transport=ib.XRC)),
        ("<", ib.rep(2, 1, 0x77, transport=ib.XRC)),
        (">", ib.data(ib.XRC | 4, 0x77)),
        ("<", ib.data(ib.XRC | 0x11, 0x55)),
        (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=2, remote_qpn=0x77)),
    ],
    "rejects": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.cm(ib.REJ, local_comm_id=0, remote_comm_id=1, reason=8)),
        (">", ib.req(2, ("tcp", 2), 0x12)),
        ("<", ib.rep(9, 2, 0x22)),
        (">", ib.cm(ib.REJ, local_comm_id=2, remote_comm_id=9, about=1, reason=28)),
        (">", ib.req(3, ("tcp", 3), 0x13)),
        (">", ib.cm(ib.REJ, local_comm_id=3, about=2, reason=4, info_length=8, info=b"12345678")),
    ],
    "both_sides_disconnect": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=2, remote_qpn=0x22)),
        ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)),
        (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)),
        ("<", ib.cm(ib.DREP, local_comm_id=2, remote_comm_id=1)),
    ],
    "a_path_is_loaded": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.cm(ib.LAP, local_comm_id=1, remote_comm_id=2, remote_qpn=0x22)),
        ("<", ib.cm(ib.MRA, local_comm_id=2, remote_comm_id=1, about=2)),
        ("<", ib.cm(ib.APR, local_comm_id=2, remote_comm_id=1)),
    ],
    "datagrams_after_sidr": [
        (">", ib.cm(ib.SIDR_REQ, request_id=5, service_id=ib.service_id("udp", 7174))),
        ("<", ib.cm(ib.SIDR_REP, request_id=5, qpn=0x33, q_key=0x1234567, service_id=ib.service_id("udp", 7174))),
        (">", ib.data(0x64, 0x33, source_qpn=0x11)),
        ("<", ib.data(0x64, 0x11, source_qpn=0x33)),
        ("<", ib.data(0x64, 0x11, source_qpn=0x34)),
        (">", ib.cm(ib.SIDR_REQ, request_id=6, service_id=ib.service_id("udp", 1))),
        ("<", ib.cm(ib.SIDR_REP, request_id=6, sidr_status=1, qpn=0x44)),
        (">", ib.data(0x64, 0x44)),
    ],
    "what_the_capture_lacks": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)),
        ("<", ib.data(0x11, 0x11)),
        ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)),
        (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)),
        ("<", ib.rep(8, 9, 0x55, transaction=7)),
        (">", ib.cm(ib.RTU, local_comm_id=9, remote_comm_id=8, transaction=7)),
        (">", ib.data(4, 0x55)),
    ],
    "a_message_of_other_ids_is_an_error": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.cm(ib.RTU, local_comm_id=7, remote_comm_id=2)),
        ("<", ib.cm(ib.DREQ, local_comm_id=7, remote_comm_id=1)),
        (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=7)),
    ],
    "a_stranger_answers": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("x<", ib.rep(2, 1, 0x22)),
        ("<", ib.rep(3, 1, 0x33)),
        ("x<", ib.cm(ib.DREQ, local_comm_id=3, remote_comm_id=1)),
        ("<", ib.cm(ib.REJ, local_comm_id=3, remote_comm_id=1, reason=28)),
        ("x>", ib.cm(ib.REJ, local_comm_id=1, about=2, reason=4)),
    ],
    "numbers_mean_something_between_two_hosts_only": [
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("c>", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(10, 1, 0x22)),
        ("c<", ib.rep(11, 1, 0x23)),
        (">", ib.data(4, 0x22)),
        ("c>", ib.data(4, 0x23)),
        (">", ib.data(4, 0x23)),
        ("c>", ib.data(4, 0x22)),
        ("c<", ib.data(0x11, 0x11)),
        ("<", ib.data(0x11, 0x11)),
    ],
    "one_host_with_itself": [
        ("=", ib.req(1, ("tcp", 1), 0x11)),
        ("=", ib.rep(2, 1, 0x22)),
        ("=", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)),
        ("=", ib.data(4, 0x22)),
        ("=", ib.data(0x11, 0x11)),
    ],
    "over_ipv6_and_rocev1": [(f"{kind}{way}", packet) for kind in ("6", "1", "16") for way, packet in (
        (">", ib.req(1, ("tcp", 1), 0x11)),
        ("<", ib.rep(2, 1, 0x22)),
        (">", ib.data(4, 0x22)),
        ("<", ib.data(0x11, 0x11)),
    )],
}
SEED = int(os.environ.get("PARLEY_SEED", "4791"))


def relative(one, frames, connections):
    """The links as if the test's frames were the first of the capture."""
    numbers = ("_in", ".req", ".rep", "_of")
    return {name: str(int(value) - (connections if name == "connection" else frames)) if name == "connection" or name.endswith(numbers) else value
            for name, value in one.items()}


def sent(way, packet, number):
    """The frame, between the hosts of that test."""
    way = way.removeprefix("+")
    kind, back = way.rstrip("<>="), way.endswith("<")
    a, b = (f"2001:db8:{number}:{kind}::{host}" if kind.endswith("6") else f"10.0.{number}.{host}" for host in (3 if kind == "c" else 2, 1))
    if kind == "x":
        b = f"10.0.{number}.3"
    source, destination = (a, a) if way == "=" else (b, a) if back else (a, b)
    return (ib.v1 if kind.startswith("1") else ib.v2)(packet, source, destination)


class Made(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        capture, places = ib.Frames(), {}
        for number, (name, talk) in enumerate(TALKS.items(), 1):
            places[name] = [capture.add(sent(way, packet, number), after=2_000_000 if way[0] == "+" else 1000) for way, packet in talk]
        frames = cls("seen").shown(capture.octets(), FIELDS)
        cls.talks, connections = {}, 0
        for name, numbers in places.items():
            cls.talks[name] = [relative(links(frames[number]), numbers[0] - 1, connections) for number in numbers]
            connections = max(int(links(frames[number]).get("connection", 0)) for number in numbers) or connections
        cls.rules = {name: {number - numbers[0] + 1: [rule for rule in RULES if rule in frames[number]] for number in numbers
                            if set(RULES) & set(frames[number])} for name, numbers in places.items()}
        cls.remarks = {name: [number - numbers[0] + 1 for number in numbers if "parley.ibcm.retransmission" in frames[number]]
                       for name, numbers in places.items()}

    def seen(self, name=None):
        """[links] of the frames of this test, which is counted as if it were alone."""
        return self.talks[name or self._testMethodName.removeprefix("test_")]

    def test_a_connection_from_its_req_to_its_drep(self):
        seen = self.seen()
        every = {"req_in": "1", "rep_in": "2", "rtu_in": "3", "dreq_in": "6", "drep_in": "7"}
        own = {1: "req_in", 2: "rep_in", 3: "rtu_in", 6: "dreq_in", 7: "drep_in"}
        more = {1: {"response_in": "2"}, 2: {"request_in": "1", "time": "0.001000000", "response_in": "3"},
                3: {"request_in": "2", "time": "0.001000000"}, 6: {"response_in": "7"}, 7: {"request_in": "6", "time": "0.001000000"}}
        for frame, one in enumerate(seen, 1):
            expected = {"connection": "1", "service": "tcp:7174", "from": "1" if frame in (2, 5, 6) else "0"}
            if frame in own:
                expected |= {name: value for name, value in every.items() if name != own[frame]} | more[frame]
            else:
                expected |= {"setup.req": "1", "setup.rep": "2"}
            self.assertEqual(one, expected, frame)

    def test_repeated_messages_know_their_first(self):
        seen = self.seen()
        self.assertEqual([(one.get("retransmission_of"), one.get("copy"), one.get("request_in"), one.get("response_in")) for one in seen],
                         [(None, None, None, "5"), ("1", "2", None, "5"), (None, None, "1", None), ("1", "3", None, "5"),
                          (None, None, "1", "7"), ("5", "2", "1", "7"), (None, None, "5", None)])
        self.assertEqual(self.remarks["repeated_messages_know_their_first"], [2, 4, 6])

    def test_an_id_that_is_used_again_begins_anew(self):
        """As after a reboot: the same ID and number, another REQ."""
        seen = self.seen()
        self.assertEqual([one["connection"] for one in seen], ["1", "1", "2", "2", "2", "2"])
        self.assertEqual([one["service"] for one in seen[4:]], ["tcp:2"] * 2)
        self.assertEqual([seen[1].get("request_in"), seen[3].get("request_in")], ["1", "3"])

    def test_numbers_mean_something_between_two_hosts_only(self):
        """Two peers that use the same ID, queue pair and service towards one host."""
        self.assertEqual([one.get("connection") for one in self.seen()], ["1", "2", "1", "2", "1", "2", None, None, "2", "1"])

    def test_queue_pairs_are_free_again_after_a_reject_or_a_drep(self):
        """What another program sets up over TCP with the same numbers belongs to nothing."""
        for last in "reject", "drep":
            seen = self.seen(f"queue_pairs_are_free_again_after_a_{last}")
            self.assertEqual([one.get("connection") for one in seen], ["1"] * 4 + [None] * (len(seen) - 4))

    def test_data_of_another_transport_on_a_live_queue_pair_is_an_error(self):
        """Not the datagram, which may belong to a new use: no later packet shows that the connection goes on."""
        seen = self.seen()
        self.assertEqual([one.get("connection") for one in seen], ["1"] * 5)
        self.assertEqual(self.rules[self._testMethodName.removeprefix("test_")], {4: ["parley.rule.ib.service"]})

    def test_xrc_has_its_queue_pair_where_an_ee_context_stands(self):
        seen = self.seen()
        self.assertEqual([(one.get("connection"), one.get("from"), one.get("service")) for one in seen],
                         [("1", side, "ib:9015") for side in ("0", "1", "0", "1", "0")])

    def test_rejects(self):
        """Of a REQ by who has no ID, of a REP, and by who gave up and knows no ID of the other side."""
        seen = self.seen()
        self.assertEqual([one["connection"] for one in seen], ["1", "1", "2", "2", "2", "3", "3"])
        self.assertEqual([(one.get("request_in"), one["from"], one.get("req_in")) for one in (seen[1], seen[4], seen[6])],
                         [("1", "1", "1"), ("4", "0", "3"), (None, "0", "6")])
        self.assertEqual([seen[0]["response_in"], seen[3]["response_in"], seen[5].get("response_in"), seen[5]["rej_in"]], ["2", "5", None, "7"])

    def test_both_sides_disconnect(self):
        seen = self.seen()
        self.assertEqual([(one.get("request_in"), one.get("response_in"), one.get("retransmission_of")) for one in seen[2:]],
                         [(None, "6", None), (None, "5", None), ("4", None, None), ("3", None, None)])

    def test_a_path_is_loaded(self):
        seen = self.seen()
        self.assertEqual([(one.get("request_in"), one.get("response_in"), one["connection"]) for one in seen[2:]], [(None, "5", "1"), ("3", None, "1"), ("3", None, "1")])

    def test_datagrams_after_sidr(self):
        """The side that was resolved answers to a number which the CM never said."""
        seen = self.seen()
        self.assertEqual([(one.get("connection"), one.get("from"), one.get("service")) for one in seen],
                         [("1", "0", "udp:7174"), ("1", "1", "udp:7174"), ("1", "0", "udp:7174"), ("1", "1", "udp:7174"), (None, None, None),
                          ("2", "0", "udp:1"), ("2", "1", "udp:1"), (None, None, None)])
        self.assertEqual((seen[0]["response_in"], seen[1]["request_in"], seen[6]["request_in"]), ("2", "1", "6"))

    def test_what_the_capture_lacks(self):
        """Without the REP its ID is known from the DREQ; without the REQ the service is not known."""
        seen = self.seen()
        self.assertEqual([one.get("connection") for one in seen], ["1"] * 5 + ["2"] * 3)
        self.assertEqual((seen[1].get("request_in"), seen[4]["request_in"]), (None, "4"))
        self.assertEqual([one.get("service") for one in seen], ["tcp:1"] * 5 + [None] * 3)

    def test_a_message_of_other_ids_is_an_error(self):
        """One of the two IDs tells whose it is."""
        seen = self.seen()
        self.assertEqual([one.get("connection") for one in seen], ["1"] * 5)
        self.assertEqual(self.rules[self._testMethodName.removeprefix("test_")], {frame: ["parley.rule.cm.comm_id"] for frame in (3, 4, 5)})

    def test_what_has_a_wrong_icrc_counts_for_nothing(self):
        capture = ib.Frames()
        capture.add(ib.v2(ib.req(1, ("tcp", 1), 0x11)))
        capture.add(ib.v2(ib.rep(2, 1, 0x22), ib.B, ib.A))
        capture.add(ib.v2(ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2), damage=1))
        capture.add(ib.v2(ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=2, remote_qpn=0x22)))
        for options, found in ((), ["1", "1", None, "1"]), (("-o", "parley.ib.icrc:FALSE"), ["1"] * 4):
            frames = self.once(capture.octets(), FIELDS, options)
            self.assertEqual([links(layers).get("connection") for layers in frames.values()], found)

    def test_over_ipv6_and_rocev1(self):
        self.assertEqual([one.get("connection") for one in self.seen()], ["1"] * 4 + ["2"] * 4 + ["3"] * 4)

    def test_one_host_with_itself(self):
        """Loopback: both sides have one address, and only the IDs and numbers differ."""
        self.assertEqual([one["from"] for one in self.seen()], ["0", "1", "0", "0", "1"])

    def test_a_stranger_answers(self):
        """Who is not asked does not belong to the connection, and the first answer is the answer."""
        self.assertEqual([one.get("connection") for one in self.seen()], ["1", "2", "1", "2", "1", "2"])
        self.assertEqual([one.get("response_in") for one in self.seen()], ["3"] + [None] * 5)

    def test_one_pass_and_two_agree_on_anything(self):
        """Few IDs and numbers, so that they meet in every order; shown() compares."""
        chance, capture = random.Random(SEED), ib.Frames()
        for _ in range(2000):
            own, other, qpn, source, destination = chance.randrange(4), chance.randrange(4), chance.randrange(0x11, 0x15), *chance.sample((ib.A, ib.B), 2)
            kind = chance.choice([*ib.FIELDS, None, None])
            ids = {"request_id": own, "qpn": qpn} if kind == ib.SIDR_REP else {"request_id": own} if kind == ib.SIDR_REQ else {"local_comm_id": own}
            if kind and "remote_comm_id" in ib.FIELDS[kind]:
                ids["remote_comm_id"] = other
            if kind in (ib.REQ, ib.REP):
                ids["local_qpn"] = qpn
            packet = ib.cm(kind, **ids) if kind else ib.data(chance.choice((0x04, 0x11, 0x64)), qpn, source_qpn=qpn)
            capture.add(ib.v2(packet, source, destination))
        frames = self.shown(capture.octets(), FIELDS)
        self.assertGreater(sum("parley.ib.connection" in layers for layers in frames.values()), 1000)
        self.assertGreater(len({value for layers in frames.values() for value in layers.get("parley.ib.connection", ())}), 50)


if __name__ == "__main__":
    unittest.main()
