# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley listen and parley connect over real sockets: every form of set-up, private data, rejects, ends, bad surroundings."""
import json
import os
import socket
import struct

from cli import SOURCE_DIR, CliTest, link_local_addresses, main, run

PARAMETER_KEYS = {"transport", "protocol", "ird", "ord", "depths_negotiated", "peer_ird", "peer_ord", "mpa", "reasons"}
MPA_KEYS = {"revision", "crc", "markers", "rtr", "peer_to_peer", "peer_flags", "offered", "answered"}
WHY_KEYS = {"stage", "step", "error", "rule", "received", "advice", "offset", "text"}


class Forms(CliTest):
    def set_up(self, connect=(), listen=(), rtr="none", revision=2):
        """One connection with a message each way; both sides agree on the form."""
        peer, port = self.listener("--count", 1, "--echo", *listen)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--send", 2, "--echoed", "--json", *connect))
        ended = self.ok(peer.finish())
        ours, theirs = done.event("established"), ended.event("established")
        for side in (ours, theirs):
            self.assertEqual(side["parameters"]["mpa"]["rtr"], rtr, side)
            self.assertEqual(side["parameters"]["mpa"]["revision"], revision, side)
            self.assertTrue(side["parameters"]["reasons"])
        self.assertEqual(done.event("summary")["messages"], {"received": 2, "sent": 2})
        self.assertTrue(done.event("disconnected")["graceful"])
        self.assertTrue(ended.event("disconnected")["graceful"])
        return ours["parameters"], theirs["parameters"]

    def test_v1_classic(self):
        ours, _ = self.set_up(["--revision", 1], revision=1)
        self.assertFalse(ours["depths_negotiated"])

    def test_the_address_may_be_an_option_as_in_rping(self):
        peer, port = self.listener("--count", 1)
        self.ok(run("connect", "-a", "127.0.0.1", "-p", port))
        self.ok(peer.finish())

    def test_a_client_with_nothing_to_say_still_releases_the_responder(self):
        # RFC 5044 §7.1.2 rule 4: without an RTR the responder waits for a first message.
        for revision in (1, 2):
            with self.subTest(revision):
                peer, port = self.listener("--count", 1, "--send", 2)
                self.ok(run("connect", f"127.0.0.1:{port}", "--expect", 2, "--revision", revision))
                self.ok(peer.finish())

    def test_v2_client_server(self):
        ours, theirs = self.set_up(["--ird", 5, "--ord", 7], ["--ird", 9, "--ord", 4])
        self.assertTrue(ours["depths_negotiated"])
        # RFC 6581 §9.1: nobody's ORD is above the other's IRD.
        self.assertLessEqual(ours["ord"], theirs["ird"])
        self.assertLessEqual(theirs["ord"], ours["ird"])

    def test_v2_peer_to_peer_with_each_rtr(self):
        for form in ("send", "write", "read"):
            with self.subTest(form):
                ours, theirs = self.set_up(["--rtr", form], ["--rtr-accept", form], rtr=form)
                self.assertTrue(ours["mpa"]["peer_to_peer"] and theirs["mpa"]["peer_to_peer"])
                self.assertIn(form, ours["mpa"]["offered"])
                self.assertIn(form, ours["mpa"]["answered"])

    def test_v2_offers_several_and_the_responder_narrows(self):
        ours, _ = self.set_up(["--rtr", "read", "--rtr-offer", "send,write"], ["--rtr-accept", "write"], rtr="write")
        self.assertEqual(set(ours["mpa"]["offered"]), {"send", "write", "read"})

    def test_v1_rtr_frame_in_both_spellings(self):
        # OFA 2007-10 Rtr §1: the text and the octets of the proposal differ, so both are taken.
        for spelling in ("text", "hex"):
            with self.subTest(spelling):
                self.set_up(["--rtr", "frame", "--rtr-spelling", spelling], rtr="frame", revision=1)

    def test_v1_rtr_by_configuration(self):
        for form in ("send", "write", "read"):
            with self.subTest(form):
                self.set_up(["--revision", 1, "--rtr", form], ["--rtr-expected", form], rtr=form, revision=1)

    def test_v1_frame_without_support_falls_back(self):
        ours, _ = self.set_up(["--rtr", "frame", "--rtr-fallback", "none"], ["--no-rtr-frame"], revision=1)
        self.assertTrue(any("S" in reason for reason in ours["reasons"]), ours["reasons"])

    def test_crc_and_markers(self):
        ours, _ = self.set_up(["--no-crc"], ["--no-crc"])
        self.assertFalse(ours["mpa"]["crc"])
        ours, _ = self.set_up(["--no-crc"], [])
        self.assertTrue(ours["mpa"]["crc"])  # RFC 5044 §7.1.1: either side may insist
        ours, theirs = self.set_up(["--markers", "--size", 5000], ["--size", 5000])
        self.assertEqual(ours["mpa"]["markers"], {"to_responder": False, "to_initiator": True})
        self.assertEqual(ours["mpa"]["markers"], theirs["mpa"]["markers"])
        ours, _ = self.set_up(["--markers", "--size", 5000], ["--markers", "--size", 5000])
        self.assertEqual(ours["mpa"]["markers"], {"to_responder": True, "to_initiator": True})

    def test_v2_initiator_falls_back_to_a_v1_responder(self):
        peer, port = self.listener("--count", 1, "--echo", "--revision", 1)
        done = run("connect", f"127.0.0.1:{port}", "--send", 1, "--echoed", "--json")
        self.ok(done)
        self.assertEqual(done.event("retrying")["event"], "retrying")
        self.assertEqual(done.event("established")["parameters"]["mpa"]["revision"], 1)
        self.ok(peer.finish())

    def test_a_backup_takes_over(self):
        peer, port = self.listener("--count", 1)
        with socket.socket() as nobody:  # bound, not listening
            nobody.bind(("127.0.0.1", 0))
            dead = nobody.getsockname()[1]
            done = self.ok(run("connect", f"127.0.0.1:{dead}", "--backup", f"127.0.0.1:{port}", "--rtr", "read", "--json"))
        retrying = done.event("retrying")
        self.assertEqual((retrying["peer"], retrying["next"]), (f"127.0.0.1:{dead}", f"127.0.0.1:{port}"))
        self.assertEqual((retrying["why"]["stage"], retrying["wait_us"]), ("transport", 0))
        self.assertEqual(done.event("established")["peer"], f"127.0.0.1:{port}")
        self.ok(peer.finish())

    def test_rounds_end(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            dead = nobody.getsockname()[1]
            self.refused(run("connect", f"127.0.0.1:{dead}", "--rounds", 3, "--back-off", "10ms"), 1, "there is no listener")
            done = run("connect", f"127.0.0.1:{dead}", "--rounds", 3, "--back-off", "10ms", "--json")
        waits = [event["wait_us"] for event in done.events if event["event"] == "retrying"]
        self.assertEqual([5000 <= waits[0] <= 10000, 10000 <= waits[1] <= 20000], [True, True], waits)
        self.assertEqual(done.event("summary")["retried"], 2)

    def test_a_played_quirk_is_met(self):
        peer, port = self.listener("--count", 1, "--echo", "--play-quirk", "siw")
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--peer-quirk", "siw", "--send", 1, "--echoed", "--json"))
        self.assertEqual(done.event("established")["parameters"]["mpa"]["revision"], 2)
        self.ok(peer.finish())

    def test_ipv6(self):
        peer, port = self.listener("--count", 1, "--echo", host="::1")
        done = self.ok(run("connect", f"[::1]:{port}", "--send", 1, "--echoed", "--json"))
        self.assertEqual(done.event("established")["peer"], f"[::1]:{port}")
        self.ok(peer.finish())

    def test_link_local_with_its_scope(self):
        for address in link_local_addresses():
            with self.subTest(address):
                peer, port = self.listener("--count", 1, "--echo", host=address)
                done = self.ok(run("connect", f"[{address}]:{port}", "--send", 1, "--echoed", "--json"))
                self.assertRegex(done.event("established")["peer"], r"^\[fe80:.*%\d+\]:")
                self.ok(peer.finish())

    def test_ends_name_both_addresses_and_the_device(self):
        peer, port = self.listener("--count", 1, "--reject")
        done = run("connect", f"127.0.0.1:{port}", "--local", "127.0.0.3", "--json")
        rejected, request = done.event("rejected"), peer.finish().event("connect_request")
        self.assertEqual((rejected["local"], rejected["peer"], rejected["device"]),
                         (request["peer"], f"127.0.0.1:{port}", "parley"))
        peer, port = self.listener("--count", 1)
        ended = self.ok(run("connect", f"127.0.0.1:{port}", "--json")).event("disconnected")
        self.assertEqual(ended["local"], peer.finish().event("disconnected")["peer"])
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
            failed = run("connect", "127.0.0.1:%d" % silent.getsockname()[1], "--reply-timeout", "200ms", "--json").event("connect_failed")
            stream, address = silent.accept()
            stream.close()
        self.assertEqual(failed["local"], "%s:%d" % address)

    def test_local_address(self):
        peer, port = self.listener("--count", 1)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--local", "127.0.0.2", "--json", "--rtr", "read"))
        self.assertTrue(done.event("established")["local"].startswith("127.0.0.2:"))
        self.assertTrue(self.ok(peer.finish()).event("connect_request")["peer"].startswith("127.0.0.2:"))

    def test_many_connections_at_once(self):
        peer, port = self.listener("--count", 200, "--quiet", "--echo")
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--count", 200, "--concurrency", 50, "--rtr", "read",
                           "--send", 1, "--echoed", "--quiet", "--json"))
        summary = done.event("summary")
        self.assertEqual((summary["good"], summary["established"], summary["failed"]), (200, 200, 0))
        self.assertEqual(set(summary["setup_us"]), {"min", "median", "max"})
        self.assertEqual(self.ok(peer.finish()).event("summary")["established"], 200)


