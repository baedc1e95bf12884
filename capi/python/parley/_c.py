# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""libparley.so.1 by ctypes: its structures as classes, its functions with their types. What they are is read from the C headers when
Parley is built (_layout.py)."""
import ctypes
import os

from . import _layout

NUMBERS = {"u8": ctypes.c_uint8, "u16": ctypes.c_uint16, "u32": ctypes.c_uint32, "u64": ctypes.c_uint64, "i32": ctypes.c_int32,
           "i64": ctypes.c_int64, "int": ctypes.c_int, "size": ctypes.c_size_t, "text": ctypes.c_char_p, "address": ctypes.c_void_p}


def _type(kind):
    if isinstance(kind, str):
        return NUMBERS[kind]
    return (ctypes.c_char if kind[0] == "char" else NUMBERS[kind[0]]) * kind[1]


def _structure(name, members):
    return type(name, (ctypes.Structure,), {"_fields_": [(member, _type(kind)) for member, kind in members]})


STRUCTURES = {name: _structure(name, members) for name, members in _layout.STRUCTURES.items()}
CONSTANTS = {name.removeprefix("PARLEY_"): value for name, value in _layout.CONSTANTS.items()}
ERRORS = {value: name.removeprefix("E_") for name, value in CONSTANTS.items() if name.startswith("E_")}


def make(name, **members):
    """A structure with its size set; members that are not named are 0, which is always the default."""
    made = STRUCTURES[name]()
    if any(member == "size" for member, _ in _layout.STRUCTURES[name]):
        made.size = ctypes.sizeof(made)
    for member, value in members.items():
        setattr(made, member, value)
    return made


class Error(Exception):
    """A failure that the library tells. `name`: that of the code in parley.h without PARLEY_E_; `code`: its number, above 0;
    `errno`: the closest errno."""

    def __init__(self, code, text=""):
        self.code = abs(code)
        self.name = ERRORS.get(self.code, str(self.code))
        super().__init__(text or lib.parley_strerror(self.code).decode())

    @property
    def errno(self):
        return lib.parley_errno(self.code)


def _load():
    library = ctypes.CDLL(os.environ.get("PARLEY_LIBRARY") or "libparley.so.1")
    for name, (result, arguments) in _layout.FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = _type(result), [_type(kind) for kind in arguments]
    return library


lib = _load()


class Closing:
    """What `with` closes."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def check(result):
    """The result of a call, or its Error with the whole message."""
    if result < 0:
        raise Error(result, lib.parley_last_error().decode())
    return result


def octets(address, length):
    return ctypes.string_at(address, length) if address and length else b""


def pointer_to(data):
    """(keeps it alive, address, length) of octets for a call."""
    data = bytes(data or b"")
    kept = ctypes.create_string_buffer(data, len(data)) if data else None
    return kept, ctypes.addressof(kept) if data else None, len(data)
