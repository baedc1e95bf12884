# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A listener under a flood of half-open connections: honest peers are set up, and it says whom it turned away.

Judged by counts. Times are printed, and bounded only by what a lockout would look like: without room an honest peer is
reset, or waits for the 5 s after which a silent one is given up. bench/flood_bench measures."""
import json
import os
import resource
import select
import socket
import struct
import subprocess
import threading
import time
import unittest

from cli import LIMIT, PARLEY, CliTest, run

GIVEN_UP_S = 60  # when the listener gives up a half-open connection: nobody waits for that
STANDING = 2000
PER_SECOND = 500


def request(flags=0x40, revision=1):
    """An MPA Request without private data (RFC 5044 §7.1.1); 0x40: CRC, 0x10: S."""
    return b"MPA ID Req Frame" + struct.pack("!BBH", flags, revision, 0)


class Flood:
    """Connections to a port that are opened and then left alone."""

    def __init__(self, port, address="127.0.0.9"):
        self.port, self.address, self.sockets = port, address, []
        self.opened = 0
        self.stop = threading.Event()
        self.thread = None

    def open(self, count, first=b""):
        for _ in range(count):
            sock = socket.socket()
            sock.bind((self.address, 0))
            sock.settimeout(10)
            try:
                sock.connect(("127.0.0.1", self.port))
                if first:
                    sock.sendall(first)
            except ConnectionResetError:
                pass  # refused so soon that this end has not looked yet; the listener counts it
            self.sockets.append(sock)
            self.opened += 1

    def keep_coming(self):
        """PER_SECOND more each second, until close()."""
        def body():
            start, before = time.monotonic(), self.opened
            while not self.stop.wait(0.01):
                due = int((time.monotonic() - start) * PER_SECOND) - (self.opened - before)
                self.open(max(0, due))
                while len(self.sockets) > STANDING + 500:  # the oldest were reset long ago
                    self.sockets.pop(0).close()
        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def wait_for_resets(self, count):
        """Until the listener ended `count` of them: it has then looked at that many more than it keeps."""
        poller, open_still = select.poll(), len(self.sockets)
        for sock in self.sockets:
            poller.register(sock, 0)  # POLLERR and POLLHUP, which are always told
        left = open_still - count
        end = time.monotonic() + LIMIT
        while open_still > left:
            ended = poller.poll(max(0, int(1000 * (end - time.monotonic()))))
            if not ended:
                raise TimeoutError(f"{len(self.sockets) - open_still} connections were ended in {LIMIT} s, not {count}")
            for descriptor, _ in ended:
                poller.unregister(descriptor)
            open_still -= len(ended)

    def close(self):
        self.stop.set()
        if self.thread:
            self.thread.join()
        for sock in self.sockets:
            sock.close()


class FloodTest(CliTest):
    def setUp(self):
        super().setUp()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard < STANDING + 1000:
            self.skipTest(f"only {hard} files may be open")

    def listen(self, *args):
        peer = self.start("listen", "127.0.0.1:0", "--request-timeout", f"{GIVEN_UP_S}s", *args)
        return peer, peer.wait_for("listening")["port"]

    def flood(self, port, **kwargs):
        flood = Flood(port, **kwargs)
        self.addCleanup(flood.close)
        return flood

    def honest(self, port, address, count=40):
        done = run("connect", f"127.0.0.1:{port}", "--local", address, "--count", count, "--rtr", "read", "--hold", "1ms",
                   "--reply-timeout", f"{GIVEN_UP_S}s", "--json", "--quiet")
        self.assertEqual(done.code, 0, done)
        summary = done.event("summary")
        self.assertEqual(summary["good"], count)
        self.assertEqual(summary["retried"], 0)
        self.assertLess(summary["setup_us"]["max"], GIVEN_UP_S * 1_000_000)
        return summary["setup_us"]

    def under_flood(self, honest_address):
        peer, port = self.listen("--quiet")
        flood = self.flood(port)
        flood.open(STANDING)
        flood.keep_coming()
        times = self.honest(port, honest_address)
        descriptors = len(os.listdir(f"/proc/{peer.process.pid}/fd"))
        flood.close()
        print(f"set up from {honest_address} beside {STANDING} half-open and {PER_SECOND}/s more ({flood.opened} in all): "
              f"median {times['median'] / 1e3:.2f} ms, max {times['max'] / 1e3:.2f} ms; {descriptors} descriptors")
        self.assertLess(descriptors, 1024 + 128 + 64, "bounded by pending_max and the share")
        summary = peer.finish(stop=True).event("summary")
        self.assertEqual(summary["established"], 40)
        self.assertGreaterEqual(summary["turned_away"]["gave_way"], STANDING - 1024 - 128)
        self.assertEqual(summary["turned_away"]["refused"], 0)

    def test_honest_peers_of_another_address_are_set_up(self):
        self.under_flood("127.0.0.2")

    def test_honest_peers_behind_the_floods_address_are_set_up(self):
        self.under_flood("127.0.0.9")

    def test_the_listener_says_whom_it_turned_away(self):
        peer, port = self.listen("--concurrency", 8)
        flood = self.flood(port)
        flood.open(30)
        begin = time.monotonic()
        told = peer.wait_for("turned_away")
        self.assertGreaterEqual(told["gave_way"], 1)
        self.assertTrue(told["peer"].startswith("127.0.0.9:"), told)
        self.assertIn("pending_max is 8", told["why"]["text"])
        flood.wait_for_resets(22)
        done = peer.finish(stop=True)
        told = [event for event in done.events if event["event"] == "turned_away"]
        self.assertEqual(sum(event["gave_way"] for event in told), 22)
        self.assertLess(len(told), 4 + time.monotonic() - begin, "once a second, and not once for each")
        self.assertEqual(done.event("summary")["turned_away"], {"gave_way": 22, "refused": 0})
        self.assertEqual(done.code, 0, done)

    def test_peers_that_owe_an_rtr_give_way_with_a_reason(self):
        peer, port = self.listen("--concurrency", 8)
        flood = self.flood(port)
        for _ in range(12):
            flood.open(1, request(flags=0x50))
            peer.wait_for("connect_request")
        self.honest(port, "127.0.0.2", count=3)
        failed = [event for event in map(json.loads, peer.seen) if event["event"] == "connect_failed"][0]
        self.assertEqual(failed["why"]["step"], "wait_rtr")
        self.assertIn("pending_max is 8", failed["why"]["text"])

    def test_requests_that_wait_for_the_decision_stay_and_newcomers_are_refused(self):
        peer, port = self.listen("--concurrency", 8, "--decide-after", "60s")
        flood = self.flood(port)
        flood.open(8, request())
        for _ in range(8):
            peer.wait_for("connect_request")
        flood.open(5)
        told = peer.wait_for("turned_away")
        self.assertEqual(told["gave_way"], 0)
        self.assertGreaterEqual(told["refused"], 1)
        self.assertIn("pending_max is 8", told["why"]["text"])
        flood.wait_for_resets(5)
        self.assertEqual(peer.finish(stop=True).event("summary")["turned_away"], {"gave_way": 0, "refused": 5})

    def test_half_open_connections_give_way_where_descriptors_run_out(self):
        def few_files():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        process = subprocess.Popen([PARLEY, "listen", "127.0.0.1:0", "--json"], stdout=subprocess.PIPE, text=True,
                                   preexec_fn=few_files)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        port = json.loads(process.stdout.readline())["port"]
        flood = self.flood(port)
        flood.open(400)
        self.honest(port, "127.0.0.2")
        told = json.loads(process.stdout.readline())
        self.assertEqual(told["event"], "turned_away")
        self.assertIn("limit of open files", told["why"]["text"])

    def test_rping_servers_take_the_same_care(self):
        peer = self.start("rping", "-s", "-P", "-a", "127.0.0.1", "-p", "0")
        port = peer.wait_for("listening")["port"]
        flood = self.flood(port)
        flood.open(1500)
        done = run("rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", 3)
        self.assertEqual(done.code, 0, done)
        self.assertIn("half-open connections gave way", peer.finish(stop=True).err)


if __name__ == "__main__":
    unittest.main()
