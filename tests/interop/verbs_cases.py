# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley verbs`: a program for libibverbs in guest b, which has no RDMA device, and the same program on Linux's rxe in guest a."""
from nics_case import ADDRESS, PARLEY, Case

DEVICE = "rxe-a"  # in guest a alone
OWN = f"{PARLEY} verbs -v -a {{own}} -- "
GID = {4: 1, 6: 2}  # indices at which rxe has the guests' addresses; of Parley's device, 0


def pair(name, program, says, family=4):
    """`program` has {gid} where the index of its own GID stands. Servers listen on IPv4, whatever their GID is."""
    own = OWN.format(own=ADDRESS["b"][family])
    on_rxe, on_parley = program.replace("{gid}", str(GID[family])), own + program.replace("{gid}", "0")
    clean = [r"\A((?!parley run:)(.|\n))*\Z"]  # no call was refused
    yield Case(f"verbs.{name}-on-rxe-to-parley", DEVICE, "b", on_parley, f"{on_rxe} {ADDRESS['b'][4]}", server_says=[says, *clean],
               client_says=[says])
    yield Case(f"verbs.{name}-on-parley-to-rxe", DEVICE, "a", on_rxe, f"{on_parley} {ADDRESS['a'][4]}", server_says=[says],
               client_says=[says, *clean])


def pingpong_cases():
    # Few packets: UC and UD repeat nothing, and rxe loses one now and then.
    for kind, size, family in (("rc", 4096, 4), ("rc", 4096, 6), ("uc", 1000, 4), ("ud", 1000, 4), ("srq", 4096, 4)):
        for waits in ("", " -e") if kind in ("rc", "ud") and family == 4 else ("",):
            name = f"{kind}-pingpong{'.events' if waits else ''}{'.ipv6' if family == 6 else ''}"
            yield from pair(name, f"ibv_{kind}_pingpong -g {{gid}} -p {{port}} -s {size} -n 100 -c{waits}", "100 iters in", family)


# -F: without it a program of perftest ends with 1 after its messages, where it cannot measure the guest's processor frequency.
def perftest_cases():
    for test in ("send_lat", "send_bw", "write_lat", "read_bw", "atomic_lat"):
        sized = "" if "atomic" in test else " -s 8192" if "bw" in test else " -s 64"
        # The side whose memory is used has no figures of its own in some of them.
        yield from pair(test.replace("_", "-"), f"ib_{test} -F -x {{gid}} -p {{port}} -n 100{sized}", "local address: .* QPN 0x")
    yield from pair("send-bw.ud", "ib_send_bw -F -c UD -x {gid} -p {port} -s 1024 -n 100", "local address: .* QPN 0x")


def cases():
    return [*pingpong_cases(), *perftest_cases()]
