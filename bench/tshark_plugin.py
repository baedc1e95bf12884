#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""CPU time of tshark with its own MPA dissector and with Parley's plugin, on one file, and the FPDUs that each finds.

    bench/tshark_plugin.py build/dissectors/parley.so [--packets 200000] [--rounds 7]

A quarter of the connections each: one FPDU for each segment; the same with markers; FPDUs that straddle segments; the
same with markers. Messages are Sends, Writes and Reads of 16 to 1400 octets. Times are user and system time of the
whole process, median of the rounds; within a round each way is measured with both, one after the other and in turns
first, so that a busy machine slows both. The ratio is the median of the rounds' ratios. Good: none is above 1.
"""
import argparse
import os
import pathlib
import random
import resource
import struct
import subprocess
import sys
from statistics import median

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests/dissectors"
sys.path.insert(0, str(TESTS))
sys.dont_write_bytecode = True
SEGMENT = 1448  # octets of TCP payload where FPDUs straddle
TEMPLATE = 1000  # packets of a connection
READ_RESPONSE = 2  # RFC 5040 §4.2


def messages(wire, chance):
    """(side, ULPDU) without end: the traffic of one connection."""
    numbers, reads, place = [2, 1], 1, 0
    while True:
        kind, length = chance.randrange(4), chance.choice((16, 64, 200, 512, 1024, 1400))
        place += length
        if kind == 0:
            side = chance.randrange(2)
            yield side, wire.send(numbers[side], bytes(length))
            numbers[side] += 1
        elif kind == 3:
            yield wire.INITIATOR, wire.read_request(reads, length, sink=(7, place), source=(9, place))
            yield wire.RESPONDER, wire.read_response(7, place, bytes(length))
            reads += 1
        else:
            yield wire.INITIATOR, wire.write(0x55, place, bytes(length))


class Side:
    """What one side has framed and not yet sent. With `straddle` it sends full segments, else each FPDU in its own."""

    def __init__(self, connection, number, straddle):
        self.connection, self.number, self.straddle = connection, number, straddle
        self.held, self.made, self.sent, self.fpdus = b"", 0, 0, 0

    def put(self, ulpdu):
        octets = self.connection.framer[self.number].fpdu(ulpdu)
        self.held += octets
        self.made += len(octets)
        self.fpdus += 1
        while self.straddle and len(self.held) >= SEGMENT:
            self.send(SEGMENT)
        if not self.straddle:
            self.flush()

    def send(self, size):
        self.connection.send(self.number, self.held[:size])
        self.held = self.held[size:]
        self.sent += size

    def flush(self):
        if self.held:
            self.send(len(self.held))


def template(wire, markers, straddle):
    """The frames of one connection and how many FPDUs are in them. No rule is broken: findings take time, too."""
    capture, chance = wire.Capture(), random.Random(1)
    flags = wire.C | wire.M * markers
    a = capture.connect()
    a.set_up(wire.startup(wire.REQ, flags, 1), wire.startup(wire.REP, flags, 1), markers=(markers, markers))
    a.fpdu(wire.INITIATOR, wire.send(1))
    initiator, responder = sides = [Side(a, number, straddle) for number in (wire.INITIATOR, wire.RESPONDER)]
    source, answers = messages(wire, chance), []
    while len(capture.frames) < TEMPLATE:
        number, ulpdu = next(source)
        if ulpdu[1] & 0xF == READ_RESPONSE:
            answers.append((initiator.made, ulpdu))
        else:
            sides[number].put(ulpdu)
        while answers and answers[0][0] <= initiator.sent:  # its request is on the wire
            responder.put(answers.pop(0)[1])
    initiator.flush()
    for _, ulpdu in answers:
        responder.put(ulpdu)
    responder.flush()
    return [frame for _, frame in capture.frames], 1 + initiator.fpdus + responder.fpdus


def write_file(wire, path, packets):
    """Copies of the templates between other addresses. Returns packets and FPDUs."""
    kinds = [template(wire, markers, straddle) for straddle in (False, True) for markers in (False, True)]
    written = fpdus = 0
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
        for copy in range(max(4, packets // TEMPLATE)):
            frames, count = kinds[copy % 4]
            fpdus += count
            for frame in frames:
                address = bytes([10, copy >> 8, copy & 0xFF])
                out.write(struct.pack("<IIII", 10**9 + written // 1000, written % 1000 * 1000, len(frame), len(frame)))
                out.write(frame[:26] + address + frame[29:30] + address + frame[33:])
                written += 1
    return written, fpdus


def seconds(command, stdout=subprocess.DEVNULL):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"tshark_plugin: {command[-1]}: {done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plugin")
    parser.add_argument("--packets", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    os.environ["PARLEY_PLUGIN"] = str(pathlib.Path(arguments.plugin).resolve())
    import harness
    import wire
    with harness.Tshark(False) as stock, harness.Tshark(True) as ours:
        sides = {"built in": (stock, "iwarp_mpa.ulpdulength"), "plugin": (ours, "parley.mpa.ulpdu_length")}
        path = stock.folder / "bench.pcap"
        packets, fpdus = write_file(wire, path, arguments.packets)
        path.chmod(0o644)
        ways = {"tshark -r": lambda field: (), "tshark -Y": lambda field: ("-Y", field),
                "tshark -T fields": lambda field: ("-T", "fields", "-e", "frame.number", "-e", field),
                "tshark -V": lambda field: ("-V",)}
        times = {(way, name): [] for way in ways for name in sides}
        for turn in range(arguments.rounds):
            for way, options in ways.items():
                for name in sorted(sides, reverse=turn % 2):
                    tshark, field = sides[name]
                    times[way, name].append(seconds(tshark.command("-n", "-r", path, *options(field)))[0])
        ratios = {way: median(map(float.__truediv__, times[way, "plugin"], times[way, "built in"])) for way in ways}
        print(f"{packets} packets, {path.stat().st_size >> 20} MB, {fpdus} FPDUs\n")
        print(f"{'CPU seconds':18}{'built in':>12}{'plugin':>12}{'plugin / built in':>20}")
        for way in ways:
            built_in, plugin = median(times[way, "built in"]), median(times[way, "plugin"])
            print(f"{way:18}{built_in:12.2f}{plugin:12.2f}{ratios[way]:20.3f}")
        found = {}
        for name, (tshark, field) in sides.items():
            _, text = seconds(tshark.command("-n", "-r", path, "-T", "fields", "-e", field), subprocess.PIPE)
            found[name] = sum(line.count(",") + 1 for line in text.splitlines() if line)
        share = {name: f"{100 * count / fpdus:.1f} %" for name, count in found.items()}
        print(f"{'FPDUs decoded':18}{found['built in']:12}{found['plugin']:12}")
        print(f"{'of all':18}{share['built in']:>12}{share['plugin']:>12}")
        return 0 if found["plugin"] == fpdus and max(ratios.values()) <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
