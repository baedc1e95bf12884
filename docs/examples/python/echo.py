# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""echo.py: a server and a client in one program. echo.py server ADDRESS, echo.py client ADDRESS TEXT: each of them alone."""
import asyncio
import sys

from parley.aio import Ended, Host


async def serve_one(link):
    try:
        while True:
            await link.send(await link.receive())
    except Ended as end:
        print(f"{link.peer}: {end}")


async def serve(host, address, listening):
    server = await host.listen(address)
    listening.set_result(server.address)
    clients = set()
    while True:
        task = asyncio.create_task(serve_one(await server.accept()))
        clients.add(task)
        task.add_done_callback(clients.discard)


async def ask(host, address, text):
    link = await host.connect(address)
    await link.send(text.encode())
    answer = await link.receive()
    print(f"{address} answers: {answer.decode()}")
    if error := await link.close():
        raise error


async def main(role="both", address="127.0.0.1:0", text="hello"):
    async with Host("iwarp") as host, Host("iwarp") as other:
        listening = asyncio.get_running_loop().create_future()
        if role == "client":
            await ask(host, address, text)
            return
        server = asyncio.create_task(serve(host, address, listening))
        await asyncio.wait({server, listening}, return_when=asyncio.FIRST_COMPLETED)
        if role == "both" and listening.done():
            await ask(other, listening.result(), text)
            server.cancel()
        await asyncio.gather(server, return_exceptions=role == "both")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
