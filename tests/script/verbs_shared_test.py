# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Several processes under `parley run` at one address: stock programs, members and a keeper that are killed or stopped, other users."""
import contextlib
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest
from pathlib import Path

import netns
from cli import LIMIT, PARLEY, address, main
from stock import REJECTED, StockTest, ended_well, free_port, listens

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "adversary"))
import roce_wire as wire  # noqa: E402

ALONE = "PARLEY_TEST_ALONE" in os.environ
KEEPER = f"parley-port-1-{os.geteuid()}"
AS_NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
# Opens the device, forks, opens it in the child too, and says both prefixes: the top octets of queue pair numbers.
FORKS = """
import ctypes, os, sys
lib = ctypes.CDLL("libibverbs.so.1")
for name in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_cq", "ibv_create_qp"):
    getattr(lib, name).restype = ctypes.c_void_p
def prefix():
    device = ctypes.c_void_p(ctypes.cast(lib.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))[0])
    context = ctypes.c_void_p(lib.ibv_open_device(device))
    pd = ctypes.c_void_p(lib.ibv_alloc_pd(context))
    cq = lib.ibv_create_cq(context, 4, None, None, 0)
    init = (ctypes.c_uint64 * 16)(0, cq, cq, 0)
    values = (ctypes.c_uint32 * 7).from_buffer(init, 32)
    values[:] = (1, 1, 1, 1, 0, 2, 0)
    qp = lib.ibv_create_qp(pd, init)
    return ctypes.cast(qp + 52, ctypes.POINTER(ctypes.c_uint32))[0] >> 16
mine = prefix()
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, b"%d" % prefix())
    os._exit(0)
os.wait()
print(mine, os.read(read, 10).decode())
"""

# Runs a command under a system that has no SO_ATTACH_REUSEPORT_CBPF (seccomp answers ENOPROTOOPT).
NO_STEERING = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
call = {"x86_64": 54, "aarch64": 208}.get(os.uname().machine, 208)
code = b"".join(struct.pack("=HBBI", *i) for i in ((0x20, 0, 0, 0), (0x15, 0, 3, call), (0x20, 0, 0, 32), (0x15, 0, 1, 51),
                                                   (6, 0, 0, 0x00050000 | 92), (6, 0, 0, 0x7FFF0000)))
kept = ctypes.create_string_buffer(code)
program = struct.pack("@HP", 6, ctypes.addressof(kept))
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program):
    sys.exit(77)
os.execvp(sys.argv[1], sys.argv[1:])
"""
# Opens the device, and says how often the system has told it of a child.
NO_CHILDREN = """
import ctypes, os, signal
told = []
signal.signal(signal.SIGCHLD, lambda *_: told.append(1))
lib = ctypes.CDLL("libibverbs.so.1")
lib.ibv_get_device_list.restype = lib.ibv_open_device.restype = ctypes.c_void_p
device = ctypes.cast(lib.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))[0]
opened = lib.ibv_open_device(ctypes.c_void_p(device)) is not None
try:
    os.wait()
except ChildProcessError:
    print(opened, len(told), "children")
"""


def sockets(place):
    """How many UDP sockets are bound to port 4791 of the address."""
    local = f"{struct.unpack('=I', socket.inet_aton(place))[0]:08X}:{4791:04X}"
    with open("/proc/net/udp", encoding="ascii") as file:
        return sum(row.split()[1] == local for row in file)


def keepers():
    """Processes of the keeper's program, of this user and network."""
    out = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/stat", encoding="ascii") as file:
                lives = re.match(r"\d+ \(parley-port\) [^ZX]", file.read())
            here = os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
            if lives and here and os.stat(f"/proc/{pid}").st_uid == os.geteuid():
                out.append(int(pid))
    return out


