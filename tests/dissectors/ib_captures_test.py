# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCE and the InfiniBand CM, captured: every field and every link against another decoder's reading, and the lines that are
shown. PARLEY_REWRITE=1 writes those anew: read the difference."""
import ipaddress
import os
import re
import unittest

import harness
import ib_wire as ib
from ib_case import (BTH, CAPTURES, GOLDEN, GOOD, INFINIBAND, NOT_OURS, REAL, STOCK, Case, links, number, octets_of, other_reading, texts,
                     udp_frames)

# The other decoder's names.
NAMES = {"lcid": "local_comm_id", "rcid": "remote_comm_id", "reqid": "request_id", "vendor": "ece_vendor", "sid": "service_id",
         "ca_guid": "local_ca_guid", "resp_res": "responder_resources", "init_depth": "initiator_depth", "eecn": "local_eecn",
         "reecn": "remote_eecn", "rem_cm_to": "remote_cm_response_timeout", "loc_cm_to": "local_cm_response_timeout",
         "tst": "service_type", "e2e": "flow_control", "psn": "starting_psn", "retry": "retry_count", "pkey": "p_key",
         "mtu": "path_mtu", "rdc": "rdc_exists", "rnr": "rnr_retry_count", "max_cm_retries": "max_cm_retries", "srq": "srq",
         "ett": "extended_service", "msg_mraed": "about", "msg_rejected": "about", "svc_to": "service_timeout", "ari_len": "info_length",
         "ail": "info_length", "reason": "reason", "rqpn": "remote_qpn", "tgt_ack_delay": "target_ack_delay",
         "failover": "failover_accepted", "status": "sidr_status", "hdr.base": "base_version", "hdr.cls": "class",
         "hdr.ver": "class_version", "hdr.method": "method", "hdr.status": "mad_status", "hdr.tid": "transaction_id",
         "hdr.attr": "message", "hdr.mod": "attribute_modifier", "primary.llid": "primary.local_lid",
         "primary.rlid": "primary.remote_lid", "primary.lgid": "primary.local_gid", "primary.rgid": "primary.remote_gid",
         "primary.flow": "primary.flow_label", "primary.rate": "primary.packet_rate", "primary.tclass": "primary.traffic_class",
         "primary.hop": "primary.hop_limit", "primary.sl": "primary.sl", "primary.subnet_local": "primary.subnet_local",
         "primary.ack_to": "primary.local_ack_timeout"}
ANSWERS = {"REP": "REQ", "RTU": "REP", "DREP": "DREQ", "APR": "LAP", "SIDR_REP": "SIDR_REQ"}
ABOUT = {"0": "REQ", "1": "REP"}
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


class Messages(Case):
    def test_every_field_of_every_captured_message(self):
        messages = 0
        for name in CAPTURES:
            frames = self.real(name)
            for frame, kind, expected in other_reading(name):
                messages += 1
                with self.subTest(capture=name, frame=frame):
                    self.message_is(kind, expected, frames[frame])
        self.assertEqual(messages, 183)

    def message_is(self, kind, expected, layers):
        one = {field.removeprefix("parley."): values[0] for field, values in layers.items() if len(values) == 1}
        self.assertEqual(texts("IBCM_MESSAGES")[number(one["ibcm.message"])], kind)
        bth = [number(one[name.removeprefix("parley.")]) for name in BTH]
        last = [expected.pop(name) for name in ("psn", "ackreq", "q_key", "sqp")] if "psn" in expected else None
        if isinstance(last[0], int):
            self.assertEqual(bth, last)
        expected.pop("t")
        private = octets_of(expected.pop("priv"))
        info = octets_of(expected.pop("ari", expected.pop("ai", "")))
        for key, value in expected.items():
            shown = one.get(f"ibcm.{self.name_of(key, kind)}")
            self.assertIsNotNone(shown, key)
            if key.endswith("gid"):
                self.assertEqual(ipaddress.ip_address(shown), ipaddress.ip_address(value), key)
            else:
                self.assertEqual(number(shown), value if isinstance(value, int) else number(value), key)
        self.assertEqual(octets_of(one.get("ibcm.info", "")), info)
        self.assertEqual(self.cma_of(one) + octets_of(one.get("ibcm.private_data", "")), private)

    def test_rates_by_name(self):
        """All of the table, and one that a capture has."""
        rates, made = texts("IB_RATES"), ib.Frames()
        for count, rate in enumerate(rates, 1):
            made.add(ib.v2(ib.req(count, ("tcp", 1), 0x99, primary__packet_rate=rate)))
        for name, octets, due in (("made", made.octets(), rates), ("rate400", (REAL / "rate400.pcap").read_bytes(), {21: "400 Gb/s"})):
            shown = self.tshark.run("-n", "-r", self.tshark.file(f"{name}.pcap", octets), "-V").stdout
            with self.subTest(capture=name):
                found = {int(code): text for text, code in re.findall(r"Packet rate: (.*) \((\d+)\)", shown) if code != "0"}
                self.assertEqual(found, due)

    def name_of(self, key, kind):
        if kind == "SIDR_REP" and key in ("qpn", "qkey"):
            return {"qpn": "qpn", "qkey": "q_key"}[key]
        return {"qpn": "local_qpn", "qkey": "local_q_key"}.get(key) or NAMES[key]

    def cma_of(self, one):
        """The octets of the header that stands before the consumer's data."""
        if "ibcm.cma.version" not in one:
            return b""
        four = number(one["ibcm.cma.ip_version"]) == 4
        ends = [one[f"ibcm.cma.{end}{'' if four else '_ip6'}"] for end in ("source", "destination")]
        return ib.cma(number(one["ibcm.cma.source_port"]), *ends)

    def test_every_captured_icrc_is_right(self):
        for name, count in (*CAPTURES.items(), INFINIBAND):
            frames = self.real(name)
            with self.subTest(capture=name):
                self.assertEqual([layers["parley.ib.icrc.status"] for layers in frames.values() if "parley.ib" in layers], [[GOOD]] * count)
        self.assertEqual(sum(CAPTURES.values()), 1734)

    def test_lines_of_the_captures_are_the_reviewed_ones(self):
        """Of the large captures only what is no plain data."""
        for name, count in (*CAPTURES.items(), INFINIBAND):
            frames = self.real(name)
            lines = [f"{frame} {layers['_ws.col.Source'][0]} {layers['_ws.col.Protocol'][0]} {layers['_ws.col.Info'][0]}"
                     for frame, layers in frames.items() if "parley.ib" in layers
                     and (count < 600 or set(layers) & {"parley.ibcm", "parley.ib.nak", "parley.ib.rnr"})]
            text, golden = "\n".join(lines) + "\n", GOLDEN / f"{name}.txt"
            if os.environ.get("PARLEY_REWRITE"):
                golden.write_text(text, encoding="utf-8")
            with self.subTest(capture=name):
                self.assertEqual(golden.read_text(encoding="utf-8") if golden.exists() else "", text)

    def test_wiresharks_own_view_stays(self):
        """Its fields are the same with the plugin and without, in every captured frame."""
        name = "rxe61_cm"
        with harness.Tshark(False) as stock:
            plain = stock.fields(stock.file("plain.pcap", (REAL / f"{name}.pcap").read_bytes()), STOCK, NOT_OURS)
        self.assertEqual({field for layers in plain.values() for field in layers}, set(STOCK))
        ours = {str(frame): {field: layers[field] for field in STOCK if field in layers} for frame, layers in self.real(name).items()}
        self.assertEqual({frame: layers for frame, layers in ours.items() if layers}, plain)


class Links(Case):
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


if __name__ == "__main__":
    unittest.main()
