# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A conversation in a capture, and what its readers must make of it."""
import copy
import random
import struct

import conversation
import impair
import plant
import plant_rdmap  # noqa: F401: these four fill the table
import plant_reactions  # noqa: F401
import plant_setup  # noqa: F401
import plant_stream  # noqa: F401
import segments
import wire

# What else may be said of a conversation with one fault: it is true of it, and no fault.
BESIDE = {"mpa.crc-not-asked"}


class Case:
    about = ""  # what failures are counted by, beside what is wrong

    def __init__(self, seed, number, conversation_, option, before=None):
        self.seed, self.option = seed, option
        self.layout = segments.Layout(conversation_, f"{seed} {number}", number, before)
        self.segments, self.impairments = self.layout.segments, []
        self.base = 0  # the frames that stand before it in its file

    @property
    def ends(self):
        return frozenset(self.layout.names())

    def octets(self):
        return segments.pcap(self.layout.frames(self.segments))

    def holds(self, finding):
        return self.base < finding.frame <= self.base + len(self.segments)

    @property
    def set_ups(self):
        """Each try on the TCP connection is a connection to its readers."""
        return len(self.layout.conversation.rejected) + 1

    def sender(self, finding):
        return plant.SIDES[self.segments[finding.frame - self.base - 1].side]


WHOLE = 1 << 20  # far from the numbers, and so from the addresses, of all other cases
# What no loss makes of an outcome.
NEVER = {"established": {"rejected", "failed"}, "rejected": {"established", "failed"}}


class Valid(Case):
    """Nobody did wrong, whatever the capture lacks."""

    def __init__(self, seed, number, conversation_, before=None):
        super().__init__(seed, number, conversation_, f"--valid {seed}", before)
        self.whole = None  # the same without impairments
        self.segments, self.impairments = impair.impair(self.layout, random.Random(f"impair {seed} {number}"))
        if before and not any(segment.flags == wire.SYN for segment in self.segments[:1]):
            self.segments, self.impairments = self.layout.segments, []  # its SYN tells it from the one before

    def judge(self, findings, _):
        return [str(finding) for finding in findings if finding.severity == "error"]

    def without_impairments(self):
        """For a reader that must warn of no more than in the whole capture."""
        self.whole = copy.copy(self)
        self.whole.segments, self.whole.impairments, self.whole.seed = self.layout.segments, [], None
        number = self.layout.number + WHOLE
        self.whole.layout = segments.Layout(self.layout.conversation, f"{self.seed} {self.layout.number}", number)
        return self.whole

    def judge_table(self, connections):
        """What the capture lacks nothing of, a reader knows as the generator does."""
        known = self.layout.conversation.known
        misread = [f"{kind}: {sentence}" for connection in connections for kind in ("request", "reply")
                   if connection["mpa"][kind] for sentence in self.misread(kind, connection["mpa"][kind])]
        if self.impairments:
            seen = {connection["outcome"] for connection in connections} & NEVER.get(known.get("outcome"), set())
            if self.set_ups > 1:
                seen.discard("rejected")
            return misread + [f"the outcome is {outcome!r}, no octet says so" for outcome in seen]
        if not known or misread:
            return misread
        if len(connections) != self.set_ups:
            return [f"{len(connections)} connections are listed for {self.set_ups}"]
        wrong = []
        for number, (connection, due) in enumerate(zip(connections, [
                *(one.known for one in self.layout.conversation.rejected), known]), 1):
            wrong += [f"{key} is {connection[key]!r}, {value!r} is expected" for key, value in due.items()
                      if connection[key] != value]
            for side, name in enumerate(("from_initiator", "from_responder")):
                sent = sum(unit.kind == "fpdu" and unit.side == side for unit in self.layout.conversation.units
                           ) if number == self.set_ups else 0
                if connection[name]["fpdus"] != sent:
                    wrong.append(f"{name} has {connection[name]['fpdus']} FPDUs, {sent} were sent")
        return wrong

    def misread(self, kind, told):
        """What is told of a startup frame that is not what was sent; private data may lack its end."""
        sent = [read_startup(unit.body) for unit in self.layout.conversation.units if unit.kind == kind]
        for frame in sent:
            wrong = [f"{key} is {told[key]!r}, {value!r} was sent" for key, value in frame.items()
                     if key != "private_data" and key in told and told[key] != value]
            if not frame["private_data"].startswith(told["private_data"]["hex"]):
                wrong.append(f"private data is {told['private_data']['hex']}, {frame['private_data']} was sent")
            if not wrong:
                return []
        return wrong if sent else [f"there was none: {told}"]

    def title(self):
        return f"{self.layout.conversation.style}, {', '.join(self.impairments) or 'whole'}"


def read_startup(body):
    """RFC 5044 §7.1.1, RFC 6581 §6, in the words of check's JSON."""
    flags, revision, length = struct.unpack_from(">BBH", body, 16)
    frame = {"revision": revision, "flags": f"0x{flags:02x}", "pd_length": length, "private_data": body[20:].hex()}
    if revision == 2 and flags & wire.S:
        ird, ord_ = struct.unpack_from(">HH", body, 20)
        frame.update(a=bool(ird & 0x8000), b=bool(ird & 0x4000), c=bool(ord_ & 0x8000), d=bool(ord_ & 0x4000),
                     ird=ird & 0x3FFF, ord=ord_ & 0x3FFF, private_data=body[24:].hex())
    return frame


