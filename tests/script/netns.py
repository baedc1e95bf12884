# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Network namespaces of a test's own: programs in them that say lines, and whether the machine lets a test have one."""
import os
import queue
import shutil
import subprocess
import threading

from cli import LIMIT

AS_ROOT = os.getuid() == 0


class Process:
    """A program that says lines and is told lines."""

    def __init__(self, test, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()
        self.test = test
        test.addCleanup(self.end)

    def read(self):
        try:
            for line in self.process.stdout:
                self.lines.put(line.rstrip("\n"))
        except ValueError:  # end() closed it
            pass
        self.lines.put(None)

    def line(self):
        return self.lines.get(timeout=LIMIT) or "its end"

    def says(self, *wanted):
        """The next lines, in any order."""
        self.test.assertEqual(sorted(self.line() for _ in wanted), sorted(wanted))

    def tell(self, line, answer):
        print(line, file=self.process.stdin, flush=True)
        self.says(answer)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


def made_by(test, script):
    """What a shell with a network namespace of its own says, which stays until the test ends."""
    return Process(test, "unshare", "-n" if AS_ROOT else "-Urn", "sh", "-e", "-c", script)


def inside(pid):
    """What to put in front of a command to run it in the namespace of a process."""
    return ("nsenter", f"--target={pid}", "--net", *(() if AS_ROOT else ("--user", "--preserve-credentials")))


def why_not():
    """Empty: a namespace can be made."""
    if os.environ.get("CI"):
        return ""
    if not shutil.which("ip") or not shutil.which("nsenter"):
        return "no ip or nsenter here"
    options = ("-n",) if AS_ROOT else ("-Urn",)
    tried = subprocess.run(["unshare", *options, "ip", "link", "add", "v1", "type", "veth"], capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


WHY_NOT = why_not()
