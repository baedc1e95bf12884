# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What belongs together in RoCE and the InfiniBand CM: messages to their connection and to what they answer, data to the
set-up of its queue pair. The captured ones are held to another decoder's reading, joined here in another way."""
import unittest

import ib_wire as ib
from ib_case import CAPTURES, INFINIBAND, LINKS, NOTE, Case, number, other_reading, udp_frames

ANSWERS = {"REP": "REQ", "RTU": "REP", "DREP": "DREQ", "APR": "LAP", "SIDR_REP": "SIDR_REQ"}
ABOUT = {"0": "REQ", "1": "REP"}
FIELDS = (*LINKS, "_ws.col.Info", "parley.ib", "parley.ibcm.message")


def links(layers):
    """{short name: value} of the numbers that are shown."""
    names = {field: field.split(".", 2)[2] for field in LINKS}
    return {names[field]: values[0] for field, values in layers.items() if field in names}


class Joined:
    """The messages of a capture, by the other decoder, joined by pairs of communication IDs; no address is looked at."""

    def __init__(self, name):
        self.of = {}  # frame: (connection, sender's side, type, fields)
        self.connections, self.first, self.copies = [], {}, {}
        for frame, kind, fields in other_reading(name):
            connection, side = self.find(kind, fields)
            self.of[frame] = connection, side, kind, fields
            key = id(connection), side, kind
            self.first.setdefault(key, frame)
            self.copies.setdefault(key, []).append(frame)

    def find(self, kind, fields):
        if kind in ("REQ", "SIDR_REQ"):
            ident = fields.get("ca_guid"), fields.get("lcid", fields.get("reqid")), fields["hdr.tid"]
            for connection in self.connections:
                if connection["ident"] == ident:
                    return connection, 0
            self.connections.append({"ident": ident, "ids": [ident[1], None], "number": len(self.connections) + 1})
            return self.connections[-1], 0
        own, other = fields.get("lcid", fields.get("reqid")), fields.get("rcid")
        for connection in reversed(self.connections):
            ids = connection["ids"]
            if kind == "SIDR_REP" and ids[0] == own:
                return connection, 1
            if own == ids[0] and other in (ids[1], "0x00000000"):
                return connection, 0
            if other == ids[0] and own in (ids[1], "0x00000000") or other == ids[0] and ids[1] is None:
                ids[1] = ids[1] or (own if number(own) else None)
                return connection, 1
        raise AssertionError((kind, fields))

    def request_of(self, frame):
        connection, side, kind, fields = self.of[frame]
        about = fields.get("msg_rejected", fields.get("msg_mraed"))
        asked = ANSWERS.get(kind) or ABOUT.get(about)
        return self.first.get((id(connection), 1 - side, asked))


