# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley replay: over real sockets against parley listen, connect and rping, in the simulator, and with bad input."""
import os
import socket
import struct

from cli import SOURCE_DIR, CliTest, address, main, run

CAPTURES = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp")
RPING = os.path.join(CAPTURES, "siw_v2_crc.pcap")


def capture(name):
    return os.path.join(CAPTURES, name)


class Replay(CliTest):
    def recorded(self, listen=(), connect=()):
        """A capture of parley connect with parley listen."""
        path = self.path("recorded.pcapng")
        server, port = self.listener("--count", 1, "--echo", *listen)
        self.ok(run("connect", f"127.0.0.1:{port}", "--pcapng", path, *connect))
        self.ok(server.finish())
        return path

    def summary(self, finished, code, result):
        self.assertEqual(finished.code, code, str(finished))
        summary = finished.event("summary")
        self.assertEqual(summary["verdict"], result, str(finished))
        return summary


class OverRoce(Replay):
    """Packets of UDP port 4791 on loopback."""

    def recorded(self, here):
        path = self.path("recorded.pcapng")
        server = self.start("rping", "-s", "-a", here, "-p", 7174, "-C", 2, "--roce")
        server.wait_for("listening")
        self.ok(run("rping", "-c", "-a", here, "-p", 7174, "-C", 2, "-S", 3000, "-V", "--roce", "--pcapng", path))
        self.ok(server.finish())
        return path

    def test_both_sides_of_a_recording_find_the_same_peer(self):
        """Sends, Reads and Writes; R_Keys, addresses and all numbers are those of another day."""
        here = address(1)
        path = self.recorded(here)
        server = self.start("rping", "-s", "-a", here, "-p", 7174, "-C", 2, "--roce")
        server.wait_for("listening")
        again = self.path("again.pcapng")
        done = run("replay", path, "--role", "initiator", "--against", f"{here}:7174", "--json", "--pcapng", again)
        summary = self.summary(done, 0, "same")
        self.assertEqual(summary["steps_played"], summary["steps"])
        self.assertEqual(summary["answers_compared"], summary["answers"])
        self.assertEqual(done.event("replay")["protocol"], "ibcm")
        self.ok(server.finish())
        check = run("pcap", "check", again)
        self.assertEqual(check.code, 0, str(check))

        player = self.start("replay", path, "--role", "responder", "--listen", f"{here}:7174", "--wait", "30s")
        player.wait_for("listening")
        self.ok(run("rping", "-c", "-a", here, "-p", 7174, "-C", 2, "-S", 3000, "-V", "--roce"))
        self.summary(player.finish(), 0, "same")
        self.summary(run("replay", path, "--role", "responder", "--against", "sim:parley", "--json"), 0, "same")

    def test_a_peer_that_answers_otherwise_is_found(self):
        here = address(2)
        path = self.recorded(here)
        player = self.start("replay", path, "--role", "responder", "--listen", f"{here}:7174", "--wait", "30s")
        player.wait_for("listening")
        run("rping", "-c", "-a", here, "-p", 7174, "-C", 2, "-S", 2000, "-V", "--roce")
        done = player.finish()
        self.summary(done, 1, "different")
        difference = done.event("difference")
        self.assertIn("the payload differs", difference["text"])
        self.assertGreater(difference["recorded"]["frame"], 3)

    def test_nobody_is_there(self):
        path = os.path.join(SOURCE_DIR, "tests", "captures", "roce", "rxe61_cm.pcap")
        done = run("replay", path, "-n", 5, "--role", "responder", "--listen", f"{address(3)}:9012", "--wait", "300ms")
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("no peer connected", done.err)
        done = run("replay", path, "-n", 5, "--role", "initiator", "--against", "sim:siw")
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("quirk of MPA", done.err)
        done = run("replay", path, "-n", 5, "--role", "initiator", "--against", "sim:rxe", "--json")
        self.summary(done, 0, "same")
        mpa = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", "siw_v1.pcap")
        done = run("replay", mpa, "-n", 1, "--role", "initiator", "--against", "sim:rxe")
        self.assertEqual(done.code, 2, str(done))
        self.assertIn("quirk of RoCE", done.err)


