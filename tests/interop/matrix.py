# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The interop matrix: which connections are made between Parley and Linux's siw, and with what."""
from dataclasses import asdict, dataclass, field, replace

FIRST_PORT = 10000
ATTEMPTS = 3  # each attempt has a port of its own, so that a retry has a capture of its own

MODES = {
    "default": {"peer_to_peer": 0, "mpa_crc_required": 0},
    "p2p": {"peer_to_peer": 1, "mpa_crc_required": 0},
    "crc": {"peer_to_peer": 0, "mpa_crc_required": 1},
    "p2p+crc": {"peer_to_peer": 1, "mpa_crc_required": 1},
}
# Stock rping takes sizes of 23 to 65535 octets on its own command line (its text must fit, and 65536 is refused), but
# its server reads whatever length the client advertises: so Parley's client goes down to a single octet.
STOCK_MINIMUM = 23
SIZES = {"to-siw": [1, 64, 4096, 65535], "from-siw": [STOCK_MINIMUM, 64, 4096, 65535]}
PINGS = 100
DISTURBED_SIZE = 16384


@dataclass
class Case:
    kind: str       # "rping": pings with their data verified; "v1": MPA revision 1, Sends only
    direction: str  # "to-siw": Parley initiates; "from-siw": stock rping initiates
    family: int     # 4 or 6
    mode: str       # a key of MODES
    size: int
    count: int = PINGS
    netem: bool = False
    version: int = 2  # siw's mpa_version
    port: int = 0
    siw: dict = field(default_factory=dict)

    @property
    def name(self):
        words = [self.direction, f"ipv{self.family}", "v1" if self.kind == "v1" else self.mode, f"{self.size}B"]
        return ".".join(words + (["loss"] if self.netem else []))


def plan(pattern=None, repeat=1, stock=False):
    """The cases; with stock, without those that only Parley's own rping can play."""
    cases = [Case("rping", direction, family, mode, size)
             for mode in MODES for direction in SIZES for family in (4, 6) for size in SIZES[direction]]
    cases += [Case("v1", direction, family, "default", 64, count=1, version=1)
              for direction in SIZES for family in (4, 6)]
    cases += [Case("rping", direction, family, mode, DISTURBED_SIZE, netem=True)
              for mode in ("default", "p2p+crc") for direction in SIZES for family in (4, 6)]
    cases = [case for case in cases if not pattern or pattern.search(case.name)]
    cases = [replace(case) for case in cases if not stock or case.size >= STOCK_MINIMUM for _ in range(repeat)]
    for number, case in enumerate(cases):
        case.port = FIRST_PORT + number * ATTEMPTS
        case.siw = {**MODES[case.mode], "mpa_version": case.version}
    return cases


def to_json(cases):
    return [{**asdict(case), "name": case.name} for case in cases]