class Captured(Case):
    def test_messages_are_joined_as_another_reading_has_them(self):
        times = 0
        for name in CAPTURES:
            joined, frames = Joined(name), self.real(name)
            shown = {frame for frame, layers in frames.items() if "parley.ibcm" in layers}
            self.assertEqual(shown, set(joined.of))
            answered = {}
            for frame in sorted(joined.of):
                connection, side, kind, fields = joined.of[frame]
                one, request = links(frames[frame]), joined.request_of(frame)
                copies = joined.copies[id(connection), side, kind]
                with self.subTest(capture=name, frame=frame, kind=kind):
                    self.assertEqual((one["connection"], one["from"]), (str(connection["number"]), str(side)))
                    self.assertEqual(one.get("request_in"), str(request) if request else None)
                    place = copies.index(frame)
                    self.assertEqual((one.get("retransmission_of"), one.get("copy")), (str(copies[0]), str(place + 1)) if place else (None, None))
                    if request:
                        times += 1
                        self.assertAlmostEqual(float(one["time"]), fields["t"] - joined.of[request][3]["t"], delta=0.0002)
                    if request and kind != "MRA":
                        answered.setdefault(request, frame)
                        self.assertEqual(links(frames[request]).get("response_in"), str(answered[request]))
        self.assertGreater(times, 90)

    def test_data_is_joined_with_the_set_up_of_its_queue_pair(self):
        joined_frames = alone = 0
        for name in CAPTURES:
            frames, messages, pairs = self.real(name), {frame: rest for frame, *rest in other_reading(name)}, {}
            for frame, source, destination, octets in udp_frames(name):
                if frame in messages:
                    self.note(pairs, frame, source, destination, *messages[frame])
                    continue
                qpn, service = int.from_bytes(octets[5:8], "big"), octets[0] & 0xE0
                source_qpn = int.from_bytes(octets[17:20], "big") if service == ib.UD else 0
                due = pairs.get((destination, source, qpn)) or pairs.get((source, destination, source_qpn))
                side = (1 - due[0] if (destination, source, qpn) in pairs else due[0]) if due else None
                with self.subTest(capture=name, frame=frame):
                    expected = (str(side), due[1]["service"], str(due[1]["req"]), str(due[1]["rep"])) if due else (None,) * 4
                    one = links(frames[frame])
                    self.assertEqual(tuple(one.get(field) for field in ("from", "service", "setup.req", "setup.rep")), expected)
                joined_frames, alone = joined_frames + bool(due), alone + (not due)
        self.assertGreater(joined_frames, 500)
        self.assertGreater(alone, 900)  # programs that exchange their numbers over TCP

    def note(self, pairs, frame, source, destination, kind, fields):
        """What a message means for (own address, other address, queue pair): [side, set-up]."""
        if kind in ("REQ", "SIDR_REQ"):
            service = number(fields["sid"])
            text = f"{ {0x106: 'tcp', 0x111: 'udp', 0x13F: 'ib'}[service >> 16]}:{service & 0xFFFF}"
            self.pending = getattr(self, "pending", {})
            before = self.pending.get((source, fields.get("lcid", fields.get("reqid"))))
            if before and before["tid"] == fields["hdr.tid"]:
                return
            setup = {"service": text, "req": frame, "rep": None, "tid": fields["hdr.tid"], "keys": []}
            self.pending[source, fields.get("lcid", fields.get("reqid"))] = setup
            if kind == "REQ":
                self.key(pairs, setup, (source, destination, number(fields["qpn"])), 0)
            return
        setup = self.pending.get((destination, fields.get("rcid", fields.get("reqid")))) or self.pending.get((source, fields.get("lcid")))
        if kind in ("REP", "SIDR_REP"):
            setup["rep"] = setup["rep"] or frame
            self.key(pairs, setup, (source, destination, number(fields["qpn"]) or number(fields.get("eecn", "0"))), 1)
        if kind in ("REJ", "DREP"):
            for key in setup["keys"]:
                if pairs.get(key, (0, None))[1] is setup:
                    del pairs[key]

    def key(self, pairs, setup, key, side):
        pairs[key] = side, setup
        setup["keys"].append(key)

    def test_set_ups_of_infiniband_links(self):
        """IPoIB in connected mode, without a GRH: three REQs, each with its REP, RTU and data."""
        frames = {frame: links(layers) for frame, layers in self.real(INFINIBAND[0]).items() if "parley.ib" in layers}
        requests = {frame: one for frame, one in frames.items() if one.get("response_in") and "request_in" not in one}
        self.assertEqual({frame: one["rep_in"] for frame, one in requests.items()}, {7: "8", 27: "28", 34: "35"})
        self.assertEqual([(one["connection"], one["from"], one["setup.req"]) for frame, one in frames.items() if frame in (10, 11, 30, 31, 36, 38)],
                         [("1", "0", "7"), ("1", "1", "7"), ("2", "0", "27"), ("2", "1", "27"), ("3", "0", "34"), ("3", "1", "34")])


