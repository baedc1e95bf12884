# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley conform ibcm` against `parley listen --roce` over this machine's loopback."""
import os
from xml.etree import ElementTree

import cli

FAST = ("--quiet-time", "100ms", "--pause", "1ms", "--timeout", "2s")


def address(n):
    """Of this process, so that nobody else has the port there; n is 1 to 7."""
    pid = os.getpid()
    return f"127.{128 + (n << 4 | pid >> 16 & 15)}.{pid >> 8 & 255}.{pid & 255}"


class ConformIbcm(cli.CliTest):
    def peer(self, n):
        here = address(n)
        server = self.start("listen", f"{here}:7175", "--expect", 1, "--size", 16, "--roce")
        server.wait_for("listening")
        return f"{here}:7175"

    def test_parley_passes_and_the_reports_say_so(self):
        peer = self.peer(1)
        junit, html, markdown, capture = (self.path(n) for n in ("r.xml", "r.html", "r.md", "r.pcapng"))
        done = self.ok(cli.run("conform", "ibcm", peer, *FAST, "--only", "icrc,^plain,^psn,^unknown,^dreq,^sidr,^write",
                               "--destructive", "--json", "--junit", junit, "--html", html, "--markdown", markdown, "--pcapng", capture))
        verdicts = {e["name"]: e["verdict"] for e in done.events if e["event"] == "case"}
        self.assertGreater(len(verdicts), 20)
        self.assertEqual(set(verdicts.values()), {"pass"}, str(done))
        self.assertIn("gsi-bad-icrc", verdicts)
        summary = done.event("summary")
        self.assertEqual((summary["protocol"], summary["transport"]), ("ibcm", "roce"))
        suite, = ElementTree.parse(junit).getroot().findall("testsuite")
        self.assertEqual({c.get("classname") for c in suite.findall("testcase")}, {"conform.ibcm"})
        with open(html, encoding="utf-8") as file:
            self.assertIn("RoCEv2 conformance as responder", file.read())
        with open(markdown, encoding="utf-8") as file:
            self.assertIn("| 1 | plain-set-up | IBA §12.9 | MUST | pass | REP; silence after the RTU |", file.read())
        self.assertGreater(os.path.getsize(capture), 10000)

    def test_a_peer_that_connects_again_and_again(self):
        here = address(6)
        # Each connection ends with the case; a REJ ends it at once. A slow machine repeats no REQ while the REJ is on its way.
        command = f"for i in 1 2 3 4; do {cli.PARLEY} connect {here}:7175 --roce --timers spec --hold 1s --send 1; done"
        done = self.ok(cli.run("conform", "ibcm", "initiator", "--listen", f"{here}:7175", *FAST, "--run", command, "--run-limit", "0s",
                               "--only", "^plain-set-up$,^req-fields$,^rej-consumer$,^disconnect$,^first-psn$", "--json"))
        verdicts = {e["name"]: e["verdict"] for e in done.events if e["event"] == "case" and e["verdict"] != "not run"}
        self.assertEqual(verdicts, dict.fromkeys(("req-fields", "plain-set-up", "first-psn", "rej-consumer", "disconnect"), "pass"),
                         str(done))

    def test_a_played_quirk_fails_what_it_breaks(self):
        here = address(7)
        server = self.start("listen", f"{here}:7175", "--expect", 1, "--size", 16, "--roce", "--play-quirk", "rxe")
        server.wait_for("listening")
        done = cli.run("conform", "ibcm", f"{here}:7175", *FAST, "--only", "^late-req-in-timewait$,^class-version-1$,^plain-set-up$",
                       "--json")
        verdicts = {e["name"]: e["verdict"] for e in done.events if e["event"] == "case" and e["verdict"] != "not run"}
        self.assertEqual(verdicts, {"plain-set-up": "pass", "class-version-1": "fail", "late-req-in-timewait": "fail"}, str(done))

    def test_a_listener_without_room_has_the_time_that_it_asks_for(self):
        here = address(3)
        capture = self.path("full.pcapng")
        server = self.start("listen", f"{here}:7175", "--expect", 1, "--size", 16, "--roce", "--concurrency", 1,
                            "--decide-after", "2s")  # longer than a slow machine takes to start the next command
        server.wait_for("listening")
        other = self.start("connect", f"{here}:7175", "--roce", "--send", 1, "--size", 16)
        server.wait_for("connect_request")
        done = self.ok(cli.run("conform", "ibcm", f"{here}:7175", *FAST, "--only", "^plain-set-up$", "--json", "--pcapng", capture))
        self.assertEqual([e["verdict"] for e in done.events if e["event"] == "case"], ["pass"], str(done))
        self.ok(other.finish())
        ladder = self.ok(cli.run("pcap", "ladder", capture)).out
        self.assertRegex(ladder, r"(?s)\bREQ\b.*\bMRA\b.*\bREQ\b.*\bREP\b", ladder)
        self.assertGreater(server.finish(stop=True).event("summary")["turned_away"]["refused"], 0)

    def test_what_has_crashed_a_peer_is_left_out(self):
        done = cli.run("conform", "ibcm", self.peer(5), *FAST, "--only", "^write-longer-than-it-says$,^plain-set-up$", "--json")
        cases = {e["name"]: e["verdict"] for e in self.ok(done).events if e["event"] == "case"}
        self.assertEqual(cases, {"plain-set-up": "pass", "write-longer-than-it-says": "not_run"})

    def test_a_service_that_is_not_there_is_an_environment_error(self):
        host = self.peer(2).split(":", maxsplit=1)[0]
        done = cli.run("conform", "ibcm", f"{host}:7999", *FAST, "--connect-timeout", "300ms")
        self.refused(done, 3, "speaks InfiniBand's CM, but nothing could be tested")

    def test_nobody_there_is_an_environment_error(self):
        done = cli.run("conform", "ibcm", f"{address(3)}:7175", *FAST, "--connect-timeout", "300ms")
        self.refused(done, 3, "no RoCEv2 peer")

    def test_a_command_is_started_for_each_case(self):
        here = address(4)
        command = f"exec {cli.PARLEY} listen {here}:7175 --roce"
        done = self.ok(cli.run("conform", "ibcm", f"{here}:7175", *FAST, "--run", command, "--run-limit", "0s", "--only",
                               "^plain-set-up$,^disconnect$", "--json"))
        cases = [e for e in done.events if e["event"] == "case"]
        self.assertEqual([c["verdict"] for c in cases], ["pass"] * 2, str(done))

    def test_the_cases_are_listed(self):
        done = self.ok(cli.run("conform", "ibcm", "--list", "--json"))
        self.assertGreaterEqual(len(done.events), 60)
        self.refused(cli.run("conform", "ibcm"), 2, "HOST:PORT")
        self.refused(cli.run("conform", "ibcm", "--list", "--only", "("), 2, "not a valid regular expression")


if __name__ == "__main__":
    cli.main()
