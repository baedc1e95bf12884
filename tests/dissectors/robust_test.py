# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The plugin survives what it may meet: captures cut at every octet, octets changed at random, nonsense.

A tshark that starts for each case would take hours. So thousands of cases are put into one file, each as a connection
between addresses of its own, and one process reads them all.

PARLEY_SEED    another seed for what is random (of randpkt's files only the count is known before: it takes no seed)
PARLEY_KEEP    a folder for the files on which a run failed
PARLEY_THIN    of the captures, the cuts, the changed copies and what is drawn only every nth: beside a run of all under
               AddressSanitizer, more finds nothing more
"""
import itertools
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import unittest

import harness
import ib_wire as ib
import neg_wire
from wire import C, INITIATOR, M, REP, REQ, RESPONDER, S, Capture, enhanced, startup, terminate

SEED = int(os.environ.get("PARLEY_SEED", "20071"))
THIN = int(os.environ.get("PARLEY_THIN", "1"))
SMALL = 700        # connections with at most so many octets are cut at every octet, longer ones at every ninth besides
FRAMES_MAX = 14    # of a connection: what comes later repeats what came before
HEADERS = 54       # Ethernet, IPv4, TCP
# Of other protocols' trees the first line each, which is where an exception shows: their text is slow.
TEXT = ("-O", "parley,parley.ib,parley.ibcm,parley.mad,parley_neg")
JSON = ("-2", "-T", "json")
TREE = ("-T", "fields", "-e", "parley.mpa.fpdu")  # the whole tree, but not its text, which is slow
TAP = ("-2", "-q", "-z", "parley,conn", "-z", "expert")
NOT_OURS = ("--disable-protocol", "rpcordma")  # it takes perftest over RoCE for its own, and fails an assertion of Wireshark's
ROCE_TREE = ("-T", "fields", "-e", "parley.ib.icrc.status", "-e", "parley.ibcm.message")
ROCE_UNCHECKED = ("-o", "parley.ib.icrc:FALSE")
WRONG = re.compile("Dissector bug|Malformed Packet: Parley")
LITTLE = 1 << 18  # octets of a capture whose text is no trouble to keep; tables are short
FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)


def frames_of(octets):
    """[(octets, length on the wire)] of a classic pcap file in either order."""
    order = "<" if octets[:1] in (b"\xd4", b"\x4d") else ">"
    frames, place = [], 24
    while place + 16 <= len(octets):
        kept, length = struct.unpack(order + "II", octets[place + 8:place + 16])
        frames.append((octets[place + 16:place + 16 + kept], length))
        place += 16 + kept
    return frames


def ends(frame):
    """A key of the TCP connection, or None."""
    if frame[12:14] == b"\x08\x00" and frame[23:24] == b"\x06" and frame[14] == 0x45:
        return frozenset((frame[26:30] + frame[34:36], frame[30:34] + frame[36:38]))
    if frame[12:14] == b"\x86\xdd" and frame[20:21] == b"\x06":
        return frozenset((frame[22:38] + frame[54:56], frame[38:54] + frame[56:58]))
    return None


def connections(path):
    """The frames of each TCP connection of a capture."""
    found = {}
    for octets, length in frames_of(path.read_bytes()):
        found.setdefault(ends(octets), []).append((octets, length))
    return [frames[:FRAMES_MAX] for key, frames in found.items() if key]


def payload_offset(frame):
    tcp = 34 if frame[12:14] == b"\x08\x00" else 54
    return tcp + (frame[tcp + 12] >> 4) * 4


def renamed(frame, number):
    """The frame between two other addresses; checksums of IP and TCP are not judged."""
    octets = bytearray(frame)
    for place in (26, 30) if frame[12:14] == b"\x08\x00" else (22, 38):
        if len(octets) >= place + 4:
            octets[place:place + 3] = bytes([10 + (number >> 16), number >> 8 & 0xFF, number & 0xFF])
    return bytes(octets)


def shortened(frame, size):
    """A segment that ends at size, which IP knows."""
    octets = bytearray(frame[:size])
    if octets[12:14] == b"\x08\x00":
        octets[16:18] = struct.pack(">H", size - 14)
    else:
        octets[18:20] = struct.pack(">H", size - 54)
    return bytes(octets)


class Crowd:
    """Many connections in one file of classic pcap, each between addresses of its own."""

    def __init__(self):
        self.out, self.members, self.frames = [FILE_HEADER], 0, 0

    def add(self, frames):
        self.members += 1
        for octets, length in frames:
            self.frames += 1
            octets = renamed(octets, self.members)
            time = 10**9 + self.frames // 1000, self.frames % 1000 * 1000
            self.out.append(struct.pack("<IIII", *time, len(octets), length))
            self.out.append(octets)

    def octets(self):
        return b"".join(self.out)


def cuts(frames, whole):
    """Each way to cut one segment of a connection. One more segment comes after it: where is its FPDU?"""
    for index, (octets, length) in enumerate(frames):
        begin = payload_offset(octets)
        for size in range(begin, len(octets)):
            near = size - begin < 40 or len(octets) - size < 12
            if whole or near or size % 9 == 0:
                yield index, size


def complaint(status, found, said):
    """Of a run that ended well: nothing."""
    return f"exit status {status}\n{found}\n{said[:3000]}" if status or found or harness.CRASH.search(said) else ""


class Robust(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.tshark = harness.Tshark(True).__enter__()
        cls.addClassCleanup(cls.tshark.__exit__)

    def survives(self, name, octets, *ways, options=()):
        path = self.tshark.file(name, octets)
        for way in ways:
            with self.subTest(file=name, way=way):
                complaint = self.read(path, (*options, *way))
                if complaint and os.environ.get("PARLEY_KEEP"):
                    shutil.copy(path, pathlib.Path(os.environ["PARLEY_KEEP"]) / name)
                self.assertEqual(complaint, "")

    def read(self, path, options):
        """What is wrong, in words."""
        if "-q" in options or path.stat().st_size < LITTLE:
            try:
                done = self.tshark.run("-n", "-r", path, *NOT_OURS, *options)
            except subprocess.TimeoutExpired:
                return f"no end after {harness.LIMIT} s"
            found = "\n".join(itertools.islice((line for line in done.stdout.split("\n") if WRONG.search(line)), 3))
            return complaint(done.returncode, found, done.stderr)
        return self.read_much(path, options)

    def read_much(self, path, options):
        """The text of -O is gigabytes: grep looks at it as it comes."""
        command = self.tshark.command("-n", "-r", path, *NOT_OURS, *options)
        errors = self.tshark.folder / "stderr"
        with errors.open("w") as stderr, subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr) as run, \
                subprocess.Popen(["grep", "-a", "-m", "3", "-E", WRONG.pattern],
                                 stdin=run.stdout, stdout=subprocess.PIPE) as grep:
            run.stdout.close()
            try:
                found = grep.communicate(timeout=harness.LIMIT)[0].decode(errors="replace")
                status = run.wait(timeout=harness.LIMIT)
            except subprocess.TimeoutExpired:
                run.kill()
                grep.kill()
                return f"no end after {harness.LIMIT} s"
        return complaint(status, found, errors.read_text(errors="replace"))

    def test_every_capture_of_the_repository(self):
        for path in harness.captures()[::THIN]:
            self.survives(path.name, path.read_bytes(), TEXT, TAP)

    def test_captures_cut_at_every_octet(self):
        for kind in "snapped", "short":
            crowd = Crowd()
            for path in harness.captures():
                for frames in connections(path):
                    small = sum(len(octets) - payload_offset(octets) for octets, _ in frames) <= SMALL
                    for index, size in itertools.islice(cuts(frames, small), 0, None, THIN):
                        octets, length = frames[index]
                        cut = (octets[:size], length) if kind == "snapped" else (shortened(octets, size), size)
                        crowd.add([*frames[:index], cut, *frames[index + 1:index + 2]])
            self.assertGreater(crowd.members, 10_000 // THIN)
            self.survives(f"cut-{kind}.pcap", crowd.octets(), *((TEXT, TAP) if kind == "snapped" else (TREE,)))

    def test_octets_changed_at_random(self):
        crowd = Crowd()
        for path in harness.captures():
            for frames in connections(path):
                for _ in range(max(1, 3 // THIN)):
                    crowd.add(frames)
        whole = self.tshark.file("whole.pcap", crowd.octets())
        for seed, offset, rate in (1, HEADERS, 0.002), (2, HEADERS, 0.02), (3, HEADERS, 0.2), (4, 0, 0.01):
            changed = self.tshark.folder / f"changed-{seed}.pcap"
            subprocess.run(["editcap", "-F", "pcap", "-E", str(rate), "-o", str(offset), "--seed", str(SEED + seed),
                            whole, changed], check=True, capture_output=True)
            self.survives(changed.name, changed.read_bytes(), TEXT if seed % 2 else JSON, TAP)

    def test_fpdus_with_anything_in_them(self):
        """Right frames, CRCs and markers around ULPDUs of random octets: changed octets seldom get past the CRC."""
        chance = random.Random(SEED)
        capture = Capture()
        for number in range(2000 // THIN):
            markers = (chance.random() < 0.3, chance.random() < 0.3)
            revision = chance.choice((1, 2))
            words = enhanced(chance.randrange(0x4000), chance.randrange(4), chance.choice(("", "AC", "AD", "ABCD")))
            flags = (C | S if revision == 2 else C)
            private = (words if revision == 2 else b"") + chance.randbytes(chance.choice((0, 0, 8, 32, 200)))
            a = capture.connect(ports=(1024 + number, chance.choice((7471, 5445, 4420))))
            a.set_up(startup(REQ, flags | M * markers[1], revision, private),
                     startup(REP, flags | M * markers[0], revision, private), markers=markers)
            for _ in range(chance.randrange(1, 12)):
                a.fpdu(chance.choice((INITIATOR, RESPONDER)), ulpdu_of(chance))
        self.survives("anything.pcap", capture.octets(), TEXT, JSON, TAP)

    def test_negotiations_with_anything_in_them(self):
        """Headers that are nearly right, items that are cut anywhere, in segments of any length and order."""
        chance = random.Random(SEED)
        capture = Capture()
        for number in range(500 // THIN):
            a = capture.connect(ports=(20000 + number, 7177))
            if chance.random() < 0.8:
                a.handshake()
            for side, said in neg_wire.Talk(chance).bursts:
                octets = bytearray(b"".join(said))
                while chance.random() < 0.3:
                    octets[chance.randrange(len(octets))] = chance.choice((0, 1, 4, 0x80, 0xFF, chance.randrange(256)))
                if chance.random() < 0.1:
                    octets += octets[:chance.randrange(len(octets))]
                if chance.random() < 0.1:
                    a.skip_octets(side, chance.randrange(40))
                neg_wire.send(a, side, bytes(octets), chance, impaired=chance.random() < 0.3)
            if chance.random() < 0.5:
                a.close(chance.choice((INITIATOR, RESPONDER)))
        self.survives("negotiations.pcap", capture.octets(), TEXT, JSON, TAP)
        self.survives("negotiations-cut.pcap", capture.octets(snap=HEADERS + 30), TEXT, TAP)
        everything = "-d", "tcp.port==0-65535,parley_neg"
        self.survives("negotiations-forced.pcap", capture.octets(), TEXT, TAP, options=everything)

    def test_negotiations_in_private_data_with_anything_in_them(self):
        chance = random.Random(SEED)
        capture = Capture()
        for number in range(1000):
            a = capture.connect(ports=(20000 + number, 7471)).handshake()
            for side, key in (INITIATOR, REQ), (RESPONDER, REP):
                private = bytearray(neg_wire.hello() + neg_wire.turn(1, 1, neg_wire.qp_info(more=neg_wire.item(11, bytes(20)))))
                for _ in range(chance.randrange(4)):
                    private[chance.randrange(len(private))] = chance.choice((0, 1, 0x80, 0xFF, chance.randrange(256)))
                a.send(side, startup(key, C, 1, bytes(private) + bytes(chance.randrange(9))))
        for options in (), ("-o", "parley.private_data:neg"):
            self.survives("private.pcap", capture.octets(), TEXT, TAP, options=options)

    def test_roce_cut_at_every_octet(self):
        """Not captured to its end, and shorter on the wire; the ICRC of the latter is wrong, so it is not asked for."""
        snapped, short = ib.Frames(), ib.Frames()
        for frame in itertools.islice(roce_kinds(), 0, None, THIN):
            place = 34 if frame[12:14] == b"\x08\x00" else 54 if frame[12:14] == b"\x86\xdd" else None
            for size in range(14, len(frame)):
                snapped.add(frame, captured=size)
                if place and size >= place + 8:
                    short.add(shortened(frame[:place + 4] + struct.pack(">H", size - place) + frame[place + 6:], size))
        self.assertGreater(short.count, 8_000 // THIN)
        self.survives("roce-snapped.pcap", snapped.octets(), TEXT)
        self.survives("roce-short.pcap", short.octets(), ROCE_TREE, options=ROCE_UNCHECKED)

    def test_roce_with_anything_in_it(self):
        """Octets changed at random behind the addresses, and messages of the CM with anything in them."""
        chance, capture = random.Random(SEED), ib.Frames()
        for frame in itertools.islice(roce_kinds(), 0, None, THIN):
            for _ in range(20):
                octets = bytearray(frame)
                for _ in range(chance.choice((1, 1, 3, 20))):
                    octets[chance.randrange(14 if chance.random() < 0.1 else 34, len(octets))] = chance.choice((0, 1, 0x40, 0xFF, chance.randrange(256)))
                capture.add(bytes(octets))
        for _ in range(1500 // THIN):
            body = bytearray(chance.randbytes(232))
            body[:8] = struct.pack(">II", chance.randrange(6), chance.randrange(6))  # a few IDs, so that they meet
            packet = ib.cm(chance.randrange(0x10, 0x1C), octets=bytes(body), class_version=chance.choice((2, 2, 2, 1)), method=chance.choice((3, 3, 3, 0x83)))
            capture.add(chance.choice((ib.v2, ib.v1))(packet, *chance.choice(((ib.A, ib.B), (ib.B, ib.A)))))
        no_info = "-o", 'gui.column.format:"No.","%m"'
        self.survives("roce-anything.pcap", capture.octets(), (*TEXT, *no_info), TAP, options=ROCE_UNCHECKED)

    def test_random_packets(self):
        path = self.tshark.folder / "random.pcap"
        for kind in "tcp", "ip", "ipv6":
            subprocess.run(["randpkt", "-t", kind, "-c", "2000", path], check=True, capture_output=True)
            for protocol in "parley", "parley_neg":
                everything = "-d", f"tcp.port==0-65535,{protocol}"
                self.survives(f"random-{kind}.pcap", path.read_bytes(), TEXT, TAP, options=everything)


def roce_kinds():
    """One captured frame of each opcode and message of the CM, IPv4 and IPv6, and made ones of what was not captured."""
    kinds = {}
    for path in sorted((harness.SOURCE / "tests/captures/roce").glob("rxe*.pcap")):
        for octets, _ in frames_of(path.read_bytes()):
            begin = 34 if octets[12:14] == b"\x08\x00" else 54
            if octets[begin + 2:begin + 4] == b"\x12\xb7" and octets[begin - 11 if begin == 34 else 20] == 17:
                kind = octets[begin + 45] if octets[begin + 8] == 0x64 and octets[begin + 13:begin + 16] == b"\0\0\1" else 0
                kinds.setdefault((begin, octets[begin + 8], kind), octets)
    made = [ib.cm(kind, **{field.replace(".", "__"): 1 for field in ib.FIELDS[kind]}) for kind in ib.FIELDS]
    made += [ib.data(ib.XRC | low, 0x11, payload=b"12345") for low in ib.OPERATIONS] + [ib.cnp(0x11)]
    return [*kinds.values(), *map(ib.v2, made[::2]), *map(ib.v1, made[1::2])]


def ulpdu_of(chance):
    """A ULPDU whose header is nearly right: opcode, queue and control bits from few values, the rest from all."""
    control = chance.choice((0x41, 0x41, 0x01, 0xC1, 0xC1, 0x81, chance.randrange(256)))
    opcode = 0x40 | chance.randrange(16)
    rest = chance.randbytes(chance.choice((0, 4, 8, 12, 16, 28, 44, 52, 68, chance.randrange(900))))
    if control & 0x80 or chance.random() < 0.1:
        return bytes([control, opcode]) + chance.randbytes(12) + rest
    if opcode == 0x47:
        return terminate(chance.randrange(256), chance.randrange(8), chance.randrange(256), rest)
    msn = chance.choice((1, 2, 3, chance.randrange(2**32)))
    offset = chance.choice((0, 0, len(rest), chance.randrange(2**32)))
    return struct.pack(">BBIIII", control, opcode, 0, chance.randrange(5), msn, offset) + rest


if __name__ == "__main__":
    unittest.main()
