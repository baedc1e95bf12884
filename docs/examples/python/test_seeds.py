# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""pytest -p parley.pytest_plugin test_seeds.py: a connection in virtual time, with another pattern of losses for each seed."""
import asyncio

import pytest

import parley
from parley.aio import Host


async def exchange(client, server):
    async with Host(context=client) as a, Host(context=server) as b:
        listening = await b.listen("0.0.0.0:7471")
        accepted = asyncio.create_task(listening.accept())
        link = await a.connect(server.address().replace(":0", ":7471"))
        peer = await accepted
        await link.send(b"ping")
        assert await peer.receive() == b"ping"
        assert await link.close() is None, "all was delivered"


@pytest.mark.parley_seeds(1, 10)
def test_a_message_arrives_over_a_lossy_link(parley_seed):
    with parley.World(seed=parley_seed, loss_ppm=50_000) as world:
        asyncio.run(exchange(world.host("a"), world.host("b")))


@pytest.mark.parley_seeds(1, 3)
def test_the_same_seed_gives_the_same_run(parley_seed):
    def end():
        with parley.World(seed=parley_seed, loss_ppm=50_000) as world:
            a, b = world.host("a"), world.host("b")
            b.listen("0.0.0.0:7471")
            a.connect(b.address().replace(":0", ":7471"), rtr="read")
            for _ in range(2000):
                a.progress()
                for event in b.events():
                    if event.type == "connect_request":
                        event.of.accept()
            return a.now, [event.type for event in a.events()]
    assert end() == end()


def test_a_fixture_of_a_world(parley_world):
    assert parley_world.host("a").query()["provider"] == "sim"