class PrivateData(CliTest):
    def test_text_hex_and_file_both_ways(self):
        file = self.path("pd", bytes(range(256)))
        for given, octets in (("hello", b"hello"), ("hex:00ff 7f", b"\x00\xff\x7f"), ("text:@literal", b"@literal"),
                              ("@" + file, bytes(range(256)))):
            with self.subTest(given):
                peer, port = self.listener("--count", 1, "--private-data", given)
                done = self.ok(run("connect", f"127.0.0.1:{port}", "--private-data", given, "--json", "--rtr", "read"))
                self.assertEqual(bytes.fromhex(done.event("established")["private_data"]["hex"]), octets)
                request = self.ok(peer.finish()).event("connect_request")
                self.assertEqual(bytes.fromhex(request["private_data"]["hex"]), octets)
                self.assertEqual(request["private_data"]["length"], len(octets))

    def test_the_longest(self):
        # RFC 5044 §7.1.1: 512; RFC 6581 §9: 508 beside the enhanced data.
        for revision, octets in ((1, 512), (2, 508)):
            with self.subTest(revision):
                peer, port = self.listener("--count", 1, "--revision", revision, "--private-data", "y" * octets)
                done = self.ok(run("connect", f"127.0.0.1:{port}", "--revision", revision, "--rtr", "none", "--json",
                                   "--private-data", "x" * octets))
                self.assertEqual(done.event("established")["private_data"]["length"], octets)
                peer.finish(stop=True)

    def test_reject_with_private_data(self):
        for revision in (1, 2):
            with self.subTest(revision):
                peer, port = self.listener("--count", 1, "--reject", "--private-data", "not today")
                done = run("connect", f"127.0.0.1:{port}", "--revision", revision, "--private-data", "please", "--json")
                self.refused(done, 1, "rejected by 127.0.0.1", '"not today"')
                rejected = done.event("rejected")
                self.assertEqual(rejected["private_data"]["text"], "not today")
                self.assertEqual(set(rejected["why"]), WHY_KEYS)
                ended = self.ok(peer.finish())
                self.assertEqual(ended.event("connect_request")["private_data"]["text"], "please")
                self.assertEqual(ended.event("summary")["rejected"], 1)


