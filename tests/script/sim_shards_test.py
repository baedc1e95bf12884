# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley sim explore --shard and parley sim merge: the report does not depend on how many processes did the runs."""
import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree

from cli import LIMIT, PARLEY, CliTest, Finished, body, main, run

# Of these two set-ups about one in five fails, because a frame is lost and nothing is retried in time.
LOSSY = """\
name = "lossy"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
[[connect]]
from = "a"
to = "b"
mpa = { reply_timeout = "50ms" }
[[fault]]
link = "a-b"
action = "drop"
chance = "1/20"
"""


def cases(path):
    """What a JUnit file says of each run, without its CPU time."""
    suite = ElementTree.parse(path).getroot().find("testsuite")
    return suite.get("name"), [(case.get("name"), [(child.get("message"), child.text) for child in case])
                               for case in suite.findall("testcase")]


def without_provenance(text):
    events = [json.loads(line) for line in text.splitlines()]
    return [{key: value for key, value in event.items() if key != "report"} for event in events if event["event"] != "shard"]


class Shards(CliTest):
    def setUp(self):
        super().setUp()
        self.file = self.path("lossy.toml", LOSSY.encode())

    def shards(self, count, *words, prefix=""):
        paths = []
        for number in range(1, count + 1):
            paths.append(self.path(f"{prefix}{count}-{number}.results"))
            done = run("sim", *words, "--shard", f"{number}/{count}", "--results", paths[-1])
            self.assertIn(done.code, (0, 1), str(done))
        return paths

    def same_report(self, count, *words):
        whole = run("sim", *words, "--junit", self.path("whole.xml"))
        paths = self.shards(count, *words)
        merged = run("sim", "merge", *reversed(paths), "--junit", self.path("merged.xml"))
        self.assertEqual(merged.code, whole.code, str(merged))
        self.assertEqual(body(merged.out), body(whole.out))
        self.assertEqual(cases(self.path("merged.xml")), cases(self.path("whole.xml")))
        self.assertEqual(without_provenance(run("sim", "merge", *paths, "--json").out),
                         without_provenance(run("sim", *words, "--json").out))
        return whole

    def test_failures_come_in_the_order_of_one_process(self):
        for count in (1, 2, 3):
            whole = self.same_report(count, "explore", self.file, "--seeds", "1..60", "--failures", 0)
            self.assertIn("FAILED", whole.out)

    def test_enough_failures_end_the_report_where_one_process_stops(self):
        whole = self.same_report(3, "explore", self.file, "--seeds", "1..200", "--failures", 4)
        self.assertIn("4 failed", whole.out)
        self.assertIn("were not run", whole.out)

    def test_drawn_parameters(self):
        self.same_report(2, "explore", self.file, "--seeds", "1..20", "--swarm")

    def test_patterns_of_losses(self):
        self.same_report(3, "exhaust", self.file, "--packets", 4, "--strict")

    def test_more_shards_than_runs(self):
        self.same_report(5, "explore", "lossy_handshake", "--seeds", "1..3")

    def test_records_of_failures_are_made_when_merging(self):
        words = ("explore", self.file, "--seeds", "1..30", "--failures", 1)
        paths = self.shards(2, *words)
        whole = run("sim", *words, "--pcapng-on-failure", self.path("whole"))
        merged = run("sim", "merge", *paths, "--pcapng-on-failure", self.path("merged"))
        self.assertEqual(body(merged.out).replace("/merged/", "/whole/"), body(whole.out))
        self.assertEqual(os.listdir(self.path("merged")), os.listdir(self.path("whole")))

    def test_what_does_not_belong_together_is_refused(self):
        one, two = self.shards(2, "explore", "lossy_handshake", "--seeds", "1..6")
        third = self.shards(3, "explore", "lossy_handshake", "--seeds", "1..6")[2]
        seeds = self.shards(2, "explore", "lossy_handshake", "--seeds", "1..7", prefix="seeds")[1]
        swarm = self.shards(2, "explore", "lossy_handshake", "--seeds", "1..6", "--swarm", prefix="swarm")[1]
        scenario = self.shards(2, "explore", self.file, "--seeds", "1..6", prefix="scenario")[1]
        for files, words in (((one,), "one is missing: 2"), ((one, two, one), "given twice"), ((one, third), "3/3"),
                             ((one, seeds), "the seeds"), ((one, swarm), "--swarm"), ((one, scenario), "the scenario")):
            with self.subTest(files=files):
                self.refused(run("sim", "merge", *files), 2, words)
        self.refused(run("sim", "merge", one, two, "--junit", one), 2, "would overwrite")

    def test_an_early_end_is_marked_in_junit(self):
        words = ("explore", self.file, "--seeds", "1..200", "--failures", 1)
        whole = run("sim", *words, "--junit", self.path("whole.xml"))
        self.assertEqual(whole.code, 1)
        self.assertNotIn("interrupted", whole.err)
        suite = ElementTree.parse(self.path("whole.xml")).getroot().find("testsuite")
        self.assertEqual((suite.get("failures"), suite.get("errors"), suite.get("skipped")), ("1", "0", "1"))
        self.assertIn("not run", suite.findall("testcase")[-1].get("name"))

    def test_results_of_an_earlier_sweep_do_not_survive(self):
        path = self.shards(1, "explore", "lossy_handshake", "--seeds", "1..3")[0]
        wrong = self.path("wrong.toml", b"nonsense = 1\n")
        self.assertEqual(run("sim", "explore", wrong, "--seeds", "1..3", "--results", path).code, 2)
        self.assertFalse(os.path.exists(path))
        self.refused(run("sim", "explore", self.file, "--seeds", "1..3", "--results", self.file), 2, "would overwrite")
        with open(self.file, encoding="utf-8") as file:
            self.assertEqual(file.read(), LOSSY)

    def test_tasks_of_srun_with_a_shard_do_not_join_mpi(self):
        done = subprocess.run([PARLEY, "sim", "explore", "lossy_handshake", "--seeds", "1..9", "--shard", "auto"], capture_output=True, text=True,
                              timeout=LIMIT, check=False, env={**os.environ, "SLURM_PROCID": "1", "SLURM_NTASKS": "4", "PMI_RANK": "1",
                                                               "PMI_SIZE": "4"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("shard 2/4", done.stdout)

    def test_damaged_files_are_refused(self):
        path = self.shards(1, "explore", "lossy_handshake", "--seeds", "1..3")[0]
        with open(path, "rb") as file:
            good = file.read()
        for bad, words in ((good[:-1], "damaged"), (good[:200], "damaged"), (b"", "is not a file of results"), (good + b"x", "damaged"),
                           (good[:300] + bytes([good[300] ^ 1]) + good[301:], "damaged")):
            self.refused(run("sim", "merge", self.path("bad.results", bad)), 3, words)
        self.refused(run("sim", "merge", self.path("none.results")), 3, "none.results")

    def test_the_shard_of_a_scheduler(self):
        def auto(**environment):
            clean = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "CI_NODE_"))}
            done = subprocess.run([PARLEY, "sim", "explore", "lossy_handshake", "--seeds", "1..9", "--shard", "auto"],
                                  capture_output=True, text=True, timeout=LIMIT, check=False, env={**clean, **environment})
            return Finished(done.returncode, done.stdout, done.stderr)

        self.assertIn("shard 2/4 (SLURM_PROCID=1 of SLURM_NTASKS=4): 2 of 9 seeds", self.ok(auto(SLURM_PROCID="1", SLURM_NTASKS="4")).out)
        self.assertIn("shard 1/2 (CI_NODE_INDEX=1 of CI_NODE_TOTAL=2): 5 of 9 seeds", self.ok(auto(CI_NODE_INDEX="1", CI_NODE_TOTAL="2")).out)
        self.refused(auto(), 2, "--shard")
        self.refused(auto(CI_NODE_INDEX="3", CI_NODE_TOTAL="2"), 2, "CI_NODE_INDEX=3")
        for shard in ("0/2", "3/2", "x", "1/0"):
            self.refused(run("sim", "explore", "lossy_handshake", "--seeds", "1..9", "--shard", shard), 2, "--shard")


if __name__ == "__main__":
    main()