class Made(Case):
    def talk(self, *said, **more):
        """[links] of frames that go from A to B if they begin with ">", and back if with "<"."""
        capture = ib.Frames()
        for way, packet in said:
            source, destination = (ib.A, ib.B) if way == ">" else (ib.B, ib.A)
            capture.add(ib.v2(packet, source, destination, **more.get(way, {})))
        self.capture = capture.octets()
        frames = self.shown(self.capture, FIELDS)
        return [links(frames[count + 1]) for count in range(len(said))]

    def test_a_connection_from_its_req_to_its_drep(self):
        seen = self.talk((">", ib.req(1, ("tcp", 7174), 0x11)), ("<", ib.rep(2, 1, 0x22)), (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)),
                         (">", ib.data(4, 0x22)), ("<", ib.data(0x11, 0x11)), ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)),
                         (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)))
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
        asked, answered = ib.req(1, ("tcp", 1), 0x11), ib.rep(2, 1, 0x22)
        seen = self.talk((">", asked), (">", asked), ("<", ib.cm(ib.MRA, local_comm_id=2, remote_comm_id=1, service_timeout=20)), (">", asked),
                         ("<", answered), ("<", answered), (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)))
        self.assertEqual([(one.get("retransmission_of"), one.get("copy"), one.get("request_in"), one.get("response_in")) for one in seen],
                         [(None, None, None, "5"), ("1", "2", None, "5"), (None, None, "1", None), ("1", "3", None, "5"),
                          (None, None, "1", "7"), ("5", "2", "1", "7"), (None, None, "5", None)])
        said = [(frame, severity) for frame, severity, text in self.said(self.capture) if text.startswith("The same message")]
        self.assertEqual(said, [(2, NOTE), (4, NOTE), (6, NOTE)])

    def test_an_id_that_is_used_again_begins_anew(self):
        """As after a reboot: the same ID and number, another REQ."""
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.rep(2, 1, 0x22)), (">", ib.req(1, ("tcp", 2), 0x11)),
                         ("<", ib.rep(3, 1, 0x22)), (">", ib.data(4, 0x22)), ("<", ib.data(4, 0x11)))
        self.assertEqual([one["connection"] for one in seen], ["1", "1", "2", "2", "2", "2"])
        self.assertEqual([one["service"] for one in seen[4:]], ["tcp:2"] * 2)
        self.assertEqual([seen[1].get("request_in"), seen[3].get("request_in")], ["1", "3"])

    def test_numbers_mean_something_between_two_hosts_only(self):
        """Two peers that use the same ID, queue pair and service towards one host."""
        capture = ib.Frames()
        other = "192.0.2.3"
        for source in ib.A, other:
            capture.add(ib.v2(ib.req(1, ("tcp", 1), 0x11, source=source), source, ib.B))
        for count, source in enumerate((ib.A, other)):
            capture.add(ib.v2(ib.rep(10 + count, 1, 0x22 + count), ib.B, source))
        for source, qpn in (ib.A, 0x22), (other, 0x23), (ib.A, 0x23), (other, 0x22):
            capture.add(ib.v2(ib.data(4, qpn), source, ib.B))
        for source in other, ib.A:
            capture.add(ib.v2(ib.data(0x11, 0x11), ib.B, source))
        frames = self.shown(capture.octets(), FIELDS)
        self.assertEqual([links(layers).get("connection") for layers in frames.values()], ["1", "2", "1", "2", "1", "2", None, None, "2", "1"])

    def test_queue_pairs_are_free_again_after_a_reject_or_a_drep(self):
        """What another program sets up over TCP with the same numbers belongs to nothing."""
        for last in (("<", ib.cm(ib.REJ, local_comm_id=2, remote_comm_id=1, reason=28)), ("<", ib.cm(ib.DREP, local_comm_id=2, remote_comm_id=1))):
            seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.rep(2, 1, 0x22)), (">", ib.data(4, 0x22)), last, (">", ib.data(4, 0x22)),
                             ("<", ib.data(0x11, 0x11)))
            self.assertEqual([one.get("connection") for one in seen], ["1"] * 4 + [None] * 2)

    def test_data_of_another_transport_is_no_data_of_the_connection(self):
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11, transport=ib.UC)), ("<", ib.rep(2, 1, 0x22)), (">", ib.data(0x24, 0x22)),
                         (">", ib.data(0x04, 0x22)), (">", ib.data(0x64, 0x22)))
        self.assertEqual([one.get("connection") for one in seen], ["1"] * 3 + [None] * 2)

    def test_xrc_has_its_queue_pair_where_an_ee_context_stands(self):
        seen = self.talk((">", ib.req(1, ("ib", 9015), 0x55, transport=ib.XRC)), ("<", ib.rep(2, 1, 0x77, transport=ib.XRC)),
                         (">", ib.data(ib.XRC | 4, 0x77)), ("<", ib.data(ib.XRC | 0x11, 0x55)),
                         (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=2, remote_qpn=0x77)))
        self.assertEqual([(one.get("connection"), one.get("from"), one.get("service")) for one in seen],
                         [("1", side, "ib:9015") for side in ("0", "1", "0", "1", "0")])

    def test_rejects(self):
        """Of a REQ by who has no ID, of a REP, and by who gave up and knows no ID of the other side."""
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.cm(ib.REJ, local_comm_id=0, remote_comm_id=1, reason=8)),
                         (">", ib.req(2, ("tcp", 2), 0x12)), ("<", ib.rep(9, 2, 0x22)), (">", ib.cm(ib.REJ, local_comm_id=2, remote_comm_id=9, about=1, reason=28)),
                         (">", ib.req(3, ("tcp", 3), 0x13)), (">", ib.cm(ib.REJ, local_comm_id=3, about=2, reason=4, info_length=8, info=b"12345678")))
        self.assertEqual([one["connection"] for one in seen], ["1", "1", "2", "2", "2", "3", "3"])
        self.assertEqual([(one.get("request_in"), one["from"], one.get("req_in")) for one in (seen[1], seen[4], seen[6])],
                         [("1", "1", "1"), ("4", "0", "3"), (None, "0", "6")])
        self.assertEqual([seen[0]["response_in"], seen[3]["response_in"], seen[5].get("response_in"), seen[5]["rej_in"]], ["2", "5", None, "7"])

    def test_both_sides_disconnect(self):
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.rep(2, 1, 0x22)),
                         (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=2, remote_qpn=0x22)), ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)),
                         (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)), ("<", ib.cm(ib.DREP, local_comm_id=2, remote_comm_id=1)))
        self.assertEqual([(one.get("request_in"), one.get("response_in"), one.get("retransmission_of")) for one in seen[2:]],
                         [(None, "6", None), (None, "5", None), ("4", None, None), ("3", None, None)])

    def test_a_path_is_loaded(self):
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.rep(2, 1, 0x22)), (">", ib.cm(ib.LAP, local_comm_id=1, remote_comm_id=2, remote_qpn=0x22)),
                         ("<", ib.cm(ib.MRA, local_comm_id=2, remote_comm_id=1, about=2)), ("<", ib.cm(ib.APR, local_comm_id=2, remote_comm_id=1)))
        self.assertEqual([(one.get("request_in"), one.get("response_in"), one["connection"]) for one in seen[2:]], [(None, "5", "1"), ("3", None, "1"), ("3", None, "1")])

    def test_datagrams_after_sidr(self):
        """The side that was resolved answers to a number which the CM never said."""
        seen = self.talk((">", ib.cm(ib.SIDR_REQ, request_id=5, service_id=ib.service_id("udp", 7174))),
                         ("<", ib.cm(ib.SIDR_REP, request_id=5, qpn=0x33, q_key=0x1234567, service_id=ib.service_id("udp", 7174))),
                         (">", ib.data(0x64, 0x33, source_qpn=0x11)), ("<", ib.data(0x64, 0x11, source_qpn=0x33)), ("<", ib.data(0x64, 0x11, source_qpn=0x34)),
                         (">", ib.cm(ib.SIDR_REQ, request_id=6, service_id=ib.service_id("udp", 1))), ("<", ib.cm(ib.SIDR_REP, request_id=6, sidr_status=1, qpn=0x44)),
                         (">", ib.data(0x64, 0x44)))
        self.assertEqual([(one.get("connection"), one.get("from"), one.get("service")) for one in seen],
                         [("1", "0", "udp:7174"), ("1", "1", "udp:7174"), ("1", "0", "udp:7174"), ("1", "1", "udp:7174"), (None, None, None),
                          ("2", "0", "udp:1"), ("2", "1", "udp:1"), (None, None, None)])
        self.assertEqual((seen[0]["response_in"], seen[1]["request_in"], seen[6]["request_in"]), ("2", "1", "6"))

    def test_what_the_capture_lacks(self):
        """Without the REP its ID is known from the DREQ; without the REQ nothing is claimed."""
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), (">", ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)), ("<", ib.data(0x11, 0x11)),
                         ("<", ib.cm(ib.DREQ, local_comm_id=2, remote_comm_id=1, remote_qpn=0x11)), (">", ib.cm(ib.DREP, local_comm_id=1, remote_comm_id=2)),
                         ("<", ib.rep(8, 9, 0x55)), (">", ib.cm(ib.RTU, local_comm_id=9, remote_comm_id=8)), (">", ib.data(4, 0x55)))
        self.assertEqual([one.get("connection") for one in seen], ["1"] * 5 + [None] * 3)
        self.assertEqual((seen[1].get("request_in"), seen[4]["request_in"]), (None, "4"))

    def test_a_message_of_other_ids_is_not_taken_in(self):
        seen = self.talk((">", ib.req(1, ("tcp", 1), 0x11)), ("<", ib.rep(2, 1, 0x22)), (">", ib.cm(ib.RTU, local_comm_id=7, remote_comm_id=2)),
                         ("<", ib.cm(ib.DREQ, local_comm_id=7, remote_comm_id=1)), (">", ib.cm(ib.DREQ, local_comm_id=1, remote_comm_id=7)))
        self.assertEqual([one.get("connection") for one in seen], ["1", "1", None, None, None])

    def test_what_has_a_wrong_icrc_counts_for_nothing(self):
        capture = ib.Frames()
        capture.add(ib.v2(ib.req(1, ("tcp", 1), 0x11), damage=1))
        capture.add(ib.v2(ib.rep(2, 1, 0x22), ib.B, ib.A))
        for options, found in ((), [None, None]), (("-o", "parley.ib.icrc:FALSE"), ["1", "1"]):
            frames = self.once(capture.octets(), FIELDS, options)
            self.assertEqual([links(layers).get("connection") for layers in frames.values()], found)

    def test_over_ipv6_and_rocev1(self):
        for wrap, a, b in (ib.v2, ib.A6, ib.B6), (ib.v1, ib.A, ib.B), (ib.v1, ib.A6, ib.B6):
            capture = ib.Frames()
            for packet, way in ((ib.req(1, ("tcp", 1), 0x11, source=a, destination=b), (a, b)), (ib.rep(2, 1, 0x22), (b, a)),
                                (ib.data(4, 0x22), (a, b)), (ib.data(0x11, 0x11), (b, a))):
                capture.add(wrap(packet, *way))
            frames = self.once(capture.octets(), FIELDS)
            self.assertEqual([links(layers).get("connection") for layers in frames.values()], ["1"] * 4)

    def test_one_host_with_itself(self):
        """Loopback: both sides have one address, and only the IDs and numbers differ."""
        capture = ib.Frames()
        for packet in (ib.req(1, ("tcp", 1), 0x11), ib.rep(2, 1, 0x22), ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2), ib.data(4, 0x22), ib.data(0x11, 0x11)):
            capture.add(ib.v2(packet, ib.A, ib.A))
        frames = self.once(capture.octets(), FIELDS)
        self.assertEqual([links(layers)["from"] for layers in frames.values()], ["0", "1", "0", "0", "1"])


if __name__ == "__main__":
    unittest.main()
