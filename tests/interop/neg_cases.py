# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Staged QP negotiation with real queue pairs against Linux's rxe: against libibverbs' ping-pong programs, against perftest's,
and between two Parleys. What Parley's side moves is moved by the kernel's device, or by its own RoCE engine on UDP sockets.
Each program runs to its own end.
"""
from dataclasses import dataclass

from nics_case import PARLEY, Case

GID = {4: 1, 6: 2}   # indices at which rxe has the guests' addresses
PLAYED = r"completed in (.|\n)*{test}: \d+ messages of {size} octets in "


@dataclass
class Place:
    """Whose queue pairs are Parley's."""
    device: str
    guest: str    # Parley's, as a server; as a client it is in the other one, but where only one of them can have it
    options: str
    ipv6: dict    # what has a client whose server is at an IPv4 address take its IPv6 address


KERNEL = Place("rxe", "a", "", {"gid_index": GID[6]})
ENGINE = Place("rxe-a", "b", " --roce", {"gid": "2001:db8::2"})  # rxe in guest a alone


def serve(variant, place=KERNEL, **settings):
    return words("serve -a {address}", variant, place, settings) + " -n 1"


def dial(variant, place=KERNEL, **settings):
    return words("dial -a {address}", variant, place, settings)


def words(command, variant, place, settings):
    sets = "".join(f" --set {name}={value}" for name, value in settings.items())
    return f"{PARLEY} neg {command} -p {{port}} --variant {variant}{sets}{place.options}"


def pair(place, name, program, variant, family=4, **settings):
    """A program of others as client of Parley, and as its server, which listens on IPv4 alone whatever its GID is."""
    test, size = settings.get("test", "pingpong"), settings["size"]
    played = [PLAYED.format(test=test, size=size)]
    used = [rf"{test}: this side's memory was lent to the peer"] if test in ("write_bw", "read_bw", "read_lat") else played
    checked = {"check": "true"} if test == "pingpong" and "qps" not in settings else {}
    yield Case(f"neg.{name}-to-parley", place.device, place.guest, serve(variant, place, **settings), f"{program} {{address}}",
               family=family, server_says=used)
    own = place.ipv6 if family == 6 else {}
    yield Case(f"neg.parley-to-{name}", place.device, "b" if place.guest == "a" else "a", program,
               dial(variant, place, **settings, **checked, **own), client_says=played + (["data verified"] if checked else []))


def pingpong_cases(place):
    def program(kind, size, family=4, count=100):
        return f"ibv_{kind}_pingpong -g {GID[family]} -p {{port}} -s {size} -n {count}"

    yield from pair(place, "rc-pingpong", program("rc", 4096), "pingpong", size=4096, iterations=100)
    yield from pair(place, "rc-pingpong.ipv6", program("rc", 4096, 6), "pingpong", family=6, size=4096, iterations=100)
    # Few packets: UC and UD repeat nothing, and rxe loses one now and then.
    yield from pair(place, "uc-pingpong", program("uc", 1000), "pingpong", transport="uc", size=1000, iterations=100)
    yield from pair(place, "ud-pingpong", program("ud", 1000), "pingpong", transport="ud", size=1000, iterations=100)
    yield from pair(place, "srq-pingpong", program("srq", 4096), "pingpong", srq="true", qps=16, size=4096, iterations=100)


SIZES = {"send_bw": 8192, "write_bw": 8192, "read_lat": 64, "read_bw": 8192, "send_lat": 64}
FEW = ("send_bw", "write_bw", "read_lat")  # one of each kind of request


# -F: without it a program of perftest ends with 1 after its messages, where it cannot measure the guest's processor frequency.
def perftest_cases(place, tests=tuple(SIZES)):
    for test in tests:
        size = SIZES[test]
        yield from pair(place, test.replace("_", "-"), f"ib_{test} -F -x 1 -p {{port}} -s {size} -n 100", "perftest", test=test,
                        size=size, iterations=100)
    yield from pair(place, "send-bw.ud", "ib_send_bw -F -c UD -x 1 -p {port} -s 1024 -n 100", "perftest", transport="ud",
                    test="send_bw", size=1024, iterations=100)


def rdma_cm_cases(place):
    """perftest's -R: its exchange goes over an RDMA connection, and its queue pairs are connected by rdma_cm."""
    by_cm = Place(place.device, place.guest, f"{place.options} -R", {})
    for test in FEW:
        yield from pair(by_cm, f"{test.replace('_', '-')}.rdma-cm", f"ib_{test} -F -R -p {{port}} -s {SIZES[test]} -n 100", "perftest",
                        test=test, size=SIZES[test], iterations=100)


