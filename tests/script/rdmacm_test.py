# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley run` under stock programs of librdmacm, each side in a process of its own: those of rdmacm-utils, and perftest -R."""
import os
import subprocess
import sys
import time

from cli import LIMIT, PARLEY, address, main, run
from stock import StockTest, receives

# All ways to ask for the file: of today's C library, and of programs that were linked with glibc before 2.33.
FILE = """
import ctypes, os, stat, subprocess
path = "/dev/infiniband/rdma_cm"
c, room, here = ctypes.CDLL(None), ctypes.create_string_buffer(256), os.open("/", os.O_RDONLY)
fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
for is_ in (os.stat(path), os.lstat(path), os.stat(path, dir_fd=here), os.fstat(fd)):
    print("device" if stat.S_ISCHR(is_.st_mode) and os.major(is_.st_rdev) == 10 else is_)
print(os.access(path, os.R_OK), os.access(path, os.R_OK, effective_ids=True))
name = path.encode()
print([getattr(c, f)(1, name, room) for f in ("__xstat", "__xstat64", "__lxstat", "__lxstat64")], c.__fxstat(1, fd, room),
      c.__fxstat64(1, fd, room))
print(subprocess.run(["stat", "-c", "%F %t", path], stdout=subprocess.PIPE, text=True).stdout, end="")
"""


class Rdmacm(StockTest):
    def begin(self, n, *command):
        return self.launch(PARLEY, "run", "-a", address(n), *command)

    def serve(self, *command):
        server = self.begin(1, *command)
        end = time.monotonic() + LIMIT
        while not receives(address(1)):
            self.assertIsNone(server.poll(), server.args)
            self.assertLess(time.monotonic(), end, server.args)
            time.sleep(0.02)
        time.sleep(0.2)  # until it listens or has joined its group: it does not say so
        return server

    def client(self, server, *command):
        return self.call(server, lambda: self.begin(2, *command))

    def pair(self, server, client, ends=True):
        """A server, and a client that finds it; what each said."""
        serving = self.serve(*server)
        said = self.client(serving, *client)
        if ends:
            return said, self.finish(serving)
        serving.kill()
        serving.wait()
        return said, None

    def test_rping(self):
        for options in ((), ("-S", 4096), ("-q",)):
            with self.subTest(options=options):
                said, _ = self.pair(("rping", "-s", "-C", 10, "-V", *options), ("rping", "-c", "-a", address(1), "-C", 10, "-v", "-V", *options))
                self.assertEqual(said.count("ping data: rdma-ping-"), 10)

    def test_many_clients_of_one_rping(self):
        serving = self.serve("rping", "-s", "-P")
        for _ in range(3):
            self.assertEqual(self.client(serving, "rping", "-c", "-a", address(1), "-C", 3, "-v").count("ping data"), 3)
        serving.kill()
        serving.wait()

    def test_clients_and_servers_of_librdmacm(self):
        for server, client in ((("ucmatose", "-c", 5, "-C", 10), ("ucmatose", "-s", address(1), "-c", 5, "-C", 10)),
                               (("udaddy", "-c", 3, "-C", 5), ("udaddy", "-s", address(1), "-c", 3, "-C", 5)),
                               (("rdma_server",), ("rdma_client", "-s", address(1))),
                               (("rdma_xserver",), ("rdma_xclient", "-s", address(1))),
                               (("rdma_xserver", "-c", "x"), ("rdma_xclient", "-s", address(1), "-c", "x"))):
            with self.subTest(server=server):
                self.pair(server, client)
        said, _ = self.pair(("cmtime", "-c", 10), ("cmtime", "-s", address(1), "-c", 10), ends=False)
        self.assertRegex(said, r"(?m)^connect ")

    def test_a_group(self):
        said, _ = self.pair(("mckey", "-m", "224.1.2.3", "-C", 5), ("mckey", "-m", "224.1.2.3", "-s", "-C", 5))
        self.assertIn("return status 0", said)

    def test_rsockets(self):
        # Credits return after 192 messages; messages of 1 MiB need new buffers of the peer.
        for program, size, count, name in (("rstream", 64, 1000, "64"), ("rstream", 1 << 20, 4, "1m"), ("riostream", 64, 50, "64")):
            with self.subTest(program=program, size=size):
                options = ("-S", size, "-C", count)
                said, _ = self.pair((program, *options), (program, "-s", address(1), *options))
                self.assertRegex(said, rf"(?m)^custom +{name} ")

    def test_perftest(self):
        for program in (("ib_send_bw",), ("ib_write_lat",), ("ib_read_bw",), ("ib_send_lat", "-e")):
            with self.subTest(program=program):
                said, _ = self.pair((*program, "-R", "-F", "-n", 100), (*program, "-R", "-F", "-n", 100, address(1)))
                self.assertRegex(said, r"(?m)^ \d+ +100 ")

    def test_nobody_listens(self):
        serving = self.serve("rping", "-s", "-P")
        client = self.begin(2, "rping", "-c", "-a", address(1), "-p", 9, "-C", 1)
        said, _ = client.communicate(timeout=LIMIT)
        self.assertNotEqual(client.returncode, 0)
        self.assertIn("RDMA_CM_EVENT_REJECTED, error 8", said)
        serving.kill()
        serving.wait()

    def test_the_file(self):
        self.assertEqual(self.finish(self.begin(1, sys.executable, "-B", "-c", FILE)).splitlines(),
                         4 * ["device"] + ["True True", "[0, 0, 0, 0] 0 0", "character special file a"])

    def test_parleys_rping(self):
        serving = self.serve("rping", "-s", "-C", 5)
        done = run("rping", "--provider", "roce", "-c", "-a", address(1), "-I", address(2), "-C", 5, "-V")
        self.assertEqual(done.code, 0, done.out + done.err)
        self.finish(serving)
        server = self.start("rping", "--provider", "roce", "-s", "-a", address(3), "-p", 0, "-C", 5)
        port = server.wait_for("listening")["port"]
        said = self.finish(self.begin(2, "rping", "-c", "-a", address(3), "-p", port, "-C", 5, "-v", "-V"))
        self.assertEqual(said.count("ping data"), 5)


main()
