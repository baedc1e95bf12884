# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley doctor, and --provider rdmacm on a machine without RDMA devices."""
import os
import unittest

from cli import CliTest, main, run

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

    def test_another_provider_is_refused(self):
        done = run("doctor", "roce")
        self.assertEqual(done.code, 2, done)

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
        for options in (["--revision", 1], ["--no-crc"], ["--markers"], ["--rtr", "read"], ["--peer-quirk", "siw"],
                        ["--pcapng", "/nonexistent/x"]):
            done = run("connect", "127.0.0.1:7175", "--provider", "rdmacm", *options)
            self.assertEqual(done.code, 2, done)
            self.assertIn(f"{options[0]} is about MPA on sockets", done.err)
        done = run("listen", "127.0.0.1:0", "--device", "rxe0")
        self.assertEqual(done.code, 2, done)
        self.assertIn("it belongs to --provider rdmacm", done.err)


main()
