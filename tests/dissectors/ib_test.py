# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCE and the InfiniBand CM, made: every field against the generator, codes in words, the ICRC against each octet that it
covers, and what is broken."""
import ipaddress
import os
import random
import re
import struct
import unittest

import harness
import ib_wire as ib
from ib_case import CM, COLUMNS, ERROR, GOOD, NOTE, REAL, WARNING, Case, number, octets_of, texts
from robust_test import frames_of

SEED = int(os.environ.get("PARLEY_SEED", "4791"))
BAD, UNVERIFIED = "0", "2"
HEADERS = tuple(f"parley.ib.{name}" for name in """opcode operation transport se m pad tver p_key fecn becn qpn ack_req psn deth.q_key
    deth.source_qpn xrceth.srqn reth.va reth.r_key reth.length atomic.va atomic.r_key atomic.swap atomic.compare atomic.add atomic.original
    aeth.syndrome aeth.meaning aeth.credits aeth.rnr_timer aeth.nak aeth.msn immediate ieth.r_key payload_length data
    icrc.status""".split())


def vendor_rows():
    replied = bytearray(ib.body(ib.REP, {"local_comm_id": 1}))
    replied[15], replied[19], replied[23] = 1, 2, 3
    resolved = bytearray(ib.body(ib.SIDR_REP, {"request_id": 1}))
    resolved[6:8], resolved[11] = b"\x01\x02", 3
    return [(ib.v2(ib.cm(kind, octets=bytes(octets))), "0x010203") for kind, octets in ((ib.REP, replied), (ib.SIDR_REP, resolved))]


def word_rows():
    rows = []
    for kind, field, name, before in ((ib.REJ, "reason", "IBCM_REJECTS", "REJ of REQ: "), (ib.APR, "ap_status", "IBCM_AP_STATUS", "APR: "),
                                      (ib.SIDR_REP, "sidr_status", "IBCM_SIDR_STATUS", "SIDR_REP: ")):
        words = texts(name)
        unknown = "unassigned reason" if kind == ib.REJ else "unassigned status"
        rows += [(ib.v2(ib.cm(kind, **{field: code})), before + words.get(code, unknown)) for code in range(max(words) + 2)]
    return rows


def reject_rows():
    rows = ((4, ib.GUIDS[ib.A].to_bytes(8, "big"), "CA GUID of the sender: 0x505400fffe000002"),
            (12, ib.gid(ib.B), "GID that would do: ::ffff:192.0.2.1"), (18, ib.gid(ib.B6), "GID that would do: 2001:db8::1"),
            (13, b"\x00\x12", "LID that would do: 0x0012"), (26, b"\x03", "path MTU that would do: 0x03"),
            (31, b"\x02", "class version that would do: 0x02"), (28, b"because", None), (4, b"short", None), (12, b"", None))
    return [(ib.v2(ib.cm(ib.REJ, reason=reason, info=info, info_length=len(info))), (info, words)) for reason, info, words in rows]


def service_rows():
    rows = ((ib.service_id("tcp", 7174), "tcp:7174"), (ib.service_id("udp", 7174), "udp:7174"), (ib.service_id("ib", 9015), "ib:9015"),
            (ib.service_id("ipoib", 1), "ipoib:1"), (0x1000000000000404, "0x1000000000000404"), (0x0000000001990001, "0x0000000001990001"))
    return [(ib.v2(ib.cm(ib.REQ, local_comm_id=count, service_id=service)), words) for count, (service, words) in enumerate(rows, 1)]


def cma_rows():
    header = ib.cma(40000, ib.A, ib.B)
    rows = ((ib.service_id("tcp", 1), header, True), (ib.service_id("ib", 1), header, True), (0x1000000000000404, header, False),
            (ib.service_id("tcp", 1), b"\x01" + header[1:], False), (ib.service_id("tcp", 1), b"\0\x50" + header[2:], False))
    return [(ib.v2(ib.cm(ib.REQ, local_comm_id=count, service_id=service, private_data=private + b"more")),
             (there, (b"" if there else private) + b"more")) for count, (service, private, there) in enumerate(rows, 101)]


def opcode_rows():
    rows = []
    for low, (name, headers, response) in ib.OPERATIONS.items():
        for service, word in ib.SERVICES.items():
            if (service == ib.UC and low > 0x0B) or (service == ib.UD and low not in (4, 5)):
                continue
            payload = b"payload"[:low % 8] if ib.has_payload(low) else b""
            packet = ib.data(service | low, 0x123456, 0x654321, payload, ack=1)
            rows += [(frame, (f"{word} {name}", service, headers, response, payload)) for frame in (
                ib.v2(packet), ib.v2(packet, ib.A6, ib.B6), ib.v1(packet), ib.v1(packet, tags=bytes.fromhex("8100a001")))]
    return rows


def syndrome_rows():
    return [(ib.v2(ib.data(ib.RC | 0x11, 0x11, syndrome=syndrome)), syndrome) for syndrome in range(256)]


def odd_rows():
    return [(ib.v2(packet, sport=0), row) for packet, *row in (
        (ib.cnp(0x118), "CNP", "ib.cnp"), (ib.bth(0x80, 0x118) + bytes(16), "CNP opcode 0x80", "rule.ib.opcode"),
        (ib.bth(0x15, 0x11), "RC opcode 0x15", "rule.ib.opcode"), (ib.bth(0xE3, 0x11), "manufacturer opcode 0xE3", None),
        (ib.bth(0x44, 0x11) + bytes(16), "RD opcode 0x44", None))]


def scapy_rows():
    """Of ConnectX-4 adapters: a CNP, and RoCEv1."""
    macs = bytes.fromhex("525400000001525400000002")
    return [(macs + bytes.fromhex("0800" "45c2003c718c4000401191610a0011010a001201000012b7002800008100ffff4000011800000000" + "00" * 16 + "82fd002a"), "CNP"),
            (macs + bytes.fromhex("8915" "6020000000281b4000000000000000000000ffff0f00000200000000000000000000ffff0f000002"
                                  "0a70ffff0000010a80a788bc000055d4c0726000000047b3000000050000000001000000e3d856bb"), "RC RDMA WRITE Only")]


def source_rows():
    """Wireshark's own dissector shows the LID of a REQ as its source."""
    return [(wrap(ib.req(200 + count, ("tcp", 1), 0x99, source=a, destination=b), a, b), due) for count, (wrap, a, b, due) in enumerate((
        (ib.v2, ib.A, ib.B, ib.A), (ib.v2, ib.A6, ib.B6, ib.A6), (ib.v1, ib.A, ib.B, "GID: ::ffff:192.0.2.2"), (ib.v1, ib.A6, ib.B6, "GID: 2001:db8::2")))]


