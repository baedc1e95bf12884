# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Management datagrams: the plugin shows of any octets what `parley mad decode` says of them, member by member. PARLEY is the
command, whose decoder and the plugin are two readers of one table."""
import ipaddress
import itertools
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import unittest

import harness
import ib_wire as ib
import mad_case as mad
from ib_case import ERROR, INFINIBAND, NOTE, NOT_OURS, REAL, Case, number
from robust_test import frames_of

PARLEY = os.environ["PARLEY"]
SEED = int(os.environ.get("PARLEY_SEED", "13"))
LINK_ERF = 197
ERF_HEADER, ERF_INFINIBAND = 16, 21
UD_SEND_ONLY = 0x64
DRAWS, DRAWS_OF_VARIANTS = 2, 16  # of each request and each answer that there is


def decoded(datagrams):
    lines = "\n".join(octets.hex() for octets in datagrams)
    done = subprocess.run([PARLEY, "mad", "decode", "--json"], input=lines, capture_output=True, text=True, check=True, timeout=harness.LIMIT)
    reader, place, out = json.JSONDecoder(), 0, []
    while place < len(done.stdout):
        value, place = reader.raw_decode(done.stdout, place)
        out.append(value)
        place += len(done.stdout[place:]) - len(done.stdout[place:].lstrip())
    return out


def decoded_frames(path):
    """Those in which `parley mad decode` finds a datagram."""
    done = subprocess.run([PARLEY, "mad", "decode", "--read", path, "--json"], capture_output=True, text=True, check=False, timeout=harness.LIMIT)
    return {event["frame"] for event in map(json.loads, done.stdout.splitlines()) if "frame" in event}


def packet(octets, qpn=1, q_key=ib.GSI_Q_KEY, opcode=UD_SEND_ONLY, source=1):
    return ib.bth(opcode, qpn, pad=-len(octets) % 4) + struct.pack(">II", q_key, source) + octets + bytes(-len(octets) % 4)


def native(inner, vl=15):
    """A record of an InfiniBand link. Its CRCs are not checked here."""
    words = (8 + len(inner) + 4) // 4
    link = struct.pack(">BBHHH", vl << 4, 2, 5, words, 3) + inner + ib.icrc(bytes([vl << 4 | 0xF0]) + struct.pack(">BHHH", 2, 5, words, 3) +
                                                                        inner[:4] + b"\xff" + inner[5:]) + bytes(2)
    return struct.pack("<Q", 0) + struct.pack(">BBHHH", ERF_INFINIBAND, 4, ERF_HEADER + len(link), 0, len(link)) + link


def drawn(chance):
    """(datagram, queue pair): every request and answer of the table, what is not in it, other versions."""
    traps = itertools.cycle([trap for first, last, _ in mad.TRAPS for trap in (first - 1, first, last, last + 1)])
    for structure, name, methods in mad.LEGAL:
        first, last, version, *_ = mad.CLASSES[name]
        attribute = mad.STRUCTURES[structure][1]
        if name == "comm_mgt" and attribute in mad.CM_MESSAGES:
            continue
        asked = [mad.METHODS[method.strip().removeprefix("PARLEY_MAD_").lower().replace("delete", "delete_")] for method in methods.split("|")]
        answers = [method | 0x80 for method in asked if method not in (3, 5)]
        for method in (*asked, *answers) * (DRAWS_OF_VARIANTS if structure in ("Notice", "SwitchCongestionLog") else DRAWS):
            mgmt_class = chance.choice((0x01, 0x81)) if name == "subn" else chance.randrange(0x30, 0x50) if chance.randrange(3) == 0 and \
                name == "vendor" else chance.choice(range(first, last + 1))
            data = mad.CLASSES["vendor_oui" if mgmt_class in range(0x30, 0x50) else name][4]
            octets = mad.datagram(chance, mgmt_class, version or chance.randrange(1, 256), method, attribute)
            if structure == "Notice" and chance.randrange(8):
                octets[data] |= 0x80
                octets[data + 4:data + 6] = next(traps).to_bytes(2, "big")
            if structure == "SwitchCongestionLog":
                octets[data] = chance.choice((1, 2))
            stride = 0
            if name == "subn_adm":
                table_header(chance, octets, mad.STRUCTURES[structure][0])
                stride = int.from_bytes(octets[44:46], "big") * 8
            for at in range(data, len(octets), stride or len(octets)):
                mad.settle(chance, octets, structure, at)
            yield bytes(octets), 0 if name == "subn" else 1
    for mgmt_class, version, attribute in ((0x01, 2, 0x15), (0x02, 1, 0x11), (0x03, 1, 0x35), (0x09, 1, 0x17), (0x0A, 1, 0x17), (0x10, 1, 0x10), (0x2F, 7, 0x1000), (0x30, 1, 0x10),
                                           (0x4F, 1, 0x11), (0x50, 1, 1), (0x21, 1, 0x12), (0x04, 1, 0x7777), (0x06, 1, 0), (0x01, 1, 0xFF17)):
        for method in (0x01, 0x02, 0x81, 0x77, 0x92):
            yield bytes(mad.datagram(chance, mgmt_class, version, method, attribute)), 1
    yield bytes(mad.datagram(chance, 0x01, 1, 1, 0x15, base=2)), 0


def table_header(chance, octets, size):
    """RMPP's header, and how far apart the records are."""
    octets[24:28] = bytes((1, chance.choice((1, 1, 1, 2, 3, 4)), chance.randrange(256) & 0xF8 | chance.choice((0, 1, 3, 5, 7)), 0))
    octets[28:32] = chance.choice((0, 1, 1, 1, 2)).to_bytes(4, "big")
    octets[32:36] = chance.choice((0, 19, 20, 76, 148, 220, 0xFFFFFFFF)).to_bytes(4, "big")
    octets[44:46] = chance.choice((0, (size + 7) // 8, (size + 7) // 8, (size + 7) // 8, (size + 15) // 8, max(0, size // 8 - 1))).to_bytes(2, "big")


class Alike(Case):
    """`seen`: members that were shown, of all tests."""
    seen = set()

    def views(self, octets, name="mads.pcap"):
        path = self.tshark.file(name, octets)
        done = self.tshark.run("-n", "-r", path, *NOT_OURS, "-T", "pdml", "-J", "geninfo parley.mad")
        self.assertEqual((done.returncode, done.stderr.strip()), (0, ""))
        self.assertIsNone(harness.CRASH.search(done.stdout))
        return dict(mad.frames_of(done.stdout))

    def same(self, frames, views):
        """`frames`: {number: octets of the datagram}."""
        whole = {frame: octets for frame, octets in frames.items() if len(octets) >= 24}
        for (frame, octets), expected in zip(whole.items(), decoded(whole.values()), strict=True):
            with self.subTest(frame=frame, datagram=octets.hex()):
                self.assertIsNotNone(views[frame])
                self.one_is(expected, views[frame], octets)
        for frame, octets in frames.items():
            if frame not in whole:
                self.assertEqual([(child.get("name"), child.get("value")) for child in mad.own(views[frame])],
                                 [("parley.mad.data", octets.hex())] if octets else [])

    def one_is(self, expected, view, octets):
        words = {child.get("name"): child for child in mad.own(view) if child.get("name").count(".") == 2 and child.get("name").islower()}
        parts = [mad.read_structure(child, self.seen) for child in mad.own(view) if child.get("name") not in words]
        self.assertEqual([child.get("show") for child in mad.own(view) if child.get("name") == "parley.mad.component"], expected["components"])
        self.assertEqual(words["parley.mad.title"].get("show"), expected["title"])
        self.assertIn(f"Parley MAD: {expected['title']}", view.get("showname"))
        self.assertEqual(words["parley.mad.status"].get("show") if "parley.mad.status" in words else None, expected["status"])
        self.assertEqual(words["parley.mad.data"].get("value") if "parley.mad.data" in words else None, expected.get("data") or None)
        self.structure_is(*parts[0], expected["header"])
        details = [part for part in parts[1:] if re.fullmatch(r"Trap\d+Details", part[0])]
        records = [part for part in parts[1:] if part not in details]
        self.assertEqual((len(records), [name for name, _ in details]), (len(expected["records"]), [one["name"] for one in expected["details"]]))
        for (name, members), record in zip(records, expected["records"]):
            self.assertEqual(name, expected["attribute"])
            self.structure_is(name, members, record)
        for (name, members), one in zip(details, expected["details"]):
            self.structure_is(name, members, one["fields"])

    def structure_is(self, structure, members, expected):
        self.assertEqual(set(members), set(expected), structure)
        self.assertEqual(members.pop("reserved", None), expected.get("reserved"), structure)
        for name, value in members.items():
            _, width, count, kind = mad.STRUCTURES[structure][2][name]
            many = isinstance(value, list)
            self.assertEqual(many, count > 1 and kind not in ("text", "octets"), name)
            for one, due in zip(value if many else [value], expected[name] if many else [expected[name]], strict=True):
                if kind in mad.STRUCTURES:
                    self.assertEqual(one[0], kind)
                    self.structure_is(*one, due)
                else:
                    self.value_is(one, due, kind, f"{structure}.{name}")

    def value_is(self, one, due, kind, where):
        show, label = one.get("show"), one.get("showname").split(": ", 1)[-1]
        if kind == "text":
            self.assertEqual((bytes.fromhex(one.get("value")).split(b"\0")[0].decode(), show), (due, due), where)
        elif kind == "octets":
            self.assertEqual(one.get("value"), due, where)
        elif kind == "gid":
            self.assertEqual(ipaddress.ip_address(show), ipaddress.ip_address(due), where)
        elif kind == "flag":
            self.assertEqual(label, "yes" if due else "no", where)
        elif isinstance(due, dict):
            self.assertEqual(number(show), due["value"], where)
            self.words_are(one, label, due, where)
        else:
            self.assertEqual(number(show), number(due) if isinstance(due, str) else due, where)
            unit = {"seconds": " s", "milliseconds": " ms", "words": " x 4 octets"}.get(kind, "")
            self.assertEqual(label, show + unit, where)

    def words_are(self, one, label, due, where):
        if "us" in due:
            shown = re.fullmatch(r"(\d+)(?: \(([\d.]+) (us|ms|s)\))?", label)
            time = float(shown[2]) * {"us": 1, "ms": 1e3, "s": 1e6}[shown[3]] if shown[2] else None
            self.assertEqual((int(shown[1]), time is None), (due["value"], due["us"] is None), where)
            self.assertAlmostEqual(time or 0, due["us"] or 0, delta=1e-9 * (due["us"] or 1), msg=where)
        elif "names" in due:
            self.assertEqual([child.get("show") for child in mad.own(one)], due["names"], where)
            words = re.sub(r"(, 0x\w+)?\)$", "", label.partition(" (")[2])  # a long line is cut
            self.assertEqual(words[:150], ", ".join(due["names"])[:150], where)
        else:
            self.assertEqual(label, f"{due['name'] or 'Unknown'} ({due['value']})", where)


class Sweep(Alike):
    def test_every_structure_with_any_octets(self):
        """Four carriages; then cut by the sender and by the capture."""
        chance, frames = random.Random(SEED), {}
        capture = ib.Frames()
        carriages = (ib.v2, ib.v1, lambda inner: ib.v2(inner, ib.A6, ib.B6))
        for count, (octets, qpn) in enumerate(drawn(chance)):
            frames[capture.add(carriages[count % 3](packet(octets, qpn)))] = octets
            if count % 7 == 0:
                size = chance.randrange(len(octets) + 1)
                frames[capture.add(ib.v2(packet(octets[:size], qpn)))] = octets[:size]
            if count % 7 == 1:
                size = chance.randrange(len(octets) + 1)
                frames[capture.add(ib.v2(packet(octets, qpn)), captured=62 + size)] = octets[:size]
        self.same(frames, self.views(capture.octets()))
        due = mad.shown_members()
        self.assertGreater(len(due), 550)
        self.assertEqual(due - self.seen, set())

    def test_fields_are_those_of_the_table(self):
        listed = {row.split("\t")[2] for row in self.tshark.run("-G", "fields").stdout.splitlines() if "\tparley.mad." in row}
        members = {tuple(name.split(".")[2:]) for name in listed if name.count(".") == 3}
        data = {(row[3], "data") for row in mad.CLASSES.values()} & members
        self.assertEqual(members - data, mad.shown_members())

    def test_links_of_infiniband(self):
        chance, frames = random.Random(SEED + 1), {}
        capture = ib.Frames(LINK_ERF)
        for octets, qpn in list(drawn(chance))[::9]:
            frames[capture.add(native(packet(octets, qpn)))] = octets
        self.same(frames, self.views(capture.octets()))


class Real(Alike):
    def datagrams(self, octets):
        """{frame: datagram} of what is not a message of the CM, in records of an InfiniBand link without a GRH."""
        found = {}
        for count, (record, _) in enumerate(frames_of(octets), 1):
            header = ERF_HEADER + 8 * (record[8] >> 7)
            inner = record[header + 8:]
            if record[8] & 0x7F == ERF_INFINIBAND and record[header + 1] & 3 == 2 and inner[0] == UD_SEND_ONLY and inner[5:8] in (bytes(3), b"\0\0\1"):
                if inner[21] != 0x07:
                    found[count] = inner[20:276]
        return found

    def test_a_capture_of_a_subnet(self):
        """SMPs and requests to subnet administration with their answers, of opensm's and Mellanox's."""
        octets = (REAL / f"{INFINIBAND[0]}.pcap").read_bytes()
        frames = self.datagrams(octets)
        self.assertEqual({octets[1] for octets in frames.values()}, {0x03, 0x81})
        views = self.views(octets)
        self.assertEqual({frame for frame, view in views.items() if view is not None}, set(frames))
        self.same(frames, views)

    def test_what_parley_writes(self):
        """--pcap of requests to a simulated subnet, and what it answers."""
        classes = set()
        for count, command in enumerate((("discover",), ("query", "PerformanceGet", "PortCounters", "1", "port_select=1", "--retries", "0"))):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "tap.pcap"
                subprocess.run([PARLEY, "mad", *command, "--sim", "fat-tree:2,4,2,2", "--pcap", file], capture_output=True, timeout=harness.LIMIT, check=count == 0)
                octets = file.read_bytes()
            frames = self.datagrams(octets)
            classes |= {octets[1] for octets in frames.values()}
            views = self.views(octets)
            self.assertEqual(set(frames), set(views))
            self.same(frames, views)
        self.assertEqual(classes, {0x81, 0x04})


class Beside(Case):
    def test_what_is_a_datagram(self):
        """QP0, QP1, and another queue pair with the Q_Key of QP1; of the CM only what is no message."""
        octets = bytes(mad.datagram(random.Random(SEED), 0x04, 1, 0x01, 0x12))
        cm = bytes(mad.datagram(random.Random(SEED), 0x07, 2, 0x81, 0x01))
        rows = ((packet(octets, 0), True), (packet(octets, 1), True), (packet(octets, 1, q_key=7), True), (packet(octets, 0x17), True),
                (packet(octets, 0x17, q_key=7), True), (packet(octets[:100], 0x17, q_key=7), True), (packet(octets, 0x17, source=0x18), True),
                (packet(octets, 0x17, q_key=7, source=0x18), False), (packet(octets[:255], 0x17, source=0x18), False),
                (packet(b"\2" + octets[1:], 0x17, source=0x18), False), (packet(octets, 1, source=0x18), True),
                (packet(octets, 1, opcode=0x65), False), (packet(cm), True), (ib.cm(ib.RTU, local_comm_id=1), False),
                (ib.data(0x04, 1, payload=octets), False))
        capture = ib.Frames()
        due = {capture.add(ib.v2(inner)): is_mad for inner, is_mad in rows}
        fields = ("parley.mad", "parley.ibcm", "parley.mad.MadHeader.attribute_id")
        shown = self.once(capture.octets(), (*fields, "frame.len"))
        self.assertEqual({frame: "parley.mad" in layers for frame, layers in shown.items()}, due)
        self.assertEqual(shown[13]["parley.mad.MadHeader.attribute_id"], ["0x0001"])
        self.assertIn("parley.ibcm", shown[13])
        path = self.tshark.file("off.pcap", capture.octets())
        cm_message = len(rows) - 1  # which `decode` shows too
        self.assertEqual(decoded_frames(path) - {cm_message}, {frame for frame, is_mad in due.items() if is_mad})
        self.assertEqual(self.tshark.fields(path, fields[:1], ("--disable-protocol", "parley.mad")), {})

    def test_what_is_missing_is_told(self):
        """A sender's fault is an error, the capture's a note."""
        octets = bytes(mad.datagram(random.Random(SEED), 0x01, 1, 0x81, 0x11))
        capture, due = ib.Frames(), {}
        for size in (0, 1, 23, 24, 100, 255):
            due[capture.add(ib.v2(packet(octets[:size], 0)))] = (ERROR, f"A MAD of {size} octets; it has to have 256")
            due[capture.add(ib.v2(packet(octets, 0)), captured=62 + size)] = (NOTE, f"The capture has {size} of the 256 octets of this MAD")
        capture.add(ib.v2(packet(octets, 0)))
        frames = self.once(capture.octets(), ("parley.mad", "_ws.expert.severity", "_ws.expert.message"))
        told = {frame: pair for frame, layers in frames.items() for pair in zip(layers.get("_ws.expert.severity", ()), layers.get("_ws.expert.message", ()))
                if "MAD" in pair[1] and "parley.mad" in layers}
        self.assertEqual(told, due)

    def test_every_filter_of_the_guide_finds_something(self):
        guide = (harness.SOURCE / "docs/wireshark.md").read_text(encoding="utf-8")
        filters = re.findall(r"^\| `(parley\.mad\S*(?: .*)?)` \| [^|]* \|$", guide, re.MULTILINE)
        self.assertGreater(len(filters), 5)
        chance, capture = random.Random(SEED + 2), ib.Frames()
        for octets, qpn in drawn(chance):
            capture.add(ib.v2(packet(octets, qpn)))
        port_info, state = mad.CLASSES["subn"][4], mad.STRUCTURES["PortInfo"][2]["port_state"][0]
        for value in range(256):
            answer = mad.datagram(chance, 0x01, 1, 0x81, mad.STRUCTURES["PortInfo"][1])
            answer[port_info + state] = value
            capture.add(ib.v2(packet(bytes(answer), 0)))
        capture.add(ib.v2(packet(bytes(100), 0)))
        path = self.tshark.file("guide.pcap", capture.octets())
        done = self.tshark.run("-n", "-q", "-r", path, *NOT_OURS, "-z", ",".join(("io,stat,0", *filters)))
        self.assertEqual((done.returncode, done.stderr.strip()), (0, ""))
        cells = done.stdout.splitlines()[-2].strip("|").split("|")
        counts = [int(cell) for cell in cells[1:2 * len(filters) + 1:2]]
        self.assertEqual([text for text, count in zip(filters, counts, strict=True) if count == 0], [])


if __name__ == "__main__":
    unittest.main()
