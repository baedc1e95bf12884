# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""How connections end over the kernel's devices. What the surviving side reports must be what docs/cm.md's table of ends has for the
device: the table is read here, so that it has these expectations alone.
"""
import re
from pathlib import Path

from nics_case import PARLEY, Case

TABLE = Path(__file__).resolve().parents[2] / "docs/cm.md"
BEGIN, END = "<!-- ends: begin -->\n", "<!-- ends: end -->"
COLUMNS = {"siw": "rdmacm, siw", "rxe": "rdmacm, rxe"}
NOTHING = ("nothing: its system answers for it", "nothing before the decision")
# A graceful end of these devices says that this side's requests were complete, no more: the peer's are not known.
GRACEFUL = "closed by the peer; whether all was delivered is not known"
KEEPALIVE, DEAD_AFTER = 1000, 3000  # milliseconds
VICTIM = "timeout -s KILL 4"        # for those that do not end by themselves, and are not seen to end before
STOPPED, WATCHES = "timeout -s KILL 9", "timeout -s INT 7"
SILENT = "timeout -s KILL 6"        # behind the survivor's end
LINK_DOWN = "echo 1 >/proc/sys/net/ipv6/conf/$NIC/keep_addr_on_down; ip link set $NIC down; sleep {}; ip link set $NIC up; sleep 3"
# rxe's QP 1 fails with what it could not send while the link was down, and receives nothing from then on.
RXE_ANEW = "rdma link delete rxe0; rdma link add rxe0 type rxe netdev $NIC"
SILENCE = "tc qdisc add dev $NIC root netem loss 100%; sleep 5; tc qdisc del dev $NIC root"
# What the other side does: end_peer's word for it, and what the client's guest runs meanwhile on each device.
CAUSES = {
    "disconnect": ("disconnect", None),
    "close, nothing under way": ("close", None),
    "close, a Send not delivered": ("lost", None),
    "destroy": ("destroy", None),
    "exit": ("exit", None),
    "SIGKILL": ("kill", None),
    "SIGSTOP": ("stop", None),
    "host gone": ("hold", {"siw": LINK_DOWN.format(8), "rxe": SILENCE}),
    "link gone": ("hold", {"siw": LINK_DOWN.format(5), "rxe": f"{LINK_DOWN.format(5)}; {RXE_ANEW}"}),
}
# ICMP that the other guest answers with: a type of route, and for a port the code that no route sends (reject.sh).
REJECTED = {
    "ICMP port unreachable": "blackhole {seconds} 3",
    "ICMP host unreachable": "unreachable {seconds}",
    "ICMP administratively prohibited": "prohibit {seconds}",
}
REJECTS = 5  # seconds
# Before the decision, and who survives.
PHASES = {
    "server killed, client waits for the decision": ("kill", "client"),
    "client killed, server decides": ("kill", "server"),
    "server's host gone, client waits for the decision": ("hold", "client"),
    "client gives up, server decides": ("destroy", "server"),
}
# The guest whose link goes is the client's: another host for the server, the own link for the client.
ONE_SIDE = {"host gone": "server", "link gone": "client"}


def table():
    """What is done -> column -> cell."""
    lines = TABLE.read_text(encoding="utf-8").split(BEGIN)[1].split(END)[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: dict(zip(rows[0][1:], row[1:])) for row in rows[2:]}


def pattern(cell):
    """Of a survivor's output."""
    if cell in NOTHING:
        return r"(?m)\A(?![\s\S]*^end )"
    if found := re.fullmatch(r"(\w+) at `(\w+)`: (.*)", cell):
        return rf"(?m)^end {found[1]}\|{re.escape(found[3])}\|{found[2]}\|"
    return rf"(?m)^end disconnected\|{'graceful' if cell == GRACEFUL else re.escape(cell)}\|"


def case(device, cause, survivor, phase, how, cell, **other):
    def part(role):
        silent = role != survivor and cause in REJECTED
        does = "watch" if role == survivor else how
        times = "NEVER NEVER" if silent else f"{KEEPALIVE} {DEAD_AFTER}"
        run = f"/out/end_peer rdmacm {role} {{address}}:{{port}} {phase} {does} {times}"
        if role == survivor:
            return f"{WATCHES} {run}" if cell in NOTHING else run
        if how in ("exit", "kill"):
            return run
        if silent and cell not in NOTHING:
            return f"{SILENT} {run}"
        return f"{STOPPED if how in ('stop', 'hold') else VICTIM} {run}"
    status = 124 if cell in NOTHING else 0
    says = [pattern(cell)]
    return Case(f"ends.{slug(cause)}.{survivor}", device, "a", part("server"), part("client"), ready="listening",
                server_says=says if survivor == "server" else [], client_says=says if survivor == "client" else [],
                server_exit=status if survivor == "server" else None, client_exit=status if survivor == "client" else None,
                interrupt=survivor == "client", **other)


def slug(cause):
    return re.sub(r"\W+", "-", cause.replace("'s", "")).lower()


def rejected_cases(device, cause, route, cells):
    reject = f"sh /out/reject.sh {route.format(seconds=REJECTS)}"
    yield case(device, cause, "server", "up", "hold", cells[cause], meanwhile=reject)
    cause = f"connect, {cause}"
    yield Case(f"ends.{slug(cause)}", device, "a", reject,
               f"/out/end_peer rdmacm client {{address}}:{{port}} up watch {KEEPALIVE} {DEAD_AFTER}", ready="rejecting",
               client_says=[pattern(cells[cause])], server_exit=None, interrupt=True)


def keepalive_case():
    """All that the client sends is lost for longer than --dead-after."""
    cut = "sleep 3; tc qdisc add dev $NIC root netem loss 100%; sleep 12; tc qdisc del dev $NIC root"
    return Case("keepalive", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --count 1 --provider rdmacm",
                f"{PARLEY} connect {{address}}:{{port}} --hold 50s --json --keepalive 1s --dead-after 3s --provider rdmacm",
                client_exit=1, server_exit=None, interrupt=True, meanwhile=cut, client_says=["no answer of"])


def cases(device):
    if device == "rxe":
        yield keepalive_case()
    cells = {cause: row[COLUMNS[device]] for cause, row in table().items()}
    cells = {cause: cell for cause, cell in cells.items() if cell != "-"}  # not played over the kernel's devices
    if {*CAUSES, *REJECTED, *(f"connect, {cause}" for cause in REJECTED), *PHASES} != cells.keys():
        raise ValueError(f"{TABLE}: the table of ends has other rows than this file")
    for cause, (how, cut) in CAUSES.items():
        for survivor in (ONE_SIDE[cause],) if cause in ONE_SIDE else ("client", "server"):
            yield case(device, cause, survivor, "up", how, cells[cause], meanwhile=cut[device] if cut else "")
    for cause, route in REJECTED.items():
        yield from rejected_cases(device, cause, route, cells)
    for cause, (how, survivor) in PHASES.items():
        yield case(device, cause, survivor, "request", how, cells[cause], on_request=SILENCE if how == "hold" else "")
