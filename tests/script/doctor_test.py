# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley doctor, and --provider rdmacm on a machine without RDMA devices."""
import os
import sys
import unittest

import netns
from cli import PARLEY, CliTest, main, run

PRELOADED = os.path.join(os.path.dirname(PARLEY), "..", "lib", "parley", "libparley_verbs.so")
# A process with UDP port 4791, whose name has an escape sequence (PR_SET_NAME is 15).
NAMED = r"""
import ctypes, socket, sys
ctypes.CDLL(None).prctl(15, b"\x1b[31mx", 0, 0, 0)
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
port.bind(("127.0.0.1", 4791))
print("ready", flush=True)
sys.stdin.read()
"""
RDMA = os.path.isdir("/sys/class/infiniband") and bool(os.listdir("/sys/class/infiniband"))


class Doctor(CliTest):
    def test_sockets_are_tried(self):
        done = self.ok(run("doctor", "--json"))
        checks = {event["name"]: event for event in done.events if event["event"] == "check"}
        self.assertEqual(checks["iwarp-ipv4"]["verdict"], "passed")
        self.assertGreater(checks["iwarp-ipv4"]["details"]["setup_us"], 0)
        self.assertIn("open-files", checks)
        self.assertIn("rdmacm", checks)
        for check in checks.values():
            if check["verdict"] == "failed":
                self.assertTrue(check["advice"], check)

    def test_text_says_what_to_try(self):
        done = self.ok(run("doctor", "iwarp"))
        self.assertIn("iwarp-ipv4: works: a connection to itself over IPv4 loopback took", done.out)
        self.assertNotIn("rdmacm", done.out)

    def test_the_way_to_a_host(self):
        done = self.ok(run("doctor", "--to", "127.0.0.1", "--json"))
        way = done.event("check")
        self.assertEqual((way["name"], way["verdict"]), ("way", "passed"))
        self.assertEqual(way["details"]["peer"], "127.0.0.1:7471")
        self.assertEqual(way["details"]["local"], "127.0.0.1:0")
        done = run("doctor", "iwarp", "--to", "[fe80::1]:7471")  # of which link?
        self.assertEqual(done.code, 3, done)
        self.assertIn("way: fails: no socket reaches [fe80::1]:7471: ", done.out)
        self.refused(run("doctor", "--to", "localhost:99999"), 2, "99999")
        self.refused(run("doctor", "--to", "no-such-host.invalid"), 3, "cannot resolve 'no-such-host.invalid'")

    def test_another_provider_is_refused(self):
        done = run("doctor", "infiniband")
        self.assertEqual(done.code, 2, done)

    def test_roce_needs_its_port(self):
        done = run("doctor", "roce", "--json")
        check = done.event("check")
        self.assertEqual(check["name"], "roce")
        self.assertIn("4791", check["found"])
        self.assertIn((check["verdict"], done.code), (("passed", 0), ("partial", 0)), done)

    @unittest.skipUnless(os.path.exists(PRELOADED), "a build without libparley_verbs.so")
    def test_parley_run(self):
        done = self.ok(run("doctor", "run", "--json"))
        checks = {event["name"]: event for event in done.events}
        self.assertEqual(list(checks), ["verbs-programs", "run-addresses", "run-services", "run-live"])
        self.assertIn("127.0.0.1", checks["run-addresses"]["details"]["addresses"])
        self.assertEqual(checks["run-live"]["verdict"], "passed", done)

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    @unittest.skipUnless(os.path.exists(PRELOADED), "a build without libparley_verbs.so")
    def test_who_has_the_port_of_parley_run(self):
        alone = netns.made_by(self, "ip link set lo up; echo ready; exec cat")
        alone.says("ready")
        inside = netns.inside(alone.process.pid)
        server = self.start("udping", "-b", "127.0.0.1", inside=inside)
        server.wait_for("listening")
        check = {event["name"]: event for event in run("doctor", "run", "--json", inside=inside).events}["run-addresses"]
        self.assertEqual(check["verdict"], "partial", check)
        self.assertIn("127.0.0.1", check["details"]["in_use"])
        self.assertIn(f"parley ({server.process.pid})", check["found"])

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    @unittest.skipUnless(os.path.exists(PRELOADED), "a build without libparley_verbs.so")
    def test_the_name_of_a_process_is_made_printable(self):
        alone = netns.made_by(self, "ip link set lo up; echo ready; exec cat")
        alone.says("ready")
        inside = netns.inside(alone.process.pid)
        server = netns.Process(self, *inside, sys.executable, "-B", "-c", NAMED)
        server.says("ready")
        done = run("doctor", "run", inside=inside)
        self.assertIn(f"?[31mx ({server.process.pid})", done.out)
        self.assertNotIn("\x1b", done.out + done.err)

    @unittest.skipIf(RDMA, "this machine has an RDMA device")
    def test_without_a_device_rdmacm_fails_and_says_why(self):
        done = run("doctor", "rdmacm", "--json")
        self.assertEqual(done.code, 3, done)
        self.assertEqual(done.event("check")["verdict"], "failed")
        without = "was built without librdmacm" in done.event("check")["found"]
        self.assertIn("librdmacm-dev" if without else "rdma link add rxe0", done.event("check")["advice"])
        done = run("connect", "127.0.0.1:7175", "--provider", "rdmacm")
        self.assertEqual(done.code, 3, done)
        self.assertIn("cannot use rdmacm", done.err)

    def test_what_is_about_mpa_is_refused_on_a_nic(self):
        connect, listen = ("connect", "127.0.0.1:7175"), ("listen", "127.0.0.1:0")
        for command, *options in ((connect, "--revision", 1), (connect, "--no-crc"), (connect, "--markers"),
                                  (connect, "--rtr", "read"), (connect, "--peer-quirk", "siw"),
                                  (connect, "--pcapng", "/nonexistent/x"), (connect, "--ird-max", 1),
                                  (connect, "--private-data-max", 1), (connect, "--rtr-offer", "read"),
                                  (connect, "--rtr-by-s"), (connect, "--rtr-spelling", "hex"), (connect, "--no-v1-retry"),
                                  (listen, "--no-rtr-frame"), (listen, "--rtr-accept", "read"),
                                  (listen, "--rtr-expected", "read"), (listen, "--request-timeout", "1s"),
                                  (listen, "--rtr-timeout", "1s"), (listen, "--first-fpdu-timeout", "1s")):
            with self.subTest(options):
                self.refused(run(*command, "--provider", "rdmacm", *options), 2, f"{options[0]} is about MPA on sockets")
                if options[0] == "--pcapng":
                    continue  # packets are seen on these sockets too
                with self.subTest(options, provider="roce"):
                    why = "that peer speaks MPA" if options[0] == "--peer-quirk" else "is about MPA on sockets"
                    self.refused(run(*command, "--roce", *options), 2, options[0], why)
        done = run("listen", "127.0.0.1:0", "--device", "rxe0")
        self.assertEqual(done.code, 2, done)
        self.assertIn("it belongs to --provider rdmacm", done.err)

    @unittest.skipIf(RDMA, "this machine has an RDMA device")
    def test_logs_metrics_and_the_trace_are_a_nics_too(self):
        log, metrics = self.path("log"), self.path("metrics")
        for command in (("connect", "127.0.0.1:7175"), ("listen", "127.0.0.1:0")):
            for options in (["-v"], ["--log", "text"], ["--log-file", log], ["--log-level", "warn"], ["--metrics", metrics],
                            ["--metrics-interval", "1s"], ["--metrics-http", 0]):
                with self.subTest(options, command=command):
                    done = run(*command, "--provider", "rdmacm", *options)
                    self.assertEqual(done.code, 3, done)
                    self.assertIn("cannot use rdmacm", done.err)
        with open(metrics, encoding="utf-8") as text:
            self.assertIn('parley_messages_total{type="ib_req",direction="sent"} 0', text.read())

    @unittest.skipIf(RDMA, "this machine has an RDMA device")
    def test_settings_for_sockets_refuse_nothing_on_a_nic(self):
        path = self.path("p.toml", b'[log]\nformat = "text"\n[metrics]\nhttp = "0"\n[mpa]\nrevision = 1\ncrc = false\n'
                                   b'markers = true\nrtr = "read"\npeer_quirk = "siw"\n[timeout]\nreply = "1s"\n'
                                   b'request = "1s"\n')
        for command in (("connect", "127.0.0.1:7175"), ("listen", "127.0.0.1:0"), ("rping", "-s"),
                        ("rping", "-c", "-a", "127.0.0.1")):
            with self.subTest(command):
                self.refused(run(*command, "--provider", "rdmacm", "--config", path), 3, "cannot use rdmacm")


main()
