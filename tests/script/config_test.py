# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""parley config, and settings of files and of the environment in the commands that take them, and in no other."""
import os
import re
import subprocess

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, Finished, address, main, run
import schema


class Config(CliTest):
    def run_in(self, environment, *args):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PARLEY_")}
        done = subprocess.run([PARLEY, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, check=False,
                              env={**clean, "PARLEY_CONFIG": "", **environment})
        schema.check_all(args, done.stdout)
        return Finished(done.returncode, done.stdout, done.stderr)

    def settings(self, finished):
        return {event["name"]: event for event in self.ok(finished).events}

    def file(self, text, name="p.toml"):
        return self.path(name, text.encode())

    def test_each_origin_in_its_order(self):
        path = self.file("[mpa]\nird = 1\nord = 2\n  ird_max = 3\n")
        args = ("config", "--config", path, "--json", "--ird", 5)
        shown = self.settings(self.run_in({"PARLEY_MPA_IRD": "4", "PARLEY_MPA_ORD": "4"}, *args))
        found = {name: (shown[name]["value"], shown[name]["origin"], shown[name]["where"])
                 for name in ("mpa.ird", "mpa.ord", "mpa.ird_max", "mpa.revision")}
        self.assertEqual(found, {"mpa.ird": ("5", "command_line", "--ird"),
                                 "mpa.ord": ("4", "environment", "PARLEY_MPA_ORD"),
                                 "mpa.ird_max": ("3", "file", f"{path}:4:3"),
                                 "mpa.revision": ("2", "default", "default")})
        text = self.ok(self.run_in({"PARLEY_MPA_IRD": "4"}, "config", "--config", path, "--no-crc")).out
        self.assertRegex(text, r"(?m)^mpa\.ird +4 +PARLEY_MPA_IRD$")
        self.assertRegex(text, r"(?m)^mpa\.crc +false +--crc$")
        self.assertRegex(text, r"(?m)^mpa\.markers +false +default$")

    def test_settings_reach_the_connection_and_the_command_line_overrides_them(self):
        path = self.file('[mpa]\nird = 3\nord = 2\ncrc = false\nrtr = "read"\nrtr_accept = ["read"]\n')
        for extra, ird, crc in (((), 3, False), (("--ird", 7, "--crc"), 7, True)):
            with self.subTest(extra):
                peer, port = self.listener("--count", 1, "--config", path)
                done = self.ok(run("connect", f"127.0.0.1:{port}", "--config", path, "--json", *extra))
                agreed = done.event("established")["parameters"]
                self.assertEqual((agreed["ird"], agreed["mpa"]["rtr"]), (max(ird, 2), "read"))
                self.assertEqual(agreed["mpa"]["crc"], crc)
                self.ok(peer.finish())

    def test_the_times_of_silent_peers_reach_the_connection(self):
        """A keepalive is a zero-length Write; the listener, whose interval is 5 s, sends none."""
        here, setting = address(1), {"PARLEY_TIMEOUT_KEEPALIVE": "20ms"}
        for environment, option, asked in ((setting, (), True), ({}, ("--keepalive", "20ms"), True), (setting, ("--keepalive", "0s"), False)):
            with self.subTest(environment, option=option):
                peer, capture = self.start("listen", f"{here}:7175", "--count", 1, "--roce"), self.path("roce.pcapng")
                peer.wait_for("listening")
                self.ok(self.run_in(environment, "connect", f"{here}:7175", "--hold", "200ms", "--pcapng", capture, "--roce", *option))
                self.ok(peer.finish())
                self.assertEqual("RDMA WRITE Only" in self.ok(run("pcap", "ladder", capture)).out, asked)
        for environment, option, why in ((setting, ("--dead-after", "20ms"), "keepalive is 20000000 ns and dead_after 20000000 ns"),
                                         ({"PARLEY_TIMEOUT_DEAD_AFTER": "2s"}, ("--keepalive", "3s"), "and dead_after 2000000000"),
                                         ({}, ("--keepalive", "25h"), "keepalive is 90000000000000 ns"),
                                         ({}, ("--dead-after", "1us"), "dead_after is 1000 ns")):
            for command in (("listen", "127.0.0.1:0"), ("connect", "127.0.0.1:1"), ("rping", "-s", "-a", "127.0.0.1", "-p", 0)):
                self.refused(self.run_in(environment, *command, *option), 2, why)

    def test_revision_and_rtr_frame_give_way_to_the_command_line(self):
        for environment, option, revision, rtr in (({"PARLEY_MPA_REVISION": "2"}, ("--rtr", "frame"), 1, "frame"),
                                                   ({"PARLEY_MPA_RTR": "frame"}, ("--revision", 2), 2, "none"),
                                                   ({"PARLEY_MPA_RTR": "frame"}, (), 1, "frame")):
            with self.subTest(environment, option=option):
                peer, port = self.listener("--count", 1)
                done = self.ok(self.run_in(environment, "connect", f"127.0.0.1:{port}", "--json", *option))
                mpa = done.event("established")["parameters"]["mpa"]
                self.assertEqual((mpa["revision"], mpa["rtr"]), (revision, rtr))
                self.ok(peer.finish())
        self.refused(self.run_in({}, "connect", "127.0.0.1:1", "--rtr", "frame", "--revision", 2), 2, "--rtr frame")

    def test_settings_of_metrics_are_the_servers_of_rping(self):
        path = self.path("m.prom")
        settings = {"PARLEY_METRICS_FILE": path, "PARLEY_METRICS_HTTP": "0", "PARLEY_METRICS_INTERVAL": "1h"}
        peer, port = self.rping_server()
        done = self.ok(self.run_in(settings, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1))
        self.assertNotIn("metrics at", done.out)
        self.assertFalse(os.path.exists(path))
        self.ok(peer.finish())
        peer, port = self.rping_server()
        self.ok(self.run_in(settings, "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 1, "--metrics", path))
        self.ok(peer.finish())
        self.assertTrue(os.path.exists(path))

    def test_help_shows_what_holds_here(self):
        shown = self.ok(self.run_in({"PARLEY_MPA_IRD": "11"}, "connect", "--help")).out
        self.assertRegex(shown, r"--ird N\|none=11 ")
        self.assertRegex(self.ok(self.run_in({"PARLEY_MPA_IRD": "x"}, "connect", "--help")).out, r"--ird N\|none=32 ")

    def test_a_wrong_value_says_what_where_and_which_rule(self):
        for text, place, words in (('[mpa]\n\n  ird = 99999\n', "3:3", ("mpa.ird", "99999", "0..16382 or none")),
                                   ('[listen]\nbacklog = 0\n', "2:1", ("listen.backlog", "1", "65535")),
                                   ('[mpa]\nrtr_accept = ["red"]\n', "2:1", ("'red'", "send, write, read")),
                                   ('[timeout]\nrequest = "5"\n', "2:1", ("'5'", "unit")),
                                   ('[timeout]\nrequest = 5\n', "2:1", ("with a unit",)),
                                   ('[mpa]\nidr = 5\n', "2:1", ("'idr'", "did you mean 'ird'")),
                                   ('[mpa]\nird = \n', "2:", ("not TOML",)),
                                   ('[mpa]\npeer_quirk = "sie"\n', "2:1", ("mpa.peer_quirk", "sie"))):
            path = self.file(text)
            for command in (("config",), ("listen", "127.0.0.1:0")):
                with self.subTest(text, command=command):
                    self.refused(self.run_in({}, *command, "--config", path), 2, f"{path}:{place}", *words)
        self.refused(self.run_in({"PARLEY_RETRY_ROUNDS": "many"}, "connect", "127.0.0.1:1"), 2, "PARLEY_RETRY_ROUNDS: ",
                     "retry.rounds is a number, not 'many'")
        self.refused(self.run_in({"PARLEY_RETRY_ROUNDS": "101"}, "connect", "127.0.0.1:1"), 2, "PARLEY_RETRY_ROUNDS: ",
                     "retry.rounds", "101", "1 to 100")
        self.refused(self.run_in({"PARLEY_RETRY_ROUNDS": "9" * 30}, "connect", "127.0.0.1:1"), 2, "retry.rounds", "9999")
        self.refused(self.run_in({"PARLEY_MPA_REVISION": "two"}, "connect", "127.0.0.1:1"), 2, "PARLEY_MPA_REVISION: ",
                     "mpa.revision is a number, not 'two'")
        self.refused(self.run_in({"PARLEY_MPA_CRC": "perhaps"}, "config"), 2, "PARLEY_MPA_CRC: ",
                     "mpa.crc is true or false, not 'perhaps'")

    def test_what_a_file_says_does_not_reach_the_terminal_as_it_is(self):
        path = self.file('[mpa]\n"\\u001b[31mird" = 1\n[metrics]\nfile = "\\u001b]0;x\\u0007"\nhttp = 1\n')
        shown = self.run_in({"PARLEY_LOG_FILE": "\033[2J"}, "config", "--config", path)
        self.assertEqual(shown.code, 2)
        self.assertRegex(shown.out, r"(?m)^metrics\.file +\?\]0;x\? ")
        for text in (shown.out, shown.err, self.run_in({}, "listen", "--config", path).err):
            self.assertNotRegex(text, "[\0-\x09\x0b-\x1f\x7f]")
        odd = {"PARLEY_LOG_FILE": "x\033[2J"}
        shown = self.ok(self.run_in(odd, "listen", "--help")).out
        self.assertIn("x?[2J", shown)
        for text in (shown, self.run_in({"PARLEY_CONFIG": "/no/\033[2J"}, "config").err,
                     self.run_in({"PARLEY_CONFIG": "/no/\033[2J"}, "listen").err):
            self.assertNotIn("\033", text)

    def test_all_errors_are_told_by_config(self):
        path = self.file('[mpa]\nidr = 5\nird = 99999\n[timeout]\nrequest = 5\n')
        shown = self.run_in({"PARLEY_LISTEN_BACKLOG": "0"}, "config", "--config", path)
        self.assertEqual(shown.code, 2)
        self.assertEqual(len(shown.err.splitlines()), 4, shown)
        self.assertRegex(shown.out, r"(?m)^timeout\.rtr +10s +default$")
        one = self.refused(self.run_in({}, "listen", "127.0.0.1:0", "--config", path), 2, "2 more", "parley config")
        self.assertEqual(one.out, "")

    def test_files_that_are_not_there(self):
        missing = self.path("no.toml")
        for command in (("config",), ("listen", "127.0.0.1:0")):
            self.refused(self.run_in({}, *command, "--config", missing), 3, missing, "No such file")
            self.refused(self.run_in({"PARLEY_CONFIG": missing}, *command), 3, missing, "No such file")
            self.refused(self.run_in({}, *command, "--config", self.directory), 3, self.directory)
        self.ok(self.run_in({"PARLEY_CONFIG": "/dev/null"}, "config"))
        self.refused(self.run_in({"PARLEY_CONFIG": "/dev/zero"}, "config"), 2, "/dev/zero", "octets")
        # What is named on the command line is taken instead of what the environment names.
        path = self.file("mpa.ird = 9\n")
        shown = self.run_in({"PARLEY_CONFIG": missing}, "config", f"--config={path}", "--json")
        self.assertEqual(self.settings(shown)["mpa.ird"]["value"], "9")

    def test_commands_that_judge_read_no_settings(self):
        broken = {"PARLEY_CONFIG": self.path("no.toml"), "PARLEY_MPA_IRD": "x", "PARLEY_TIMEOUT_REPLY": "x"}
        capture = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp")
        capture = os.path.join(capture, sorted(f for f in os.listdir(capture) if f.endswith((".pcap", ".pcapng")))[0])
        for command in (("sim", "list"), ("sim", "replay", "drop_reply", "--seed", 1), ("pcap", "check", capture),
                        ("quirks",), ("replay", capture, "--list"), ("conform", "mpa", "responder", "--list"),
                        ("neg", "plugins"), ("help", "listen"), ("--version",)):
            with self.subTest(command):
                here, there = self.run_in({"SOURCE_DATE_EPOCH": "0"}, *command), self.run_in(
                    {"SOURCE_DATE_EPOCH": "0", **broken}, *command)
                self.assertEqual((here.code, here.out, here.err), (there.code, there.out, there.err))
                self.assertIn(here.code, (0, 1))
        self.refused(self.run_in({}, "sim", "list", "--config", "x"), 2, "--config")

    def test_a_misspelt_variable_is_noted(self):
        shown = self.ok(self.run_in({"PARLEY_MPA_IDR": "4", "PARLEY_SCENARIOS": "/tmp"}, "config"))
        self.assertEqual(shown.err, "note: PARLEY_MPA_IDR is not a setting; did you mean PARLEY_MPA_IRD?\n")

    def test_each_setting_is_an_option_of_its_commands_with_one_default(self):
        shown = self.settings(self.run_in({}, "config", "--json"))
        helps = {command: self.ok(self.run_in({}, "help", *command.split("-"))).out.splitlines()
                 for command in {command for setting in shown.values() for command in setting["commands"]}}
        for setting in shown.values():
            for command in setting["commands"]:
                lines = [line for line in helps[command]
                         if re.match(rf"  ( *-\w,| *){setting['option']}[, {{]", line + " ")]
                with self.subTest(setting["name"], command=command):
                    self.assertEqual(len(lines), 1)
                    fallback = re.search(r"=(\S+)", lines[0])
                    self.assertEqual(fallback[1] if fallback else setting["value"], setting["value"])

    def test_the_example_has_each_setting_with_its_default(self):
        with open(os.path.join(SOURCE_DIR, "docs", "examples", "parley.toml"), encoding="utf-8") as file:
            example = file.read()
        self.assertEqual({e["origin"] for e in self.settings(self.run_in({}, "config", "--json", "--config", self.file(
            example))).values()}, {"default"})
        defaults = self.settings(self.run_in({}, "config", "--json"))
        uncommented = re.sub(r"(?m)^#(\w+ = )", r"\1", example)
        for name, setting in self.settings(self.run_in({}, "config", "--json", "--config", self.file(uncommented))).items():
            with self.subTest(name):
                self.assertEqual(setting["origin"], "file")
                if defaults[name]["value"] and name not in ("log.format", "mpa.rtr_offer"):
                    self.assertEqual(setting["value"], defaults[name]["value"])

    def test_each_setting_is_documented(self):
        shown = self.settings(self.run_in({}, "config", "--json"))
        with open(os.path.join(SOURCE_DIR, "docs", "operations.md"), encoding="utf-8") as file:
            rows = re.findall(r"^\| `([a-z]+\.[a-z_]+)` \| `(--[a-z-]+)` \| ([a-z, ]+) \|", file.read(), re.MULTILINE)
        self.assertEqual([(name, s["option"], ", ".join(s["commands"]).replace("-", " ")) for name, s in shown.items()], rows)


if __name__ == "__main__":
    main()
