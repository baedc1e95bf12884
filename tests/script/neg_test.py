# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley neg over real sockets: both sides, every export, wrong peers, fail-over, and programs' own exchanges."""
import json
import os
import socket
import time

from cli import PARLEY, SOURCE_DIR, CliTest, link_local_addresses, main, run

LEFT = ("--set", "qpn=0x11", "--set", "gid=192.0.2.1", "--set", "rkey=0x7", "--set", "vaddr=0x1000", "--set", "length=64")
RIGHT = ("--set", "qpn=0x22", "--set", "psn=5", "--set", "gid=192.0.2.2", "--set", "mtu=4096")


class Neg(CliTest):
    def server(self, *args, address="127.0.0.1"):
        """In the background, with its port."""
        peer = self.start("neg", "serve", address, "-p", 0, "--timeout", "20s", *args)
        return peer, peer.wait_for("listening")["port"]

    def test_both_sides_tell_the_same(self):
        for address, host in (("127.0.0.1", "127.0.0.1:{}"), ("[::1]", "[::1]:{}")):
            with self.subTest(address):
                peer, port = self.server("--variant", "manual", *RIGHT, "-n", 1, address=address)
                done = self.ok(run("neg", "dial", host.format(port), "--variant", "manual", *LEFT, "--label", "x", "--history", "--json"))
                ours, theirs = done.event("negotiated"), self.ok(peer.finish()).event("negotiated")
                self.assertEqual(ours["qps"][0]["peer"], theirs["qps"][0]["local"])
                self.assertEqual(theirs["qps"][0]["peer"]["memory"], {"rkey": 7, "vaddr": "0x1000", "length": 64})
                self.assertEqual((ours["qps"][0]["mtu"], ours["qps"][0]["tested"]), (1024, False))
                self.assertEqual(theirs["label"], "x")
                self.assertEqual([e["stage"] for e in ours["history"]], ["none", "info", "none", "info", "ready", "ready"])

    def test_a_link_local_address_with_its_scope(self):
        done = run("neg", "dial", "[fe80::1%lo]:1", "--variant", "manual", *LEFT, "--connect-timeout", "1s")
        self.assertEqual(done.code, 1, done)
        self.assertIn("[fe80::1%1]:1", done.err)
        for address in link_local_addresses():
            with self.subTest(address):
                peer, port = self.server("--variant", "manual", *RIGHT, "-n", 1, address=f"[{address}]")
                done = self.ok(run("neg", "dial", f"[{address}]:{port}", "--variant", "manual", *LEFT, "--json"))
                self.assertRegex(done.event("negotiated")["peer"], r"^\[fe80:.*%\d+\]:")
                self.assertEqual(self.ok(peer.finish()).event("negotiated")["outcome"], "completed")

    def test_exports(self):
        _, port = self.server("--variant", "manual", *RIGHT)
        dial = ("neg", "dial", f"127.0.0.1:{port}", "--variant", "manual", *LEFT, "--export")
        document = json.loads(self.ok(run(*dial, "json")).out)
        self.assertEqual(document["qps"][0]["peer"]["qpn"], 0x22)
        lines = self.ok(run(*dial, "env")).out.splitlines()
        self.assertIn("PARLEY_NEG_QP0_PEER_QPN=0x22", lines)
        self.assertTrue(all("=" in line and " " not in line for line in lines), lines)
        interface = json.loads(self.ok(run(*dial, "otg")).out)["devices"][0]["rocev2"]["ipv4_interfaces"][0]
        self.assertEqual(interface["peers"][0]["destination_ip_address"], "192.0.2.2")
        self.assertEqual(interface["peers"][0]["qps"][0]["connection_type"]["reliable_connection"]["source_qp_number"], 0x11)

    def test_what_is_not_offered_is_refused_with_what_is(self):
        _, port = self.server("--variant", "manual", *RIGHT)
        done = run("neg", "dial", f"127.0.0.1:{port}", "--variant", "verbs-uc", *LEFT)
        self.refused(done, 1, "parley/verbs-uc is not offered here; there is parley/manual")
        self.refused(run("neg", "dial", "127.0.0.1:1", "--variant", "verbs-dc"), 2, "there are verbs-rc, verbs-uc")
        self.refused(run("neg", "dial", "127.0.0.1:1", "--variant", "acme/rc"), 2, "no plug-in 'acme'")

    def test_a_scan_of_ports_is_no_negotiation(self):
        peer, port = self.server("--variant", "manual", *RIGHT, "-n", 1)
        for words in (b"", b"GET / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port)) as scan:
                scan.sendall(words)
            self.assertEqual(peer.wait_for("negotiated")["outcome"], "failed")
        self.ok(run("neg", "dial", f"127.0.0.1:{port}", "--variant", "manual", *LEFT))
        self.assertEqual(self.ok(peer.finish()).event("summary")["completed"], 1)

    def test_queue_pairs_of_parleys_own_engine(self):
        programs = [("pingpong", f"transport={kind}", "size=900", "iterations=20", "check=true") for kind in ("rc", "uc", "ud")]
        programs += [("perftest", f"test={test}", "size=5000", "iterations=50") for test in ("write_bw", "read_lat", "send_bw")]
        for variant, *settings in [("verbs-rc",), ("verbs-uc",), ("verbs-ud",), ("verbs-xrc",), *programs]:
            with self.subTest((variant, *settings)):
                words = ("--variant", variant, "--roce", *(word for setting in settings for word in ("--set", setting)))
                capture = self.path("neg.pcapng")
                peer, port = self.server(*words, "-n", 1, "--metrics", self.path("metrics"), "--pcapng", capture)
                done = self.ok(run("neg", "dial", f"127.0.0.1:{port}", *words, "--json")).event("negotiated")["qps"][0]
                theirs = self.ok(peer.finish()).event("negotiated")["qps"][0]
                for name in ("qpn", "psn", "gid"):
                    self.assertEqual((done["peer"][name], theirs["peer"][name]), (theirs["local"][name], done["local"][name]))
                self.assertRegex(done["where"], r"^UDP port 4791 of ::ffff:127\.")
                if settings:
                    self.assertEqual(done["played"]["octets"] // done["played"]["messages"], int(settings[1][5:]))
                    self.assertEqual(done["played"]["checked"], "check=true" in settings)
                else:
                    self.assertTrue(done["tested"] and theirs["tested"])
                # The queue pairs' set-up is in the exchange over TCP, which the rules of RoCE's CM do not look for.
                self.assertRegex(run("pcap", "check", capture).out, r"1 TCP connection, .*RoCE.*; 0 errors, 0 warnings")

    def test_perftest_over_connections(self):
        for test in ("write_bw", "read_lat", "send_bw"):
            with self.subTest(test):
                words = ("--variant", "perftest", "--set", f"test={test}", "--set", "size=5000", "--set", "iterations=50", "--roce", "-R")
                peer, port = self.server(*words, "-n", 1)
                done = self.ok(run("neg", "dial", f"127.0.0.1:{port}", *words, "--json")).event("negotiated")["qps"][0]
                theirs = self.ok(peer.finish()).event("negotiated")["qps"][0]
                self.assertEqual(done["played"]["messages"], 50)
                self.assertEqual((done["peer"]["qpn"], theirs["peer"]["qpn"]), (theirs["local"]["qpn"], done["local"]["qpn"]))
                self.assertRegex(done["where"], "connected by rdma_cm$")
        dial = ("neg", "dial", "127.0.0.1:1", "-R", "--roce", "--variant")
        self.refused(run(*dial, "pingpong"), 2, "--rdma-cm is perftest's -R")
        self.refused(run(*dial, "perftest", "--rounds", 2), 2, "no --rounds")
        self.refused(run(*dial, "perftest", "--set", "transport=uc"), 2, "there is one queue pair, of RC")
        self.refused(run(*dial, "perftest"), 1, "there is no listener")

    def test_where_queue_pairs_come_from(self):
        listed = {variant["name"]: variant for variant in
                  self.ok(run("neg", "plugins", "verbs-rc", "--roce", "--json")).event("variant")["options"]}
        self.assertEqual(listed["driver"]["choices"], ["roce", "manual"])
        self.assertNotIn("device", listed)
        self.refused(run("neg", "dial", "127.0.0.1:1", "--provider", "iwarp"), 2, "iwarp")
        self.refused(run("neg", "dial", "127.0.0.1:1", "--roce", "--variant", "verbs-rc", "--set", "gid=192.0.2.55"), 1, "192.0.2.55")

    def test_wrong_words(self):
        for words, text in ((("--set", "qpn"), "write NAME=VALUE"), (("--set", "qpn=1", "--set", "qpn=2"), "it is set twice"),
                            (("--set", "qpn=0"), "'0' cannot be; write a number, 1 to 16777215"),
                            (("--set", "gqid=1"), "'gqid': is unknown; there are"), (("--set", "qpn=1", "--set", "gid=x"), "'gid': 'x' cannot be")):
            with self.subTest(words):
                self.refused(run("neg", "dial", "127.0.0.1:1", "--variant", "manual", *words), 2, text)
        self.refused(run("neg", "serve", "127.0.0.1", "--variant", "pingpong", "--variant", "manual"), 2, "is offered together with others")
        self.refused(run("neg", "serve", "127.0.0.1", "--set", "qpn=1"), 2, "--set is for one --variant")

    def test_a_server_that_speaks_otherwise(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            dialler = self.start("neg", "dial", f"127.0.0.1:{listener.getsockname()[1]}", "--variant", "manual", *LEFT)
            stream, _ = listener.accept()
            with stream:
                stream.recv(65536)
                stream.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                done = dialler.finish()
        self.assertEqual(done.code, 1)
        self.assertEqual(done.event("negotiated")["why"]["problem"], "protocol_violation")
        self.assertIn("'SSH-2.0-OpenSSH", done.event("negotiated")["why"]["text"])

    def test_fail_over_and_silence(self):
        _, port = self.server("--variant", "manual", *RIGHT)
        with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and says nothing
            done = self.ok(run("neg", "dial", f"127.0.0.1:{silent.getsockname()[1]}", "--backup", f"127.0.0.1:{port}", "--variant",
                               "manual", *LEFT, "--answer-timeout", "200ms", "--json"))
        self.assertEqual(done.event("retrying")["why"]["problem"], "connection_timeout")
        self.assertEqual(done.event("negotiated")["attempts"], 2)

    def test_nobody_there(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))  # not listening
            port = free.getsockname()[1]
            done = run("neg", "dial", f"127.0.0.1:{port}", "--variant", "manual", *LEFT, "--rounds", 3, "--back-off", "10ms", "--json")
        self.assertEqual(done.code, 1)
        self.assertEqual(done.event("negotiated")["attempts"], 3)
        self.assertEqual(done.event("negotiated")["why"]["problem"], "server_unreachable")

    def test_a_port_in_use(self):
        _, port = self.server("--variant", "manual", *RIGHT)
        self.refused(run("neg", "serve", f"127.0.0.1:{port}", "--variant", "manual", *RIGHT), 3, "the address is in use")

    def test_the_client_of_the_ping_pong_programs(self):
        peer, port = self.server("--variant", "pingpong", *RIGHT, "-n", 1)
        with socket.create_connection(("127.0.0.1", port)) as program:
            program.sendall(b"0000:000099:000007:00000000000000000000ffffc0000207\0")
            answer = program.recv(52, socket.MSG_WAITALL)
            program.sendall(b"done\0")
            self.assertEqual(answer, b"0000:000022:000005:00000000000000000000ffffc0000202\0")
            self.assertEqual(self.ok(peer.finish()).event("negotiated")["qps"][0]["peer"]["qpn"], 0x99)

    def test_a_capture_is_written(self):
        file = self.path("neg.pcapng")
        _, port = self.server("--variant", "manual", *RIGHT)
        self.ok(run("neg", "dial", f"127.0.0.1:{port}", "--variant", "manual", *LEFT, "--pcapng", file))
        with open(file, "rb") as capture:
            self.assertIn(b"QPng", capture.read())

    def test_plugins(self):
        lines = self.ok(run("neg", "plugins", "--json")).events
        self.assertEqual([line["variant"] for line in lines],
                         ["verbs-rc", "verbs-uc", "verbs-ud", "verbs-xrc", "manual", "pingpong", "perftest"])
        self.assertIn("data_validation", self.ok(run("neg", "plugins", "perftest")).out)
        self.refused(run("neg", "plugins", "nothing"), 2, "has no variant 'nothing'")

    def plugin(self, name):
        """One of tests/plugins."""
        path = os.path.join(os.path.dirname(PARLEY), "..", "tests", "plugins", name, name + ".so")
        if not os.path.exists(path):
            self.skipTest("the plug-ins of the tests of drivers are not built")
        return os.path.realpath(path)

    def test_a_vendors_plugin_is_loaded_by_both_sides(self):
        file = self.plugin("echo")
        _, port = self.server("--variant", "echo/hello", "--plugin", file)
        done = self.ok(run("neg", "dial", f"127.0.0.1:{port}", "--variant", "echo/hello", "--plugin-dir", os.path.dirname(file),
                           "--set", "name=left", "--history", "--json"))
        self.assertEqual(done.event("negotiated")["outcome"], "completed")
        self.assertIn("left".encode().hex(), [e["hex"] for e in done.event("negotiated")["history"]])
        self.assertIn("echo/hello", self.ok(run("neg", "plugins", "--plugin", file)).out)

    def test_a_plugin_is_checked(self):
        file = self.plugin("echo")
        self.assertEqual(self.ok(run("neg", "check-plugin", file, "--json")).event("checked_plugin")["outcome"], "completed")
        for name, text in (("no_symbol", "exports no parley_plugin_v1"), ("other_version", "has version 7"),
                           ("no_function", "'exchange' of its interface is NULL")):
            with self.subTest(name):
                self.refused(run("neg", "check-plugin", self.plugin(name)), 1, text)
        bad = run("neg", "check-plugin", self.plugin("bad_message"), "--json")
        self.assertEqual((bad.code, bad.event("checked_plugin")["why"]["problem"]), (1, "plugin_refused"))
        for name, text in (("control_characters", "the vendor's library failed: ?[31mred?x"), ("throwing", "thrown by exchange")):
            with self.subTest(name):
                bad = run("neg", "check-plugin", self.plugin(name))
                self.refused(bad, 1, "does not complete with itself")
                self.assertIn(text, bad.out)
                self.assertNotIn("\x1b", bad.out + bad.err)
        self.refused(run("neg", "check-plugin", os.path.join(SOURCE_DIR, "README.md")), 1, "invalid ELF header")
        self.refused(run("neg", "serve", "--plugin", self.plugin("no_symbol")), 3, "exports no parley_plugin_v1")
        done = self.ok(run("neg", "plugins", "--plugin-dir", os.path.dirname(self.plugin("no_symbol"))))
        self.assertIn("left out:", done.err)

    def test_a_plugin_that_hangs_or_crashes_ends_its_session_alone(self):
        file, echo = self.plugin("hanging"), ("--variant", "echo/hello")
        _, port = self.server(*echo, "--plugin", file, "--plugin-limit", "20s")
        dial = ("neg", "dial", f"127.0.0.1:{port}", *echo, "--plugin", file, "--plugin-limit", "20s", "--json")
        self.assertEqual(self.ok(run(*dial)).event("negotiated")["outcome"], "completed")
        for name, limit, text in (("blocks", "500ms", "info, round 1: the vendor's library failed: exchange() is not over after 500 ms"),
                                  ("crashes", "20s", "exchange() has ended its process: Aborted")):
            with self.subTest(name):
                self.refused(run(*dial[:-2], limit, "--json", "--set", "name=" + name), 1, text)
        self.assertEqual(self.ok(run(*dial)).event("negotiated")["outcome"], "completed", "the server goes on")
        printed = self.ok(run(*dial, "--set", "name=prints"))
        self.assertIn("printed", printed.err)
        # The server's side of it, and what its client hears.
        _, port = self.server(*echo, "--plugin", file, "--plugin-limit", "500ms", "--set", "name=blocks")
        dial = ("neg", "dial", f"127.0.0.1:{port}", *echo, "--plugin", file, "--plugin-limit", "20s", "--json")
        for _ in range(2):
            done = run(*dial)
            why = done.event("negotiated")["why"]
            self.assertEqual((done.code, why["problem"], why["by_peer"]), (1, "vendor_library_error", True), done)
            self.assertIn("exchange() is not over after 500 ms", why["text"])

    def test_a_plugin_that_fails_before_its_first_turn_is_told_to_the_server(self):
        echo = ("--variant", "echo/hello", "--plugin", self.plugin("hanging"))
        peer, port = self.server(*echo, "-n", 1)
        self.assertEqual(run("neg", "dial", f"127.0.0.1:{port}", *echo, "--set", "name=returns").code, 1)
        why = peer.wait_for("negotiated")["why"]
        self.assertEqual((why["problem"], why["by_peer"]), ("vendor_library_error", True))
        self.assertIn("info, round 1: the peer says: the vendor's library failed: error -12345", why["text"])

    def test_a_plugin_that_hangs_is_gone_when_its_server_is_killed(self):
        file = self.plugin("hanging")
        peer, port = self.server("--variant", "echo/hello", "--plugin", file, "--plugin-limit", "20s", "--set", "name=stops")
        self.start("neg", "dial", f"127.0.0.1:{port}", "--variant", "echo/hello", "--plugin", file)
        end = time.monotonic() + 10
        while not peer.err and time.monotonic() < end:
            time.sleep(0.01)
        self.assertTrue(peer.err, "the plug-in says its process")
        peer.process.kill()
        stopped = int(peer.err[0])
        while time.monotonic() < end and self.runs(stopped):
            time.sleep(0.01)
        self.assertFalse(self.runs(stopped), "20 s are over by themselves much later")

    @staticmethod
    def runs(pid):
        """Not a zombie, either."""
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                return file.read().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def test_a_check_survives_what_it_checks(self):
        file = self.plugin("hanging")
        self.ok(run("neg", "check-plugin", file))
        self.refused(run("neg", "check-plugin", file, "--set", "name=blocks", "--plugin-limit", "500ms"), 1,
                     "it is not over after 500 ms; its process was ended")
        self.refused(run("neg", "check-plugin", file, "--set", "name=crashes"), 1, "it has ended its process: Aborted")
        self.refused(run("neg", "check-plugin", file, "--set", "name=leaves"), 1, "it has ended its process: exit status 0")
        self.assertIn("the vendor's library failed: error -12345", run("neg", "check-plugin", file, "--set", "name=returns").out)
        self.refused(run("neg", "check-plugin", self.plugin("crashing")), 1, "it has ended its process: Aborted")
        self.refused(run("neg", "plugins", "--plugin", self.plugin("crashing")), 3, "loading has ended its process: Aborted")
        self.assertIn("left out:", self.ok(run("neg", "plugins", "--plugin-dir", os.path.dirname(self.plugin("crashing")))).err)


if __name__ == "__main__":
    main()
