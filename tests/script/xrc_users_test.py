# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""XRC's broker keeps users apart: nobody takes another user's TGT queue pairs, numbers or room, and what lies in its way is named.
Nothing is lost where it cannot write. Some of it needs root, who can be another user and mount a small file system."""
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import unittest

import cli
from xrc_member import ASKS, CREATE, Raw, start_of
from xrc_test import XrcTest

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534
NOT_PERMITTED, NO_MEMORY = 16, 11
SHARES = {"connections": 30, "domains": 31, "tgts": 32, "registrations": 33, "srqs": 34, "queue_pairs": 35}
IS_ROOT = os.geteuid() == 0

HEAD = """
import os, sys, time
from xrc_member import CREATE, Raw, start_of
start = start_of(os.getpid())
os.setgid(65534)
os.setuid(65534)
"""
# Speaks to the next broker as soon as it listens, before the members of the last one may have.
THIEF = HEAD + """
raw = Raw(sys.argv[1])
raw.join(start=start)
print("ready", flush=True)
while raw.answer() is not None:
    pass
end = time.monotonic() + 20
while time.monotonic() < end:
    try:
        raw = Raw(sys.argv[1])
        if raw.join(start=start) is not None:
            break
    except OSError:
        time.sleep(0.0001)
assert raw.ask("open", flags=CREATE)["refusal"] == 0  # a private domain
tgt = (int(sys.argv[2]), int(sys.argv[3]))
print(raw.ask("restore", tgt=tgt, state=3, value=int(sys.argv[4]))["refusal"], raw.ask("other", other=tgt[0])["refusal"], flush=True)
time.sleep(60)
"""
# Takes as much as it gets.
HOG = HEAD + """
kept = []
def joined():
    raw = Raw(sys.argv[1])
    said = raw.join(start=start)
    kept.append(raw)
    return raw, said["refusal"]
def until_refused(what):
    for count in range(100000):
        refusal = what(count)
        if refusal:
            return f"{count} {refusal}"
raw, _ = joined()
raw.ask("open", flags=CREATE)
print(until_refused(lambda n: raw.ask("create")["refusal"]))
print(until_refused(lambda n: raw.ask("srq", other=n + 1)["refusal"]))
print(until_refused(lambda n: raw.ask("other", other=n + 1)["refusal"]))
def another(n):
    other, refusal = joined()
    return refusal or other.ask("open", flags=CREATE)["refusal"]