class Planted(Case):
    """One side broke one rule once."""

    def __init__(self, seed, number, name):
        self.planted, self.about = plant.Planted(name, seed), f"{name}: "
        super().__init__(seed, number, self.planted.conversation, f"--kind {name} --planted {seed}")
        self.segments, self.impairments = impair.harmless(
            self.layout, random.Random(f"impair {seed} {number}"), any(unit.kind in ("fin", "rst") for unit in self.planted.units))

    def judge(self, findings, reader):
        row, planted = self.planted.row, self.planted
        side = plant.SIDES[planted.side]
        places = {self.base + place + 1 for unit in planted.units for place in self.places(unit)}
        said = [finding for finding in findings if finding.severity != "note"]
        due = [finding for finding in said if finding.severity in row.severity and finding.breaks(row) and (
               (finding.side or self.sender(finding)) == side and finding.frame in places or
               finding.side in (side, None) and self.may_be_late(reader) and finding.frame > min(places))]
        beside = BESIDE | {row.beside} | ({"mpa.s-unproven"} if planted.conversation.rtr == "frame" else set())
        wrong = [f"also said: {finding}" for finding in said if finding not in due and not finding.is_one_of(beside)]
        if not due:
            wrong.insert(0, f"not found: {' or '.join(row.severity)} by the {side} at frame "
                            f"{', '.join(map(str, sorted(places)))} [{' or '.join(row.keys)}]")
        return wrong

    def may_be_late(self, _):
        return False

    def judge_table(self, connections):
        if len(connections) == self.set_ups:
            return []
        return [f"{len(connections)} connections are listed for {self.set_ups}"]

    def places(self, unit):
        if unit.kind in ("fin", "rst"):
            flag = wire.FIN if unit.kind == "fin" else wire.RST
            return [index for index, segment in enumerate(self.segments) if segment.side == unit.side and segment.flags & flag]
        return self.layout.frames_of(unit, self.segments)

    def title(self):
        side = plant.SIDES[self.planted.side]
        return f"{self.planted.row.name} by the {side}, {', '.join(self.impairments) or 'whole'}"


# What one FPDU shows, whatever was or was not captured before it.
ALONE = {"RFC 5040 §4.1", "RFC 5040 §4.2", "RFC 5040 §4.3", "RFC 5040 §4.4", "RFC 5041 §4.2", "RFC 5041 §5.1", "RFC 5044 §4.1",
         "RFC 5044 §4.4", "RFC 7306 §5.2.1"}


class BesideLoss(Planted):
    """The same, and the capture lacks one segment of the data before it, whole octets away: nobody else is accused. The
    fault is still due where its FPDU alone shows it and the loss was in the other direction; else the loss may hide it."""

    def __init__(self, seed, number, name):
        super().__init__(seed, number, name)
        self.option = f"--kind {name} --beside-loss {seed}"
        places, self.lost = self.apart(), None
        if places:
            place = random.Random(f"loss {seed} {number}").choice(places)
            self.lost = self.segments[place].side
            self.segments = self.segments[:place] + self.segments[place + 1:]
            self.impairments = [*self.impairments, "lost"]

    def may_be_late(self, reader):
        """tshark has printed a frame when the next is read: what waited behind a loss, the plugin shows in the frame
        that ended the wait."""
        return reader == "plugin" and self.lost == self.planted.side

    def judge(self, findings, reader):
        wrong = super().judge(findings, reader)
        row = self.planted.row
        alone = ALONE.issuperset(row.clauses) and not row.name.startswith("terminate_of_")  # these speak of what came before
        if self.lost is None or (alone and self.lost != self.planted.side):
            return wrong
        return [sentence for sentence in wrong if not sentence.startswith("not found")]

    def apart(self):
        """Segments that hold nothing of the set-up, of the fault or of what came after it, and have octets between
        them and the fault; each the only one with its octets."""
        planted = self.planted
        first = min((place for unit in planted.units for place in self.places(unit)), default=0)
        edge = min((unit.begin for unit in planted.units if unit.kind not in ("fin", "rst")), default=0)
        setup = [max((unit.end for unit in planted.conversation.units if unit.side == side and
                      unit.kind in conversation.STARTUP), default=0) for side in (0, 1)]
        data = [(index, segment) for index, segment in enumerate(self.segments) if segment.octets]
        return [index for index, segment in data if index < first and segment.begin >= setup[segment.side]
                and (segment.side != planted.side or segment.end < edge)
                and not any(other is not segment and other.side == segment.side and other.begin < segment.end
                            and segment.begin < other.end for _, other in data)]


def valid(seed, number, _):
    made = []
    for index, one in enumerate(conversation.fall_back(seed)):
        # What follows a connection that was refused may come from the same port.
        before = made[0].layout if made and seed % 3 == 0 else None
        made.append(Valid(seed, number * 2 + index, one, before))
    return made


def planted(seed, number, kinds):
    kinds = kinds or list(plant.ROWS)
    return [Planted(seed, number * 2, kinds[seed % len(kinds)])]


def beside_loss(seed, number, kinds):
    kinds = kinds or list(plant.ROWS)
    return [BesideLoss(seed, number * 2, kinds[seed % len(kinds)])]


MAKE = {"valid": valid, "planted": planted, "beside_loss": beside_loss}
