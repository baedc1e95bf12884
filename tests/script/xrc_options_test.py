# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Options of `parley xrc` and `parley xrcd`, each in a way that fails if the option does nothing. --socket, --segment, --grace,
--quarantine, --members, --events, --qpn-first, --qpn-last, --device-numbers, --exclusive, --no-create, --svg, --pcapng and --processes
are in xrc_test.py, --user-share in xrc_users_test.py."""
import os
import signal
import time

import cli
from xrc_member import Member
from xrc_test import XrcTest


class Form(XrcTest):
    """Whichever form --form names is used, although everything else says the other one."""

    def setUp(self):
        super().setUp()
        self.ok(cli.run("xrc", "segment", "--segment", self.segment))
        for name, value in (("PARLEY_XRC_SEGMENT", self.segment), ("PARLEY_XRCD", self.socket)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)

    def both(self, check):
        for form, other in (("broker", "shared"), ("shared", "broker")):
            with self.subTest(form=form):
                p1 = Member(self.domain, "--form", form, "--no-start").ready()
                self.members.append(p1)
                check(form, other, p1, p1.receiver())
                p1.kill()

    def looks(self, form, *words):
        return self.ok(cli.run("xrc", *words, "--form", form, "--json")).events

    def test_ls_and_stats(self):
        def check(form, other, _, tgt):
            self.assertEqual([t["tgt"] for d in self.looks(form, "ls") for t in d["tgts"]], [tgt])
            self.assertEqual([t for d in self.looks(other, "ls") for t in d["tgts"]], [])
            self.assertEqual([self.looks(which, "stats")[0]["tgts"] for which in (form, other)], [1, 0])
        self.both(check)

    def test_watch_and_for(self):
        def check(form, other, _, tgt):
            seen = [e for e in self.looks(form, "watch", "--for", "1ms", "--interval", "1ms") if e["event"] == "created"]
            self.assertEqual([e["tgt"] for e in seen], [tgt])
            self.assertEqual(self.looks(other, "watch", "--for", "1ms", "--interval", "1ms"), [])
        self.both(check)

    def test_kill(self):
        def check(form, other, member, tgt):
            self.assertEqual(cli.run("xrc", "kill", tgt, "--form", other).code, 1)
            self.looks(form, "kill", tgt)
            self.assertEqual(member.kinds(1), ["killed"])
        self.both(check)

    def test_what_contradicts_it_is_refused(self):
        self.refused(cli.run("xrc", "ls", "--form", "shared", "--socket", self.socket), 2, "--socket")
        self.refused(cli.run("xrc", "member", self.domain, "--form", "broker", "--segment", self.segment), 2, "--segment")
        self.refused(cli.run("xrc", "ls", "--form", "other"), 2, "other")


class Rules:
    """For who makes the registry, in both forms."""

    def test_error_grace(self):
        self.start_anew("--error-grace", "50ms")
        p1 = self.member()
        tgt = p1.receiver()
        self.assertEqual(p1.said(f"report {tgt} fatal"), "ok")
        self.gone(tgt)  # 60 s are the standard
        self.assertEqual(p1.said(f"unregister {tgt}"), "gone")

    def test_linger(self):
        self.start_anew("--linger", "20s")
        p1, p2 = self.member(), self.member()
        tgt = p1.receiver()
        self.assertEqual(p1.said(f"unregister {tgt}"), "ok")
        self.assertEqual(self.overview()[tgt]["state"], "linger")
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        self.assertEqual(self.overview()[tgt]["state"], "rtr")


class RulesOfTheBroker(Rules, XrcTest):
    pass


class RulesInMemory(Rules, XrcTest):
    shared = True


class OfTheBroker(XrcTest):
    def test_idle(self):
        broker = self.start("xrcd", "--socket", self.path("idle"), "--idle", "50ms")
        broker.wait_for("listening")
        self.ok(broker.finish())
        self.assertFalse(os.path.exists(self.path("idle")))

    def test_recovery(self):
        for recovery, kinds in (("1ms", ["ended"]), ("20s", [])):
            p1 = self.member()
            tgt = p1.receiver()
            p1.signal(signal.SIGSTOP)
            self.stop_broker()
            self.broker = self.start("xrcd", "--socket", self.socket, "--recovery", recovery)
            self.broker.wait_for("listening")
            self.until(lambda: self.stats()["members"] == 0, "nobody is there yet")
            time.sleep(0.05)
            p1.signal(signal.SIGCONT)
            self.assertEqual(p1.said(f"query {tgt}"), "gone" if kinds else "ok")
            self.assertEqual(p1.kinds(len(kinds)), kinds)
            p1.kill()

    def test_start_and_no_start(self):
        self.stop_broker(signal.SIGTERM)
        self.refused(self.refused_member(self.domain), 3, "no_broker: ", f"(socket {self.socket})")
        self.assertFalse(os.path.exists(self.socket))
        started = Member(self.domain, "--socket", self.socket).ready()
        self.members.append(started)
        self.assertTrue(os.path.exists(self.socket))

    def test_interval(self):
        begin = time.monotonic()
        self.ok(self.xrc("watch", "--interval", "1500ms", "--for", "1400ms"))
        self.assertGreater(time.monotonic() - begin, 1.5)


class Demo(cli.CliTest):
    def exchanges(self, *args):
        done = cli.run("xrc", "demo", "--json", "--processes", 2, *args)
        self.ok(done)
        return [e for e in done.events if e["event"] == "exchange"]

    def test_nodes_and_transport(self):
        (exchange,) = self.exchanges("--nodes", 4, "--transport", "rc")
        self.assertEqual((exchange["transport"], exchange["nodes"], exchange["rc"]), ("rc", 4, 2 * 2 * 3))
        self.assertEqual([e["transport"] for e in self.exchanges("--transport", "both", "--nodes", 2)], ["xrc", "rc"])
        self.assertEqual([e["transport"] for e in self.exchanges("--transport", "xrc", "--nodes", 2)], ["xrc"])

    def test_sockets_and_timeout(self):
        place = ("--transport", "xrc", "--nodes", 2)
        (simulated,), (real,) = self.exchanges(*place), self.exchanges(*place, "--sockets")
        self.assertNotEqual(simulated["engine"], real["engine"])
        for counted in ("ini", "tgt", "rc", "handles", "received"):  # row 37
            self.assertEqual(simulated[counted], real[counted])
        self.refused(cli.run("xrc", "demo", *place, "--sockets", "--timeout", "1us"), 1, "time")

    def test_seed(self):
        def frames(seed):
            path = self.path(f"{seed}.pcapng")
            self.exchanges("--transport", "xrc", "--nodes", 2, "--seed", seed, "--pcapng", path)
            with open(path, "rb") as file:
                return file.read()
        self.assertEqual(frames(7), frames("0x7"))
        self.assertNotEqual(frames(7), frames(8))


if __name__ == "__main__":
    cli.main()
