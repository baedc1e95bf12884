# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Whom the plugin accuses of what, and in which frame: nobody where the capture only lacks something."""
import re
import unittest

import harness
from wire import (ACK, C, FIN, INITIATOR, M, PSH, R, REP, REQ, RESPONDER, RST, RTR_TEXT, S, Capture, Framer,
                  atomic_request, atomic_response, crc32c, enhanced, pattern, read_request, read_response, send, startup,
                  terminate, untagged, write)

V1 = startup(REQ, C, 1), startup(REP, C, 1)
ERROR, WARNING = "8388608", "6291456"
ADVERSARIAL = harness.HERE / "adversarial"


def v2(kinds="", ird=8, ord_=8, reply=None):
    return startup(REQ, C | S, 2, enhanced(ird, ord_, kinds)), startup(REP, C | S, 2, enhanced(*reply or (ord_, ird), kinds))


class Judgement(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tshark = cls.enterClassContext(harness.Tshark(True))

    def said(self, octets, *passes):
        """[(frame, severity, words)] of the plugin's errors and warnings."""
        path = self.tshark.file(f"{self._testMethodName}.pcap", octets)
        frames = self.tshark.fields(path, ("_ws.expert.severity", "_ws.expert.message"), passes)
        words = {ERROR: "error", WARNING: "warning"}
        return [(int(number), words[severity], text) for number, layers in frames.items()
                for severity, text in zip(layers["_ws.expert.severity"], layers["_ws.expert.message"])
                if severity in words and re.search(r"\[(RFC|OFA) ", text)]

    def judged(self, capture):
        """What is said in the first of two passes is what is said in the second."""
        once = self.said(capture.octets())
        self.assertEqual(self.said(capture.octets(), "-2"), once)
        return once

    def check(self, build, *expected):
        """`expected`: (frame, severity, clause, a part of the words) of all that is said."""
        capture = Capture()
        build(capture.connect())
        said = self.judged(capture)
        self.assertEqual([(frame, severity, re.search(r"\[(.*)\]$", text).group(1)) for frame, severity, text in said],
                         [(frame, severity, clause) for frame, severity, clause, _ in expected], said)
        for (_, _, text), (_, _, _, words) in zip(said, expected):
            self.assertIn(words, text)

    # ---------------------------------------------------------------- captures that lack something

    def test_no_valid_capture_draws_an_error(self):
        captures = sorted(ADVERSARIAL.glob("*.pcap"))
        self.assertGreater(len(captures), 12)
        for path in captures:
            with self.subTest(capture=path.name):
                octets = path.read_bytes()
                for passes in (), ("-2",):
                    self.assertEqual([said for said in self.said(octets, *passes) if said[1] == "error"], [])

    def test_an_rtr_frame_whose_request_is_lost_accuses_nobody(self):
        def build(a):
            a.handshake()
            a.skip_octets(INITIATOR, len(V1[0]))
            a.send(RESPONDER, startup(REP, C | S, 1))
            a.send(INITIATOR, startup(RTR_TEXT, C, 1))
            a.fpdu(INITIATOR, send(1, b"after it"))
        self.check(build)

    def test_an_rtr_frame_before_the_rest_of_a_reply_is_no_request(self):
        def build(a):
            a.send(RESPONDER, startup(REP, C | S, 1, bytes(16))[:27])
            a.skip_octets(RESPONDER, 9)
            a.send(INITIATOR, startup(RTR_TEXT, C, 1))
        self.check(build)

    def test_a_request_behind_its_reply_and_behind_an_fpdu_that_waits(self):
        """Nothing else tells where the initiator's stream begins."""
        def build(a):
            begin, request = a.next[INITIATOR], startup(REQ, C, 1, bytes(9))
            a.ack(INITIATOR)
            a.skip_octets(INITIATOR, len(request))
            a.send(RESPONDER, V1[1])
            first = a.framer[INITIATOR].fpdu(send(1, b"first"))
            second, a.next[INITIATOR] = a.next[INITIATOR], a.next[INITIATOR] + len(first)
            a.fpdu(INITIATOR, send(2, b"second"))
            a.segment(INITIATOR, request, ACK, number=begin)
            a.segment(INITIATOR, first, ACK, number=second)
            a.fpdu(INITIATOR, send(4, b"not third"))
        self.check(build, (6, "error", "RFC 5041 §4.3", "MSN 4, 3 is expected"))

    def test_a_read_response_that_is_lost_frees_its_place(self):
        def build(a):
            a.set_up(*v2(ird=1, ord_=1))
            a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
            a.skip(RESPONDER, a.framer[RESPONDER].fpdu(read_response(7, 0, pattern(8))))
            a.fpdu(INITIATOR, read_request(2, 8, sink=(7, 8)))
        self.check(build)

    def test_two_reads_where_one_was_agreed(self):
        def build(a):
            a.set_up(*v2(ird=1, ord_=1))
            a.fpdus(INITIATOR, read_request(1, 8, sink=(7, 0)), read_request(2, 8, sink=(7, 8)))
        self.check(build, (6, "error", "RFC 5040 §5.2.1", "2 RDMA Reads and Atomics are outstanding, 1 were agreed"))

    def test_a_request_whose_tail_comes_late_is_known_from_then_on(self):
        def build(a):
            a.handshake()
            a.segment(INITIATOR, V1[0][:10], ACK)
            tail = a.next[INITIATOR]
            a.next[INITIATOR] += 10
            a.send(RESPONDER, V1[1])
            a.segment(INITIATOR, V1[0][10:], ACK, number=tail)
            a.fpdu(INITIATOR, send(1, b"and on"))
            a.fpdu(RESPONDER, send(1, b"and back"))
        self.check(build)

    def test_crc_off_and_payload_like_fpdus_behind_a_loss(self):
        """Segments that begin with what looks like an FPDU accuse nobody before three of them fit together."""
        lookalike = Framer(crc=False).fpdu(untagged(0, 9, 77, b"x", ddp=1))[:40] + b"\xff" * 21

        def build(a):
            a.set_up(startup(REQ, 0, 1), startup(REP, 0, 1), crc=False)
            a.fpdu(INITIATOR, send(1, b"first"))
            whole = a.framer[INITIATOR].fpdu(send(2, lookalike * 20))
            a.skip_octets(INITIATOR, 300)
            a.send(INITIATOR, whole[300:], cuts=(61, 122, 183))
            a.segment(RESPONDER, b"", ACK)
            for msn in range(3, 30):
                a.fpdu(INITIATOR, send(msn, b"more"))
                a.ack(RESPONDER)
        capture = Capture()
        build(capture.connect())
        self.assertEqual([said for said in self.judged(capture) if said[1] == "error"], [])

    # ---------------------------------------------------------------- another Request behind a reject

    def tries(self, a, *requests, private=b""):
        """All but the last are rejected: RFC 5044 §7.1.2 rule 2. Frames 4, 5 and so on."""
        a.handshake()
        for request in requests[:-1]:
            a.start(request, startup(REP, C | R, request[17], private))
        a.start(requests[-1], startup(REP, C, requests[-1][17]))

    @staticmethod
    def lacks(a, *frames):
        """Of the frames so far, these are not in the capture."""
        a.capture.frames = [frame for number, frame in enumerate(a.capture.frames, 1) if number not in frames]

    @staticmethod
    def late(a, frame, place):
        a.capture.frames.insert(place - 1, a.capture.frames.pop(frame - 1))

    def goes_on(self, a, first=1):
        """Until the capture's holes are given up."""
        for msn in range(first, 30):
            a.fpdu(INITIATOR, send(msn, b"more"))
            a.ack(RESPONDER)

    def test_a_late_reply_is_not_held_to_a_request_behind_it(self):
        def build(a):
            self.tries(a, startup(REQ, C, 2), startup(REQ, C, 2), V1[0])
            self.late(a, 5, 8)
            self.lacks(a, 4, 5, 6)
            a.fpdu(INITIATOR, send(1, b"and on"))
        self.check(build)

    def test_a_reply_that_waits_is_held_to_the_request_that_it_acknowledges(self):
        def build(a):
            self.tries(a, startup(REQ, C, 2), startup(REQ, C, 2), V1[0])
            self.goes_on(a)
            self.lacks(a, 5, 7)
        self.check(build)

    def test_a_reply_that_was_sent_again_acknowledges_fpdus(self):
        def build(a):
            begin = a.next[RESPONDER] + 1
            a.set_up(*v2("AB"))
            self.lacks(a, 5)
            a.fpdu(INITIATOR, send(1))
            for msn in range(2, 6):
                a.fpdu(INITIATOR, send(msn, b"more"))
            last = a.framer[INITIATOR].fpdu(send(6, bytes(40)))
            a.send(INITIATOR, last[:20])
            a.segment(RESPONDER, v2("AB")[1], PSH | ACK, number=begin)
            a.send(INITIATOR, last[20:])
        self.check(build)

    def test_a_reply_of_which_octets_are_lost_answers_the_request_before_it(self):
        def build(a):
            a.handshake()
            a.start(V1[0], startup(REP, C | R, 1, bytes(60)))
            a.send(INITIATOR, startup(REQ, C, 2))
            a.send(RESPONDER, startup(REP, C | R, 2, bytes(60)), cuts=(79,))
            a.start(*V1)
            self.goes_on(a)
            self.lacks(a, 8)
        self.check(build)

    def test_fpdus_behind_a_request_whose_reject_comes_late(self):
        for revision in 1, 2:
            def build(a, revision=revision):
                self.tries(a, startup(REQ, C, revision), V1[0])
                for msn in 1, 2, 3:
                    a.fpdu(INITIATOR, send(msn, b"more"))
                    a.ack(RESPONDER)
                self.late(a, 5, 13)
                a.fpdu(INITIATOR, send(5, b"not the fourth"))
            with self.subTest(revision=revision):
                self.check(build, (14, "error", "RFC 5041 §4.3", "MSN 5, 4 is expected"))

    def test_what_was_agreed_is_open_where_another_set_up_may_be_lost(self):
        """The Request that is known asks for no markers; one that is lost did."""
        def build(a):
            a.handshake()
            a.send(INITIATOR, V1[0])
            a.skip_octets(INITIATOR, 44)
            a.skip_octets(RESPONDER, 40)
            a.framer[RESPONDER] = Framer(True, True)
            for msn in range(1, 40):
                a.fpdu(RESPONDER, send(msn, bytes(24)))
                a.ack(INITIATOR)
        self.check(build)

    # ---------------------------------------------------------------- order within a message

    def test_segments_out_of_order_are_a_warning(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(10), offset=10, last=False))
            a.fpdu(INITIATOR, send(1, pattern(10), offset=0, last=False))
            a.fpdu(INITIATOR, send(1, pattern(5), offset=20))
            a.fpdu(INITIATOR, send(2, b"next"))
        self.check(build, (8, "warning", "RFC 5041 §5.3", "not sent in the order of their MO, from frame 6 on"))

    def test_a_message_that_lacks_octets_is_an_error_when_the_next_begins(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(10), last=False))
            a.fpdu(INITIATOR, send(1, pattern(5), offset=20))
            a.fpdu(INITIATOR, send(2, b"next"))
        self.check(build, (8, "error", "RFC 5041 §5.2", "message 1 lacks the octets from MO 10 on"))

    def test_a_message_that_lacks_octets_is_an_error_at_the_fin(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(5), offset=4))
            a.close(INITIATOR)
        self.check(build, (7, "error", "RFC 5041 §5.2", "lacks the octets from MO 0 on"))

    def test_who_resets_or_is_told_of_an_error_need_not_send_the_rest(self):
        def reset(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(5), offset=4))
            a.segment(INITIATOR, b"", RST | ACK)

        def terminated(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(5), offset=4))
            a.fpdu(RESPONDER, terminate(0x02, 9))
            a.close()
        self.check(reset, (7, "warning", "RFC 5041 §5.3", "its last message out of order, from frame 6 on"))
        self.check(terminated, (8, "warning", "RFC 5041 §5.3", "its last message out of order, from frame 6 on"))

    def test_what_has_a_wrong_number_need_not_begin_at_0(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(10)))
            a.fpdu(INITIATOR, send(1, pattern(10), offset=10))
            a.fpdu(INITIATOR, send(2, pattern(10)))
        self.check(build, (7, "error", "RFC 5041 §4.3", "MSN 1, 2 is expected"))

    def test_octets_sent_twice_are_an_error(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(10), last=False))
            a.fpdu(INITIATOR, send(1, pattern(10), offset=5, last=False))
        self.check(build, (7, "error", "RFC 5041 §5.2", "Send goes on at MO 5, 10 is expected"))

    def test_writes_and_read_responses_in_any_order(self):
        def build(a):
            a.set_up(*v2())
            a.fpdu(INITIATOR, write(9, 100, pattern(10), last=False))
            a.fpdu(INITIATOR, write(9, 90, pattern(10), last=False))
            a.fpdu(INITIATOR, write(9, 110, pattern(3)))
            a.fpdu(INITIATOR, read_request(1, 30, sink=(7, 0)))
            a.fpdu(RESPONDER, read_response(7, 10, pattern(20)))
            a.fpdu(RESPONDER, read_response(7, 0, pattern(10), last=False))
        self.check(build, (8, "warning", "RFC 5041 §5.3", "of an RDMA Write"),
                   (11, "warning", "RFC 5041 §5.3", "of the answer to frame 9"))

    def test_the_invalidate_stag_of_a_message_stays(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, pattern(10), opcode=4, last=False, reserved=5))
            a.fpdu(INITIATOR, send(1, pattern(10), opcode=4, offset=10, reserved=6))
        self.check(build, (7, "error", "RFC 5041 §4.3", "Invalidate STag changes inside a message"))

    # ---------------------------------------------------------------- Reads and Atomics

    def test_a_read_although_the_peers_ird_is_0(self):
        def build(a):
            a.set_up(*v2(ird=4, ord_=0, reply=(0, 4)))
            a.fpdu(INITIATOR, send(1, b"first"))
            a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
        self.check(build, (7, "error", "RFC 5040 §5.2.1", "1 RDMA Reads and Atomics are outstanding, 0 were agreed"))

    def test_atomics_and_reads_are_answered_in_one_order(self):
        def build(a):
            a.set_up(*v2())
            a.fpdu(INITIATOR, read_request(1, 8, sink=(7, 0)))
            a.fpdu(INITIATOR, atomic_request(2, 0, 9, 7, 8, 1))
            a.fpdu(RESPONDER, atomic_response(1, 9, 0))
        self.check(build, (8, "error", "RFC 7306 §5.1", "is answered before the Read Request of frame 6"))

    def test_reserved_bits_beside_the_atomic_opcode(self):
        def build(a):
            a.set_up(*v2())
            a.fpdu(INITIATOR, atomic_request(1, 0x10, 9, 7, 8, 1))
        self.check(build, (6, "error", "RFC 7306 §5.2.1", "Reserved bits next to the AOpCode are set: 0x00000010"))

    # ---------------------------------------------------------------- startup frames

    def test_a_request_with_another_key(self):
        def build(a):
            a.handshake()
            a.send(INITIATOR, startup(b"MPA ID Foo Frame", C, 1))
            a.close(RESPONDER)
        self.check(build, (4, "error", "RFC 5044 §7.1.1", "a key that is not that of a Request"))

    def test_private_data_beyond_512_octets_is_judged_with_its_head(self):
        for length, sent in (513, 513), (513, 0), (65535, 8):
            with self.subTest(length=length, sent=sent):
                self.check(lambda a: a.handshake().send(INITIATOR, startup(REQ, C, 1, bytes(sent), length)),
                           (4, "error", "RFC 5044 §7.1.1", f"announced {length} octets of private data"))
        self.check(lambda a: a.handshake().start(startup(REQ, C, 1, bytes(513)), V1[1]),
                   (4, "error", "RFC 5044 §7.1.1", "announced 513 octets"),
                   (5, "error", "RFC 5044 §7.1.2", "accepted a Request that announces 513 octets"))

    def test_a_fin_in_the_middle_of_what_pd_length_promises(self):
        def build(a):
            a.handshake()
            a.send(INITIATOR, startup(REQ, C, 1, bytes(8), 16))
            a.segment(INITIATOR, b"", FIN | ACK)
        self.check(build, (5, "error", "RFC 5044 §7.1.1", "announced more private data than it sent"))

    def test_a_reply_before_the_request_is_whole(self):
        def build(a):
            a.handshake()
            a.send(INITIATOR, startup(REQ, C, 1, bytes(8), 16))
            a.send(RESPONDER, V1[1])
            a.send(INITIATOR, bytes(8))
            a.fpdu(INITIATOR, send(1, b"and on"))
        self.check(build, (5, "error", "RFC 5044 §7.1.2", "when only 28 of 36 octets had arrived"))

    def test_a_reply_before_the_request_is_whole_on_a_connection_with_one_port(self):
        capture = Capture()
        a = capture.connect(ports=(7471, 7471)).handshake()
        a.send(INITIATOR, V1[0][:6], (3, 5))
        a.send(RESPONDER, V1[1])
        a.send(INITIATOR, V1[0][6:])
        self.assertEqual([(frame, severity, text) for frame, severity, text in self.judged(capture)],
                         [(7, "error", "the responder answered a Request when only 6 of 20 octets had arrived "
                                       "[RFC 5044 §7.1.2]")])

    def test_a_second_reply(self):
        def build(a):
            a.set_up(*V1)
            a.send(RESPONDER, V1[1])
        self.check(build, (6, "error", "RFC 5044 §7.1.2", "the responder sent a second startup frame"))

    def test_octets_behind_the_request_are_told_once_and_so_is_who_takes_them(self):
        def build(a):
            a.handshake()
            a.send(INITIATOR, V1[0] + b"1234")
            a.send(INITIATOR, b"5678")
            a.send(RESPONDER, V1[1])
        self.check(build, (4, "error", "RFC 5044 §7.1.2", "sent 4 octets after its Request"),
                   (6, "warning", "RFC 5044 §7.1.2", "accepted although 8 octets had followed the Request"))

    # ---------------------------------------------------------------- markers

    def test_markers_that_nobody_asked_for_and_markers_that_do_not_come(self):
        self.check(lambda a: self.with_markers(a, asked=False, sent=True),
                   (6, "error", "RFC 5044 §4.3", "inserts markers, which the responder did not ask for"))
        self.check(lambda a: self.with_markers(a, asked=True, sent=False),
                   (6, "error", "RFC 5044 §4.3", "sends FPDUs without the markers that the responder requires"))

    def with_markers(self, a, asked, sent, cuts=()):
        a.set_up(V1[0], startup(REP, C | M * asked, 1), markers=(sent, False))
        a.fpdu(INITIATOR, send(1, pattern(40)), cuts=cuts)

    def test_the_first_fpdu_ends_with_the_segment_that_tells_how_the_stream_begins(self):
        for asked, sent, words in ((False, True, "inserts markers"), (True, False, "without the markers")):
            with self.subTest(asked=asked):
                self.check(lambda a, asked=asked, sent=sent: self.with_markers(a, asked, sent, cuts=(30, 50)),
                           (8, "error", "RFC 5044 §4.3", words))

    def test_the_marker_in_front_of_an_fpdu_is_left_out(self):
        for cuts in (), (1, 9, 400):
            def build(a, cuts=cuts):
                a.set_up(V1[0], startup(REP, C | M, 1), markers=(True, False))
                a.fpdu(INITIATOR, send(1, pattern(1100)), cuts=cuts, omit=True)
                a.fpdu(RESPONDER, terminate(0x20, 2))
            with self.subTest(cuts=cuts):
                self.check(build, (6 + len(cuts), "error", "RFC 5044 §4.3", "left a marker out of its FPDU"))

    def test_one_marker_left_out_is_no_wrong_crc(self):
        def build(a):
            a.set_up(V1[0], startup(REP, C | M, 1), markers=(True, False))
            whole = a.framer[INITIATOR].fpdu(send(1, pattern(700)))[:-4]
            less = whole[:512] + whole[516:]
            a.send(INITIATOR, less + crc32c(less))
        self.check(build, (6, "error", "RFC 5044 §4.3", "the initiator left a marker out of its FPDU"))

    def test_an_fpdu_that_ends_before_its_second_marker_for_want_of_the_first(self):
        """With both it has 8 octets more."""
        def build(a):
            a.set_up(V1[0], startup(REP, C | M, 1), markers=(True, False))
            a.fpdu(INITIATOR, send(1, pattern(20)))
            behind = 1024 - a.framer[INITIATOR].position
            a.fpdu(INITIATOR, send(2, pattern(behind - 2 - 18 - 4)), omit=True)
            a.fpdu(RESPONDER, terminate(0x20, 2))
        self.check(build, (7, "error", "RFC 5044 §4.3", "the initiator left a marker out of its FPDU"))

    def test_bits_of_a_marker_that_are_0(self):
        def build(a):
            a.set_up(V1[0], startup(REP, C | M, 1), markers=(True, False))
            a.send(INITIATOR, a.framer[INITIATOR].fpdu(send(1, pattern(700)), damage_pointer=3))
        self.check(build, (6, "warning", "RFC 5044 §4.3", "set bits of a marker that are 0"))

    # ---------------------------------------------------------------- Terminates and who answers what

    def terminated(self, rest, bits, control=0x12, code=3, cause=True, octet3=0):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"first"))
            if cause:
                a.fpdu(INITIATOR, send(5, b"far ahead"))
            head = bytes([control, code, bits, octet3])
            a.fpdu(RESPONDER, untagged(7, 2, 1, head + rest))
        return build

    def test_the_form_of_a_terminate(self):
        head = send(5, b"far ahead")[:18]
        msn = (7, "error", "RFC 5041 §4.3", "MSN 5, 2 is expected")
        quote = b"\0\x1b" + head
        clause = "RFC 5040 §4.8"
        for rest, bits, octet3, words in ((quote, 0xC0, 0, None), (quote[:12], 0xC0, 0, "cut its Terminate: it has 16 octets"),
                                          (quote + b"12", 0xC0, 0, "sent 2 octets after the end of its Terminate"),
                                          (quote, 0xD0, 0, "set reserved bits in its Terminate (0x1000)"),
                                          (quote, 0xC0, 9, "set reserved bits in its Terminate (0x0009)"),
                                          (quote, 0x40, 0, "set D without M")):
            with self.subTest(words=words):
                self.check(self.terminated(rest, bits, octet3=octet3), msn,
                           *([(8, "error", clause, words)] if words else []))
        self.check(self.terminated(b"\0\x1b", 0x80), msn, (8, "error", clause, "set M without D"),
                   (8, "warning", clause, "left the DDP header of the faulty segment out"))
        self.check(self.terminated(quote, 0xC0, control=0x00, code=0), msn,
                   (8, "warning", clause, "headers with the Terminate of a local catastrophic error"),
                   (8, "warning", "RFC 5040 §7.2", "answered the fault of frame 7 with a Terminate that says"))

    def test_a_local_error_right_behind_the_rtr_frame_is_no_answer_to_it(self):  # RFC 5040 §4.8
        def build(code):
            def made(a):
                a.set_up(startup(REQ, C | S, 1), startup(REP, C | S, 1))
                a.send(INITIATOR, startup(RTR_TEXT, 0, 1))
                a.fpdu(RESPONDER, terminate(code, 6))
            return made
        self.check(build(0x00))
        self.check(build(0x12), (7, "error", "RFC 5044 §7.1.1", "took the agreed Rtr frame for an FPDU"),
                   (7, "warning", "RFC 5040 §4.8", "left the DDP header of the faulty segment out"))

    def test_a_terminate_may_quote_a_segment_that_is_lost(self):
        """Another one with the same header was captured."""
        def build(lost):
            def made(a):
                a.set_up(*V1)
                a.fpdu(INITIATOR, write(7, 0, pattern(16)))
                again = a.framer[INITIATOR].fpdu(write(7, 0, pattern(8)))
                a.skip(INITIATOR, again) if lost else a.send(INITIATOR, again)
                quoted = b"\0\x16" if lost else b"\0\x17"
                a.fpdu(RESPONDER, terminate(0x11, 0, 0xC0, quoted + write(7, 0)[:14]))
            return made
        self.check(build(lost=True))
        self.check(build(lost=False), (8, "error", "RFC 5040 §4.8", "a length of 23 octets, it had"))

    def test_a_terminate_without_cause(self):
        self.check(self.terminated(b"", 0, control=0x20, code=2, cause=False),
                   (7, "warning", "RFC 5040 §5.4", "and nothing that the initiator sent gives cause"))

    def test_a_fault_that_nobody_answers(self):
        def build(a, go_on):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"first"))
            a.fpdu(INITIATOR, send(5, b"far ahead"))
            if go_on:
                a.fpdu(RESPONDER, send(1, b"as if nothing had been"))
            a.close(RESPONDER)
        msn = (7, "error", "RFC 5041 §4.3", "MSN 5, 2 is expected")
        self.check(lambda a: build(a, False), msn,
                   (8, "warning", "RFC 5040 §7.2", "received the fault of frame 7 and closed without a Terminate"))
        self.check(lambda a: build(a, True), msn,
                   (9, "warning", "RFC 5040 §7.2", "received the fault of frame 7 and went on without a Terminate"))

    def test_a_fin_before_the_fault_is_no_answer_to_it(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"first"))
            a.segment(RESPONDER, b"", FIN | ACK)
            a.fpdu(INITIATOR, send(5, b"far ahead"))
            a.segment(INITIATOR, b"", FIN | ACK)
            a.ack(RESPONDER)
        self.check(build, (8, "error", "RFC 5041 §4.3", "MSN 5, 2 is expected"))

    def test_a_reset_before_the_terminate_is_acknowledged(self):
        def build(a):
            self.terminated(b"\0\x1b" + send(5, b"far ahead")[:18], 0xC0)(a)
            a.segment(RESPONDER, b"", RST | ACK)
        self.check(build, (7, "error", "RFC 5041 §4.3", "MSN 5"), (9, "warning", "RFC 5040 §6.2.1", "may never arrive"))

    # ---------------------------------------------------------------- the table

    # ---------------------------------------------------------------- the set-up

    def test_a_second_reply_in_pieces(self):
        for cuts in (), (1, 9), (12, 19):
            def build(a, cuts=cuts):
                a.set_up(*V1)
                a.fpdu(INITIATOR, send(1, b"hello"))
                a.send(RESPONDER, V1[1], cuts)
                a.close(INITIATOR)
            with self.subTest(cuts=cuts):
                self.check(build, (7 + len(cuts), "error", "RFC 5044 §7.1.2", "a second startup frame"),
                           (8 + len(cuts), "warning", "RFC 5040 §7.2", "without a Terminate"))

    def test_a_startup_frame_behind_fpdus(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"hello"))
            a.fpdu(RESPONDER, send(1, b"hello"))
            a.send(RESPONDER, V1[1])
            a.fpdu(RESPONDER, send(2, b"hello"))
        self.check(build, (8, "error", "RFC 5044 §7.1.2", "a second startup frame"))

    def test_payload_that_begins_like_a_startup_frame_and_is_none(self):
        def build(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"MPA ID Req Frame" * 30), cuts=(20, 23, 36))
            a.send(RESPONDER, b"MP", ())
            a.send(RESPONDER, b"x" * 40)
        self.check(build)

    def test_whether_an_s_is_an_echo_is_open_until_the_initiator_ends(self):  # OFA 2007-10 Rtr §2
        frames = startup(REQ, C | S, 1), startup(REP, C | S, 1)

        def knows(a):
            a.set_up(*frames)
            a.segment(RESPONDER, b"", FIN | ACK)
            a.send(INITIATOR, startup(RTR_TEXT, C, 1))

        def echoes(a):
            a.set_up(*frames)
            a.fpdu(INITIATOR, terminate(0x20, 7))
        def invalid(a):  # an initiator closes after that, whatever S says
            a.set_up(frames[0], startup(REP, C | S, 1, bytes(513)))
            a.close()
        self.check(invalid, (5, "error", "RFC 5044 §7.1.1", "announced 513 octets"))
        self.check(knows)
        self.check(echoes, (6, "warning", "OFA 2007-10 Rtr §2", "answered S with S"))

    def test_octets_behind_the_head_of_a_request_that_was_answered_too_soon(self):
        def build(a):
            a.handshake()
            request, reply = v2("AD")
            a.send(INITIATOR, request[:4])
            a.send(RESPONDER, reply)
            a.send(INITIATOR, request[4:])
            a.fpdu(INITIATOR, read_request(1, 0))
            a.fpdu(INITIATOR, send(1, b"hello"))
        self.check(build, (5, "error", "RFC 5044 §7.1.2", "when only 4 of 20 octets had arrived"))

    def test_a_connection_that_the_built_in_dissector_takes_first(self):
        """It leaves its port type behind, and is asked first from then on."""
        def taken(a):
            a.send(INITIATOR, REQ + bytes([0x40, 9, 0, 0]))  # of a connection that began earlier, and no Request

        def ours(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(7, b"hello"))
            a.close()
        capture = Capture()
        taken(capture.connect())
        ours(capture.connect())
        self.assertEqual([(frame, severity) for frame, severity, _ in self.judged(capture)],
                         [(7, "error"), (9, "warning")])

    def results(self, build):
        capture = Capture()
        build(capture.connect())
        path = self.tshark.file(f"{self._testMethodName}.pcap", capture.octets())
        head, *lines = self.tshark.run("-n", "-q", "-r", path, "-z", "parley,conn").stdout.splitlines()
        names = re.split(r" {2,}", head.strip())
        return [tuple(dict(zip(names, re.split(r" {2,}", line.strip())))[name] for name in ("Result", "Outcome"))
                for line in lines]

    def test_passed_failed_and_partial(self):
        def good(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(1, b"hello"))
            a.close()

        def wrong(a):
            a.set_up(*V1)
            a.fpdu(INITIATOR, send(3, b"hello"))
            a.close()

        def lacking(a):
            a.set_up(*V1)
            a.skip(INITIATOR, a.framer[INITIATOR].fpdu(send(1, b"hello")))
            a.fpdu(RESPONDER, send(1, b"hello"))
            a.close()

        def no_common_rtr(a):
            a.set_up(v2("AB")[0], v2("AD")[1])
            a.close()

        def unfinished(a):
            a.handshake()
            a.send(INITIATOR, startup(REQ, C, 1, pattern(40))[:30])
            a.close()
        rows = ((no_common_rtr, "failed", "failed"), (unfinished, "failed", "failed"),
                (good, "passed", "established"), (wrong, "failed", "established"), (lacking, "partial", "established"),
                (lambda a: a.handshake().start(V1[0], startup(REP, C | R, 1)), "passed", "rejected"),
                (lambda a: a.handshake().send(INITIATOR, V1[0]), "partial", "incomplete"),
                (lambda a: (a.handshake().send(INITIATOR, V1[0]), a.close(RESPONDER)), "failed", "failed"),
                (lambda a: (a.set_up(*V1), a.fpdu(INITIATOR, send(1, b"x")), a.fpdu(RESPONDER, terminate(0x00, 0))),
                 "failed", "established"))
        for build, result, outcome in rows:
            with self.subTest(result=result, outcome=outcome):
                self.assertEqual(self.results(build), [(result, outcome)])


if __name__ == "__main__":
    unittest.main()
