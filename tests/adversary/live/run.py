#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Parley's commands on real sockets against a strict peer: each octet that Parley sends is held to the RFCs, valid behaviour of
any kind is taken without complaint, and one planted fault is answered as the RFCs prescribe.

    tests/adversary/live/run.py --parley build/bin/parley --valid 1..1000
    tests/adversary/live/run.py --parley build/bin/parley --faults 1..1000
    tests/adversary/live/run.py --parley build/bin/parley --valid 77 --verbose

A seed says everything that the peer does; how the two processes are scheduled it does not. Standard library only.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
os.environ["PARLEY_CONFIG"] = ""  # no settings of the machine that this runs on
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "dissectors")]
import faults  # noqa: E402
import programs  # noqa: E402
import startup  # noqa: E402
import wire  # noqa: E402
from strict import LIMIT, Ended, Line, Terminated, Wrong, demand  # noqa: E402

SEGMENT_SIZES = (None, None, 536, 1000, 1460, 4096)
STYLES = ("set up",) * 12 + ("reject", "again")


class Command:
    """A command of Parley in the background, with --json."""

    def __init__(self, parley, words):
        self.words = [parley, *map(str, words), "--json"]
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(self.words, stdout=self.out, stderr=self.err)

    @staticmethod
    def read(file):
        return os.pread(file.fileno(), 1 << 24, 0).decode()  # the command writes at the file's own position

    def said(self):
        lines = self.read(self.out).split("\n")
        return [json.loads(line) for line in lines[:-1]]

    def port(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            for event in self.said():
                if event["event"] == "listening":
                    return event["port"]
            if self.process.poll() is not None:
                break
            time.sleep(0.002)
        raise Wrong(f"it does not listen: {self.complaint()}")

    def await_event(self, *names):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            if any(event["event"] in names for event in self.said()):
                return
            if self.process.poll() is not None and not any(event["event"] in names for event in self.said()):
                break
            time.sleep(0.002)
        raise Wrong(f"no event of {names}")

    def complaint(self):
        return self.read(self.err).strip()

    def finish(self, stop=False):
        if stop:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            raise Wrong("it does not end") from None

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.out.close()
        self.err.close()


class Run:
    """One seed: a command, a connection, and what came of it."""

    def __init__(self, parley, seed, planted, keep=None):
        self.more = ["--pcapng", f"{keep}/{'fault' if planted else 'valid'}-{seed}.pcapng"] if keep else []
        self.draw = random.Random(f"{'fault' if planted else 'valid'} {seed}")
        self.fault = faults.draw(self.draw, seed) if planted else None
        name = self.draw.choice(sorted(self.fault.programs if planted else programs.PROGRAMS))
        self.program = programs.PROGRAMS[name](self.draw)
        if planted:
            self.fault.prepare(self.program)
        self.set_up = startup.SetUp(self.draw, self.program.peer_is_initiator, name, **(self.fault.wish if planted else {}))
        self.size = self.draw.choice(SEGMENT_SIZES)
        self.style = self.draw.choice(STYLES) if not planted else "set up"
        self.parley, self.command, self.socket, self.listener = parley, None, None, None

    def words(self):
        return " ".join(map(str, self.command.words[1:])) if self.command else "not started"

    def connect(self):
        """A connection with Parley, which is started for it."""
        options = self.set_up.options()
        if self.program.peer_is_initiator:
            if self.style == "reject" and self.program.command()[0] == "listen":
                options.append("--reject")
            self.command = Command(self.parley, [*self.program.command(), *options, *self.more])
            self.socket = socket.socket()
            self.limit(self.socket)
            port = self.command.port()
            self.begun = time.monotonic()  # no timer of Parley's for this connection has begun yet
            self.socket.connect(("127.0.0.1", port))
            return self.socket
        self.listener = socket.socket()
        self.limit(self.listener)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.listener.settimeout(LIMIT)
        port = str(self.listener.getsockname()[1])
        words = [str(word).replace("PORT", port) for word in self.program.command()]
        self.begun = time.monotonic()
        self.command = Command(self.parley, [*words, *options, *self.more])
        self.socket = self.listener.accept()[0]
        return self.socket

    def reject(self, connection):
        """One side rejects the other: TCP is closed, and the private data comes through."""
        line = self.line(connection)
        if self.program.peer_is_initiator:
            line.send(self.set_up.request())
            self.set_up.judge_rejection(line)
        else:
            request = self.set_up.judge_request(line)
            reply = self.set_up.reply(request)
            line.send(reply[:16] + bytes([reply[16] | wire.R]) + reply[17:], whole=True)
        line.ending()
        line.close()
        code = self.command.finish()
        if self.program.peer_is_initiator:
            return demand(code == 0, f"exit {code} for a rejection that was asked for")
        rejected = [event for event in self.command.said() if event["event"] == "rejected"]
        demand(rejected and rejected[0]["private_data"]["hex"] == self.set_up.own_data.hex(), f"{rejected}")
        return demand(code == 1 and "rejected" in self.command.complaint(), f"exit {code}")

    def again(self, connection):
        """A responder that knows revision 1 only closes; Parley tries again with that. RFC 6581 §10."""
        line = self.line(connection)
        self.set_up.judge_request(line)
        if self.draw.random() < 0.5:
            line.reset()
        else:
            line.close()
        self.socket = self.listener.accept()[0]
        self.set_up.fall_back()
        return self.socket

    def line(self, connection):
        return Line(connection, self.draw)

    def limit(self, sock):
        if self.size:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, self.size)

    def carry_out(self):
        connection = self.connect()
        if self.fault and self.fault.in_set_up:
            return self.fault.carry_out(self, connection)
        if self.style == "reject" and self.program.peer_is_initiator == (self.command.words[1] == "listen"):
            return self.reject(connection)
        if self.style == "again" and not self.program.peer_is_initiator and self.set_up.revision == 2:
            connection = self.again(connection)
        peer = self.set_up.as_initiator(connection) if self.program.peer_is_initiator else self.set_up.as_responder(connection)
        at = self.draw.randint(0, self.program.rounds)

        def pause(number):
            if self.fault and number == min(at, self.fault.latest(self.program)):
                raise faults.Now()

        try:
            self.program.run(peer, pause)
        except faults.Now:
            peer.all_responses()
            return self.fault.carry_out(self, peer)
        self.end(peer)
        return self.judge_end()

    def end(self, peer):
        """Either side ends its half first, or both at once. What was asked for before is still answered: RFC 5044 §7.2."""
        order = self.draw.choice(("after", "before")) if self.program.tells_end else "before"
        if order == "before":
            if not self.program.tells_end:
                for _ in range(min(peer.reads, self.draw.choice((0, 0, 1, 5)))):
                    peer.read((self.draw.getrandbits(32), 0), 0)
            peer.line.fin()
            peer.all_responses()
        ending = peer.line.ending()
        demand(ending == "FIN", f"{ending} at the end")
        peer.line.close()

    def judge_end(self):
        code = self.command.finish()
        said = self.command.said()
        down = [event for event in said if event["event"] == "disconnected"]
        demand(len(down) == 1 and down[0]["graceful"], f"a valid peer is accused: {down or said}")
        demand(code == 0, f"exit {code}: {self.command.complaint()}")

    def close(self):
        for sock in (self.socket, self.listener):
            if sock:
                sock.close()
        if self.command:
            self.command.close()


