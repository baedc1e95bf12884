# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""XRC's broker is killed at each system call of a piece of its work, one after the other, and another one takes over: what its members
asked for has happened once, and each knows what the others know. Row 28 of docs/xrc.md. A regular run takes every Nth point,
PARLEY_EVERY_POINT=1 all of them."""
import os
import signal
import subprocess
import sys
import threading
import unittest

import cli
from xrc_member import Member
from xrc_test import XrcTest

EVERY = 1 if os.environ.get("PARLEY_EVERY_POINT") else 32
# Members have to come back within the recovery, on a machine that does other things too.
OPTIONS = ("--grace", "400ms", "--recovery", "500ms", "--quarantine", "1s")
BESIDE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "killed_at.py")


class Points(XrcTest):
    def start_broker(self, *options):
        self.broker = self.start("xrcd", "--socket", self.socket, *OPTIONS, *options)
        return self.broker.wait_for("listening")

    def traced(self, point):
        """A broker that dies there, and one that follows it."""
        doomed = subprocess.Popen([sys.executable, "-B", BESIDE, str(point), cli.PARLEY, "xrcd", "--socket", self.socket, *OPTIONS],
                                  stdout=subprocess.DEVNULL)

        def follow():
            if doomed.wait() == 3:
                self.untraceable = True
            self.start_broker()
        thread = threading.Thread(target=follow)
        thread.start()

        def end():
            """True: it had been killed at the point."""
            reached = doomed.poll() is not None
            doomed.kill()
            thread.join()
            return reached
        return end

    def play(self, p1, p2, peer):
        """Two share a queue pair, it fails, both are told, one lets go; and one ends with its only user. Both names."""
        tgt = p1.say(f"create {peer}")["tgt"]
        self.assertEqual(p1.said(f"modify {tgt} init 1"), "ok")
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        self.assertEqual(p2.said(f"modify {tgt} rtr 2"), "ok")
        self.assertEqual(p1.said(f"srq {peer}"), "ok")
        ended = p2.say("create")["tgt"]
        self.assertEqual(p2.said(f"report {tgt} access_error"), "ok")
        for member in (p1, p2):
            self.until(lambda m=member: [e for e in m.told if e["tgt"] == tgt], "nobody said that it failed")
        self.assertEqual(p2.said(f"unregister {ended}"), "ok")
        self.assertEqual(p1.said(f"unregister {tgt}"), "ok")
        return tgt, ended

    def check(self, p1, p2, tgt, ended):
        """Whichever broker there is now."""
        seen = p2.say(f"query {tgt}")
        self.assertEqual((seen["said"], seen.get("state")), ("ok", "error"))
        self.assertEqual(p1.said(f"register {ended}"), "gone")
        self.assertEqual(p1.said(f"unregister {tgt}"), "not_registered")
        self.assertEqual(self.registrants(tgt), [p2.pid])
        self.assertEqual(p2.said(f"unregister {tgt}"), "ok")
        self.until(lambda: self.overview() == {}, "what nobody is registered with is there after the recovery")
        for member in (p1, p2):
            self.assertEqual([e["kind"] for e in member.told if e["tgt"] == tgt], ["access_error"])

    def test_row_28_killed_at_each_system_call(self):
        p1, p2 = self.member(), self.member()
        self.untraceable = False
        point = 1
        while True:
            self.stop_broker(signal.SIGKILL)
            end = self.traced(point)
            try:
                names = self.play(p1, p2, point + 10)
            except BaseException:
                print(f"point {point}")
                raise
            finally:
                reached = end()
            self.check(p1, p2, *names)
            self.assertEqual(p1.said(f"no-srq {point + 10}"), "ok")  # or each round would be longer than the one before
            if self.untraceable:
                raise unittest.SkipTest("no process can be traced here")
            if not reached:
                break
            point += EVERY
        self.assertGreater(point, 100, "the points were not those of its work")
        print(f"{point // EVERY} points of {point}")
        for member in (p1, p2):
            member.leave()
        self.until(lambda: self.stats()["members"] == 0, "dead members are there")


if __name__ == "__main__":
    cli.main()
