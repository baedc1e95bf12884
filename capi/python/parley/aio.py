# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Connections for asyncio: messages by Send and Receive, one-sided RDMA, and set-up, each of them awaited.

    async with Host("iwarp") as host:
        link = await host.connect("192.0.2.1:7471")
        await link.send(b"hello")
        print(await link.receive())

Each connection has `receives` buffers of `size` octets posted. A peer that sends more than it may gets no buffer, and the connection
ends: agree with it how many messages may be under way. On a simulated host virtual time goes on while the loop runs."""
import asyncio
import collections
import contextlib

from ._c import CONSTANTS, Error
from .context import Context

CANCELLED, REJECTED, TERMINATED = (CONSTANTS["E_" + name] for name in ("CANCELLED", "REJECTED", "TERMINATED"))


class Ended(Exception):
    """The connection has ended. `error`: None if it was closed gracefully."""

    def __init__(self, error):
        self.error = error
        super().__init__("closed by the peer or by close()" if error is None else str(error))


class Link:
    """A connection. Made by Host.connect() and Listening.accept()."""

    def __init__(self, host, connection, receives, size):
        self.host, self.connection, self.size = host, connection, size
        self.private_data, self.peer = b"", ""
        self.up, self.ended = host.loop.create_future(), host.loop.create_future()
        self._memory = host.context.register(receives * size)
        self._receives = receives
        self._messages, self._readers = collections.deque(), collections.deque()
        self.numbers = set()  # wr_ids without a completion yet
        for future in (self.up, self.ended):
            future.add_done_callback(lambda done: done.cancelled() or done.exception())  # not all are awaited

    def post_receives(self):
        for slot in range(self._receives):
            self._post_receive(slot)

    def _post_receive(self, slot):
        self.connection.post_receive(self._memory[slot * self.size:(slot + 1) * self.size], self.host.number((self, slot, None)))

    # ---- what the program calls

    async def send(self, data):
        """A message. Returns when the Send has completed."""
        with self.host.memory(data) as memory:
            await self.post(lambda wr_id: self.connection.post_send(memory[:len(data)], wr_id))

    async def receive(self):
        """The next message. Raises Ended when none can come any more."""
        if self._messages:
            return self._messages.popleft()
        if self.ended.done():
            raise Ended(self.ended.result())
        self._readers.append(self.host.loop.create_future())
        return await self._readers[-1]

    async def write(self, data, remote_addr, rkey):
        """RDMA Write into the peer's memory."""
        with self.host.memory(data) as memory:
            await self.post(lambda wr_id: self.connection.post_write(memory[:len(data)], remote_addr, rkey, wr_id))

    async def read(self, length, remote_addr, rkey):
        """RDMA Read from the peer's memory."""
        with self.host.memory(bytes(length)) as memory:
            await self.post(lambda wr_id: self.connection.post_read(memory[:length], remote_addr, rkey, wr_id))
            return bytes(memory[:length].view)

    async def post(self, posts):
        """Calls posts(wr_id), which posts one work request, and returns its Completion. Raises Ended if it failed."""
        if self.ended.done():
            raise Ended(self.ended.result())
        future = self.host.loop.create_future()
        wr_id = self.host.number((self, None, future))
        try:
            posts(wr_id)
        except Error:
            self.host.forget(wr_id)
            raise
        completion = await future
        if completion is None or not completion.ok:
            error = Error(TERMINATED, completion.status_text) if completion else None
            raise Ended(self.ended.result() if self.ended.done() else error)
        return completion

    async def close(self):
        """Gracefully: all that was posted is delivered. Returns None, or the Error that ended it."""
        if not self.ended.done():
            try:
                self.connection.disconnect()
            except Error as error:
                if error.name != "WRONG_STATE":
                    raise
        return await self.ended

    # ---- what the host tells

    def received(self, slot, completion):
        if completion.ok:
            begin = slot * self.size
            message = bytes(self._memory.view[begin:begin + completion.length])
            while self._readers and self._readers[0].done():
                self._readers.popleft()
            if self._readers:
                self._readers.popleft().set_result(message)
            else:
                self._messages.append(message)
            try:
                self._post_receive(slot)
            except Error:
                pass  # it is ending; the event says why

    def end(self, error):
        if not self.up.done():
            self.up.set_exception(error or Ended(None))
        if not self.ended.done():
            self.ended.set_result(error)
        for reader in self._readers:
            if not reader.done():
                reader.set_exception(Ended(error))
        self._readers.clear()
        for number in list(self.numbers):
            future = self.host.forget(number)
            if future is not None and not future.done():
                future.set_result(None)
        self.connection.destroy()
        self.host.links.pop(self.connection.id, None)
        self._memory.close()