print(until_refused(another))
print(until_refused(lambda n: joined()[1]), flush=True)
time.sleep(60)
"""


class UsersTest(XrcTest):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)

    def child(self, text, *words):
        process = subprocess.Popen([sys.executable, "-B", "-c", text, *map(str, words)], cwd=HERE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (process.kill(), process.wait(), process.stdout.close()))
        return process

    def line(self, process):
        return process.stdout.readline().strip()


def name_of(tgt):
    number, generation = tgt.split("@")
    epoch, which = generation.split(".")
    return int(number), (int(epoch) << 32) + int(which)


@unittest.skipUnless(IS_ROOT, "only root can be another user as well")
class Users(UsersTest):
    def test_nobody_declares_what_another_user_had(self):
        owner = self.member()
        tgt = owner.receiver()
        thief = self.child(THIEF, self.socket, *name_of(tgt), 0)
        self.assertEqual(self.line(thief), "ready")
        owner.signal(signal.SIGSTOP)
        self.stop_broker()
        self.start_registry()
        self.assertEqual(self.line(thief), f"{NOT_PERMITTED} 0")
        owner.signal(signal.SIGCONT)
        self.assertEqual(owner.said(f"query {tgt}"), "ok")  # although its number was claimed
        self.assertEqual(self.registrants(tgt), [owner.pid])
        self.assertEqual(owner.kinds(), [])

    def test_one_user_leaves_room_for_others(self):
        self.start_anew("--user-share", 1)
        hog = self.child(HOG, self.socket)
        self.assertEqual(self.line(hog), f"655 {SHARES['tgts']}")
        self.assertEqual(self.line(hog), f"655 {SHARES['srqs']}")
        self.assertEqual(self.line(hog), f"655 {SHARES['queue_pairs']}")
        self.assertEqual(self.line(hog), f"39 {SHARES['domains']}")
        self.assertIn(f" {SHARES['connections']}", self.line(hog))
        root = self.member()
        tgt = root.receiver()
        self.assertEqual(self.registrants(tgt), [root.pid])
        self.assertEqual(root.said("srq 700"), "ok")
        refused = subprocess.run([cli.PARLEY, "xrc", "ls", "--socket", self.socket], user=NOBODY, capture_output=True, text=True, check=False)
        self.assertIn("share_of_connections: users may have no more connections to the broker: --user-share", refused.stderr)

    def test_a_share_of_0_is_none(self):
        self.start_anew("--user-share", 0)
        hog = self.child(HEAD + "raw = Raw(sys.argv[1])\nraw.join(start=start)\nraw.ask('open', flags=CREATE)\n"
                         "print([raw.ask('create')['refusal'] for _ in range(20000)].count(0), flush=True)\n", self.socket)
        self.assertEqual(self.line(hog), "20000")

    def test_with_more_rights_than_its_user_a_program_heeds_no_variable(self):
        if os.statvfs(self.directory).f_flag & os.ST_NOSUID:
            self.skipTest("setuid programs have no effect on this file system")
        program = self.path("more_rights")
        shutil.copy(os.environ["PARLEY_MORE_RIGHTS"], program)
        ran = self.path("ran")
        os.mkdir(self.path("bin"))
        script = f"#!/bin/sh\nid -u > {ran}\n".encode()
        for name in ("evil", "bin/parley"):
            os.chmod(self.path(name, script), 0o755)
        os.chmod(self.directory, 0o777)
        own = {"PARLEY_XRCD": self.path("own"), "PARLEY_XRC_SEGMENT": self.path("own-segment"), "XDG_RUNTIME_DIR": self.directory}

        def said(mode, *words, **variables):
            os.chmod(program, mode)
            return subprocess.run([program, self.path("nothing"), *words], user=NOBODY, env=own | variables, capture_output=True, text=True,
                                  check=True).stdout.splitlines()
        for variables in ({"PARLEY_XRCD_PROGRAM": self.path("evil")}, {"PATH": self.path("bin")}):
            self.assertEqual(said(0o755, **variables)[0], f"{own['PARLEY_XRCD']} {own['PARLEY_XRC_SEGMENT']}")
            self.until(lambda: os.path.exists(ran), "without more rights it is started")
            os.unlink(ran)
            lines = said(0o4755, **variables)
            self.assertEqual(lines[0], "/run/parley-xrcd.sock /dev/shm/parley-xrc-0")
            self.assertIn("no broker answers", lines[1])
            self.assertFalse(os.path.exists(ran), "the user's program ran with root's rights")
        # The program's own choice of a broker runs: with root's rights for good, and without anything of the user's environment.
        begins = f"#!/bin/sh\n(grep ^Uid /proc/$$/status; cat /proc/$$/environ) >{ran}.new\nmv {ran}.new {ran}\n"
        own_broker = self.path("own_broker", begins.encode())
        os.chmod(own_broker, 0o755)
        said(0o4755, own_broker, PATH=self.path("bin"))
        self.until(lambda: os.path.exists(ran), "it is started")
        with open(ran, encoding="utf-8") as file:
            self.assertEqual(file.read(), "Uid:\t0\t0\t0\t0\n")

    def test_a_socket_of_another_user_is_named(self):
        self.stop_broker(signal.SIGTERM)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as foreign:
            foreign.bind(self.socket)
            foreign.listen()
            os.chown(self.socket, NOBODY, NOBODY)
            self.refused(cli.run("xrcd", "--socket", self.socket), 3, "socket_foreign: ", f"(socket {self.socket})")
        self.assertTrue(stat.S_ISSOCK(os.lstat(self.socket).st_mode))
        os.unlink(self.socket)
        os.chown(self.socket + ".lock", NOBODY, NOBODY)
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "lock_foreign: ", f"(socket {self.socket}.lock)")


class InItsWay(UsersTest):
    def test_what_is_no_socket_is_left_as_it_is(self):
        self.stop_broker(signal.SIGTERM)
        self.path("broker", b"somebody's notes\n")
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "socket_foreign: ", self.socket)
        self.refused(self.xrc("ls"), 3, "socket_foreign: ", self.socket)
        with open(self.socket, "rb") as file:
            self.assertEqual(file.read(), b"somebody's notes\n")

    def test_a_broker_whose_lock_file_was_taken_away(self):
        os.unlink(self.socket + ".lock")
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "another broker")
        self.assertEqual(self.stats()["tgts"], 0)

    def test_what_is_no_lock_file_is_left_as_it_is(self):
        self.stop_broker(signal.SIGTERM)
        with open(self.socket + ".lock", "wb") as file:
            file.write(b"somebody's notes\n")
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "lock_foreign: ", f"{self.socket}.lock")


class Room(UsersTest):
    """Where the broker writes its epoch."""

    def mounted(self):
        if not IS_ROOT:
            self.skipTest("only root can mount a small file system")
        path = self.path("small")
        os.mkdir(path)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", path], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", path], check=False)
        return path

    @staticmethod
    def fill(path):
        with open(os.path.join(path, "filler"), "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    def test_a_full_file_system_is_said_or_does_no_harm(self):
        self.stop_broker(signal.SIGTERM)
        path = self.mounted()
        self.socket = os.path.join(path, "broker")
        self.fill(path)
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "lock_unwritable: ", f"(socket {self.socket}.lock)")
        os.unlink(os.path.join(path, "filler"))
        self.start_registry()
        owner = self.member()
        tgt = owner.receiver()
        self.fill(path)
        for _ in range(3):
            self.stop_broker()
            self.start_registry()
            self.assertEqual(owner.said(f"query {tgt}"), "ok")
        self.assertEqual(owner.kinds(), [])

    def test_brokers_within_one_second_lose_nothing(self):
        owner = self.member()
        tgt = owner.receiver()
        epochs = []
        for _ in range(4):
            self.stop_broker()
            epochs.append(self.start_registry()["epoch"])
            self.assertEqual(owner.said(f"query {tgt}"), "ok")
        self.assertEqual(len(set(epochs)), 4)
        self.assertEqual(owner.kinds(), [])
        self.assertNotEqual(owner.say("create")["tgt"].split("@")[0], tgt.split("@")[0])

    def test_of_few_numbers_none_is_given_out_twice(self):
        self.start_anew("--qpn-first", 100, "--qpn-last", 120)
        owner, other = self.member(), self.member()
        tgts = [owner.say("create")["tgt"] for _ in range(4)]
        owner.signal(signal.SIGSTOP)
        self.stop_broker()
        self.start_registry("--qpn-first", 100, "--qpn-last", 120)
        made = [other.say("create")["tgt"] for _ in range(4)]
        owner.signal(signal.SIGCONT)
        self.assertEqual(len({tgt.split("@")[0] for tgt in tgts + made}), 8)
        self.assertEqual([owner.said(f"query {tgt}") for tgt in tgts], ["ok"] * 4)
        self.assertEqual([other.said(f"query {tgt}") for tgt in made], ["ok"] * 4)


class Events(UsersTest):
    def test_what_was_acknowledged_is_told_or_said_to_be_lost(self):
        """While the broker is killed again and again: the last event that each of them got, or that it was told about."""
        reports, *listeners = [self.member() for _ in range(5)]
        tgt = reports.receiver()
        for member in listeners:
            self.assertEqual(member.said(f"register {tgt}"), "ok")
        acknowledged = 0
        for round_ in range(6):
            for _ in range(40):
                reports.post(f"report {tgt} established")
            time.sleep(0.003 * round_)
            self.stop_broker()
            self.start_registry()
            for _ in range(40):
                self.assertEqual(reports.next()["said"], "ok")
            acknowledged += 40
        self.assertEqual(reports.said(f"report {tgt} established"), "ok")
        last = lambda member: max((e["sequence"] for e in member.told), default=0)
        for member in listeners:
            # One that came back after the last report is told of the loss alone.
            lost = lambda m=member: any(e["kind"] == "events_lost" for e in m.told)
            self.until(lambda m=member: last(m) >= last(reports) or lost(), "the last event has not come")
            heard = sum(1 + e["merged"] for e in member.told if e["kind"] == "established")
            self.assertTrue(heard >= acknowledged or lost(), f"{heard} of {acknowledged}")


if __name__ == "__main__":
    cli.main()
