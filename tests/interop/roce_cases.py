# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What is tried with the provider roce: Linux's rxe in guest a, under stock programs or under Parley's provider rdmacm, and
Parley on plain UDP sockets in guest b, whose kernel has no rxe.

Each case of both directions: rxe as the server, rxe as the client.
"""
import neg_cases
from nics_case import ADDRESS, PARLEY, Case

DEVICE = "rxe-a"  # in guest a alone
UDP = "--roce"
NIC = "--provider rdmacm"
CAPTURE = "rxe61_cm.pcap"  # of tests/captures/roce, beside the programs in the guests


def verified(pings):
    return [rf"{pings} pings of \d+ octets, data verified"]


def rping_cases():
    for size, pings in ((64, 5), (1024, 5), (4097, 5), (65535, 3)):
        for family in (4, 6):
            yield Case(f"stock-rping-to-parley.ipv{family}.{size}B", DEVICE, "b",
                       f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {UDP}",
                       f"rping -c -a {{address}} -p {{port}} -C {pings} -S {size} -V",
                       server_says=[rf"1 client served, {pings} pings"], family=family)
            yield Case(f"parley-to-stock-rping.ipv{family}.{size}B", DEVICE, "a",
                       f"rping -s -a {{address}} -p {{port}} -C {pings} -S {size} -V",
                       f"{PARLEY} rping -c -a {{address}} -p {{port}} -C {pings} -S {size} -V {UDP}",
                       client_says=verified(pings), family=family)
    for family in (4, 6):
        name = "rping" if family == 4 else "rping.ipv6"
        yield Case(f"loss.parley-to-stock-{name}", DEVICE, "a", "rping -s -a {address} -p {port} -C 5 -S 4096 -V",
                   f"{PARLEY} rping -c -a {{address}} -p {{port}} -C 5 -S 4096 -V --timeout 50s {UDP}", client_says=verified(5),
                   family=family, netem=True)
        # The stock client ends right after its disconnect, of which the kernel then sends no second one if it is lost.
        yield Case(f"loss.stock-{name}-to-parley", DEVICE, "b", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {UDP}",
                   "rping -c -a {address} -p {port} -C 5 -S 4096 -V", server_says=[r"served, 5 pings"], family=family, netem=True,
                   interrupt=True, server_exit=None)


def pair_cases():
    """Parley on the kernel's device against Parley on sockets."""
    yield Case("rdmacm-to-roce", DEVICE, "b", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {UDP}",
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C 5 -S 60000 -V {NIC}",
               server_says=["1 client served, 5 pings"], client_says=verified(5))
    yield Case("roce-to-rdmacm", DEVICE, "a", f"{PARLEY} rping -s -a {{address}} -p {{port}} -V {NIC}",
               f"{PARLEY} rping -c -a {{address}} -p {{port}} -C 5 -S 60000 -V {UDP}",
               server_says=["1 client served, 5 pings"], client_says=verified(5))
    # A REQ sent again, because the guest is slow, is a new request to Linux once it has rejected the first one.
    for name, guest, server, client, rejections in (("rdmacm-to-roce", "b", UDP, NIC, "1"),
                                                    ("roce-to-rdmacm", "a", NIC, UDP, r"[1-9]\d*")):
        yield Case(f"private-data.{name}", DEVICE, guest,
                   f"{PARLEY} listen {{address}}:{{port}} --echo --count 1 --private-data pong {server}",
                   f"{PARLEY} connect {{address}}:{{port}} --send 20 --echoed --private-data ping {client}",
                   server_says=['private data of 56 octets: "ping", then zeros'],
                   client_says=['private data of 196 octets: "pong", then zeros', "1 of 1 connections"])
        yield Case(f"reject.{name}", DEVICE, guest,
                   f"{PARLEY} listen {{address}}:{{port}} --reject --count 1 --private-data no {server}",
                   f"{PARLEY} connect {{address}}:{{port}} {client}", server_says=[rf"\b{rejections} rejected, 0 failed"],
                   client_says=[r"rejected by 192\.0\.2\.[12]:\d+: private data of 148 octets: \"no\""], client_exit=1)
        yield Case(f"refused.{name}", DEVICE, guest,
                   f"{PARLEY} listen {{address}}:{{port}} --hold 60s {server}",
                   f"{PARLEY} connect {{address}}:1 {client}", client_says=["there is no listener"], client_exit=1,
                   interrupt=True, server_exit=None)


