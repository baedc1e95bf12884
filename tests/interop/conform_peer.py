# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""In guest b: a fresh stock rping for each case of `parley conform`.

Each TCP connection to PORT brings one line, "server N CASE" or "client N CASE": an rping is started that listens on port N,
or connects to guest a's port N. The answer is "ready", or what went wrong. The rping is killed when a further line comes or
the connection ends; this side closes it when that is done. A fresh one each time, because rping's persistent server takes no
more connections once a few were left before they were established.

The case is written to the console, where the kernel writes too when it dies: so the host sees in which case that was.
"""
import socket
import subprocess
import sys
import time

from guest_calls import ADDRESS, end_by_force, listening

PORT = 8


class Peer:
    def __init__(self):
        self.process = None

    def end(self):
        if self.process:
            end_by_force(self.process)

    def start(self, words):
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)

    def server(self, port):
        self.start(["rping", "-s", "-P", "-a", ADDRESS["b"][4], "-p", port])
        deadline = time.monotonic() + 15
        while not listening(int(port)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                return f"rping does not listen on port {port}"
            time.sleep(0.01)
        return "ready"

    def client(self, port):
        self.start(["rping", "-c", "-a", ADDRESS["a"][4], "-p", port, "-C", "1"])
        return "ready"


def console(line):
    with open("/dev/console", "w", encoding="utf-8") as out:
        out.write(f"\n{line}\n")


def main():
    peer = Peer()
    with socket.create_server(("0.0.0.0", PORT)) as server:
        while True:
            stream, _ = server.accept()
            with stream:
                lines = stream.makefile("r", encoding="ascii")
                role, port, case = (lines.readline().split() + ["", "", ""])[:3]
                console(f"conform: case {case}")
                answer = getattr(peer, role)(port) if role in ("server", "client") else f"no role {role!r}"
                try:
                    stream.sendall((answer + "\n").encode())
                    lines.readline()
                except OSError:
                    pass  # the asker is gone, which is as good
                peer.end()


if __name__ == "__main__":
    sys.exit(main())
