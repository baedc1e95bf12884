# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A firewall's REJECT: answers each packet that reaches an interface with an ICMP destination unreachable (RFC 792, RFC 4443 §3.1).

icmp_reject.py CODE INTERFACE[...]
icmp_reject.py -6 CODE INTERFACE[...]

CODE is that of the message (ICMP: 1 host, 3 port, 13 administratively prohibited; with -6, ICMPv6: 1 administratively prohibited). Packets
still have to be dropped elsewhere (a blackhole route, tc): the program only answers. Prints "rejecting" once it does, then "answered" and the source of each, and runs until it is ended."""
import select
import socket
import struct
import sys

QUOTED = 8  # octets of the packet behind its IP header
ANSWERED = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)


class V4:
    ethertype, family, protocol, unreachable = 0x0800, socket.AF_INET, socket.IPPROTO_ICMP, 3
    protocol_at, source = 9, slice(12, 16)

    @staticmethod
    def header(packet):
        return (packet[0] & 0xF) * 4

    @staticmethod
    def checksum(octets):
        total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
        while total >> 16:
            total = (total & 0xFFFF) + (total >> 16)
        return ~total & 0xFFFF


class V6:
    ethertype, family, protocol, unreachable = 0x86DD, socket.AF_INET6, socket.IPPROTO_ICMPV6, 1
    protocol_at, source = 6, slice(8, 24)

    @staticmethod
    def header(_):
        return 40

    @staticmethod
    def checksum(_):
        return 0  # the kernel writes it


def answer(version, packet, code):
    """The ICMP message that quotes the packet's header and 8 octets behind it; None: no answer is expected."""
    end = version.header(packet) + QUOTED
    if len(packet) < end or packet[version.protocol_at] not in ANSWERED:
        return None
    message = struct.pack("!BBHI", version.unreachable, code, 0, 0) + packet[:end]
    return message[:2] + struct.pack("!H", version.checksum(message)) + message[4:]


def main():
    version, words = (V6, sys.argv[2:]) if sys.argv[1] == "-6" else (V4, sys.argv[1:])
    code, interfaces = int(words[0]), words[1:]
    taps = []
    for interface in interfaces:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(version.ethertype))
        tap.bind((interface, version.ethertype))
        taps.append(tap)
    out = socket.socket(version.family, socket.SOCK_RAW, version.protocol)
    print("rejecting", flush=True)
    while True:
        for tap in select.select(taps, [], [])[0]:
            packet, (_, _, kind, *_) = tap.recvfrom(65535)
            message = answer(version, packet, code) if kind == socket.PACKET_HOST else None
            if message:
                source = socket.inet_ntop(version.family, packet[version.source])
                out.sendto(message, (source, 0))
                print("answered", source, flush=True)


main()