def cm_cases():
    for family, at in ((4, "{address}:{port}"), (6, "[{address}]:{port}")):
        name = "ucmatose" if family == 4 else "ucmatose.ipv6"
        yield Case(f"{name}-to-parley", DEVICE, "b", f"{PARLEY} listen {at} --count 100 --hold 0s --quiet {UDP}",
                   "ucmatose -s {address} -p {port} -c 100 -C 0", family=family, server_says=["100 requests: 100 established"],
                   client_says=["return status 0"])
        yield Case(f"parley-to-{name}", DEVICE, "a", "ucmatose -b {address} -p {port} -c 100 -C 0",
                   f"{PARLEY} connect {at} --count 100 --concurrency 100 --hold 20s --quiet {UDP}", family=family,
                   # ucmatose hangs up as soon as all are there, which is before --hold is over.
                   server_says=["return status 0"], client_says=["disconnected before the end"], client_exit=1)
    # Where a DREP can be lost the server has to stay for the next DREQ.
    yield Case("loss.ucmatose-to-parley", DEVICE, "b", f"{PARLEY} listen {{address}}:{{port}} --hold 0s --quiet {UDP}",
               "ucmatose -s {address} -p {port} -c 20 -C 0", server_says=["20 established"], client_says=["return status 0"],
               netem=True, interrupt=True, server_exit=None)
    yield Case("loss.parley-to-ucmatose", DEVICE, "a", "ucmatose -b {address} -p {port} -c 20 -C 0",
               f"{PARLEY} connect {{address}}:{{port}} --count 20 --concurrency 20 --hold 30s --quiet {UDP}", netem=True,
               client_says=["disconnected before the end"], client_exit=1, interrupt=True, server_exit=None)
    yield from cmtime_cases()
    yield Case("time-wait", DEVICE, "a", f"{PARLEY} listen {{address}}:{{port}} --count 1 {NIC}",
               f"{PARLEY} connect {{address}}:{{port}} --hold 100ms --time-wait {UDP}",
               server_says=["1 requests?: 1 established"],
               client_says=["time-wait over, [0-9.]+ m?s behind the disconnect", "1 of 1 connections"])
    yield Case("no-answer", DEVICE, "a", f"{PARLEY} listen {{address}}:{{port}} --hold 60s {NIC}",
               f"{PARLEY} connect 192.0.2.99:{{port}} --reply-timeout 2s {UDP}",
               client_says=[r"no REP to [0-9]+ REQs in 2(\.[0-9]+)? s"], client_exit=1, interrupt=True, server_exit=None)


def cmtime_cases():
    for family in (4, 6):
        for loss in (False, True):
            name = ("loss." if loss else "") + "cmtime." + "{}" + (".ipv6" if family == 6 else "")
            yield Case(name.format("stock-to-parley"), DEVICE, "b",
                       f"{PARLEY} cmtime -b {{address}} {'' if loss else '-c 1000 '}-p {{port}} {UDP}",
                       "cmtime -s {address} -p {port} -c 1000", family=family, netem=loss, interrupt=loss,
                       server_exit=None if loss else 0, server_says=["1000 connections served"],
                       client_says=["create id *:", "resolve route *:", "destroy *:"])
            yield Case(name.format("parley-to-stock"), DEVICE, "a", "cmtime -b {address} -c 1000 -p {port}",
                       f"{PARLEY} cmtime -s {{address}} -p {{port}} -c 1000 --timeout 50s {UDP}", family=family, netem=loss,
                       client_says=["1000 connections, provider roce"], interrupt=True, server_exit=None)


def datagram_cases():
    """Stock udaddy, whose server has the address's family by the address that it is bound to."""
    for family, size, count, queue_pairs in ((4, 1024, 20, 3), (6, 100, 10, 1)):
        letters = f"-C {count} -S {size} -c {queue_pairs}"
        total = count * queue_pairs
        name = f"ipv{family}.{size}B"
        yield Case(f"udaddy-to-parley.{name}", DEVICE, "b", f"{PARLEY} udping -b {{address}} -p 7174 {letters}",
                   f"udaddy -s {{address}} {letters}", family=family,
                   server_says=[rf"{queue_pairs} clients? served, {total} messages of {size} octets received, {total} sent"],
                   client_says=["data transfers complete", "return status 0"])
        yield Case(f"parley-to-udaddy.{name}", DEVICE, "a", f"udaddy -b {{address}} {letters}",
                   f"{PARLEY} udping -s {{address}} -p 7174 {letters}", family=family,
                   server_says=["data transfers complete", "return status 0"],
                   client_says=[rf"; {total} messages of {size} octets sent, {total} received"])
    yield Case("udaddy.refused-by-rxe", DEVICE, "a", "udaddy -b {address}", f"{PARLEY} udping -s {{address}} -p 7175",
               client_says=[r"service ID not supported \(1\)"], client_exit=1, interrupt=True, server_exit=None)
    yield Case("udaddy.refused-by-parley", DEVICE, "b", f"{PARLEY} udping -b {{address}} -p 7175 -P",
               "udaddy -s {address}", client_says=["event: RDMA_CM_EVENT_UNREACHABLE, error: 1"], client_exit=1,
               interrupt=True)
    # Its server rejects whoever comes if the messages do not fit the MTU.
    yield Case("udaddy.rejected-by-rxe", DEVICE, "a", "udaddy -b {address} -S 2000", f"{PARLEY} udping -s {{address}} -p 7174",
               client_says=[r"rejected by the service \(2\)"], client_exit=1, interrupt=True, server_exit=None)
    yield Case("udaddy.rejected-by-parley", DEVICE, "b", f"{PARLEY} udping -b {{address}} -p 7174 --reject",
               "udaddy -s {address}", server_says=["1 rejected"],
               client_says=["event: RDMA_CM_EVENT_UNREACHABLE, error: 2"], client_exit=2)
    # udaddy waits for ever for a datagram that is lost, so these have none: SIDR alone, whose messages are repeated. A SIDR_REP that is
    # lost makes rxe's udaddy take the repeated request for another client, of which it therefore expects many.
    yield Case("udaddy-to-parley.loss", DEVICE, "b", f"{PARLEY} udping -b {{address}} -p 7174 -C 0 -P",
               "udaddy -s {address} -C 0 -c 60", client_says=["return status 0"], netem=True, interrupt=True)
    yield Case("parley-to-udaddy.loss", DEVICE, "a", "udaddy -b {address} -C 0 -c 1000",
               f"{PARLEY} udping -s {{address}} -p 7174 -C 0 -c 60", client_says=["60 queue pairs resolved"], netem=True,
               interrupt=True, server_exit=None)


