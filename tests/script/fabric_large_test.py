# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Simulated InfiniBand subnets of the size of real ones, under stock ibnetdiscover, opensm and saquery. `./dev stress` takes switches of
36 ports (11,664 hosts), for which opensm needs 50 s of processor time; other runs those of PARLEY_FABRIC_RADIX ports, or of 18."""
import json
import os
import subprocess

import cli
from fabric_kit import OWN_PRELOAD, FabricTest

RADIX = int(os.environ.get("PARLEY_FABRIC_RADIX", "18"))
LARGE = f"3,{RADIX},{RADIX},{RADIX // 2}"
HOSTS, SWITCHES = RADIX ** 3 // 4, 5 * RADIX ** 2 // 4
SAME = {"guid": "node_guid", "system_image_guid": "system_image_guid", "port_guid": "port_guid", "vendor_id": "vendor_id",
        "device_id": "device_id", "ports": "num_ports"}  # of a node that discover finds, and of its NodeRecord


def number(value):
    """Of a GUID or the like, which are hexadecimal texts, or of a number."""
    return int(value, 0) if isinstance(value, str) else value


class LargeFabric(FabricTest):
    WAIT = 1500  # seconds

    def events(self, *command, preload=""):
        """Without the check by the schema, which would take minutes for a table of these."""
        done = subprocess.run([cli.PARLEY, *command, "--json", "--transport", self.transport(preload)], capture_output=True, text=True,
                              timeout=self.WAIT, check=False, env=self.environment("H00001", preload))
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_they_are_the_subnets_that_ibsim_has(self):
        self.compare_with_ibsim("3,36,6,18,6", 11664)
        self.compare_with_ibsim(LARGE, 6 * HOSTS)

    def test_opensm_routes_it_and_tells_of_every_node(self):
        server = self.serve("--fat-tree", LARGE)
        opensm, log = self.opensm("H00000", "-maxsmps", "64", preload=OWN_PRELOAD)
        self.wait_for_log(log, "SUBNET UP")
        self.assertEqual(self.stock("H00001", "saquery", "-t", "20000", "NR", preload=OWN_PRELOAD).count("NodeRecord dump"),
                         HOSTS + SWITCHES)
        [reply] = self.events("mad", "query", "SubnAdmGetTable", "NodeRecord", preload=OWN_PRELOAD)
        said = {number(record["node_info"]["node_guid"]): record for record in reply["records"]}
        self.assertEqual(len(said), len(reply["records"]))
        found = [event for event in self.events("mad", "discover") if event["event"] == "node"]
        self.assertEqual(len(found), HOSTS + SWITCHES)
        for node in found:
            record = said.pop(number(node["guid"]))
            info = record["node_info"]
            self.assertEqual({own: number(info[theirs]) for own, theirs in SAME.items()}, {own: number(node[own]) for own in SAME})
            self.assertEqual((record["lid"], record["node_description"]["node_string"], info["node_type"]["name"].replace(" ", "_")),
                             (node["lid"], node["name"], node["type"]))
        self.assertEqual(said, {})
        opensm.terminate()
        opensm.wait(timeout=self.WAIT)
        done = server.finish(stop=True, limit=self.WAIT)
        self.assertEqual(done.code, 0, done)
        routes = done.event("routes")
        self.assertEqual((routes["pairs"], routes["reached"], routes["good"]), (HOSTS * (HOSTS - 1), HOSTS * (HOSTS - 1), True))
        self.assertEqual(done.event("ended")["dropped"], 0)


if __name__ == "__main__":
    cli.main()
