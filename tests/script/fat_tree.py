# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Fat trees as ibsim reads them: `fat_tree.py LEVELS RADIX PODS HOSTS [TRUNK]` prints one.

Two levels: PODS leaf switches with HOSTS hosts each, and RADIX - HOSTS spines. Three: PODS pods of RADIX / 2 leaves and as
many switches above them, and cores; TRUNK links run side by side between a pod's upper switches and a core.
"""
import sys


class Net:
    def __init__(self):
        self.nodes = {}  # name: (kind, ports, {port: (peer, peer's port)})

    def add(self, kind, name, ports):
        self.nodes[name] = (kind, ports, {})

    def link(self, one, other):
        (a, ap), (b, bp) = one, other
        self.nodes[a][2][ap] = (b, bp)
        self.nodes[b][2][bp] = (a, ap)

    def text(self):
        lines = []
        for name, (kind, ports, links) in self.nodes.items():
            lines.append(f'{kind} {ports} "{name}"')
            lines += [f'[{port}] "{peer}"[{peer_port}]' for port, (peer, peer_port) in sorted(links.items())]
            lines.append("")
        return "\n".join(lines) + "\n"


def two_levels(radix, leaves, hosts):
    net = Net()
    spines = radix - hosts
    for leaf in range(leaves):
        net.add("Switch", f"L{leaf:05}", radix)
    for spine in range(spines):
        net.add("Switch", f"S{spine:05}", radix)
    for host in range(leaves * hosts):
        net.add("Hca", f"H{host:05}", 1)
        net.link((f"H{host:05}", 1), (f"L{host // hosts:05}", host % hosts + 1))
    for leaf in range(leaves):
        for spine in range(spines):
            net.link((f"L{leaf:05}", hosts + spine + 1), (f"S{spine:05}", leaf + 1))
    return net


def three_levels(radix, pods, hosts, trunk):
    net = Net()
    half = radix // 2
    cores_of_one = half // trunk
    for pod in range(pods):
        for i in range(half):
            net.add("Switch", f"L{pod:03}{i:02}", radix)
            net.add("Switch", f"M{pod:03}{i:02}", radix)
    for core in range(half * cores_of_one):
        net.add("Switch", f"C{core:05}", radix)
    for pod in range(pods):
        for i in range(half):
            leaf, upper = f"L{pod:03}{i:02}", f"M{pod:03}{i:02}"
            for h in range(hosts):
                name = f"H{(pod * half + i) * hosts + h:05}"
                net.add("Hca", name, 1)
                net.link((name, 1), (leaf, h + 1))
            for j in range(half):
                net.link((leaf, half + j + 1), (f"M{pod:03}{j:02}", i + 1))
            for c in range(cores_of_one):
                for t in range(trunk):
                    net.link((upper, half + c * trunk + t + 1), (f"C{i * cores_of_one + c:05}", pod * trunk + t + 1))
    return net


def fat_tree(levels, radix, pods, hosts, trunk=1):
    return two_levels(radix, pods, hosts) if levels == 2 else three_levels(radix, pods, hosts, trunk)


if __name__ == "__main__":
    sys.stdout.write(fat_tree(*map(int, sys.argv[1:])).text())
