# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Static trace points: those of docs/operations.md are in the program's notes, with as many arguments, and no others; and
a program comes to them."""
import os
import re
import shutil
import signal
import subprocess

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, main

BUILT_IN = os.environ.get("PARLEY_PROBES", "1") != "0"  # built with sys/sdt.h
NOTE = re.compile(r"Provider: parley\n\s+Name: (\S+)\n\s+Location: 0x([0-9a-f]+),.*\n\s+Arguments:(.*)")
SEGMENT = re.compile(r"^\s+LOAD\s+0x([0-9a-f]+) 0x([0-9a-f]+) 0x[0-9a-f]+ 0x([0-9a-f]+) ", re.MULTILINE)
NOP, BREAKPOINT = 0x90, 0xCC


def readelf(option):
    return subprocess.run(["readelf", option, "-W", PARLEY], capture_output=True, text=True, check=True,
                          env={**os.environ, "LC_ALL": "C"}).stdout


def in_the_program():
    """{name: numbers of arguments}, by what readelf says of .note.stapsdt."""
    found = {}
    for name, _, arguments in NOTE.findall(readelf("-n")):
        found.setdefault(name, set()).add(len(arguments.split()))  # "8@%rdx -4@$1 8@-16(%rbp)"
    return found


def in_the_docs():
    with open(os.path.join(SOURCE_DIR, "docs", "operations.md"), encoding="utf-8") as file:
        table = file.read().partition("| Trace point |")[2]
    return {name: {len(arguments.split(","))} for name, arguments in re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE)}


class Probes(CliTest):
    def test_the_program_has_those_of_the_docs(self):
        self.assertGreater(len(in_the_docs()), 10)
        self.assertEqual(in_the_program(), in_the_docs() if BUILT_IN else {})

    def broken_at(self, name):
        """A copy of the program that a debugger would stop at the trace point; without one it is killed there."""
        path = self.path(f"parley-{name}")
        shutil.copy(PARLEY, path)
        segments = [[int(number, 16) for number in segment] for segment in SEGMENT.findall(readelf("-l"))]
        places = [int(at, 16) for found, at, _ in NOTE.findall(readelf("-n")) if found == name]
        self.assertTrue(places, name)
        with open(path, "r+b") as file:
            for place in places:
                offset = next(place - address + begin for begin, address, size in segments
                              if address <= place < address + size)
                file.seek(offset)
                self.assertEqual(file.read(1)[0], NOP, name)
                file.seek(offset)
                file.write(bytes([BREAKPOINT]))
        return path

    def test_a_program_comes_to_them(self):
        nobody = ("127.0.0.1:1",)
        again = (*nobody, "--rounds", "2", "--back-off", "1ms")
        for name, listen, connect in (("connect_begin", None, nobody), ("state", None, nobody), ("failed", None, nobody),
                                      ("retrying", None, again), ("timer_expired", None, again), ("mpa_frame", (), ()),
                                      ("established", (), ()), ("disconnected", (), ()), ("rejected", ("--reject",), ()),
                                      ("lost", (), ("--send", "1")), ("terminate", (), ("--send", "1"))):
            if not BUILT_IN:
                break
            with self.subTest(name):
                if listen is not None:
                    _, port = self.listener("--count", 1, *listen)
                    connect = (f"127.0.0.1:{port}", *connect)
                done = subprocess.run([self.broken_at(name), "connect", *connect], capture_output=True, timeout=LIMIT,
                                      check=False)
                self.assertEqual(done.returncode, -signal.SIGTRAP, done)

    def test_a_listener_comes_to_its_own(self):
        for name in ("accept_begin", "decided"):
            if not BUILT_IN:
                break
            with self.subTest(name):
                with subprocess.Popen([self.broken_at(name), "listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True,
                                      stderr=subprocess.DEVNULL) as peer:
                    port = re.search(r":(\d+)$", peer.stdout.readline())[1]
                    subprocess.run([PARLEY, "connect", f"127.0.0.1:{port}", "--quiet"], capture_output=True,
                                   timeout=LIMIT, check=False)
                    self.assertEqual(peer.wait(timeout=LIMIT), -signal.SIGTRAP)


if __name__ == "__main__":
    main()
