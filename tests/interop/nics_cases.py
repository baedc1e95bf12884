# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What is tried with the provider rdmacm on Linux's rxe and siw, in two guests of the lab.

Each case is a server in one guest and a client in the other. Both exit with 0 unless the case says otherwise, and what
they print has to match.
"""
import re
from dataclasses import asdict

import end_cases
import mad_cases
import neg_cases
import roce_cases
import verbs_cases
from nics_case import ADDRESS, PARLEY, Case

FIRST_PORT = 12000
AGAIN_PORTS = 500  # from one attempt of a case to the next
ATTEMPTS = 4       # of a case on siw; a busy guest sleeps through one in three
NIC = "--provider rdmacm"
STOCK_RPING = "rping -s -a {address} -p {port} -C {pings} -S 4096 -V"


def verified(pings):
    return [rf"{pings} pings of \d+ octets, data verified"]


def rping_cases(device, pings=5):
    for family in (4, 6):
        yield Case(f"stock-rping-to-parley.ipv{family}", device, "a",
                   f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {NIC}",
                   f"rping -c -a {{address}} -p {{port}} -C {pings} -S 4096 -V",
                   server_says=[rf"1 client served, {pings} pings"], family=family)
        yield Case(f"parley-to-stock-rping.ipv{family}", device, "b",
                   STOCK_RPING.replace("{pings}", str(pings)),
                   f"{PARLEY} rping -c -a {{address}} -p {{port}} -C {pings} -S 4096 -V {NIC}",
                   client_says=verified(pings), family=family)
    yield Case("parley-to-parley", device, "a", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {NIC}",
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C {pings} -S 60000 -V {NIC}",
               server_says=[rf"1 client served, {pings} pings"], client_says=verified(pings))
    yield Case("loss.parley-to-stock-rping", device, "b", STOCK_RPING.replace("{pings}", str(pings)),
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C {pings} -S 4096 -V --timeout 60s {NIC}",
               client_says=verified(pings), netem=True)
    # The stock client ends right after its disconnect, of which RoCE's CM then sends no second one if it is lost.
    yield Case("loss.stock-rping-to-parley", device, "a", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {NIC}",
               f"rping -c -a {{address}} -p {{port}} -C {pings} -S 4096 -V",
               server_says=[rf"served, {pings} pings"], netem=True, interrupt=True, server_exit=None)


def cm_cases(device):
    iwarp = device == "siw"
    yield Case("ucmatose-to-parley", device, "a",
               f"{PARLEY} listen {{address}}:{{port}} --count 5 --hold 0s --quiet {NIC}",
               "ucmatose -s {address} -p {port} -c 5 -C 0", server_says=["5 requests: 5 established"],
               client_says=["return status 0"])
    yield Case("parley-to-ucmatose", device, "b", "ucmatose -b {address} -p {port} -c 5 -C 0",
               f"{PARLEY} connect {{address}}:{{port}} --count 5 --concurrency 5 --hold 20s --quiet {NIC}",
               # ucmatose hangs up as soon as all are there, which is before --hold is over.
               server_says=["return status 0"], client_says=["disconnected before the end"], client_exit=1)
    padded = "" if iwarp else ", then zeros"
    yield Case("private-data", device, "a",
               f"{PARLEY} listen {{address}}:{{port}} --echo --count 1 --private-data pong {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --send 20 --echoed --private-data ping {NIC}",
               server_says=[f'private data of \\d+ octets: "ping"{padded}'],
               client_says=[f'private data of \\d+ octets: "pong"{padded}', "1 of 1 connections"])
    yield Case("reject", device, "a",
               f"{PARLEY} listen {{address}}:{{port}} --reject --count 1 --private-data no {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} {NIC}", server_says=["1 rejected"],
               client_says=[r"rejected by 192\.0\.2\.1:\d+" + ("" if iwarp else ': private data of 148 octets: "no"')],
               client_exit=1)
    yield Case("fail-over", device, "b", STOCK_RPING.replace("{pings}", "1"),
               f"{PARLEY} connect {{address}}:1 --hold 300ms --backup {{address}}:{{port}} {NIC}",
               client_says=["trying 192.0.2.2:{port}", "there is no listener", "1 of 1 connections"], server_exit=None)
    yield Case("retry", device, "b", STOCK_RPING.replace("{pings}", "1"),
               f"{PARLEY} connect {{address}}:1 --rounds 3 --back-off 50ms {NIC}", interrupt=True, server_exit=None,
               client_says=["trying 192.0.2.2:1(.|\n)*trying 192.0.2.2:1", "there is no listener"], client_exit=1)
    if not iwarp:
        yield Case("time-wait", device, "a", f"{PARLEY} listen {{address}}:{{port}} --count 1 {NIC}",
                   f"{PARLEY} connect {{address}}:{{port}} --hold 100ms --time-wait {NIC}",
                   server_says=["1 requests?: 1 established"],
                   client_says=["time-wait over, [0-9.]+ m?s behind the disconnect", "1 of 1 connections"])
    yield Case("no-such-host", device, "b", STOCK_RPING.replace("{pings}", "1"),
               f"{PARLEY} connect 192.0.2.99:{{port}} {NIC}", interrupt=True, server_exit=None,
               client_says=["resolve the address of 192.0.2.99"], client_exit=3)
    # One search finds that nobody is there; the others take its answer.
    yield Case("no-such-host.many", device, "b", STOCK_RPING.replace("{pings}", "1"),
               f"{PARLEY} connect 192.0.2.98:{{port}} --count 20 --concurrency 20 {NIC}", interrupt=True, server_exit=None,
               client_says=["resolve the address of 192.0.2.98:[0-9]+: .*: as another search (has just found|found .* ago)",
                            "0 of 20 connections"], client_exit=3)
    yield Case("twenty-four-at-once", device, "a",  # siw has 32 completion queues, for both of its processes
               f"{PARLEY} listen {{address}}:{{port}} --echo --count 24 --quiet {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --count 24 --concurrency 24 --send 2 --echoed --quiet {NIC}",
               server_says=["24 requests: 24 established"], client_says=["24 of 24 connections"])


CMTIME_STEPS = ["create id +[0-9]", "resolve addr +[0-9]", "resolve route +[0-9]", "create qp +[0-9]", "\\nconnect +[0-9]",
                "disconnect +[0-9]", "destroy +[0-9]"]


def cmtime_cases(device):
    """Six connections, stock against Parley in both directions and Parley against itself: step by step the same names."""
    yield Case("cmtime.parley-to-parley", device, "a", f"{PARLEY} cmtime -b {{address}} -c 6 -p {{port}} {NIC}",
               f"{PARLEY} cmtime -s {{address}} -p {{port}} -c 6 --timeout 50s {NIC}", server_says=["6 connections served"],
               client_says=[*CMTIME_STEPS, "bind addr +-"])
    yield Case("cmtime.stock-to-parley", device, "a", f"{PARLEY} cmtime -b {{address}} -c 6 -p {{port}} {NIC}",
               "cmtime -s {address} -p {port} -c 6", server_says=["6 connections served"],
               client_says=["create id *:", "resolve route *:", "destroy *:"])
    yield Case("cmtime.parley-to-stock", device, "b", "cmtime -c 6 -p {port}",
               f"{PARLEY} cmtime -s {{address}} -p {{port}} -c 6 --timeout 50s {NIC}", client_says=CMTIME_STEPS, interrupt=True,
               server_exit=None)


OPS = "--log text --log-level debug --metrics /proc/self/fd/1"


def counted(name, value, **labels):
    """A sample of the last metrics that a command writes."""
    text = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return re.escape(f"{name}{{{text}}} {value}\n")


def stage(role, *names, count=2):
    return [counted("parley_setup_stage_seconds_count", count, role=role, stage=name) for name in names]


def messages(direction, **counts):
    return [counted("parley_messages_total", n, type=kind, direction=direction) for kind, n in counts.items()]


def told(*lines):
    return [r"\d\dZ (connect|listen)\[\d+\] " + line for line in lines]


def ops_cases(device):
    """Logs and metrics: the kernel sets the connections up, and what it tells of that is logged and counted."""
    iwarp = device == "siw"
    way = "" if iwarp else " gid=::ffff:192.0.2.{} gid_index=\\d+ peer_gid=::ffff:192.0.2.{} qp_num=\\d+ peer_qp_num=\\d+ path_mtu="
    request, reply = ("Request", "Reply") if iwarp else ("REQ", "REP")
    sent = {"mpa_request": 2} if iwarp else {"ib_req": 2, "ib_rtu": 2, "ib_dreq": 2}
    received = {"mpa_reply": 2} if iwarp else {"ib_rep": 2, "ib_drep": 2}
    # The peer's first message may come before its RTU, and then stands for it.
    taken = {"mpa_request": 2} if iwarp else {"ib_req": 2, "ib_dreq": 2}
    given = {"mpa_reply": 2} if iwarp else {"ib_rep": 2, "ib_drep": 2}
    yield Case("log-and-metrics", device, "a", f"{PARLEY} listen {{address}}:{{port}} --count 2 {OPS} {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --count 2 --hold 100ms {OPS} {NIC}",
               server_says=[counted("parley_connections_established_total", 2, role="responder"),
                            counted("parley_setup_seconds_count", 2, role="responder"),
                            *stage("responder", "decision", "reply", "ready"), *stage("responder", "request", count=0),
                            *messages("received", **taken), *messages("sent", **given),
                            *told("info  cm.listening", rf"info  #1 192\.0\.2\.2:\d+ cm.requested .*device={device}0",
                                  f"debug #1 .* kernel.message received {request} implied_by=CONNECT_REQUEST",
                                  f"debug #1 .* kernel.message sent {reply} implied_by=rdma_accept",
                                  rf"info  #1 .* cm.established ird=\d+ ord=\d+ device={device}0 local=192\.0\.2\.1:\d+"
                                  + way.format(1, 2), "info  #2 .* cm.disconnected")],
               client_says=[counted("parley_connections_established_total", 2, role="initiator"),
                            counted("parley_setup_seconds_count", 2, role="initiator"),
                            *stage("initiator", "resolve", "route", "reply", "ready"),
                            *stage("initiator", "transport", count=0),
                            *stage("initiator", "request", count=0 if iwarp else 2),
                            *messages("sent", **sent), *messages("received", **received),
                            *told(f"debug #1 .* cm.resolved local=192.0.2.2:\\d+ device={device}0",
                                  f"debug #1 .* kernel.message received {reply} implied_by=",
                                  rf"info  #1 192\.0\.2\.1:\d+ cm.established ird=\d+ ord=\d+ device={device}0 "
                                  r"local=192\.0\.2\.2:\d+" + way.format(2, 1), "info  #2 .* cm.disconnected")])
    yield Case("reject.log-and-metrics", device, "a",
               f"{PARLEY} listen {{address}}:{{port}} --reject --count 1 --metrics /proc/self/fd/1 {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --log json --metrics /proc/self/fd/1 {NIC}", client_exit=1,
               server_says=[counted("parley_rejects_total", 1, reason="rejected", direction="sent"),
                            *stage("responder", "decision", count=1),
                            *messages("sent", **({"mpa_reply": 1} if iwarp else {"ib_rej": 1}))],
               client_says=[counted("parley_rejects_total", 1, reason="rejected", direction="received"),
                            *([] if iwarp else messages("received", ib_rej=1)), '"name":"cm.rejected"',
                            counted("parley_connections", 0, role="initiator")])
    refusal = ([] if iwarp else
               [counted("parley_rejects_total", 1, reason="invalid_service_id", direction="received"),
                "kernel.message received REJ implied_by=REJECTED reason=invalid_service_id"])
    yield Case("retry.log-and-metrics", device, "a", f"{PARLEY} listen {{address}}:{{port}} --count 1 {NIC}",
               f"{PARLEY} connect {{address}}:1 --backup {{address}}:{{port}} {OPS} {NIC}",
               client_says=[counted("parley_retries_total", 1, reason="refused"), *refusal,
                            counted("parley_connections_started_total", 1, role="initiator"),
                            counted("parley_connections_established_total", 1, role="initiator"),
                            *stage("initiator", "resolve", "route"), *stage("initiator", "reply", count=1),
                            *told(r"info  #1 192.0.2.1:1 cm.retrying next=192.0.2.1:{port} step=\w+ cause=.*there is no listener",
                                  r"debug #1 \S+ cm.state from=connecting to=queued",
                                  rf"info  #1 192\.0\.2\.1:{{port}} cm.established .*device={device}0")])


def type_cases():
    """Queue pairs of other types than RC, on rxe: UC over rdma_cm's port space IB, services of UD, and XRC, which rxe has not."""
    for family, at in ((4, "{address}:{port}"), (6, "[{address}]:{port}")):
        yield Case(f"uc.parley-to-parley.ipv{family}", "rxe", "a",
                   f"{PARLEY} listen {at} --qp-type uc --echo --count 1 --size 3000 --private-data pong {NIC}",
                   f"{PARLEY} connect {at} --qp-type uc --send 20 --echoed --size 3000 --private-data ping {NIC}", family=family,
                   server_says=['private data of 56 octets: "ping", then zeros', "1 requests?: 1 established"],
                   client_says=['private data of 196 octets: "pong", then zeros', "1 of 1 connections"])
    yield Case("uc.at-once", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --qp-type uc --echo --count 8 --quiet {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --qp-type uc --count 8 --concurrency 8 --send 2 --echoed --quiet {NIC}",
               server_says=["8 requests: 8 established"], client_says=["8 of 8 connections"])
    yield Case("uc.reject", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --qp-type uc --reject --count 1 --private-data no {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --qp-type uc {NIC}", server_says=["1 rejected"],
               client_says=[r'rejected by 192\.0\.2\.1:\d+: private data of 148 octets: "no"'], client_exit=1)
    # Its service is another than RC's at the same port.
    yield Case("uc.refused", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --hold 60s {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --qp-type uc {NIC}", client_says=["there is no listener"], client_exit=1,
               interrupt=True, server_exit=None)
    yield Case("xrc.refused-by-the-device", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --qp-type xrc --hold 60s {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --qp-type xrc {NIC}", interrupt=True, server_exit=None,
               client_says=[r"rxe0: ibv_create_qp_ex: Operation not supported \(errno 95\)"], client_exit=1)


def datagram_cases():
    """Services of UD on rxe: against stock udaddy, whose port is 7174, and against itself."""
    letters = "-p {port} -C 20 -S 1024 -c 3"
    for family in (4, 6):
        yield Case(f"udping.parley-to-parley.ipv{family}", "rxe", "a", f"{PARLEY} udping -b {{address}} {letters} {NIC}",
                   f"{PARLEY} udping -s {{address}} {letters} {NIC}", family=family,
                   server_says=["3 clients served, 60 messages of 1024 octets received, 60 sent"],
                   client_says=["3 queue pairs resolved", "60 messages of 1024 octets sent, 60 received"])
    yield Case("udaddy-to-parley", "rxe", "a", f"{PARLEY} udping -b {{address}} -p 7174 -C 20 -S 1024 -c 3 {NIC}",
               "udaddy -s {address} -C 20 -S 1024 -c 3",
               server_says=["3 clients served, 60 messages of 1024 octets received, 60 sent"],
               client_says=["data transfers complete", "return status 0"])
    yield Case("parley-to-udaddy", "rxe", "b", "udaddy -b {address} -C 20 -S 1024 -c 3",
               f"{PARLEY} udping -s {{address}} -p 7174 -C 20 -S 1024 -c 3 {NIC}",
               server_says=["data transfers complete", "return status 0"],
               client_says=["; 60 messages of 1024 octets sent, 60 received"])
    yield Case("udping.refused", "rxe", "a", f"{PARLEY} udping -b {{address}} -p 7174 -P {NIC}",
               f"{PARLEY} udping -s {{address}} -p 7175 {NIC}", interrupt=True, server_exit=None,
               client_says=[r"service ID not supported \(1\)"], client_exit=1)
    yield Case("udping.rejected", "rxe", "a", f"{PARLEY} udping -b {{address}} -p 7174 --reject {NIC}",
               f"{PARLEY} udping -s {{address}} -p 7174 {NIC}", server_says=["1 rejected"],
               client_says=[r"rejected by the service \(2\)"], client_exit=1)


def no_other_type_case():
    return Case("uc.refused", "siw", "a", f"{PARLEY} listen {{address}}:{{port}} --hold 60s {NIC}",
                f"{PARLEY} connect {{address}}:{{port}} --qp-type uc {NIC}", interrupt=True, server_exit=None,
                client_says=["not one of the device's"], client_exit=1)


def end_case():
    """The kernel's DREQ does not say whether all was delivered: what is not acknowledged at that time was perhaps not."""
    return Case("closed-with-work-left", "rxe", "a", f"{PARLEY} listen {{address}}:{{port}} --hold 2s --count 1 {NIC}",
                f"{PARLEY} connect {{address}}:{{port}} --send 5 {NIC}", client_exit=1,
                client_says=["closed by the peer while 5 requests were not complete; whether all was delivered is not known"])


def rank_case(device):
    """The MPI-like runtime in C: eight processes, all of them connected with one another, over libparley's code."""
    return Case("eight-ranks", device, "a", "sleep 300",
                f"/out/c_ranks --ranks 8 --provider rdmacm --address {ADDRESS['b'][4]}", interrupt=True, server_exit=None,
                client_says=["8 ranks over rdmacm, connected all to all: 2 laps of the ring and 56 messages verified"])


def manager_cases(device):
    """Several Managers: on one host, with requests and connections that migrate between them; and one in each of three threads,
    with requests that move. Either connects to its own address."""
    for name, says in (("managers", "6 connections: 3 and 3 established at the workers, 6 ended where they went"),
                       ("worker_threads", "6 requests went to two threads, which got 3 and 3 messages")):
        yield Case(name.replace("_", "-"), device, "a", "sleep 300", f"/out/{name} rdmacm {ADDRESS['b'][4]}", interrupt=True,
                   server_exit=None, client_says=[says])


def socket_cases():
    """The same two programs, one over the kernel's iWARP device, the other over plain sockets."""
    yield Case("sockets-to-nic", "siw", "a", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {NIC}",
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C 5 -V", server_says=["1 client served, 5 pings"],
               client_says=verified(5))
    yield Case("nic-to-sockets", "siw", "b", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V",
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C 5 -V {NIC}", server_says=["1 client served, 5 pings"],
               client_says=verified(5))
    yield Case("private-data.nic-to-sockets", "siw", "b",
               f"{PARLEY} listen {{address}}:{{port}} --echo --count 1 --private-data pong",
               f"{PARLEY} connect {{address}}:{{port}} --send 20 --echoed --private-data ping {NIC}",
               server_says=['private data of 4 octets: "ping"'], client_says=['private data of 4 octets: "pong"'])


def doctor_case(device):
    kind = "RoCE" if device == "rxe" else "iWARP"
    return Case("doctor", device, "b", STOCK_RPING.replace("{pings}", "1"), f"{PARLEY} doctor rdmacm", interrupt=True,
                server_exit=None, client_says=["rdmacm: works", rf"{device}0 \({kind}\)", "port 1 ACTIVE"])


def way_case(device):
    says = [r"way: works: 192\.0\.2\.2:7471: the kernel's route .* leaves through " + f"{device}0, from 192.0.2.1"]
    if device == "rxe":
        says.append(r"with the GID ::ffff:192\.0\.2\.1 \(index \d+: RoCE v2, routable\)")
    return Case("way", device, "b", STOCK_RPING.replace("{pings}", "1"), f"{PARLEY} doctor rdmacm --to {ADDRESS['b'][4]}",
                interrupt=True, server_exit=None, client_says=says)


def no_way_case(device):
    return Case("no-way", device, "b", STOCK_RPING.replace("{pings}", "1"), f"{PARLEY} doctor rdmacm --to 192.0.2.99",
                interrupt=True, server_exit=None, client_exit=3,
                client_says=["way: fails: resolve the address of 192.0.2.99"])


def neighbour_case(device):
    """The kernel watches the neighbours of those who connected (since Linux 6.0), and hangs nothing up."""
    move = f"ip neigh replace {ADDRESS['a'][4]} lladdr 02:00:00:00:00:77 nud reachable dev $NIC"
    return Case("address-changed", device, "a", f"{PARLEY} listen {{address}}:{{port}} --count 1 {NIC}",
                f"{PARLEY} connect {{address}}:{{port}} --hold 3s --json {NIC}",
                meanwhile=f"{move}; sleep 0.5; ip neigh del {ADDRESS['a'][4]} dev $NIC",
                client_says=['"event":"address_changed"', "the link-layer address of 192.0.2.1:{port} changed",
                             '"graceful":true'])


def removal_case(device):
    """Last: the device is gone afterwards. The kernel waits for every process that has it open."""
    return Case("device-removed", device, "a", f"{PARLEY} listen 0.0.0.0:{{port}} --hold 60s --json {NIC}",
                f"{PARLEY} connect {{address}}:{{port}} --hold 60s {NIC}", remove=f"{device}0", interrupt=True,
                server_says=['"event":"device_removed"', f"the device {device}0 was removed"], client_exit=None,
                server_exit=None)


def plan(pattern=None):
    cases = []
    for device in ("rxe", "siw"):
        cases += [doctor_case(device), way_case(device), no_way_case(device), *rping_cases(device), *cm_cases(device)]
        cases += [*ops_cases(device), *cmtime_cases(device)]
        cases += socket_cases() if device == "siw" else []
        cases += [end_case(), *type_cases(), *datagram_cases()] if device == "rxe" else []
        cases += [no_other_type_case()] if device == "siw" else []
        cases += [neighbour_case(device), *neg_cases.cases(), *mad_cases.cases()] if device == "rxe" else []
        cases += end_cases.cases(device)
        cases += [rank_case(device), *manager_cases(device), removal_case(device)]
    cases += [*roce_cases.cases(), *mad_cases.engine_cases(roce_cases.DEVICE), *verbs_cases.cases()]  # last: guest b does without rxe from then on
    for number, case in enumerate(cases):
        case.name = f"{'roce' if case.device == roce_cases.DEVICE else case.device}.{case.name}"
        case.port = FIRST_PORT + number
    return [case for case in cases if not pattern or pattern.search(case.name)]


def at_port(case, port):
    """What of a case has its port."""
    names = {"address": ADDRESS[case.server_guest][case.family], "port": port}
    return {"port": port, "server": case.server.format(**names), "client": case.client.format(**names),
            "client_says": [text.replace("{port}", str(port)) for text in case.client_says]}


def to_json(cases):
    """With the commands as they are run; `again` has those of further attempts, whose frames are told apart by their ports."""
    return [{**asdict(case), **at_port(case, case.port),
             "again": [at_port(case, case.port + turn * AGAIN_PORTS) for turn in range(1, ATTEMPTS)]} for case in cases]
