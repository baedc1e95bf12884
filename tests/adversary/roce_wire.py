# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""RoCEv2 frames and messages of the InfiniBand CM, made without any code of Parley's: IBA vol. 1 §9.2, §12.6, Annexes A11 and A17."""
import ipaddress
import struct
import zlib

RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xA0
# name: low five bits of the opcode
OPS = {name: code for code, name in enumerate((
    "send_first", "send_middle", "send_last", "send_last_imm", "send_only", "send_only_imm", "write_first", "write_middle",
    "write_last", "write_last_imm", "write_only", "write_only_imm", "read", "response_first", "response_middle", "response_last",
    "response_only", "ack", "atomic_ack", "cmp_swap", "fetch_add"))}
OPS.update(send_last_inv=0x16, send_only_inv=0x17)
RESPONSES = {"response_first", "response_middle", "response_last", "response_only", "ack", "atomic_ack"}
# attribute: 12.6, private data from
ATTRIBUTES = {"REQ": 0x10, "MRA": 0x11, "REJ": 0x12, "REP": 0x13, "RTU": 0x14, "DREQ": 0x15, "DREP": 0x16, "SIDR_REQ": 0x17,
              "SIDR_REP": 0x18, "LAP": 0x19, "APR": 0x1A}
GSI_Q_KEY = 0x80010000


class Sent:
    """A packet that one side sends; what it holds may be changed until octets() is asked."""

    def __init__(self, host, to, time, opcode, qpn, psn, ext=b"", payload=b"", ack_req=False):
        self.host, self.to, self.time = host, to, time
        self.opcode, self.qpn, self.psn, self.ext, self.payload, self.ack_req = opcode, qpn, psn, ext, payload, ack_req
        self.side, self.kind, self.about = host.side, None, {}
        self.p_key, self.tver, self.reserved7, self.pad_count, self.pad_octet, self.icrc = 0xFFFF, 0, 0, None, 0, 0
        self.solicited = False
        self.pad = None  # octets of pad; None: as many as are due
        self.size = None  # octets of UDP payload, to cut it
        self.q_key = None
        self.ident, self.port = host.next_ident(), host.port

    def bth_on(self):
        due = -len(self.payload) % 4
        count = due if self.pad is None else self.pad
        flags = 0x80 * self.solicited | 0x40 | (count & 3 if self.pad_count is None else self.pad_count) << 4 | self.tver
        return struct.pack(">BBHII", self.opcode, flags, self.p_key, self.qpn,
                           (0x80 if self.ack_req else 0) << 24 | self.reserved7 << 24 | self.psn) + (
            self.ext + bytes(self.payload) + bytes([self.pad_octet]) * count)

    def octets(self):
        body = self.bth_on()
        if self.size is not None:
            body = body[:self.size - 4]
        size = 8 + len(body) + 4
        source, destination = self.host.address.packed, self.to.address.packed
        if self.host.v1:
            head = struct.pack(">IHBB", 6 << 28 | self.host.tos << 20 | 0x777, size - 8, 0x1B, 64) + self.host.gid + self.to.gid
            masked = struct.pack(">I", 0x6FFFFFFF) + head[4:7] + b"\xff" + head[8:]
            return self.frame(0x8915, head, masked, body)
        udp = struct.pack(">HHHH", self.port, 4791, size, 0)
        if self.host.address.version == 4:
            head = struct.pack(">BBHHHBBH", 0x45, self.host.tos, 20 + size, self.ident, 0x4000, 64, 17, 0) + source + destination
            head = head[:10] + struct.pack(">H", checksum(head)) + head[12:]
            masked = head[:1] + b"\xff" + head[2:8] + b"\xff" + head[9:10] + b"\xff\xff" + head[12:]
            ethertype = 0x0800
        else:
            head = struct.pack(">IHBB", 6 << 28 | self.host.tos << 20 | 0x12345, size, 17, 64) + source + destination
            masked = struct.pack(">I", 0x6FFFFFFF) + head[4:7] + b"\xff" + head[8:]
            ethertype = 0x86DD
        return self.frame(ethertype, head + udp, masked + udp[:6] + b"\xff\xff", body)

    def frame(self, ethertype, head, masked, body):
        icrc = zlib.crc32(b"\xff" * 8 + masked + body[:4] + b"\xff" + body[5:]) ^ self.icrc
        vlan = struct.pack(">HH", 0x8100, self.host.vlan) if self.host.vlan else b""
        return self.to.mac + self.host.mac + vlan + struct.pack(">H", ethertype) + head + body + struct.pack("<I", icrc)


