# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Members of XRC domains as processes of their own: `parley xrc member`, driven by its commands; and the broker's protocol as
docs/xrc.md has it, for what no honest member would say."""
import json
import os
import queue
import signal
import socket
import struct
import subprocess
import threading
import time

from cli import LIMIT, PARLEY

ASKS = {"hello": 1, "open": 2, "close": 3, "create": 4, "enlist": 6, "unregister": 7, "query": 9, "srq": 13, "other": 15, "restore": 17, "list": 18,
        "kill": 19}
REQUEST = struct.Struct(">IBBHQHBBIIIQQQII3QQ16s")
ANSWER = struct.Struct(">IBBHQBBHBBHIIQQIIQ3QQ")
SHARED, CREATE = 4, 1


class Member:
    """A process, and what it printed."""

    def __init__(self, file, *options):
        self.process = subprocess.Popen([PARLEY, "xrc", "member", str(file), "--json", *map(str, options)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.told, self.answers = queue.Queue(), [], queue.Queue()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "told":
                self.told.append(event)
            else:
                self.answers.put(event)
        self.answers.put(None)

    @property
    def pid(self):
        return self.process.pid

    def next(self):
        found = self.answers.get(timeout=LIMIT)
        assert found is not None, "it ended: " + self.process.stderr.read()
        return found

    def ready(self):
        assert self.next()["event"] == "member"
        return self

    def post(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def say(self, line):
        self.post(line)
        answer = self.next()
        assert answer["event"] == "answer" and answer["to"] == line, answer
        return answer

    def said(self, line):
        return self.say(line)["said"]

    def receiver(self, *peer):
        """A TGT queue pair that receives; its name."""
        tgt = self.say(" ".join(["create", *map(str, peer)]))["tgt"]
        for state in ("init", "rtr"):
            assert self.said(f"modify {tgt} {state} 7") == "ok"
        return tgt

    def kinds(self, least=0):
        """What it was told, when there is so much."""
        end = time.monotonic() + LIMIT
        while len(self.told) < least and time.monotonic() < end:
            time.sleep(0.005)
        return [event["kind"] for event in self.told]

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.leave()

    def leave(self):
        """Ends as a process does at the end of its input."""
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        self.process.wait(timeout=LIMIT)
        self.thread.join(timeout=LIMIT)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()


def start_of(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        return int(file.read().rpartition(")")[2].split()[19])


class Raw:
    """A connection that says anything."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(LIMIT)
        self.socket.connect(path)
        self.number = 0

    @staticmethod
    def request(ask, number, flags=0, tgt=(0, 0), value=0, other=0, reason=0, peer=(0, 0), version=1, state=0):
        return REQUEST.pack(0x50585243, version, ask, REQUEST.size, number, flags, state, 0, reason, tgt[0], other, tgt[1], value, *peer,
                            os.getpid(), 0, 0, 0, 0, b"raw")

    def send(self, octets, *files):
        if files:
            socket.send_fds(self.socket, [octets], files)
        else:
            self.socket.send(octets)

    def answer(self):
        """The next answer: (about, refusal, flags, tgt); none: the broker hung up."""
        octets = None
        while True:
            try:
                octets = self.socket.recv(256)
            except ConnectionResetError:
                if octets == b"":
                    return None
                octets = b""  # of what was sent to a broker that hung up; what it had said before comes behind
                continue
            if not octets:
                return None
            if octets[5] == 64:
                fields = ANSWER.unpack(octets)
                return {"about": fields[6], "refusal": fields[5], "flags": fields[7], "tgt": (fields[12], fields[13]), "value": fields[14]}

    def ask(self, name, *files, **fields):
        self.number += 1
        try:
            self.send(self.request(ASKS[name], self.number, **fields), *files)
        except BrokenPipeError:
            pass  # The broker refused this connection at once; its answer is still unread.
        return self.answer()

    def join(self, file=None, start=None):
        """hello and open."""
        hello = self.ask("hello", value=start_of(os.getpid()) if start is None else start, other=1, reason=1)
        if hello is None or hello["refusal"] or file is None:
            return hello
        fd = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            return self.ask("open", fd, flags=SHARED | CREATE)
        finally:
            os.close(fd)

    def close(self):
        self.socket.close()
