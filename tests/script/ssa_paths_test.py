# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Paths that Parley computes from a subnet's tables are those that stock opensm's subnet administration gives for the same pairs.
PARLEY_SSA_PAIRS: so many pairs, on larger subnets."""
import ipaddress
import itertools
import json
import os
import random
import re
import subprocess

import cli
from fabric_kit import OWN_PRELOAD, FabricTest

LARGE = "PARLEY_SSA_PAIRS" in os.environ
PAIRS = int(os.environ.get("PARLEY_SSA_PAIRS", "300"))


def gid(guid):
    return str(ipaddress.IPv6Address(0xFE80 << 112 | guid))


def host_guid(number):
    """The GUID of the only port of a generated subnet's host."""
    return 0x100001 + 2 * number


class SsaPaths(FabricTest):
    def compare(self, shape, *options, partitions=None, mixed=False, ssa=()):
        """Serves a subnet with opensm, and draws pairs of its ports. Returns the records, and how many pairs have none."""
        rng = random.Random(7)
        net = os.path.join(self.directory, "net")
        self.assertEqual(cli.run("fabric", *shape, "--write", net).code, 0)
        if mixed:  # links of different speeds
            with open(net, encoding="utf-8") as file:
                text = re.sub(r" s=7$", lambda _: f" s={rng.choice((1, 3, 7))}", file.read(), flags=re.M)
            self.path("net", text.encode())
        server = self.serve(net)
        more = [f"-P{self.path('partitions', partitions.encode())}"] if partitions else []
        _, log = self.opensm("H00000", *options, *more, preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        pairs = self.draw_pairs(rng)
        asked = self.answers("mad", "sa", "--window", "64", pairs=pairs)
        computed = self.answers("ssa", "paths", *ssa, pairs=pairs)
        for pair in pairs:
            self.assertEqual(computed[pair], asked[pair], pair)
        self.end_all()
        server.finish(stop=True)
        records = [record for record in asked.values() if record is not None]
        return records, len(asked) - len(records)

    def draw_pairs(self, rng):
        """Of all end ports, by GID, and one of four by LIDs with the LMC."""
        ends = []
        for node in cli.run("mad", "discover", "--json", "--transport", f"ibsim:{self.name}/H00001").events:
            if node["event"] == "node":
                ends.append((gid(int(node["port_guid"], 0)), node["lid"]))
        by_gid = [(a, b) for (a, _), (b, _) in itertools.product(ends, ends)]
        by_lid = [(str(a), str(b)) for (_, a), (_, b) in itertools.product(ends, ends)]
        return rng.sample(by_gid, min(len(by_gid), PAIRS * 3 // 4)) + rng.sample(by_lid, min(len(by_lid), PAIRS // 4))

    def answers(self, *command, pairs):
        """The records by pair; None: there is no path."""
        file = self.path("pairs", "".join(f"{a},{b}\n" for a, b in pairs).encode())
        line = [*command, "--from", file, "--json", "--transport", f"ibsim:{self.name}/H00001"]
        if LARGE:  # without the check by the schema, which would take minutes
            done = subprocess.run([cli.PARLEY, *line], capture_output=True, text=True, timeout=self.WAIT, check=False)
            events = [json.loads(text) for text in done.stdout.splitlines()]
        else:
            events = cli.run(*line).events
        self.assertEqual(events[-1]["event"], "summary", events[-1:])
        found = {(event["from"], event["to"]): event.get("record") for event in events[:-1]}
        self.assertEqual(set(found), set(pairs))
        return found

    def test_a_fat_tree_with_partitions_lmc_and_mixed_rates(self):
        hosts = 648 if LARGE else 32

        def partition(head, step, full):
            """In several lines: those of opensm's file must not be long."""
            members = [f"{host_guid(n):#x}={'limited' if n % full else 'full'}" for n in range(0, hosts, step)] + [f"{host_guid(1):#x}=full"]
            return "".join(f"{head}: {', '.join(members[i:i + 16])};\n" for i in range(0, len(members), 16))
        partitions = (f"Default=0x7fff, ipoib: ALL=limited, ALL_SWITCHES=full, {host_guid(1):#x}=full, SELF=full;\n"
                      + partition("Storage=0x0012, sl=3", 2, 3) + partition("Other=0x1200, sl=5", 5, hosts))
        shape = "2,36,36,18" if LARGE else "2,8,8,4"
        records, missing = self.compare(("--fat-tree", shape), "-l", "1", "-Q", partitions=partitions, mixed=True)
        self.assertGreater(missing, 0)  # pairs of limited members
        self.assertEqual({record["sl"] for record in records}, {0, 3, 5})
        self.assertGreater(len({record["rate"]["value"] for record in records}), 1)
        self.assertGreater(len({record["p_key"] for record in records}), 3)

    def test_a_torus_whose_routing_engine_chooses_sls(self):
        size = 5 if LARGE else 3
        seed = (f"torus {size} {size} {size}\nxp_link 0x200000 0x200001\nyp_link 0x200000 {0x200000 + size:#x}\n"
                f"zp_link 0x200000 {0x200000 + size * size:#x}\n")
        if LARGE:  # opensm wants the links in both directions then
            seed += (f"xm_link 0x200000 {0x200000 + size - 1:#x}\nym_link 0x200000 {0x200000 + size * (size - 1):#x}\n"
                     f"zm_link 0x200000 {0x200000 + size * size * (size - 1):#x}\n")
        records, missing = self.compare(("--torus", f"{size}x{size}x{size},{2 if LARGE else 1}"), "-R", "torus-2QoS", "-Q", "--torus_config",
                                        self.path("torus.conf", seed.encode()), ssa=("--route-sls",))
        self.assertEqual(missing, 0)
        self.assertEqual({record["sl"] for record in records}, set(range(8)))


if __name__ == "__main__":
    cli.main()
