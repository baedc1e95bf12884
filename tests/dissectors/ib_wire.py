# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Octets of RoCE and InfiniBand CM packets, for tests of what reads captures.

Made without any code of Parley or of Wireshark, so that it can be evidence against both. Everything is deterministic.
"""
import ipaddress
import struct
import zlib

A, B = "192.0.2.2", "192.0.2.1"  # the side that connects, and the other one
A6, B6 = "2001:db8::2", "2001:db8::1"
GUIDS = {A: 0x505400FFFE000002, B: 0x505400FFFE000001}
UDP_PORT, ETHERTYPE = 4791, 0x8915
GSI_Q_KEY = 0x80010000
RC, UC, UD, XRC = 0x00, 0x20, 0x60, 0xA0
REQ, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR = range(0x10, 0x1B)


def gid(address):
    parsed = ipaddress.ip_address(address)
    return parsed.packed if parsed.version == 6 else bytes(10) + b"\xff\xff" + parsed.packed


# --- packets -----------------------------------------------------------------------------------------------
def bth(opcode, qpn, psn=0, ack=0, pad=0, se=0, m=0, p_key=0xFFFF, ecn=0):
    """`ecn`: the octet of FECN and BECN."""
    return struct.pack(">BBHII", opcode, se << 7 | m << 6 | pad << 4, p_key, ecn << 24 | qpn, ack << 31 | psn)


def icrc(masked):
    """Of what stands from the LRH to the pad, with ones for what changes on the way."""
    return struct.pack("<I", zlib.crc32(masked))


def v2(packet, source=A, destination=B, sport=0xC000, tos=0, ttl=64, damage=0):
    """Ethernet, IPv4 or IPv6, UDP, `packet` from the BTH to the pad, ICRC."""
    udp = struct.pack(">HHHH", sport, UDP_PORT, 12 + len(packet), 0)
    from_, to = ipaddress.ip_address(source), ipaddress.ip_address(destination)
    if from_.version == 4:
        head = struct.pack(">BBHHHBBH", 0x45, tos, 20 + len(udp) + len(packet) + 4, 1, 0x4000, ttl, 17, 0) + from_.packed + to.packed
        hidden = {1, 8, 10, 11}
    else:
        head = struct.pack(">IHBB", 6 << 28 | tos << 20, len(udp) + len(packet) + 4, 17, ttl) + from_.packed + to.packed
        hidden = {1, 2, 3, 7}
    covered = bytearray(head + udp + packet)
    for at in hidden | {len(head) + 6, len(head) + 7, len(head) + 8 + 4}:
        covered[at] = 0xFF
    if from_.version == 6:
        covered[0] |= 0x0F
    check = bytearray(icrc(b"\xff" * 8 + bytes(covered)))
    check[0] ^= damage
    macs = bytes.fromhex("525400000001525400000002")
    return macs + (b"\x08\x00" if from_.version == 4 else b"\x86\xdd") + head + udp + packet + bytes(check)


def v1(packet, source=A, destination=B, tags=b"", hop_limit=64):
    """Ethernet, with tags or without, GRH, `packet`, ICRC."""
    grh = struct.pack(">IHBB", 6 << 28, len(packet) + 4, 0x1B, hop_limit) + gid(source) + gid(destination)
    covered = bytearray(grh + packet)
    covered[0] |= 0x0F
    for at in 1, 2, 3, 7, 40 + 4:
        covered[at] = 0xFF
    macs = bytes.fromhex("525400000001525400000002")
    return macs + tags + struct.pack(">H", ETHERTYPE) + grh + packet + icrc(b"\xff" * 8 + bytes(covered))


# --- what follows a BTH ------------------------------------------------------------------------------------
OPERATIONS = {  # low bits of the opcode: (name, headers of a request, whether it is a response)
    0x00: ("SEND First", "", False), 0x01: ("SEND Middle", "", False), 0x02: ("SEND Last", "", False),
    0x03: ("SEND Last with Immediate", "i", False), 0x04: ("SEND Only", "", False),
    0x05: ("SEND Only with Immediate", "i", False), 0x06: ("RDMA WRITE First", "r", False),
    0x07: ("RDMA WRITE Middle", "", False), 0x08: ("RDMA WRITE Last", "", False),
    0x09: ("RDMA WRITE Last with Immediate", "i", False), 0x0A: ("RDMA WRITE Only", "r", False),
    0x0B: ("RDMA WRITE Only with Immediate", "ri", False), 0x0C: ("RDMA READ Request", "r", False),
    0x0D: ("RDMA READ Response First", "a", True), 0x0E: ("RDMA READ Response Middle", "", True),
    0x0F: ("RDMA READ Response Last", "a", True), 0x10: ("RDMA READ Response Only", "a", True),
    0x11: ("Acknowledge", "a", True), 0x12: ("ATOMIC Acknowledge", "ao", True), 0x13: ("CmpSwap", "t", False),
    0x14: ("FetchAdd", "t", False), 0x16: ("SEND Last with Invalidate", "v", False),
    0x17: ("SEND Only with Invalidate", "v", False)}
SERVICES = {RC: "RC", UC: "UC", UD: "UD", XRC: "XRC"}


def has_payload(low):
    return low not in (0x0C, 0x11, 0x12, 0x13, 0x14)


def data(opcode, qpn, psn=0, payload=b"", syndrome=0x1F, msn=1, srqn=0x20001, source_qpn=0x11, q_key=0x1234567, va=0x7F0012345678,
         r_key=0x1234, length=0, immediate=0xCAFEBABE, invalidate=0xABCD, swap=7, compare=6, original=5, ack=0):
    """A packet with all headers that its opcode has, and the payload with its pad."""
    _, headers, response = OPERATIONS[opcode & 0x1F]
    service, out = opcode & 0xE0, b""
    if service == UD:
        out += struct.pack(">II", q_key, source_qpn)
    if service == XRC and not response:
        out += struct.pack(">I", srqn)
    for header in headers:
        out += {"r": struct.pack(">QII", va, r_key, length or len(payload)), "t": struct.pack(">QIQQ", va, r_key, swap, compare),
                "a": struct.pack(">I", syndrome << 24 | msn), "o": struct.pack(">Q", original),
                "i": struct.pack(">I", immediate), "v": struct.pack(">I", invalidate)}[header]
    pad = -len(payload) % 4
    return bth(opcode, qpn, psn, ack=ack, pad=pad) + out + payload + bytes(pad)


def cnp(qpn):
    return bth(0x81, qpn, ecn=0x40) + bytes(16)


# --- messages of the CM ------------------------------------------------------------------------------------
class Bits:
    """A body of 232 octets that fields are put into by octet, first bit and number of bits."""

    def __init__(self):
        self.value = 0

    def put(self, octet, bit, bits, value):
        assert 0 <= value < 1 << bits, (octet, bit, bits, value)
        self.value |= value << (232 * 8 - octet * 8 - bit - bits)
        return self

    def octets(self):
        return self.value.to_bytes(232, "big")


PATH = {"local_lid": (0, 0, 16), "remote_lid": (2, 0, 16), "local_gid": (4, 0, 128), "remote_gid": (20, 0, 128),
        "flow_label": (36, 0, 20), "packet_rate": (39, 2, 6), "traffic_class": (40, 0, 8), "hop_limit": (41, 0, 8), "sl": (42, 0, 4),
        "subnet_local": (42, 4, 1), "local_ack_timeout": (43, 0, 5)}
LAP_PATH = dict(PATH, traffic_class=(39, 0, 8), hop_limit=(40, 0, 8), packet_rate=(41, 2, 6))
IDS = {"local_comm_id": (0, 0, 32), "remote_comm_id": (4, 0, 32)}


def path(at, name, places):
    return {f"{name}.{field}": (at + octet, bit, bits) for field, (octet, bit, bits) in places.items()}


# IBA chapter 12: (octet of the body, bit, bits). `info` and `private_data` are octets.
FIELDS = {
    REQ: {"local_comm_id": (0, 0, 32), "ece_vendor": (5, 0, 24), "service_id": (8, 0, 64), "local_ca_guid": (16, 0, 64),
          "local_q_key": (28, 0, 32), "local_qpn": (32, 0, 24), "responder_resources": (35, 0, 8), "local_eecn": (36, 0, 24),
          "initiator_depth": (39, 0, 8), "remote_eecn": (40, 0, 24), "remote_cm_response_timeout": (43, 0, 5),
          "service_type": (43, 5, 2), "flow_control": (43, 7, 1), "starting_psn": (44, 0, 24),
          "local_cm_response_timeout": (47, 0, 5), "retry_count": (47, 5, 3), "p_key": (48, 0, 16), "path_mtu": (50, 0, 4),
          "rdc_exists": (50, 4, 1), "rnr_retry_count": (50, 5, 3), "max_cm_retries": (51, 0, 4), "srq": (51, 4, 1),
          "extended_service": (51, 5, 3), **path(52, "primary", PATH), **path(96, "alternate", PATH),
          "private_data": (140, 0, 736)},
    MRA: {**IDS, "about": (8, 0, 2), "service_timeout": (9, 0, 5), "private_data": (10, 0, 1776)},
    REJ: {**IDS, "about": (8, 0, 2), "info_length": (9, 0, 7), "reason": (10, 0, 16), "info": (12, 0, 576),
          "private_data": (84, 0, 1184)},
    REP: {**IDS, "local_q_key": (8, 0, 32), "local_qpn": (12, 0, 24), "local_eecn": (16, 0, 24), "starting_psn": (20, 0, 24),
          "responder_resources": (24, 0, 8), "initiator_depth": (25, 0, 8), "target_ack_delay": (26, 0, 5),
          "failover_accepted": (26, 5, 2), "flow_control": (26, 7, 1), "rnr_retry_count": (27, 0, 3), "srq": (27, 3, 1),
          "local_ca_guid": (28, 0, 64), "private_data": (36, 0, 1568)},
    RTU: {**IDS, "private_data": (8, 0, 1792)},
    DREQ: {**IDS, "remote_qpn": (8, 0, 24), "private_data": (12, 0, 1760)},
    DREP: {**IDS, "private_data": (8, 0, 1792)},
    SIDR_REQ: {"request_id": (0, 0, 32), "p_key": (4, 0, 16), "service_id": (8, 0, 64), "private_data": (16, 0, 1728)},
    SIDR_REP: {"request_id": (0, 0, 32), "sidr_status": (4, 0, 8), "info_length": (5, 0, 8), "qpn": (8, 0, 24),
               "service_id": (12, 0, 64), "q_key": (20, 0, 32), "info": (24, 0, 576), "private_data": (96, 0, 1088)},
    LAP: {**IDS, "remote_qpn": (12, 0, 24), "remote_cm_response_timeout": (15, 0, 5), **path(20, "alternate", LAP_PATH),
          "private_data": (64, 0, 1344)},
    APR: {**IDS, "info_length": (8, 0, 8), "ap_status": (9, 0, 8), "info": (12, 0, 576), "private_data": (84, 0, 1184)},
}


def body(message, fields):
    bits = Bits()
    for name, value in fields.items():
        octet, bit, count = FIELDS[message][name]
        if isinstance(value, bytes):
            value = int.from_bytes(value.ljust(count // 8, b"\0"), "big")
        bits.put(octet, bit, count, value)
    return bits.octets()


def mad(message, octets, transaction=1, class_version=2, method=3, modifier=0):
    return struct.pack(">BBBBHHQHHI", 1, 7, class_version, method, 0, 0, transaction, message, 0, modifier) + octets


def cm(message, psn=0, transaction=1, class_version=2, method=3, modifier=0, octets=None, **fields):
    """A datagram to the queue pair of the GSI; names with a dot are given with two underscores."""
    named = {name.replace("__", "."): value for name, value in fields.items()}
    payload = mad(message, body(message, named) if octets is None else octets, transaction, class_version, method, modifier)
    return data(UD | 0x04, 1, psn, payload, source_qpn=1, q_key=GSI_Q_KEY)


def service_id(space, port):
    return {"ipoib": 0x0002, "tcp": 0x0106, "udp": 0x0111, "ib": 0x013F}[space] << 16 | port


def cma(port, source, destination):
    version = ipaddress.ip_address(source).version
    octets = [ipaddress.ip_address(address).packed.rjust(16, b"\0") for address in (source, destination)]
    return struct.pack(">BBH", 0, version << 4, port) + b"".join(octets)


def req(number, service, qpn, source=A, destination=B, psn=0, transport=RC, private=b"", **more):
    """As rdma_connect() has it sent; `number`: the communication ID."""
    kind = {"service_type": 3, "extended_service": 1} if transport == XRC else {"service_type": transport >> 5}
    fields = {"local_comm_id": number, "service_id": service_id(*service), "local_ca_guid": GUIDS.get(source, 1), "local_qpn": qpn,
              "starting_psn": 100, "remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "retry_count": 7,
              "p_key": 0xFFFF, "path_mtu": 3, "rnr_retry_count": 7, "max_cm_retries": 15, "primary__local_lid": 0xFFFF,
              "primary__remote_lid": 0xFFFF, "primary__local_gid": gid(source), "primary__remote_gid": gid(destination),
              "primary__hop_limit": 64, "primary__local_ack_timeout": 19,
              "private_data": cma(40000 + number % 1000, source, destination) + private, **kind}
    return cm(REQ, psn, **dict(fields, **more))


def rep(own, other, qpn, source=B, psn=0, transport=RC, **more):
    queue_pair = {"local_eecn": qpn, "srq": 1} if transport == XRC else {"local_qpn": qpn}
    return cm(REP, psn, local_comm_id=own, remote_comm_id=other, starting_psn=200, local_ca_guid=GUIDS.get(source, 2), **queue_pair,
              **more)


# --- captures ----------------------------------------------------------------------------------------------
class Frames:
    """A capture of classic pcap, frame by frame, a millisecond apart."""

    def __init__(self, link_type=1):
        self.out, self.count, self.time = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, link_type)], 0, 0

    def add(self, frame, captured=None, after=1000):
        """The number of the frame; `after` microseconds."""
        self.count += 1
        self.time += after
        kept = frame if captured is None else frame[:captured]
        self.out += [struct.pack("<IIII", 1_000_000 + self.time // 10**6, self.time % 10**6, len(kept), len(frame)), kept]
        return self.count

    def octets(self):
        return b"".join(self.out)
