# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A firewall's REJECT: answers each IPv4 packet that reaches an interface with an ICMP destination unreachable (RFC 792).

icmp_reject.py CODE INTERFACE[...]

CODE is that of the message (1 host, 3 port, 13 administratively prohibited). Packets still have to be dropped elsewhere (a blackhole
route, tc): the program only answers. Prints "rejecting" once it does, and runs until it is ended."""
import select
import socket
import struct
import sys

ETH_P_IP = 0x0800
UNREACHABLE, TIME_TO_LIVE, QUOTED = 3, 64, 8
ANSWERED = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)


def checksum(octets):
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def answer(packet, code):
    """The ICMP message that quotes the packet's header and 8 octets behind it; None: no answer is due."""
    header = (packet[0] & 0xF) * 4
    quote = packet[:header + QUOTED]
    if len(quote) < header + QUOTED or packet[9] not in ANSWERED:
        return None
    message = struct.pack("!BBHI", UNREACHABLE, code, 0, 0) + quote
    return message[:2] + struct.pack("!H", checksum(message)) + message[4:]


def main():
    code, interfaces = int(sys.argv[1]), sys.argv[2:]
    taps = []
    for interface in interfaces:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
        tap.bind((interface, ETH_P_IP))
        taps.append(tap)
    out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    print("rejecting", flush=True)
    while True:
        for tap in select.select(taps, [], [])[0]:
            packet, (_, _, kind, *_) = tap.recvfrom(65535)
            message = answer(packet, code) if kind == socket.PACKET_HOST else None
            if message:
                out.sendto(message, (socket.inet_ntoa(packet[12:16]), 0))


main()
