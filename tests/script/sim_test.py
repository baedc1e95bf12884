# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley sim: scenarios run, explored, replayed, shrunk; what is wrong is told before anything runs."""
import json
import os
import re
import signal
import subprocess
import xml.etree.ElementTree as ElementTree

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, Finished, body, main, run

SCENARIOS = os.path.join(SOURCE_DIR, "sim", "scenarios")

# Two hosts and a link on which nothing goes wrong.
PLAIN = """\
name = "plain"
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
"""
# The responder rejects, which nobody expected.
FAILING = PLAIN.replace('host = "b"', 'host = "b"\nreject = true')


def run_with(environment, *args):
    done = subprocess.run([PARLEY, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, check=False,
                          env={**os.environ, **environment})
    return Finished(done.returncode, done.stdout, done.stderr)


class SimTest(CliTest):
    def scenario(self, text=PLAIN, name="plain.toml"):
        return self.path(name, text.encode())

    def failing(self, name="failing.toml"):
        return self.scenario(FAILING.replace('"plain"', '"failing"'), name)

    def wrong(self, done, *words):
        """Exit 2, one line per error that names file and line, and a last line that counts them."""
        self.assertEqual(done.code, 2, str(done))
        lines = done.err.strip().splitlines()
        self.assertGreaterEqual(len(lines), 2, str(done))
        self.assertIn("nothing was run", lines[-1])
        for line in lines[:-1]:
            self.assertRegex(line, r"^[^:]+\.toml:\d+:")
        for word in words:
            self.assertIn(word, done.err)
        self.assertEqual(done.out, "")


class Run(SimTest):
    def test_a_good_scenario_is_one_line(self):
        done = self.ok(run("sim", "run", self.scenario()))
        self.assertEqual(len(body(done.out).splitlines()), 2, done.out)
        self.assertRegex(body(done.out), r"^ok +\S+plain\.toml +seed 0x1 +1 established")
        self.assertIn("1 scenario: 1 passed, 0 failed", done.out)

    def test_a_failure_says_what_and_how_to_see_it_again(self):
        file = self.failing()
        done = run("sim", "run", file)
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("FAILED", done.out)
        command = re.search(r"reproduce: parley (.*)", done.out)[1].split()
        again = run(*command, "--json")
        self.assertEqual(again.code, 1)
        self.assertEqual(json.loads(again.out.splitlines()[0])["verdict"], "failed")

    def test_output_keeps_the_order_of_the_input(self):
        files = [self.scenario(name=f"s{i}.toml") for i in range(9)]
        files.insert(4, self.failing())
        outputs = {body(run("sim", "run", "--jobs", jobs, *files).out) for jobs in (1, 2, 7)}
        self.assertEqual(len(outputs), 1)
        self.assertEqual(re.findall(r"^(?:ok|FAILED) +(\S+)", outputs.pop(), re.M), files)

    def test_a_directory_means_its_scenarios(self):
        for name in ("b.toml", "a.toml"):
            self.scenario(name=name)
        self.path("notes.txt", b"not a scenario")
        events = self.ok(run("sim", "run", self.directory, "--json")).events
        self.assertEqual([os.path.basename(e["file"]) for e in events if e["event"] == "run"], ["a.toml", "b.toml"])

    def test_a_name_means_a_shipped_scenario(self):
        by_name = self.ok(run("sim", "run", "lossy_handshake", "--json")).events[0]
        by_path = self.ok(run("sim", "run", os.path.join(SCENARIOS, "lossy_handshake.toml"), "--json")).events[0]
        self.assertEqual(by_name["reproduce"], "parley sim replay lossy_handshake --seed " + by_name["seed"])
        for key in ("file", "reproduce"):
            by_name.pop(key), by_path.pop(key)
        self.assertEqual(by_name, by_path)

    def test_the_seed_of_the_command_line_wins(self):
        run_event = self.ok(run("sim", "run", self.scenario(), "--seed", "0xffffffffffffffff", "--json")).events[0]
        self.assertEqual(run_event["seed"], "0xffffffffffffffff")

    def test_json_is_the_same_each_time(self):
        def events(*more):
            said = self.ok(run("sim", "run", "lossy_handshake", "--json", *more)).events
            self.assertEqual(said[-1].pop("report")["inputs"][0]["size"],
                             os.path.getsize(os.path.join(SCENARIOS, "lossy_handshake.toml")))
            return [json.dumps(event) for event in said]
        self.assertEqual(events(), events("--jobs", 3))

    def test_pictures(self):
        file, html = self.path("run.pcapng"), self.path("run.html")
        done = self.ok(run("sim", "run", "lossy_handshake", "--pcapng", file, "--html", html, "--ladder"))
        for words in ("MPA", "Request", "Reply", "dropped"):
            self.assertIn(words.lower(), done.out.lower())
        with open(html, encoding="utf-8") as page:
            footer = page.read().partition("<footer")[2]
        self.assertIn("parley sim run lossy_handshake --pcapng", footer)
        self.assertRegex(footer, r"lossy_handshake\.toml: \d+ octets, SHA-256 [0-9a-f]{64}")
        value = int(re.search(r"pcapng fnv1a 0x([0-9a-f]{16})", done.out)[1], 16)
        fnv = 0xcbf29ce484222325
        with open(file, "rb") as capture:
            for octet in capture.read():
                fnv = (fnv ^ octet) * 0x100000001b3 % 2**64
        self.assertEqual(fnv, value)
        with open(html, encoding="utf-8") as page:
            self.assertIn("<svg", page.read())

    def test_groups_are_told_and_their_captures_pass(self):
        capture = self.path("group.pcapng")
        said = self.ok(run("sim", "run", "roce_group", "--json", "--pcapng", capture)).event("run")
        self.assertEqual([(g["role"], g["datagrams"], g["octets"]) for g in said["groups"]],
                         [("member", 40, 40960), ("member", 40, 40960), ("member", 20, 1280), ("member", 20, 1280),
                          ("sender", 40, 40960), ("sender", 20, 1280)])
        self.assertEqual(said["groups"][3]["label"], "c in ff0e::7174 (member 4)")
        self.assertIn("passed;", self.ok(run("pcap", "check", capture)).out)
        self.assertIn("60 sent to groups, 120 received", self.ok(run("sim", "run", "roce_group")).out)
        with open(os.path.join(SCENARIOS, "roce_group.toml"), encoding="utf-8") as file:
            text = file.read()
        done = run("sim", "run", self.scenario(text.replace("expect = 40", "expect = 39", 1)))
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("b in 239.1.2.3 (member 1): got 40 datagrams, and 39 were expected", done.out)
        self.wrong(run("sim", "run", self.scenario(text.replace("239.1.2.3", "10.1.2.3", 1))),
                   "group: '10.1.2.3' is not a multicast address")

    def test_xrc_is_told_and_its_captures_pass(self):
        capture = self.path("xrc.pcapng")
        said = self.ok(run("sim", "run", "roce_xrc", "--json", "--pcapng", capture)).event("run")
        self.assertEqual(said["xrc"], [{"label": "b:7471", "created": 4, "destroyed": 4, "reaped": 0, "processes": [
            {"messages": 20, "octets": 30000, "exited": False}, {"messages": 40, "octets": 31280, "exited": False},
            {"messages": 25, "octets": 357680, "exited": False}]}])
        self.assertIn("passed;", self.ok(run("pcap", "check", capture)).out)
        done = self.ok(run("sim", "run", "roce_xrc_process_killed", "-v"))
        for words in ("b: 0.000004 info", "cm.established", "cm.disconnected"):
            self.assertIn(words, done.out + done.err)
        with open(os.path.join(SCENARIOS, "roce_xrc.toml"), encoding="utf-8") as file:
            text = file.read()
        self.wrong(run("sim", "run", self.scenario(text.replace("srq = 3", "srq = 4"))),
                   "srq: 'b' has processes = 3 at port 7471")

    def test_junit(self):
        report = self.path("junit.xml")
        self.assertEqual(run("sim", "run", self.scenario(), self.failing(), "--junit", report).code, 1)
        suite = ElementTree.parse(report).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        failure = suite.find("testcase[2]/failure")
        self.assertIn("parley sim replay", failure.text)

    def test_captures_of_failures(self):
        directory = os.path.join(self.directory, "deep", "artifacts")
        done = run("sim", "run", self.scenario(), self.failing(), "--pcapng-on-failure", directory)
        self.assertEqual(done.code, 1)
        self.assertEqual(sorted(os.listdir(directory)), ["failing-0x1.html", "failing-0x1.pcapng"])
        self.assertEqual(run("pcap", "check", os.path.join(directory, "failing-0x1.pcapng")).code, 0)

    def test_github_gets_annotations_and_a_table(self):
        summary = self.path("summary.md", b"before\n")
        file = self.failing()
        done = run_with({"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": summary}, "sim", "run", file, self.scenario())
        self.assertEqual(done.code, 1)
        self.assertRegex(done.err, rf"^::error file={re.escape(file)},line=\d+,title=[^:]*::.*%0Areproduce: parley sim")
        with open(summary, encoding="utf-8") as text:
            lines = text.read().splitlines()
        self.assertEqual(lines[0], "before")
        self.assertEqual(len([line for line in lines if line.startswith("| ")]), 3, lines)

    def test_a_scenario_that_does_not_end_is_stopped_at_its_bound(self):
        text = PLAIN + "\n[bounds]\ntime = \"1s\"\n[[fault]]\nlink = \"a-b\"\naction = \"drop\"\n"
        done = run("sim", "run", self.scenario(text))
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("bound (time)", done.out)
        self.assertIn("pending:", done.out)


class Wrong(SimTest):
    """Everything that is wrong is told before the first run."""

    def test_wrong_scenarios(self):
        for name, text, words in (
            ("unknown key", PLAIN.replace("[[connect]]\n", "[[connect]]\nconect = 1\n"), ["conect"]),
            ("unknown table", PLAIN + "[[lnik]]\n", ["lnik", "link"]),
            ("unknown host", PLAIN.replace('to = "b"', 'to = "c"'), ["'c'"]),
            ("loop", PLAIN + "".join(f'[[switch]]\nname = "{s}"\n' for s in "xyz") + "".join(
                f'[[link]]\nends = ["{p}", "{q}"]\n' for p, q in ("xy", "yz", "zx")), ["loop"]),
            ("port clash", PLAIN + '[[listen]]\nhost = "b"\n', ["7471"]),
            ("zero rate", PLAIN.replace('ends = ["a", "b"]', 'ends = ["a", "b"]\nrate = "0Gb/s"'), ["rate"]),
            ("fault on no link", PLAIN + '[[fault]]\nlink = "a-c"\naction = "drop"\n', ["a-c"]),
            ("no TOML", "name = \n", []),
        ):
            with self.subTest(name):
                file = self.scenario(text, "wrong.toml")
                self.wrong(run("sim", "run", self.scenario(), file), *words)
                self.wrong(run("sim", "check", file), *words)

    def test_all_errors_of_all_files_are_told(self):
        one = self.scenario(PLAIN.replace('to = "b"', 'to = "c"\nconect = 1'), "one.toml")
        two = self.scenario(PLAIN + "[[lnik]]\n", "two.toml")
        done = run("sim", "run", one, two)
        self.wrong(done, "conect", "lnik")
        errors = [e for e in run("sim", "run", one, two, "--json").events if e["event"] == "scenario_error"]
        self.assertEqual({os.path.basename(e["file"]) for e in errors}, {"one.toml", "two.toml"})

    def test_unreadable_files(self):
        self.refused(run("sim", "run", "nowhere/x.toml"), 3, "nowhere/x.toml")
        self.refused(run("sim", "run", "lossy_handshak"), 3, "did you mean 'lossy_handshake'?")
        self.refused(run("sim", "run", "q", "qq"), 3, "'q'", "'qq'", "parley sim list")
        self.refused(run("sim", "run", self.directory), 3, "no scenario")
        self.refused(run("sim", "run", "/dev/zero"), 2, "too large for a scenario")

    def test_unwritable_outputs(self):
        file, nowhere = self.scenario(), os.path.join(self.directory, "no", "such")
        for command in (("run", file, "--pcapng", nowhere), ("run", file, "--html", nowhere),
                        ("run", file, "--junit", nowhere), ("replay", file, "--seed", 1, "--pcapng", self.directory),
                        ("run", file, "--pcapng-on-failure", file), ("shrink", file, "--seed", 1, "-o", nowhere),
                        ("explore", file, "--seeds", "1..2", "--junit", nowhere)):
            with self.subTest(command):
                done = self.refused(run("sim", *command), 3)
                self.assertEqual(done.out, "")
        done = run("sim", "run", file, "--pcapng", "/dev/full")
        self.assertEqual(done.code, 3, str(done))
        self.assertIn("No space left", done.err)

    def test_seeds(self):
        file = self.scenario()
        for seeds, words in (("5..4", "reversed"), ("1..18446744073709551616", "18446744073709551615"),
                             ("1..", "A..B"), ("x..2", "A..B"), ("-1..2", "A..B"), ("1-2", "A..B"), ("", "A..B")):
            with self.subTest(seeds):
                self.refused(run("sim", "explore", file, f"--seeds={seeds}"), 2, words)
        for seed in ("-1", "x", "", "0x", "18446744073709551616"):
            with self.subTest(seed):
                self.refused(run("sim", "run", file, f"--seed={seed}"), 2, "--seed")

    def test_other_usage(self):
        file = self.scenario()
        self.assertEqual(run("sim").code, 2)
        self.refused(run("sim", "run"), 2, "FILE")
        self.refused(run("sim", "explore", file), 2, "--seeds")
        self.refused(run("sim", "replay", file), 2, "--seed")
        self.refused(run("sim", "shrink", file, "--seed", 1), 2, "--output")
        self.refused(run("sim", "exhaust", file, "--packets", 21), 2, "20")
        self.refused(run("sim", "exhaust", file), 2, "--packets")
        self.refused(run("sim", "run", file, file, "--pcapng", self.path("x")), 2, "--pcapng accepts one scenario")
        self.refused(run("sim", "run", file, "--jobs", 0), 2, "--jobs")
        self.refused(run("sim", "storm", "--nodes", 1), 2, "--nodes")
        self.refused(run("sim", "storm", "--loss", "101%"), 2, "'101%' is not a ratio from 0 to 1")
        self.refused(run("sim", "storm", "--pattern", "star"), 2, "star")
        self.refused(run("sim", "storm", "--timers", "spec"), 2, "--timers: only HCAs have these; give --roce too")
        self.refused(run("sim", "storm", "--nodes", 10000, "--ppn", 256), 2, "20000000 are the most")
        self.refused(run("sim", "explore", file, "--seeds", "1..2", "--time-budget", "10"), 2, "unit")

    def test_every_command_has_help_with_examples(self):
        for command in ("run", "explore", "replay", "shrink", "exhaust", "storm", "list", "check"):
            with self.subTest(command):
                done = self.ok(run("sim", command, "--help"))
                self.assertIn("Examples:\n  parley sim " + command, done.out)
                self.assertIn("--json", done.out)


class Many(SimTest):
    def test_explore(self):
        done = self.ok(run("sim", "explore", "lossy_handshake", "--seeds", "1..0x14", "--json"))
        self.assertEqual([e["seed"] for e in done.events if e["event"] == "run"], [hex(n) for n in range(1, 21)])
        self.assertEqual(done.event("summary")["passed"], 20)

    def test_explore_stops_after_enough_failures(self):
        done = run("sim", "explore", self.failing(), "--seeds", "1..1000", "--failures", 3)
        self.assertEqual(done.code, 1)
        self.assertEqual(done.out.count("reproduce:"), 3)
        self.assertIn("3 seeds: 0 passed, 3 failed; 997 of 1000 were not run", done.out)

    def test_explore_keeps_to_its_time_budget(self):
        done = self.ok(run("sim", "explore", self.scenario(), "--seeds", "0..18446744073709551615", "--time-budget", "1s"))
        self.assertIn("time budget of 1s is used up", done.err)

    def test_that_no_seed_was_run_is_no_pass(self):
        done = run("sim", "explore", self.scenario(), "--seeds", "1..5", "--time-budget", "1us")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("none of 5 seeds was run", done.err)

    def test_swarm_runs_are_replayed(self):
        done = self.ok(run("sim", "explore", "lossy_handshake", "--seeds", "1..5", "--swarm", "--json"))
        third = done.events[2]
        self.assertTrue(third["drawn"])
        again = self.ok(run(*third["reproduce"].split()[1:], "--json")).events[0]
        for key in ("drawn", "events", "packet_hops", "virtual_us", "frames_dropped"):
            self.assertEqual(again[key], third[key])

    def test_replay_prints_the_same_hash(self):
        hashes = {re.search(r"pcapng fnv1a (\S+)", self.ok(run("sim", "replay", "lossy_handshake", "--seed", 7)).out)[1]
                  for _ in range(2)}
        self.assertEqual(len(hashes), 1)
        other = self.ok(run("sim", "replay", "lossy_handshake", "--seed", 8)).out
        self.assertNotIn(hashes.pop(), other)

    def test_exhaust_goes_through_every_pattern(self):
        done = self.ok(run("sim", "exhaust", self.scenario(), "--packets", 4))
        self.assertIn("16 runs", done.out)
        self.assertIn("16 patterns: 16 passed, 0 failed", done.out)

    def test_exhaust_names_the_pattern_that_fails(self):
        # SYNs lost at 0, 1, 3 and 7 s are one loss too many for the 10 s that TCP is given.
        done = run("sim", "exhaust", self.scenario(), "--packets", 4, "--strict")
        self.assertEqual(done.code, 1, str(done))
        self.assertIn("16 patterns: 15 passed, 1 failed", done.out)
        self.assertIn("--drop-mask 0xf", done.out)
        command = re.search(r"reproduce: parley (.*--drop-mask 0x[0-9a-f]+)", done.out)[1].split()
        self.assertEqual(run(*command).code, 1)

    def test_shrink_writes_a_scenario_that_fails_by_itself(self):
        file = self.scenario(FAILING + "count = 3\nmessages = 5\n[[fault]]\nlink = \"a-b\"\naction = \"drop\"\n"
                             "chance = \"1/50\"\n", "big.toml")
        small = self.path("minimal.toml")
        done = self.ok(run("sim", "shrink", file, "--seed", 9, "-o", small))
        self.assertIn("reproduce: parley sim replay " + small, done.out)
        self.assertEqual(run("sim", "run", small).code, 1)
        with open(small, encoding="utf-8") as text:
            content = text.read()
        self.assertTrue(content.startswith("# Shrunk from "), content)
        self.assertNotIn("fault", re.sub("#.*", "", content))

    def test_shrink_keeps_to_the_failure_that_it_was_given(self):
        # Without the fault the connection comes up, which breaks the same expectation for another reason.
        file = self.scenario(PLAIN + 'expect = "rejected"\ncount = 2\n[[fault]]\nlink = "a-b"\naction = "drop"\n',
                             "lost.toml")
        small = self.path("minimal.toml")
        done = self.ok(run("sim", "shrink", file, "--seed", 9, "-o", small))
        self.assertIn("expectation at ", done.out)
        self.assertIn("open the TCP connection: the peer cannot be reached", done.out)
        with open(small, encoding="utf-8") as text:
            content = text.read()
        self.assertIn("[[fault]]", content)
        self.assertNotIn("count", content)
        self.assertIn("open the TCP connection", run("sim", "run", small).out)

    def test_shrink_describes_what_is_left(self):
        file = self.scenario('description = "Three peers meet."\n' + FAILING, "described.toml")
        small = self.path("minimal.toml")
        self.ok(run("sim", "shrink", file, "--seed", 9, "-o", small))
        with open(small, encoding="utf-8") as text:
            content = text.read()
        self.assertNotIn("Three peers", content)
        self.assertIn('description = "What is left of ', content)

    def test_nothing_to_shrink(self):
        small = self.path("minimal.toml")
        self.refused(run("sim", "shrink", self.scenario(), "--seed", 1, "-o", small), 1, "nothing to shrink")
        self.assertFalse(os.path.exists(small))

    def test_ctrl_c_ends_in_order(self):
        report = self.path("junit.xml")
        with subprocess.Popen([PARLEY, "sim", "explore", self.scenario(), "--seeds", "0..0xffffffffffffffff", "--junit",
                               report, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.stdout.read(), process.stderr.read()
        self.assertEqual(process.returncode, 1)
        self.assertIn("interrupted after", err)
        events = [json.loads(line) for line in out.splitlines()]
        summary = next(e for e in events if e["event"] == "summary")
        suite = ElementTree.parse(report).getroot().find("testsuite")
        self.assertEqual((int(suite.get("tests")), suite.get("errors")), (summary["passed"] + 1, "1"))  # the interruption is one
        self.assertIs(summary["interrupted"], True)

    def test_storm(self):
        done = self.ok(run("sim", "storm", "--nodes", 8, "--pattern", "alltoall", "--loss", "0.1%", "--json"))
        storm = done.event("storm")
        self.assertEqual((storm["wanted"], storm["established"], storm["failed"]), (28, 28, 0))
        self.assertEqual(list(storm["steps_us"])[:2], ["transport", "request"])
        for quantiles in storm["steps_us"].values():
            self.assertEqual(quantiles, sorted(quantiles))
        text = self.ok(run("sim", "storm", "--nodes", 4, "--pattern", "ring", "--ppn", 2)).out
        for words in ("median", "established", "us of CPU", "octets of memory"):
            self.assertIn(words, text)

    def test_storm_over_roce_counts_what_the_cm_sends_again(self):
        for loss, again in (("0", False), ("20%", True)):
            done = self.ok(run("sim", "storm", "--nodes", 6, "--roce", "--loss", loss, "--json"))
            self.assertEqual(done.event("storm")["cm_resent"] > 0, again)
        self.assertIn("0 messages of the CM sent again", self.ok(run("sim", "storm", "--nodes", 3, "--roce")).out)

    def test_list_and_check(self):
        listed = [json.loads(line) for line in self.ok(run("sim", "list", "--json")).out.splitlines()]
        self.assertGreaterEqual(len(listed), 25)
        for entry in listed:
            self.assertTrue(entry["description"], entry)
        self.assertIn("lossy_handshake", {entry["name"] for entry in listed})
        self.ok(run("sim", "check", SCENARIOS))


if __name__ == "__main__":
    main()
