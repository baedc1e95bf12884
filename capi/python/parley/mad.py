# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""InfiniBand's management datagrams: parley/mad.h. docs/mad.md has the names of methods, attributes and members, and how a path is
written."""
import ctypes

from ._c import Closing, Error, check, lib, make, octets


class Record:
    """An attribute: `record["num_ports"]` is a number, `record.text("node_guid")` any member as text."""

    def __init__(self, structure, data):
        self.structure, self.octets = structure, data

    def __getitem__(self, member):
        out = ctypes.c_uint64()
        check(lib.parley_mad_get(self.structure.encode(), self.octets, len(self.octets), member.encode(), ctypes.byref(out)))
        return out.value

    def text(self, member=None):
        """Without a member: lines "name=value" of all."""
        arguments = (self.structure.encode(), self.octets, len(self.octets), None if member is None else member.encode())
        length = check(lib.parley_mad_text(*arguments, None, 0))
        out = ctypes.create_string_buffer(length + 1)
        check(lib.parley_mad_text(*arguments, ctypes.addressof(out), length + 1))
        return out.value.decode()

    def __repr__(self):
        return f"{self.structure}({', '.join(self.text().splitlines())})"


class Reply:
    """`error` is None if an answer came; `records` has the attribute, or those of a table."""

    def __init__(self, raw):
        self.id, self.tries, self.mad_status = raw.id, raw.tries, raw.mad_status
        self.fault = lib.parley_mad_fault_name(raw.fault).decode()
        self.error = Error(raw.status, ((raw.error or b"") or (raw.status_text or b"")).decode()) if raw.status else None
        structure = (raw.structure or b"").decode()
        self.mad = octets(raw.mad, raw.mad_length)
        self.records = [Record(structure, octets(raw.records + i * raw.stride, raw.stride)) for i in range(raw.count if raw.records else 0)]


class Port(Closing):
    """A port of the subnet, from which requests are sent. where: "ibsim:NAME/NODE", "umad:DEVICE/PORT", "roce:ADDRESS",
    "verbs:DEVICE/GID". window: requests in flight. timeout: of the first try, in seconds; doubled for each retry."""

    def __init__(self, where=None, window=0, timeout=0, retries=0, m_key=0, sm_key=0):
        self.handle = ctypes.c_void_p()
        options = make("parley_mad_opts", window=window, timeout_ms=round(timeout * 1000), retries=retries, m_key=m_key, sm_key=sm_key)
        check(lib.parley_mad_open(ctypes.byref(self.handle), None if where is None else where.encode(), ctypes.byref(options)))

    def close(self):
        if self.handle:
            check(lib.parley_mad_close(self.handle))
            self.handle = None

    def fileno(self):
        """Readable when progress() has work to do."""
        return check(lib.parley_mad_fd(self.handle))

    def progress(self):
        return bool(check(lib.parley_mad_progress(self.handle)))

    def query(self):
        """{lid, sm_lid, port, node_guid, port_guid, ...}"""
        out = make("parley_mad_attr")
        check(lib.parley_mad_query(self.handle, ctypes.byref(out)))
        return {name: bytes(value) if name == "gid" else value for name, _ in out._fields_
                if name not in ("size", "reserved") and (value := getattr(out, name)) is not None}

    @staticmethod
    def _request(method, attribute, path, members):
        texts = [f"{name}={value}".encode() for name, value in members.items()]
        array = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        request = make("parley_mad_request", method=method.encode(), attribute=attribute.encode(), set_count=len(texts),
                       path=None if path is None else path.encode(), set=ctypes.addressof(array) if texts else None)
        return request, array

    def call(self, method, attribute, path=None, **members):
        """Sends a request, and waits for its Reply; an Error if there is none. members: of the body, and "modifier" and "key".
        path None: subnet administration."""
        request, kept = self._request(method, attribute, path, members)
        reply = make("parley_mad_reply")
        check(lib.parley_mad_call(self.handle, ctypes.byref(request), ctypes.byref(reply)))
        del kept
        return Reply(reply)

    def post(self, method, attribute, path=None, **members):
        """Returns the request's id; the reply comes by replies()."""
        request, kept = self._request(method, attribute, path, members)
        number = ctypes.c_uint64()
        check(lib.parley_mad_post(self.handle, ctypes.byref(request), ctypes.byref(number)))
        del kept
        return number.value

    def replies(self):
        """Those that are pending, in the order of completion."""
        while True:
            raw = make("parley_mad_reply")
            if not check(lib.parley_mad_poll(self.handle, ctypes.byref(raw))):
                return
            yield Reply(raw)