class Shared(StockTest):
    def setUp(self):
        super().setUp()
        self.until(lambda: sockets(address(1)) == 0)  # those of the last test's processes, which were killed

    def begin(self, *command, prefix=(), n=1):
        return self.launch(*prefix, PARLEY, "run", "-v", "-a", address(n), *command)

    def until(self, what, *running):
        """Until what() is true, which it becomes while all of these processes run."""
        end = time.monotonic() + LIMIT
        while not what():
            self.assertLess(time.monotonic(), end)
            for process in running:
                if process.poll() is not None:
                    self.fail(f"{process.args}\n{process.returncode}\n{process.communicate()[0]}")
            time.sleep(0.01)

    def call(self, *command):
        """What a client said. It starts again while its server does not listen yet."""
        end = time.monotonic() + LIMIT
        while True:
            process = self.begin(*command)
            said, _ = process.communicate(timeout=LIMIT)
            if not re.search(REJECTED, said) or time.monotonic() > end:
                self.assertTrue(ended_well(process, said), f"{process.args}\n{process.returncode}\n{said}")
                return said

    def reads(self, process, wanted):
        """Until the process has written a line with these words."""
        for line in process.stdout:
            if wanted in line:
                return
        self.fail(f"{process.args} ended without {wanted}")

    def test_pingpong(self):
        port = free_port()
        server = self.begin("ibv_rc_pingpong", "-g", 0, "-n", 100, "-p", port)
        self.until(lambda: listens(port), server)
        said = self.finish(self.begin("ibv_rc_pingpong", "-g", 0, "-n", 100, "-p", port, "127.0.0.1"))
        said += self.finish(server)
        self.assertEqual(said.count("100 iters"), 2)
        prefixes = set(re.findall(r"QPN 0x(..)", said))
        self.assertEqual(len(prefixes), 2, said)  # each process has its own
        self.until(lambda: sockets(address(1)) == 0)  # free as soon as the last one has left

    def test_several_servers_and_clients(self):
        servers = [self.begin("rping", "-s", "-C", 5, "-p", 7200 + i) for i in range(3)]
        for i in range(3):
            self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 5, "-v", "-p", 7200 + i).count("ping data"), 5)
        for server in servers:
            self.finish(server)

    def test_datagrams_and_streams(self):
        for server, client in ((("udaddy", "-c", 3, "-C", 5), ("udaddy", "-s", address(1), "-c", 3, "-C", 5)),
                               (("rstream", "-S", 64, "-C", 50), ("rstream", "-s", address(1), "-S", 64, "-C", 50))):
            with self.subTest(server=server):
                serving = self.begin(*server)
                self.call(*client)
                self.finish(serving)

    def test_a_service_has_one_listener(self):
        server = self.begin("rping", "-s", "-P", "-p", 7210)
        self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 1, "-v", "-p", 7210).count("ping data"), 1)
        second = self.begin("rping", "-s", "-p", 7210)
        said, _ = second.communicate(timeout=LIMIT)
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("RDMA_USER_CM_CMD_LISTEN: Address already in use", said)
        self.assertIsNone(server.poll())

    def test_nobody_listens(self):
        self.begin("rping", "-s", "-p", 7220)
        self.until(lambda: sockets(address(1)) > 0)
        client = self.begin("rping", "-c", "-a", address(1), "-C", 1, "-p", 7221)
        said, _ = client.communicate(timeout=LIMIT)
        self.assertRegex(said, REJECTED)
        self.assertNotIn("UNREACHABLE", said)

    def test_a_killed_member_is_disconnected(self):
        server = self.begin("rping", "-s", "-p", 7230)
        self.until(lambda: sockets(address(1)) > 0)
        client = self.begin("rping", "-c", "-a", address(1), "-v", "-p", 7230)
        self.reads(client, "ping data")
        client.kill()
        said, _ = server.communicate(timeout=LIMIT)  # from retransmissions alone it would learn nothing: it only waits
        self.assertIn("DISCONNECT EVENT", said)
        self.until(lambda: sockets(address(1)) == 0)

    def test_a_killed_keeper_loses_nothing(self):
        server = self.begin("rping", "-s", "-p", 7240)
        self.until(lambda: sockets(address(1)) > 0)
        client = self.begin("rping", "-c", "-a", address(1), "-v", "-C", 3000, "-p", 7240)
        self.reads(client, "ping data")
        for _ in range(2):
            old = keepers()
            for pid in old:
                os.kill(pid, signal.SIGKILL)
            self.until(lambda: keepers() and not set(keepers()) & set(old))
            self.reads(client, "ping data")
        # A new member joins and accepts a connection; a second listener for its service gets EADDRINUSE.
        late = self.begin("rping", "-s", "-C", 2, "-p", 7241)
        self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 2, "-v", "-p", 7241).count("ping data"), 2)
        self.finish(late)
        second = self.begin("rping", "-s", "-p", 7240)
        self.assertIn("Address already in use", second.communicate(timeout=LIMIT)[0])
        self.finish(client)
        self.assertIn("DISCONNECT EVENT", self.finish(server))

    @unittest.skipUnless(ALONE, "it takes the keeper's place, which other programs may need")
    def test_a_stopped_member_whose_place_was_given_away_ends_its_connections(self):
        server = self.begin("rping", "-s", "-p", 7245)
        self.until(lambda: sockets(address(1)) > 0)
        client = self.begin("rping", "-c", "-a", address(1), "-v", "-p", 7245)
        self.reads(client, "ping data")
        for member in (client, server):
            member.send_signal(signal.SIGSTOP)
        for pid in keepers():
            os.kill(pid, signal.SIGKILL)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as keeper:
            self.until(lambda: self.binds(keeper))
            keeper.settimeout(LIMIT)
            keeper.listen()
            for member in (client, server):
                member.send_signal(signal.SIGCONT)
                with keeper.accept()[0] as connection:
                    connection.settimeout(LIMIT)
                    while connection.recv(8192) != b"\1\2":  # Offered
                        pass
                    connection.send(b"\1\2\3\0\0\0")  # Refused: taken
        self.until(lambda: None not in (client.poll(), server.poll()) or self.kill_rest(client, server))
        self.assertIn("another process has its place at the addresses", client.communicate(timeout=LIMIT)[0] + server.communicate(timeout=LIMIT)[0])

    def kill_rest(self, *members):
        """One that only waits learns nothing when the other ends; false while both run."""
        if any(member.poll() is not None for member in members):
            for member in members:
                member.kill()
        return False

    @staticmethod
    def binds(keeper):
        with contextlib.suppress(OSError):
            keeper.bind("\0" + KEEPER)
            return True
        return False

    def test_a_stopped_member_stops_nobody_else(self):
        stopped = self.begin("rping", "-s", "-P", "-p", 7250)
        self.until(lambda: sockets(address(1)) > 0)
        stopped.send_signal(signal.SIGSTOP)
        # More than the first sockets of a group: the stopped one should get copies of the next.
        others = [self.begin("rping", "-s", "-P", "-p", 7251 + i) for i in range(9)]
        self.until(lambda: sockets(address(1)) > 8, *others)
        for i in (0, 8):
            self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 2, "-v", "-p", 7251 + i).count("ping data"), 2)
        stopped.send_signal(signal.SIGCONT)
        self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 2, "-v", "-p", 7250).count("ping data"), 2)

    def test_a_child_of_fork_is_a_member_of_its_own(self):
        mine, its = self.finish(self.begin(sys.executable, "-c", FORKS)).splitlines()[-1].split()
        self.assertNotEqual(mine, its)

    def test_garbage_does_not_reach_others(self):
        server = self.begin("rping", "-s", "-C", 2, "-p", 7260)
        self.until(lambda: sockets(address(1)) > 0)
        for octets in (b"", b"\0", b"\1\0" + b"\xff" * 4000, b"\1\3" + b"\0" * 14, os.urandom(500)):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as liar:
                liar.settimeout(LIMIT)
                liar.connect("\0" + KEEPER)
                if octets:
                    with contextlib.suppress(OSError):
                        liar.send(octets)
                        self.assertEqual(liar.recv(10), b"")
        self.assertEqual(self.call("rping", "-c", "-a", address(1), "-C", 2, "-v", "-p", 7260).count("ping data"), 2)
        self.finish(server)

    def test_another_user_is_refused(self):
        if os.geteuid() != 0:
            self.skipTest("root alone can run programs as another user")
        for program in (PARLEY, sys.executable):
            if subprocess.run([*AS_NOBODY, program, "--version"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
                self.skipTest(f"another user may not run {program}")
        server = self.begin("rping", "-s", "-P", "-p", 7270)
        self.until(lambda: sockets(address(1)) > 0)
        other = self.begin("ibv_devinfo", prefix=AS_NOBODY)
        said, _ = other.communicate(timeout=LIMIT)
        self.assertIn("the user with the number 0 has UDP port 4791 of this address", said)
        child = subprocess.run([*AS_NOBODY, sys.executable, "-c", f"import socket\ns = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                                f"s.connect('\\0{KEEPER}')\ntry:\n  print(s.recv(10))\nexcept OSError as e:\n  print(e)"],
                               stdout=subprocess.PIPE, text=True, timeout=LIMIT, check=True)
        self.assertRegex(child.stdout, r"b''|reset")
        self.assertIsNone(server.poll())

    def test_a_connection_of_a_process_that_has_left_is_disconnected_by_others(self):
        self.begin("rping", "-s", "-P", "-p", 7280)
        self.call("rping", "-c", "-a", address(1), "-C", 1, "-p", 7280)
        chance = random.Random(1)
        ours, server = (wire.Host("initiator", address(n), chance) for n in (2, 1))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(LIMIT)
            sock.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: the identification is 0
            sock.bind((address(2), 4791))
            ours.port, ours.tos = 4791, 0
            packets = []
            for n in (0x06000001, 0x06000002):
                sent = wire.Sent(ours, server, 0, wire.UD | wire.OPS["send_only"], 1, 0, struct.pack(">II", wire.GSI_Q_KEY, 1),
                                 wire.mad("DREQ", 9, struct.pack(">III", 0x1234, n, 0x060001 << 8)))
                sent.ident = 0
                packets.append(sent.octets()[14 + 20 + 8:])  # behind Ethernet, IPv4 and UDP
            sock.setsockopt(socket.IPPROTO_UDP, 103, len(packets[0]))  # UDP_SEGMENT: they arrive as one
            sock.sendto(b"".join(packets), (address(1), 4791))
            answers = [sock.recv(2048) for _ in packets]
        self.assertEqual({struct.unpack(">H", answer[36:38])[0] for answer in answers}, {wire.ATTRIBUTES["DREP"]})
        self.assertEqual(sorted(struct.unpack(">II", answer[44:52]) for answer in answers),
                         [(0x06000001, 0x1234), (0x06000002, 0x1234)])

    def begin_alone(self, *command, prefix=()):
        """In a network namespace of its own, where no keeper is yet."""
        alone = netns.made_by(self, "ip link set lo up; echo ready; exec cat")
        alone.says("ready")
        return self.begin(*command, prefix=(*netns.inside(alone.process.pid), *prefix))

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    def test_the_keeper_is_no_child_of_the_program(self):
        self.assertIn("True 0 children", self.finish(self.begin_alone(sys.executable, "-c", NO_CHILDREN)))

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    def test_a_system_that_cannot_share_a_port(self):
        process = self.begin_alone("ibv_devinfo", prefix=(sys.executable, "-c", NO_STEERING))
        said, _ = process.communicate(timeout=LIMIT)
        if process.returncode == 77:
            self.skipTest("the system allows no seccomp filter")
        self.assertIn("no other process can use these addresses at the same time: the system cannot share the port", said)
        self.assertIn("hca_id:\tparley0", said)

    def test_few_descriptors(self):
        self.until(lambda: sockets(address(1)) == 0)
        limited = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
        said = self.finish(self.begin("ibv_devinfo", prefix=limited))
        self.assertIn("no other process can use these addresses at the same time: the limit of open files is low", said)
        self.assertIn("hca_id:\tparley0", said)


if __name__ == "__main__":
    # Root runs them in a network namespace of their own: some kill keepers, which other programs may need.
    if netns.AS_ROOT and not netns.WHY_NOT and not ALONE:
        os.environ["PARLEY_TEST_ALONE"] = "1"
        os.execvp("unshare", ["unshare", "-n", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh", sys.executable, "-B", *sys.argv])
    main()
