# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The table of management datagrams out of include/parley/wire, random datagrams by it, and tshark's view of them as data."""
import re
import xml.etree.ElementTree as ElementTree

import harness

FOLDER = harness.SOURCE / "include/parley/wire"
FILES = "common smp sa cm pm cc gs ssa".split()
TEXT = "".join((FOLDER / f"{name}.h").read_text(encoding="utf-8") for name in ["mad", *(f"mad_{name}" for name in FILES)])
NUMBER = r"(0x\w+|\d+)"
CM_MESSAGES = range(0x10, 0x1B)


def rows(name, parameters):
    """The argument lists of a macro's rows."""
    body = re.search(rf"#define PARLEY_MAD_{name}\({parameters}\)((?:.*\\\n)*.*\n)", TEXT)[1]
    letters = "|".join(parameters.split(", "))
    return [tuple(part.strip() for part in row.split(",")) for row in re.findall(rf"\b(?:{letters})\(([^()]*)\)", body)]


def members_of(macro):
    """{member: (octet, width, count, kind or structure)} of a structure."""
    body = re.search(rf"#define {macro}\(F, S, R\)((?:.*\\\n)*.*\n)", TEXT)[1]
    found = {row[0]: (int(row[1]), int(row[3]), int(row[4]), row[5]) for row in
             (tuple(part.strip() for part in match.split(",")) for match in re.findall(r"\bF\(([^()]*)\)", body))}
    for match in re.findall(r"\bS\(([^()]*)\)", body):
        name, octet, count, structure = (part.strip() for part in match.split(","))
        found[name] = int(octet), 0, int(count), structure
    return found


# structure: (octets, attribute, members)
STRUCTURES = {name: (int(octets), int(attribute, 0), members_of(macro)) for name, octets, attribute, _, macro in
              (row for file in FILES for row in rows(f"{file.upper()}_STRUCTURES", "T"))}
# name: (first class, last class, version or 0, format, where the attribute begins)
CLASSES = {row[0]: (int(row[1], 0), int(row[2], 0), int(row[3]), row[4], int(row[5])) for row in rows("CLASSES", "X")}
LEGAL = [tuple(row) for row in rows("LEGAL", "L")]  # structure, class, methods
METHODS = {row[0]: int(row[1], 0) for row in rows("METHODS", "X")}
TRAPS = [(int(first), int(last), name) for first, last, name in rows("TRAP_DETAILS", "X")]


def shown_members():
    """{(structure, member)} of numbers, texts and octets that a datagram may show: not messages of the CM, which have other fields, nor
    vendors' attributes, which nothing in a datagram tells apart."""
    found, left = set(), ["MadHeader", "CaCongestionLog", *(row[3] for row in CLASSES.values()), *(row[2] for row in TRAPS),
                          *(structure for structure, name, _ in LEGAL if name not in ("comm_mgt", "vendor"))]
    formats = {row[3] for row in CLASSES.values()}
    while left:
        structure = left.pop()
        for member, (*_, kind) in STRUCTURES[structure][2].items():
            if kind in STRUCTURES:
                left.append(kind)
            elif structure not in formats or member != "data":
                found.add((structure, member))
    return found


def text_places(structure, at):
    """[(octet, length)] of members that are text."""
    places = []
    for octet, width, count, kind in STRUCTURES[structure][2].values():
        if kind == "text":
            places.append((at + octet, count))
        elif kind in STRUCTURES:
            for i in range(count):
                places += text_places(kind, at + octet + i * STRUCTURES[kind][0])
    return places


def datagram(chance, mgmt_class, version, method, attribute, base=1, length=256):
    """Octets of any value but for what is given; every third time many are zero or small."""
    octets = bytearray(chance.randbytes(length))
    if chance.randrange(3) == 0:
        for at in range(length):
            octets[at] = octets[at] if chance.randrange(3) == 0 else chance.choice((0, 0, 1, 2, 3, 4, 5))
    octets[0:4] = bytes((base, mgmt_class, version, method))
    octets[16:18] = attribute.to_bytes(2, "big")
    if chance.randrange(2):
        octets[4:6] = chance.choice((0, 1, 2, 4, 8, 0x0C, 0x1C, 0x0300, 0x8000, 0x0201)).to_bytes(2, "big")
    return octets


def settle(chance, octets, structure, at):
    """Texts of the structure at `at` become text."""
    for begin, length in text_places(structure, at):
        length = min(length, max(0, len(octets) - begin))
        words = "".join(chance.choices("abcXYZ 019-_", k=length)).encode()
        octets[begin:begin + length] = words[:chance.randrange(length + 1)].ljust(length, b"\0")


# --- what tshark shows -------------------------------------------------------------------------------------
def own(element):
    return [child for child in element if child.get("name", "").startswith("parley.mad.")]


def read_structure(element, seen):
    """(structure's name, {member: value or list of them}) with values as elements; `reserved` as `parley mad decode` has it."""
    structure, out = element.get("name").removeprefix("parley.mad."), {}
    for child in own(element):
        parts, label = child.get("name").split("."), child.get("showname", "")
        if parts[2:] == ["reserved"]:
            bit = re.match(r"reserved_(\d+): ", label)[1]
            out.setdefault("reserved", {})[bit] = child.get("show").replace(":", "")
        elif len(parts) == 3:
            name, index = re.fullmatch(rf"(\w+)(?:\[(\d+)\])?: {parts[2]}", label or child.get("show")).groups()
            put(out, name, index, read_structure(child, seen))
        else:
            assert parts[2] == structure, (parts, structure)
            seen.add((structure, parts[3]))
            index = re.match(r"(?:\[(\d+)\] )?", label)[1]
            assert re.search(rf"(^|[\] =]){re.escape(parts[3])}: ", label), label
            put(out, parts[3], index, child)
    return structure, out


def put(out, name, index, value):
    if index is None:
        assert name not in out, name
        out[name] = value
    else:
        assert len(out.setdefault(name, [])) == int(index), (name, index)
        out[name].append(value)


def frames_of(text):
    """[(frame number, element of parley.mad or None)] of -T pdml."""
    for packet in ElementTree.fromstring(text):
        number = packet.find("proto[@name='geninfo']/field[@name='num']")
        yield int(number.get("show")), packet.find("proto[@name='parley.mad']")
