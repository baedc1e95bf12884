# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Cuts the one capture of a run into one per attempt, and reads from it what the peer really did."""
import struct
from dataclasses import dataclass, field

PARLEY_MAC = bytes.fromhex("525400000001")  # guest a; the lab gives guest b ...02
REPLY_KEY = b"MPA ID Rep Frame"
REJECT = 0x20   # in the flags octet of the Reply
SLEEP_S = 1.5   # longer than the retransmissions of a disturbed wire, shorter than any time limit of rping


@dataclass
class Frame:
    time: float
    stream: int  # the client's port
    ours: bool
    seq: int
    ack: int
    flags: int
    payload: bytes


@dataclass
class Capture:
    records: list = field(default_factory=list)  # (pcap record header, frame), as they stood in the file
    frames: list = field(default_factory=list)


def tcp(frame):
    """(source port, destination port, [ours, seq, ack, flags, payload]) of an Ethernet frame, or None."""
    kind = frame[12:14]
    if kind == b"\x08\x00":
        start, length = 14 + (frame[14] & 15) * 4, int.from_bytes(frame[16:18], "big")
        end, protocol = 14 + length, frame[23]
    elif kind == b"\x86\xdd":
        start, protocol = 54, frame[20]
        end = 54 + int.from_bytes(frame[18:20], "big")
    else:
        return None
    if protocol != 6 or len(frame) < start + 20:
        return None
    source, target, seq, ack, offset, flags = struct.unpack_from(">HHIIBB", frame, start)
    payload = frame[start + (offset >> 4) * 4:end]
    return source, target, (frame[6:12] == PARLEY_MAC, seq, ack, flags, payload)


def split(path, first, last):
    """{port: Capture} for the server ports first..last of a little-endian pcap file."""
    found = {}
    with open(path, "rb") as file:
        header = file.read(24)
        while len(record := file.read(16)) == 16:
            seconds, micros, length = struct.unpack_from("<III", record)
            frame = file.read(length)
            if len(frame) < length:
                break  # the guest died while it wrote
            segment = tcp(frame)
            if not segment:
                continue
            port = next((p for p in segment[:2] if first <= p <= last), None)
            if port is None:
                continue
            capture = found.setdefault(port, Capture())
            capture.records.append((record, frame))
            client = segment[1] if segment[0] == port else segment[0]
            capture.frames.append(Frame(seconds + micros / 1e6, client, *segment[2]))
    return header, found


def write(path, header, capture):
    with open(path, "wb") as file:
        file.write(header)
        for record, frame in capture.records:
            file.write(record)
            file.write(frame)


def slept(frames, siw):
    """True if siw, on the side `siw` of one TCP connection, acknowledged the first FPDU and did not act on it.

    siw turns its socket to FPDUs only after its Reply has left; an FPDU that arrives in between is acknowledged by TCP
    and then lies there until more octets come. It shows as octets that siw's kernel acknowledged after the Reply, and
    then more than a second without an octet from siw.
    """
    reply = next((n for n, f in enumerate(frames) if f.ours == siw and f.payload.startswith(REPLY_KEY)), None)
    if reply is None or frames[reply].payload[16] & REJECT:
        return False
    after = frames[reply + 1:]
    first = next((f for f in after if f.ours != siw and f.payload), None)
    if first is None:
        return False
    end = (first.seq + len(first.payload)) & 0xFFFFFFFF
    reply_end = frames[reply].seq + len(frames[reply].payload)
    acknowledged = next((f.time for f in after if f.ours == siw and ((f.ack - end) & 0xFFFFFFFF) < 1 << 31), None)
    answered = next((f.time for f in after if f.ours == siw and f.payload and f.seq >= reply_end), frames[-1].time)
    return acknowledged is not None and answered - acknowledged > SLEEP_S


def wakeups_lost(capture, guest_b_only=True):
    """How many connections of the capture met siw's lost wake-up. Only guest b runs siw, unless stock rping plays
    Parley."""
    streams = {}
    for frame in capture.frames:
        streams.setdefault(frame.stream, []).append(frame)
    return sum(slept(frames, False) or (not guest_b_only and slept(frames, True)) for frames in streams.values())


def streams(capture):
    return len({frame.stream for frame in capture.frames})
