# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The rungs of the ladder: stock RDMA programs, each as a server and a client under `parley run`, with different addresses. Programs that ignore
addresses of the loopback interface (`interfaces`) run in a network namespace with two interfaces, which takes root. A rung without a server is one
program that starts the others, such as mpirun: all have one address. {mpi} is ranks.c, compiled by `compiler`.

In the arguments, {a} is the server's address and {p} a free port. `holds` are regular expressions that the client's output matches;
`both`: the server's output too. `ci`: ./dev test runs the rung; ./dev stress runs all. `fails`: the reason why it fails today; `message`: a
regular expression of what the programs then print. Such a rung has to fail in this way, so that one that begins to pass is noticed."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Rung:
    group: str
    server: tuple
    client: tuple
    holds: tuple = ()
    both: bool = False
    serves_on: bool = False  # the server does not end with its client
    ready: str = "tcp"       # "tcp": it listens at TCP port {p}; "roce": it has UDP port 4791 of its address
    ci: bool = False
    fails: str = ""
    message: str = ""
    under: tuple = ()        # further options of parley run
    interfaces: bool = False
    together: bool = False   # both programs have the server's address
    env: tuple = ()          # variables: ("NAME=value", ...)
    compiler: str = ""

    @property
    def name(self):
        words = " ".join(self.client).replace(" {a}", "").replace(" -p {p}", "").replace(" -F -x 0", "").replace(" -F", "")
        words = " ".join([*self.env, words.replace(" -lp {p}", "").replace(" -P {p}", "").replace(" -t 1", "")])
        return words if not self.server or self.server[:1] == self.client[:1] else f"{self.server[0]} {words}"


def ping_pong(kind, *options, count=200, ci=False, fails="", message=""):
    words = (f"ibv_{kind}_pingpong", "-g", "0", "-p", "{p}", "-n", str(count), *options)
    return Rung("ping-pong", words, (*words, "{a}"), (rf"{count} iters in",), both=True, ci=ci, fails=fails, message=message)


def perftest(test, *options, count=300, holds=None, ci=False, fails="", message=""):
    by_cm = "-R" in options
    words = (f"ib_{test}", "-F", *(() if by_cm else ("-x", "0")), "-p", "{p}", *(() if "-a" in options else ("-n", str(count))), *options)
    row = holds or rf"(?m)^ +\d+ +{count} "
    return Rung("perftest", words, (*words, "{a}"), (row,), ready="roce" if by_cm else "tcp", ci=ci, fails=fails, message=message)


def cm(program, *options, holds="", group="rdma_cm", serves_on=False, server=None, client=None, ci=False, fails="", message=""):
    return Rung(group, (server or program, *options), (client or program, "-s", "{a}", *options), (holds,) if holds else (), ready="roce",
                serves_on=serves_on, ci=ci, fails=fails, message=message)


def rping(*options, count=10, ci=False):
    return Rung("rdma_cm", ("rping", "-s", "-a", "{a}", "-C", str(count), "-V", *options),
                ("rping", "-c", "-a", "{a}", "-C", str(count), "-v", "-V", *options), (rf"(ping data: rdma-ping-(.|\n)*){{{count}}}",),
                ready="roce", ci=ci)


def qperf(test, ci=False):
    """Without -cm1, qperf knows peers by LIDs."""
    return Rung("qperf", ("qperf", "-lp", "{p}"), ("qperf", "-lp", "{p}", "-t", "1", "{a}", test), (r"(?m)^ +(bw|recv_bw|latency|msg_rate) += +(?!0 )\d",),
                serves_on=True, ci=ci, under=("--link-layer", "infiniband"))


def fi_pingpong(provider, endpoint, *options, ci=False):
    largest = "1k" if endpoint == "dgram" else "1m"
    words = ("fi_pingpong", "-p", provider, "-e", endpoint, "-I", "20", "-c", *options)
    return Rung("libfabric", ("fi_pingpong", "-B", "{p}", *words[1:]), ("fi_pingpong", "-P", "{p}", *words[1:], "{a}"), (rf"(?m)^{largest} +20 +=20 ",), both=True,
                interfaces=True, ci=ci)


