# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the tests of stock RDMA programs under `parley run` share: ports, who listens, what programs print."""
import re
import socket
import struct
import subprocess
import time

from cli import LIMIT, CliTest

# A thread of rping asks for one more event and is not joined. If main() has closed the channel by then, the program ends with 255, on
# any device.
LATE_THREAD = "rdma_get_cm_event: Bad file descriptor"
# What clients print if the server does not listen yet. 8 is RDMA_CM_EVENT_REJECTED.
REJECTED = "RDMA_CM_EVENT_REJECTED|RDMA_CM_EVENT_UNREACHABLE|Connection refused|Unexpected CM event bl blka 8"


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def listens(port, of="self"):
    """Whether a process listens at the TCP port, in the network namespace of process `of`. It is not called: some servers serve one call."""
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{of}/net/{name}", encoding="ascii") as file:
            if any(row[1].endswith(f":{port:04X}") and row[3] == "0A" for row in map(str.split, file)):
                return True
    return False


def receives(place, of="self"):
    """Whether a process has UDP port 4791 of the address, in the network namespace of process `of`."""
    family, table = (socket.AF_INET6, "udp6") if ":" in place else (socket.AF_INET, "udp")
    octets = socket.inet_pton(family, place)
    local = "".join(f"{word:08X}" for word in struct.unpack(f"={len(octets) // 4}I", octets)) + f":{4791:04X}"
    with open(f"/proc/{of}/net/{table}", encoding="ascii") as file:  # to bind the port instead would take it from the process
        return any(row.split()[1] == local for row in file)


def ended_well(process, said):
    """The program may be an argument of its own, or in the words of a shell's command."""
    late = "rping" in " ".join(process.args).split() and process.returncode == 255 and LATE_THREAD in said
    return process.returncode == 0 or late


class StockTest(CliTest):
    """Starts stock programs, and looks at their ends."""

    def launch(self, *words):
        process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def succeeded(self, process, said):
        self.assertTrue(ended_well(process, said), f"{process.args}\n{process.returncode}\n{said}")
        return said

    def finish(self, process):
        return self.succeeded(process, process.communicate(timeout=LIMIT)[0])

    def call(self, server, client):
        """What a client said; client() starts it, again while the server does not listen yet."""
        end = time.monotonic() + LIMIT
        while True:
            process = client()
            said, _ = process.communicate(timeout=LIMIT)
            if not re.search(REJECTED, said) or server.poll() is not None or time.monotonic() > end:
                return self.succeeded(process, said)