ROWS = {rows.__name__.removesuffix("_rows"): rows for rows in (vendor_rows, word_rows, reject_rows, service_rows, cma_rows, opcode_rows, syndrome_rows,
                                                               odd_rows, scapy_rows, source_rows)}


class Words(Case):
    """One capture of all rows, read once."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        capture, made = ib.Frames(), {}
        for name, rows in ROWS.items():
            made[name] = [(capture.add(frame), due) for frame, due in rows()]
        frames = cls("rows").once(capture.octets(), (*HEADERS, *CM, *COLUMNS, "_ws.col.Source", "parley.ibcm.info", "parley.ib.cnp", "parley.rule.ib.opcode"))
        cls.made = {name: [({field.removeprefix("parley."): values[0] for field, values in frames[frame].items()}, due) for frame, due in rows]
                    for name, rows in made.items()}

    def rows(self, name, *fields):
        """[(fields of the frame, what they are to be)]; with names the values of those alone."""
        return [(tuple(one.get(field) for field in fields) if fields else one, due) for one, due in self.made[name]]

    def test_ece_vendors_are_put_together(self):
        self.assertEqual(*zip(*((vendor, due) for (vendor,), due in self.rows("vendor", "ibcm.ece_vendor"))))

    def test_codes_in_words(self):
        shown, due = zip(*((info.split(", request=")[0], due) for (info,), due in self.rows("word", "_ws.col.Info")))
        self.assertEqual(shown, due)
        self.assertLessEqual({"REJ of REQ: invalid service ID: there is no listener there", "REJ of REQ: unassigned reason"}, set(shown))
        self.assertGreater(len(shown), 50)
        self.assertEqual({protocol for (protocol,), _ in self.rows("word", "_ws.col.Protocol")}, {"IBCM"})

    def test_what_a_reject_brings_along(self):
        for (info, meaning), due in self.rows("reject", "ibcm.info", "ibcm.info.meaning"):
            self.assertEqual((octets_of(info or ""), meaning), due)

    def test_services_by_name(self):
        for (service, info), due in self.rows("service", "ibcm.service", "_ws.col.Info"):
            self.assertEqual((service, info.split()[1]), (due, due))

    def test_a_req_comes_from_its_host(self):
        for (source,), due in self.rows("source", "_ws.col.Source"):
            self.assertEqual(source, due)

    def test_the_header_of_the_rdma_ip_cm_is_only_where_it_may_be(self):
        """An ID of another kind has none; nor has AF_IB, whose private data is the program's from its first octet."""
        for (port, private), due in self.rows("cma", "ibcm.cma.source_port", "ibcm.private_data"):
            self.assertEqual((port is not None, octets_of(private)), due)

    def test_every_opcode_on_every_carriage(self):
        """Each header of each opcode has the values that were put in, and the payload is what is left."""
        aside = {"opcode", "transport", "se", "m", "tver", "p_key", "fecn", "becn"}
        for one, (name, service, headers, response, payload) in self.rows("opcode"):
            expected = {"operation": name, "qpn": "0x123456", "psn": str(0x654321), "ack_req": "1", "icrc.status": GOOD,
                        "payload_length": str(len(payload)), "pad": str(-len(payload) % 4)}
            if payload:
                expected["data"] = payload.hex()
            if service == ib.UD:
                expected |= {"deth.q_key": "0x01234567", "deth.source_qpn": "0x000011"}
            if service == ib.XRC and not response:
                expected["xrceth.srqn"] = "0x020001"
            for header in headers:
                expected |= {"r": {"reth.va": "0x00007f0012345678", "reth.r_key": "0x00001234", "reth.length": str(len(payload))},
                             "a": {"aeth.syndrome": "0x1f", "aeth.meaning": "ACK", "aeth.msn": "1"}, "o": {"atomic.original": "5"},
                             "t": {"atomic.va": "0x00007f0012345678", "atomic.r_key": "0x00001234"}, "i": {"immediate": "cafebabe"},
                             "v": {"ieth.r_key": "0x0000abcd"}}[header]
            if "t" in headers:
                expected |= {"atomic.add": "7"} if name.endswith("FetchAdd") else {"atomic.swap": "7", "atomic.compare": "6"}
            with self.subTest(name=name):
                self.assertEqual({field.removeprefix("ib."): value for field, value in one.items()
                                  if field.startswith("ib.") and field.removeprefix("ib.") not in aside}, expected)

    def test_syndromes_in_words(self):
        naks = texts("IB_NAKS")
        self.assertEqual(len(naks), 5)
        for (meaning, credit, timer, nak), syndrome in self.rows("syndrome", *(f"ib.aeth.{name}" for name in ("meaning", "credits", "rnr_timer", "nak"))):
            code = syndrome & 0x1F
            step = code if code < 2 else 1 << code // 2 if code % 2 == 0 else 3 << (code - 3) // 2  # 2, 3, 4, 6, 8, 12, ...
            with self.subTest(syndrome=syndrome):
                if syndrome < 0x20:
                    plural = "" if step == 1 else "s"
                    self.assertEqual((meaning, credit), ("ACK", None) if code == 31 else (f"ACK, {step} credit{plural}", str(step)))
                elif syndrome < 0x40:
                    milliseconds = step / 100 if code else 655.36
                    self.assertEqual((meaning, float(timer)), (f"RNR NAK, {milliseconds:.2f} ms", round(milliseconds / 1000, 5)))
                elif 0x60 <= syndrome < 0x80:
                    self.assertEqual((meaning, nak), ("NAK: " + naks.get(code, "reserved NAK code"), str(code)))
                else:
                    self.assertEqual(meaning, f"reserved syndrome 0x{syndrome:02X}")

    def test_congestion_notifications_and_unknown_opcodes(self):
        for one, (name, remark) in self.rows("odd"):
            self.assertEqual((one["ib.operation"], {"ib.cnp", "rule.ib.opcode"} & set(one)), (name, {remark} - {None}))
        first = self.rows("odd", "ib.becn", "_ws.col.Info")[0][0]
        self.assertEqual(first, ("1", "CNP QP=0x000118"))

    def test_captured_frames_of_adapters(self):
        for (name, status), due in self.rows("scapy", "ib.operation", "ib.icrc.status"):
            self.assertEqual((name, status), (due, GOOD))
        self.assertEqual(self.rows("scapy", "ib.reth.length", "ib.payload_length")[1][0], ("5", "5"))


