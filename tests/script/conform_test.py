# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley conform` as a user runs it: against Parley itself over loopback, in both roles, and against odd peers."""
import json
import os
import socket
import threading
import unittest

import cli

# Cases that wait for the peer's timers are the simulator's business: here they would only take time.
QUICK = ("^plain-v1$,^reserved,^bad-key,^v2-client,^write-rtr,^rdmap-version,^bad-crc$,^read-bad-stag,^zero-read,"
         "^markers")


class OddPeer:
    """Accepts connections and treats each with `serve(socket)`."""

    def __init__(self, serve):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.serve = serve
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            try:
                peer, _ = self.socket.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(peer,), daemon=True).start()

    def _one(self, peer):
        try:
            self.serve(peer)
        except OSError:
            pass
        peer.close()

    def close(self):
        self.socket.close()


class ConformTest(cli.CliTest):
    def verdicts(self, finished):
        return {e["name"]: e["verdict"] for e in finished.events if e["event"] == "case"}

    def test_parley_passes_as_responder(self):
        _, port = self.listener("--expect", 1, "--size", 16)
        junit, html, markdown, capture = (self.path(n) for n in ("r.xml", "r.html", "r.md", "r.pcapng"))
        done = self.ok(cli.run("conform", "responder", f"127.0.0.1:{port}", "--only", QUICK, "--recv-size", 16,
                               "--recv-count", 1, "--pause", "10ms", "--json", "--junit", junit, "--html", html,
                               "--markdown", markdown,
                               "--pcapng", capture))
        verdicts = self.verdicts(done)
        self.assertEqual(verdicts["plain-v1"], "pass")
        self.assertEqual(verdicts["bad-crc"], "pass")
        self.assertNotIn("fail", verdicts.values())
        self.assertEqual(done.event("summary")["failed"], 0)
        with open(junit, encoding="utf-8") as file:
            self.assertIn('name="plain-v1"', file.read())
        with open(html, encoding="utf-8") as file:
            self.assertIn("MPA ID Req Frame", file.read())
        with open(markdown, encoding="utf-8") as file:
            self.assertIn("| 1 | plain-v1 | RFC 5044 §7.1.1 | MUST | pass | Rep 40/01/0000 |", file.read())
        self.assertGreater(os.path.getsize(capture), 1000)

    def test_parley_passes_as_rping_server(self):
        _, port = self.rping_server("-P")
        self.ok(cli.run("conform", "responder", f"127.0.0.1:{port}", "--ulp", "rping", "--only",
                        "^write-,^message-too-long,^qn,^msn-2,^half-close", "--pause", "10ms"))

    def test_parley_passes_as_initiator(self):
        tester = self.start("conform", "initiator", "--listen", "127.0.0.1:0", "--ulp", "rping", "--only",
                            "^crc-by-default,^bad-key,^rdmap-version,^read-bad-stag,^write-out,^rejected", "--pause",
                            "10ms")
        port = tester.wait_for("listening")["port"]
        for _ in range(6):
            cli.run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1, "--timeout", "10s")
        done = self.ok(tester.finish())
        verdicts = self.verdicts(done)
        self.assertEqual(len(verdicts), 6)
        self.assertEqual(set(verdicts.values()), {"pass"}, str(done))

    def test_a_command_is_started_for_each_case(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = f"exec {cli.PARLEY} connect 127.0.0.1:{port} --rtr write --hold 5s"
        done = self.ok(cli.run("conform", "initiator", "--listen", f"127.0.0.1:{port}", "--run", command,
                               "--run-limit", "0s", "--only", "^rtr-first,^rdmap-version,^reply-without-a$", "--json"))
        cases = [e for e in done.events if e["event"] == "case"]
        self.assertEqual([c["verdict"] for c in cases], ["pass"] * 3, str(done))

    def test_a_peer_that_plays_siw_fails_where_siw_does(self):
        _, port = self.listener("--play-quirk", "siw")
        done = cli.run("conform", "responder", f"127.0.0.1:{port}", "--only", QUICK, "--pause", "10ms", "--json")
        self.assertEqual(done.code, 1, str(done))
        verdicts = self.verdicts(done)
        for name in ("reserved-bits-ignored", "markers-asked", "markers-asked-v1"):
            self.assertEqual(verdicts[name], "fail", name)
        for name in ("plain-v1", "bad-key-closes", "v2-client-server", "write-rtr-stag-0"):
            self.assertEqual(verdicts[name], "pass", name)

    def test_odd_peers_end_each_case_and_the_run(self):
        def garbage(peer):
            while peer.recv(65536):
                peer.sendall(b"\xff" * 100000)

        for serve in (lambda peer: None, garbage, lambda peer: peer.recv(1)):
            peer = OddPeer(serve)
            self.addCleanup(peer.close)
            done = cli.run("conform", "responder", f"127.0.0.1:{peer.port}", "--only", "^plain,^bad-crc$,^pd",
                           "--pause", "1ms", "--timeout", "300ms", "--json")
            self.assertIn(done.code, (0, 1), str(done))
            self.assertEqual(done.event("summary")["command"], "conform")

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        done = cli.run("conform", "responder", f"127.0.0.1:{port}", "--connect-timeout", "400ms", "--pause", "1ms",
                       "--json")
        self.assertEqual(done.code, 3, str(done))
        self.assertEqual(sum(v == "inconclusive" for v in self.verdicts(done).values()), 3)
        self.assertIn("never reached", done.err)

    def test_usage(self):
        self.refused(cli.run("conform", "responder"), 2, "HOST:PORT")
        self.refused(cli.run("conform", "initiator"), 2, "--listen")
        self.refused(cli.run("conform", "responder", "localhost:1", "--only", "("), 2, "--only")
        self.refused(cli.run("conform", "responder", "localhost:1", "--ulp", "nfs"), 2, "rping")
        self.assertEqual(cli.run("conform").code, 2)

    def test_list(self):
        for role in ("responder", "initiator"):
            done = self.ok(cli.run("conform", role, "--list", "--json"))
            rows = {e["row"] for e in done.events}
            self.assertIn("30", rows)
            self.assertTrue(all(e["clause"] and e["level"] in ("MUST", "SHOULD", "MAY") for e in done.events))
        text = self.ok(cli.run("conform", "initiator", "--list", "--only", "^reply-private")).out
        self.assertIn("destructive", text)
        json.dumps(text)


if __name__ == "__main__":
    cli.main()
