# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the tests of RoCE and the InfiniBand CM share: tshark's view of a capture, and other readings of it."""
import ast
import ipaddress
import re
import unittest

import harness
import ib_wire
from robust_test import frames_of

REAL = harness.SOURCE / "tests/captures/roce"
GOLDEN = harness.HERE / "golden/ib"  # NAME.cm.txt is another decoder's reading of tests/captures/roce/NAME.pcap
# RoCE frames of each capture.
CAPTURES = {"rxe61_cm": 96, "rxe61_data": 610, "rxe61_errors_loss": 980, "rxe61_mra_mcast_ll": 17, "rxe61_sidr_stale_abort": 10,
            "rxe61_unreachable": 21}
INFINIBAND = "ib_2008_mthca_erf", 43
# What only a later frame shows: with the second pass.
FORWARD = ("parley.ibcm.response_in", *(f"parley.ibcm.{name}_in" for name in "req mra rej rep rtu dreq drep sidr_req sidr_rep lap apr".split()))
LATER = (*FORWARD, "parley.rule.ib.service")  # what only later packets show
COLUMNS = ("_ws.col.Protocol", "_ws.col.Info")
NOT_OURS = ("--disable-protocol", "rpcordma")  # it takes perftest over RoCE for its own, and fails an assertion of Wireshark's
ICMP_LINKS = re.compile(r" \((no response found!|re(ply|quest) in \d+)\)")
GOOD = "1"
ERROR, WARNING, NOTE = "8388608", "6291456", "4194304"
SEEN = {}
# IBA chapter 12 and Annex A11.
BODY = sorted({name for fields in ib_wire.FIELDS.values() for name in fields})
CM = tuple(f"parley.ibcm.{name}" for name in [*BODY, "base_version", "class", "class_version", "method", "mad_status", "transaction_id",
                                              "message", "attribute_modifier", "service", "cma.version", "cma.ip_version",
                                              "cma.source_port", "cma.source", "cma.destination", "cma.source_ip6",
                                              "cma.destination_ip6", "info.meaning"])
LINKS = ("parley.ib.connection", "parley.ib.from", "parley.ib.service", "parley.ib.setup.req", "parley.ib.setup.rep",
         "parley.ibcm.request_in", "parley.ibcm.time", "parley.ibcm.retransmission_of", "parley.ibcm.copy", *FORWARD)
BTH = ("parley.ib.psn", "parley.ib.ack_req", "parley.ib.deth.q_key", "parley.ib.deth.source_qpn")
STOCK = ("infiniband.bth.opcode", "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.invariant.crc", "infiniband.mad.attributeid",
         "infiniband.mad.transactionid", "infiniband.deth.srcqp")
REAL_FIELDS = (*CM, *LINKS, *BTH, *STOCK, *COLUMNS, "_ws.col.Source", "parley.ib", "parley.ibcm", "parley.ib.icrc.status", "parley.ib.nak",
               "parley.ib.rnr")


def number(text):
    return int(text, 16) if text.startswith("0x") else int(text)


def octets_of(text):
    return bytes.fromhex(text.replace(":", "").removesuffix(".."))


def other_reading(name):
    """[(frame, type, {field: value})] of the CM's messages, by the other decoder."""
    messages = []
    for line in (GOLDEN / f"{name}.cm.txt").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"#(\d+) t=([\d.]+) bth.psn=(\d+) ackreq=(\d) deth.qkey=(\w+) sqp=(\d+) (\w+)", line):
            messages.append((int(match[1]), match[7], {"psn": number(match[3]), "ackreq": number(match[4]), "q_key": number(match[5]),
                                                       "sqp": number(match[6]), "t": float(match[2])}))
            continue
        key, value = line.strip().split(" ", 1)
        if value.startswith("{"):
            messages[-1][2].update({f"{key}.{field}": part for field, part in ast.literal_eval(value).items()})
        else:
            messages[-1][2][key] = value
    return messages


def udp_frames(name):
    """[(frame, source, destination, octets from the BTH on)] of the RoCEv2 frames of a capture."""
    found = []
    for count, (octets, _) in enumerate(frames_of((REAL / f"{name}.pcap").read_bytes()), 1):
        v4 = octets[12:14] == b"\x08\x00" and octets[23] == 17
        v6 = octets[12:14] == b"\x86\xdd" and octets[20] == 17
        begin = 34 if v4 else 54
        if (v4 or v6) and octets[begin + 2:begin + 4] == b"\x12\xb7":
            ends = (octets[26:30], octets[30:34]) if v4 else (octets[22:38], octets[38:54])
            found.append((count, *(ipaddress.ip_address(end) for end in ends), octets[begin + 8:]))
    return found


def texts(name):
    """{value: words} of a list of include/parley/wire."""
    source = "".join((harness.SOURCE / f"include/parley/wire/{file}.h").read_text(encoding="utf-8") for file in ("ib", "ib_codes", "ibcm"))
    rows = re.search(rf"#define PARLEY_{name}\(X\)((?:.*\\\n)*.*\n)", source)[1]
    return {number(value): text for value, text in re.findall(r'X\(\w+, (\w+), (?:[^"()]*)"([^"]*)"\)', rows)}


def links(layers):
    """{short name: value} of the numbers that are shown."""
    names = {field: field.split(".", 2)[2] for field in LINKS}
    return {names[field]: values[0] for field, values in layers.items() if field in names}


class Case(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tshark = cls.enterClassContext(harness.Tshark(True))

    def once(self, octets, fields, options=(), name="capture.pcap"):
        """{frame: {field: [values]}} of one pass."""
        path = self.tshark.file(name, octets)
        return {int(frame): layers for frame, layers in self.tshark.fields(path, fields, (*NOT_OURS, *options)).items()}

    def shown(self, octets, fields, name="capture.pcap"):
        """The same of two passes; what one pass shows is no less, but for what only the second knows."""
        one, two = (self.once(octets, fields, more, name) for more in ((), ("-2",)))
        behind = [{frame: {field: values for field, values in layers.items() if field not in LATER} for frame, layers in view.items()
                   if set(layers) - set(LATER)} for view in (one, two)]
        for layers in (layers for view in behind for layers in view.values() if "_ws.col.Info" in layers):
            layers["_ws.col.Info"] = [ICMP_LINKS.sub("", text) for text in layers["_ws.col.Info"]]
        differ = [frame for frame in {**behind[0], **behind[1]} if behind[0].get(frame) != behind[1].get(frame)]
        self.assertEqual(*({frame: view.get(frame) for frame in differ[:3]} for view in behind))
        return two

    def real(self, name):
        """A capture of the repository with all fields that any test of it asks for; read once."""
        if name not in SEEN:
            octets, file = (REAL / f"{name}.pcap").read_bytes(), f"{name}.pcap"
            large = len(octets) > 100_000  # two passes of the others are enough
            SEEN[name] = self.once(octets, REAL_FIELDS, ("-2",), file) if large else self.shown(octets, REAL_FIELDS, file)
        return SEEN[name]

    def said(self, octets, options=()):
        """[(frame, severity, words)] of our expert items."""
        frames = self.once(octets, ("parley.ib", "_ws.expert.severity", "_ws.expert.message"), options)
        return [(frame, severity, text) for frame, layers in frames.items() if "parley.ib" in layers
                for severity, text in zip(layers.get("_ws.expert.severity", ()), layers.get("_ws.expert.message", ()))]
