# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley run` under stock programs of libibverbs, each side in a process of its own: the ping-pongs of ibverbs-utils and perftest.
Against Linux's rxe they run in tests/interop/nics."""
import json
import os
import re
import subprocess
import sys
import time

from cli import LIMIT, PARLEY, address, main, run
from stock import StockTest, free_port, listens

# ctypes calls dlopen() and dlsym(); the last function is the real library's.
DLOPEN = '''
import ctypes
lib, c = ctypes.CDLL("libibverbs.so.1"), ctypes.CDLL(None)
for function in (lib.ibv_get_device_list, c.dlvsym):
    function.restype = ctypes.c_void_p
lib.ibv_get_device_name.restype = lib.ibv_port_state_str.restype = ctypes.c_char_p
n = ctypes.c_int()
devices = lib.ibv_get_device_list(ctypes.byref(n))
first = ctypes.cast(devices, ctypes.POINTER(ctypes.c_void_p))[0]
print(n.value, lib.ibv_get_device_name(ctypes.c_void_p(first)).decode())
found = c.dlvsym(ctypes.c_void_p(lib._handle), b"ibv_get_device_list", b"IBVERBS_1.1")
print(found == ctypes.cast(lib.ibv_get_device_list, ctypes.c_void_p).value)
print(lib.ibv_port_state_str(4).decode())
'''
FILES = '''
ls /sys/class/infiniband
stat -c %F /dev/infiniband/uverbs0
ls /dev/infiniband
cd /sys/class/infiniband/parley0/ports/1
cat state gid_attrs/types/0 gid_attrs/ndevs/0 gids/0
'''
READERS = '''
import os, stat
device = "/sys/class/infiniband/parley0"
print(os.listdir("/sys/class/infiniband"), stat.S_ISCHR(os.stat("/dev/infiniband/uverbs0").st_mode),
      os.access(device + "/node_guid", os.R_OK), "/infiniband/" in os.path.realpath(device),
      open("/sys/class/infiniband_verbs/uverbs0/ibdev").read().strip())
'''
SIZES = {"send": 8192, "write": 8192, "read": 8192, "atomic": None}


def groups(text):
    """Of an IPv4 address, as the last two of an IPv6 address."""
    octets = [int(part) for part in text.split(".")]
    return f"{octets[0] << 8 | octets[1]:04x}:{octets[2] << 8 | octets[3]:04x}"


