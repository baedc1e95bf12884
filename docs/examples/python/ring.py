# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""ring.py [HOSTS]: simulated hosts in a ring, over links that lose one frame of a hundred. Each writes its number into the memory of the next
one by RDMA Write, and tells it so by an empty Send. The run takes virtual time, and the same seed gives the same run."""
import sys

import parley

PORT = 7471


class Node:
    """A host: it listens, connects to the next one, and learns where to write from the private data of the Reply."""

    def __init__(self, context):
        self.context = context
        self.window = context.register(8, parley.LOCAL_WRITE | parley.REMOTE_WRITE)
        self.own = context.register(8)
        self.ready, self.done, self.next = False, False, None

    def place(self):
        return self.window.address.to_bytes(8, "big") + self.window.rkey.to_bytes(4, "big")

    def turn(self, number):
        for event in self.context.events():
            if event.type == "listening":
                self.ready = True
            elif event.type == "connect_request":
                event.of.create_qp()
                event.of.post_receive(None)
                event.of.accept(self.place())
            elif event.type == "established" and event.of is self.next:
                self.own.view[:] = number.to_bytes(8, "big")
                where, key = int.from_bytes(event.private_data[:8], "big"), int.from_bytes(event.private_data[8:12], "big")
                event.of.post_write(self.own[:], where, key)
                event.of.post_send(None)
            elif event.error:
                raise event.error
        for completion in self.context.poll():
            if not completion.ok:
                raise RuntimeError(completion.status_text)
            self.done = self.done or completion.opcode == "recv"


def main(hosts=16):
    with parley.World(seed=7, loss_ppm=10_000) as world:
        nodes = [Node(world.host(f"h{i}")) for i in range(hosts)]
        for node in nodes:
            node.context.listen(f"0.0.0.0:{PORT}")
        while not all(node.done for node in nodes):
            nodes[0].context.progress()  # of the whole world
            for number, node in enumerate(nodes):
                node.turn(number)
            if all(node.ready for node in nodes) and nodes[0].next is None:
                for number, node in enumerate(nodes):
                    node.next = node.context.connect(nodes[(number + 1) % hosts].context.address().replace(":0", f":{PORT}"))
        told = [int.from_bytes(node.window.view, "big") for node in nodes]
        assert told == [(i - 1) % hosts for i in range(hosts)], told
        print(f"{hosts} hosts, each has the number of the one before it, after {nodes[0].context.now / 1e6:.3f} ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