class Schema(CliTest):
    def test_documented_keys(self):
        peer, port = self.listener("--count", 1)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--json", "--rtr", "read"))
        ended = self.ok(peer.finish())
        up = done.event("established")
        self.assertEqual(set(up), {"event", "id", "role", "local", "peer", "parameters", "private_data", "times_us"})
        self.assertEqual(set(up["parameters"]), PARAMETER_KEYS)
        self.assertEqual(set(up["parameters"]["mpa"]), MPA_KEYS)
        self.assertEqual(up["role"], "initiator")
        self.assertEqual(set(up["times_us"]), {"transport", "request", "reply", "established"})
        request = ended.event("connect_request")
        self.assertEqual(set(request), {"event", "id", "peer", "offered", "private_data"})
        self.assertEqual(set(ended.event("established")["times_us"]),
                         {"transport", "request", "decision", "reply", "established"})
        self.assertEqual(set(ended.event("summary")),
                         {"event", "command", "started", "established", "rejected", "failed", "retried", "disconnected",
                          "broken", "messages", "turned_away"})
        self.assertEqual(set(done.event("disconnected")), {"event", "id", "local", "device", "peer", "graceful"})

    def test_every_key_is_in_the_documentation(self):
        with open(os.path.join(SOURCE_DIR, "docs", "cli.md"), encoding="utf-8") as file:
            text = file.read()
        for key in PARAMETER_KEYS | WHY_KEYS | {"times_us", "private_data", "connect_request", "reject_sent", "retrying",
                                                "connect_failed", "disconnected", "summary", "terminate", "messages"}:
            self.assertIn(f"`{key}`", text)

    def test_text_says_what_was_agreed_and_how_long_it_took(self):
        peer, port = self.listener("--count", 1)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--rtr", "read"))
        for words in ("revision 2, CRC on, markers none, RTR read, IRD 32, ORD 32 (negotiated)", "because", "RFC 6581",
                      "steps: TCP ", "Reply received "):
            self.assertIn(words, done.out)
        self.ok(peer.finish())


