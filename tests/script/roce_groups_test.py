# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""UD queue pairs of several processes, and of several users, in one multicast group on one machine: IPv4 on loopback; IPv6,
which Linux's loopback does not carry to groups, in a network namespace with two pairs of virtual Ethernet.
"""
import os
import shutil
import unittest

import netns
from cli import PARLEY, main
from netns import Process

MEMBER = os.environ["PARLEY_GROUP_MEMBER"]
LINKS = """ip link set lo up
for n in 1 2; do
  ip link add v$n type veth peer name w$n
  ip link set v$n up; ip link set w$n up
  ip -6 address add fd00:$n::1/64 dev v$n nodad; ip -6 address add fd00:$n::3/64 dev v$n nodad; ip -6 address add fd00:$n::2/64 dev w$n nodad
done
for n in $(seq 100); do ip -6 address | grep -q tentative || break; sleep 0.1; done
echo ready; exec cat
"""
PLAIN = """import socket, struct, sys
group, interface = sys.argv[1], socket.if_nametoindex(sys.argv[2])
s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
s.setsockopt(socket.IPPROTO_IPV6, 29, 0)
s.bind((group, 4791, 0, interface))
s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("I", interface))
print("listening", flush=True)
while True:
    data, control, _, _ = s.recvmsg(2048, 256)
    hops = [struct.unpack("i", value)[0] for _, kind, value in control if kind == socket.IPV6_HOPLIMIT]
    print("hop limit", *hops, flush=True)
"""


class Groups(unittest.TestCase):
    inside = ()  # the network namespace

    def member(self, address, group, hop_limit=64, user=None, joined=True):
        as_user = ("setpriv", f"--reuid={user}", "--regid=nogroup", "--clear-groups", "--") if user else ()
        made = Process(self, *self.inside, *as_user, MEMBER, address, group, str(hop_limit))
        made.says("listening")
        if joined:
            made.tell("join", "joined")
        return made

    def exchange(self, members, sender, outside=()):
        """Each member gets one copy, the sender too, and who is outside none."""
        for text in ("one", "two"):
            self.send_to_own(sender, text)
            for member in members:
                if member is not sender:
                    member.says(f"got {text}")  # and nothing before it, such as a second copy
        for member in outside:
            member.tell("join", "joined")  # and nothing before it

    def send_to_own(self, member, text):
        print(f"send {text}", file=member.process.stdin, flush=True)
        member.says("posted", f"got {text}")


def own_loopback(n):
    pid = os.getpid()
    return f"127.{n << 4 | pid >> 16 & 0xF}.{pid >> 8 & 0xFF}.{pid & 0xFF}"


class Ipv4(Groups):
    group = own_loopback(1).replace("127.", "239.", 1)

    def test_two_processes_hear_each_other(self):
        first, second = (self.member(own_loopback(n), self.group) for n in (1, 2))
        outside = self.member(own_loopback(3), self.group, joined=False)
        self.exchange((first, second), first, (outside,))
        second.tell("leave", "left")
        self.send_to_own(first, "three")
        second.tell("join", "joined")
        self.send_to_own(first, "four")
        second.says("got four")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root can be another user")
    def test_two_users_are_in_one_group(self):
        first, second = self.member(own_loopback(1), self.group), self.member(own_loopback(2), self.group, user="nobody")
        third = self.member(own_loopback(3), self.group, user="daemon")
        self.exchange((first, second, third), second)
        self.exchange_back(first, (second, third))

    def exchange_back(self, sender, others):
        self.send_to_own(sender, "back")
        for member in others:
            member.says("got back")


@unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
class Ipv6(Groups):
    def setUp(self):
        links = netns.made_by(self, LINKS)
        links.says("ready")
        self.inside = netns.inside(links.process.pid)

    def plain(self, group, interface):
        made = Process(self, *self.inside, "python3", "-c", PLAIN, group, interface)
        made.says("listening")
        return made

    def test_two_processes_hear_each_other_in_groups_of_each_scope(self):
        for scope in ("ff02", "ff05", "ff0e"):
            with self.subTest(scope):
                group = f"{scope}::7174"
                members = [self.member(address, group) for address in ("fd00:1::1", "fd00:1::3", "fd00:1::2")]
                outside = [self.member("fd00:2::2", group, joined=False), self.member("fd00:2::1", group)]
                self.exchange(members, members[0], outside[:1])
                self.send_to_own(outside[1], "on the other link")
                for member in (*members, *outside):
                    member.end()

    def test_what_is_sent_leaves_by_the_interface_of_its_address(self):
        for group in ("ff02::7174", "ff0e::7174"):
            with self.subTest(group):
                members = [self.member(f"fd00:{n}::2", group) for n in (1, 2)]
                senders = [self.member(f"fd00:{n}::1", group, joined=False) for n in (1, 2)]
                for text, sender, member in zip(("one", "two"), senders, members):
                    sender.tell(f"send {text}", "posted")
                    member.says(f"got {text}")
                for member in (*members, *senders):
                    member.end()

    def test_the_hop_limit_is_that_of_the_address_handle(self):
        for hop_limit in (1, 64, 255):
            plain = self.plain("ff0e::7174", "w1")
            sender = self.member("fd00:1::1", "ff0e::7174", hop_limit, joined=False)
            sender.tell("send one", "posted")
            plain.says(f"hop limit {hop_limit}")
            sender.end()
            plain.end()

    def test_udping_receives_and_sends(self):
        def udping(address, *words):
            return Process(self, *self.inside, PARLEY, "udping", "-m", "ff0e::7174", "-b", address, *words)
        receivers = [udping(address) for address in ("fd00:1::2", "fd00:1::3")]
        for receiver, address in zip(receivers, ("fd00:1::2", "fd00:1::3")):
            receiver.says(f"listening to ff0e::7174 at {address}")
        udping("fd00:1::1", "--send").says("10 messages of 100 octets sent to ff0e::7174")
        for receiver in receivers:
            receiver.says("10 messages of 100 octets received from ff0e::7174")

    @unittest.skipUnless(os.getuid() == 0 and shutil.which("setpriv"), "only root can be another user")
    def test_two_users_are_in_one_group(self):
        first, second = self.member("fd00:1::1", "ff0e::7174"), self.member("fd00:1::2", "ff0e::7174", user="nobody")
        self.exchange((first, second), second)


if __name__ == "__main__":
    main()
