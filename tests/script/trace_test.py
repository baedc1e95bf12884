# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""-v: what connections do, step by step, over sockets and in the simulator, as lines, as JSON and in captures."""
import collections
import re
import socket

from cli import CliTest, main, run


def trace(events, host=None):
    """Names and fields of trace events, without what differs from run to run: times and addresses."""
    return [(event["name"], {key: value for key, value in event["fields"].items() if key not in ("local", "next")})
            for event in events if event["event"] == "trace" and event.get("host") == host]


def closed_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Trace(CliTest):
    def test_sockets_and_simulator_say_the_same(self):
        peer, port = self.listener("--count", 1, "-v")
        client = self.ok(run("connect", f"127.0.0.1:{port}", "--rtr", "read", "-v", "--json")).events
        server = self.ok(peer.finish()).events
        simulated = self.ok(run("sim", "run", "handshake_v2_read", "-v", "--json")).events
        self.assertEqual(trace(client), trace(simulated, "a"))
        self.assertEqual(trace(server), trace(simulated, "b"))
        self.assertGreater(len(trace(client)), 10)

    def test_of_several_scenarios_each_event_says_its_own(self):
        both = ("sim", "run", "handshake_v2_read", "handshake_v1_read", "-v")
        follows, waiting = [], set()
        for event in self.ok(run(*both, "--json")).events:
            if event["event"] == "trace":
                waiting.add(event["scenario"])
            elif event["event"] == "run":
                follows.append((event["scenario"], waiting))
                waiting = set()
        self.assertEqual(follows, [(name, {name}) for name in both[2:4]])
        titles = [line for line in self.ok(run(*both)).err.splitlines() if line.endswith(":")]
        self.assertEqual(titles, [f"{name}:" for name in both[2:4]])

    def test_rping_shows_the_set_up_message_by_message(self):
        peer, port = self.rping_server("-v")
        done = self.ok(run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1, "--rtr", "write", "-v"))
        self.assertNotIn("mpa.frame", done.out)
        lines = [re.sub(r"^\d+\.\d{6} (\w+) +#1 \S+ ", r"\1 ", line) for line in done.err.splitlines()]
        messages = [line for line in lines if re.match(r"debug mpa\.(frame|rtr)|info cm", line)]
        frame = "revision=2 flags=C,S control=A,C ird=32 ord=32 private_data_length=0"
        self.assertEqual(messages, [
            f"debug mpa.frame sent Request {frame}",
            f"debug mpa.frame received Reply {frame}",
            "debug mpa.rtr sent write",
            "info cm.established revision=2 rtr=write crc=yes markers_sent=no markers_received=no ird=32 ord=32",
            "info cm.disconnected"])
        server = [(name, fields.get("direction")) for name, fields in trace(self.ok(peer.finish()).events)]
        for event in (("mpa.frame", "received"), ("mpa.frame", "sent"), ("mpa.rtr", "received")):
            self.assertIn(event, server)

    def test_without_v_nothing_of_it(self):
        peer, port = self.listener("--count", 1)
        self.assertEqual(self.ok(run("connect", f"127.0.0.1:{port}")).err, "")
        self.assertEqual(trace(self.ok(peer.finish()).events), [])

    def test_v_twice_shows_each_fpdu_and_timer(self):
        peer, port = self.listener("--count", 1, "--echo", "-vv")
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--send", 2, "--echoed", "-vv"))
        self.assertEqual(len(re.findall(r"^\S+ trace #1 \S+ qp\.fpdu sent Send queue=0 msn=[12] mo=0 octets=64 last=yes$",
                                        done.err, re.M)), 2, done.err)
        self.assertIn("timer.armed wait_reply in=\"30 s\"", done.err)
        received = [fields for name, fields in trace(self.ok(peer.finish()).events)
                    if name == "qp.fpdu" and fields["direction"] == "received" and fields["opcode"] == "Send"]
        self.assertEqual([fields["msn"] for fields in received], [1, 2])

    def test_a_backup_address_and_a_rejection(self):
        peer, port = self.listener("--count", 1, "--reject", "-v")
        gone = closed_port()
        done = run("connect", f"127.0.0.1:{gone}", "--backup", f"127.0.0.1:{port}", "-v")
        self.assertEqual(done.code, 1, str(done))
        self.assertRegex(done.err, rf"info  #1 127\.0\.0\.1:{gone} cm\.retrying next=127\.0\.0\.1:{port} step=tcp_connect cause=")
        self.assertRegex(done.err, rf"info  #1 127\.0\.0\.1:{port} cm\.rejected private_data_length=0")
        self.assertIn(("cm.decided", {"decision": "reject"}), trace(peer.finish().events))

    def test_captures_have_it_as_comments(self):
        for verbose in ((), ("-v",)):
            path = self.path(f"trace{len(verbose)}.pcapng")
            peer, port = self.listener("--count", 1)
            self.ok(run("connect", f"127.0.0.1:{port}", "--pcapng", path, *verbose))
            self.ok(peer.finish())
            simulated = self.path(f"simulated{len(verbose)}.pcapng")
            self.ok(run("sim", "run", "handshake_v2_read", "--pcapng", simulated, *verbose))
            for name, sides in ((path, 1), (simulated, 2)):
                with open(name, "rb") as file:
                    octets = file.read()
                self.assertEqual(octets.count(b"mpa.frame sent Request revision=2 "), len(verbose))
                self.assertEqual(octets.count(b"mpa.frame received "), len(verbose) * sides)
                # A comment is on the frame of its message: RFC 5044 §7.1.1 begins a Request with its key.
                if verbose:
                    request = octets.index(b"MPA ID Req Frame")
                    said = octets.index(b"mpa.frame sent Request")
                    self.assertEqual(octets[request:said].count(b"MPA ID Rep Frame"), 0)
                self.ok(run("pcap", "check", name))

    def test_every_event_of_many_connections_is_in_the_capture(self):
        path = self.path("many.pcapng")
        peer, port = self.listener("--count", 20)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--count", 20, "--concurrency", 20, "-vv", "--json", "--pcapng", path))
        self.ok(peer.finish())
        told = collections.Counter(event["name"] for event in done.events if event["event"] == "trace")
        with open(path, "rb") as file:
            comments = re.findall(rb"#\d+ ([a-z]+\.[a-z]+)", file.read())
        self.assertEqual(collections.Counter(comment.decode() for comment in comments), told)

    def test_the_simulation_is_the_same(self):
        def ladder(*more):
            return self.ok(run("sim", "run", "fall_back_to_v1", "--ladder", "--json", *more)).event("ladder")

        self.assertEqual(ladder(), ladder("-vv"))

        def run_hash(*more):
            return self.ok(run("sim", "replay", "lossy_handshake", "--seed", 1, "--json", *more)).event("run")["pcapng_fnv1a"]

        self.assertEqual(run_hash(), run_hash("-v"))

    def test_what_no_frame_follows_is_in_the_capture(self):
        path = self.path("given_up.pcapng")
        done = run("sim", "run", "partition_for_ever", "-v", "--json", "--pcapng", path)
        told = [event["name"] for event in done.events if event["event"] == "trace"]
        with open(path, "rb") as file:
            octets = file.read()
        self.assertEqual(octets.count(b"cm.lost"), told.count("cm.lost"))
        self.assertGreater(told.count("cm.lost"), 0)

    def test_demo_tells_both_sides(self):
        done = self.ok(run("demo", "--pcapng", self.path("demo.pcapng"), "-v", "--json"))
        for side in ("initiator", "responder"):
            kinds = [fields["kind"] for name, fields in trace(done.events, side) if name == "mpa.frame"]
            self.assertEqual(kinds, ["Request", "Reply", "Rtr"])
        at = {(event["host"], event["fields"]["direction"]): event["at_us"] for event in done.events
              if event["event"] == "trace" and event["name"] == "mpa.frame" and event["fields"]["kind"] == "Reply"}
        self.assertLess(at["responder", "sent"], at["initiator", "received"])


if __name__ == "__main__":
    main()
