# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""discover.py PORT: the nodes of an InfiniBand subnet, by directed routes, many requests at a time. PORT: "ibsim:NAME/NODE" is a subnet
that `parley fabric` simulates, "umad:DEVICE/PORT" a real one. Without it, this program simulates a subnet of its own."""
import os
import select
import subprocess
import sys

from parley.mad import Port


class Walk:
    def __init__(self, port):
        self.port, self.nodes, self.open = port, {}, {}

    def ask(self, route, number=None):
        """NodeInfo of the node at this route, or PortInfo of one of its ports."""
        attribute, members = ("NodeInfo", {}) if number is None else ("PortInfo", {"modifier": number})
        self.open[self.port.post("SubnGet", attribute, route, **members)] = route, number

    def take(self, reply):
        route, number = self.open.pop(reply.id)
        if reply.error:
            print(f"# {reply.error}")
        elif number is not None:
            if reply.records[0]["port_state"] > 1:  # not down: somebody is there
                self.ask(f"{route}{number}" if route == "0," else f"{route},{number}")
        elif (guid := reply.records[0]["node_guid"]) not in self.nodes:
            node = self.nodes[guid] = reply.records[0]
            if node["node_type"] == 2:  # a switch
                for number in range(1, node["num_ports"] + 1):
                    self.ask(route, number)
            elif route == "0,":
                self.ask(route, node["local_port_num"])

    def run(self):
        self.ask("0,")
        while self.open:
            select.select([self.port], [], [])
            self.port.progress()
            for reply in self.port.replies():
                self.take(reply)
        return self.nodes


def discover(where):
    with Port(where) as port:
        nodes = Walk(port).run()
    for guid, node in sorted(nodes.items()):
        print(f"0x{guid:016x}  {node['num_ports']:3} ports  {node.text('node_type')}")
    print(f"{len(nodes)} nodes")


def main():
    if sys.argv[1:]:
        return discover(sys.argv[1])
    fabric = subprocess.Popen([os.environ.get("PARLEY", "parley"), "fabric", "--fat-tree", "2,8,4,2", "--name", f"discover-{os.getpid()}", "--json"],
                              stdout=subprocess.PIPE, text=True)
    try:
        while fabric.stdout.readline().find('"serving"') < 0:
            if fabric.poll() is not None:
                sys.exit("the simulated subnet did not start")
        return discover(f"ibsim:discover-{os.getpid()}")
    finally:
        fabric.terminate()
        fabric.wait()


if __name__ == "__main__":
    main()
