# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Rows 11 to 14 of docs/xrc.md with processes and the broker. A regular run does a small part; PARLEY_XRC_FULL=1, as ./dev stress sets
it, does all: 64 processes for 10 s, 100,000 races, 1,000 TGT queue pairs with random kills, 10,000 peers."""
import os
import random
import threading
import time

import cli
from xrc_test import XrcTest

FULL = bool(os.environ.get("PARLEY_XRC_FULL"))
PROCESSES, SECONDS = (64, 10) if FULL else (12, 1)
RACES, BATCH = (100_000, 500) if FULL else (1_000, 250)
MADE = 1_000 if FULL else 120
PEERS = 10_000 if FULL else 300


class Storms(XrcTest):
    def answers(self, member, count):
        return [member.next() for _ in range(count)]

    def test_row_11_a_storm_of_registrations(self):
        members = [self.member() for _ in range(PROCESSES)]
        tgt = members[0].receiver()
        wrong, calls, end = [], [], time.monotonic() + SECONDS

        def storm(member):
            # The first one stays, so that it lives; each of the others sees its own registration alone.
            while time.monotonic() < end:
                for _ in range(20):
                    member.post(f"register {tgt}")
                    member.post(f"unregister {tgt}")
                said = [(answer["said"], answer.get("already")) for answer in self.answers(member, 40)]
                if said != [("ok", False), ("ok", False)] * 20:
                    wrong.append(said)
                calls.append(40)
        threads = [threading.Thread(target=storm, args=(member,)) for member in members[1:]]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.assertIn(members[0].pid, self.registrants(tgt))
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertEqual(self.registrants(tgt), [members[0].pid])
        self.assertEqual(members[0].said(f"unregister {tgt}"), "ok")
        stats = self.stats()
        self.assertEqual((stats["created"], stats["destroyed"], stats["tgts"]), (1, 1, 0))
        self.assertEqual(stats["registered"], 1 + sum(calls) // 2)
        print(f"{sum(calls)} calls")

    def test_row_12_the_last_to_leave_against_the_next_to_come(self):
        last, new = self.member(), self.member()
        alive = 0
        for _ in range(RACES // BATCH):
            for _ in range(BATCH):
                last.post("create")
            tgts = [answer["tgt"] for answer in self.answers(last, BATCH)]
            for tgt in tgts:
                last.post(f"unregister {tgt}")
                new.post(f"register {tgt}")
            self.assertEqual({answer["said"] for answer in self.answers(last, BATCH)}, {"ok"})
            came = [answer["said"] for answer in self.answers(new, BATCH)]
            self.assertLessEqual(set(came), {"ok", "gone"})
            lives = [tgt for tgt, said in zip(tgts, came) if said == "ok"]
            alive += len(lives)
            self.assertEqual(sorted(self.overview()), sorted(lives))
            for tgt in lives:
                new.post(f"unregister {tgt}")
            self.assertLessEqual({answer["said"] for answer in self.answers(new, len(lives))}, {"ok"})
        stats = self.stats()
        self.assertEqual((stats["created"], stats["destroyed"], stats["tgts"]), (RACES, RACES, 0))
        print(f"{alive} of {RACES} were registered with in time")

    def test_row_13_random_kills_leave_nothing(self):
        self.start_anew("--quarantine", "300ms")
        draw = random.Random(13)
        members, made, tgts = [self.member() for _ in range(8)], 0, []
        while made < MADE:
            i = draw.randrange(8)
            if draw.random() < 0.05:
                members[i].kill()
                self.members.remove(members[i])
                members[i] = self.member()
            for _ in range(5):
                members[i].post("create")
            members[i].post(f"srq {made + 1}")
            *new, queue = self.answers(members[i], 6)
            self.assertEqual(queue["said"], "ok")
            tgts = (tgts + [answer["tgt"] for answer in new])[-20:]
            made += 5
            for tgt in draw.sample(tgts, 5):
                members[draw.randrange(8)].say(f"{draw.choice(('register', 'unregister'))} {tgt}")
        for member in members:
            member.kill()
        self.until(lambda: self.stats()["members"] == 0, "dead members are there")
        stats = self.stats()
        self.assertEqual((stats["tgts"], stats["domains"], stats["created"]), (0, 0, made))
        self.assertEqual(stats["created"], stats["destroyed"])
        # The queues' numbers are free, and those of the TGT queue pairs when they have rested.
        again = self.member()
        self.assertEqual(again.said("srq 1"), "ok")

    def test_row_14_peers_come_and_go_in_a_domain_that_stays(self):
        stays = self.member()
        most, peers = 0, iter(range(1, PEERS + 1))
        for first in range(0, PEERS, 20 * 5):
            process = self.member()
            for _ in range(5):
                block = [peer for peer in (next(peers, None) for _ in range(20)) if peer]
                for peer in block:
                    process.post(f"create {peer}")
                tgts = [answer["tgt"] for answer in self.answers(process, len(block))]
                for tgt in tgts:
                    stays.post(f"register {tgt}")
                self.assertEqual({answer["said"] for answer in self.answers(stays, len(tgts))}, {"ok"})
                most = max(most, self.stats()["tgts"])
                for tgt in tgts:
                    process.post(f"report {tgt} peer_gone")
                    stays.post(f"unregister {tgt}")
                self.answers(stays, len(tgts))
                if block[0] % 40 == 1:
                    for tgt in tgts:
                        process.post(f"unregister {tgt}")
                    self.answers(process, 2 * len(tgts))
                else:
                    self.answers(process, len(tgts))  # the process leaves them behind
            process.kill()
            self.members.remove(process)
            self.assertLessEqual(most, 120, first)
        self.until(lambda: self.stats()["tgts"] == 0, "dead TGT queue pairs pile up")
        stats = self.stats()
        self.assertEqual((stats["created"], stats["destroyed"]), (PEERS, PEERS))
        self.assertEqual(stays.said("close"), "ok")
        print(f"{most} TGT queue pairs at most")


if __name__ == "__main__":
    cli.main()
