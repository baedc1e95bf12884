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
NOT_TRIED = "-"
# A graceful end of these devices says that this side's requests were complete, no more: the peer's are not known.
GRACEFUL = "closed by the peer; whether all was delivered is not known"
KEEPALIVE, DEAD_AFTER = 1000, 3000  # milliseconds
VICTIM = "timeout -s KILL 4"        # for those that do not end by themselves, and are not seen to end before
STOPPED, WATCHES = "timeout -s KILL 14", "timeout -s INT 9"
CUT = {"siw": "echo 1 >/proc/sys/net/ipv6/conf/$NIC/keep_addr_on_down; ip link set $NIC down; sleep 10; ip link set $NIC up; sleep 3",
       "rxe": "tc qdisc add dev $NIC root netem loss 100%; sleep 12; tc qdisc del dev $NIC root"}
# What the other side does: end_peer's word for it, and whether the client's link goes meanwhile.
CAUSES = {
    "disconnect": ("disconnect", False),
    "close, nothing under way": ("close", False),
    "close, a Send not delivered": ("lost", False),
    "destroy": ("destroy", False),
    "exit": ("exit", False),
    "SIGKILL": ("kill", False),
    "SIGSTOP": ("stop", False),
    "host gone": ("hold", True),
    "link gone": ("hold", True),
}
# Before the decision, and who survives.
PHASES = {
    "server killed, client waits for the decision": ("kill", "client"),
    "client killed, server decides": ("kill", "server"),
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


def case(device, cause, survivor, phase, how, cut, cell):
    def part(role):
        does = "watch" if role == survivor else how
        run = f"/out/end_peer rdmacm {role} {{address}}:{{port}} {phase} {does} {KEEPALIVE} {DEAD_AFTER}"
        if role == survivor:
            return f"{WATCHES} {run}" if cell in NOTHING else run
        if how in ("exit", "kill"):
            return run
        return f"{STOPPED if how in ('stop', 'hold') else VICTIM} {run}"
    status = 124 if cell in NOTHING else 0
    says = [pattern(cell)]
    slug = re.sub(r"\W+", "-", cause.replace("'s", "")).lower()
    return Case(f"ends.{slug}.{survivor}", device, "a", part("server"), part("client"), ready="listening",
                server_says=says if survivor == "server" else [], client_says=says if survivor == "client" else [],
                server_exit=status if survivor == "server" else None, client_exit=status if survivor == "client" else None,
                interrupt=survivor == "client", meanwhile=CUT[device] if cut else "")


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
    unplayed = {cause for cause, cell in cells.items() if cell == NOT_TRIED}
    if unplayed | CAUSES.keys() | PHASES.keys() != cells.keys():
        raise ValueError(f"{TABLE}: the table of ends has other rows than this file")
    for cause, (how, cut) in CAUSES.items():
        for survivor in (ONE_SIDE[cause],) if cause in ONE_SIDE else ("client", "server"):
            if cells[cause] != NOT_TRIED:
                yield case(device, cause, survivor, "up", how, cut, cells[cause])
    for cause, (how, survivor) in PHASES.items():
        if cells[cause] != NOT_TRIED:
            yield case(device, cause, survivor, "request", how, False, cells[cause])
