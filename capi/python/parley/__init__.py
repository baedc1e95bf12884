# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Parley for Python programs: RDMA connections over TCP or UDP sockets, real NICs or a simulated network. docs/python.md has programs.

parley.aio: connections for asyncio. parley.mad: InfiniBand's management datagrams. parley.tool: scenarios, and verdicts on captures, by
the command. parley.pytest_plugin: a test over many seeds."""
from ._c import Error
from .context import NEVER, Completion, Connection, Context, Event, Listener, World, resolve, version
from .memory import LOCAL_WRITE, REMOTE_ATOMIC, REMOTE_READ, REMOTE_WRITE, Memory, Piece

__all__ = ["NEVER", "LOCAL_WRITE", "REMOTE_ATOMIC", "REMOTE_READ", "REMOTE_WRITE", "Completion", "Connection", "Context", "Error",
           "Event", "Listener", "Memory", "Piece", "World", "resolve", "version"]
