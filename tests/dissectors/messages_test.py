# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the plugin knows of more than one frame: messages, Reads, Terminates, whole connections; and who else gets them."""
import random
import re
import struct
import unittest

import harness
from wire import (ACK, C, FIN, INITIATOR, M, PSH, R, REP, REQ, RESPONDER, RST, S, Capture, Framer, atomic_request, enhanced,
                  pattern, read_request, read_response, send, startup, terminate, write)

V1 = startup(REQ, C, 1), startup(REP, C, 1)
TWO_PASSES = ("-2",)


def v2(kinds, ird=8, ord_=8, private=b""):
    return (startup(REQ, C | S, 2, enhanced(ird, ord_, kinds) + private),
            startup(REP, C | S, 2, enhanced(ord_, ird, kinds)))


def rpc_call(xid, program=100003, version=3):
    """An NFS NULL call in RPC-over-RDMA: RFC 8166 §4, RFC 5531 §9."""
    transport = struct.pack(">7I", xid, 1, 32, 0, 0, 0, 0)
    return transport + struct.pack(">10I", xid, 0, 2, program, version, 0, 0, 0, 0, 0)


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tshark = cls.enterClassContext(harness.Tshark(True))

    def frames(self, capture, fields, options=TWO_PASSES):
        path = self.tshark.file(f"{self._testMethodName}.pcap", capture.octets())
        return self.tshark.fields(path, fields, options)

    def remarks(self, capture, options=TWO_PASSES):
        """What the expert items say of DDP and RDMAP, in the order of frames."""
        out = []
        for frame in self.frames(capture, ("_ws.expert.message",), options).values():
            out += [m for m in frame["_ws.expert.message"] if re.search(r"\[RFC (5040|5041|7306|6580)[^\]]*\]$", m)]
        return out

    def connections(self, capture, *filters):
        """The lines of -z parley,conn as {column: value}: the same in one pass and in two."""
        path = self.tshark.file(f"{self._testMethodName}.pcap", capture.octets())
        once, twice = (self.tshark.run("-n", *passes, "-q", "-r", path, "-z", ",".join(("parley,conn", *filters)),
                                       timeout=harness.LIMIT) for passes in ((), TWO_PASSES))
        self.assertEqual((once.returncode, once.stderr), (0, ""))
        self.assertEqual((twice.stdout, twice.stderr), (once.stdout, ""))
        head, *lines = once.stdout.splitlines()
        names = re.split(r" {2,}", head.strip())
        return [dict(zip(names, re.split(r" {2,}", line.strip()))) for line in lines]

    # ---------------------------------------------------------------- messages and Reads

    def test_a_message_of_three_segments_is_whole_in_its_last(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        a.fpdu(INITIATOR, send(1, pattern(700), last=False))
        a.fpdus(INITIATOR, send(1, pattern(700, 700 % 256), offset=700, last=False),
                send(1, pattern(100, 1400 % 256), offset=1400), send(2, b"the next one"))
        frames = self.frames(c, ("parley.rdmap.message.data", "parley.rdmap.message.in", "parley.rdmap.message.frame"))
        first, last = frames["6"], frames["7"]
        self.assertEqual(first["parley.rdmap.message.in"], ["7"])
        self.assertEqual(bytes.fromhex(last["parley.rdmap.message.data"][0].replace(":", "")), pattern(1500))
        self.assertEqual(last["parley.rdmap.message.frame"], ["6", "7"])

    def test_a_read_is_joined_with_its_response(self):
        c = Capture()
        a = c.connect().set_up(*v2("AD"))
        a.fpdu(INITIATOR, read_request(1, 200, sink=(7, 0)))
        c.wait(990)
        a.fpdu(RESPONDER, read_response(7, 0, pattern(100), last=False))
        a.fpdu(RESPONDER, read_response(7, 100, pattern(100)))
        frames = self.frames(c, ("parley.rdmap.request_in", "parley.rdmap.response_in", "parley.rdmap.time"))
        self.assertEqual(frames, {"6": {"parley.rdmap.response_in": ["8"]}, "7": {"parley.rdmap.request_in": ["6"]},
                                  "8": {"parley.rdmap.request_in": ["6"], "parley.rdmap.time": ["0.001010000"]}})
        self.assertEqual(self.remarks(c), [])

    def test_a_response_without_request_is_accused_only_if_nothing_is_missing(self):
        def capture(lose):
            c = Capture()
            a = c.connect().set_up(*v2("AD"))
            a.fpdu(INITIATOR, send(1, b"hello"))
            if lose:
                a.skip(INITIATOR, a.framer[INITIATOR].fpdu(read_request(1, 8, sink=(7, 0))))
            a.fpdu(RESPONDER, read_response(7, 0, pattern(8)))
            a.fpdu(INITIATOR, send(2, b"goodbye"))
            return c
        self.assertEqual(self.remarks(capture(False)), ["Read Response although no Read is outstanding [RFC 5040 §5.2]"])
        self.assertEqual(self.remarks(capture(True)), [])

    def test_reads_and_atomics_beyond_the_agreed_depth_are_counted_together(self):
        c = Capture()
        a = c.connect().set_up(*v2("", ird=8, ord_=2))
        a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
        a.fpdu(INITIATOR, atomic_request(2, 0, 9, 7, 8, 1))
        a.fpdu(INITIATOR, read_request(3, 8, sink=(7, 0)))
        self.assertEqual(self.remarks(c), ["3 RDMA Reads and Atomics are outstanding, 2 were agreed "
                                           "[RFC 5040 §5.2.1]"])

    def test_nothing_follows_a_terminate(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        a.fpdu(INITIATOR, send(1, b"hello"))
        a.fpdu(RESPONDER, terminate(0x20, 2))
        a.fpdu(RESPONDER, send(1, b"one more thing"))
        self.assertEqual(self.remarks(c), ["the responder complains of MPA: CRC error (2/0/02), and nothing that the "
                                           "initiator sent gives cause [RFC 5040 §5.4]",
                                           "The responder terminated the stream: MPA: CRC error (2/0/02) [RFC 5040 §5.4]",
                                           "Send after its sender's Terminate in frame 7 [RFC 5040 §5.4]"])

    def test_what_happened_before_tells_how_a_terminate_of_siw_is_meant(self):
        meant = {}
        for faulty in (True, False):
            c = Capture()
            a = c.connect().set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"rv 0", rdmap=0) if faulty else send(1, b"good"))
            a.fpdu(RESPONDER, terminate(0x20, 5))
            frames = self.frames(c, ("parley.rdmap.terminate.meaning", "parley.rdmap.terminate.other_reading"))
            meant[faulty] = (frames["7"]["parley.rdmap.terminate.meaning"][0],
                             frames["7"]["parley.rdmap.terminate.other_reading"][0])
        version, local = "remote operation: invalid RDMAP version (0/2/05)", "MPA: local catastrophic error (2/0/05)"
        self.assertEqual(meant, {True: (version, local), False: (local, version)})

    def test_one_pass_knows_the_request_and_not_yet_the_response(self):
        c = Capture()
        a = c.connect().set_up(*v2("AD"))
        a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
        a.fpdu(RESPONDER, read_response(7, 0, pattern(8)))
        fields = "parley.rdmap.request_in", "parley.rdmap.response_in"
        self.assertEqual(self.frames(c, fields, ()), {"7": {fields[0]: ["6"]}})
        self.assertEqual(self.frames(c, fields), {"6": {fields[1]: ["7"]}, "7": {fields[0]: ["6"]}})

    # ---------------------------------------------------------------- set-up

    def startup_words(self, request):
        c = Capture()
        c.connect().set_up(request, startup(REP, C | R, 2))
        message = "_ws.expert.message"
        return [words for words in self.frames(c, (message,)).get("4", {}).get(message, ()) if "RFC 6581" in words]

    def test_enhanced_data_whose_words_are_exchanged_is_said_to_be_so(self):
        """RFC 6581 §6: IRD with A and B comes first. The other way round A stands where C is expected."""
        right = enhanced(16, 4, "AD")
        self.assertEqual(self.startup_words(startup(REQ, C | S, 2, right)), [])
        self.assertEqual(self.startup_words(startup(REQ, C | S, 2, right[2:] + right[:2])),
                         ["the initiator set B, C or D although A is 0; with its two words exchanged this is A+D, IRD 16, "
                          "ORD 4 [RFC 6581 §9.2]"])
        self.assertEqual(self.startup_words(startup(REQ, C | S, 2, enhanced(16, 4, "BD"))),
                         ["the initiator set B, C or D although A is 0 [RFC 6581 §9.2]"])

    def test_private_data_stands_in_the_tree_once(self):
        c = Capture()
        c.connect().set_up(startup(REQ, C, 1, b"plain words"), startup(REP, C, 1))
        path = self.tshark.file("private.pcap", c.octets())
        self.assertEqual(self.tshark.run("-n", "-r", path, "-V").stdout.count(b"plain words".hex()), 1)

    # ---------------------------------------------------------------- ULPs

    def test_wireshark_still_gets_what_it_knows_and_only_whole(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        call = rpc_call(0x11223344)
        a.fpdu(INITIATOR, send(1, call))
        a.fpdu(INITIATOR, send(2, call[:40], last=False))
        a.fpdu(INITIATOR, send(2, call[40:], offset=40))
        frames = self.frames(c, ("nfs.procedure_v3", "_ws.malformed"))
        self.assertEqual(frames, {"6": {"nfs.procedure_v3": ["0"]}, "8": {"nfs.procedure_v3": ["0"]}})
        off = self.frames(c, ("nfs.procedure_v3", "parley.rdmap.data"), ("-2", "-o", "parley.try_stock_ulps:FALSE"))
        self.assertFalse(any("nfs.procedure_v3" in frame for frame in off.values()))
        apart = self.frames(c, ("nfs.procedure_v3",), ("-2", "-o", "parley.reassemble:FALSE"))
        self.assertEqual(list(apart), ["6"])

    def test_no_payload_is_called_malformed(self):
        dice = random.Random(8166)
        c = Capture()
        a = c.connect().set_up(*V1)
        for msn in range(1, 200):
            head = struct.pack(">IIII", msn, dice.choice((1, 2, 0x0100)), dice.randrange(64), dice.randrange(5))
            payload = (head + dice.randbytes(80))[:dice.randrange(96)]
            a.fpdu(INITIATOR, send(msn, payload))
            a.fpdu(RESPONDER, write(msn, 0, payload))
        self.assertEqual(self.frames(c, ("_ws.malformed",)), {})
        frames = self.frames(c, ("parley.rdmap.ulp_gave_up", "_ws.col.Info", "_ws.expert.message"))
        words = [frame["_ws.col.Info"][0] for frame in frames.values() if "parley.rdmap.ulp_gave_up" in frame]
        self.assertGreater(len(words), 10)
        self.assertEqual([info for info in words if not re.match(r"(Send msn=|RDMA Write stag=)", info)], [])
        named = [line for frame in frames.values() for line in frame.get("_ws.expert.message", ()) if "could not read" in line]
        self.assertEqual(set(named), {"The dissector of RPCoRDMA could not read this message to its end"})
        self.assertEqual(len(named), len(words))

    def test_a_broken_message_on_the_port_of_nfs_is_malformed(self):
        for port, malformed in ((20049, True), (7471, False)):
            c = Capture()
            a = c.connect(ports=(40000, port)).set_up(*V1)
            a.fpdu(INITIATOR, send(1, rpc_call(0x11223344)[:60]))
            frames = self.frames(c, ("parley.rdmap.ulp_gave_up", "_ws.malformed", "_ws.col.Info"))
            self.assertEqual([("_ws.malformed" in f, "[Malformed Packet" in f["_ws.col.Info"][0]) for f in frames.values()
                              if "parley.rdmap.ulp_gave_up" in f], [(malformed, malformed)])

    def test_private_data_can_be_forced(self):
        c = Capture()
        c.connect().set_up(startup(REQ, C, 1, struct.pack(">II", 5, 6)), startup(REP, C, 1))
        fields = "parley.private.format", "parley.private.smb_direct.ird", "parley.private.smb_direct.ord"
        self.assertEqual(self.frames(c, fields), {"4": {fields[0]: ["plain octets"]}})
        forced = self.frames(c, fields, ("-o", "parley.private_data:SMB Direct"))
        self.assertEqual(forced, {"4": {fields[0]: ["SMB Direct"], fields[1]: ["5"], fields[2]: ["6"]}})

    # ---------------------------------------------------------------- connections

    def two_connections(self):
        c = Capture()
        a = c.connect().handshake()
        c.wait(1500)
        a.send(INITIATOR, v2("AD", ird=4, ord_=2)[0])
        c.wait(2500)
        a.send(RESPONDER, v2("AD", ird=4, ord_=2)[1])
        a.framer = [Framer(), Framer()]
        a.fpdu(INITIATOR, read_request(1, 0))
        a.fpdu(RESPONDER, read_response(0, 0))
        a.fpdu(RESPONDER, terminate(0x20, 2))
        a.close(RESPONDER)
        b = c.connect(v6=True).handshake()
        b.send(INITIATOR, startup(REQ, M | C, 1))
        b.send(RESPONDER, startup(REP, C | R, 1))
        b.segment(RESPONDER, b"", FIN | ACK)
        return c

    def test_each_connection_has_a_line(self):
        first, second = self.connections(self.two_connections())
        self.assertEqual(first, {
            "Conn": "1", "Initiator": "192.0.2.1:40001", "Responder": "192.0.2.2:7471", "Rev": "2", "CRC": "yes",
            "Markers": "no", "RTR": "Read", "IRD/ORD": "4/2", "Result": "failed", "Outcome": "established", "FPDUs>": "1", "<FPDUs": "2",
            "Msgs>": "1", "<Msgs": "2", "TCP ms": "0.010", "Request ms": "1.520", "Reply ms": "2.510", "First FPDU ms": "0.010",
            "Errors": "0", "Warnings": "1",
            "Ended by (frame)": "responder's Terminate (8), responder's FIN (9), initiator's FIN (10)"})
        self.assertEqual([second[column] for column in ("Initiator", "Rev", "CRC", "Outcome", "FPDUs>",
                                                        "Ended by (frame)")],
                         ["[2001:db8::1]:40002", "1", "-", "rejected", "0", "responder's FIN (17)"])

    def test_a_rejected_connection_keeps_its_line_beside_the_next(self):
        c = Capture()
        a = c.connect().handshake()
        a.send(INITIATOR, startup(REQ, M | C, 1))
        a.send(RESPONDER, startup(REP, C | R, 1))
        a.start(*V1)
        a.fpdu(INITIATOR, send(1, b"hello"))
        self.assertEqual([line["Outcome"] for line in self.connections(c)], ["rejected", "established"])

    def test_a_filter_chooses_connections(self):
        lines = self.connections(self.two_connections(), "ipv6")
        self.assertEqual([line["Conn"] for line in lines], ["2"])

    def test_a_filter_that_is_none_ends_tshark_with_a_line(self):
        path = self.tshark.file("empty.pcap", Capture().octets())
        done = self.tshark.run("-q", "-r", path, "-z", "parley,conn,no such filter")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r'^tshark: -z parley,conn: the filter "no such filter" is not one: ')

    def test_a_capture_without_mpa_has_a_head_and_no_line(self):
        self.assertEqual(self.connections(Capture()), [])

    # ---------------------------------------------------------------- how connections end

    def ends(self, build, flags=FIN | ACK, by=RESPONDER):
        """What is said of the frame in which `by` ends the connection; the columns stay TCP's."""
        c = Capture()
        a = c.connect().handshake()
        build(a)
        a.segment(by, b"", flags)
        a.segment(1 - by, b"", FIN | ACK)
        *_, last, _ = self.frames(c, ("_ws.expert.message", "_ws.col.Info", "_ws.col.Protocol")).values()
        self.assertEqual(last["_ws.col.Protocol"], ["TCP"])
        self.assertRegex(last["_ws.col.Info"][0], r"^(\[TCP .*\] )?[0-9]+ → [0-9]+ \[(FIN|RST), ACK")
        return [words for words in last["_ws.expert.message"] if words.endswith("]")]

    def test_a_request_that_nobody_answers(self):
        requests = {1: V1[0], 2: v2("AD")[0]}
        ask = {revision: lambda a, octets=octets: a.send(INITIATOR, octets) for revision, octets in requests.items()}
        self.assertEqual(self.ends(ask[1]), ["the responder closed the connection without a Reply to a valid Request "
                                             "[RFC 5044 §7.1.2]"])
        self.assertEqual(self.ends(ask[2], RST | ACK), ["the responder reset the connection instead of answering; it may not "
                                                        "know revision 2 [RFC 6581 §10]"])
        self.assertEqual(self.ends(ask[1], by=INITIATOR),
                         ["no Reply came before the initiator closed the connection [RFC 5044 §7.1.2]"])
        self.assertEqual(self.ends(lambda a: a.send(INITIATOR, startup(REQ, C, 9))), [])  # who closes on that is right
        self.assertEqual(self.ends(lambda a: a.send(INITIATOR, V1[0][:18]), by=INITIATOR),
                         ["the startup frame of the initiator is not whole: 18 octets came [RFC 5044 §7.1.2]"])

    def test_an_rtr_that_was_agreed_and_never_came(self):
        self.assertEqual(self.ends(lambda a: a.start(*v2("AD")), by=INITIATOR),
                         ["the connection ended before the initiator sent the agreed RTR [RFC 6581 §9.2]"])
        frame = startup(REQ, C | S, 1), startup(REP, C | S, 1)
        said = ["the connection ended before the initiator sent the agreed Rtr frame [OFA 2007-10 Rtr §2]"]
        self.assertEqual(self.ends(lambda a: a.start(*frame)), said)  # the initiator may still send it
        self.assertEqual(self.ends(lambda a: a.start(*frame), by=INITIATOR),
                         ["the responder answered S with S under revision 1, and nothing shows whether it knows the Rtr "
                          "frame or echoes reserved bits, as Linux siw does [OFA 2007-10 Rtr §2]", *said])

    def test_what_the_last_fin_leaves_unfinished(self):
        def cut(a):
            a.start(*V1)
            a.send(INITIATOR, a.framer[INITIATOR].fpdu(send(1, pattern(100)))[:50])

        def open_message(a):
            a.start(*V1)
            a.fpdu(INITIATOR, send(1, pattern(100), last=False))

        def unanswered(a):
            a.start(*v2("AD"))
            a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
        self.assertEqual(self.ends(cut, by=INITIATOR),
                         ["the stream of the initiator ends inside an FPDU, of which 50 octets came [RFC 5044 §7.2]"])
        self.assertEqual(self.ends(open_message, by=INITIATOR),
                         ["the last message of the initiator on queue 0 (MSN 1) has no last segment [RFC 5041 §5.2]"])
        self.assertEqual(self.ends(unanswered),
                         ["of the Reads and Atomics of the initiator 1 got no complete answer, the one of frame 6 for instance "
                          "[RFC 5040 §5.2]"])

    def test_nothing_is_said_of_an_end_that_finishes_all_or_whose_octets_are_missing(self):
        def good(a):
            a.start(*v2("AD"))
            a.fpdu(INITIATOR, read_request(1, 0))
            a.fpdu(RESPONDER, read_response(0, 0))

        def rejected(a):
            a.start(V1[0], startup(REP, C | R, 1))

        def lost(a):
            a.start(*v2("AD"))
            a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
            a.skip(RESPONDER, a.framer[RESPONDER].fpdu(read_response(7, 0, pattern(8))))
        for build in good, rejected, lost:
            for by in INITIATOR, RESPONDER:
                self.assertEqual(self.ends(build, by=by), [])

    # ---------------------------------------------------------------- segments out of order, and hostile ones

    def counts(self, capture):
        line, = self.connections(capture)
        return line["FPDUs>"], line["Msgs>"]

    def test_fpdus_that_wait_in_any_order_count_once(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        fpdus = [a.framer[INITIATOR].fpdu(send(msn, pattern(40))) for msn in range(1, 7)]
        numbers = [a.next[INITIATOR] + index * len(fpdus[0]) for index in range(6)]
        for index in (0, 3, 2, 4, 1, 5):
            a.segment(INITIATOR, fpdus[index], PSH | ACK, numbers[index])
        self.assertEqual(self.counts(c), ("6", "6"))

    def test_an_fpdu_that_waits_and_is_repeated_with_more_counts_once(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        fpdus = [a.framer[INITIATOR].fpdu(send(msn, pattern(40))) for msn in range(1, 5)]
        numbers = [a.next[INITIATOR] + index * len(fpdus[0]) for index in range(4)]
        a.segment(INITIATOR, fpdus[0], PSH | ACK, numbers[0])
        a.segment(INITIATOR, fpdus[2], PSH | ACK, numbers[2])
        a.segment(INITIATOR, fpdus[2] + fpdus[3], PSH | ACK, numbers[2])
        a.segment(INITIATOR, fpdus[1], PSH | ACK, numbers[1])
        self.assertEqual(self.counts(c), ("4", "4"))

    def test_the_fpdu_that_ends_the_wait_for_a_hole_counts_once(self):
        c = Capture()
        a = c.connect().set_up(startup(REQ, 0, 1), startup(REP, 0, 1), crc=False)
        a.fpdu(INITIATOR, write(1, 0, pattern(40)))
        a.skip(INITIATOR, a.framer[INITIATOR].fpdu(write(1, 0, pattern(40))))
        for _ in range(40):  # nobody acknowledges them, and more than 2 MiB do not wait
            a.fpdu(INITIATOR, write(1, 0, bytes(60_000)))
        self.assertEqual(self.counts(c), ("41", "41"))

    def test_looking_at_what_waits_settles_nothing_about_markers(self):
        """The first marker of the capture comes late: until then that there are none is only a guess."""
        c = Capture()
        a = c.connect()
        a.framer = [Framer(markers=True), Framer()]
        a.skip(INITIATOR, a.framer[INITIATOR].fpdu(send(1, pattern(40))))  # with the marker at position 0
        a.fpdu(INITIATOR, send(2, pattern(40)))
        third, fourth = (a.framer[INITIATOR].fpdu(send(msn, pattern(40))) for msn in (3, 4))
        a.segment(INITIATOR, fourth, PSH | ACK, a.next[INITIATOR] + len(third))
        a.send(INITIATOR, third)
        a.next[INITIATOR] += len(fourth)
        for msn in range(5, 40):
            a.fpdu(INITIATOR, send(msn, pattern(40)))
        field = "parley.mpa.crc.status"
        found = [status for frame in self.frames(c, (field,)).values() for status in frame[field]]
        self.assertEqual(found, ["1"] * 38)
        line, = self.connections(c)
        self.assertEqual(line["Markers"], ">")

    def test_a_length_that_no_fpdu_has_stops_nobody(self):
        """RFC 5044 §3: a ULPDU has 64768 octets at most. The octets behind the length are those of an RDMA Write."""
        c = Capture()
        a = c.connect()
        a.fpdu(INITIATOR, send(1, b"hello world!"))
        a.send(INITIATOR, bytes.fromhex("ffffc140") + bytes(60))
        a.fpdu(INITIATOR, send(2, b"here again"))
        self.assertEqual(self.counts(c), ("2", "2"))

    def test_octets_that_look_like_fpdus_everywhere_cost_little(self):
        c = Capture()
        a = c.connect()
        a.fpdu(INITIATOR, send(1, b"hello world!"))
        a.send(INITIATOR, bytes(16))
        for _ in range(600):
            a.send(INITIATOR, bytes(2) + bytes.fromhex("7000c140") * 16_000)
        a.send(INITIATOR, bytes(40_000))
        a.fpdu(INITIATOR, send(2, b"here again"))
        self.assertEqual(self.counts(c), ("2", "2"))

    def test_a_request_whose_second_half_comes_first_is_shown(self):
        request = startup(REQ, C | S, 2, enhanced(8, 4, "AD") + b"who I am")
        c = Capture()
        for cut in range(1, len(request)):
            a = c.connect().handshake()
            first = a.next[INITIATOR]
            a.segment(INITIATOR, request[cut:], PSH | ACK, first + cut)
            a.segment(INITIATOR, request[:cut], PSH | ACK, first)
            a.next[INITIATOR] = first + len(request)
            a.send(RESPONDER, startup(REP, C | S, 2, enhanced(4, 8, "AD")))
            a.fpdu(INITIATOR, read_request(1, 0))
        fields = "parley.mpa.private_data", "_ws.col.Info"
        frames = [frame for frame in self.frames(c, fields).values() if fields[0] in frame]
        self.assertEqual([frame[fields[0]] for frame in frames], [[b"who I am".hex()]] * (len(request) - 1))
        self.assertEqual({frame[fields[1]][0] for frame in frames},
                         {"[TCP Out-Of-Order] MPA Request rev=2 C S A+D ird=8 ord=4 pd=8"})
        self.assertEqual([line["RTR"] for line in self.connections(c)], ["Read"] * (len(request) - 1))

    def test_the_words_of_tcp_and_ours_stand_side_by_side(self):
        c = Capture()
        a = c.connect().set_up(*V1)
        a.fpdu(INITIATOR, send(1, b"hello"))
        second, third, fourth = (a.framer[INITIATOR].fpdu(send(msn, b"hello")) for msn in (2, 3, 4))
        a.segment(INITIATOR, third + fourth, PSH | ACK, a.next[INITIATOR] + len(second))
        a.segment(INITIATOR, second, PSH | ACK)
        self.assertEqual([frame["_ws.col.Info"][0] for frame in self.frames(c, ("_ws.col.Info",)).values()][-2:],
                         ["[TCP Previous segment not captured] Send msn=3 len=5, Send msn=4 len=5",
                          "[TCP Out-Of-Order] Send msn=2 len=5"])

    def test_packets_cut_inside_the_options_of_tcp(self):
        c = Capture()
        a = c.connect().handshake()
        a.send(INITIATOR, V1[0])
        a.send(RESPONDER, V1[1])
        a.options = bytes([1]) * 40  # no operation, as often as TCP's header has room
        a.fpdu(INITIATOR, send(1, pattern(40)))
        path = self.tshark.file("options.pcap", c.octets(snap=14 + 20 + 20 + 26))
        said = self.tshark.run("-n", "-r", path, "-V").stdout
        self.assertIn("MPA Request", said)
        self.assertEqual(re.findall("limited during capture: (.*) truncated", said), ["TCP"])


if __name__ == "__main__":
    unittest.main()
