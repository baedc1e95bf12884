# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A case on Linux's rxe or siw in two guests of the lab: a server in one guest and a client in the other."""
from dataclasses import dataclass, field

ADDRESS = {"a": {4: "192.0.2.1", 6: "2001:db8::1"}, "b": {4: "192.0.2.2", 6: "2001:db8::2"}}
PARLEY = "/out/parley"


@dataclass
class Case:
    name: str
    device: str                 # rxe or siw, in both guests; rxe-a: rxe in guest a alone
    server_guest: str           # "a" or "b"
    server: str                 # {address} and {port} are the server's
    client: str
    server_says: list = field(default_factory=list)  # regular expressions, each to be found
    client_says: list = field(default_factory=list)
    client_exit: int = 0
    server_exit: int = 0
    family: int = 4
    netem: bool = False
    interrupt: bool = False     # the server runs until it is interrupted
    remove: str = ""            # the device that the server's guest removes while the client is connected
    meanwhile: str = ""         # what the client's guest runs while it is connected; $NIC is its interface
    on_request: str = ""        # what the server's guest runs once the server has a request
    ready: str = ""             # what a server says that can be called; else Parley's "listening", and time of others
    port: int = 0