def checksum(octets):
    total = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


class Host:
    def __init__(self, side, address, chance):
        self.side, self.address = side, ipaddress.ip_address(address)
        self.mac = bytes([2, 0, *self.address.packed[-4:]])
        self.guid, self.port = chance.randrange(1, 2**64), chance.randrange(0xC000, 0x10000)
        self.v1, self.vlan = False, 0
        self.gsi_psn, self.tos, self.ident = chance.randrange(2**24), chance.choice((0, 0, 2, 0x68)), chance.randrange(2**16)

    @property
    def gid(self):
        packed = self.address.packed
        return packed if len(packed) == 16 else b"\0" * 10 + b"\xff\xff" + packed

    def next_ident(self):
        self.ident = (self.ident + 1) % 2**16
        return self.ident

    def next_gsi(self):
        self.gsi_psn = (self.gsi_psn + 1) % 2**24
        return self.gsi_psn


def mad(kind, transaction, body, mgmt_class=7, attribute=None):
    octets = bytearray(256)
    octets[:24] = struct.pack(">BBBBHHQHHI", 1, mgmt_class, 2, 3, 0, 0, transaction, attribute or ATTRIBUTES[kind], 0, 0)
    octets[24:24 + len(body)] = body
    return octets


def req(f):
    body = bytearray(232)
    struct.pack_into(">IIQQII", body, 0, f["id"], 0, f["service"], f["guid"], 0, 0)
    service = {RC: 0, UC: 1, XRC: 3}.get(f["transport"], 0) if "type" not in f else f["type"]
    struct.pack_into(">II", body, 32, f["qpn"] << 8 | f["ird"], f["ord"])
    struct.pack_into(">I", body, 40, f["timeout"] << 3 | service << 1 | f["flow_control"])
    struct.pack_into(">I", body, 44, f["psn"] << 8 | f["timeout"] << 3 | f.get("retry", 7))
    extended = f.get("extended", 1 if f["transport"] == XRC else 0)
    struct.pack_into(">HBB", body, 48, f["p_key"], f["mtu"] << 4 | f.get("rnr", 7), f["retries"] << 4 | f.get("srq", 0) << 3 | extended)
    struct.pack_into(">HH16s16sIBBBB", body, 52, 0xFFFF, 0xFFFF, f["gid"], f["peer_gid"], 0xABCDE << 12, 0, 64, 0,
                     f["ack_timeout"] << 3)
    body[140:140 + len(f["private"])] = f["private"]
    return body


def rep(f):
    xrc = f["transport"] == XRC
    body = bytearray(232)
    struct.pack_into(">IIIIIIBBBBQ", body, 0, f["id"], f["remote"], 0, 0 if xrc else f["qpn"] << 8, f["qpn"] << 8 if xrc else 0,
                     f["psn"] << 8, f["ird"], f["ord"], 15 << 3 | (0 if xrc else f["flow_control"]), f.get("rnr", 7) << 5 | (0x10 if xrc or f.get("srq") else 0),
                     f["guid"])
    body[36:36 + len(f["private"])] = f["private"]
    return body


def sidr_req(request_id, service, private, p_key=0xFFFF):
    return struct.pack(">IHHQ", request_id, p_key, 0, service) + private


def sidr_rep(request_id, status, qpn, service, q_key):
    return struct.pack(">IIIQI", request_id, status << 24, qpn << 8, service, q_key)


def lap(ids, qpn, timeout, source, destination):
    body = bytearray(232)
    struct.pack_into(">III", body, 0, *ids, 0)
    struct.pack_into(">IIHH16s16s", body, 12, qpn << 8 | timeout << 3, 0, 0xFFFF, 0xFFFF, source, destination)
    struct.pack_into(">IBBBB", body, 56, 0xABCDE << 12, 64, 3, 0, 19 << 3)
    return body


def cma(version, port, source, destination):
    pack = bytes(12) if source.version == 4 else b""
    return struct.pack(">BBH", version, source.version << 4, port) + pack + source.packed + pack + destination.packed


def pcap(frames):
    """(microseconds, octets, octets kept) each."""
    out = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)]
    for time, octets, keep in frames:
        kept = octets[:keep]
        out.append(struct.pack("<IIII", time // 1000000, time % 1000000, len(kept), len(octets)) + kept)
    return b"".join(out)