def ucx(transport, test, size="64", ci=False):
    words = ("ucx_perftest", "-t", test, "-n", "200", "-s", size, "-p", "{p}")
    return Rung("UCX", words, (*words, "{a}"), (r"(?m)^Final: +200 ",), env=(f"UCX_TLS={transport},self",), ci=ci)


def mpi(kind, transport, ranks, ci=False):
    """Both MPIs of Debian use UCX, here its InfiniBand transports alone."""
    own = {"openmpi": ("--allow-run-as-root", "--oversubscribe", "--mca", "pml", "ucx", "--mca", "osc", "ucx"), "mpich": ()}[kind]
    return Rung("MPI", (), (f"mpirun.{kind}", *own, "-np", str(ranks), "{mpi}"), (rf"{ranks} ranks: ring, all-to-all, RMA: ok",),
                env=(f"UCX_TLS={transport},self",), compiler=f"mpicc.{kind}", ci=ci)


LAST_SIZE = r"(?m)^ 8388608 +"
WHOLE = r"(?m)^ \d+ +\d+ "

PING_PONGS = [
    *(ping_pong(kind, "-s", "1024", *options) for kind in ("rc", "uc", "ud", "srq") for options in (
        (), ("-e",), ("-c",), ("-r", "20"))),
    ping_pong("rc", "-s", "1048576", count=50, ci=True),
    ping_pong("rc", "-m", "1024", "-s", "4096", ci=True),
    ping_pong("rc", "-t", ci=True),
    ping_pong("rc", "-N", ci=True),
    ping_pong("rc", "-l", "3", "-e"),
    ping_pong("srq", "-q", "8", "-r", "100", ci=True),
    ping_pong("rc", "-o", fails="the device has no on-demand paging", message="isn't ODP capable"),
    ping_pong("rc", "-j", fails="the device has no device memory", message="doesn't support dm allocation"),
]

TESTS = ("send_lat", "send_bw", "write_lat", "write_bw", "read_lat", "read_bw", "atomic_lat", "atomic_bw")
SERVICES = (("send_lat", "UC"), ("send_lat", "UD"), ("send_bw", "UC"), ("send_bw", "UD"), ("write_lat", "UC"), ("write_bw", "UC"))
PERFTEST = [
    *(perftest(test) for test in TESTS),
    *(perftest(test, "-R") for test in TESTS),
    *(perftest(test, "-e") for test in TESTS if test[:5] != "write"),
    *(perftest(test, "-c", service, *more) for test, service in SERVICES for more in ((), ("-R",))
      if (service, more) != ("UC", ("-R",))),  # perftest refuses that pair
    *(perftest(test, "-c", "XRC", ci=test in ("send_bw", "read_lat")) for test in TESTS),
    *(perftest(test, "-a", "-n", "20", holds=LAST_SIZE) for test in ("send_lat", "send_bw", "write_bw", "read_bw")),
    *(perftest(test, "-q", "8", holds=WHOLE, ci=test in ("read_bw", "atomic_bw")) for test in TESTS if test.endswith("bw")),
    *(perftest(test, "-b", holds=WHOLE, ci=test == "read_bw") for test in ("send_bw", "write_bw", "read_bw")),
    *(perftest(test, "-I", "64", "-s", "64", ci=test == "write_lat") for test in ("send_lat", "send_bw", "write_lat", "write_bw")),
    perftest("send_lat", "--use-srq", ci=True),
    perftest("send_bw", "--use-srq", "-q", "4", holds=WHOLE),
    perftest("send_bw", "-c", "UD", "-q", "4", holds=WHOLE, ci=True),
    perftest("send_bw", "-c", "UD", "-g", holds=WHOLE, fails="the multicast group of perftest is an IPv6 one, and the device has an IPv4 GID only",
             message="Couldn't attach QP to MultiCast group"),
    perftest("write_bw", "-l", "4"),
    perftest("write_bw", "-D", "1", holds=WHOLE),
    perftest("read_bw", "-o", "4", ci=True),
    perftest("atomic_bw", "-A", "CMP_AND_SWAP", ci=True),
    perftest("atomic_lat", "-A", "CMP_AND_SWAP", "-e"),
    perftest("write_bw", "-R", "-q", "4", holds=WHOLE, ci=True),
    perftest("send_bw", "-R", "-b", holds=WHOLE),
    perftest("read_lat", "-R", "-e", ci=True),
    perftest("write_bw", "--use_old_post_send", "-q", "2", holds=WHOLE),
    perftest("send_bw", "--odp", fails="the device has no on-demand paging", message="failed to create mr"),
]

