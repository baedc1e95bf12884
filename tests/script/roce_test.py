# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCEv2 over this machine's loopback: the commands that take --roce, each in a process of its own."""
import json
import os

from cli import CliTest, address, main, run


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

    def test_a_dead_server_is_told_by_the_status_of_what_failed(self):
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
        self.assertIn("the queue pair went to ERR: send: transport retries exceeded", done.err)
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

    def test_a_reject_and_a_listener_that_is_not_there(self):
        here = address(3)
        server = self.serve("listen", f"{here}:7175", "--count", 1, "--reject", "--private-data", "no")
        done = run("connect", f"{here}:7176", "--roce")
        self.assertEqual(done.code, 1, done)
        self.assertIn("nobody listens", done.out + done.err)
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
