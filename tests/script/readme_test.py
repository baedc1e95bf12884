# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Every command of README.md and docs/tour.md, as written there: from the root of the source tree, one after the other. README.md
shows output, which must be the real one. `./dev` builds and installs packages; of its commands only the names are checked, and
what `./dev demo` runs."""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import unittest

from cli import LIMIT, PARLEY, SOURCE_DIR
from stock import REJECTED, ended_well, listens

# In a network of its own the test has the ports of the README for itself, and may capture.
INSIDE = "PARLEY_README_NETWORK"
# What takes a minute is cut to some cases here; tests/script/conform_test.py runs all.
SHORTER = {"parley conform": " --only plain"}
# `cmake` and the program it builds need an installed Parley: tests/install/run.sh.
# Not there in builds with sanitizers.
PRELOADED = os.path.join(os.path.dirname(PARLEY), "..", "lib", "parley", "libparley_verbs.so")
ELSEWHERE = ("cmake ", "./dev ")


def page(name):
    with open(os.path.join(SOURCE_DIR, name), encoding="utf-8") as file:
        return file.read()


def sessions(text):
    """Of each ```console block: its commands, and the output that it shows of the last one."""
    for block in re.findall(r"(?ms)^```console\n(.*?)^```", text):
        lines = block.splitlines()
        shown = [line[2:] for line in lines if line.startswith("$ ")]
        yield shown, [line for line in lines if not line.startswith("$ ")]


def not_shown(expected, out):
    """The first expected line that the output lacks. `…` stands for any lines, other lines follow one another."""
    lines, at, anywhere = out.splitlines(), 0, False
    for line in expected:
        if line == "…":
            anywhere = True
            continue
        found = next((i for i in range(at, len(lines)) if lines[i].rstrip() == line), None)
        if found is None or (found != at and not anywhere):
            return line
        at, anywhere = found + 1, False
    return None


def commands(text):
    """The commands of the indented blocks, without the remarks beside them."""
    found = []
    for line in text.splitlines():
        if re.match(r"    (parley|cmake|\./dev)\b", line):
            found.append(re.sub(r"\s{2,}.*|\s+# .*", "", line.strip()))
    return found


def roce_listening():
    """Whether somebody has RoCEv2's UDP port, which is one for all listeners."""
    with open("/proc/net/udp", encoding="ascii") as lines:
        return any(line.split(maxsplit=2)[1].endswith(":12B7") for line in lines)


def wait_for(condition, what):
    end = time.monotonic() + LIMIT
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {LIMIT} s")
        time.sleep(0.01)


class Shell:
    """Runs the commands with `parley` in PATH."""

    def __init__(self, folder):
        os.symlink(os.path.abspath(PARLEY), os.path.join(folder, "parley"))
        self.environment = {**os.environ, "PATH": folder + os.pathsep + os.environ["PATH"]}
        self.background, self.failed = [], []

    def start(self, command):
        by_lines = "stdbuf -oL " if " run -a " in command else ""  # as on a terminal: what stock programs print stays in its order
        return subprocess.Popen(["bash", "-c", "exec " + by_lines + command], cwd=SOURCE_DIR, env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def output(self, process):
        try:
            return process.communicate(timeout=LIMIT)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()[0] + f"\nnot over after {LIMIT} s"

    def end(self, command, process):
        out, end = self.output(process), time.monotonic() + LIMIT
        # The device has its port before the program on it listens.
        while (process.returncode != 0 and " run -a " in command and re.search(REJECTED, out) and time.monotonic() < end
               and all(server.poll() is None for _, server in self.background)):
            process = self.start(command)
            out = self.output(process)
        if not ended_well(process, out):
            self.failed.append(f"{command}: exit status {process.returncode}\n{out}")
        return out

    def run(self, command):
        if command.endswith("&"):
            process = self.start(command[:-1])
            # A user needs longer to type the next line than a listener to begin.
            port = re.search(r"(?:^|:|-p )(\d{4})\b", command)
            own = 18515 if " run -a " in command else 7174  # of the ping-pongs of ibverbs-utils, of rping
            number = int(port[1]) if port else own
            # A negotiation is over TCP, whatever the queue pairs are.
            of_roce = " udping" in command or ("--roce" in command and " neg " not in command) or (
                " run -a " in command and " rping " in command)
            ready = roce_listening if of_roce else lambda: listens(number)
            wait_for(lambda: ready() or process.poll() is not None, command)
            self.background.append((command, process))
            return ""
        out = self.end(command, self.start(command))
        # The peers that end by themselves have done so, and leave their ports.
        for pair in [pair for pair in self.background if " -P " not in pair[0]]:
            self.background.remove(pair)
            self.end(*pair)
        return out

    def stop(self):
        for _, process in self.background:  # served until now, wrong set-ups on purpose among them
            process.terminate()
            process.communicate(timeout=LIMIT)


class Readme(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = commands(page("README.md")) + commands(page("docs/tour.md"))

    def test_the_output_that_is_shown_is_the_real_one(self):
        shown = list(sessions(page("README.md")))
        self.assertEqual(len(shown), 5)
        with tempfile.TemporaryDirectory() as folder:
            shell = Shell(folder)
            for run, expected in shown:
                if any(" run -a " in command for command in run) and not os.path.exists(PRELOADED):
                    continue
                outs = [shell.run(command) for command in run]
                self.assertIsNone(not_shown(expected, outs[-1]), f"{run[-1]}\n{outs[-1]}")
            shell.stop()
            self.assertEqual(shell.failed, [])

    def test_output_that_differs_is_noticed(self):
        out = "a\nb\nc\nd\n"
        for expected, missing in ((["a", "b"], None), (["…", "c", "…"], None), (["b"], "b"), (["a", "c"], "c"),
                                  (["…", "c", "b"], "b"), (["…", "e"], "e")):
            self.assertEqual(not_shown(expected, out), missing, expected)

    def test_each_command_does_what_its_block_says(self):
        elsewhere = ("parley pcap live",) if os.path.exists(PRELOADED) else ("parley pcap live", "parley run")
        own = [c for c in self.commands if c.startswith("parley ") and not c.startswith(elsewhere)]
        self.assertGreater(len(own), 10, self.commands)
        with tempfile.TemporaryDirectory() as folder:
            shell = Shell(folder)
            for command in own:
                shell.run(command + next((more for head, more in SHORTER.items() if command.startswith(head)), ""))
            shell.stop()
            self.assertEqual(shell.failed, [])

    def test_a_live_capture_judges_the_connection_of_the_first_lines(self):
        live = [c for c in self.commands if c.startswith("parley pcap live")]
        self.assertEqual(len(live), 1)
        if INSIDE not in os.environ:
            self.skipTest("no network of its own is allowed here (unshare --net); pcap_live_test.py captures where it may")
        with tempfile.TemporaryDirectory() as folder:
            shell = Shell(folder)
            capture = shell.start(live[0])
            first = capture.stdout.readline()  # it says what it captures on once it does
            for command in self.commands[:self.commands.index(live[0])]:
                if re.match(r"parley (listen|connect)\b", command):
                    shell.run(command)
            out = first + capture.communicate(timeout=LIMIT)[0]
            self.assertEqual((shell.failed, capture.returncode), ([], 0), out)
            self.assertIn("1 of them MPA: 1 passed", out)

    def test_dev_has_the_commands_that_are_named(self):
        with open(os.path.join(SOURCE_DIR, "dev"), encoding="utf-8") as file:
            known = set(re.findall(r"(?m)^  ([a-z-]+)\)", file.read()))
        named = set(re.findall(r"\./dev ([a-z][a-z-]*)", page("README.md")))
        self.assertGreaterEqual(named, {"demo", "test", "build", "install", "packages"})
        self.assertEqual(named - known, set())

    def test_no_command_is_left_out(self):
        for command in self.commands:
            self.assertTrue(command.startswith(("parley ", *ELSEWHERE)), command)
            self.assertTrue(shlex.split(command), command)


if __name__ == "__main__":
    own_network = ["unshare", "--map-root-user", "--net"]
    up = ["ip", "link", "set", "lo", "up"]
    if INSIDE not in os.environ and subprocess.run([*own_network, *up], check=False, capture_output=True).returncode == 0:
        os.environ[INSIDE] = "yes"
        os.execvp("unshare", [*own_network, "sh", "-c", " ".join(up) + ' && exec "$@"', "sh", sys.executable, "-B", *sys.argv])
    unittest.main()
