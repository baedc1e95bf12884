# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""--log: trace events with the time of day and whose they are, as text and as JSON, on standard error and in files."""
import datetime
import json
import os
import re
import subprocess

import schema
from cli import LIMIT, PARLEY, CliTest, main, run

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z) (\w+)\[(\d+)\] (\w+) +(.*)")


class Log(CliTest):
    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()

    def test_two_programs_share_a_file(self):
        path = self.path("p.log", b"what was there\n")
        begin = datetime.datetime.now(datetime.timezone.utc)
        peer, port = self.listener("--count", 1, "--log-file", path)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "--rtr", "read", "--log-file", path))
        self.assertEqual(done.err, "")
        self.ok(peer.finish())
        end = datetime.datetime.now(datetime.timezone.utc)
        first, *rest = self.lines(path)
        self.assertEqual(first, "what was there")
        said = {}
        for line in rest:
            time, command, process, level, text = LINE.fullmatch(line).groups()
            at = datetime.datetime.fromisoformat(time)
            self.assertTrue(begin <= at <= end, line)
            self.assertIn(level, ("info", "warn", "error"))
            said.setdefault((command, process), []).append(re.sub(r"^#1 \S+ | .*", "", text))
        self.assertEqual({command: events for (command, _), events in said.items()},
                         {"listen": ["cm.listening", "cm.requested", "cm.established", "cm.disconnected"],
                          "connect": ["cm.established", "cm.disconnected"]})
        self.assertIn(str(peer.process.pid), {process for _, process in said})

    def test_json_has_the_keys_of_its_schema(self):
        path = self.path("p.log")
        peer, port = self.listener("--count", 1, "--log", "json", "--log-file", path, "--log-level", "trace")
        # What nobody expects ends in a Terminate.
        done = run("connect", f"127.0.0.1:{port}", "--quiet", "--send", 1, "--log", "json", "--log-level", "debug")
        self.assertEqual((done.code, peer.finish().code), (1, 1), done)
        described = schema.load("log.json")
        for lines, commands, levels in ((self.lines(path), {"listen"}, {"info", "debug", "trace", "warn"}),
                                        ([line for line in done.err.splitlines() if line.startswith("{")], {"connect"}, {"info", "debug", "warn"})):
            objects = [json.loads(line) for line in lines]
            for one in objects:
                self.assertEqual(schema.problems(one, described, "log.json"), [])
            self.assertEqual({one["command"] for one in objects}, commands)
            self.assertEqual({one["level"] for one in objects} - levels, set())
            self.assertIn("mpa.frame", {one["name"] for one in objects})
            self.assertEqual(len({one["process"] for one in objects}), 1)

    def test_levels(self):
        def names(level):
            done = run("connect", "127.0.0.1:1", "--log", "json", "--log-level", level)
            self.assertEqual(done.code, 1)
            return [json.loads(line)["name"] for line in done.err.splitlines() if line.startswith("{")]
        self.assertEqual(names("error"), [])
        self.assertEqual(names("warn"), ["cm.failed"])
        self.assertEqual(names("info"), ["cm.failed"])
        self.assertIn("cm.state", names("debug"))
        self.assertIn("timer.armed", names("trace"))

    def test_with_v_and_metrics_each_gets_its_own(self):
        path = self.path("p.log")
        peer, port = self.listener("--count", 1)
        done = self.ok(run("connect", f"127.0.0.1:{port}", "-v", "--log-file", path, "--log-level", "warn",
                           "--metrics", self.path("m.prom")))
        self.ok(peer.finish())
        self.assertIn("mpa.frame sent Request", done.err)
        self.assertEqual(self.lines(path), [])
        with open(self.path("m.prom"), encoding="utf-8") as file:
            self.assertIn('parley_fpdus_total{opcode="rdma_write",direction="sent"} 1', file.read())

    def test_files_that_cannot_be_written(self):
        self.refused(run("connect", "127.0.0.1:1", "--log-file", self.path("no/such.log")), 3, "log", "no/such.log")
        odd = self.refused(run("connect", "127.0.0.1:1", "--log-file", self.path("no/\033[2J")), 3, "log", "no/?[2J")
        self.assertNotIn("\033", odd.err)
        peer, port = self.listener("--count", 1)
        full = self.refused(run("connect", f"127.0.0.1:{port}", "--quiet", "--log-file", "/dev/full"), 3, "log", "/dev/full")
        self.assertIn("1 of 1 connections were set up", full.out)
        self.ok(peer.finish())
        self.assertTrue(os.path.exists("/dev/full"))

    def test_a_fifo_neither_keeps_waiting_nor_ends_the_command(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.refused(run("connect", "127.0.0.1:1", "--log-file", fifo), 3, "log", "fifo")
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        peer, port = self.listener("--count", 1, "--log-file", fifo)
        self.assertIn(b"cm.listening", os.read(reader, 65536))
        os.close(reader)
        self.ok(run("connect", f"127.0.0.1:{port}"))
        self.refused(peer.finish(), 3, "log", "fifo", "Broken pipe")

    def test_standard_output_that_is_a_file_keeps_all_lines(self):
        peer, port = self.listener("--count", 1)
        with open(self.path("out.txt"), "w+b") as out:
            self.assertEqual(subprocess.run([PARLEY, "connect", f"127.0.0.1:{port}", "--log-file", "/dev/stdout"], stdout=out,
                                            timeout=LIMIT, check=False).returncode, 0)
            out.seek(0)
            text = out.read().decode()
        self.ok(peer.finish())
        self.assertRegex(text, r"(?m)^\d{4}-\S+Z connect\[\d+\] info  #1 \S+ cm.established ")
        self.assertRegex(text, r"(?m)^\d+ of 1 connections were set up")

    def test_wrong_words(self):
        self.refused(run("connect", "127.0.0.1:1", "--log", "xml"), 2, "--log", "xml")
        self.refused(run("connect", "127.0.0.1:1", "--log-level", "loud"), 2, "--log-level", "loud")


if __name__ == "__main__":
    main()
