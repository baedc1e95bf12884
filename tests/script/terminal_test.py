# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What differs on a terminal: verdicts in colour, and lines as long as it is wide. Elsewhere nothing does."""
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, body, main, run

CAPTURE = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", "siw_probe_startup.pcap")
RED, GREEN, YELLOW, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
COLOUR = re.compile(r"\x1b\[\d+m")


def on_terminal(*args, columns=80, **environment):
    """What a command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    known = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen([PARLEY, *map(str, args)], stdin=theirs, stdout=theirs, stderr=subprocess.DEVNULL,
                               env={**known, "TERM": "xterm", **environment})
    os.close(theirs)
    octets = b""
    try:
        while part := os.read(ours, 65536):
            octets += part
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    process.wait(timeout=LIMIT)
    return octets.decode().replace("\r\n", "\n")


class Colour(CliTest):
    def test_verdicts_are_painted_on_a_terminal(self):
        text = on_terminal("pcap", "check", CAPTURE)
        self.assertIn(f"  {RED}error{PLAIN}      frame ", text)
        self.assertIn(f"  established, {GREEN}passed{PLAIN}\n", text)
        self.assertIn(f"  {YELLOW}warning{PLAIN}    frame ", text)
        self.assertIn(f"{RED}error{PLAIN}: ", on_terminal("pcap", "ladder", "-n", 5, CAPTURE))
        self.assertIn(f"{GREEN}ok{PLAIN}     lossy_handshake ", on_terminal("sim", "run", "lossy_handshake"))
        self.assertIn(f": 1 {GREEN}passed{PLAIN}, 0 failed", on_terminal("sim", "run", "lossy_handshake", "no_listener")
                      .replace("2 \x1b", "1 \x1b"))

    def test_and_nothing_but_colour_is_added(self):
        for args in (("pcap", "check", "--width", 100, CAPTURE), ("pcap", "ladder", "--width", 100, "-n", 5, CAPTURE),
                     ("sim", "run", "lossy_handshake")):
            painted = on_terminal(*args)
            self.assertRegex(painted, COLOUR)
            self.assertEqual(body(COLOUR.sub("", painted)), body(run(*args).out), args)

    def test_not_in_a_pipe_unless_asked(self):
        self.assertNotIn("\x1b", run("pcap", "check", CAPTURE).out)
        self.assertIn(RED, run("pcap", "check", "--color", "always", CAPTURE).out)
        self.assertNotIn("\x1b", run("pcap", "check", "--color", "always", "--json", CAPTURE).out)
        self.assertNotIn("\x1b", run("pcap", "check", "--color", "always", "--junit", "-", CAPTURE).out)
        self.assertNotIn("\x1b", run("pcap", "ladder", "--color", "always", "--html", "-", CAPTURE).out)
        self.refused(run("pcap", "check", "--color", "blue", CAPTURE), 2, "--color")

    def test_not_on_a_terminal_that_is_told_so(self):
        self.assertNotRegex(on_terminal("pcap", "check", "--color", "never", CAPTURE), COLOUR)
        self.assertNotRegex(on_terminal("pcap", "check", CAPTURE, NO_COLOR="1"), COLOUR)
        self.assertNotRegex(on_terminal("pcap", "check", CAPTURE, TERM="dumb"), COLOUR)
        self.assertRegex(on_terminal("pcap", "check", CAPTURE, NO_COLOR=""), COLOUR)
        self.assertRegex(on_terminal("pcap", "check", "--color", "always", CAPTURE, NO_COLOR="1"), COLOUR)


class Width(CliTest):
    def widest(self, text):
        # The lines of a run, of a file and of a connection are one sentence each, and not wrapped.
        lines = (COLOUR.sub("", line) for line in body(text).splitlines())
        return max(len(line) for line in lines if not line.startswith(("ok  ", CAPTURE)) and " -> " not in line)

    def test_lines_are_as_long_as_the_terminal_is_wide(self):
        for args in (("pcap", "ladder", "-n", 5, CAPTURE), ("sim", "run", "lossy_handshake", "--ladder")):
            for columns in (72, 132):
                self.assertEqual(self.widest(on_terminal(*args, columns=columns)), columns, (args, columns))
        self.assertLessEqual(self.widest(on_terminal("pcap", "check", CAPTURE, columns=72)), 72)
        self.assertGreater(self.widest(on_terminal("pcap", "check", CAPTURE, columns=160)), 140)
        for args in (("sim", "list"), ("quirks",)):
            self.assertLessEqual(self.widest(on_terminal(*args, columns=72)), 72, args)

    def test_what_is_asked_for_goes_before_it(self):
        self.assertEqual(self.widest(on_terminal("pcap", "ladder", "--width", 90, CAPTURE, columns=72)), 90)

    def test_elsewhere_it_is_as_ever(self):
        self.assertEqual(self.widest(run("pcap", "ladder", "-n", 5, CAPTURE).out), 100)
        self.assertEqual(body(run("pcap", "check", CAPTURE).out), body(run("pcap", "check", "--width", 100, CAPTURE).out))


if __name__ == "__main__":
    main()
