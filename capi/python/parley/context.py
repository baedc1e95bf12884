# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Contexts, simulated networks, connections, events and completions: parley.h with objects in the place of handles.

One thread at a time uses a context and what belongs to it, or the contexts of one world. Nothing blocks but wait() and resolve()."""
import ctypes
import dataclasses
import typing

from ._c import CONSTANTS, Closing, Error, STRUCTURES, check, lib, make, octets, pointer_to
from .memory import LOCAL_WRITE, Memory, elements

RTR = {name: CONSTANTS["RTR_" + name.upper()] for name in ("default", "none", "frame", "send", "write", "read")}
RTR_NAMES = {value: name for name, value in RTR.items()}
STAGES = {value: name.removeprefix("STAGE_").lower() for name, value in CONSTANTS.items() if name.startswith("STAGE_")}
OPCODES = {value: name.removeprefix("WC_").lower() for name, value in CONSTANTS.items()
           if name.startswith("WC_") and not name.startswith("WC_WITH_") and name != "WC_SOLICITED"}
NEVER = CONSTANTS["NEVER"]


def _encoded(text):
    return None if text is None else text.encode()


def milliseconds(seconds):
    """None: 0, the default. float("inf"): never."""
    if seconds is None:
        return 0
    return NEVER if seconds == float("inf") else max(round(seconds * 1000), 1)


class World(Closing):
    """A simulated network: hosts around one switch, in virtual time. The same seed and the same calls give the same run.

    loss_ppm: lost frames per million. delay: of each link in one direction, in seconds; there are two links between two hosts.
    rate: bits per second. mtu: octets of an IP packet. Open all hosts before the first progress() or wait()."""

    def __init__(self, seed=0, loss_ppm=0, delay=None, rate=0, mtu=0):
        self.handle = ctypes.c_void_p()
        options = make("parley_world_opts", seed=seed, loss_ppm=loss_ppm, delay_ns=round((delay or 0) * 1e9), rate_bps=rate, mtu=mtu)
        check(lib.parley_world_open(ctypes.byref(self.handle), ctypes.byref(options)))
        self._hosts = []

    def host(self, name=None, ids_max=0):
        """A Context of a new host."""
        self._hosts.append(Context("sim", world=self, host=name, ids_max=ids_max))
        return self._hosts[-1]

    @property
    def now(self):
        """Nanoseconds of virtual time; 0 without hosts."""
        return next((host.now for host in self._hosts if not host.closed), 0)

    def close(self):
        """Closes it and its hosts."""
        for host in self._hosts:
            host.close()
        if self.handle:
            check(lib.parley_world_close(self.handle))
            self.handle = None


@dataclasses.dataclass(frozen=True)
class Completion:
    """Of a work request (ibv_wc). Unless `ok`, only wr_id, status, opcode and qp_num are valid."""
    wr_id: int
    status: int
    opcode: str
    length: int
    qp_num: int
    immediate: typing.Optional[int]
    invalidated_rkey: typing.Optional[int]

    @property
    def ok(self):
        return self.status == 0

    @property
    def status_text(self):
        return lib.parley_wc_status_str(self.status).decode()


@dataclasses.dataclass(frozen=True)
class Event:
    """What happened to a listener or a connection (parley_event). `type`: "listening", "connect_request", "established", "rejected",
    "connect_failed", "retrying", "disconnected", "turned_away", "address_changed", "device_removed", "srq_limit_reached". `error`: None, or why it failed;
    of "disconnected" None means that all data was delivered. `of` is the Listener or Connection; None: nothing is there for it."""
    type: str
    of: typing.Any
    listener: typing.Any
    error: typing.Optional[Error]
    stage: str
    local: str
    peer: str
    private_data: bytes
    ird: int
    ord: int
    mpa_revision: int
    rtr: str
    crc: bool
    markers: bool
    turned_away: int
    srq: int  #: "srq_limit_reached": the shared receive queue
    attempts: int
    reason: str
    rule: str
    received: str
    advice: str
    seconds: dict  #: since the set-up began: transport, request, decision, reply, established, elapsed; wait: to the next attempt


class Listener:
    """Made by Context.listen()."""

    def __init__(self, context, handle):
        self.context, self.id = context, handle

    def query(self):
        """{has_qp, qp_num, qp_state, local, peer}; addresses are empty as long as they are not known."""
        out = make("parley_id_attr")
        check(lib.parley_query_id(self.context.handle, self.id, ctypes.byref(out)))
        return {"has_qp": bool(out.has_qp), "qp_num": out.qp_num, "qp_state": out.qp_state, "local": out.local.decode(),
                "peer": out.peer.decode()}

    def destroy(self):
        """Releases it at once. An open connection is reset."""
        if self.context.ids.pop(self.id, None) is not None and not self.context.closed:
            check(lib.parley_destroy(self.context.handle, self.id))


class Connection(Listener):
    """Made by Context.connect(), or come with an event "connect_request"."""

    def create_qp(self, **queues):
        """The queue pair of a request that waits for accept(), so that receives can be posted before. queues: those of qp_init()."""
        check(lib.parley_create_qp(self.context.handle, self.id, ctypes.byref(qp_init(**queues))))

    def accept(self, private_data=b"", ird=0, ord=0, **queues):  # pylint: disable=redefined-builtin
        kept, address, length = pointer_to(private_data)
        queue_pair = qp_init(**queues) if queues else None
        options = make("parley_accept_opts", ird=ird, ord=ord, private_data=address, private_data_len=length,
                       qp=ctypes.addressof(queue_pair) if queue_pair else None)
        check(lib.parley_accept(self.context.handle, self.id, ctypes.byref(options)))
        del kept

    def reject(self, private_data=b""):
        """Also releases it."""
        kept, address, length = pointer_to(private_data)
        check(lib.parley_reject(self.context.handle, self.id, address, length))
        del kept
        self.destroy()

    def disconnect(self):
        """Gracefully: an event "disconnected" tells the end."""
        check(lib.parley_disconnect(self.context.handle, self.id))

    def post_receive(self, pieces, wr_id=0):
        post_receive(lib.parley_post_recv, self.context.handle, self.id, pieces, wr_id)

    def post_send(self, pieces, wr_id=0, opcode="SEND", fence=False, signaled=True, solicited=False, **members):
        """`opcode`: of parley.h without PARLEY_: SEND, SEND_WITH_IMM, SEND_WITH_INV, RDMA_WRITE, RDMA_WRITE_WITH_IMM, RDMA_READ,
        ATOMIC_CMP_AND_SWP, ATOMIC_FETCH_AND_ADD. `members`: others of parley_send_wr: remote_addr, rkey, imm_data, compare_add, swap,
        invalidate_rkey."""
        array, count = elements(pieces)
        flags = (CONSTANTS["SEND_FENCE"] * fence | CONSTANTS["SEND_UNSIGNALED"] * (not signaled) |
                 CONSTANTS["SEND_SOLICITED"] * solicited)
        request = make("parley_send_wr", opcode=CONSTANTS[opcode], wr_id=wr_id, flags=flags, num_sge=count,
                       sges=ctypes.addressof(array), **members)
        check(lib.parley_post_send(self.context.handle, self.id, ctypes.byref(request)))

    def post_write(self, pieces, remote_addr, rkey, wr_id=0, **more):
        self.post_send(pieces, wr_id, "RDMA_WRITE", remote_addr=remote_addr, rkey=rkey, **more)

    def post_read(self, pieces, remote_addr, rkey, wr_id=0, **more):
        self.post_send(pieces, wr_id, "RDMA_READ", remote_addr=remote_addr, rkey=rkey, **more)


def post_receive(function, context, queue, pieces, wr_id):
    """By the function for this kind of queue."""
    array, count = elements(pieces)
    request = make("parley_recv_wr", wr_id=wr_id, num_sge=count, sges=ctypes.addressof(array))
    check(function(context, queue, ctypes.byref(request)))


def qp_init(send_cq=0, recv_cq=0, srq=0, max_send_wr=0, max_recv_wr=0):
    """A queue pair: its queues (0: the context's own), and its outstanding requests (0: 64)."""
    return make("parley_qp_init", send_cq=send_cq, recv_cq=recv_cq, srq=srq, max_send_wr=max_send_wr, max_recv_wr=max_recv_wr)


class Context(Closing):
    """A NIC with its connection manager. provider: "iwarp", "roce", "rdmacm"; hosts of a World are made by World.host()."""

    def __init__(self, provider=None, world=None, host=None, ids_max=0, seed=0):
        self.handle, self.ids, self.world = ctypes.c_void_p(), {}, world
        options = make("parley_opts", provider=_encoded(provider), world=world.handle.value if world else None, host=_encoded(host),
                       ids_max=ids_max, seed=seed)
        check(lib.parley_open(ctypes.byref(self.handle), ctypes.byref(options)))

    @property
    def closed(self):
        return not self.handle

    def close(self):
        """Closes it with all that belongs to it. Open connections are reset."""
        if self.handle:
            check(lib.parley_close(self.handle))
            self.handle = None
            self.ids.clear()

    # ---- the loop

    def fileno(self):
        """For select and its kin: readable when progress() has work to do."""
        return check(lib.parley_fd(self.handle))

    def progress(self):
        return bool(check(lib.parley_progress(self.handle)))

    def wait(self, seconds=None):
        """False: the time is over. In a world it is virtual, and False also says that nothing is left to happen."""
        return bool(check(lib.parley_wait(self.handle, -1 if seconds is None else max(round(seconds * 1000), 0))))

    def wake(self):
        """From any thread: ends a wait()."""
        check(lib.parley_wake(self.handle))

    @property
    def now(self):
        """Nanoseconds since some origin; virtual in a world."""
        return lib.parley_now_ns(self.handle)

    def query(self):
        """Provider, transport and limits: the members of parley_attr."""
        out = make("parley_attr")
        check(lib.parley_query(self.handle, ctypes.byref(out)))
        return {name: value.decode() if isinstance(value := getattr(out, name), bytes) else value
                for name, _ in out._fields_ if name != "size"}

    def address(self, family=4):
        """Of a simulated host, with port 0."""
        out = ctypes.create_string_buffer(CONSTANTS["ADDRSTRLEN"])
        check(lib.parley_host_address(self.handle, family, out))
        return out.value.decode()

    # ---- connections

    def listen(self, local, ird=0, ord=0, backlog=0, pending_max=0, keepalive=None, dead_after=None):  # pylint: disable=redefined-builtin
        """local: "192.0.2.1:7471"; port 0 lets the system choose, and the event "listening" tells it. Times in seconds."""
        options = make("parley_listen_opts", ird=ird, ord=ord, backlog=backlog, pending_max=pending_max,
                       keepalive_ms=milliseconds(keepalive), dead_after_ms=milliseconds(dead_after))
        handle = ctypes.c_uint64()
        check(lib.parley_listen(self.handle, local.encode(), ctypes.byref(options), ctypes.byref(handle)))
        return self._known(Listener(self, handle.value))

    def connect(self, peer, private_data=b"", rtr="default", mpa_revision=0, local=None, timeout=None, reply_timeout=None,
                total_timeout=None, keepalive=None, dead_after=None, queues=None, **members):
        """queues: a dict for qp_init(). members: others of parley_connect_opts: ird, ord, retry_rounds. Times in seconds."""
        kept, address, length = pointer_to(private_data)
        queue_pair = qp_init(**(queues or {}))
        options = make("parley_connect_opts", private_data=address, private_data_len=length, local=_encoded(local), mpa_rtr=RTR[rtr],
                       mpa_revision=mpa_revision, timeout_ms=milliseconds(timeout), reply_timeout_ms=milliseconds(reply_timeout),
                       total_timeout_ms=milliseconds(total_timeout), keepalive_ms=milliseconds(keepalive),
                       dead_after_ms=milliseconds(dead_after), qp=ctypes.addressof(queue_pair), **members)
        handle = ctypes.c_uint64()
        check(lib.parley_connect(self.handle, peer.encode(), ctypes.byref(options), ctypes.byref(handle)))
        del kept
        return self._known(Connection(self, handle.value))

    def _known(self, made):
        self.ids[made.id] = made
        return made

    def next_event(self):
        """An Event, or None."""
        raw = make("parley_event")
        if not check(lib.parley_next_event(self.handle, ctypes.byref(raw))):
            return None
        kind = lib.parley_event_name(raw.type).decode()
        if kind == "connect_request":
            self._known(Connection(self, raw.id))
        return Event(
            type=kind, of=self.ids.get(raw.id), listener=self.ids.get(raw.listener), stage=STAGES.get(raw.stage, ""),
            error=Error(raw.status, raw.reason.decode()) if raw.status else None, local=raw.local.decode(), peer=raw.peer.decode(),
            private_data=octets(raw.private_data, raw.private_data_len), ird=raw.ird, ord=raw.ord, mpa_revision=raw.mpa_revision,
            rtr=RTR_NAMES.get(raw.mpa_rtr, ""), crc=bool(raw.mpa_crc), markers=bool(raw.mpa_markers), turned_away=raw.turned_away, srq=raw.srq,
            attempts=raw.attempts, reason=raw.reason.decode(), rule=raw.rule.decode(), received=raw.received.decode(),
            advice=raw.advice.decode(),
            seconds={name: getattr(raw, name + "_ns") / 1e9
                     for name in ("transport", "request", "decision", "reply", "established", "elapsed", "wait")})

    def events(self):
        """Those that are pending."""
        while (event := self.next_event()) is not None:
            yield event

    # ---- memory and completions

    def register(self, memory, access=LOCAL_WRITE):
        """Memory of a bytearray, or of a new one with so many octets. access: LOCAL_WRITE | REMOTE_WRITE | ..."""
        return Memory(self, memory, access)

    def _create(self, function, capacity):
        out = ctypes.c_uint32()
        check(function(self.handle, capacity, ctypes.byref(out)))
        return out.value

    def create_cq(self, capacity):
        return self._create(lib.parley_create_cq, capacity)

    def destroy_cq(self, queue):
        check(lib.parley_destroy_cq(self.handle, queue))

    def request_notify(self, queue=0, solicited_only=False):
        """One notification of the next completion, by completed_queues() (ibv_req_notify_cq). Poll once more afterwards."""
        check(lib.parley_req_notify_cq(self.handle, queue, solicited_only))

    def completed_queues(self):
        """The queues whose notification has come."""
        out = ctypes.c_uint32()
        while check(lib.parley_next_cq_event(self.handle, ctypes.byref(out))):
            yield out.value

    def create_srq(self, capacity):
        """A shared receive queue, for the `srq` of queue pairs."""
        return self._create(lib.parley_create_srq, capacity)

    def destroy_srq(self, queue):
        check(lib.parley_destroy_srq(self.handle, queue))

    def limit_srq(self, queue, limit):
        """One event "srq_limit_reached" when fewer receives than this are posted; 0: none."""
        check(lib.parley_modify_srq(self.handle, queue, limit))

    def post_srq_receive(self, queue, pieces, wr_id=0):
        post_receive(lib.parley_post_srq_recv, self.handle, queue, pieces, wr_id)

    def poll(self, queue=0, most=64):
        """A list of Completions, at most so many."""
        kind = STRUCTURES["parley_wc"]
        array = (kind * most)()
        count = check(lib.parley_poll_cq(self.handle, queue, array, most, ctypes.sizeof(kind)))
        return [Completion(wr_id=c.wr_id, status=c.status, opcode=OPCODES.get(c.opcode, str(c.opcode)), length=c.byte_len,
                           qp_num=c.qp_num, immediate=c.imm_data if c.flags & CONSTANTS["WC_WITH_IMM"] else None,
                           invalidated_rkey=c.invalidated_rkey if c.flags & CONSTANTS["WC_WITH_INV"] else None)
                for c in array[:count]]


def resolve(host, port, most=16):
    """Addresses of a host name, as strings for listen() and connect(). Blocks."""
    out = ((ctypes.c_char * CONSTANTS["ADDRSTRLEN"]) * most)()
    return [out[i].value.decode() for i in range(check(lib.parley_resolve(host.encode(), port, out, most)))]


def version():
    """Of the library."""
    return lib.parley_version().decode()
