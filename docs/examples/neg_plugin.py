# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A plug-in of staged QP negotiation in Python: it agrees on a rate, and takes two rounds where the peer offers more.

    parley neg check-plugin docs/examples/neg_plugin.py --set rate=200
    parley neg serve --plugin docs/examples/neg_plugin.py --variant acme/rate --set rate=100
    parley neg dial 127.0.0.1 --plugin docs/examples/neg_plugin.py --variant acme/rate --set rate=200
"""
import struct

import parley  # provided by the program that loads this


class RateVariant:
    """One negotiation. It keeps what it has heard from call to call."""

    def __init__(self, config):
        self.rate = config["rate"]
        self.asked = False

    def rdma_info_exchange(self, peer_data=None):
        """What the peer said, or None in the initiator's first call. 'completed': this side has said all in the stage."""
        if peer_data is not None:
            if len(peer_data) != 4:
                raise parley.InvalidPeerData(f"{len(peer_data)} octets, 4 are expected")
            theirs = struct.unpack("!I", peer_data)[0]
            if theirs < self.rate:
                self.rate, self.asked = theirs, False
        if self.asked:
            return {"data": b"", "completed": True}
        self.asked = True
        return {"data": struct.pack("!I", self.rate), "completed": peer_data is not None}

    def rdma_ready_exchange(self, peer_data=None):
        return {"data": b"ready" if peer_data is None else b"", "completed": True}


class AcmePlugin:
    plugin_id = "acme"
    version = "1.0"

    def get_variants(self):
        return [{"id": "rate", "summary": "agrees on the lower rate",
                 "parameters": [{"name": "rate", "kind": "number", "help": "in Gb/s", "otherwise": "100",
                                 "least": 1, "most": 800}]}]

    def get_variant(self, variant_id, config):
        return RateVariant(config)


plugin = AcmePlugin()
