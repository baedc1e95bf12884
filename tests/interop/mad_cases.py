# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Management datagrams on RoCE: UD queue pairs of Linux's rxe, through libibverbs, against each other and against QP1 and a UD queue
pair of Parley's own engine, with RMPP and with loss.

A queue pair's number is known when its server says it: ping_qp.sh asks that."""
from nics_case import ADDRESS, PARLEY, Case

# Places in the table of GIDs: behind the link-local address.
INDEX = {4: 1, 6: 2}
PINGS, LOSSY_PINGS = 5, 2


def gid(guest, family=4):
    return f"::ffff:{ADDRESS[guest][4]}" if family == 4 else ADDRESS[guest][6]


def serve(transport):
    return f"{PARLEY} mad ping --serve --transport {transport}"


def to_queue_pair(guest, transport, family=4, more="", pings=PINGS):
    return f"sh /out/ping_qp.sh {gid(guest, family)} --transport {transport} --count {pings} --interval 10ms {more}"


def to_qp1(guest, transport, more=""):
    return f"{PARLEY} mad ping {gid(guest)} --transport {transport} --count {PINGS} --interval 10ms {more}"


def case(name, device, server_guest, server, client, pings=PINGS, **more):
    # Under loss it may be asked again for what it has answered.
    return Case(f"mad.{name}", device, server_guest, server, client, interrupt=True, server_says=[r"[1-9]\d* answered"],
                client_says=[f"{pings} sent, {pings} answered"], **more)


def cases():
    """rxe in both guests."""
    for guest, family in (("a", 4), ("b", 6)):
        verbs = f"verbs:rxe0/{INDEX[family]}"
        yield case(f"verbs-ud.{guest}.ipv{family}", "rxe", guest, serve(verbs), to_queue_pair(guest, verbs, family), family=family)
        yield case(f"verbs-ud.{guest}.loss", "rxe", guest, serve(verbs),
                   to_queue_pair(guest, verbs, family, "--size 20000", LOSSY_PINGS), LOSSY_PINGS, family=family, netem=True)


def engine_cases(device):
    """rxe in guest a, Parley's engine in guest b."""
    verbs, engine = f"verbs:rxe0/{INDEX[4]}", f"roce:{ADDRESS['b'][4]}"
    yield case("verbs-to-qp1", device, "b", serve(engine), to_qp1("b", verbs, "--size 100000"))
    yield case("qp1-to-verbs", device, "a", serve(verbs), to_queue_pair("a", engine, more="--size 100000"))