class Ends(CliTest):
    def test_sigterm_ends_a_listener_cleanly(self):
        peer, _ = self.listener()
        self.assertEqual(self.ok(peer.finish(stop=True)).event("summary")["started"], 0)

    def test_sigterm_ends_a_held_connection_cleanly(self):
        peer, port = self.listener("--count", 1)
        held = self.start("connect", f"127.0.0.1:{port}", "--hold", "60s", "--timeout", "0", "--rtr", "read")
        held.wait_for("established")
        done = held.finish(stop=True)
        self.assertTrue(done.event("disconnected")["graceful"])
        self.ok(peer.finish())

    def test_the_responder_may_end_it(self):
        peer, port = self.listener("--count", 1, "--hold", "10ms")
        done = run("connect", f"127.0.0.1:{port}", "--hold", "20s", "--rtr", "read", "--json")
        self.refused(done, 1, "disconnected before the end")
        self.ok(peer.finish())

    def test_listener_timeout(self):
        done = run("listen", "127.0.0.1:0", "--count", 1, "--timeout", "200ms")
        self.assertEqual(done.code, 1)
        self.assertIn("0 of 1 connections arrived within 200ms", done.err)

    def test_sends_without_echo(self):
        peer, port = self.listener("--count", 1, "--expect", 10, "--send", 5, "--size", 100)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--send", 10, "--expect", 5, "--size", 100, "--json"))
        self.assertEqual(done.event("summary")["messages"], {"received": 5, "sent": 10})
        self.assertEqual(self.ok(peer.finish()).event("summary")["messages"], {"received": 10, "sent": 5})

    def test_a_message_too_long_is_told(self):
        # RFC 5041 §7.1: untagged buffer error 5, message too long.
        peer, port = self.listener("--count", 1, "--expect", 1, "--size", 10)
        done = run("connect", f"127.0.0.1:{port}", "--send", 1, "--expect", 1, "--size", 100, "--json")
        self.refused(done, 1, "Terminate", "message too long")
        self.assertEqual((done.event("disconnected")["terminate"]["layer"], done.event("disconnected")["terminate"]["code"]),
                         (1, 5))
        self.assertEqual(peer.finish().code, 1)


class Surroundings(CliTest):
    """Port in use, nobody there, no such name: one clear line and the right exit code."""

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused(run("listen", f"127.0.0.1:{port}"), 3, f"127.0.0.1:{port}", "in use")
            self.refused(run("rping", "-s", "-a", "127.0.0.1", "-p", port), 3, f"127.0.0.1:{port}", "in use")

    def test_refused(self):
        with socket.socket() as nobody:  # bound, not listening: the port stays free of others
            nobody.bind(("127.0.0.1", 0))
            port = nobody.getsockname()[1]
            self.refused(run("connect", f"127.0.0.1:{port}"), 1, f"127.0.0.1:{port}", "there is no listener")
            self.refused(run("rping", "-c", "-a", "127.0.0.1", "-p", port), 1, f"127.0.0.1:{port}", "there is no listener")
            done = run("connect", f"127.0.0.1:{port}", "--json")
            self.assertEqual(set(done.event("connect_failed")["why"]), WHY_KEYS)
            self.assertEqual(done.event("error")["exit"], 1)

    def test_unresolvable(self):
        for words in (("connect", "no-such-host.invalid"), ("listen", "no-such-host.invalid"),
                      ("rping", "-c", "-a", "no-such-host.invalid"), ("rping", "-s", "-a", "no-such-host.invalid"),
                      ("connect", "127.0.0.1:1", "--local", "no-such-host.invalid")):
            with self.subTest(words):
                self.refused(run(*words), 3, "cannot resolve 'no-such-host.invalid'")

    def test_an_address_that_is_not_ours(self):
        self.refused(run("listen", "192.0.2.1:0"), 3, "192.0.2.1")
        self.refused(run("connect", "127.0.0.1:9", "--local", "192.0.2.1"), 3)

    def test_time_wait_is_for_nics(self):
        self.refused(run("connect", "127.0.0.1:1", "--time-wait"), 2, "--time-wait is for --provider rdmacm and roce")

    def test_unreadable_and_uncreatable_files(self):
        self.refused(run("connect", "127.0.0.1:1", "--private-data", "@/nowhere/file"), 3, "/nowhere/file")
        self.refused(run("connect", "127.0.0.1:1", "--private-data", "@" + self.directory), 3, self.directory)
        self.refused(run("connect", "127.0.0.1:1", "--pcapng", "/nowhere/file"), 3, "/nowhere/file")
        self.refused(run("rping", "-s", "--pcapng", self.directory), 3, self.directory)


