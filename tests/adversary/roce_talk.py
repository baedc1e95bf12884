# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Valid conversations over RoCEv2: set-up by the CM (or SIDR), data of every operation with what networks do to it, and the end."""
import bisect
import struct

import roce_wire as w

MTU = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
INITIATOR, RESPONDER = 0, 1
SIDES = ("initiator", "responder")
TIMEOUT = 4.096 * 2**20  # microseconds: of the CM
# IBA §9.7.7.2: of each code of an AETH; 31 stands for no flow control.
CREDITS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288,
           16384, 24576, 32768)
PLENTY, FEW = range(8, 31), (0, 0, 0, 1, 1, 2, 3)


def takes_receive(name):
    return name.startswith("send") or name.endswith("_imm")


class Queue:
    """What one side sends on its queue pair, and what its peer has executed of it."""

    def __init__(self, psn):
        self.start = self.psn = psn
        self.msn = 0
        self.atomics = {}
        self.sent = []  # of each message, whether it takes a receive
        self.limit = None  # the last of those for which its peer has given a credit; None: it gave none so far
        self.open = False  # its peer has given up counting
        self.posted = 0  # the last of those for which its peer has had a receive so far

    def take(self, n=1):
        psn = self.psn
        self.psn = (self.psn + n) % 2**24
        return psn

    def executed(self, takes):
        self.msn = (self.msn + 1) % 2**24
        self.sent.append(takes)

    def receives(self, msn):
        return sum(self.sent[:msn])

    def code(self, msn, taken=0, more=0):
        """Of its peer's AETH, which has `more` receives now at least. None that was there goes away but to a message."""
        used = self.receives(msn) + taken
        self.posted = max(self.posted, sum(self.sent) + taken, used + more)
        return bisect.bisect(CREDITS, self.posted - used) - 1