def group_cases():
    """Stock mckey, whose sender joins the group too, 3 s before it sends. What its receiver says comes as long behind the join."""
    for size, count, queue_pairs in ((100, 10, 1), (1024, 20, 3)):
        group = f"-m 239.1.2.{queue_pairs}"
        total = count * queue_pairs
        yield Case(f"mckey-to-parley.{size}B", DEVICE, "b",
                   f"{PARLEY} udping {group} -b {{address}} -C {total} -S {size} --timeout 50s --pcapng /out/{{port}}.pcapng",
                   f"mckey {group} -s -C {count} -S {size} -c {queue_pairs} -b {ADDRESS['a'][4]}",
                   server_says=[rf"\n{total} messages of {size} octets received from 239\.1\.2\.{queue_pairs}\n"],
                   client_says=["mckey: joined dgid", "data transfers complete", "return status 0"])
        yield Case(f"parley-to-mckey.{size}B", DEVICE, "a",
                   f"mckey {group} -C {count} -S {size} -c {queue_pairs} -b {{address}}",
                   f"{PARLEY} udping {group} -b {ADDRESS['b'][4]} --send -C {count} -S {size} --pcapng /out/{{port}}.pcapng",
                   ready="receiving data transfers", server_says=["data transfers complete", "return status 0"],
                   client_says=[rf"{count} messages of {size} octets sent to 239\.1\.2\.{queue_pairs}"])
    # The kernel joins no IPv6 group for RoCEv2 (524 is its ENOTSUPP), so that stock programs on rxe neither send nor receive there.
    yield Case("mckey.ipv6-refused-by-rxe", DEVICE, "b", f"{PARLEY} udping -m ff0e::7174 -b {{address}}",
               f"mckey -m ff0e::7174 -s -b {ADDRESS['a'][6]}", family=6, client_says=["mckey: failure joining: Unknown error 524"],
               client_exit=255, interrupt=True, server_exit=None)


def replay_cases():
    """A recorded rping over rxe, played to the kernel's rxe, one side after the other: it does what the recorded one did."""
    for family, connection, pings in ((4, 1, 3), (6, 2, 2)):
        place = "[{address}]:{port}" if family == 6 else "{address}:{port}"
        played = f"{PARLEY} replay /out/{CAPTURE} -n {connection} --timeout 10s"
        yield Case(f"replay.initiator-to-rping.ipv{family}", DEVICE, "a", f"rping -s -a {{address}} -p {{port}} -C {pings}",
                   f"{played} --role initiator --against {place}", family=family, client_says=[r"\nsame: ([0-9]+) of \1 steps"],
                   server_exit=None)
        yield Case(f"replay.responder-to-rping.ipv{family}", DEVICE, "b", f"{played} --role responder --listen {place}",
                   f"rping -c -a {{address}} -p {{port}} -C {pings}", family=family,
                   server_says=[r"\nsame: ([0-9]+) of \1 steps"], client_exit=None)


def rank_case():
    """The MPI-like runtime in C, half of its ranks on sockets (at guest b's address and the next one) and half on the kernel's
    device, all connected with one another.
    """
    def ranks(provider, here, address):
        return f"/out/c_ranks --ranks 4 --kvs /out/kvs --here {here} --provider {provider} --address {address}"
    said = "4 ranks over {}, connected all to all: 2 laps of the ring and 12 messages verified"
    return Case("four-ranks.roce-and-rdmacm", DEVICE, "b", ranks("roce", "1,2", ADDRESS["b"][4]),
                ranks("rdmacm", "0,3", ADDRESS["a"][4]),
                server_says=[said.format("roce")], client_says=[said.format("rdmacm")])


def port_case():
    """Where the kernel's rxe is, it has the port."""
    return Case("port-held-by-rxe", DEVICE, "b", f"{PARLEY} rping -s -a {{address}} -p {{port}} {UDP}",
                f"{PARLEY} connect {{address}}:{{port}} {UDP}", interrupt=True, server_exit=None, client_exit=3,
                client_says=["UDP port 4791 is in use, by the kernel's rxe"])


def cases():
    return [*rping_cases(), *pair_cases(), *cm_cases(), *datagram_cases(), *group_cases(), *replay_cases(), rank_case(), port_case(), *neg_cases.engine_cases()]