class Verbs(StockTest):
    def begin(self, n, *command, options=()):
        return self.launch(PARLEY, "run", "-v", "-a", address(n), *options, *command)

    def finish(self, process):
        said, _ = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, f"{process.args}\n{said}")
        self.assertNotIn("parley run:", said)  # no call was refused
        gids = [line for line in said.splitlines() if line.startswith("parley0: GID ")]
        self.assertEqual(gids, [f"parley0: GID 0: {process.args[4]} (lo)"])
        return said.replace(gids[0] + "\n", "", 1)

    def pair(self, *program, options=()):
        """A server, and a client that calls it until it listens; what each said."""
        port = free_port()
        server = self.begin(1, *program, "-p", port)
        end = time.monotonic() + LIMIT
        while not listens(port):
            self.assertIsNone(server.poll(), server.args)
            self.assertLess(time.monotonic(), end, server.args)
            time.sleep(0.02)
        client = self.begin(2, *program, "-p", port, "127.0.0.1", options=options)
        return self.finish(client), self.finish(server)

    def test_ibv_devinfo_finds_the_device(self):
        said = self.finish(self.begin(1, "ibv_devinfo", "-v"))
        self.assertRegex(said, r"hca_id:\s+parley0")
        self.assertRegex(said, r"state:\s+PORT_ACTIVE")
        self.assertRegex(said, rf"GID\[ *0\]:\s+::ffff:{re.escape(address(1))}, RoCE v2")

    def test_the_ping_pongs(self):
        for kind in ("rc", "uc", "ud", "srq"):
            for waits in ((), ("-e",)):
                with self.subTest(kind=kind, waits=waits):
                    size = 1024 if kind in ("uc", "ud") else 8192  # of one packet: UC and UD repeat nothing
                    for said in self.pair(f"ibv_{kind}_pingpong", "-g", 0, "-n", 200, "-s", size, "-c", *waits):
                        self.assertRegex(said, r"200 iters in")
                        self.assertNotIn("invalid data", said)

    def test_xrc(self):
        shared = "/tmp/xrc_domain"  # ibv_xsrq_pingpong makes it, and leaves it there
        if not os.path.exists(shared):
            self.addCleanup(lambda: os.path.exists(shared) and os.unlink(shared))
        for waits in ((), ("-e",)):
            for said in self.pair("ibv_xsrq_pingpong", "-g", 0, "-n", 100, *waits):
                self.assertIn("success", said)

    def test_the_packets_can_be_had_as_a_file(self):
        for kind in ("rc", "ud"):
            capture = self.path(f"{kind}.pcapng")
            self.pair(f"ibv_{kind}_pingpong", "-g", 0, "-n", 50, "-s", 1024, options=("--pcapng", capture))
            self.assertEqual(os.stat(capture).st_mode & 0o777, 0o600)
            verdict = json.loads(run("pcap", "check", "--json", capture).out)
            (way,) = verdict["connections"]
            self.assertEqual((way["qp"], way["findings"]), (kind, []))
            self.assertEqual([way[side]["messages"] for side in ("from_initiator", "from_responder")], [50, 50])
        self.refused_open("-a", address(1), "--pcapng", "/no/such/folder/%p.pcapng", says="names cannot be created")

    def test_perftest(self):
        for test, size in SIZES.items():
            for kind in ("lat", "bw"):
                for waits in ((), ("-e",)) if test in ("send", "atomic") else ((),):
                    with self.subTest(test=test, kind=kind, waits=waits):
                        sized = () if size is None else ("-s", size)
                        said, _ = self.pair(f"ib_{test}_{kind}", "-F", "-x", 0, "-n", 500, *sized, *waits)
                        self.assertRegex(said, rf"(?m)^ {size or 8} +500 ")

    def test_perftest_by_other_services_and_ways(self):
        for program in (("ib_send_lat", "-c", "UD"), ("ib_send_bw", "-c", "UC", "-s", 1024), ("ib_write_lat", "-c", "UC"),
                        ("ib_send_bw", "-q", 4, "-s", 4096), ("ib_write_bw", "-b", "-s", 4096), ("ib_send_lat", "-I", 64, "-s", 64),
                        ("ib_send_bw", "-r", 32, "--use-srq"), ("ib_write_lat", "--use_old_post_send")):
            with self.subTest(program=program):
                self.pair(*program, "-F", "-x", 0, "-n", 500)

    def test_unreliable_services_lose_nothing_on_one_host(self):
        for program in (("ib_send_bw", "-c", "UC"), ("ib_send_bw", "-c", "UC", "-s", 4096), ("ib_send_bw", "-c", "UD")):
            with self.subTest(program=program):
                for said in self.pair(*program, "-F", "-x", 0, "-n", 2000):
                    self.assertRegex(said, r"(?m)^ \d+ +2000 ")

    def test_programs_that_load_libibverbs_by_themselves(self):
        said = self.finish(self.begin(1, sys.executable, "-B", "-c", DLOPEN))
        self.assertEqual(said, "1 parley0\nTrue\nactive\n")

    def test_the_files_of_the_device(self):
        said = self.finish(self.begin(1, "sh", "-c", FILES))
        self.assertEqual(said.splitlines(), ["parley0", "character special file", "uverbs0", "4: ACTIVE", "RoCE v2", "lo",
                                             f"0000:0000:0000:0000:0000:ffff:{groups(address(1))}"])
        said = self.finish(self.begin(1, sys.executable, "-B", "-c", READERS))
        self.assertEqual(said, "['parley0'] True True True parley0\n")

    def refused_open(self, *options, says):
        done = subprocess.run([PARLEY, "run", *options, "ibv_devinfo"], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(says, done.stderr)

    def test_an_address_that_cannot_be_had(self):
        first = self.start("udping", "-b", address(3))
        first.wait_for("listening")
        self.refused_open("-a", address(3), says=f"ibv_open_device at {address(3)}: another process has UDP port 4791 of this address")
        self.refused_open("-a", "192.0.2.77", says="ibv_open_device at 192.0.2.77: no interface that is up has the address of GID 0")


main()