def one(job):
    """What is wrong with that seed; empty: nothing."""
    parley, seed, planted, verbose, keep = job
    run = None
    try:
        run = Run(parley, seed, planted, keep)
        run.carry_out()
        return seed, run.fault.name if planted else "", ""
    except (Wrong, Ended, Terminated, OSError) as error:
        words = f"{type(error).__name__}: {error}"
        if isinstance(error, Terminated):
            words = f"Terminate {error.args[0].payload.hex()}"
        if verbose:
            words += "\n" + traceback.format_exc()
        said = run.command.said()[-3:] if run.command else []
        words += f"\n  {run.words()}\n  said {json.dumps(said)}\n  {run.command.complaint() if run.command else ''}"
        return seed, run.fault.name if run.fault else "", words
    except Exception:
        return seed, "", f"{traceback.format_exc()}\n  {run.words() if run else ''}"
    finally:
        if run:
            run.close()


def seeds(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parley", required=True)
    parser.add_argument("--valid", type=seeds, default=range(0))
    parser.add_argument("--faults", type=seeds, default=range(0))
    parser.add_argument("--jobs", type=int, default=4, help="connections at once")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--keep", metavar="DIR", help="where a capture of each connection is left, for parley pcap check")
    options = parser.parse_args()
    jobs = [(options.parley, seed, planted, options.verbose, options.keep)
            for planted, all_ in ((False, options.valid), (True, options.faults)) for seed in all_]
    wrong, seen = 0, set()
    with multiprocessing.Pool(options.jobs) as pool:
        for (seed, name, words), job in zip(pool.imap(one, jobs), jobs):
            seen.add(name)
            if words:
                wrong += 1
                print(f"{'--faults' if job[2] else '--valid'} {seed} {name}: {words}", flush=True)
    missing = faults.names() - seen if len(options.faults) >= len(faults.names()) else set()
    print(f"{len(jobs)} connections, {wrong} wrong" + (f"; never planted: {sorted(missing)}" if missing else ""))
    sys.exit(1 if wrong or missing else 0)


if __name__ == "__main__":
    main()
