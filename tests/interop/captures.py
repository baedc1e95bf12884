# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Cuts the one capture of a run into one per attempt, and reads from it what the peer really did."""
import struct
from dataclasses import dataclass, field

PARLEY_MAC = bytes.fromhex("525400000001")  # guest a; the lab gives guest b ...02
REPLY_KEY = b"MPA ID Rep Frame"
REJECT = 0x20  # in the flags octet of the Reply


@dataclass
class Frame:
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
    """(source port, destination port, Frame) of an Ethernet frame, or None."""
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
    return source, target, Frame(frame[6:12] == PARLEY_MAC, seq, ack, flags, payload)


def split(path, first, last):
    """{port: Capture} for the server ports first..last of a little-endian pcap file."""
    found = {}
    with open(path, "rb") as file:
        header = file.read(24)
        while len(record := file.read(16)) == 16:
            frame = file.read(struct.unpack_from("<I", record, 8)[0])
            segment = tcp(frame)
            if not segment:
                continue
            port = next((p for p in segment[:2] if first <= p <= last), None)
            if port is None:
                continue
            capture = found.setdefault(port, Capture())
            capture.records.append((record, frame))
            capture.frames.append(segment[2])
    return header, found


def write(path, header, capture):
    with open(path, "wb") as file:
        file.write(header)
        for record, frame in capture.records:
            file.write(record)
            file.write(frame)


def lost_wakeup(capture, guest_b_only=True):
    """siw accepted, acknowledged the first FPDU in TCP, and never acted on it.

    siw turns its socket to FPDUs only after its Reply has left; an FPDU that arrives in between is acknowledged by TCP
    and then lies there until more data comes. It shows as octets that siw's kernel acknowledged after the Reply,
    while siw itself sent not one octet more. Only guest b runs siw, unless stock rping plays Parley.
    """
    reply = next((n for n, f in enumerate(capture.frames) if f.payload.startswith(REPLY_KEY)), None)
    if reply is None or capture.frames[reply].payload[16] & REJECT:
        return False
    siw = capture.frames[reply].ours
    if siw and guest_b_only:
        return False
    after = capture.frames[reply + 1:]
    sent = [f for f in after if f.ours != siw and f.payload]
    if not sent:
        return False
    end = (sent[0].seq + len(sent[0].payload)) & 0xFFFFFFFF
    acknowledged = any(f.ours == siw and ((f.ack - end) & 0xFFFFFFFF) < 1 << 31 for f in after)
    reply_end = capture.frames[reply].seq + len(capture.frames[reply].payload)
    silent = all(f.ours != siw or not f.payload or f.seq < reply_end for f in after)
    return acknowledged and silent
