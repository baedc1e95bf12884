# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley conform` as a user runs it: against Parley itself over loopback, in both roles, and against odd peers."""
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import socket
import sys
import threading
import time
import unittest
from unittest import mock
from xml.etree import ElementTree

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
        done = self.ok(cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--only", QUICK, "--recv-size", 16,
                               "--recv-count", 1, "--pause", "10ms", "--json", "--junit", junit, "--html", html,
                               "--markdown", markdown,
                               "--pcapng", capture))
        verdicts = self.verdicts(done)
        self.assertEqual(verdicts["plain-v1"], "pass")
        self.assertEqual(verdicts["bad-crc"], "pass")
        self.assertNotIn("fail", verdicts.values())
        self.assertEqual(done.event("summary")["failed"], 0)
        suite, = ElementTree.parse(junit).getroot().findall("testsuite")
        cases = {c.get("name"): c for c in suite.findall("testcase")}
        self.assertEqual(set(cases), set(verdicts) | {n for n, c in cases.items() if c.find("skipped") is not None})
        self.assertEqual(len(cases), len(suite.findall("testcase")), "one for each case")
        self.assertEqual({c.get("classname") for c in cases.values()}, {"conform.mpa.responder"})
        self.assertEqual(int(suite.get("tests")), len(cases))
        for name, verdict in verdicts.items():
            self.assertEqual(cases[name].find("skipped") is not None, verdict in ("inconclusive", "not_run"), name)
        with open(html, encoding="utf-8") as file:
            self.assertIn("MPA ID Req Frame", file.read())
        with open(markdown, encoding="utf-8") as file:
            self.assertIn("| 1 | plain-v1 | RFC 5044 §7.1.1 | MUST | pass | Rep 40/01/0000 |", file.read())
        self.assertGreater(os.path.getsize(capture), 1000)

    def test_that_no_case_came_to_a_verdict_is_no_pass(self):
        _, port = self.listener()
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--only", "^rtr-lost$")  # needs --destructive
        self.refused(done, 1, "no case reached a verdict")

    def test_parley_passes_as_rping_server(self):
        _, port = self.rping_server("-P")
        self.ok(cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--ulp", "rping", "--only",
                        "^write-,^message-too-long,^qn,^msn-2,^half-close", "--pause", "10ms"))

    def test_parley_passes_as_initiator(self):
        tester = self.start("conform", "mpa", "initiator", "--listen", "127.0.0.1:0", "--ulp", "rping", "--only",
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
        done = self.ok(cli.run("conform", "mpa", "initiator", "--listen", f"127.0.0.1:{port}", "--run", command,
                               "--run-limit", "0s", "--only", "^rtr-first,^rdmap-version,^reply-without-a$", "--json"))
        cases = [e for e in done.events if e["event"] == "case"]
        self.assertEqual([c["verdict"] for c in cases], ["pass"] * 3, str(done))

    def test_the_command_is_told_the_case(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        done = cli.run("conform", "mpa", "initiator", "--listen", f"127.0.0.1:{port}", "--run", "echo for $PARLEY_CASE",
                       "--run-limit", "5s", "--only", "^crc-by-default,^silent-before", "--patience", "300ms", "--json")
        for event in done.events:
            if event["event"] == "case":
                self.assertIn(f"for {event['name']}\n", event["output"])

    def test_an_agreed_indication_is_sent_before_the_connection_is_left(self):
        came = []

        def agrees(peer):
            request = peer.recv(24)
            peer.sendall(b"MPA ID Rep Frame" + bytes([0x50, 2, 0, 4]) + self.reply_words)
            peer.settimeout(10)
            after = b""
            while (more := peer.recv(4096)):
                after += more
            came.append((request[20:].hex(), after))

        peer = OddPeer(agrees)
        self.addCleanup(peer.close)
        # RDMA Write, Read Request or Send of no octets is what the Reply names; behind it may be a Read that is to be answered.
        for words, first in (("8008c008", "000ec140"), ("80084008", "002e4141"), ("c0080008", "00124143")):
            self.reply_words = bytes.fromhex(words)
            came.clear()
            cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^a-alone$", "--timeout", "300ms",
                    "--quiet-time", "100ms", "--pause", "300ms", "--json")
            agreed = [after for request, after in came if request == "80080008"]
            self.assertEqual([after[:4].hex() for after in agreed], [first], words)
        # IRD 0 and a Read: no indication can be sent that the peer has room for.
        self.reply_words = bytes.fromhex("80004008")
        came.clear()
        cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^a-alone$", "--timeout", "300ms", "--quiet-time",
                "100ms", "--pause", "300ms", "--json")
        self.assertEqual([after for request, after in came if request == "80080008"], [b""])

    def test_a_peer_that_plays_siw_fails_where_siw_does(self):
        _, port = self.listener("--play-quirk", "siw")
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--only", QUICK, "--pause", "10ms", "--json")
        self.assertEqual(done.code, 1, str(done))
        verdicts = self.verdicts(done)
        for name in ("reserved-bits-ignored", "markers-asked", "markers-asked-v1"):
            self.assertEqual(verdicts[name], "fail", name)
        for name in ("plain-v1", "bad-key-closes", "v2-client-server", "write-rtr-stag-0"):
            self.assertEqual(verdicts[name], "pass", name)
        text = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--only", "^reserved-bits,^plain-v1$",
                          "--pause", "10ms").out
        told = text.partition("FAIL reserved-bits-ignored (RFC 5044 §7.1.1, MUST)")[2]
        self.assertIn("expected  accepted; reserved bits of the Reply 0", told, text)
        self.assertIn("1 passed, 1 failed", told, text)

    def test_odd_peers_end_each_case_and_the_run(self):
        def garbage(peer):
            while peer.recv(65536):
                peer.sendall(b"\xff" * 100000)

        for serve in (lambda peer: None, garbage, lambda peer: peer.recv(1)):
            peer = OddPeer(serve)
            self.addCleanup(peer.close)
            done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^plain,^bad-crc$,^pd",
                           "--pause", "1ms", "--timeout", "300ms", "--json")
            self.assertEqual(done.code, 3, str(done))
            self.assertEqual(done.event("summary")["command"], "conform")
            self.assertIn(f"127.0.0.1:{peer.port} spoke MPA", done.err)

    def test_what_is_no_mpa_is_not_judged_and_told(self):
        def http(peer):
            peer.recv(65536)
            peer.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        def echo(peer):
            while data := peer.recv(65536):
                peer.sendall(data)

        for serve, words in ((http, "48 54 54 50"), (echo, "MPA ID Req Frame"), (lambda peer: None, "and not one octet")):
            peer = OddPeer(serve)
            self.addCleanup(peer.close)
            done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--pause", "1ms", "--timeout", "300ms",
                           "--timer", "1s", "--json")
            self.assertEqual(set(self.verdicts(done).values()), {"inconclusive", "not_run"}, str(done))
            self.refused(done, 3, "nothing that answered at 127.0.0.1", "spoke MPA", words)

    def test_what_rejects_everything_speaks_mpa(self):
        _, port = self.listener("--reject", "--count", 0)
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--only", "^plain,^bad-key", "--pause", "1ms")
        self.refused(done, 3, "speaks MPA but accepted no Request")

    def test_a_signal_ends_the_case_that_runs_and_reports_are_written(self):
        heard = threading.Event()

        def silent(peer):
            peer.recv(65536)
            heard.set()
            while peer.recv(65536):
                pass

        peer = OddPeer(silent)
        self.addCleanup(peer.close)
        files = [self.path(n) for n in ("r.xml", "r.html", "r.md", "r.pcapng")]
        tester = self.start("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^half-request-times-out,^plain",
                            "--timeout", "1h", "--junit", files[0], "--html", files[1], "--markdown", files[2],
                            "--pcapng", files[3])
        self.assertTrue(heard.wait(cli.LIMIT))
        done = tester.finish(stop=True)
        cases = {e["name"]: (e["verdict"], e["observed"]) for e in done.events if e["event"] == "case"}
        self.assertEqual(cases["plain-v1"], ("not_run", "interrupted"))
        self.assertEqual(cases["half-request-times-out"][0], "not_run")
        self.assertEqual(done.event("summary")["failed"], 0)
        self.assertTrue(done.event("summary")["interrupted"])
        self.refused(done, 1, "interrupted", "partial")
        for file in files:
            self.assertGreater(os.path.getsize(file), 100, file)
        for file in files[1:3]:
            with open(file, encoding="utf-8") as report:
                self.assertIn("partial", report.read(), file)

    def test_outputs_are_proven_writable_before_the_first_case(self):
        peer = OddPeer(lambda stream: self.fail("a case was run"))
        self.addCleanup(peer.close)
        target = f"127.0.0.1:{peer.port}"
        for option in ("--junit", "--html", "--markdown", "--pcapng"):
            for where in (self.path("none/there"), self.directory):
                self.refused(cli.run("conform", "mpa", "responder", target, option, where), 3, "cannot create", where)
            same = self.path("same")
            other = "--html" if option != "--html" else "--junit"
            self.refused(cli.run("conform", "mpa", "responder", target, option, same, other,
                                 os.path.join(self.directory, ".", "same")), 2, option, other)
        self.assertEqual(os.listdir(self.directory), [], "nothing is left of a run that did not begin")

    def test_the_output_of_the_command_is_kept_where_temporary_files_belong(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        with mock.patch.dict(os.environ, {"TMPDIR": self.directory}):
            done = cli.run("conform", "mpa", "initiator", "--listen", f"127.0.0.1:{port}", "--run",
                           "readlink /proc/self/fd/1 >&2", "--run-limit", "5s", "--only", "^crc-by-default",
                           "--patience", "300ms", "--json")
        # A file system without unnamed files gives none at all, and no output then.
        output = [e.get("output", "") for e in done.events if e["event"] == "case"][0]
        self.assertNotIn("/tmp/#", output)

    def lab(self):
        path = os.path.join(cli.SOURCE_DIR, "tests", "interop", "conform")
        with mock.patch.object(sys, "dont_write_bytecode", True):
            loader = importlib.machinery.SourceFileLoader("lab_conform", path)
            lab = importlib.util.module_from_spec(importlib.util.spec_from_loader("lab_conform", loader))
            loader.exec_module(lab)
        return lab

    def test_the_lab_takes_nothing_for_the_page(self):
        lab = self.lab()
        run, title = lab.RUNS[0], lab.RUNS[0].title
        result = {"status": 0, "error": None, "verdicts": {"plain-v1": "pass"}}
        self.assertIn("no report", lab.judge(run, {**result, "verdicts": {}}, {}, {}))
        self.assertIn("exit status 2", lab.judge(run, {**result, "status": 2}, {}, {}))
        self.assertIn("not carried out", lab.judge(run, lab.Outcome([]).result, {}, {}))
        self.assertIn("no section", lab.judge(run, result, {}, {}))
        self.assertIn("plain-v1: pass, on the page FAIL", lab.judge(run, result, {}, {title: {"plain-v1": "FAIL"}}))
        self.assertIn("plain-v1: not on the page", lab.judge(run, result, {}, {title: {"crc-off": "pass"}}))
        self.assertIn("crc-off: no such case", lab.judge(run, result, {}, {title: {"crc-off": "pass"}}))
        self.assertEqual("", lab.judge(run, result, {}, {title: {"plain-v1": "pass"}}))

    def test_the_lab_sees_a_kernel_die_and_forgives_only_what_the_page_shows(self):
        lab = self.lab()
        console = ("conform: case a\nconform: case b\r\n[   53.91] kernel BUG at drivers/infiniband/core/iwcm.c:969!\r\n"
                   "[   53.92] RIP: 0010:cm_work_handler+0xa8f/0xe20 [iw_cm]\nconform: case c\n")
        words = "kernel BUG at drivers/infiniband/core/iwcm.c:969! in cm_work_handler [iw_cm]"
        self.assertEqual(lab.stage.death(console), (words, "b"))
        self.assertIsNone(lab.stage.death("conform: case a\n[ 22.1] watchdog: BUG: soft lockup - CPU#0 stuck for 22s!\n"))
        outcome = lab.Outcome(["a", "b", "c", "d"])
        # What is answered after the death, nobody of the peer's answers; what is left is asked at the next boot.
        outcome.take({"stem": "x", "verdicts": {"a": "pass", "b": "pass", "c": "inconclusive", "d": "not run"}, "changed": {},
                      "seconds": 1, "status": 0, "error": "dead", "again": []}, (words, "b"), pathlib.Path(self.directory))
        self.assertEqual((outcome.result["verdicts"], outcome.left), ({"a": "pass", "b": "CRASH"}, ["c", "d"]))
        self.assertFalse(outcome.done())
        outcome.take({"stem": "x", "verdicts": {"c": "pass", "d": "FAIL"}, "changed": {}, "seconds": 1, "status": 1,
                      "error": None, "again": []}, ("", None), pathlib.Path(self.directory))
        self.assertTrue(outcome.done())
        run, last = lab.RUNS[0], {"a": "pass", "c": "pass", "d": "FAIL"}
        self.assertIn(f"b: guest b died: {words}", lab.judge(run, outcome.result, outcome.crashes, {run.title: last}))
        self.assertIn("b: guest b died",
                      lab.judge(run, outcome.result, outcome.crashes, {run.title: {**last, "b": "pass"}}))
        self.assertEqual("", lab.judge(run, outcome.result, outcome.crashes, {run.title: {**last, "b": "CRASH"}}))
        survived = {**outcome.result, "verdicts": {**last, "b": "FAIL"}}
        self.assertIn("b: FAIL, on the page CRASH", lab.judge(run, survived, {}, {run.title: {**last, "b": "CRASH"}}))

    def test_the_lab_names_cases_within_what_only_takes(self):
        chunks = self.lab().verdicts.__globals__["chunks"]
        names = [f"case-{i:04}" for i in range(300)]
        pieces = list(chunks(names))
        self.assertGreater(len(pieces), 1)
        self.assertTrue(all(len(piece) <= 1000 for piece in pieces))
        self.assertEqual([name for piece in pieces for name in piece[2:-2].split("|")], names)

    def test_a_command_of_the_shell_is_gone_before_the_next_case(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        # Without exec the shell waits for the program, and is the one that is told to end.
        command = f"{cli.PARLEY} listen 127.0.0.1:{port} --expect 1 --size 16; true"
        done = self.ok(cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--run", command, "--run-limit", "1s", "--only",
                               "^plain-v1$,^bad-key,^v2-client,^rdmap-version", "--recv-size", 16, "--json"))
        self.assertEqual(list(self.verdicts(done).values()).count("pass"), 4, str(done))

    def test_a_peer_that_dies_ends_the_run_as_one_that_is_not_there(self):
        peer = OddPeer(lambda stream: peer.close())
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^plain,^bad-key,^crc,^reserved,^revision",
                       "--connect-timeout", "300ms", "--pause", "1ms", "--timeout", "200ms", "--json")
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("the peer was not there", done.err)

    def test_nobody_there(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--connect-timeout", "400ms", "--pause", "1ms",
                       "--json")
        self.assertEqual(done.code, 3, str(done))
        self.assertEqual(sum(v == "inconclusive" for v in self.verdicts(done).values()), 1)
        self.assertIn("never reached", done.err)
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{port}", "--connect-timeout", "400ms")
        self.assertEqual(done.code, 3, str(done))
        first, *rest = cli.body(done.out).splitlines()
        self.assertEqual(first, f"no peer at 127.0.0.1:{port}: the responder takes no TCP connection: Connection refused")
        self.assertEqual(len(rest), 1, done.out)  # the tally

    def test_usage(self):
        self.refused(cli.run("conform", "mpa", "responder"), 2, "HOST:PORT")
        self.refused(cli.run("conform", "mpa", "initiator"), 2, "--listen")
        self.refused(cli.run("conform", "mpa", "responder", "localhost:1", "--only", "("), 2, "--only")
        self.refused(cli.run("conform", "mpa", "responder", "localhost:1", "--ulp", "nfs"), 2, "rping")
        self.refused(cli.run("conform", "mpa", "responder", "localhost:1", "--only", "x" * 1001), 2, "--only", "1000")
        self.refused(cli.run("conform", "mpa", "responder", "localhost:1", "--only", "nosuch"), 2, "no case")
        self.assertEqual(cli.run("conform").code, 2)

    def test_all_names_can_be_written_out(self):
        names = [e["name"] for e in cli.run("conform", "mpa", "responder", "--list", "--json").events if "name" in e]
        done = self.ok(cli.run("conform", "mpa", "responder", "--list", "--json", "--only", ",".join(names)))
        self.assertEqual([e["name"] for e in done.events if "name" in e], names)
        self.refused(cli.run("conform", "mpa", "responder", "localhost:1", "--only", "x," * 5001), 2, "10000")

    def test_a_program_of_one_connection_is_not_called_foreign(self):
        def serve(sock):
            peer.close()
            sock.recv(100)

        peer = OddPeer(serve)
        done = cli.run("conform", "mpa", "responder", f"127.0.0.1:{peer.port}", "--only", "^bad-key-closes$", "--connect-timeout", "300ms")
        self.refused(done, 3, "accepted no further connection", "--run")

    def test_no_expression_brings_it_down(self):
        for hostile in ("(" * 100000, "(" * 1000, "(" * 500 + ")" * 500, "(" * 100 + ")" * 100, "[" * 1000,
                        "(a*)*" * 100 + "z", "(.*)*" * 100, "(a|a)*" * 100 + "$", "((.{99}){99}){99}", "(.{90}){90}" * 90,
                        "|" * 1000, "(" * 100 + "a" + ")*" * 100, ".*" * 499 + "z", "\\" * 999):
            with self.subTest(hostile[:20]):
                done = cli.run("conform", "mpa", "responder", "--list", "--only", hostile)  # no longer than LIMIT
                self.assertIn(done.code, (0, 2), str(done)[:500])

    def test_list(self):
        for role in ("responder", "initiator"):
            done = self.ok(cli.run("conform", "mpa", role, "--list", "--json"))
            rows = {e["row"] for e in done.events}
            self.assertIn("30", rows)
            self.assertTrue(all(e["rule"] and e["level"] in ("MUST", "SHOULD", "MAY") for e in done.events))
        text = self.ok(cli.run("conform", "mpa", "initiator", "--list", "--only", "^reply-private")).out
        self.assertIn("destructive", text)
        json.dumps(text)


if __name__ == "__main__":
    cli.main()
