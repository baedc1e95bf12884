# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Registered memory and parts of it."""
import contextlib
import ctypes
import dataclasses

from ._c import CONSTANTS, STRUCTURES, Closing, check, lib, make

LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, REMOTE_ATOMIC = (
    CONSTANTS["ACCESS_" + word] for word in ("LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC"))


@dataclasses.dataclass(frozen=True)
class Piece:
    """Octets of a region: an element of a scatter/gather list."""
    memory: "Memory"
    offset: int
    length: int

    @property
    def address(self):
        return self.memory.address + self.offset

    @property
    def view(self):
        return self.memory.view[self.offset:self.offset + self.length]


class Memory(Closing):
    """A region of memory that is registered with a context (ibv_mr). `region[a:b]` is a Piece of it, `view` its octets.

    It stays registered, and its bytearray cannot change its size, until close()."""

    def __init__(self, context, memory, access):
        self._context = context
        self._octets = bytearray(memory) if isinstance(memory, int) else memory
        self._array = (ctypes.c_char * len(self._octets)).from_buffer(self._octets)
        self._region = make("parley_mr")
        check(lib.parley_reg_mr(context.handle, ctypes.addressof(self._array), len(self._octets), access,
                                ctypes.byref(self._region)))
        self.view = memoryview(self._octets)

    address = property(lambda self: self._region.addr)
    lkey = property(lambda self: self._region.lkey)
    rkey = property(lambda self: self._region.rkey)

    def __len__(self):
        return self._region.length

    def __getitem__(self, part):
        begin, end, step = part.indices(len(self))
        if step != 1:
            raise ValueError("a piece of memory has no step")
        return Piece(self, begin, max(end - begin, 0))

    def close(self):
        """Deregisters it. Error WRONG_STATE: a posted request uses it."""
        if self._array is None:
            return
        if not self._context.closed:
            check(lib.parley_dereg_mr(self._context.handle, self.lkey))
        self._array = None
        with contextlib.suppress(BufferError):  # a part of it is still looked at; that is safe
            self.view.release()


def elements(pieces):
    """(array, count) of parley_sge. Takes a Piece, a Memory, several of them, or None."""
    if pieces is None:
        pieces = ()
    if isinstance(pieces, (Piece, Memory)):
        pieces = (pieces,)
    pieces = [piece[:] if isinstance(piece, Memory) else piece for piece in pieces]
    kind = STRUCTURES["parley_sge"]
    array = (kind * max(len(pieces), 1))(*(kind(p.address, p.length, p.memory.lkey) for p in pieces))
    return array, len(pieces)