class Messages(Case):
    def test_every_field_of_made_messages(self):
        """All eleven, with anything in every field."""
        chance, capture, made = random.Random(SEED), ib.Frames(), {}
        for draw in range(12):
            for kind, places in ib.FIELDS.items():
                fields = {name: chance.randrange(1 << bits) if draw else (1 << bits) - 1 for name, (_, _, bits) in places.items()}
                if "info_length" in fields:
                    fields["info_length"] = chance.randrange(73)
                wrapped = {name.replace(".", "__"): value for name, value in fields.items()}
                packet = ib.cm(kind, psn=draw, transaction=draw << 40 | kind, modifier=chance.randrange(1 << 32), **wrapped)
                made[capture.add(ib.v2(packet) if draw % 2 else ib.v1(packet))] = kind, fields
        frames = self.shown(capture.octets(), (*CM, "parley.ib.icrc.status"))
        for frame, (kind, fields) in made.items():
            one = {field.removeprefix("parley.ibcm."): values[0] for field, values in frames[frame].items() if values}
            self.assertEqual((number(one["message"]), one["parley.ib.icrc.status"]), (kind, GOOD))
            for name, value in fields.items():
                with self.subTest(frame=frame, message=kind, field=name):
                    self.assertEqual(self.value_of(name, one), self.shown_of(name, value, kind, fields))
            extra = {"sidr_status"} if kind == ib.APR else set()
            self.assertFalse(extra & set(one))

    def value_of(self, name, one):
        if name.endswith("gid"):
            return int(ipaddress.ip_address(one[name]))
        return octets_of(one.get(name, "")) if name in ("info", "private_data") else number(one[name])

    def shown_of(self, name, value, kind, fields):
        _, _, bits = ib.FIELDS[kind][name]
        if name == "private_data":
            return value.to_bytes(bits // 8, "big").rstrip(b"\0")
        if name == "info":
            return value.to_bytes(bits // 8, "big")[:fields["info_length"]]
        return value

    def test_times_of_timeouts(self):
        capture = ib.Frames()
        for code in range(32):
            capture.add(ib.v2(ib.cm(ib.MRA, service_timeout=code)))
        text = self.tshark.run("-n", "-r", self.tshark.file("times.pcap", capture.octets()), "-V", "-Y", "parley.ibcm").stdout
        found = re.findall(r"Service timeout: (\d+) \(([\d.]+) (us|ms|s)\)", text)
        units = {"us": 10**3, "ms": 10**6, "s": 10**9}
        self.assertEqual([round(float(value) * units[unit]) for _, value, unit in found], [4096 << code for code in range(32)])
        self.assertIn(("20", "4.294967296", "s"), found)

class Packets(Case):
    def test_the_icrc_covers_what_it_has_to(self):
        """One bit of each octet is changed: it is noticed, but for what may change on the way."""
        ack = ib.data(ib.RC | 0x11, 0x11)
        cases = ((ib.v2(ack), 14, {1, 8, 10, 11, 26, 27, 32}, {0: 0}), (ib.v2(ack, ib.A6, ib.B6), 14, {1, 2, 3, 7, 46, 47, 52}, {0: 1}),
                 (ib.v1(ack), 14, {1, 2, 3, 7, 44}, {0: 1}), (ib.v1(ack, tags=bytes.fromhex("8100a001")), 18, {1, 2, 3, 7, 44}, {0: 1}))
        capture, expected = ib.Frames(), {}
        for frame, begin, hidden, half in cases:
            for at in range(len(frame) - begin):
                changed = bytearray(frame)
                changed[begin + at] ^= 1 << random.Random(at).randrange(4)
                expected[capture.add(bytes(changed))] = at in hidden or half.get(at) == 1
                if at in half:
                    changed = bytearray(frame)
                    changed[begin + at] ^= 0x40  # the version
                    expected[capture.add(bytes(changed))] = False
        frames = self.once(capture.octets(), ("parley.ib.icrc.status",))
        self.assertEqual({frame for frame, layers in frames.items() if layers["parley.ib.icrc.status"] == [GOOD]},
                         {frame for frame, good in expected.items() if good})

    def test_a_wrong_icrc_is_marked_unless_it_is_not_checked(self):
        capture = ib.Frames()
        capture.add(ib.v2(ib.data(ib.RC | 0x11, 0x11), damage=1))
        fields = ("parley.ib.icrc.status", "parley.ib.icrc.bad", "_ws.col.Info", "_ws.expert.severity")
        layers = self.once(capture.octets(), fields)[1]
        self.assertEqual((layers["parley.ib.icrc.status"], layers["_ws.expert.severity"]), ([BAD], [ERROR]))
        self.assertTrue(layers["_ws.col.Info"][0].endswith(" [wrong ICRC]"))
        layers = self.once(capture.octets(), fields, ("-o", "parley.ib.icrc:FALSE"))[1]
        self.assertEqual(layers["parley.ib.icrc.status"], [UNVERIFIED])
        self.assertNotIn("wrong ICRC", layers["_ws.col.Info"][0])
        self.assertNotIn("_ws.expert.severity", layers)


class Beside(Case):
    def test_it_follows_decode_as_and_the_switches(self):
        capture = ib.Frames()
        frame = ib.v2(ib.req(1, ("tcp", 1), 0x11))
        capture.add(frame)
        capture.add(frame[:36] + b"\x30\x39" + frame[38:])  # another port, and so another ICRC
        fields = ("parley.ib.qpn", "parley.ibcm.message", "infiniband.bth.destqp")
        def seen(*options):
            return {frame: sorted(layers) for frame, layers in self.once(capture.octets(), fields, options).items()}
        everything = sorted(fields)
        self.assertEqual(seen("-d", "udp.port==12345,infiniband"), {1: everything, 2: everything})
        self.assertEqual(seen("--disable-protocol", "parley"), {1: everything})
        self.assertEqual(seen("--disable-protocol", "parley.ib"), {1: ["infiniband.bth.destqp"]})
        self.assertEqual(seen("--disable-protocol", "infiniband"), {})

    def test_whatever_the_source_port(self):
        """UDP gives a packet to who has the lower port, such as TFTP."""
        capture, ports = ib.Frames(), (53, 67, 69, 123, 161, 500, 2049, 4500, 4790)
        for number, port in enumerate(ports, 1):
            a, b = f"192.0.2.{10 + number}", f"192.0.2.{50 + number}"
            capture.add(ib.v2(ib.req(number, ("tcp", 1), 0x11, a, b), a, b, sport=port))
            capture.add(ib.v2(ib.data(0x04, 0x22, payload=b"12345678"), a, b, sport=port))
        fields = ("_ws.col.Protocol", "infiniband.bth.destqp", "parley.ib.icrc.status", "parley.ibcm.message")
        due = {}
        for number in range(len(ports)):
            due[2 * number + 1] = dict(zip(fields, (["IBCM"], ["0x000001"], [GOOD], ["0x0010"])))
            due[2 * number + 2] = dict(zip(fields[:3], (["RRoCE"], ["0x000022"], [GOOD])))
        self.assertEqual(self.once(capture.octets(), fields), due)
        self.assertEqual(self.once(capture.octets(), fields, ("-2",)), due)
        names = self.once(capture.octets(), ("frame.protocols",), ("-2",))
        self.assertEqual({layers["frame.protocols"][0].removesuffix(":data") for layers in names.values()}, {"eth:ethertype:ip:udp:infiniband"})

    def test_a_line_for_each_connection(self):
        capture = ib.Frames()
        capture.add(ib.v2(ib.req(1, ("tcp", 7174), 0x11)))
        capture.add(ib.v2(ib.rep(2, 1, 0x22), ib.B, ib.A))
        capture.add(ib.v2(ib.cm(ib.RTU, local_comm_id=1, remote_comm_id=2)))
        capture.add(ib.v2(ib.data(0x04, 0x22, psn=200, payload=b"12345678")))
        capture.add(ib.v2(ib.data(0x11, 0x11, psn=200, syndrome=0x64), ib.B, ib.A))
        capture.add(ib.v2(ib.data(0x04, 0x99, payload=b"1234"), ib.A6, ib.B6))
        path = self.tshark.file("table.pcap", capture.octets())
        done = self.tshark.run("-n", "-q", "-2", "-r", path, "-z", "parley,roce")
        rows = [[cell.strip() for cell in line.split("|")[:-1]] for line in done.stdout.splitlines() if line.endswith("|")]
        one, other = (dict(zip(rows[0], row)) for row in rows[1:])
        self.assertEqual((one["Conn"], one["Initiator"], one["Responder"], one["Service"], one["Transport"], one["Result"], one["Outcome"]),
                         ("1", f"{ib.A} QP=0x000011", f"{ib.B} QP=0x000022", "tcp:7174", "RC", "failed", "established"))
        self.assertEqual([one[name] for name in ("Packets>", "<Packets", "Octets>", "<Octets", "NAKs", "RNR NAKs")], ["1", "1", "8", "0", "1", "0"])
        self.assertEqual((other["Conn"], other["Initiator"], other["Outcome"]), ("-", ib.A6, "handshake not captured"))

    def test_below_other_headers(self):
        """Tagged, in a tunnel, without Ethernet; what an ICMP error quotes is no packet."""
        frame = ib.v2(ib.data(0x04, 0x22, payload=b"12345"))
        outer = ib.v2(bytes(8))[:34]  # Ethernet and IPv4
        def within(protocol, octets):
            return outer[:16] + struct.pack(">H", 20 + len(octets)) + outer[18:23] + bytes([protocol]) + outer[24:] + octets
        vxlan = bytes.fromhex("0800000000000100")
        capture = ib.Frames()
        for octets in (frame[:12] + bytes.fromhex("8100a001") + frame[12:],
                       within(17, struct.pack(">HHHH", 50000, 4789, 16 + len(frame), 0) + vxlan + frame),
                       within(1, bytes.fromhex("0303000000000000") + frame[14:])):
            capture.add(octets)
        fields = ("parley.ib.qpn", "parley.ib.payload_length", "parley.ib.icrc.status", "infiniband.bth.destqp")
        frames = self.once(capture.octets(), fields)
        ours = {field: [value] for field, value in zip(fields, ("0x000022", "5", GOOD, "0x000022"))}
        self.assertEqual(frames, {1: ours, 2: ours, 3: {fields[3]: ["0x000022"]}})
        raw = ib.Frames(link_type=101)
        raw.add(frame[14:])
        self.assertEqual(self.once(raw.octets(), fields), {1: ours})

    def test_payload_that_another_dissector_gives_up(self):
        """That of RPC over RDMA wants every payload. The line is ours then, with Wireshark's word at its end, and a note names it."""
        capture = ib.Frames()
        capture.add(ib.v2(ib.data(0x04, 0x22, psn=7, payload=b"hello")))
        capture.add(ib.v2(ib.data(0x04, 0x22, psn=8, payload=b"hello")), captured=60)
        path = self.tshark.file("given_up.pcap", capture.octets())
        frames = self.tshark.fields(path, COLUMNS)
        self.assertEqual([layers["_ws.col.Info"][0] for layers in frames.values()],
                         ["RC SEND Only QP=0x000022 PSN=7 Len=5 [Malformed Packet]",
                          "Invalid Packet Length from LRH! [Malformed Packet], RC SEND Only QP=0x000022 PSN=8 Len=5"])
        frames = self.tshark.fields(path, ("parley.ib.payload.gave_up", "_ws.expert.message", "_ws.malformed"))
        said = [[line for line in layers["_ws.expert.message"] if "could not read" in line] for layers in frames.values()
                if "parley.ib.payload.gave_up" in layers]
        self.assertEqual(said, [["The dissector of RPCoRDMA could not read the payload to its end"]])

    def test_broken_packets(self):
        short = ib.cm(ib.RTU, local_comm_id=1)
        capture, words = ib.Frames(), []
        for packet, severity, text in (
                (ib.bth(0x0C, 0x11) + bytes(8), ERROR, "the sender sent a packet that cannot be read: frame 1, octet 42: "
                 "RC RDMA READ Request: it ends before its headers do [IBA §9.2]"),
                (ib.bth(0x04, 0x11, pad=3), ERROR, "the sender sent a packet that cannot be read: frame 2, octet 42: "
                 "RC SEND Only: the BTH counts 3 octets of pad; 0 are left [IBA §9.2]"),
                (short[:120], ERROR, "A MAD of 100 octets; it has to have 256"),
                (ib.cm(ib.RTU, class_version=1, local_comm_id=2, remote_comm_id=3), ERROR, "the initiator's RTU is in a MAD of base version 1, class version 1, method 3 and "
                 "status 0; 1, 2, 3 and 0 are expected [IBA §13.4.2]"),
                (ib.cm(0x1B, octets=bytes(232)), WARNING, "Attribute 0x001b is not a message of the CM"),
                (ib.cm(ib.REJ, reason=8), NOTE, "Rejected, reason 8: invalid service ID: there is no listener there"),
                (ib.cm(ib.SIDR_REP, sidr_status=2), NOTE, "Refused, status 2: rejected by the service"),
                (ib.cm(ib.APR, ap_status=2), NOTE, "Alternate path refused, status 2: alternate paths not supported"),
                (ib.data(0x11, 0x11, syndrome=0x62), WARNING, "NAK: remote access error"),
                (ib.data(0x11, 0x11, syndrome=0x20), NOTE, "Receiver not ready: the sender has to wait 655.36 ms")):
            words.append((capture.add(ib.v2(packet)), severity, text))
        again = ib.v2(ib.req(1, ("tcp", 1), 0x11))
        first = capture.add(again)
        words.append((capture.add(again), NOTE, f"The same message as in frame {first}, sent 2 times so far"))
        own = [row for row in self.said(capture.octets()) if not row[2].startswith("Malformed") and "infiniband" not in row[2].lower()]
        self.assertEqual(own, words)

    def test_cut_captures_accuse_nobody(self):
        """What was not captured is not called short, nor its ICRC wrong."""
        capture = ib.Frames()
        for packet in ib.req(1, ("tcp", 1), 0x11), ib.data(0x0A, 0x11, payload=bytes(100)), ib.data(0xAA, 0x11, payload=b"12345"):
            frame = ib.v2(packet)
            for size in range(34, len(frame)):
                capture.add(frame, captured=size)
        frames = self.once(capture.octets(), ("parley.ib.icrc.status", "parley.ib.icrc.bad", "parley.rule.ib.malformed", "parley.ibcm.short", "parley.ib.psn"))
        self.assertEqual({field for layers in frames.values() for field in layers}, {"parley.ib.psn"})

    def test_every_filter_of_the_guide_finds_something(self):
        guide = (harness.SOURCE / "docs/wireshark.md").read_text(encoding="utf-8")
        filters = re.findall(r"^\| `(parley\.(?:quirk|rule|ib)\S*(?: .*)?)` \| [^|]* \|$", guide, re.MULTILINE)
        self.assertGreater(len(filters), 12)
        capture = ib.Frames()
        for name in "rxe61_cm", "rxe61_mra_mcast_ll", "rxe61_sidr_stale_abort", "rxe61_unreachable":
            for octets, _ in frames_of((REAL / f"{name}.pcap").read_bytes()):
                capture.add(octets)
        for packet in (ib.cnp(0x118), ib.data(0xAA, 0x11), ib.data(0x11, 0x11, syndrome=0x60), ib.data(0x11, 0x11, syndrome=0x21),
                       ib.cm(ib.LAP), ib.cm(ib.APR, ap_status=2), ib.bth(0x1F, 0x11, 0)):
            capture.add(ib.v2(packet))
        capture.add(ib.v2(ib.data(0x11, 0x11), damage=1))
        capture.add(ib.v2(ib.req(0x501, ("tcp", 1), 0x51, path_mtu=0)))  # a known departure: it is accepted
        capture.add(ib.v2(ib.rep(0x502, 0x501, 0x52), ib.B, ib.A))
        path = self.tshark.file("guide.pcap", capture.octets())
        done = self.tshark.run("-n", "-2", "-q", "-r", path, "-z", ",".join(("io,stat,0", *filters)))
        self.assertEqual((done.returncode, done.stderr.strip()), (0, ""))
        cells = done.stdout.splitlines()[-2].strip("|").split("|")  # the interval, then frames and octets of each filter
        counts = [int(cell) for cell in cells[1:2 * len(filters) + 1:2]]
        self.assertEqual(len(counts), len(filters))
        self.assertEqual([text for text, count in zip(filters, counts) if count == 0], [])


if __name__ == "__main__":
    unittest.main()
