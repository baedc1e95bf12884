# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""TGT queue pairs that real processes share, which are killed, stopped, forked and replaced; and a broker to whom it happens too.
Rows are those of docs/xrc.md."""
import itertools
import os
import random
import signal
import subprocess
import sys
import time

import cli
from xrc_member import SHARED, CREATE, Member, Raw, start_of

GRACE = 0.4  # seconds; what waits for it waits so long
LONG_GRACE = 600  # seconds: longer than any test


class Demo(cli.CliTest):
    def demo(self, event, *args):
        done = cli.run("xrc", "demo", "--json", *args)
        self.ok(done)
        return [e for e in done.events if e["event"] == event]

    def test_counts_are_those_of_the_formula_and_its_packets_pass(self):
        capture = self.path("xrc.pcapng")
        (exchange,) = self.demo("exchange", "--processes", "3", "--transport", "xrc", "--pcapng", capture)
        self.assertEqual([exchange[key] for key in ("ini", "tgt", "rc", "handles", "received")], [3, 3, 0, 9, 18])
        check = cli.run("pcap", "check", capture)
        self.ok(check)
        self.assertIn("RoCEv2 XRC", check.out)
        ladder = cli.run("pcap", "ladder", capture)
        self.assertRegex(ladder.out, "REQ INI QPN 0x")
        self.assertRegex(ladder.out, "REP TGT QPN 0x")
        self.assertRegex(ladder.out, "XRC SEND Only PSN 0x[0-9a-f]+ SRQ 0x")

    def test_churn_is_bounded_and_drawn(self):
        picture = self.path("churn.svg")
        churn = self.demo("churn", "--processes", "1", "--churn", "200", "--svg", picture)
        self.assertEqual({e["registration"]: e["left"] for e in churn}, {"kept": 200, "deaf": 0, "counted": 0})
        with open(picture, encoding="utf-8") as file:
            self.assertEqual(file.read().count("<polyline"), 5)


class XrcTest(cli.CliTest):
    shared = False  # the registry: in memory, or a broker's

    def setUp(self):
        super().setUp()
        self.socket, self.segment = self.path("broker"), self.path("segment")
        self.domain = self.path("domain", b"")
        self.broker = None
        self.members = []
        self.addCleanup(lambda: [member.kill() for member in self.members])
        self.start_registry()

    def start_registry(self, *options, grace=GRACE):
        """Rules beyond these are for who makes it: a broker, or the file."""
        grace = ("--grace", f"{int(grace * 1000)}ms")
        if self.shared:
            return self.ok(cli.run("xrc", "segment", "--segment", self.segment, *grace, *options, "--json")).event("segment")
        self.broker = self.start("xrcd", "--socket", self.socket, *grace, "--recovery", "700ms", *options)
        return self.broker.wait_for("listening")

    def start_anew(self, *options, **rules):
        if self.shared:
            os.unlink(self.segment)
        else:
            self.stop_broker()
        return self.start_registry(*options, **rules)

    def stop_broker(self, number=signal.SIGKILL):
        self.broker.process.send_signal(number)
        self.broker.finish()

    @property
    def place(self):
        return ("--segment", self.segment) if self.shared else ("--socket", self.socket)

    def member(self, file=None, *options):
        member = Member(file or self.domain, *self.place, "--no-start", *options).ready()
        self.members.append(member)
        return member

    def refused_member(self, file, *options):
        return cli.run("xrc", "member", file, *self.place, "--no-start", "--json", *options)

    def xrc(self, *words):
        return cli.run("xrc", *words, *self.place)

    def overview(self):
        """{name: TGT queue pair}"""
        found = self.ok(self.xrc("ls", "--json")).events
        return {tgt["tgt"]: tgt for domain in found for tgt in domain["tgts"]}

    def stats(self):
        return self.ok(self.xrc("stats", "--json")).event("stats")

    def until(self, check, what):
        end = time.monotonic() + cli.LIMIT
        while not (found := check()):
            self.assertLess(time.monotonic(), end, what)
            time.sleep(0.01)
        return found

    def gone(self, tgt):
        self.until(lambda: tgt not in self.overview(), f"{tgt} has not ended")

    def registrants(self, tgt):
        return sorted(r["pid"] for r in self.overview()[tgt]["registrants"])


class Sharing:
    """For both forms."""

    def test_rows_1_and_2_the_creator_leaves_or_is_killed(self):
        for end in ("force-close", "kill"):
            with self.subTest(end=end):
                p1, p2 = self.member(), self.member()
                tgt = p1.receiver()
                self.assertEqual(p2.said(f"register {tgt}"), "ok")
                self.assertEqual(p2.said("srq 9"), "ok")
                if end == "kill":
                    p1.kill()
                else:
                    self.assertEqual(p1.said("force-close"), "ok")
                self.until(lambda: self.registrants(tgt) == [p2.pid], "the creator is registered still")
                self.assertEqual(p2.say(f"route {tgt} 9")["route"], "delivered")
                self.assertEqual(p2.said(f"unregister {tgt}"), "ok")
                self.assertNotIn(tgt, self.overview())
                p2.leave()

    def test_row_3_a_creator_that_dies_alone(self):
        p1, p2 = self.member(), self.member()
        tgt = p1.receiver()
        p1.kill()
        self.gone(tgt)
        self.assertEqual(p2.said(f"register {tgt}"), "gone")
        self.assertEqual(p2.said(f"register {tgt.split('@')[0]}"), "gone")

    def test_row_4_killed_in_every_order(self):
        for order in itertools.permutations(range(3)):
            members = [self.member() for _ in range(3)]
            tgt = members[0].receiver()
            for member in members[1:]:
                self.assertEqual(member.said(f"register {tgt}"), "ok")
            for left, victim in zip((2, 1), order):
                members[victim].kill()
                self.until(lambda: len(self.registrants(tgt)) == left, "a dead process is registered")
            members[order[2]].kill()
            self.gone(tgt)
        stats = self.stats()
        self.assertEqual((stats["created"], stats["destroyed"], stats["tgts"]), (6, 6, 0))

    def test_rows_5_to_9_counts_and_refusals(self):
        p1, p2, p3, elsewhere = self.member(), self.member(), self.member(), self.member(self.path("other", b""))
        tgt = p1.receiver()
        number = tgt.split("@")[0]
        self.assertFalse(p2.say(f"register {tgt}")["already"])
        self.assertTrue(p2.say(f"register {tgt}")["already"])
        self.assertEqual(p2.said(f"unregister {tgt}"), "ok")
        self.assertEqual(p2.said(f"unregister {tgt}"), "not_registered")
        self.assertEqual(p3.said(f"unregister {tgt}"), "not_registered")
        self.assertEqual(self.registrants(tgt), [p1.pid])
        self.assertEqual(p1.said("other 77"), "ok")
        self.assertEqual(p2.said("register 12345"), "not_found")
        self.assertEqual(elsewhere.said(f"register {number}"), "other_domain")
        self.assertEqual(p2.said("register 77"), "wrong_type")
        self.assertEqual(p1.said(f"unregister {tgt}"), "ok")
        self.assertEqual(p2.said(f"register {tgt}"), "gone")
        self.assertEqual(p2.said(f"register {number}"), "gone")
        self.assertEqual(p2.said("sing"), "not_understood")
        p2.post("sing " + 100000 * "x")
        answer = p2.next()
        self.assertEqual((answer["said"], len(answer["to"])), ("not_understood", 1027), "a line is kept as far as 1024 octets")
        self.assertEqual(p2.said("sing"), "not_understood")

    def test_row_10_a_number_that_is_used_again(self):
        self.start_anew("--qpn-first", 100, "--qpn-last", 100, "--quarantine", "2s")
        p1, p2 = self.member(), self.member()
        old = p1.receiver()
        self.assertEqual(p1.said(f"unregister {old}"), "ok")
        self.assertEqual(p2.said(f"register {old}"), "gone")
        self.assertEqual(p2.said("register 100"), "gone")  # it rests
        self.assertEqual(p1.said("create"), "no_memory")
        new = self.until(lambda: p1.say("create").get("tgt"), "the number rests for ever")
        self.assertEqual((new.split("@")[0], old.split("@")[0]), ("100", "100"))
        self.assertEqual(p2.said(f"register {old}"), "gone")
        self.assertEqual(p2.said(f"unregister {old}"), "gone")
        self.assertEqual(self.registrants(new), [p1.pid])
        self.assertEqual(p2.say("register 100")["tgt"], new)  # who has the number alone gets whichever has it

    def test_rows_11_to_13_storms_and_random_kills(self):
        draw = random.Random(13)
        members = [self.member() for _ in range(8)]
        tgts = []
        for _ in range(400):
            i = draw.randrange(8)
            if draw.random() < 0.04:
                members[i].kill()
                members[i] = self.member()
            elif not tgts or draw.random() < 0.3:
                tgts.append(members[i].say("create")["tgt"])
            else:
                members[i].say(f"{draw.choice(('register', 'unregister'))} {draw.choice(tgts[-4:])}")
        for member in members:
            member.kill()
        self.until(lambda: self.stats()["members"] == 0, "dead members are there")
        stats = self.stats()
        self.assertEqual((stats["tgts"], stats["domains"]), (0, 0))
        self.assertEqual(stats["created"], stats["destroyed"])

    def test_rows_15_to_17_everybody_hears_once(self):
        members = [self.member() for _ in range(5)]
        tgt = members[0].receiver()
        for member in members[1:]:
            self.assertEqual(member.said(f"register {tgt}"), "ok")
        self.assertEqual(members[4].said(f"unregister {tgt}"), "ok")
        self.assertEqual(members[0].said(f"report {tgt} fatal"), "ok")
        self.assertEqual(members[1].said(f"report {tgt} access_error"), "ok")
        for member in members[:4]:
            self.assertEqual(member.kinds(1), ["fatal"])
        self.assertEqual(members[4].said(f"register {tgt}"), "state")
        self.assertEqual(members[4].kinds(), [])
        for member in members[:4]:
            self.assertEqual(member.said(f"unregister {tgt}"), "ok")
        self.assertNotIn(tgt, self.overview())

    def test_the_process_that_carries_the_device_is_killed(self):
        self.start_anew(grace=LONG_GRACE)
        nic, p1, p2 = self.member(None, "--carrier"), self.member(), self.member()
        tgt, own = p1.receiver(5), p2.receiver(6)
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        nic.kill()
        for member, wanted in ((p1, [tgt]), (p2, [tgt, own])):
            self.assertEqual(member.kinds(1 + len(wanted)), ["device_removed"] * (1 + len(wanted)))
            self.assertEqual(sorted(event["tgt"] for event in member.told[1:]), sorted(wanted))
            self.assertEqual({self.overview()[name]["state"] for name in wanted}, {"drain"})
        for member, name in ((p1, tgt), (p2, tgt), (p2, own)):
            self.assertEqual(member.said(f"unregister {name}"), "ok")
        self.gone(tgt), self.gone(own)

    def test_a_carrier_that_closes_the_domain_ends_nothing(self):
        nic, p1 = self.member(None, "--carrier"), self.member()
        tgt = p1.receiver(5)
        self.assertEqual(nic.said("close"), "ok")
        nic.kill()
        self.assertEqual(p1.say(f"query {tgt}")["state"], "rtr")
        self.assertEqual(p1.kinds(), [])

    def test_rows_19_and_20_a_dead_peer_and_a_deaf_registrant(self):
        good, deaf = self.member(), self.member()
        tgt = good.receiver(5)
        self.assertEqual(deaf.said(f"register {tgt}"), "ok")
        # In one go, so that both are done long before the grace is over.
        good.post(f"report {tgt} peer_gone\nunregister {tgt}")
        self.assertEqual([good.next()["said"], good.next()["said"]], ["ok", "ok"])
        self.assertEqual(deaf.kinds(1), ["peer_gone"])
        self.gone(tgt)
        self.assertEqual(deaf.said(f"unregister {tgt}"), "gone")
        self.assertEqual(self.stats()["reaped"], 1)
        self.assertEqual(deaf.said("close"), "ok")

    def test_rows_21_22_and_35_set_up_by_two(self):
        p1, p2 = self.member(), self.member()
        p1.post("create 5"), p2.post("create 5")
        one, two = p1.next(), p2.next()
        self.assertEqual(one["tgt"], two["tgt"])
        tgt = one["tgt"]
        p1.post(f"modify {tgt} init 1"), p2.post(f"modify {tgt} init 1")
        self.assertEqual([p1.next()["said"], p2.next()["said"]], ["ok", "ok"])
        p1.post(f"modify {tgt} rtr 1"), p2.post(f"modify {tgt} rtr 2")
        self.assertEqual(sorted([p1.next()["said"], p2.next()["said"]]), ["conflict", "ok"])
        self.assertEqual(p1.said(f"report {tgt} peer_reused"), "ok")
        self.assertNotEqual(p2.say("create 5")["tgt"], tgt)
        self.assertEqual(p2.kinds(1), ["peer_reused"])

    def test_row_21_one_that_is_being_made(self):
        p1, p2, p3 = self.member(), self.member(), self.member()
        tgt = p1.say("reserve 5")["tgt"]
        p2.post("create 5")
        time.sleep(0.1)
        self.assertEqual(p1.said(f"publish {tgt}"), "ok")
        self.assertEqual(p2.next()["tgt"], tgt)
        doomed = p1.say("reserve 6")["tgt"]
        p3.post("create 6")
        time.sleep(0.1)
        p1.kill()  # row 28: between the two
        self.assertNotEqual(p3.next()["tgt"], doomed)
        self.assertEqual(self.stats()["rolled_back"], 1)

    def test_numbers_of_devices(self):
        self.start_anew("--device-numbers")
        p1, p2 = self.member(), self.member()
        self.assertEqual(p1.said("create"), "invalid")
        reserved = p1.say("reserve 5")["tgt"]
        self.assertEqual(p1.said(f"publish {reserved}"), "invalid")
        tgt = p1.say(f"publish {reserved} 4711")["tgt"]
        self.assertEqual(tgt.split("@")[0], "4711")
        self.assertEqual(p2.say("create 5")["tgt"], tgt)
        other = p2.say("reserve 6")["tgt"]
        self.assertEqual(p2.said(f"publish {other} 4711"), "conflict")
        self.assertEqual(self.registrants(tgt), [p1.pid, p2.pid])

    def test_row_23_closing_what_is_in_use(self):
        p1 = self.member()
        tgt = p1.receiver()
        self.assertEqual(p1.said("close"), "busy")
        self.assertEqual(p1.said("force-close"), "ok")
        self.assertEqual(p1.process.wait(timeout=cli.LIMIT), 0)
        self.assertNotIn(tgt, self.overview())

    def test_row_24_domains_by_file(self):
        p1 = self.member()
        tgt = p1.receiver()
        os.link(self.domain, self.path("link"))
        self.assertEqual(self.member(self.path("link")).said(f"register {tgt}"), "ok")
        os.unlink(self.domain)
        self.assertEqual(self.member(self.domain).said(f"register {tgt}"), "other_domain")
        self.assertEqual(self.member("private").said(f"register {tgt}"), "other_domain")
        self.refused(self.refused_member(self.path("link"), "--exclusive"), 1, "domain_exists")
        self.refused(self.refused_member(self.path("third", b""), "--no-create"), 1, "unknown_domain")

    def test_row_18_a_member_that_stands_still(self):
        self.start_anew("--events", 2)
        quick, slow = self.member(), self.member()
        tgts = [quick.receiver() for _ in range(400)]
        for tgt in tgts:
            self.assertEqual(slow.said(f"register {tgt}"), "ok")
        slow.signal(signal.SIGSTOP)
        for tgt in tgts:
            self.assertEqual(quick.said(f"report {tgt} fatal"), "ok")
        self.assertEqual(len(quick.kinds(400)), 400)
        slow.signal(signal.SIGCONT)
        self.until(lambda: slow.told and slow.told[-1]["kind"] == "events_lost", "nobody said that events were lost")
        self.assertEqual(slow.say(f"query {tgts[-1]}")["state"], "error")

    def test_row_27_stopped_for_longer_than_the_grace(self):
        p1, sleeper = self.member(), self.member()
        tgt, kept = p1.receiver(), p1.receiver()
        for name in (tgt, kept):
            self.assertEqual(sleeper.said(f"register {name}"), "ok")
        sleeper.signal(signal.SIGSTOP)
        self.assertEqual(p1.said(f"report {tgt} peer_gone"), "ok")
        self.gone(tgt)
        self.assertEqual(p1.said(f"modify {kept} rts 3"), "ok")
        sleeper.signal(signal.SIGCONT)
        self.assertEqual(sleeper.kinds(1), ["peer_gone"])
        self.assertEqual(sleeper.said(f"unregister {tgt}"), "gone")
        self.assertEqual(sleeper.said(f"unregister {kept}"), "ok")

    def test_too_many_members(self):
        self.start_anew("--members", 2)
        p1, p2 = self.member(), self.member()
        tgt = p1.receiver()
        self.refused(self.refused_member(self.domain), 1, "too_many_members")
        self.assertEqual(p2.said(f"register {tgt}"), "ok")

    def test_kill_and_watch(self):
        self.start_anew(grace=LONG_GRACE)  # `watch` sees a state only if it looks meanwhile
        p1, p2 = self.member(), self.member()
        tgt = p1.receiver()
        watch = self.start("xrc", "watch", *self.place, "--interval", "20ms")
        self.assertEqual(watch.wait_for("created")["tgt"], tgt)
        self.assertIn(str(p1.pid), watch.wait_for("joined")["process"])
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        self.assertIn(str(p2.pid), watch.wait_for("joined")["process"])
        self.ok(self.xrc("kill", tgt, "--json"))
        self.assertEqual(watch.wait_for("state")["state"], "drain")
        self.assertEqual([p1.kinds(1), p2.kinds(1)], [["killed"], ["killed"]])
        self.assertEqual([p.said(f"unregister {tgt}") for p in (p1, p2)], ["ok", "ok"])
        watch.wait_for("ended")
        self.ok(watch.finish(stop=True))
        self.refused(self.xrc("kill", tgt), 1, "gone")
        self.refused(self.xrc("kill", "17"), 2, "17")
        listed = self.ok(self.xrc("ls")).out
        self.assertIn("2 members, 0 TGT queue pairs", listed)
        self.assertIn("registrations", self.ok(self.xrc("stats")).out)


class SharingByBroker(Sharing, XrcTest):
    pass


class SharingInMemory(Sharing, XrcTest):
    shared = True

    def test_what_is_no_registry_is_left_as_it_is(self):
        """Each has a reason of its own."""
        def refused(reason, *options):
            self.refused(cli.run("xrc", "member", self.domain, "--segment", path, "--json", *options), 3, f"{reason}: ", f"(segment {path})")
        path = self.path("missing")
        refused("no_segment", "--no-start")
        self.refused(cli.run("xrc", "ls", "--segment", path), 3, "no_segment")
        path = self.path("text", b"these are somebody's notes\n")
        os.chmod(path, 0o600)
        refused("segment_foreign")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), b"these are somebody's notes\n")
        path = self.path("directory")
        os.mkdir(path)
        refused("segment_foreign")
        path = self.path("link")
        os.symlink(self.segment, path)
        refused("segment_foreign")
        path = self.segment
        os.chmod(path, 0o660)
        refused("segment_owner")
        os.chmod(path, 0o600)
        for at, octets, reason in ((8, b"\x07", "segment_version"), (0, b"X", "segment_foreign")):
            with open(path, "r+b") as file:
                file.seek(at)
                file.write(octets)
            refused(reason)

    def test_a_full_file_system(self):
        if os.geteuid() != 0:
            self.skipTest("only root can mount a small one")
        path = os.path.join(self.directory, "small")
        os.mkdir(path)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", path], capture_output=True, check=False).returncode != 0:
            self.skipTest("nothing can be mounted here")
        self.addCleanup(subprocess.run, ["umount", path], check=False)
        segment = os.path.join(path, "segment")
        self.refused(cli.run("xrc", "member", self.domain, "--segment", segment), 3, "segment_full: ", segment)
        self.assertEqual(os.listdir(path), [])

    def test_nobody_left_and_begun_again(self):
        p1 = self.member()
        tgt = p1.receiver()
        p1.kill()  # nobody is there to miss it
        p2 = self.member()
        self.assertEqual(p2.said(f"register {tgt}"), "gone")
        self.assertEqual(p2.said(f"register {tgt.split('@')[0]}"), "gone")
        self.assertNotEqual(p2.receiver().split("@")[0], tgt.split("@")[0])
        self.assertEqual(self.stats()["died"], 1)


class Troubles(XrcTest):

    def test_row_25_a_forked_child_keeps_nobody_alive(self):
        child = subprocess.Popen([sys.executable, "-B", "-c", FORKS, self.socket, self.domain], stdout=subprocess.PIPE, text=True,
                                 cwd=os.path.dirname(os.path.abspath(__file__)))
        heir, tgt = child.stdout.readline().split()
        self.addCleanup(os.kill, int(heir), signal.SIGKILL)
        self.assertIn(tgt, self.overview())
        child.kill()  # its child has the socket still
        child.wait()
        child.stdout.close()
        self.gone(tgt)
        os.kill(int(heir), 0)

    def test_row_26_exec_is_death(self):
        child = subprocess.Popen([sys.executable, "-B", "-c", EXECS, self.socket, self.domain], stdout=subprocess.PIPE, text=True,
                                 cwd=os.path.dirname(os.path.abspath(__file__)))
        self.addCleanup(lambda: (child.kill(), child.wait(), child.stdout.close()))
        tgt = child.stdout.readline().split()[0]
        self.gone(tgt)
        self.assertIsNone(child.poll())

    def test_row_29_a_process_that_is_not_who_it_says(self):
        raw = Raw(self.socket)
        self.assertEqual(raw.join(start=start_of(os.getpid()) - 1)["refusal"], 21)  # wrong_process
        self.assertIsNone(raw.answer())
        raw.close()

    def test_row_24_a_shared_domain_without_its_file(self):
        raw = Raw(self.socket)
        raw.join()
        self.assertEqual(raw.ask("open", flags=SHARED | CREATE)["refusal"], 15)  # bad_descriptor
        raw.close()

    def test_garbage_disturbs_nobody(self):
        p1 = self.member()
        tgt = p1.receiver()
        good = Raw.request(1, 1, other=1, reason=1)
        cases = {"noise": os.urandom(112), "short": good[:20], "long": good + b"x", "one octet": b"P", "huge": b"P" * 100000,
                 "an unknown kind": Raw.request(99, 1), "nothing first": Raw.request(4, 1), "an answer": good[:5] + b"\x40" + good[6:]}
        for name, octets in cases.items():
            with self.subTest(name=name):
                raw = Raw(self.socket)
                raw.send(octets)
                self.assertEqual(raw.answer()["refusal"], 19)  # bad_message
                self.assertIsNone(raw.answer())
                raw.close()
        raw = Raw(self.socket)
        raw.send(Raw.request(1, 1, version=9, other=7, reason=9))
        self.assertEqual(raw.answer()["refusal"], 20)  # bad_version
        raw.close()
        self.assertEqual(p1.said(f"query {tgt}"), "ok")

    def test_one_that_asks_and_never_reads_is_not_waited_for(self):
        raw = Raw(self.socket)
        raw.join(self.domain)
        raw.socket.setblocking(False)
        sent = 0
        try:
            for sent in range(100000):
                raw.send(Raw.request(9, 100 + sent))
        except BlockingIOError:
            pass
        self.assertLess(sent, 99999)
        p1 = self.member()
        tgt = p1.receiver()
        self.assertEqual(self.registrants(tgt), [p1.pid])
        raw.close()
        self.until(lambda: self.stats()["members"] == 1, "it is a member still")

    def test_a_file_of_another_user(self):
        if os.geteuid() != 0:
            self.skipTest("only root can be another user")
        os.chmod(self.directory, 0o755)
        os.chmod(self.socket, 0o666)
        os.chmod(self.domain, 0o644)
        for mode, refusal in ((0o644, 16), (0o666, 0)):  # not_permitted
            os.chmod(self.domain, mode)
            child = subprocess.run([sys.executable, "-B", "-c", STRANGER, self.socket, self.domain], capture_output=True, text=True,
                                   cwd=os.path.dirname(os.path.abspath(__file__)), check=False)
            self.assertEqual(child.stdout.strip(), str(refusal), child.stderr)


class TheBroker(XrcTest):
    def test_its_death_loses_nothing_that_lives(self):
        p1, p2, p3 = self.member(), self.member(), self.member()
        tgt, own, doomed = p1.receiver(5), p2.receiver(), p3.receiver()
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        self.assertEqual(p1.said(f"modify {tgt} rts 3"), "ok")
        self.assertEqual(p2.said("srq 9"), "ok")
        self.stop_broker()
        p1.kill(), p3.kill()
        p2.post("create 6")  # it is asked while nobody is there
        epoch = self.start_registry()["epoch"]
        self.assertEqual(p2.next()["said"], "ok")
        seen = self.overview()
        self.assertEqual({name: seen[name]["state"] for name in (tgt, own)}, {tgt: "rts", own: "rtr"})
        self.assertEqual(self.registrants(tgt), [p2.pid])
        self.assertEqual(p2.say(f"route {tgt} 9")["route"], "delivered")
        self.assertEqual(p2.say("create 5")["tgt"], tgt)
        self.assertNotIn(doomed, seen)
        self.assertEqual(p2.said(f"register {doomed}"), "gone")
        self.assertGreater(epoch, int(tgt.split("@")[1].split(".")[0]))
        self.assertEqual(p2.kinds(), [])

    def test_the_next_one_knows_the_carrier(self):
        nic, p1 = self.member(None, "--carrier"), self.member()
        tgt = p1.receiver(5)
        self.stop_broker()
        self.start_registry()
        for member in (nic, p1):
            member.say("query 1")
        nic.kill()
        self.assertEqual(p1.kinds(2), ["device_removed", "device_removed"])
        self.assertEqual(p1.told[1]["tgt"], tgt)

    def test_the_next_one_misses_a_carrier_that_died_with_it(self):
        p1, nic, p2 = self.member(), self.member(None, "--carrier"), self.member()
        tgt, own = p1.receiver(5), p2.receiver(6)
        self.assertEqual(p2.said(f"register {tgt}"), "ok")
        self.stop_broker()
        nic.kill()
        self.start_registry(grace=LONG_GRACE)
        for member, wanted in ((p1, [tgt]), (p2, [tgt, own])):
            self.assertEqual(member.kinds(1 + len(wanted)), ["device_removed"] * (1 + len(wanted)))
            self.assertEqual({self.overview()[name]["state"] for name in wanted}, {"drain"})
        for member, name in ((p1, tgt), (p2, tgt), (p2, own)):
            self.assertEqual(member.said(f"unregister {name}"), "ok")
        self.gone(tgt), self.gone(own)

    @staticmethod
    def answers(member):
        """All that it still has to be answered."""
        member.post("query 1")
        return list(iter(lambda: (found := member.next())["to"] != "query 1" and found, False))

    def test_many_deaths_converge(self):
        draw = random.Random(28)
        members = [self.member() for _ in range(4)]
        tgts = [members[0].receiver()]
        for _ in range(4):
            for _ in range(15):
                members[draw.randrange(4)].post(f"{draw.choice(('register', 'unregister'))} {draw.choice(tgts)}")
            members[draw.randrange(4)].post("create")
            time.sleep(draw.random() * 0.02)
            self.stop_broker()
            self.start_registry()
            answers = [answer for member in members for answer in self.answers(member)]
            self.assertEqual(len(answers), 16)
            self.assertLessEqual({answer["said"] for answer in answers}, {"ok", "gone", "not_registered"})
            tgts += [answer["tgt"] for answer in answers if answer["to"] == "create"]
        seen = self.overview()
        for member in members:
            for tgt in tgts:
                registered = tgt in seen and member.pid in (r["pid"] for r in seen[tgt]["registrants"])
                self.assertEqual(member.said(f"unregister {tgt}") == "ok", registered)
        self.assertEqual(self.stats()["tgts"], 0)

    def test_a_member_that_stood_still_is_told_what_ended(self):
        sleeper = self.member()
        tgt = sleeper.receiver()
        sleeper.signal(signal.SIGSTOP)
        self.stop_broker()
        self.start_registry()
        time.sleep(0.9)  # longer than the recovery
        sleeper.signal(signal.SIGCONT)
        self.assertEqual(sleeper.kinds(1), ["ended"])
        self.assertEqual(sleeper.said(f"unregister {tgt}"), "gone")

    def test_the_first_process_starts_it(self):
        self.stop_broker(signal.SIGTERM)
        self.assertFalse(os.path.exists(self.socket))
        self.refused(self.refused_member(self.domain), 3, "no_broker")
        self.refused(self.xrc("ls", "--json"), 3, f"(socket {self.socket})")
        crowd = [Member(self.domain, "--socket", self.socket) for _ in range(5)]
        self.members += crowd
        epochs = {member.next()["epoch"] for member in crowd}
        self.assertEqual(len(epochs), 1)
        tgt = crowd[0].receiver()
        self.assertEqual([m.said(f"register {tgt}") for m in crowd], ["ok"] * 5)
        self.refused(cli.run("xrcd", "--socket", self.socket), 3, "another broker")
        for member in crowd:
            member.leave()

    @cli.needs("systemd-socket-activate")
    def test_systemd_hands_it_its_socket(self):
        tool = "systemd-socket-activate"
        path = self.path("activated")
        with subprocess.Popen([tool, "--seqpacket", "-l", path, cli.PARLEY, "xrcd", "--idle", "100ms"], stderr=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL) as broker:
            self.until(lambda: os.path.exists(path), "there is no listener")
            self.socket = path
            p1 = self.member()
            tgt = p1.receiver()
            self.assertIn(tgt, self.overview())
            p1.leave()
            self.assertEqual(broker.wait(timeout=cli.LIMIT), 0)


COMMON = """
import os, sys, time
from xrc_member import Raw
raw = Raw(sys.argv[1])
raw.join(sys.argv[2])
tgt = raw.ask("create")["tgt"]
name = f"{tgt[0]}@{tgt[1] >> 32}.{tgt[1] & 0xFFFFFFFF}"
"""
FORKS = COMMON + """
heir = os.fork()
if heir:
    print(heir, name, flush=True)
time.sleep(1000)  # longer than the test
"""
EXECS = COMMON + """
print(name, flush=True)
os.execvp("sleep", ["sleep", "1000"])
"""
STRANGER = """
import os, sys
from xrc_member import Raw, start_of
start = start_of(os.getpid())
os.setgid(65534)
os.setuid(65534)
raw = Raw(sys.argv[1])
raw.join(start=start)
fd = os.open(sys.argv[2], os.O_RDONLY)
print(raw.ask("open", fd, flags=5)["refusal"])
"""

if __name__ == "__main__":
    cli.main()
