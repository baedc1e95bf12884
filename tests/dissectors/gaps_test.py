# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What stock Wireshark shows of each capture, and what it shows with the plugin.

golden/<capture>.json has both views, frame by frame, and the gap that the capture is about. After a wanted change
PARLEY_REWRITE=1 writes them anew: read the difference.
"""
import json
import os
import re
import string
import unittest

import harness
import make_captures
import robust_test

GOLDEN = harness.HERE / "golden"
ABSOLUTE = ("-o", "tcp.relative_sequence_numbers:FALSE")
DECODE_AS = ("-d", "tcp.port==7471,parley")

# capture: (gap of stock Wireshark 4.0, options of tshark). The options are given to both.
GAPS = {
    "enhanced_data": ("enhanced data is not decoded, S counts as reserved, Replies are not checked", ()),
    "rtr_frame": ("the Rtr frame of 2007 is taken for an FPDU and shown as malformed", ()),
    "rtr_fpdu": ("RTR FPDUs are not marked, nor compared with what was agreed; nobody asks who spoke first", ()),
    "markers_one_direction": ("markers are assumed in both directions if either side asked for them", ()),
    "markers_several_in_fpdu": ("payload is wrong from the second marker of an FPDU on", ()),
    "markers_many_fpdus_in_segment": ("several FPDUs with markers in a segment are not decoded", ()),
    "markers_split": ("FPDUs with markers that straddle segments are mostly lost", ()),
    "markers_at_borders": ("a marker between FPDUs or before the CRC loses them all", ()),
    "markers_wrap": ("markers are misplaced when absolute sequence numbers are shown and wrap", ABSOLUTE),
    "markers_wrong_pointer": ("nobody compares FPDUPTR with the place of the FPDU", ()),
    "markers_first_lost": ("markers are counted from the first FPDU that is seen", ()),
    "equal_ports": ("with equal ports the direction is not known", ()),
    "reply_with_fpdu": ("an FPDU in the segment of the Reply is passed over; frames in pieces are not recognised", ()),
    "mid_stream": ("without the Request nothing is recognised", ()),
    "mid_stream_as": ("there is no Decode As", DECODE_AS),
    "mid_fpdu": ("without the Request nothing is recognised; there is no Decode As", DECODE_AS),
    "port_of_another": ("NVMe over TCP and SMB Direct claim their ports before anybody looks for a Request", ()),
    "out_of_order": ("segments out of order are not dissected", ()),
    "reply_lost_and_repeated": ("short Sends are called malformed RPCs", ()),
    "bad_crc": ("a wrong CRC is a word in a line and no expert item", ()),
    "short_sends": ("empty and short Sends are called malformed RPCs", ()),
    "two_sends_in_segment": ("the second message of a segment shows the payload of the first", ()),
    "terminates": ("sizes of Terminates are guessed; siw's exchanged halves and type 3 are unknown", ()),
    "immediate_and_atomic": ("Immediate Data is unknown, AOpCode is read as a whole word", ()),
    "numbering": ("nobody follows MSN, MO and TO", ()),
    "reads": ("a Read is not joined with its response, nor are Reads counted against ORD", ()),
    "send_in_segments": ("segments of a Send are not put together unless asked, and called SMB Direct", ()),
    "reject_then_second_request": ("a second Request keeps the markers and the CRC of the first", ()),
    "private_data": ("private data of SMB Direct and NVMe is not decoded", ()),
    "bad_startup": ("startup frames that break a rule are barely checked", ()),
    "bad_headers": ("versions, opcodes, T bits and queues are not checked", ()),
    "ipv6": ("none: shows that addresses of both families are followed", ()),
    "not_mpa": ("none: shows that strangers are left alone; who misspells a key is none", ()),
}
STOCK = ("_ws.col.Protocol", "_ws.col.Info", "iwarp_mpa.marker_flag", "iwarp_mpa.crc_flag", "iwarp_mpa.rev",
         "iwarp_mpa.res", "iwarp_mpa.privatedata", "iwarp_mpa.ulpdulength", "iwarp_mpa.marker_fpduptr",
         "iwarp_rdma.opcode", "iwarp_ddp.qn", "iwarp_ddp.msn", "iwarp_ddp.mo", "iwarp_ddp.stag",
         "iwarp_ddp.tagged_offset", "iwarp_rdma.term_layer",
         "iwarp_rdma.term_etype", "iwarp_rdma.term_errcode", "iwarp_rdma.term_hdrct", "iwarp_rdma.term_ddp_h",
         "iwarp_rdma.term_rdma_h", "iwarp_rdma.atomic.opcode", "data.data", "_ws.malformed", "_ws.expert.message")
OURS = ("_ws.col.Protocol", "_ws.col.Info", "data.data", "_ws.malformed", "_ws.expert.message", *(f"parley.{name}" for name in """
    mpa.connection mpa.from mpa.flags.res mpa.fpdu mpa.ulpdu_length mpa.position mpa.crc.status mpa.marker.fpduptr mpa.rtr
    mpa.first_frame mpa.whole_in mpa.enhanced.a mpa.enhanced.b mpa.enhanced.c mpa.enhanced.d mpa.enhanced.ird mpa.enhanced.ord
    ddp.qn ddp.msn ddp.mo ddp.stag ddp.to rdmap.opcode rdmap.data rdmap.message.in rdmap.message.data rdmap.request_in
    rdmap.response_in rdmap.time rdmap.immediate rdmap.atomic.opcode rdmap.atomic.id rdmap.atomic.to rdmap.atomic.value
    rdmap.terminate.meaning rdmap.terminate.swapped rdmap.terminate.other_reading rdmap.terminate.ddp_length
    rdmap.terminate.ddp.msn rdmap.terminate.ddp.stag rdmap.terminate.read.size rdmap.terminate.read.source_stag
    private.format private.smb_direct.ird private.smb_direct.ord private.nvme.qid private.nvme.hrqsize private.nvme.hsqsize
    private.nvme.crqsize private.nvme.status""".split()))
# Expert items of TCP itself, which both views share.
TCP_WORDS = re.compile(r"^(Connection (establish|finish|reset)|This frame (initiates|undergoes|is a)|Previous segment|"
                       r"ACKed segment|Ambiguous ACK|TCP SYN|D-SACK|A new tcp|The acknowledgment number)|\((?:TCP|tcp)[^)]*\)$")
INFO_NOISE = re.compile(r" (Seq|Ack|Win|Len|TSval|TSecr)=\d+")
# Here stock tshark misses FPDUs, or finds some that were not sent.
LOST = {"rtr_frame", "markers_one_direction", "markers_many_fpdus_in_segment", "markers_split", "markers_at_borders",
        "markers_wrap", "markers_first_lost", "equal_ports", "reply_with_fpdu", "mid_stream", "mid_stream_as",
        "mid_fpdu", "port_of_another", "out_of_order", "reject_then_second_request", "private_data"}
RESULTS = {}


def payload_words(text):
    """Octets in hexadecimal, in words that can be reviewed."""
    octets = bytes.fromhex(text.replace(":", ""))
    if octets and all(chr(octet) in string.printable for octet in octets) and len(octets) < 60:
        return octets.decode("ascii")
    counting = 0
    while counting < len(octets) and octets[counting] == (octets[0] + counting) % 256:
        counting += 1
    if counting < 8:
        return text
    words = f"{len(octets)} octets that count from {octets[0]}"
    return words if counting == len(octets) else words + f", wrong from octet {counting} on"


def value_words(field, value):
    if field.endswith((".data", ".immediate")) or re.fullmatch(r"(?:[0-9a-f]{2}:?){16,}", value):
        return payload_words(value)
    return INFO_NOISE.sub("", value) if field == "_ws.col.Info" else value


def view(tshark, name, fields, options):
    """{frame: {field: value or values}} of the frames that carry TCP payload."""
    path = tshark.file(f"{name}.pcap", (harness.HERE / "captures" / f"{name.removesuffix('_as')}.pcap").read_bytes())
    out = {}
    for number, layers in tshark.fields(path, (*fields, "tcp.len"), options).items():
        if layers.pop("tcp.len", ["0"]) == ["0"]:
            continue
        layers["_ws.expert.message"] = [m for m in layers.get("_ws.expert.message", ()) if not TCP_WORDS.search(m)]
        layers["_ws.malformed"] = [m for m in layers.get("_ws.malformed", ()) if m != "_ws.malformed"]
        words = {field: [value_words(field, value) for value in values] for field, values in layers.items() if values}
        out[number] = {field: values[0] if len(values) == 1 else values for field, values in sorted(words.items())}
    return out


def compact(value, indent=1, width=120):
    """JSON in which what fits stands in one line, and as many fields as fit."""
    whole = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict) or not value or (indent > 1 and indent + len(whole) <= width):
        return whole
    fields = [f"{json.dumps(k)}: {compact(v, indent + 1, width)}" for k, v in value.items()]
    lines = [fields[0]]
    for field in fields[1:]:
        fits = "\n" not in lines[-1] + field and indent + len(lines[-1]) + len(field) + 3 <= width
        lines[-1:] = [f"{lines[-1]}, {field}"] if fits else [lines[-1], field]
    return "{\n" + ",\n".join(" " * indent + line for line in lines) + "\n" + " " * (indent - 1) + "}"


def values(frames, field):
    found = []
    for layers in frames.values():
        value = layers.get(field, [])
        found += value if isinstance(value, list) else [value]
    return found


def of_the_plugin(frames):
    """What the plugin alone has put there: all of a frame that it shows, and its own fields of others."""
    found = {}
    for number, layers in frames.items():
        shows = layers["_ws.col.Protocol"] == "iWARP"
        words = {name: value for name, value in layers.items() if value != "" and (shows or name.startswith("parley."))}
        if "_ws.col.Info" in words:
            words["_ws.col.Info"] = harness.as_before_4_6(words["_ws.col.Info"])
        found[number] = words
    return found


class Gaps(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        with harness.Tshark(False) as stock, harness.Tshark(True) as ours:
            if "parley.so" in stock.run("-G", "plugins").stdout:
                raise AssertionError("a Parley plugin is installed for everybody: there is no stock tshark here")
            for name, (_, options) in GAPS.items():
                given = () if name.endswith("_as") or options == DECODE_AS else options
                RESULTS[name] = (view(stock, name, STOCK, given), view(ours, name, OURS, options))

    def test_every_capture_is_written_by_the_generator(self):
        self.assertEqual(make_captures.main(["--check"]), 0)
        self.assertEqual(sorted({name.removesuffix("_as") for name in GAPS}), sorted(make_captures.CAPTURES))

    @unittest.skipIf(harness.API == "4.0", "the whole views are compared")
    def test_the_plugins_view_is_that_of_4_0(self):
        for name in GAPS:
            with self.subTest(capture=name):
                reviewed = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))["parley"]
                self.assertEqual(of_the_plugin(RESULTS[name][1]), of_the_plugin(reviewed))

    @unittest.skipIf(harness.API != "4.0", "what other dissectors show depends on the version")
    def test_both_views_are_the_reviewed_ones(self):
        for name, (gap, options) in GAPS.items():
            stock, ours = RESULTS[name]
            text = compact({"gap": gap, "options": " ".join(options), "stock": stock, "parley": ours}) + "\n"
            path = GOLDEN / f"{name}.json"
            if os.environ.get("PARLEY_REWRITE"):
                GOLDEN.mkdir(exist_ok=True)
                path.write_text(text, encoding="utf-8")
            with self.subTest(capture=name):
                self.assertEqual(path.read_text(encoding="utf-8") if path.exists() else "", text)

    def test_every_fpdu_is_found_once(self):
        for name, (gap, _) in GAPS.items():
            with self.subTest(capture=name):
                sent = make_captures.made(name.removesuffix("_as")).ulpdus()
                stock, ours = ([int(value) for value in values(view, field)] for view, field in
                               zip(RESULTS[name], ("iwarp_mpa.ulpdulength", "parley.mpa.ulpdu_length")))
                self.assertEqual(sorted(ours), sent)
                if name in LOST and harness.API == "4.0":
                    self.assertNotEqual(sorted(stock), sent, "stock tshark has become better: " + gap)

    def test_every_filter_of_the_guide_finds_something(self):
        """docs/wireshark.md has a table of filters; a name that changes must change there, too. ib_test.py has those of
        parley.ib, parley.quirk and parley.rule, mad_test.py those of parley.mad."""
        guide = (harness.SOURCE / "docs/wireshark.md").read_text(encoding="utf-8")
        filters = re.findall(r"^\| `(parley(?!\.ib|\.mad|\.quirk|\.rule)\S*(?: .*)?|_ws\..*)` \| [^|]* \|$", guide, re.MULTILINE)
        self.assertGreater(len(filters), 12)
        crowd = robust_test.Crowd()
        for path in harness.captures():
            for frames in robust_test.connections(path):
                crowd.add(frames)
        with harness.Tshark(True) as ours:
            path = ours.file("all.pcap", crowd.octets())
            done = ours.run("-n", "-q", "-r", path, "-z", ",".join(("io,stat,0", *filters)))
        self.assertEqual((done.returncode, done.stderr.strip()), (0, ""))
        cells = done.stdout.splitlines()[-2].strip("|").split("|")  # the interval, then frames and octets of each filter
        counts = [int(cell) for cell in cells[1:2 * len(filters) + 1:2]]
        self.assertEqual([text for text, count in zip(filters, counts, strict=True) if count == 0], [])


if __name__ == "__main__":
    unittest.main()
