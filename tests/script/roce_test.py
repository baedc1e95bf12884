# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCEv2 over this machine's loopback: the commands that take --roce, each in a process of its own."""
import json
import os
import re

import exposition
from cli import CliTest, address, main, run
from exposition import value


class Roce(CliTest):
    def serve(self, *args):
        server = self.start(*args, "--roce")
        server.wait_for("listening")
        return server

    def test_rping_verifies_its_data(self):
        here = address(1)
        server = self.serve("rping", "-s", "-a", here, "-p", 7174, "-C", 5)
        done = self.ok(run("rping", "-c", "-a", here, "-p", 7174, "-C", 5, "-S", 50000, "-V", "--roce"))
        self.assertIn("5 pings of 50000 octets, data verified", done.out)
        self.ok(server.finish())

    def test_a_dead_server_is_told_by_its_host(self):
        here = address(7)
        for _ in range(8):
            server = self.serve("rping", "-s", "-a", here, "-p", 7174)
            client = self.start("rping", "-c", "-a", here, "-p", 7174, "-v", "--timeout", "5s", "--roce")
            client.wait_for("ping")
            server.kill()
            done = client.finish()
            self.assertEqual(done.code, 1, done)
            # A server that died between its ACK and its answer has left no request that could fail.
            if "did not answer" not in done.err:
                break
        self.assertIn("the peer reset the connection (ICMP: nothing receives UDP port 4791", done.err)
        self.assertNotIn("the first completion", done.err)

    def test_messages_and_private_data(self):
        here = address(2)
        capture = self.path("roce.pcapng")
        server = self.serve("listen", f"{here}:7175", "--count", 1, "--echo", "--private-data", "pong")
        done = self.ok(run("connect", f"{here}:7175", "--send", 20, "--echoed", "--private-data", "ping", "--roce",
                           "--pcapng", capture))
        self.assertIn('private data of 196 octets: "pong", then zeros', done.out)
        request = server.wait_for("connect_request")
        self.assertTrue(request["private_data"]["hex"].startswith(b"ping".hex()), request)
        self.ok(server.finish())
        self.assertGreater(os.path.getsize(capture), 5000)

    def test_queue_pairs_of_other_types(self):
        here = address(2)
        for kind, messages in (("uc", ("--send", 5, "--echoed")), ("xrc", ())):
            echo = ("--echo",) if messages else ()
            server = self.serve("listen", f"{here}:7175", "--count", 1, "--qp-type", kind, *echo)
            done = self.ok(run("connect", f"{here}:7175", "--qp-type", kind, *messages, "--roce"))
            self.assertIn("1 of 1 connections", done.out)
            self.ok(server.finish())
        for words, why in ((("--qp-type", "uc"), "iWARP has RC alone"),
                           (("--qp-type", "xrc", "--send", 1, "--roce"), "--qp-type xrc sends no messages")):
            self.refused(run("connect", f"{here}:7175", *words), 2, why)

    def test_a_reject_and_a_listener_that_is_not_there(self):
        here = address(3)
        server = self.serve("listen", f"{here}:7175", "--count", 1, "--reject", "--private-data", "no")
        done = run("connect", f"{here}:7176", "--roce")
        self.assertEqual(done.code, 1, done)
        self.assertIn("there is no listener", done.out + done.err)
        done = run("connect", f"{here}:7175", "--roce")
        self.assertEqual(done.code, 1, done)
        self.assertIn('private data of 148 octets: "no"', done.out + done.err)
        server.finish()

    def test_a_host_without_roce_is_told_at_once(self):
        done = run("connect", f"{address(4)}:7175", "--roce")
        self.assertEqual(done.code, 1, done)
        self.assertIn("nothing receives UDP port 4791 there", done.out + done.err)

    def test_both_sides_count_their_connections(self):
        here = address(4)
        files = {role: self.path(f"{role}.prom") for role in ("responder", "initiator")}
        server = self.serve("listen", f"{here}:7175", "--count", 3, "--metrics", files["responder"])
        self.ok(run("connect", f"{here}:7175", "--count", 3, "--roce", "--metrics", files["initiator"]))
        self.ok(server.finish())
        for role, path in files.items():
            with open(path, encoding="utf-8") as file:
                lines = file.read().splitlines()
            for counter in ("connections_started_total", "connections_established_total", "setup_seconds_count"):
                self.assertIn(f'parley_{counter}{{role="{role}"}} 3', lines)
            found = exposition.read("".join(line + "\n" for line in lines).encode())
            stages = {labels["stage"]: number for suffix, labels, number in found["parley_setup_stage_seconds"].samples
                      if suffix == "_sum" and labels["role"] == role}
            whole = value(found, "parley_setup_seconds", "_sum", role=role)
            self.assertGreater(whole, 0)
            self.assertAlmostEqual(sum(stages.values()), whole, 9, stages)  # nothing between the stages
            for stage in ("decision", "reply", "ready") if role == "responder" else ("request", "reply", "ready"):
                self.assertEqual(value(found, "parley_setup_stage_seconds", "_count", role=role, stage=stage), 3, stage)
            # The initiator waits for the REP, the responder for the RTU.
            self.assertGreater(stages["ready" if role == "responder" else "reply"], 0)

    def rejects(self, path):
        with open(path, "rb") as file:
            found = exposition.read(file.read())
        return {(labels["direction"], labels["reason"]): number for _, labels, number in found["parley_rejects_total"].samples}

    def test_rejections_are_counted_by_their_reason(self):
        here = address(3)
        paths = server, client = self.path("server.prom"), self.path("client.prom")
        peer = self.serve("listen", f"{here}:7175", "--reject", "--count", 1, "--metrics", server)
        self.assertEqual(run("connect", f"{here}:7999", "--roce", "--metrics", client).code, 1)
        self.assertEqual(list(self.rejects(client)), [("received", "invalid_service_id")])
        self.assertEqual(run("connect", f"{here}:7175", "--roce", "--metrics", client).code, 1)
        self.assertEqual(self.rejects(client), {("received", "rejected"): 1})
        peer.finish()
        told = self.rejects(server)
        self.assertEqual((set(told), told["sent", "rejected"]), ({("sent", "invalid_service_id"), ("sent", "rejected")}, 1))
        for when_full, offer, reason in (("refuse", (), "no_resources"), ("retry-after", ("--offer-retry-after",), "retry_after")):
            with self.subTest(when_full):
                peer, first = self.full(here, "60s", "--when-full", when_full, "--metrics", server)
                try:
                    run("connect", f"{here}:7175", "--roce", "--metrics", client, "--timeout", "1s", *offer)
                    first.kill()
                    peer.finish(stop=True)
                finally:
                    peer.kill()
                for way, path in zip(("sent", "received"), paths):
                    told = self.rejects(path)
                    self.assertGreaterEqual(told[way, reason], 1, told)
                    # Who gives up says so, too: REJ 4.
                    self.assertLessEqual(set(told), {(way, reason), ("received" if way == "sent" else "sent", "timeout")})

    def test_an_address_that_is_no_hosts_is_refused(self):
        for where in ("0.0.0.0:7175", "[::]:7175", "239.1.2.3:7175", "[::ffff:127.0.0.1]:7175"):
            self.refused(run("connect", where, "--roce"), 2, "cannot connect to")

    def test_private_data_that_no_answer_holds_is_refused_at_once(self):
        here = address(5)
        for command in (["listen", f"{here}:7175"], ["rping", "-s", "-a", here]):
            self.refused(run(*command, "--roce", "--private-data", "x" * 197), 2, "at most 196 fit into a REP")
        self.refused(run("listen", f"{here}:7175", "--roce", "--reject", "--private-data", "x" * 149), 2,
                     "at most 148 fit into a REJ")

    def test_one_provider_is_asked_for(self):
        for command in (["connect", "127.0.0.1:1"], ["listen"], ["rping", "-c", "-a", "127.0.0.1"], ["cmtime"],
                        ["neg", "dial", "127.0.0.1:1"]):
            self.refused(run(*command, "--roce", "--provider", "rdmacm"), 2, "excludes", "--roce", "--provider")

    def early_repetitions(self, here, *timers):
        """What a capture is told of whose peer takes its time; the connection comes up all the same."""
        capture = self.path("timers.pcapng")
        server = self.serve("listen", f"{here}:7175", "--count", 1, "--decide-after", "400ms")
        self.ok(run("connect", f"{here}:7175", "--roce", "--pcapng", capture, *timers))
        self.ok(server.finish())
        report = json.loads(run("pcap", "check", capture, "--json").out)
        return [f["text"] for c in report["connections"] for f in c["findings"] if f.get("key") == "cm.early"]

    def test_timers_of_the_specification_wait_for_the_peer(self):
        here = address(6)
        self.assertNotEqual(self.early_repetitions(here), [])
        self.assertEqual(self.early_repetitions(here, "--timers", "spec"), [])

    def full(self, here, decides, *answers):
        """A listener with room for one, which is taken until it decides. Its other options are `answers`."""
        server = self.serve("listen", f"{here}:7175", "--concurrency", 1, "--decide-after", decides, *answers)
        first = self.start("connect", f"{here}:7175", "--roce")
        server.wait_for("connect_request")
        return server, first

    def answers(self, here, *options, code=0):
        """What a second client is told, in the words of its capture without the repetitions, and the client itself."""
        capture = self.path("full.pcapng")
        done = run("connect", f"{here}:7175", "--roce", "--pcapng", capture, *options)
        self.assertEqual(done.code, code, done)
        said = re.findall(r"◀─+ (MRA|REJ|REP)\b", self.ok(run("pcap", "ladder", capture)).out)
        return [word for n, word in enumerate(said) if n == 0 or said[n - 1] != word], done

    def test_a_listener_without_room_answers_as_it_is_told(self):
        here = address(7)
        for options, heard, failed in (
                ((), ["MRA"], ""),
                (("--when-full", "retry-after", "--retry-after", "300ms"), ["MRA"], ""),  # nobody has offered to heed it
                (("--when-full", "refuse"), ["REJ"], "no resources available (3)"),
                (("--when-full", "drop"), [], "no REP to")):
            with self.subTest(options):
                server, first = self.full(here, "60s", *options)
                try:
                    said, done = self.answers(here, "--reply-timeout", "700ms", "--timeout", "900ms", code=1)
                    self.assertEqual(said, heard, done)
                    self.assertIn(failed, done.err)
                    first.kill()
                    self.assertGreater(self.ok(server.finish(stop=True)).event("summary")["turned_away"]["refused"], 0)
                finally:
                    server.kill()

    def test_a_client_that_heeds_a_retry_after_gets_in_by_itself(self):
        here = address(7)
        server, first = self.full(here, "3s", "--when-full", "retry-after", "--retry-after", "300ms")
        said, done = self.answers(here, "--offer-retry-after", "--private-data", "x" * 48)
        self.assertEqual((said[0], said[-1]), ("REJ", "REP"), done)  # and an MRA between, while the program takes its time
        self.ok(first.finish())
        requests = [e["private_data"] for e in self.ok(server.finish(stop=True)).events if e["event"] == "connect_request"]
        self.assertEqual(requests[-1]["hex"], "78" * 48 + "00" * 8, "the offer is the listener's own business")
        self.refused(run("connect", f"{here}:7175", "--roce", "--offer-retry-after", "--private-data", "x" * 49), 2, "48")

    def test_rping_and_cmtime_take_the_same(self):
        here = address(7)
        server = self.serve("rping", "-s", "-a", here, "--when-full", "drop")
        self.ok(run("rping", "-c", "-a", here, "-C", 1, "--roce", "--offer-retry-after"))
        self.ok(server.finish())
        server = self.serve("cmtime", "-b", here, "-c", 1, "--when-full", "retry-after", "--retry-after", "1s")
        self.ok(run("cmtime", "-s", here, "-c", 1, "--roce", "--offer-retry-after"))
        self.ok(server.finish())

    def test_what_makes_no_sense_without_room_is_refused(self):
        for words, said in (
                (("listen", "--roce", "--when-full", "queue"), "--when-full"),
                (("listen", "--when-full", "drop"), "--when-full is about Parley's RoCE: it belongs to --provider roce"),
                (("listen", "--retry-after", "1s"), "--retry-after is about Parley's RoCE"),
                (("connect", "127.0.0.1:1", "--offer-retry-after"), "--offer-retry-after is about Parley's RoCE"),
                (("cmtime", "--provider", "sim", "--when-full", "drop"), "--when-full is about Parley's RoCE"),
                (("listen", "--roce", "--retry-after", "1s"), "--retry-after needs --when-full retry-after"),
                (("listen", "--roce", "--when-full", "retry-after", "--retry-after", "0"), "--retry-after 0s: it is 1ms to 65535ms"),
                (("listen", "--roce", "--when-full", "retry-after", "--retry-after", "2m"), "--retry-after 120s: it is 1ms to"),
                (("listen", "--roce", "--when-full", "retry-after", "--retry-after", "soon"), "is not a time with a unit"),
                (("rping", "-c", "-a", "127.0.0.1", "--roce", "--when-full", "drop"), "are for the listening side"),
                (("rping", "-s", "--roce", "--offer-retry-after"), "--offer-retry-after is for the connecting side"),
                (("cmtime", "--roce", "--offer-retry-after"), "--offer-retry-after is for the connecting side"),
                (("cmtime", "-s", "127.0.0.1", "--roce", "--when-full", "drop"), "are for the listening side")):
            with self.subTest(words):
                self.refused(run(*words), 2, said)

    def test_options_of_tcp_are_refused(self):
        self.refused(run("listen", "--roce", "--backlog", 5), 2, "--backlog is about TCP")
        self.refused(run("connect", "127.0.0.1:1", "--roce", "--tcp-timeout", "1s"), 2, "--tcp-timeout is about TCP")
        self.refused(run("rping", "-c", "-a", "127.0.0.1", "--roce", "--nudge-after", "1s"), 2,
                     "--nudge-after is about TCP")
        self.refused(run("connect", "127.0.0.1:1", "--timers", "spec"), 2, "they belong to --provider roce")

    def test_two_listeners_at_one_address_are_one_too_many(self):
        here = address(5)
        self.serve("listen", f"{here}:7175")
        done = run("listen", f"{here}:7176", "--roce")
        self.assertEqual(done.code, 3, done)
        self.assertIn("take another of 127.0.0.0/8", done.err)


main()