def engine_cases():
    """Parley's own engine in guest b: against programs of others on rxe, and against Parley on rxe."""
    yield from pingpong_cases(ENGINE)
    yield from perftest_cases(ENGINE, FEW)
    yield from rdma_cm_cases(ENGINE)
    for transport, family in (("rc", 4), ("rc", 6), ("uc", 4), ("ud", 4)):
        said = [rf"{transport}, path MTU 1024, a message passed each way"]
        own = [*said, r"UDP port 4791 of (::ffff:192.0.2.2|2001:db8::2)\n"]
        variant = f"verbs-{transport}"
        for name, guest, server, client in (("to-engine", "b", ENGINE, KERNEL), ("from-engine", "a", KERNEL, ENGINE)):
            yield Case(f"neg.{variant}.{name}.ipv{family}", ENGINE.device, guest, serve(variant, server), dial(variant, client),
                       server_says=own if server is ENGINE else said, client_says=own if client is ENGINE else said, family=family)
    yield Case("neg.verbs-rc.from-engine.loss", ENGINE.device, "a", serve("verbs-rc"), dial("verbs-rc", ENGINE), netem=True,
               client_says=["a message passed each way"])
    yield Case("neg.port-held-by-rxe", ENGINE.device, "b", "sleep 300", dial("verbs-rc", ENGINE), interrupt=True, server_exit=None,
               client_exit=1, client_says=["UDP port 4791 is in use, by the kernel's rxe"])


def own_cases():
    """Both are Parley: from INIT to RTS, and a message each way before either says that it is done."""
    for transport, family in (("rc", 4), ("rc", 6), ("uc", 4), ("ud", 4)):
        said = [rf"{transport}, path MTU 1024, a message passed each way", rf"rxe0 port 1, GID {GID[family]} .*RoCE v2, the address"]
        yield Case(f"neg.verbs-{transport}.ipv{family}", "rxe", "a", serve(f"verbs-{transport}"), dial(f"verbs-{transport}"),
                   server_says=said, client_says=said, family=family)
    yield Case("neg.verbs-rc.loss", "rxe", "a", serve("verbs-rc"), dial("verbs-rc"), netem=True,
               client_says=["a message passed each way"])


def refusals():
    refused = {"client_exit": 2, "server_exit": None, "interrupt": True}
    yield Case("neg.no-xrc", "rxe", "a", "sleep 300", dial("verbs-xrc"), client_says=["XRC is not used on real devices in this version"], **refused)
    yield Case("neg.no-such-device", "rxe", "a", "sleep 300", dial("verbs-rc", device="mlx5_0"),
               client_says=["there is no device 'mlx5_0'; there is rxe0"], **refused)
    yield Case("neg.no-such-gid", "rxe", "a", "sleep 300", dial("verbs-rc", device="rxe0", gid_index=200),
               client_says=["rxe0 does not have a GID with the index 200"], **refused)
    yield Case("neg.another-variant", "rxe", "a", serve("verbs-rc"), dial("verbs-uc"), server_exit=1, client_exit=1,
               server_says=["parley/verbs-uc is not offered here"],
               client_says=["the peer says: .*parley/verbs-uc is not offered here; there is parley/verbs-rc"])
    yield Case("neg.gid-of-nobody", "rxe", "a", serve("verbs-rc"), dial("verbs-rc", driver="manual", qpn=5, gid="192.0.2.77"),
               server_exit=1, client_exit=1, server_says=["the path to ::ffff:192.0.2.77: .*no neighbour answered for the GID within 200 ms"],
               client_says=["the peer says: the peer's data cannot be used: the path to"])
    yield Case("neg.perftest-to-pingpong", "rxe", "a", serve("pingpong"), "ib_send_bw -F -x 1 -p {port} {address}", server_exit=1,
               client_exit=None, server_says=["is not an address of a queue pair; see whether the peer is one of ibv_rc_pingpong"])
    yield Case("neg.pingpong-to-perftest", "rxe", "a", serve("perftest"), "ibv_rc_pingpong -g 1 -p {port} {address}",
               server_exit=1, client_exit=1, server_says=["is not a version of perftest"])


def losses():
    """The peer is killed in the middle."""
    yield Case("neg.pingpong-killed", "rxe", "a", serve("pingpong", iterations=1000000),
               "timeout -s KILL 2 ibv_rc_pingpong -g 1 -p {port} -n 1000000 {address}", server_exit=1, client_exit=None,
               server_says=[r"pingpong: (nothing has come for 5 s|a send failed: transport retries exceeded); \d+ of 1000000 sent"])
    yield Case("neg.perftest-killed", "rxe", "a", serve("perftest", test="write_bw", size=1024, iterations=1000000),
               "timeout -s KILL 2 ib_write_bw -F -x 1 -s 1024 -n 1000000 -p {port} {address}", server_exit=1, client_exit=None,
               server_says=["the connection ended|FIN|RST"])


def cases():
    return [*own_cases(), *pingpong_cases(KERNEL), *perftest_cases(KERNEL), *rdma_cm_cases(KERNEL), *refusals(), *losses()]
