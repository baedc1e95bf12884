# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Logs, metrics and settings of `parley neg serve` and `dial`, between two processes."""
import json
import os
import urllib.request

import exposition
from cli import LIMIT, CliTest, main, run
from exposition import value

LEFT = ("--variant", "manual", "--set", "qpn=0x11", "--set", "gid=192.0.2.1")
RIGHT = ("--variant", "manual", "--set", "qpn=0x22", "--set", "gid=192.0.2.2")


class NegOps(CliTest):
    def server(self, *args):
        peer = self.start("neg", "serve", "127.0.0.1", "-p", 0, "--timeout", "20s", *RIGHT, *args)
        return peer, peer.wait_for("listening")["port"]

    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def test_both_sides_log_a_negotiation_to_one_file(self):
        log = self.path("log")
        logging = ("--log", "json", "--log-file", log, "--log-level", "debug")
        peer, port = self.server("-n", 1, *logging)
        self.ok(run("neg", "dial", f"127.0.0.1:{port}", *LEFT, "--label", "x", *logging))
        self.ok(peer.finish())
        told = self.lines(log)
        for command, first, last in (("neg serve", "cm.listening", "neg.agreed"), ("neg dial", "neg.started", "neg.agreed")):
            mine = [line for line in told if line["command"] == command]
            self.assertEqual((mine[0]["name"], mine[-1]["name"]), (first, last))
            self.assertEqual([(line["fields"]["from"], line["fields"]["to"]) for line in mine if line["name"] == "neg.stage"][-3:],
                             [("none", "info"), ("info", "ready"), ("ready", "over")])
            turns = [(f["direction"], f["stage"]) for f in (line["fields"] for line in mine if line["name"] == "neg.message")
                     if f["kind"] == "Turn"]
            ways = ("sent", "received") if command == "neg dial" else ("received", "sent")
            self.assertEqual(turns, [(way, stage) for stage in ("info", "ready") for way in ways])
            self.assertEqual(mine[-1]["fields"], {"plugin": "parley", "variant": "manual", "qps": 1, "attempts": 1})
        asked = next(line for line in told if line["name"] == "neg.requested")
        self.assertEqual(asked["fields"], {"plugin": "parley", "variant": "manual", "label": "x"})
        self.assertEqual(asked["local"], f"127.0.0.1:{port}")

    def test_what_is_served_can_be_scraped(self):
        peer = self.start("neg", "serve", "127.0.0.1", "-p", 0, "--timeout", "20s", *RIGHT, "-n", 3, "--metrics-http", 0)
        url, port = peer.wait_for("metrics")["url"], peer.wait_for("listening")["port"]
        dial = ("neg", "dial", f"127.0.0.1:{port}")
        self.ok(run(*dial, *LEFT))
        self.assertEqual(run(*dial, "--variant", "verbs-uc", "--set", "driver=manual", *LEFT[2:]).code, 1)
        with urllib.request.urlopen(url, timeout=LIMIT) as answer:
            found = exposition.read(answer.read())
        for family, wanted in (("negotiations_started_total", 2), ("negotiations_agreed_total", 1), ("negotiations", 0)):
            with self.subTest(family):
                self.assertEqual(value(found, "parley_" + family, role="responder"), wanted)
        self.assertEqual(value(found, "parley_negotiation_seconds", "_count", role="responder"), 1)
        for stage, wanted in (("hello", 2), ("info", 1), ("ready", 1), ("done", 0)):
            with self.subTest(stage):
                self.assertEqual(value(found, "parley_negotiation_stage_seconds", "_count", role="responder", stage=stage), wanted)
        self.assertEqual(value(found, "parley_negotiation_refusals_total", reason="variant_not_available"), 1)
        self.assertEqual(value(found, "parley_negotiation_messages_total", type="turn", direction="received"), 2)
        self.assertEqual(value(found, "parley_negotiation_messages_total", type="abort", direction="sent"), 1)
        self.ok(run(*dial, *LEFT))
        self.assertEqual(peer.finish().code, 1)  # one of them failed

    def test_packets_of_its_own_roce_are_counted(self):
        here, there = self.path("serve.prom"), self.path("dial.prom")
        words = ("--variant", "pingpong", "--set", "size=1000", "--set", "iterations=20", "--roce")
        peer = self.start("neg", "serve", "127.0.0.1", "-p", 0, "--timeout", "20s", "-n", 1, *words, "--metrics", here)
        port = peer.wait_for("listening")["port"]
        self.ok(run("neg", "dial", f"127.0.0.1:{port}", *words, "--metrics", there))
        self.ok(peer.finish())
        for path in (here, there):
            with open(path, "rb") as file:
                found = exposition.read(file.read())
            for direction in ("sent", "received"):
                # A Send each way, and its ACK, where none goes with a Send.
                self.assertGreaterEqual(value(found, "parley_roce_packets_total", direction=direction), 20)
            self.assertEqual(value(found, "parley_roce_packets_unsent_total"), 0)
            self.assertEqual(value(found, "parley_roce_packets_dropped_total", reason="bad_icrc"), 0)
            self.assertNotIn("parley_roce_cm_retransmissions_total", found)  # there is no connection manager
            self.assertEqual(value(found, "parley_negotiations_agreed_total", role="responder" if path == here else "initiator"), 1)

    def test_a_dial_counts_its_retries_and_says_where_it_went_on(self):
        log, metrics = self.path("log"), self.path("metrics")
        peer, port = self.server("-n", 1)
        self.ok(run("neg", "dial", "127.0.0.1:1", "--backup", f"127.0.0.1:{port}", *LEFT, "--log", "json", "--log-file", log,
                    "--metrics", metrics))
        self.ok(peer.finish())
        again = [line for line in self.lines(log) if line["name"] == "neg.retrying"]
        self.assertEqual(len(again), 1)
        self.assertEqual(again[0]["fields"]["next"], f"127.0.0.1:{port}")
        self.assertIs(again[0]["fields"]["backup"], True)
        with open(metrics, "rb") as file:
            found = exposition.read(file.read())
        self.assertEqual(value(found, "parley_negotiation_retries_total", reason="server_unreachable", next="backup"), 1)
        self.assertEqual(value(found, "parley_negotiation_stage_seconds", "_count", role="initiator", stage="transport"), 1)

    def test_settings_of_logs_are_both_sides_and_those_of_metrics_the_servers(self):
        log, metrics = self.path("log"), self.path("metrics")
        config = self.path("p.toml", f'[log]\nfile = "{log}"\n[metrics]\nfile = "{metrics}"\n'.encode())
        peer, port = self.server("-n", 1, "--config", config)
        self.ok(run("neg", "dial", f"127.0.0.1:{port}", *LEFT, "--config", config))
        self.ok(peer.finish())
        with open(log, encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r"neg serve\[\d+\] info  #1 127\.0\.0\.1:\d+ neg\.agreed ")
        self.assertRegex(text, r"neg dial\[\d+\] info  #1 127\.0\.0\.1:\d+ neg\.agreed ")
        with open(metrics, "rb") as file:
            found = exposition.read(file.read())
        self.assertEqual(value(found, "parley_negotiations_agreed_total", role="responder"), 1)
        self.assertEqual(value(found, "parley_negotiations_started_total", role="initiator"), 0)
        os.remove(log)
        self.refused(run("neg", "dial", f"127.0.0.1:{port}", *LEFT, "--config", config, "--log-file", "/nonexistent/x"), 3,
                     "log: cannot write")


main()
