# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley mad ... --sim`: a simulated subnet in the command itself, in virtual time, with nothing else running."""
import json
import os
import re
import subprocess

from cli import LIMIT, SOURCE_DIR, CliTest, main, needs, run

TREE = "fat-tree:2,8,4,4"  # 8 switches, 16 hosts


class Sim(CliTest):
    def parley(self, *words, code=0):
        done = run("mad", *words)
        self.assertEqual(done.code, code, done)
        return done

    def test_discover_finds_the_whole_subnet_and_a_file_gives_the_same(self):
        made = self.parley("discover", "--sim", TREE, "--json")
        summary = made.event("summary")
        self.assertEqual([summary[key] for key in ("switches", "channel_adapters", "links", "lost")], [8, 16, 32, 0])
        net = self.path("net")
        self.assertEqual(run("fabric", "--fat-tree", "2,8,4,4", "--write", net).code, 0)
        self.assertEqual(self.parley("discover", "--sim", net, "--json").out, made.out)

    def test_it_is_at_the_node_that_it_is_told(self):
        done = self.parley("query", "SubnGet", "NodeDescription", "0,", "--sim", TREE, "--sim-node", "H00007", "--json")
        self.assertEqual(done.event("reply")["records"][0]["node_string"], "H00007")

    def test_check_says_that_no_manager_has_run(self):
        done = self.parley("check", "--sim", TREE, "--json", code=1)
        faults = {event["fault"] for event in done.events if event["event"] == "finding"}
        self.assertEqual(faults, {"state", "no_lid"})
        self.assertIn("no subnet manager", self.parley("sa", "1,2", "--sim", TREE, code=3).err)

    def test_a_seed_draws_the_same_faults_again(self):
        words = ("discover", "--sim", TREE, "--sim-fault", "lose 20% of *", "--sim-fault", "duplicate 20% of *",
                 "--retries", 20, "--trace", "--json", "--sim-seed")
        first, again, other = (self.parley(*words, seed) for seed in (1, 1, 2))
        self.assertEqual((first.out, first.err), (again.out, again.err))
        self.assertNotEqual(first.err, other.err)
        self.assertEqual(first.event("summary")["lost"], 0)
        self.assertEqual(first.event("summary")["links"], 32)

    def test_faults_are_found_in_their_place(self):
        done = self.parley("discover", "--sim", TREE, "--sim-fault", "lose SubnGet(*) of H00009", "--json", code=1)
        self.assertEqual(done.event("summary")["channel_adapters"], 15)
        self.assertEqual([event["to"] for event in done.events if event["event"] == "link"].count(None), 1)

    def test_time_is_virtual(self):
        done = self.parley("query", "SubnGet", "NodeInfo", "0,1", "--sim", TREE, "--sim-fault", "lose *", "--timeout", "1h",
                           "--retries", 3, "--trace", code=1)
        sent = [float(text) for text in re.findall(r"^(\S+) > 0,1 ", done.err, re.M)]
        self.assertEqual(len(sent), 4)
        self.assertGreater(sent[3] - sent[0], 3 * 3600)

    def test_decode_reads_back_each_datagram_that_was_traced(self):
        capture = self.path("net.pcap")
        made = self.parley("discover", "--sim", TREE, "--trace", "--pcap", capture)
        traced = re.findall(r"^\S+ [<>] \S+  (\w+\(\w+\))", made.err, re.M)
        done = self.parley("decode", "--read", capture, "--json")
        self.assertEqual([event["title"] for event in done.events if "title" in event], traced)
        self.assertGreater(len(traced), 100)
        self.assertEqual(done.events[-1]["damaged"], 0)

    @needs("tshark")
    def test_decode_finds_what_tshark_finds(self):
        for name in ("ib_2008_mthca_erf", "rxe61_cm", "rxe61_errors_loss"):
            capture = os.path.join(SOURCE_DIR, "tests", "captures", "roce", name + ".pcap")
            fields = ("frame.number", "infiniband.mad.transactionid", "infiniband.bth.destqp")
            said = subprocess.run(["tshark", "-r", capture, "-Y", "infiniband.mad", "-T", "fields", *(f"-e{field}" for field in fields)],
                                  capture_output=True, text=True, timeout=LIMIT, check=True).stdout
            theirs = [tuple(int(value, 0) for value in line.split()) for line in said.splitlines()]
            ours = [(event["frame"], int(re.search(r'"transaction_id": "(\w+)"', json.dumps(event["header"]))[1], 0),
                     event["destination"]["qpn"])
                    for event in self.parley("decode", "--read", capture, "--json").events if "title" in event]
            self.assertEqual(ours, theirs)

    def test_what_cannot_be_simulated_is_refused(self):
        for words, code, text in ((("--sim", "/nowhere"), 3, "/nowhere cannot be read"),
                                  (("--sim", "fat-tree:2,8"), 2, "--sim fat-tree: '2,8' is not"),
                                  (("--sim", TREE, "--sim-node", "X"), 2, "there is no node 'X'"),
                                  (("--sim", TREE, "--sim-fault", "lose X"), 2, "--sim-fault 'lose X'"),
                                  (("--sim", TREE, "--transport", "ibsim"), 2, "--sim"),
                                  (("--sim-seed", 5), 2, "--sim")):
            self.assertIn(text, self.parley("discover", *words, code=code).err, words)


if __name__ == "__main__":
    main()