class RawPeers(CliTest):
    """Peers made of raw octets: what they do wrong is told in words with the rule."""

    def raw_responder(self, answer, *args):
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen()
            running = self.start("connect", f"127.0.0.1:{server.getsockname()[1]}", *args)
            peer, _ = server.accept()
            with peer:
                peer.settimeout(10)
                request = peer.recv(4096)
                self.assertTrue(request.startswith(b"MPA ID Req Frame"))
                answer(peer)
                return running.finish()

    def test_private_data_length_600(self):
        def answer(peer):
            peer.sendall(b"MPA ID Rep Frame" + struct.pack(">BBH", 0x40, 1, 600))
            peer.recv(1)
        done = self.raw_responder(answer, "--revision", 1)
        self.refused(done, 1, "RFC 5044 §7.1", "600")
        self.assertEqual(done.event("connect_failed")["why"]["step"], "wait_reply")
        self.assertEqual(done.event("connect_failed")["why"]["stage"], "reply")

    def test_no_reply(self):
        done = self.raw_responder(lambda peer: peer.recv(1), "--revision", 1, "--reply-timeout", "200ms")
        self.refused(done, 1, "wait for the MPA Reply", "deadline")

    def test_a_closing_peer(self):
        done = self.raw_responder(lambda peer: peer.close(), "--revision", 1, "--no-v1-retry")
        self.refused(done, 1, "wait for the MPA Reply")

    def reset_by_the_initiator(self, port):
        """A connection of revision 1 that is set up, and then broken."""
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.settimeout(10)
            peer.sendall(b"MPA ID Req Frame" + struct.pack(">BBH", 0, 1, 0))
            self.assertTrue(peer.recv(20).startswith(b"MPA ID Rep Frame"))
            # An empty RDMA Write, so that the responder may send; C=0, so that the CRC field is not looked at.
            peer.sendall(bytes.fromhex("000e c140 00000000 0000000000000000 00000000"))
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close() resets

    def test_a_listener_whose_connections_broke_has_failed(self):
        peer, port = self.listener("--count", 2, "--no-crc")
        for _ in range(2):
            self.reset_by_the_initiator(port)
        done = self.refused(peer.finish(), 1, "2 of 2 connections broke")
        self.assertEqual(done.event("summary")["broken"], 2)

    def test_a_listener_that_ends_breaks_nothing(self):
        peer, port = self.listener("--no-crc")
        held = self.start("connect", f"127.0.0.1:{port}", "--hold", "60s", "--timeout", "0", "--no-crc")
        held.wait_for("established")
        self.ok(peer.finish(stop=True))

    def test_a_silent_initiator_is_given_up(self):
        peer, port = self.listener("--count", 1, "--request-timeout", "200ms")
        with socket.create_connection(("127.0.0.1", port)) as silent:
            silent.settimeout(10)
            self.assertEqual(silent.recv(1), b"")
        peer.wait_for("connect_failed")
        done = self.ok(peer.finish(stop=True))  # no Request, no connection: not the listener's failure
        self.assertEqual(done.event("connect_failed")["why"]["step"], "wait_request")
        self.assertEqual(done.event("connect_failed")["why"]["stage"], "request")


class Capture(CliTest):
    def test_pcapng_holds_the_connection(self):
        file = self.path("out.pcapng")
        peer, port = self.listener("--count", 1, "--echo", "--size", 3000)
        self.ok(run("connect", f"127.0.0.1:{port}", "--rtr", "frame", "--send", 3, "--echoed", "--size", 3000,
                    "--pcapng", file))
        self.ok(peer.finish())
        verdict = json.loads(self.ok(run("pcap", "check", "--json", file)).out)
        self.assertEqual(len(verdict["connections"]), 1)
        connection = verdict["connections"][0]
        self.assertEqual((connection["outcome"], connection["rtr"], connection["revision"]), ("established", "frame", 1))
        self.assertEqual(connection["responder"], f"127.0.0.1:{port}")


if __name__ == "__main__":
    main()