class Talk:
    """`sent` are the packets in the order in which the tap sees them; `lost` ones, in `missed`, the tap never saw."""

    def __init__(self, chance, hosts, transport, start=0):
        self.chance, self.hosts, self.transport, self.time = chance, hosts, transport, start
        self.sent, self.missed, self.outcome, self.service_name = [], [], None, None
        self.p_key = chance.choice((0xFFFF, 0xFFFF, 0xFFFF, 0x8123, 0x0123, 0xFABC))
        self.ports = None  # UDP source ports of its own, of each side
        self.qpn = [chance.randrange(2, 0xFFFFFF), chance.randrange(2, 0xFFFFFF)]
        self.ids = [chance.randrange(1, 2**32), chance.randrange(1, 2**32)]
        self.queues = [Queue(chance.choice((chance.randrange(2**24), 2**24 - 3))) for _ in (0, 1)]
        self.mtu_code = chance.choice((1, 1, 2, 2, 2, 3, 3, 4, 5))
        self.flow_control = transport == w.RC and chance.random() < 0.4
        self.shared = [transport == w.RC and chance.random() < 0.2 for _ in (0, 1)]
        # Of each side: it counts credits from the beginning, never, or until it gives that up.
        self.counts = [chance.choice(("always", "always", "never", "at first")) for _ in (0, 1)]
        self.codes = chance.choice((FEW, (0, 0, 1, 2, 3, *range(31))))
        self.transaction = chance.randrange(2**64)
        self.port = chance.randrange(1, 65536)
        self.depth = chance.choice((1, 4, 16))
        self.retries = self.messages = 0
        self.srqn, self.q_key = chance.randrange(1, 2**24), chance.randrange(2**31)
        self.request_id = chance.randrange(2**32)
        self.reject_text, self.max_retries, self.retry, self.rnr = "", 15, 7, 7
        self.told = None  # the limit in the answer that is about to be sent; -1: nothing limits any more

    # --- time and packets
    def wait(self, least, most=None):
        self.time += self.chance.randrange(int(least), int(most or least * 2) + 1)

    def put(self, side, opcode, qpn, psn, ext=b"", payload=b"", ack_req=False, lost=False):
        self.wait(5, 60)
        packet = w.Sent(self.hosts[side], self.hosts[1 - side], self.time, opcode, qpn, psn, ext, payload, ack_req)
        packet.p_key = self.p_key
        packet.port = self.ports[side] if self.ports else packet.port
        (self.missed if lost else self.sent).append(packet)
        return packet

    def gsi(self, side, mad, kind, lost=False):
        ext = struct.pack(">II", w.GSI_Q_KEY, 1)
        packet = self.put(side, w.UD | 4, 1, self.hosts[side].next_gsi(), ext, mad, ack_req=self.chance.random() < 0.5, lost=lost)
        packet.kind, packet.p_key = kind, 0xFFFF
        return packet

    # --- CM
    def private(self, room):
        return self.chance.randbytes(self.chance.randrange(room + 1))

    @property
    def with_ip(self):
        return self.service_name.startswith(("tcp", "udp"))

    def choose_service(self, space):
        names = {"tcp": 0x0106, "udp": 0x0111, "ib": 0x013F}
        self.service = names[space] << 16 | self.port
        self.service_name = f"{space}:{self.port}" if space != "ib" else f"0x{self.service:016x}"
        if space == "ib" and self.chance.random() < 0.5:
            self.service = self.chance.randrange(2**56, 2**64)
            self.service_name = f"0x{self.service:016x}"

    def cma_header(self):
        a, b = self.hosts
        return w.cma(0, self.chance.randrange(1, 65536), a.address, b.address)

    def req_fields(self):
        a, b = self.hosts
        xrc = self.transport == w.XRC
        head = self.cma_header() if self.with_ip else b""
        return {"id": self.ids[0], "service": self.service, "guid": a.guid, "qpn": self.qpn[0], "ird": 0 if xrc else self.depth,
                "ord": self.depth, "timeout": 20, "transport": self.transport, "flow_control": int(self.flow_control),
                "psn": self.queues[1].start, "p_key": self.p_key, "mtu": self.mtu_code, "retries": self.max_retries, "gid": a.gid, "retry": self.retry, "rnr": self.rnr,
                "srq": int(self.shared[0]), "peer_gid": b.gid, "ack_timeout": 19, "private": head + self.private(92 - len(head))}

    def rep_fields(self):
        xrc = self.transport == w.XRC
        return {"id": self.ids[1], "remote": self.ids[0], "qpn": self.qpn[1], "psn": self.queues[0].start, "ird": self.depth,
                "ord": 0 if xrc else self.depth, "guid": self.hosts[1].guid, "transport": self.transport,
                "flow_control": int(self.flow_control), "srq": int(self.shared[1]), "rnr": self.rnr, "private": self.private(196)}

    def message(self, side, kind, body, lost=False, again=False):
        if again:
            self.retries += not lost
        return self.gsi(side, w.mad(kind, self.transaction, body), kind, lost)

    def ids_body(self, side, rest=b""):
        return struct.pack(">II", self.ids[side], self.ids[1 - side]) + rest

    def send_req(self, again=False):
        if not again:
            self.choose_service(self.chance.choice(("tcp", "tcp", "ib")))
            self.req = self.req_fields()
        return self.message(INITIATOR, "REQ", w.req(self.req), again=again)

    def send_rep(self, again=False, lost=False):
        if not again:
            self.rep = self.rep_fields()
        return self.message(RESPONDER, "REP", w.rep(self.rep), lost, again)

    def rej(self, side, about, reason, info=b"", local=None, remote=None):
        local = self.ids[side] if local is None else local
        remote = self.ids[1 - side] if remote is None else remote
        body = struct.pack(">IIBBH", local, remote, about << 6, len(info) << 1, reason) + info
        return self.message(side, "REJ", body)

    def mra(self, side, about):
        self.wait(500)
        local = self.ids[side]
        return self.message(side, "MRA", struct.pack(">IIBB", local, self.ids[1 - side], about << 6, 21 << 3))

    def set_up(self):
        """REQ, REP and RTU, with what may happen between."""
        chance = self.chance
        self.send_req()
        if chance.random() < 0.15:
            self.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
            self.send_req(again=True)
        if chance.random() < 0.15:
            self.mra(RESPONDER, 0)
            self.wait(10 ** 6)
        self.wait(200, 5000)
        self.send_rep()
        if chance.random() < 0.1:
            self.mra(INITIATOR, 1)
            self.wait(10 ** 6)
        elif chance.random() < 0.15:
            self.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
            self.send_rep(again=True)
        self.wait(100, 2000)
        self.message(INITIATOR, "RTU", self.ids_body(0, self.private(224)), lost=chance.random() < 0.05)
        self.outcome = "established"

    def not_set_up(self):
        """What ends without a connection."""
        chance, how = self.chance, self.chance.randrange(5)
        self.max_retries = chance.choice((2, 3))
        self.send_req()
        self.wait(200, 5000)
        self.outcome = "rejected"
        if how == 0:
            self.rej(RESPONDER, 0, chance.choice((8, 28, 28, 26, 12)), local=0)
        elif how == 1:
            self.send_rep()
            self.wait(200, 5000)
            self.rej(INITIATOR, 1, chance.choice((28, 10, 3)))
        elif how == 2:
            self.rej(INITIATOR, 2, 4, struct.pack(">Q", self.hosts[0].guid), remote=0)
            self.outcome = "failed"
        elif how == 3:
            self.rej(RESPONDER, 0, 28, self.private(72), local=chance.choice((0, self.ids[1])))
        else:
            for _ in range(self.max_retries):
                self.wait(TIMEOUT * 1.1, TIMEOUT * 1.5)
                self.send_req(again=True)
            self.outcome = "failed"

    def close(self):
        side = self.chance.choice((0, 1))
        dreq = [struct.pack(">III", self.ids[s], self.ids[1 - s], self.qpn[1 - s] << 8) for s in (0, 1)]
        drep = [self.ids_body(s) for s in (0, 1)]
        self.wait(100, 5000)
        self.message(side, "DREQ", dreq[side])
        how = self.chance.random()
        if how < 0.2:  # crossing
            self.message(1 - side, "DREQ", dreq[1 - side])
            self.message(side, "DREP", drep[side])
        elif how < 0.3:
            self.wait(TIMEOUT * 1.1)
            self.message(side, "DREQ", dreq[side], again=True)
        self.wait(100, 5000)
        self.message(1 - side, "DREP", drep[1 - side])

    def alternate_path(self, side=INITIATOR):
        """LAP and APR."""
        transaction, self.transaction = self.transaction, self.chance.randrange(2**64)
        gids = self.hosts[side].gid, self.hosts[1 - side].gid
        self.wait(200, 5000)
        asked = self.message(side, "LAP", w.lap((self.ids[side], self.ids[1 - side]), self.qpn[1 - side], 20, *gids))
        self.wait(200, 5000)
        told = self.message(1 - side, "APR", self.ids_body(1 - side, bytes([0, self.chance.choice((0, 1, 2, 5)), 0, 0])))
        self.transaction = transaction
        return asked, told

    def sidr(self):
        """UD: a service is resolved, and datagrams go both ways."""
        chance = self.chance
        self.choose_service("udp")
        self.outcome = "established"
        body = struct.pack(">IHHQ", self.request_id, 0xFFFF, 0, self.service) + self.cma_header() + self.private(180)
        self.message(INITIATOR, "SIDR_REQ", body)
        if chance.random() < 0.2:
            self.wait(TIMEOUT)
            self.message(INITIATOR, "SIDR_REQ", body, again=True)
        self.wait(100, 5000)
        status = chance.choice((0, 0, 0, 0, 1, 2))
        qpn, q_key = (self.qpn[1], self.q_key) if status == 0 else (0, 0)
        self.message(RESPONDER, "SIDR_REP", struct.pack(">IIIQI", self.request_id, status << 24, qpn << 8, self.service, q_key))
        if status:
            self.outcome = "rejected"
            return
        for _ in range(chance.randrange(6)):
            self.datagram(chance.choice((0, 1)))

    def datagram(self, side):
        ext = struct.pack(">II", self.q_key, self.qpn[side])
        imm = self.chance.random() < 0.3
        packet = self.put(side, w.UD | (5 if imm else 4), self.qpn[1 - side], self.queues[side].take(),
                          ext + (self.chance.randbytes(4) if imm else b""), self.chance.randbytes(self.chance.randrange(600)))
        packet.kind = "send_only"
        self.messages += 1
        return packet

    # --- data
    @property
    def mtu(self):
        return MTU[self.mtu_code]

    def ask(self, side, name, psn, ext=b"", payload=b"", ack_req=False, lost=False):
        if self.transport == w.XRC:
            ext = struct.pack(">I", self.srqn) + ext
        packet = self.put(side, self.transport | w.OPS[name], self.qpn[1 - side], psn, ext, payload, ack_req, lost)
        packet.kind = name
        return packet

    def answer(self, side, name, psn, ext=b"", payload=b"", lost=False):
        """`side` answers what the other asked."""
        told, self.told = self.told, None
        if told is not None and not lost:
            queue = self.queues[1 - side]
            queue.open = queue.open or told < 0
            queue.limit = max(queue.limit or 0, told)
        packet = self.put(side, self.transport | w.OPS[name], self.qpn[1 - side], psn, ext, payload, lost=lost)
        packet.kind = name
        return packet

    def aeth(self, side, kind=None, msn=None, taken=0):
        """Of an answer by `side`: the messages of the other that it has executed. `taken`: receives by one that has begun."""
        queue = self.queues[1 - side]
        msn = queue.msn if msn is None else msn
        counts = self.flow_control and not self.shared[side] and not queue.open and (
            self.counts[side] == "always" or self.counts[side] == "at first" and self.chance.random() < 0.8)
        code = queue.code(msn, taken, CREDITS[self.chance.choice(self.codes)]) if counts else 31
        if kind is None:
            self.told = queue.receives(msn) + CREDITS[code] if counts else -1
        return struct.pack(">I", (code if kind is None else kind) << 24 | msn)

    def need_credits(self, side, n=1):
        """That side may send so many messages more that take a receive; its peer gives credits for them if it has to."""
        queue = self.queues[side]
        if queue.limit is None or queue.open or sum(queue.sent) + n <= queue.limit + 1:
            return
        self.wait(2000, 9000)
        more = self.chance.choice([credits for credits in CREDITS if credits >= n - 1][:5])
        code = queue.code(queue.msn, more=more)
        self.told = sum(queue.sent) + CREDITS[code]
        self.answer(1 - side, "ack", (queue.psn - 1) % 2**24, struct.pack(">I", code << 24 | queue.msn))

    def reliable(self):
        return self.transport in (w.RC, w.XRC)

    def parts(self, kind, size):
        """[(operation, ext, payload)] of a Send or Write."""
        chance, mtu = self.chance, self.mtu
        data = chance.randbytes(size)
        pieces = [data[at:at + mtu] for at in range(0, size, mtu)] or [b""]
        tail, last_ext = chance.choice((("", b""), ("_imm", chance.randbytes(4)), ("_inv", chance.randbytes(4))))
        if tail == "_inv" and (kind == "write" or not self.reliable()):
            tail, last_ext = "", b""
        reth = struct.pack(">QII", chance.randrange(2**40), chance.randrange(2**32), size) if kind == "write" else b""
        if len(pieces) == 1:
            return [(f"{kind}_only{tail}", reth + last_ext, pieces[0])]
        return ([(f"{kind}_first", reth, pieces[0])] + [(f"{kind}_middle", b"", piece) for piece in pieces[1:-1]] +
                [(f"{kind}_last{tail}", last_ext, pieces[-1])])

    def push(self, side, kind=None, size=None, trouble=True):
        """A Send or Write of that side; True if the peer has it."""
        chance, queue = self.chance, self.queues[side]
        kind = kind or chance.choice(("send", "write"))
        size = chance.choice((0, 1, 3, 4, 100, self.mtu, self.mtu + 1, 3 * self.mtu + 5)) if size is None else size
        parts = self.parts(kind, size)
        takes = takes_receive(parts[-1][0])
        if takes:
            self.need_credits(side)
        first = queue.take(len(parts))
        psns = [(first + i) % 2**24 for i in range(len(parts))]

        def burst(begin, lost=None):
            return [self.ask(side, *part[:1], psns[i], part[1], part[2], ack_req=i == len(parts) - 1, lost=i == lost)
                    for i, part in list(enumerate(parts))[begin:]]
        self.messages += 1
        made = None
        how = chance.random() if trouble and self.reliable() else 1
        if how < 0.12 and len(parts) > 1:  # a packet is lost, before the tap or behind it
            at = chance.randrange(len(parts) - 1)
            burst(0, at if chance.random() < 0.5 else None)
            self.answer(1 - side, "ack", psns[at], self.aeth(1 - side, 0x60))
            made = burst(at)
        elif how < 0.2 and kind == "send":
            for _ in range(chance.randrange(1, 3)):
                burst(0)
                self.answer(1 - side, "ack", psns[0], self.aeth(1 - side, 0x20 | 14))
                self.wait(1300, 3000)
        elif how < 0.26:  # the acknowledgment is lost
            burst(0)
            queue.executed(takes)
            self.answer(1 - side, "ack", psns[-1], self.aeth(1 - side), lost=chance.random() < 0.5)
            self.wait(2_200_000)
            made = burst(0)
            self.answer(1 - side, "ack", psns[-1], self.aeth(1 - side))
            return made
        elif how < 0.32 and len(parts) > 1:  # acknowledged in the middle
            at = chance.randrange(len(parts) - 1)
            made = burst(0)
            self.answer(1 - side, "ack", psns[at], self.aeth(1 - side, taken=int(kind == "send")))
        made = made or burst(0)
        queue.executed(takes)
        if self.reliable():
            self.answer(1 - side, "ack", psns[-1], self.aeth(1 - side))
        return made

    def read(self, side, size=None, trouble=True):
        chance, queue, mtu = self.chance, self.queues[side], self.mtu
        size = chance.choice((0, 4, 50, mtu, mtu + 1, 4 * mtu)) if size is None else size
        va, key = chance.randrange(2**40), chance.randrange(2**32)
        data = chance.randbytes(size)
        pieces = [data[at:at + mtu] for at in range(0, size, mtu)] or [b""]
        first = queue.take(len(pieces))
        queue.executed(False)
        self.messages += 1

        def ask(at):
            return self.ask(side, "read", (first + at) % 2**24, struct.pack(">QII", va + at * mtu, key, size - at * mtu), ack_req=True)

        def respond(begin, lost=None):
            made = []
            for i in range(begin, len(pieces)):
                last = i == len(pieces) - 1
                name = "only" if begin == i == len(pieces) - 1 else "first" if i == begin else "last" if last else "middle"
                made.append(self.answer(1 - side, f"response_{name}", (first + i) % 2**24,
                                        b"" if name == "middle" else self.aeth(1 - side), pieces[i], lost=i == lost))
            return made
        asked = ask(0)
        if trouble and chance.random() < 0.2:
            at = chance.randrange(len(pieces))
            respond(0, at if chance.random() < 0.5 else None)
            self.wait(2_200_000)
            ask(at)
            return asked, respond(at)
        return asked, respond(0)

    def atomic(self, side, trouble=True):
        chance, queue = self.chance, self.queues[side]
        psn = queue.take()
        queue.executed(False)
        name = chance.choice(("cmp_swap", "fetch_add"))
        ext = struct.pack(">QIQQ", chance.randrange(2**40) * 8, chance.randrange(2**32), chance.randrange(2**64),
                          chance.randrange(2**64) if name == "cmp_swap" else 0)
        original = chance.randbytes(8)
        self.messages += 1
        asked = self.ask(side, name, psn, ext, ack_req=True)
        answered = self.answer(1 - side, "atomic_ack", psn, self.aeth(1 - side) + original)
        if trouble and chance.random() < 0.2:
            self.wait(2_200_000)
            self.ask(side, name, psn, ext, ack_req=True)
            answered = self.answer(1 - side, "atomic_ack", psn, self.aeth(1 - side) + original)
        return asked, answered

    def acknowledged_behind(self, side):
        """A Send and a Read or an Atomic, whose answers the requester does not get. It sends them again: the Send is answered with the last
        PSN that was executed, that of the other."""
        chance, queue, begin = self.chance, self.queues[side], self.time
        self.need_credits(side)
        sent = queue.take()
        self.ask(side, "send_only", sent, payload=b"abcd", ack_req=True)
        queue.executed(True)
        if chance.random() < 0.7:
            self.answer(1 - side, "ack", sent, self.aeth(1 - side), lost=chance.random() < 0.3)
        if chance.random() < 0.5:
            self.wait(100_000, 1_900_000)
        name = chance.choice(("read", "read", "fetch_add"))
        pieces = chance.randrange(1, 4) if name == "read" else 1
        asked, last = queue.take(pieces), (queue.psn - 1) % 2**24
        ext = struct.pack(">QII", 8, 9, pieces * self.mtu) if name == "read" else struct.pack(">QIQQ", 64, 9, 1, 0)
        queue.executed(False)
        self.messages += 2

        def respond(lost=False):
            for i in range(pieces):
                kind = "only" if pieces == 1 else "first" if i == 0 else "last" if i == pieces - 1 else "middle"
                aeth = b"" if kind == "middle" else self.aeth(1 - side)
                if name == "read":
                    self.answer(1 - side, f"response_{kind}", (asked + i) % 2**24, aeth, bytes(self.mtu), lost=lost)
                else:
                    self.answer(1 - side, "atomic_ack", asked, aeth + bytes(8), lost=lost)
        self.ask(side, name, asked, ext, ack_req=True)
        respond(lost=chance.random() < 0.7)
        self.time = max(self.time, begin + 2_200_000)
        self.ask(side, "send_only", sent, payload=b"abcd", ack_req=True)
        self.answer(1 - side, "ack", last, self.aeth(1 - side))
        self.wait(1000, 100_000)
        self.ask(side, name, asked, ext, ack_req=True)
        respond()

    def pipeline(self, side):
        """Several messages under way; the last acknowledgment counts for all, Reads are answered by themselves."""
        chance, queue, late = self.chance, self.queues[side], []
        psn, count = None, chance.randrange(2, 5)
        self.need_credits(side, count)
        for _ in range(count):
            self.messages += 1
            if self.reliable() and len(late) < self.depth and chance.random() < 0.3:
                queue.executed(False)
                psn = queue.take()
                size = chance.randrange(self.mtu + 1)
                self.ask(side, "read", psn, struct.pack(">QII", 8, 9, size), ack_req=True)
                late.append((psn, chance.randbytes(size), queue.msn))
                continue
            parts = self.parts(chance.choice(("send", "write")), chance.randrange(2 * self.mtu))
            queue.executed(takes_receive(parts[-1][0]))
            for name, ext, payload in parts:
                psn = queue.take()
                self.ask(side, name, psn, ext, payload)
        for at, data, msn in late:
            self.answer(1 - side, "response_only", at, self.aeth(1 - side, msn=msn), data)
        if self.reliable() and (not late or late[-1][0] != psn):
            self.answer(1 - side, "ack", psn, self.aeth(1 - side))

    def congestion(self, side):
        packet = self.put(side, 0x81, 0x40 << 24 | self.qpn[1 - side], 0, payload=bytes(16))
        packet.kind = "cnp"

    def both(self):
        """Both sides at once."""
        before, begin, merged, end = self.sent, self.time, [], self.time
        for side in (0, 1):
            self.sent, self.time = [], begin
            self.exchange(self.chance.randrange(6), side)
            merged += self.sent
            end = max(end, self.time)
        self.sent, self.time = before + sorted(merged, key=lambda packet: packet.time), end

    def exchange(self, count, side=None):
        for _ in range(count):
            one = side
            if one is None:
                one = 0 if self.transport == w.XRC else self.chance.choice((0, 1))
            self.step(one)

    def step(self, side):
        if self.chance.random() < 0.15:
            self.pipeline(side)
        elif self.chance.random() < 0.05:
            self.congestion(side)
        elif self.reliable() and self.chance.random() < 0.04:
            self.acknowledged_behind(side)
        else:
            what = self.chance.random()
            if not self.reliable() or what < 0.65:
                self.push(side)
            elif what < 0.85:
                self.read(side)
            else:
                self.atomic(side)
        if self.chance.random() < 0.2:
            self.wait(1000, 20000)

    def talk(self):
        """All of it."""
        if self.transport == w.UD:
            return self.sidr()
        if self.chance.random() < 0.2:
            return self.not_set_up()
        self.set_up()
        # The first word is the initiator's, which tells the responder that it may speak.
        self.push(0, "send", 10, trouble=False)
        if self.transport != w.XRC and self.chance.random() < 0.4:
            self.both()
        else:
            self.exchange(self.chance.randrange(12))
        if self.chance.random() < 0.1:
            self.gsi(self.chance.choice((0, 1)), w.mad(None, 1, b"", mgmt_class=4, attribute=0x12), "PerfMgt")
        if self.chance.random() < 0.1:
            for _ in range(self.chance.choice((1, 1, 2, 3, 18))):
                self.alternate_path()
        if self.chance.random() < 0.7:
            self.close()
        return None
