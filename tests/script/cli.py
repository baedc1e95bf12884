# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the command-line tests share: running bin/parley, in the foreground and as a peer in the background."""
import io
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import schema

PARLEY = os.environ.get("PARLEY", "parley")
SOURCE_DIR = os.environ.get("PARLEY_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", ".."))
os.environ["PARLEY_CONFIG"] = ""  # no settings of the machine that runs the tests
LIMIT = 300  # seconds for any one command or event: only a hang takes as long, on a slow machine too


def needs(*programs):
    """A decorator of tests of other programs. They are skipped where one is not installed, but fail in CI: there ./dev has installed all."""
    missing = [program for program in programs if not shutil.which(program)]
    if not missing:
        return lambda item: item
    why = f"not installed: {', '.join(missing)}"
    if not os.environ.get("CI"):
        return unittest.skip(why)

    def fail(*_):
        raise AssertionError(f"{why}; no test is left out in CI: add the package to ./dev")

    def failing(item):
        if not isinstance(item, type):
            return fail
        item.setUp = fail
        return item
    return failing


def link_local_addresses():
    """Every usable link-local address of this machine, by interface name; one without IPv6 links has none."""
    with open("/proc/net/if_inet6", encoding="ascii") if os.path.exists("/proc/net/if_inet6") else io.StringIO() as file:
        links = [link for link in map(str.split, file) if link[0].startswith("fe80") and not int(link[4], 16) & 0x48]
    return sorted(":".join(link[0][i:i + 4] for i in range(0, 32, 4)) + "%" + link[5] for link in links)


class Finished:
    """A command that ended."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def events(self):
        """Standard output as JSON lines; a line that is not JSON fails the test by itself."""
        return [json.loads(line) for line in self.out.splitlines()]

    def event(self, name):
        found = [event for event in self.events if event["event"] == name]
        assert found, f"no {name} event in: {self.out}\n{self.err}"
        return found[-1]

    def __str__(self):
        return f"exit {self.code}\n--- out\n{self.out}\n--- err\n{self.err}"


def run(*args, inside=()):
    """`inside` is put in front, to run it elsewhere."""
    done = subprocess.run([*inside, PARLEY, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, check=False)
    schema.check_all(args, done.stdout)
    return Finished(done.returncode, done.stdout, done.stderr)


def body(text):
    """A report without the lines that say where it comes from."""
    said = re.compile(r"parley \d\S* \(commit \S+\) at \S+Z: parley |.*: (\d+ octets?|not read to its end), SHA-256 ")
    return "".join(line for line in text.splitlines(True) if not said.match(line))


class Running:
    """A command in the background, with --json, whose events can be awaited."""

    def __init__(self, *args, inside=()):
        self.args = [*map(str, args), "--json"]
        self.process = subprocess.Popen([*inside, PARLEY, *self.args], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        self.lines, self.seen, self.err = queue.Queue(), [], []
        self.threads = [threading.Thread(target=self._read, daemon=True),
                        threading.Thread(target=self._read_err, daemon=True)]
        for thread in self.threads:
            thread.start()

    def _read(self):
        for line in self.process.stdout:
            self.seen.append(line)
            self.lines.put(line)
        self.lines.put(None)

    def _read_err(self):
        for line in self.process.stderr:
            self.err.append(line)

    def wait_for(self, name):
        """The next event of that name."""
        end = time.monotonic() + LIMIT
        while True:
            line = self.lines.get(timeout=max(0.01, end - time.monotonic()))
            assert line is not None, f"ended before {name}: {''.join(self.seen)}{''.join(self.err)}"
            event = json.loads(line)
            if event["event"] == name:
                return event

    def finish(self, stop=False, limit=LIMIT):
        if stop:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=limit)
        for thread in self.threads:
            thread.join(timeout=LIMIT)
        self.process.stdout.close()
        self.process.stderr.close()
        schema.check_all(self.args, "".join(self.seen))
        return Finished(code, "".join(self.seen), "".join(self.err))

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            self.finish()


class CliTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="parley-cli-")
        self.addCleanup(shutil.rmtree, self.directory, True)

    def path(self, name, content=None):
        path = os.path.join(self.directory, name)
        if content is not None:
            with open(path, "wb") as file:
                file.write(content)
        return path

    def start(self, *args, inside=()):
        running = Running(*args, inside=inside)
        self.addCleanup(running.kill)
        return running

    def listener(self, *args, host="127.0.0.1"):
        """`parley listen` on a free port; the process and its port."""
        running = self.start("listen", f"[{host}]:0", *args)
        return running, running.wait_for("listening")["port"]

    def rping_server(self, *args, host="127.0.0.1"):
        running = self.start("rping", "-s", "-a", host, "-p", 0, *args)
        return running, running.wait_for("listening")["port"]

    def ok(self, finished):
        self.assertEqual(finished.code, 0, str(finished))
        return finished

    def refused(self, finished, code, *words):
        """The right exit code and one clear line on standard error that has the words."""
        self.assertEqual(finished.code, code, str(finished))
        lines = finished.err.strip().splitlines()
        self.assertEqual(len(lines), 1, str(finished))
        self.assertTrue(lines[0].startswith("parley"), str(finished))
        for word in words:
            self.assertIn(word, lines[0])
        return finished


def address(n):
    """On loopback, of this process, so that nobody else has the port there; n is 1 to 5."""
    pid = os.getpid()
    return f"127.{128 + (n << 4 | pid >> 16 & 15)}.{pid >> 8 & 255}.{pid & 255}"


def main():
    unittest.main(verbosity=2)
