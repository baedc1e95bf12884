# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The module for Python programs: its structures beside those of the C compiler, its objects, asyncio, and the programs of docs/python.md."""
import asyncio
import ctypes
import gc
import importlib
import os
import subprocess
import sys
import unittest

from cli import LIMIT, PARLEY, SOURCE_DIR, CliTest, main

BUILD = os.path.dirname(os.path.dirname(PARLEY))
MODULE = os.path.join(BUILD, "python")
os.environ["PARLEY_LIBRARY"] = os.path.join(BUILD, "lib", "libparley.so.1")
sys.path.insert(0, MODULE)
parley = importlib.import_module("parley")
aio, c = importlib.import_module("parley.aio"), importlib.import_module("parley._c")
layout = importlib.import_module("parley._layout")
PROGRAMS = os.path.join(SOURCE_DIR, "docs", "examples", "python")
HEADERS = ("parley/parley.h", "parley/mad.h")


class Layout(CliTest):
    def test_structures_and_constants_are_those_of_the_c_compiler(self):
        lines, due = [], []
        for name, members in layout.STRUCTURES.items():
            kind = c.STRUCTURES[name]
            lines.append(f'  printf("%zu\\n", sizeof(struct {name}));')
            due.append((name, ctypes.sizeof(kind)))
            for member, _ in members:
                lines.append(f'  printf("%zu\\n", offsetof(struct {name}, {member}));')
                due.append((f"{name}.{member}", getattr(kind, member).offset))
        for name, value in layout.CONSTANTS.items():
            lines.append(f'  printf("%lld\\n", (long long){name});')
            due.append((name, value))
        source = "".join(f"#include <{header}>\n" for header in HEADERS) + "#include <stddef.h>\n#include <stdio.h>\nint main(void) {\n"
        program = self.path("layout")
        subprocess.run(["cc", "-xc", "-", "-I", os.path.join(SOURCE_DIR, "include"), "-o", program], check=True, timeout=LIMIT,
                       input="\n".join([source, *lines, "  return 0;\n}\n"]), text=True)
        told = subprocess.run([program], check=True, timeout=LIMIT, capture_output=True, text=True).stdout.split()
        self.assertGreater(len(due), 300)
        self.assertEqual([(name, int(number)) for (name, _), number in zip(due, told)], due)

    def test_every_structure_and_function_of_the_headers_is_there(self):
        for header in HEADERS:
            with open(os.path.join(SOURCE_DIR, "include", header), encoding="utf-8") as file:
                text = file.read()
            for line in text.splitlines():
                if line.startswith("struct ") and line.endswith("{"):
                    self.assertIn(line.split()[1], c.STRUCTURES)
            self.assertLessEqual({part.split("(")[0].split()[-1].lstrip("*") for part in text.split("\nPARLEY_API ")[1:]},
                                 set(layout.FUNCTIONS))


def server_of(host):
    return host.address().replace(":0", ":7471")