class Listening:
    """Made by Host.listen()."""

    def __init__(self, host, listener, options):
        self.host, self.listener, self.options = host, listener, options
        self.ready, self.requests = host.loop.create_future(), asyncio.Queue()
        self.address = ""

    async def accept(self, private_data=b"", **options):
        """The next Link, established; its private_data are the peer's. A peer that gives up before is passed over."""
        while True:
            event = await self.requests.get()
            link = self.host.links[event.of.id]
            try:
                event.of.create_qp()
                link.post_receives()
                event.of.accept(private_data, **options)
                return await link.up
            except (Error, Ended):
                link.end(None)

    def close(self):
        self.host.listening.pop(self.listener.id, None)
        self.listener.destroy()


class Host:
    """A Context in the running event loop. provider as for Context; or context=, a simulated host for example."""

    def __init__(self, provider=None, context=None, **options):
        self.context = context or Context(provider, **options)
        self.loop, self.links, self.listening = None, {}, {}
        self._numbers, self._next, self._fd = {}, 0, -1
        self._lingering = []  # memory of requests whose task was cancelled

    async def __aenter__(self):
        self.loop = asyncio.get_running_loop()
        self._fd = self.context.fileno()
        self.loop.add_reader(self._fd, self._turn)
        return self

    async def __aexit__(self, *_):
        self.loop.remove_reader(self._fd)
        self.context.close()
        for link in list(self.links.values()):
            link.end(Error(CANCELLED))

    async def listen(self, local, receives=16, size=4096, **options):
        """`address` of the result has the port."""
        listener = self.context.listen(local, **options)
        made = self.listening[listener.id] = Listening(self, listener, {"receives": receives, "size": size})
        await made.ready
        return made

    async def connect(self, peer, receives=16, size=4096, **options):
        """A Link; or an Error: refused, rejected (its `private_data`), timed out, ..."""
        connection = self.context.connect(peer, **options)
        link = self.links[connection.id] = Link(self, connection, receives, size)
        link.post_receives()
        try:
            return await link.up
        except BaseException as error:
            link.end(error if isinstance(error, Error) else Error(CANCELLED))
            raise

    def number(self, owner):
        """A new wr_id. Its completion goes to `owner`: (link, slot, future)."""
        self._next += 1
        self._numbers[self._next] = owner
        owner[0].numbers.add(self._next)
        return self._next

    def forget(self, number):
        """Its future, if somebody waits."""
        link, _, future = self._numbers.pop(number, (None, None, None))
        if link is not None:
            link.numbers.discard(number)
        return future

    @contextlib.contextmanager
    def memory(self, data):
        """Registered memory with these octets. If a request still uses it at the end, it is kept until that has completed."""
        memory = self.context.register(bytearray(data) or 1)
        try:
            yield memory
        finally:
            self._lingering.append(memory)
            self._release()

    def _release(self):
        kept = []
        for memory in self._lingering:
            try:
                memory.close()
            except Error:
                kept.append(memory)
        self._lingering = kept

    def _turn(self):
        self.context.progress()
        self._complete()  # before the events: what was received before the end counts
        for event in self.context.events():
            self._handle(event)
        self._complete()
        if self._lingering:
            self._release()

    def _complete(self):
        while completions := self.context.poll():
            for completion in completions:
                link, slot, future = self._numbers.pop(completion.wr_id, (None, None, None))
                if link is None:
                    continue
                link.numbers.discard(completion.wr_id)
                if future is None:
                    link.received(slot, completion)
                elif not future.done():
                    future.set_result(completion)

    def _handle(self, event):
        if event.type == "connect_request":
            listening = self.listening[event.listener.id]
            link = self.links[event.of.id] = Link(self, event.of, **listening.options)
            link.private_data, link.peer = event.private_data, event.peer
            listening.requests.put_nowait(event)
            return
        if event.of is not None and event.of.id in self.listening:
            made = self.listening[event.of.id]
            if event.type == "listening":
                made.address = event.local or made.listener.query()["local"]
                made.ready.set_result(made)
            elif event.type == "connect_failed" and not made.ready.done():
                made.ready.set_exception(event.error)
            return
        link = self.links.get(event.of.id) if event.of is not None else None
        if link is None:
            return
        if event.type == "established":
            link.peer = link.peer or event.peer
            link.private_data = link.private_data or event.private_data
            if not link.up.done():
                link.up.set_result(link)
        elif event.type in ("rejected", "connect_failed", "disconnected"):
            self._complete()
            error = event.error
            if event.type == "rejected":
                error = error or Error(REJECTED, event.reason)
                error.private_data = event.private_data
            link.end(error)
