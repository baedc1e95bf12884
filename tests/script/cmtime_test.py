# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley cmtime`: a server and a client over plain sockets, and its table. Over a NIC it is in tests/interop/nics."""
import socket
import threading

from cli import CliTest, main, run

THERE = ["full_connect", "create_id", "connect", "disconnect", "destroy"]
NOT_THERE = ["bind_addr", "resolve_addr", "resolve_route", "create_qp"]


class Cmtime(CliTest):
    def server(self, *args):
        running = self.start("cmtime", "-b", "127.0.0.1", "-p", 0, *args)
        return running, running.wait_for("listening")["port"]

    def client(self, port, *args):
        return run("cmtime", "-s", "127.0.0.1", "-p", port, *args)

    def test_each_step_of_a_hundred_connections(self):
        server, port = self.server("-c", 100)
        done = self.ok(self.client(port, "--json"))
        summary = done.event("summary")
        self.assertEqual((summary["role"], summary["provider"], summary["connection_count"]), ("client", "iwarp", 100))
        steps = summary["steps"]
        self.assertEqual([name for name in steps if steps[name]], THERE)
        self.assertEqual([name for name in steps if not steps[name]], NOT_THERE, "no step is made up")
        for name in THERE:
            step = steps[name]
            self.assertGreaterEqual(step["mean_us"], step["min_us"], name)
            self.assertGreaterEqual(step["max_us"], step["mean_us"], name)
            self.assertGreaterEqual(step["total_us"], step["max_us"], name)
        # Id, exchange and all are parts of the whole, for each connection and so for their means.
        self.assertLessEqual(steps["create_id"]["mean_us"] + steps["connect"]["mean_us"], steps["full_connect"]["mean_us"] + 1)
        ended = self.ok(server.finish()).event("summary")
        self.assertEqual((ended["role"], ended["connection_count"], ended["broken"]), ("server", 100, 0))

    def test_the_table_names_what_is_not_there(self):
        server, port = self.server()
        done = self.ok(self.client(port, "-c", 3, "--concurrency", 1))
        lines = {line[:14].strip(): line[14:].split() for line in done.out.splitlines()[1:-1]}
        self.assertEqual(lines["step"], ["total", "us", "max", "us", "min", "us", "us/conn"])
        self.assertEqual(lines["resolve route"], ["-"] * 4)
        self.assertEqual(len(lines["create id"]), 4)
        self.assertGreater(float(lines["connect"][0]), 0)
        self.assertIn("iwarp has no step of its own for bind addr, resolve addr, resolve route, create qp", done.out)
        self.assertEqual(self.ok(server.finish(stop=True)).event("summary")["connection_count"], 3)

    def test_one_after_the_other_no_connection_waits_for_another(self):
        server, port = self.server("-c", 50)
        whole = self.ok(self.client(port, "-c", 50, "--concurrency", 1, "--json")).event("summary")["steps"]["full_connect"]
        self.assertGreaterEqual(whole["total_us"], 45 * whole["mean_us"], "they do not overlap")
        self.ok(server.finish())

    def test_a_source_address_is_kept(self):
        server, port = self.server("-c", 1)
        self.ok(self.client(port, "-c", 1, "-b", "127.0.0.1"))
        self.ok(server.finish())

    def test_in_a_simulated_network_each_run_is_the_same(self):
        first, again = (self.ok(run("cmtime", "--provider", "sim", "-c", 1000, "--json")) for _ in range(2))
        self.assertEqual(first.out, again.out, "virtual time")
        summary = first.event("summary")
        self.assertEqual((summary["provider"], summary["connection_count"]), ("sim", 1000))
        self.assertEqual([name for name in summary["steps"] if summary["steps"][name]], THERE)
        alone = self.ok(run("cmtime", "--provider", "sim", "-c", 10, "--concurrency", 1, "--json")).event("summary")["steps"]
        # One link of 1 us: SYN, SYN-ACK, Request, Reply are at least four times that.
        self.assertGreater(alone["connect"]["min_us"], 4)
        self.assertLess(alone["connect"]["max_us"], 100)
        self.assertIn("sim has no step of its own for bind addr", self.ok(run("cmtime", "--provider", "sim", "-c", 3)).out)
        self.refused(run("cmtime", "--provider", "sim", "-s", "127.0.0.1"), 2, "leave -s and -b out")
        self.refused(run("cmtime", "--provider", "sim", "-c", 5, "--timeout", "1us"), 1, "of 5 within 1us")

    def test_failures_are_told(self):
        with socket.socket() as nobody:
            nobody.bind(("127.0.0.1", 0))
            self.refused(self.client(nobody.getsockname()[1], "-c", 3), 1, "there is no listener")
        self.refused(run("cmtime", "-s", "no-such-host.invalid"), 3, "no-such-host.invalid")
        with socket.create_server(("127.0.0.1", 0)) as silent:
            self.refused(self.client(silent.getsockname()[1], "-c", 2, "--timeout", "200ms"), 1, "0 of 2 within 200ms")
        self.refused(run("cmtime", "-c", "50001"), 2, "-c")

    def test_a_peer_that_ends_early_is_a_failure_and_not_a_time(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            def answer():
                for _ in range(2):  # as a server that crashes: the second is revision 1
                    peer, _ = server.accept()
                    peer.recv(64)
                    peer.close()
            thread = threading.Thread(target=answer)
            thread.start()
            done = self.client(server.getsockname()[1], "-c", 1, "--json")
            thread.join()
        self.assertEqual(done.code, 1, done)
        self.assertIsNone(done.event("summary")["steps"]["connect"])

    def test_the_server_counts_a_client_that_breaks(self):
        server, port = self.server()
        with socket.create_connection(("127.0.0.1", port)) as peer:
            peer.sendall(b"MPA ID Req Frame\x40\x01\x00\x00")
            self.assertEqual(peer.recv(16), b"MPA ID Rep Frame")
            peer.sendall(b"\x00" * 4096)
            while peer.recv(4096):
                pass
        done = server.finish(stop=True)
        self.assertEqual((done.code, done.event("summary")["broken"]), (1, 1), done)


main()