class Objects(unittest.TestCase):
    def run_world(self, world, hosts, take, turns=100_000):
        """Until take(host, event or completion) says True."""
        for _ in range(turns):
            hosts[0].progress()
            for host in hosts:
                for told in [*host.events(), *host.poll()]:
                    if take(host, told):
                        return
        self.fail(f"nothing more happens in {world}")

    def test_a_message_with_private_data_both_ways(self):
        with parley.World(seed=5, loss_ppm=20_000) as world:
            a, b = world.host("a"), world.host("b")
            sent, got = a.register(bytearray(b"hello, b")), b.register(64)
            b.listen("0.0.0.0:7471")
            link = a.connect(server_of(b), private_data=b"from a", rtr="write")
            seen = {}

            def take(_, told):
                if isinstance(told, parley.Completion):
                    self.assertTrue(told.ok, told)
                    seen[told.opcode] = told
                elif told.type == "connect_request":
                    seen["request"] = told.private_data
                    told.of.create_qp(max_recv_wr=4)
                    told.of.post_receive(got[8:40], wr_id=2**64 - 1)
                    told.of.accept(b"from b")
                elif told.type == "established" and told.of is link:
                    seen["reply"] = told.private_data, told.rtr, told.mpa_revision
                    link.post_send(sent, wr_id=7)
                return "recv" in seen and "send" in seen
            self.run_world(world, (a, b), take)
            self.assertEqual((seen["request"], seen["reply"]), (b"from a", (b"from b", "write", 2)))
            self.assertEqual((seen["recv"].wr_id, seen["recv"].length, seen["send"].wr_id), (2**64 - 1, 8, 7))
            self.assertEqual(bytes(got[8:16].view), b"hello, b")

    def test_a_shared_receive_queue_tells_its_limit_and_a_queue_its_completions(self):
        with parley.World(seed=5) as world:
            a, b = world.host(), world.host()
            data, own = b.register(64), b.create_cq(16)
            queue = b.create_srq(4)
            for number in range(4):
                b.post_srq_receive(queue, data[16 * number:16 * number + 16], number)
            b.limit_srq(queue, 3)
            b.request_notify(own)
            b.listen("0.0.0.0:7471")
            link = a.connect(server_of(b))
            seen = []

            def take(_, told):
                if isinstance(told, parley.Completion):
                    return False
                if told.type == "connect_request":
                    told.of.accept(srq=queue, recv_cq=own)
                elif told.type == "established" and told.of is link:
                    link.post_send(None, 1)
                    link.post_send(None, 2)
                elif told.type == "srq_limit_reached":
                    seen.append(told.srq)
                return bool(seen)
            self.run_world(world, (a, b), take)
            self.assertEqual((seen, list(b.completed_queues())), ([queue], [own]))
            self.assertEqual([c.wr_id for c in b.poll(own)], [0, 1])

    def test_a_reject_has_its_private_data(self):
        with parley.World() as world:
            a, b = world.host(), world.host()
            b.listen("0.0.0.0:7471")
            a.connect(server_of(b))
            told = []

            def take(_, event):
                if event.type == "connect_request":
                    event.of.reject(b"not today")
                told.append(event)
                return event.type == "rejected"
            self.run_world(world, (a, b), take)
            self.assertEqual((told[-1].error.name, told[-1].private_data), ("REJECTED", b"not today"))

    def test_an_error_has_code_and_the_whole_message(self):
        with parley.Context("iwarp") as context:
            with self.assertRaises(parley.Error) as caught:
                context.listen("127.0.0.1:0", ird=20000)
            self.assertEqual((caught.exception.name, caught.exception.code), ("INVALID_ARGUMENT", 1))
            self.assertIn("20000", str(caught.exception))
            with self.assertRaises(parley.Error) as caught:
                context.connect("nonsense")
            self.assertEqual(caught.exception.name, "BAD_ADDRESS")
        with self.assertRaises(parley.Error):
            parley.Context("no such provider")

    def test_memory_keeps_its_octets_in_place(self):
        with parley.Context("iwarp") as context:
            octets = bytearray(16)
            with context.register(octets) as memory:
                memory[4:8].view[:] = b"abcd"
                self.assertEqual(octets[4:8], b"abcd")
                self.assertEqual(memory[4:8].address, memory.address + 4)
                with self.assertRaises(BufferError):
                    octets.append(0)
            octets.append(0)
            gc.collect()

    def test_what_is_closed_twice_or_used_afterwards(self):
        context = parley.Context("iwarp")
        memory = context.register(8)
        context.close()
        context.close()
        memory.close()
        with self.assertRaises(parley.Error) as caught:
            context.progress()
        self.assertEqual(caught.exception.name, "BAD_HANDLE")