class OverSockets(Replay):
    def test_the_initiator_of_a_recording_finds_the_same_responder(self):
        path = self.recorded(connect=["--send", 2, "--echoed"])
        server, port = self.listener("--count", 1, "--echo")
        again = self.path("again.pcapng")
        done = run("replay", path, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--json", "--pcapng", again)
        summary = self.summary(done, 0, "same")
        self.assertEqual(summary["steps_played"], summary["steps"])
        self.assertGreaterEqual(summary["answers_compared"], 3)
        self.ok(server.finish())
        check = run("pcap", "check", again)
        self.assertEqual(check.code, 0, str(check))
        self.summary(run("replay", again, "--role", "initiator", "--against", "sim:parley", "--json"), 0, "same")

    def test_the_responder_of_a_recording_serves_a_live_initiator(self):
        path = self.recorded(connect=["--send", 2, "--echoed", "--private-data", "who"])
        player = self.start("replay", path, "--role", "responder", "--listen", "127.0.0.1:0")
        port = player.wait_for("listening")["port"]
        self.ok(run("connect", f"127.0.0.1:{port}", "--send", 2, "--echoed", "--private-data", "who"))
        self.summary(player.finish(), 0, "same")

    def test_a_responder_that_answers_otherwise_is_found(self):
        path = self.recorded(listen=["--ird", 4], connect=["--send", 2, "--echoed"])
        server, port = self.listener("--count", 1, "--echo", "--private-data", "surprise")
        done = run("replay", path, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--json")
        self.summary(done, 1, "different")
        difference = done.event("difference")
        self.assertTrue(difference["recorded"]["frame"] > 0)
        self.assertTrue(difference["live"]["hex"].startswith(b"MPA ID Rep Frame".hex()))
        self.assertIn("RFC", difference["rule"])
        server.finish(stop=True)

    def test_an_initiator_that_asks_otherwise_is_found(self):
        path = self.recorded(connect=["--send", 2, "--echoed"])
        player = self.start("replay", path, "--role", "responder", "--listen", "127.0.0.1:0")
        port = player.wait_for("listening")["port"]
        run("connect", f"127.0.0.1:{port}", "--send", 2, "--size", 99, "--echoed")
        done = player.finish()
        self.summary(done, 1, "different")
        self.assertIn("octets, recorded were", done.event("difference")["text"])

    def test_rping_of_linux_meets_the_rping_server_of_parley(self):
        """Its STags and addresses are those of another machine and another day; Parley answers another IRD, no more."""
        server, port = self.rping_server()
        done = run("replay", RPING, "-n", 1, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--json", "-v",
                   "--keep-going", "--speed", 0)
        summary = self.summary(done, 1, "different")
        self.assertIn("the enhanced data differ", done.event("difference")["text"])
        self.assertEqual(summary["differences"], 1, str(done))
        self.assertEqual(summary["steps_played"], summary["steps"], str(done))
        self.assertEqual(summary["answers_compared"], summary["answers"], str(done))
        server.finish(stop=True)

    def test_timing_is_kept_or_left_out(self):
        path = self.recorded(connect=["--send", 2, "--echoed", "--hold", "700ms"])
        for speed, slow in (("0.2", True), ("0", False)):
            server, port = self.listener("--count", 1, "--echo")
            done = run("replay", path, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--json", "-v",
                       "--speed", speed)
            self.summary(done, 0, "same")
            last = [event for event in done.events if event["event"] == "played"][-1]
            self.assertEqual(last["at_s"] > 3, slow, str(done))
            self.ok(server.finish())

    def test_a_peer_that_is_silent_or_not_there_ends_the_run(self):
        with socket.create_server(("127.0.0.1", 0)) as mute:
            port = mute.getsockname()[1]
            done = run("replay", RPING, "-n", 1, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--timeout",
                       "200ms", "--json")
            self.summary(done, 1, "different")
            self.assertIn("did not come", done.event("difference")["text"])
        self.refused_after_text(run("replay", RPING, "-n", 1, "--role", "initiator", "--against", f"127.0.0.1:{port}"),
                                "cannot connect")
        self.refused_after_text(run("replay", RPING, "-n", 1, "--role", "responder", "--listen", "127.0.0.1:0", "--wait",
                                    "100ms"), "no peer connected within 100ms")

    def test_half_a_frame_is_told_whether_the_peer_waits_or_closes(self):
        for ends in (False, True):
            with socket.create_server(("127.0.0.1", 0)) as server:
                player = self.start("replay", RPING, "-n", 1, "--role", "initiator", "--timeout", "300ms", "--against",
                                    f"127.0.0.1:{server.getsockname()[1]}")
                connection, _ = server.accept()
                connection.recv(1000)
                connection.sendall(b"MPA ID Rep ")
                if ends:
                    connection.shutdown(socket.SHUT_WR)
                done = player.finish()
                connection.close()
            self.summary(done, 1, "different")
            difference = done.event("difference")
            said = difference["text"] if ends else difference["live"]["text"]
            self.assertIn("11 of the at least 20 octets of a startup frame, then " + ("the end" if ends else "nothing for"),
                          said)

    def test_that_nothing_was_compared_is_no_pass(self):
        with open(capture("made_12_v2_rtr_read.pcap"), "rb") as file:
            octets = file.read()
        end = 24
        for _ in range(4):  # SYN, SYN ACK, ACK, Request: nothing of the responder's answers
            end += 16 + struct.unpack_from("<I", octets, end + 8)[0]
        done = run("replay", self.path("request.pcap", octets[:end]), "--role", "initiator", "--against", "sim:parley")
        self.assertIn("nothing compared: 1 of 1 steps played", done.out)
        self.refused(done, 1, "no answer was compared")

    def test_a_recording_that_is_not_whole_says_so(self):
        path = self.recorded(connect=["--send", 2, "--echoed"])
        whole = run("replay", path, "--role", "initiator", "--against", "sim:parley", "--json")
        self.assertIs(self.summary(whole, 0, "same")["partial"], False)
        self.assertEqual(whole.event("replay")["lacks"], [])
        with open(path, "rb") as file:
            octets = file.read()
        cut = self.path("cut.pcapng", octets[:len(octets) * 4 // 5])
        done = run("replay", cut, "--role", "initiator", "--against", "sim:parley", "--json")
        self.assertIs(self.summary(done, 0, "same")["partial"], True)
        self.assertIn("the end of the connection", done.event("replay")["lacks"])
        self.assertIn("not whole", run("replay", cut, "--role", "initiator", "--against", "sim:parley").out)

    def refused_after_text(self, done, words):
        self.assertEqual(done.code, 3, str(done))
        self.assertIn(words, done.err)
        self.assertEqual(len(done.err.strip().splitlines()), 1, str(done))

    def test_nonsense_from_the_peer_is_a_difference(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            player = self.start("replay", RPING, "-n", 1, "--role", "initiator", "--against",
                                f"127.0.0.1:{server.getsockname()[1]}")
            connection, _ = server.accept()
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            self.summary(player.finish(), 1, "different")
            connection.close()


class InTheSimulator(Replay):
    def test_rping_of_linux_meets_parley_in_both_roles(self):
        for role in ("initiator", "responder"):
            done = run("replay", RPING, "-n", 1, "--role", role, "--against", "sim:parley", "--json")
            summary = self.summary(done, 0, "same")
            self.assertGreater(summary["answers_compared"], 10)

    def test_a_difference_is_printed_with_both_frames(self):
        done = run("replay", capture("siw_probe_fpdus_terminates.pcap"), "-n", 3, "--role", "initiator", "--against",
                   "sim:parley")
        self.assertEqual(done.code, 1, str(done))
        for words in ("first difference: the control octets of the Terminate", "[RFC 5040 §4.8]", "recorded, frame",
                      "live at", "different: "):
            self.assertIn(words, done.out)

    def test_a_quirk_answers_as_the_recorded_peer_did(self):
        for against, code, result in (("sim:siw", 0, "same"), ("sim:parley", 1, "different")):
            done = run("replay", capture("siw_probe_startup.pcap"), "-n", 5, "--role", "initiator", "--against", against,
                       "--json")
            self.summary(done, code, result)

    def test_the_same_run_gives_the_same_capture(self):
        files = [self.path(name) for name in ("one.pcapng", "two.pcapng")]
        for file in files:
            self.ok(run("replay", RPING, "-n", 1, "--role", "initiator", "--against", "sim:parley", "--pcapng", file))
        with open(files[0], "rb") as one, open(files[1], "rb") as two:
            self.assertEqual(one.read(), two.read())
        self.assertEqual(run("pcap", "check", files[0]).code, 0)


class Words(Replay):
    def test_connections_are_listed(self):
        done = self.ok(run("replay", capture("siw_probe_startup.pcap"), "--list", "--json"))
        self.assertEqual([event["connection"] for event in done.events], list(range(1, 42)))

    def test_a_connection_that_was_set_up_before_the_capture_is_marked_and_not_counted(self):
        """Of the two connections of the capture, the Request and the Reply of the first are lost."""
        with open(RPING, "rb") as file:
            octets = file.read()
        kept, at, lost = [octets[:24]], 24, 0
        while at < len(octets):
            size = 16 + struct.unpack("<I", octets[at + 8:at + 12])[0]
            startup = b"MPA ID Re" in octets[at:at + size] and lost < 2
            lost += startup
            if not startup:
                kept.append(octets[at:at + size])
            at += size
        path = self.path("mid.pcap", b"".join(kept))
        listed = self.ok(run("replay", path, "--list"))
        self.assertIn("handshake not captured: cannot be played", listed.out.splitlines()[0])
        self.assertNotIn("cannot be played", listed.out.splitlines()[1])
        self.assertEqual([event["playable"] for event in run("replay", path, "--list", "--json").events], [False, True])
        done = run("replay", path, "--role", "initiator", "--against", "sim:parley", "--json")
        self.summary(done, 0, "same")
        self.assertEqual(done.event("replay")["connection"], 2)
        self.refused(run("replay", path, "-n", 1, "--role", "initiator", "--against", "sim:parley"), 3, "cannot begin")

    def test_wrong_words_are_refused(self):
        for words, code, text in (
                ((RPING,), 2, "choose the side to play"),
                ((RPING, "--role", "initiator"), 2, "choose the live peer"),
                ((RPING, "--role", "observer", "--against", "sim:parley"), 2, "observer"),
                ((RPING, "--role", "initiator", "--listen", "127.0.0.1:0"), 2, "an initiator connects"),
                ((RPING, "--role", "responder", "--against", "127.0.0.1:1"), 2, "a responder waits"),
                ((RPING, "--role", "responder", "--against", "sim:parley", "--listen", "127.0.0.1:0"), 2, "cannot be used together"),
                ((RPING, "--role", "initiator", "--against", "sim:nobody"), 2, "not a simulated peer"),
                ((RPING, "--role", "initiator", "--against", "sim:parley", "--speed", "fast"), 2, "is not a speed"),
                ((RPING, "--role", "initiator", "--against", "sim:parley"), 3, "choose one with --connection"),
                ((RPING, "-n", 99, "--role", "initiator", "--against", "sim:parley"), 3, "there is no connection 99"),
                (("/no/such/file", "--role", "initiator", "--against", "sim:parley"), 3, "cannot read")):
            self.refused(run("replay", *words), code, text)

    def test_bad_files_are_refused_in_one_line(self):
        for name, content, text in (("empty", b"", "the file is empty"), ("foreign", b"PK\x03\x04" * 100, ""),
                                    ("no_packets", struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1), "no MPA")):
            done = self.refused(run("replay", self.path(name, content), "--role", "initiator", "--against", "sim:parley"), 3)
            self.assertIn(text, done.err)

    def test_a_file_without_a_connection_is_not_listed_in_silence(self):
        header = struct.pack("<IHHiII", 0xA1B2C3D4, 2, 4, 0, 0, 65535)
        packet = struct.pack("<IIII", 1, 0, 60, 60) + bytes(60)
        for name, content, text in (("empty", b"", "the file is empty"), ("foreign", b"PK\x03\x04" * 100, ""),
                                    ("no_packets", header + struct.pack("<I", 1), "no MPA connection in it (0 packets"),
                                    ("no_mpa", header + struct.pack("<I", 1) + packet, "no MPA connection in it (1 packet"),
                                    ("usb", header + struct.pack("<I", 189) + packet, "link type 189 (USB, Linux) is not decoded; Ethernet")):
            for words in ((), ("--json",)):
                done = run("replay", self.path(name, content), "--list", *words)
                self.assertEqual(done.code, 3, str(done))
                said = done.event("error")["text"] if words else done.err
                self.assertIn(text, said)
                self.assertEqual(len(said.strip().splitlines()), 1, str(done))

    def test_a_truncated_file_is_played_as_far_as_it_goes(self):
        with open(capture("made_01_v1_nomarker.pcap"), "rb") as file:
            whole = file.read()
        path = self.path("half.pcap", whole[:len(whole) * 2 // 3])
        done = run("replay", path, "--role", "initiator", "--against", "sim:parley", "--json")
        self.summary(done, 0, "same")
        self.assertTrue(any("not whole" in note for note in done.event("replay")["notes"]), str(done))


class EveryConnection(Replay):
    FILE = "siw_probe_startup.pcap"

    def test_each_in_turn_and_one_summary(self):
        done = run("replay", capture(self.FILE), "-n", "all", "--role", "initiator", "--against", "sim:parley", "--json")
        total = done.events[-1]
        self.assertEqual(total["event"], "total")
        listed = [e for e in run("replay", capture(self.FILE), "--list", "--json").events if e["event"] == "connection"]
        told = {number: word for word in ("same", "different", "nothing_compared", "broken_off", "not_played")
                for number in total[word]}
        self.assertEqual(sorted(told), list(range(1, len(listed) + 1)))
        self.assertEqual((total["connection_count"], total["not_reached"]), (len(listed), []))
        self.assertEqual(done.code, 1, "some differ")
        for number in (told_first for word in ("same", "different", "not_played") for told_first in total[word][:2]):
            alone = run("replay", capture(self.FILE), "-n", number, "--role", "initiator", "--against", "sim:parley")
            self.assertEqual(alone.code, {"same": 0, "different": 1, "not_played": 3}[told[number]], str(alone))

    def test_its_text_ends_with_the_numbers(self):
        done = run("replay", capture(self.FILE), "-n", "all", "--role", "initiator", "--against", "sim:parley")
        self.assertRegex(done.out.splitlines()[-1], r"^41 connections: \d+ same, \d+ different \([\d, ]*\b5\b")

    def test_all_the_same_is_0(self):
        done = run("replay", capture("siw_v2_crc.pcap"), "-n", "all", "--role", "initiator", "--against", "sim:siw")
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(done.out.splitlines()[-1], "2 connections: 2 same")

    def test_what_cannot_be_played_is_said_and_does_not_count(self):
        two = self.path("two.pcapng")
        server, port = self.listener("--count", 2, "--echo")
        self.ok(run("connect", f"127.0.0.1:{port}", "--count", 2, "--concurrency", 1, "--send", 2, "--echoed", "--pcapng",
                    two))
        self.ok(server.finish())
        # Without the first frames up to the first Request, the first connection was set up before the capture began.
        with open(two, "rb") as file:
            octets = file.read()
        at, kept, seen = 0, [], 0
        while at < len(octets):
            kind, length = struct.unpack_from("<II", octets, at)
            seen += kind == 6
            if kind != 6 or seen > 5:  # SYN, SYN ACK, ACK, Request, Reply
                kept.append(octets[at:at + length])
            at += length
        late = self.path("late.pcapng", b"".join(kept))
        done = run("replay", late, "-n", "all", "--role", "initiator", "--against", "sim:parley")
        self.assertEqual(done.code, 0, str(done))
        self.assertIn("not played: ", done.out)
        self.assertEqual(done.out.splitlines()[-1], "2 connections: 1 same, 1 not played (1)")

    def test_a_peer_that_is_not_there_ends_it(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
            done = run("replay", capture(self.FILE), "-n", "all", "--role", "initiator", "--against", f"127.0.0.1:{port}")
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("1 broken off (1), 40 not reached", done.out.splitlines()[-1])

    def test_over_sockets(self):
        path = self.path("three.pcapng")
        server, port = self.listener("--count", 3)
        self.ok(run("connect", f"127.0.0.1:{port}", "--count", 3, "--pcapng", path))
        self.ok(server.finish())
        server, port = self.listener("--count", 3)
        done = run("replay", path, "-n", "all", "--role", "initiator", "--against", f"127.0.0.1:{port}", "--speed", 0)
        self.assertEqual(done.code, 0, str(done))
        self.assertEqual(done.out.splitlines()[-1], "3 connections: 3 same")
        self.ok(server.finish())

    def test_what_does_not_go_together(self):
        words = ("replay", capture(self.FILE), "--role", "initiator", "--against", "sim:parley")
        self.refused(run(*words, "-n", "all", "--pcapng", self.path("x")), 2, "--pcapng", "all")
        self.refused(run(*words, "-n", "some"), 2, "'some'", "all")


class Ignore(Replay):
    WORDS = ("replay", capture("siw_probe_startup.pcap"), "-n", 5, "--role", "initiator", "--against", "sim:parley",
             "--json")

    def test_a_named_field_does_not_fail(self):
        self.assertEqual(run(*self.WORDS).event("difference")["text"],
                         "bits that are reserved: flags are 0x10, recorded were 0x1f")
        summary = self.summary(run(*self.WORDS, "--ignore", "C,Reserved"), 0, "same")
        self.assertEqual(summary["ignored"], 1)
        self.assertIn("bits that are reserved: flags are 0x10", summary["ignored_words"][0])
        self.summary(run(*self.WORDS, "--ignore", "C,IRD"), 1, "different")

    def test_the_rest_of_the_same_answer_is_compared(self):
        path = self.recorded(listen=["--ord", 4, "--private-data", "recorded"])
        server, port = self.listener("--ord", 9, "--private-data", "measured")
        words = ("replay", path, "--role", "initiator", "--against", f"127.0.0.1:{port}", "--json")
        self.assertIn("ORD=9", run(*words).event("difference")["text"])
        self.assertIn("private data", run(*words, "--ignore", "ORD").event("difference")["text"])
        summary = self.summary(run(*words, "--ignore", "ORD,private-data"), 0, "same")
        self.assertEqual(summary["ignored"], 2)
        server.finish(stop=True)

    def test_an_unknown_name_is_an_error_with_the_list(self):
        self.refused(run(*self.WORDS[:-1], "--ignore", "IRD,colour"), 2, "'colour'", "there are: revision, M, C,",
                     "terminate-order")


if __name__ == "__main__":
    main()
