# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""--metrics and --metrics-http: what they count of real connections, read by a reader of our own; and clients that do not
behave as clients should."""
import os
import re
import socket
import stat
import subprocess
import time
import unittest

import exposition
from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, address, main, run
from exposition import value


def http(port, request, timeout=LIMIT):
    """All that is answered to these octets."""
    with socket.create_connection(("127.0.0.1", port), timeout=timeout) as s:
        s.sendall(request)
        out = b""
        while part := s.recv(65536):
            out += part
        return out


def get(port, path="/metrics"):
    head, _, body = http(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()).partition(b"\r\n\r\n")
    return head.decode(), body


class Reader(unittest.TestCase):
    """The reader itself must be able to refuse."""

    def test_it_refuses_what_is_wrong(self):
        head = b"# HELP parley_x_total x\n# TYPE parley_x_total counter\n"
        exposition.read(head + b'parley_x_total{a="\\"\\\\\\n}"} 1\n')
        times = b"# HELP parley_t_seconds x\n# TYPE parley_t_seconds histogram\n"
        bucket = b'parley_t_seconds_bucket{le="%s"} %d\n'
        rest = b"parley_t_seconds_sum 1\nparley_t_seconds_count 2\n"
        exposition.read(times + bucket % (b"1", 1) + bucket % (b"+Inf", 2) + rest)
        for wrong in (head, b"parley_x_total 1\n", head + b'parley_x_total{a="b} 1\n', head + b'parley_x_total{a="\\q"} 1\n',
                      head + b"parley_x_total 1", head + b"parley_x_total 1\nparley_x_total 2\n", head + b"parley_y_total 1\n",
                      head + b'parley_x_total{a="\xff"} 1\n', head + b'parley_x_total{a="b",a="c"} 1\n',
                      head + b"parley_x_total 1e5\n", head + head, head + b'parley_x_total{a="b"} 1\nparley_x_total 2\n',
                      b"# TYPE parley_x_total counter\nparley_x_total 1\n", b"# HELP parley_x x\n# TYPE parley_x counter\nparley_x 1\n",
                      times + bucket % (b"1", 3) + bucket % (b"+Inf", 2) + rest, times + bucket % (b"1", 1) + rest,
                      times + bucket % (b"2", 1) + bucket % (b"1", 1) + bucket % (b"+Inf", 2) + rest):
            if wrong == head:
                continue  # a family may be empty
            with self.subTest(wrong), self.assertRaises((exposition.Malformed, UnicodeDecodeError)):
                exposition.read(wrong)


class Counted(CliTest):
    def read(self, path):
        with open(path, "rb") as file:
            return exposition.read(file.read())

    def test_both_sides_of_connections(self):
        here, there = self.path("connect.prom"), self.path("listen.prom")
        peer, port = self.listener("--count", 3, "--expect", 2, "--metrics", there)
        self.ok(run("connect", f"127.0.0.1:{port}", "--count", 3, "--rtr", "read", "--send", 2, "--metrics", here))
        self.ok(peer.finish())
        for path, role, sent in ((here, "initiator", "sent"), (there, "responder", "received")):
            with self.subTest(role):
                m = self.read(path)
                back = "received" if sent == "sent" else "sent"
                self.assertEqual(value(m, "parley_messages_total", type="mpa_request", direction=sent), 3)
                self.assertEqual(value(m, "parley_messages_total", type="mpa_reply", direction=back), 3)
                self.assertEqual(value(m, "parley_messages_total", type="rtr_read", direction=sent), 3)
                self.assertEqual(value(m, "parley_fpdus_total", opcode="send", direction=sent), 6)
                self.assertEqual(value(m, "parley_fpdu_payload_bytes_total", opcode="send", direction=sent), 6 * 64)
                self.assertEqual(value(m, "parley_connections_started_total", role=role), 3)
                self.assertEqual(value(m, "parley_connections_established_total", role=role), 3)
                self.assertEqual(value(m, "parley_connections", role=role), 0)
                self.assertEqual(value(m, "parley_disconnects_total"), 3)
                self.assertEqual(value(m, "parley_setup_seconds", "_count", role=role), 3)
                stages = {labels["stage"]: number for suffix, labels, number in m["parley_setup_stage_seconds"].samples
                          if suffix == "_sum" and labels["role"] == role}
                whole = value(m, "parley_setup_seconds", "_sum", role=role)
                self.assertGreater(whole, 0)
                self.assertAlmostEqual(sum(stages.values()), whole, 9, stages)  # nothing between the stages

    def test_rejections_failures_and_retries(self):
        path = self.path("m.prom")
        peer, port = self.listener("--count", 1, "--reject")
        self.assertEqual(run("connect", f"127.0.0.1:{port}", "--metrics", path).code, 1)
        peer.finish()
        self.assertEqual(value(self.read(path), "parley_rejects_total", reason="rejected", direction="received"), 1)
        with socket.socket() as nobody:  # bound, and not listening
            nobody.bind(("127.0.0.1", 0))
            self.assertEqual(run("connect", f"127.0.0.1:{nobody.getsockname()[1]}", "--rounds", 3, "--back-off", "1ms",
                                 "--metrics", path).code, 1)
        m = self.read(path)
        self.assertEqual(value(m, "parley_retries_total", reason="refused"), 2)
        self.assertEqual(value(m, "parley_setup_failures_total", step="tcp_connect", reason="refused"), 1)
        self.assertEqual(value(m, "parley_timer_expirations_total", timer="back_off"), 2)

    def test_the_file_is_replaced_in_one_step_and_keeps_its_mode(self):
        path = self.path("m.prom", b"old\n")
        os.chmod(path, 0o640)
        link = self.path("link.prom")
        os.symlink(path, link)
        before = open(path, "rb")  # open, so that no later file gets its inode
        self.addCleanup(before.close)
        peer, _ = self.listener("--metrics", link, "--metrics-interval", "10ms")
        with open(path, "rb") as old:
            written = os.fstat(old.fileno()).st_ino
            self.assertNotEqual(written, os.fstat(before.fileno()).st_ino)
            deadline = time.monotonic() + LIMIT
            while os.stat(path).st_ino == written and time.monotonic() < deadline:
                self.read(path)  # whole, whenever it is read
            self.assertNotEqual(os.stat(path).st_ino, written)
            exposition.read(old.read())
        self.ok(peer.finish(stop=True))
        self.assertTrue(os.path.islink(link))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o640)
        self.assertEqual(sorted(os.listdir(self.directory)), ["link.prom", "m.prom"])

    def test_what_is_no_file_is_written_to(self):
        self.assertIn("parley_build_info", run("connect", "127.0.0.1:1", "--metrics", "/dev/stdout").out)
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        run("connect", "127.0.0.1:1", "--metrics", "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))

    def test_what_a_descriptor_leads_to_is_appended_to_and_never_replaced(self):
        peer, port = self.listener("--count", 3)
        # Behind a link, so that it is the link that suffers if something is wrong, and not the machine.
        os.symlink("/dev/stdout", self.path("link"))
        for name in (self.path("link"), "/dev/fd/1", "/proc/self/fd/1"):
            path = self.path("out.txt", b"")
            with self.subTest(name), open(path, "r+b") as out:
                before = os.stat(path).st_ino
                subprocess.run([PARLEY, "connect", f"127.0.0.1:{port}", "--metrics", name], stdout=out, stderr=subprocess.PIPE,
                               timeout=LIMIT, check=False)
                self.assertEqual(os.stat(path).st_ino, before)
                out.seek(0)
                text = out.read().decode()
                self.assertEqual(text.count("# HELP parley_build_info"), 2, text)
                self.assertTrue(text.startswith("# HELP"), text)
                self.assertIn("connections were set up", text)
            self.assertEqual(sorted(set(os.listdir(self.directory)) - {"link"}), ["out.txt"])
        self.ok(peer.finish())
        with open(self.path("gone.txt"), "w+b") as out:  # a name that is nobody's any more
            os.unlink(out.name)
            subprocess.run([PARLEY, "connect", "127.0.0.1:1", "--metrics", f"/proc/self/fd/{out.fileno()}"],
                           pass_fds=[out.fileno()], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=LIMIT,
                           check=False)
            out.seek(0)
            self.assertEqual(out.read().count(b"# HELP parley_build_info"), 2)
        self.assertEqual(sorted(os.listdir(self.directory)), ["link", "out.txt"])

    def test_a_link_that_leads_nowhere_stays(self):
        link = self.path("link.prom")
        os.symlink(self.path("nobody.prom"), link)
        self.refused(run("connect", "127.0.0.1:1", "--metrics", link), 3, "metrics", "link.prom", "No such file")
        self.assertEqual(os.readlink(link), self.path("nobody.prom"))
        self.assertEqual(os.listdir(self.directory), ["link.prom"])

    def test_a_fifo_neither_keeps_waiting_nor_ends_the_command(self):
        fifo = self.path("fifo")
        os.mkfifo(fifo)
        self.refused(run("connect", "127.0.0.1:1", "--metrics", fifo), 3, "metrics", "fifo")
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        peer, _ = self.listener("--metrics", fifo, "--metrics-interval", "0s")
        self.assertIn(b"parley_build_info", os.read(reader, 65536))
        os.close(reader)
        self.refused(peer.finish(stop=True), 3, "metrics", "fifo")
        # Standard output whose reader is gone ends nothing either.
        ours, theirs = os.pipe()
        os.close(ours)
        os.symlink("/dev/stdout", self.path("link"))
        done = subprocess.run([PARLEY, "connect", "127.0.0.1:1", "--metrics", self.path("link")], stdout=theirs,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        os.close(theirs)
        self.assertEqual(done.returncode, 3)
        self.assertIn("Broken pipe", done.stderr)

    def test_a_file_that_cannot_be_written_is_told_before_anything_happens(self):
        self.refused(run("connect", "127.0.0.1:1", "--metrics", self.path("no/such/m.prom")), 3, "metrics", "no/such/m.prom")
        odd = self.refused(run("connect", "127.0.0.1:1", "--metrics", self.path("no/\033[2J")), 3, "metrics", "no/?[2J")
        self.assertNotIn("\033", odd.err)
        self.refused(run("listen", "127.0.0.1:0", "--metrics", self.directory), 3, "metrics")

    def test_every_family_is_documented(self):
        path = self.path("m.prom")
        run("connect", "127.0.0.1:1", "--metrics", path)
        with open(os.path.join(SOURCE_DIR, "docs", "operations.md"), encoding="utf-8") as file:
            page = file.read()
        named = set(re.findall(r"`(parley_[a-z_]+)[`{]", page))
        written = set(self.read(path))
        run("neg", "dial", "127.0.0.1:1", "--variant", "manual", "--set", "qpn=1", "--set", "gid=192.0.2.1", "--metrics", path)
        negotiations = set(self.read(path))
        self.assertIn("parley_negotiation_seconds", negotiations)
        run("connect", f"{address(1)}:1", "--roce", "--metrics", path)
        roce = self.read(path)
        dropped = {labels["reason"] for _, labels, _ in roce["parley_roce_packets_dropped_total"].samples}
        self.assertEqual({reason for reason in dropped if f"`{reason}`" not in page}, set())
        self.assertEqual((written | negotiations | set(roce)) - named, set())
        self.assertEqual(named - written - negotiations - set(roce), set())


class Http(CliTest):
    def served(self, *args):
        peer = self.start("listen", "127.0.0.1:0", "--metrics-http", 0, *args)
        self.metrics = peer.wait_for("metrics")
        self.port = self.metrics["port"]
        return peer, peer.wait_for("listening")["port"]

    def test_answers_while_connections_are_up(self):
        peer, port = self.served("--count", 1)
        self.assertEqual(self.metrics["url"], f"http://127.0.0.1:{self.port}/metrics")
        head, body = get(self.port)
        self.assertTrue(head.startswith("HTTP/1.1 200 OK\r\n"), head)
        self.assertIn("Content-Type: text/plain; version=0.0.4", head)
        self.assertEqual(value(exposition.read(body), "parley_connections", role="responder"), 0)
        ours = self.start("connect", f"127.0.0.1:{port}", "--hold", "60s", "--rtr", "send")
        ours.wait_for("established")
        deadline = time.monotonic() + LIMIT
        while value(exposition.read(get(self.port)[1]), "parley_connections", role="responder") != 1:
            self.assertLess(time.monotonic(), deadline)
        self.ok(ours.finish(stop=True))
        self.ok(peer.finish())

    def test_refuses_all_but_get_metrics(self):
        peer, _ = self.served()
        for request, status in ((b"GET / HTTP/1.1\r\n\r\n", b"404"), (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
                                (b"\x16\x03\x01\x00\xa5\x01\r\n\r\n", b"400"), (b"GET /metrics HTTP/3\r\n\r\n", b"505"),
                                (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * 9000, b"431")):
            with self.subTest(request[:40]):
                self.assertEqual(http(self.port, request).split(b" ")[1], status)
        self.ok(peer.finish(stop=True))

    def test_no_client_keeps_another_waiting(self):
        peer, port = self.served("--count", 1)
        clients = []
        for i in range(110):
            s = socket.create_connection(("127.0.0.1", self.port))
            clients.append(s)
            self.addCleanup(s.close)
            if i >= 100:  # it asks, never listens, and leaves with a reset
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            try:
                s.sendall(b"GET /metrics HTTP/1.1\r\n\r\n" * 3 if i >= 100 else b"GET /metrics HTTP/1.1\r\nX: "[:i % 27])
            except (ConnectionResetError, BrokenPipeError):
                pass  # it has made room already
        begin = time.monotonic()
        exposition.read(get(self.port)[1])
        self.ok(run("connect", f"127.0.0.1:{port}"))  # nor a connection
        # 16 clients are kept, for 5 s each: half of what it would take to wait for one after the other.
        self.assertLess(time.monotonic() - begin, 40)
        for s in clients:
            s.close()
        self.ok(peer.finish())

    def test_half_a_request_is_ended_in_time(self):
        peer, _ = self.served()
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as s:
            s.sendall(b"GET /metrics HT")
            with self.assertRaises(ConnectionResetError):
                s.recv(1)
        self.ok(peer.finish(stop=True))

    def test_addresses_that_cannot_be(self):
        self.refused(run("listen", "127.0.0.1:0", "--metrics-http", "127.0.0.1:99999"), 2, "--metrics-http")
        self.refused(run("listen", "127.0.0.1:0", "--metrics-http", "192.0.2.1:0"), 3, "metrics", "192.0.2.1")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            self.refused(run("listen", "127.0.0.1:0", "--metrics-http", taken.getsockname()[1]), 3, "metrics", "in use")


if __name__ == "__main__":
    main()