RDMA_CM = [
    rping(), rping("-S", "4096"), rping("-q"), rping("-S", "65535", count=5, ci=True),
    cm("ucmatose", "-c", "20", "-C", "10", "-S", "2000", ci=True),
    cm("ucmatose", "-c", "3", "-C", "5", "-t", "32", ci=True),
    cm("udaddy", "-c", "5", "-C", "5", ci=True),
    cm("cmtime", "-c", "20", holds=r"(?m)^connect ", serves_on=True),
    cm("rdma_server", server="rdma_server", client="rdma_client"),
    cm("rdma_xserver", server="rdma_xserver", client="rdma_xclient"),
    cm("rdma_xserver", "-c", "x", server="rdma_xserver", client="rdma_xclient"),
    Rung("rdma_cm", ("mckey", "-m", "224.1.2.3", "-C", "5"), ("mckey", "-m", "224.1.2.3", "-s", "-C", "5"), (r"return status 0",), ready="roce"),
]
RSOCKETS = [
    *(cm(program, "-S", size, "-C", "50", *more, group="rsockets", holds=rf"(?m)^custom +{shown} ", ci=ci)
      for program in ("rstream", "riostream")
      for size, shown, more, ci in (("64", "64", (), False), ("65536", "64k", (), True))),
    # Without -T a: rstream takes the peer's end, which may arrive with the last octets, for an error.
    cm("rstream", "-S", "64", "-C", "50", "-T", "b", group="rsockets"),
    cm("rstream", "-S", "64", "-C", "50", "-T", "n", group="rsockets", ci=True),
    Rung("rsockets", ("rstream", "-p", "{p}", "-S", "64", "-C", "50", "-T", "f"),
         ("rstream", "-s", "{a}", "-p", "{p}", "-S", "64", "-C", "50", "-T", "f"), (r"(?m)^custom +64 ",), ready="tcp", serves_on=True, ci=True),
    # Datagram rsockets reach their own queue pair by its LID, on any device, and take the route's source as their address.
    Rung("rsockets", ("udpong", "-b", "{a}", "-S", "64", "-C", "20"), ("udpong", "-s", "{a}", "-S", "64", "-C", "20"), (r"(?m)^custom +64 ",),
         ready="roce", serves_on=True, under=("--link-layer", "infiniband"), interfaces=True, together=True, ci=True),
    Rung("rsockets", ("rcopy",), ("rcopy", "{from}", "{a}:{to}"), (), ready="roce", serves_on=True),
]

QPERF = [qperf(test, ci=test in ("rc_lat", "uc_rdma_write_bw", "ud_bw")) for test in (
    "rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_lat", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_rdma_write_poll_lat", "rc_rdma_write_bw",
    "rc_compare_swap_mr", "rc_fetch_add_mr", "ver_rc_compare_swap", "ver_rc_fetch_add", "uc_lat", "uc_bw", "uc_bi_bw", "uc_rdma_write_lat",
    "uc_rdma_write_poll_lat", "uc_rdma_write_bw", "ud_lat", "ud_bw", "ud_bi_bw")]

LIBFABRIC = [fi_pingpong("verbs", "msg", ci=True), fi_pingpong("verbs", "dgram"), fi_pingpong("verbs;ofi_rxd", "rdm")]
UCX = [*(ucx("rc", test) for test in ("tag_lat", "tag_bw", "ucp_put_lat", "ucp_put_bw", "ucp_get")),
       *(ucx("rc", test, size="8") for test in ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")),
       ucx("rc", "tag_bw", size="1000000", ci=True), ucx("ud", "tag_lat"), ucx("ud", "tag_bw", size="100000")]
MPI = [mpi(kind, transport, ranks, ci=(transport, ranks) == ("rc", 4))
       for kind in ("openmpi", "mpich") for transport, ranks in (("rc", 2), ("rc", 4), ("ud", 4), ("rc", 16))]

RUNGS = [*PING_PONGS, *PERFTEST, *RDMA_CM, *RSOCKETS, *QPERF, *LIBFABRIC, *UCX, *MPI]