class Asyncio(unittest.TestCase):
    def within(self, coroutine):
        return asyncio.run(asyncio.wait_for(coroutine, LIMIT))

    async def exchange(self, a, b, address, server=None):
        async with a, b:
            listening = await b.listen(address, receives=4)
            accepted = asyncio.create_task(listening.accept(b"welcome"))
            link = await a.connect(server or listening.address, private_data=b"hi")
            peer = await accepted
            self.assertEqual((link.private_data, peer.private_data), (b"welcome", b"hi"))
            for number in range(20):
                await link.send(b"%d" % number)
                self.assertEqual(await peer.receive(), b"%d" % number)
            shared = b.context.register(bytearray(b"shared"), parley.LOCAL_WRITE | parley.REMOTE_READ | parley.REMOTE_WRITE)
            await link.write(b"SH", shared.address, shared.rkey)
            self.assertEqual(await link.read(6, shared.address, shared.rkey), b"SHared")
            reader = asyncio.create_task(peer.receive())
            self.assertIsNone(await link.close())
            with self.assertRaises(aio.Ended) as caught:
                await reader
            self.assertIsNone(caught.exception.error)

    def test_on_sockets(self):
        self.within(self.exchange(aio.Host("iwarp"), aio.Host("iwarp"), "127.0.0.1:0"))

    def test_in_virtual_time(self):
        with parley.World(seed=2, loss_ppm=10_000) as world:
            a, b = world.host("a"), world.host("b")
            self.within(self.exchange(aio.Host(context=a), aio.Host(context=b), "0.0.0.0:7471", server_of(b)))

    def test_a_link_that_has_ended_leaves_nothing(self):
        async def many():
            async with aio.Host("iwarp") as a, aio.Host("iwarp") as b:
                listening = await b.listen("127.0.0.1:0")
                for number in range(20):
                    accepted = asyncio.create_task(listening.accept())
                    link = await a.connect(listening.address)
                    peer = await accepted
                    await link.send(b"")
                    self.assertEqual(await peer.receive(), b"")
                    waits = asyncio.create_task(peer.receive())
                    if number % 2:
                        link.connection.destroy()
                    else:
                        await link.close()
                    with self.assertRaises(aio.Ended):
                        await waits
                    with self.assertRaises(aio.Ended):
                        await peer.send(b"too late")
                self.assertEqual((b.links, b._numbers, len(b.context.ids)), ({}, {}, 1))
        self.within(many())

    def test_a_task_that_is_cancelled_keeps_its_memory_until_the_request_is_over(self):
        async def cancels():
            async with aio.Host("iwarp") as a, aio.Host("iwarp") as b:
                listening = await b.listen("127.0.0.1:0", receives=2)
                accepted = asyncio.create_task(listening.accept())
                link = await a.connect(listening.address)
                peer = await accepted
                task = asyncio.create_task(link.send(b"x" * 4096))
                await asyncio.sleep(0)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                self.assertEqual(await peer.receive(), b"x" * 4096)
                await link.send(b"next")
                self.assertEqual(await peer.receive(), b"next")
                self.assertEqual(a._lingering, [])
        self.within(cancels())

    def test_nobody_listens(self):
        async def refused():
            async with aio.Host("iwarp") as host:
                with self.assertRaises(parley.Error) as caught:
                    await host.connect("127.0.0.1:1")
                self.assertEqual(caught.exception.name, "REFUSED")
        self.within(refused())

    def test_a_host_that_closes_ends_its_links_and_those_of_the_peer(self):
        async def closes():
            async with aio.Host("iwarp") as a:
                async with aio.Host("iwarp") as b:
                    listening = await b.listen("127.0.0.1:0")
                    accepted = asyncio.create_task(listening.accept())
                    link = await a.connect(listening.address)
                    peer = await accepted
                with self.assertRaises(aio.Ended):
                    await peer.receive()
                with self.assertRaises(aio.Ended) as caught:
                    await link.receive()
                self.assertEqual(caught.exception.error.name, "PEER_RESET")
        self.within(closes())


def has_pytest(python):
    return subprocess.run([python, "-c", "import pytest"], capture_output=True, timeout=LIMIT, check=False).returncode == 0


class Programs(CliTest):
    def program(self, *words, python=sys.executable, due=0):
        environment = {**os.environ, "PYTHONPATH": MODULE, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([python, *words], capture_output=True, text=True, timeout=LIMIT, check=False, env=environment)
        self.assertEqual(done.returncode, due, done.stdout + done.stderr)
        return done.stdout

    def test_echo(self):
        self.assertIn(" answers: hello\n", self.program(os.path.join(PROGRAMS, "echo.py")))

    def test_ring(self):
        self.assertIn("5 hosts, each has the number of the one before it", self.program(os.path.join(PROGRAMS, "ring.py"), "5"))

    def test_judge(self):
        self.assertIn(" > 10.0.0.2:7471: passed\n", self.program(os.path.join(PROGRAMS, "judge.py"), "drop_reply", "1"))

    def test_discover(self):
        self.assertTrue(self.program(os.path.join(PROGRAMS, "discover.py")).endswith("\n16 nodes\n"))

    def test_seeds_of_pytest(self):
        pythons = [python for python in (sys.executable, "/usr/bin/python3") if os.path.exists(python) and has_pytest(python)]
        if not pythons and not os.environ.get("CI"):
            self.skipTest("not installed: python3-pytest")
        test = os.path.join(PROGRAMS, "test_seeds.py")
        pytest = ("-m", "pytest", "-q", "-p", "parley.pytest_plugin", "-p", "no:cacheprovider")
        self.assertIn("33 passed", self.program(*pytest, test, python=pythons[0]))
        self.assertIn("12 passed", self.program(*pytest, "--parley-seeds", "0x10..0x13", test, python=pythons[0]))
        self.program(*pytest, "--parley-seeds", "9..1", test, python=pythons[0], due=4)
        failing = self.path("test_failing.py", b"def test_it(parley_world):\n    host = parley_world.host()\n    host.progress()\n    assert 0\n")
        out = self.program(*pytest, "--parley-seeds", "7", failing, python=pythons[0], due=1)
        self.assertRegex(out, r"seed 7, after \d+ ns of virtual time")


if __name__ == "__main__":
    main()
