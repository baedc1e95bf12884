# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What happens to captures of conversations in which nothing went wrong.

Each takes the list of segments and gives another; none changes what was on the wire, only what of it was captured, when,
and how often it was sent. Applied to a valid conversation, none gives a reader cause to accuse anybody.
"""
from conversation import STARTUP
from segments import Segment
from wire import ACK, FIN, PSH, RST, SYN


def interesting(layout, segments, draw):
    """The place of a segment, rather one whose loss makes a reader guess."""
    if not segments:
        return None
    places = []
    if draw.random() < 0.6:
        units = [unit for unit in layout.conversation.units
                 if unit.kind in ("request", "reply", "rtr") or unit.rtr or unit.answers or unit.opcode in (1, 7, 0xA)]
        units += [unit.quotes for unit in layout.conversation.units if unit.quotes]
        if units:
            places = layout.frames_of(draw.choice(units), segments)
    return draw.choice(places) if places else draw.randrange(len(segments))


def lost(layout, segments, draw):
    """The capture missed some, all of which arrived."""
    segments = list(segments)
    for _ in range(draw.choice([1, 1, 1, 2, 3, 6])):
        place = interesting(layout, segments, draw)
        if place is not None:
            del segments[place:place + draw.choice([1, 1, 1, 2])]
    return segments


def late(layout, segments, draw):
    """The capture took some later than they went by."""
    segments = list(segments)
    for _ in range(draw.choice([1, 1, 2, 4])):
        place = interesting(layout, segments, draw)
        if place is not None:
            segment = segments.pop(place)
            segments.insert(min(len(segments), place + draw.choice([1, 1, 2, 3, 5, 12, 30])), segment)
    return segments


def repeated(layout, segments, draw):
    """TCP sent some again, alone or joined with what follows, or cut otherwise."""
    segments = list(segments)
    for _ in range(draw.choice([1, 1, 2, 4])):
        place = interesting(layout, segments, draw)
        if place is None:
            continue
        segment = segments[place]
        if segment.flags & (RST | SYN):
            continue
        copies = [segment.copy()]
        stream = layout.streams[segment.side]
        sent = max(other.end for other in segments if other.side == segment.side)
        if segment.octets and not segment.flags & FIN:
            begin, end = segment.begin, segment.end
            way = draw.choice(["same", "joined", "cut", "middle"])
            if way == "joined":
                later = [other.end for other in segments[:place + 1] if other.side == segment.side]
                end = min(sent, draw.choice([end, max(later), end + draw.randint(0, 600)]))
            elif way == "middle":
                begin += draw.randrange(len(segment.octets))
            middle = draw.randint(begin, end) if way == "cut" else end
            copies = [segment.copy() for part in ((begin, middle), (middle, end)) if part[0] < part[1]]
            for copy, part in zip(copies, [part for part in ((begin, middle), (middle, end)) if part[0] < part[1]]):
                copy.begin, copy.octets = part[0], bytes(stream[part[0]:part[1]])
            # What is sent again comes after what it holds was sent.
            place = max([place] + [index for index, other in enumerate(segments)
                                   if other.side == segment.side and other.begin < end and not other.again])
        place += draw.choice([1, 1, 2, 4, 8])
        for copy in copies:
            copy.again = True
            # An acknowledgment never goes back.
            copy.acks = max([copy.acks] + [other.acks for other in segments[:place] if other.side == copy.side])
            segments.insert(place, copy)
            place += 1
    return segments


def doubled(_, segments, draw):
    """The capture took some twice."""
    out = []
    for segment in segments:
        out.append(segment)
        if draw.random() < 0.1:
            out.append(segment.copy())
            out[-1].again = True
    return out


def cut(_, segments, draw):
    """The snaplen, of all frames or of some."""
    snap = draw.choice([54, 60, 68, 70, 80, 96, 100, 128, 200]) + draw.choice([0, 0, draw.randint(0, 40)])
    share = draw.choice([1.0, 1.0, 0.2])
    out = []
    for segment in segments:
        segment = segment.copy()
        if draw.random() < share:
            segment.cap = min(segment.cap or snap, snap)
        out.append(segment)
    return out


def late_start(_, segments, draw):
    """The capture began when the connection stood, or nearly."""
    return segments[draw.randint(0, min(len(segments), draw.choice([4, 6, 8, 10, 100]))):]


def early_stop(_, segments, draw):
    return segments[:draw.randint(0, len(segments))]


def one_way(_, segments, draw):
    """The capture saw one direction alone, for a while or throughout."""
    side = draw.randrange(2)
    begin = draw.randint(0, len(segments)) if draw.random() < 0.5 else 0
    return segments[:begin] + [segment for segment in segments[begin:] if segment.side == side]


def kept_alive(layout, segments, draw):
    """TCP asked whether the other side lives, with an octet that was sent before or with none (RFC 9293 §3.8.4)."""
    segments = list(segments)
    for _ in range(draw.choice([1, 2, 4])):
        place, side = draw.randint(0, len(segments)), draw.randrange(2)
        before = [segment for segment in segments[:place] if segment.side == side]
        sent = max((segment.end for segment in before), default=0)
        if sent > 0 and not any(segment.flags & (FIN | RST) for segment in segments[:place]):
            octets = bytes(layout.streams[side][sent - 1:sent]) if draw.random() < 0.5 else b""
            segments.insert(place, Segment(side, sent - 1, octets, ACK, max(segment.acks for segment in before)))
            segments[place].again = True
    return segments


def split_startup(layout, segments, draw):
    """A startup frame in several segments, of which some were captured late."""
    frames = [unit for unit in layout.conversation.units if unit.kind in ("request", "reply", "rtr")]
    unit = draw.choice(frames)
    places = layout.frames_of(unit, segments)
    if not places:
        return segments
    place = places[0]
    whole = segments[place]
    if len(whole.octets) < 2 or whole.flags & FIN:
        return segments
    middle = draw.randint(1, len(whole.octets) - 1)
    parts = [whole.copy(), whole.copy()]
    parts[0].octets, parts[0].flags = whole.octets[:middle], ACK
    parts[1].begin, parts[1].octets, parts[1].flags = whole.begin + middle, whole.octets[middle:], ACK | PSH
    segments = segments[:place] + parts + segments[place + 1:]
    late_one = segments.pop(place + draw.randrange(2))
    segments.insert(min(len(segments), place + draw.choice([0, 1, 2, 3, 4])), late_one)
    return segments


ALL = {way.__name__: way for way in (lost, late, repeated, doubled, cut, late_start, early_stop, one_way, kept_alive,
                                   split_startup)}


ON_THE_WIRE = (repeated, kept_alive)


def acks_lost(_, segments, draw):
    return [segment for segment in segments if segment.octets or segment.flags != ACK or draw.random() < 0.5]


def unclosed(_, segments, draw):
    """The capture stopped while TCP closed."""
    count = 0
    while count < len(segments) and not segments[-1 - count].octets:
        count += 1
    return segments[:len(segments) - draw.randint(0, count)]


HARMLESS = (repeated, doubled, kept_alive, acks_lost, unclosed)


def harmless(layout, draw, closed):
    """Segments after impairments that leave every octet in its place, and the FIN too if it has to be `closed`."""
    if draw.random() < 0.5:
        return layout.segments, []
    ways = draw.choices([way for way in HARMLESS if not closed or way is not unclosed], k=draw.choice([1, 1, 2]))
    segments = layout.segments
    for way in ways:
        segments = way(layout, segments, draw)
    return segments, [way.__name__ for way in ways]


def begun_late(layout):
    """What there is of a connection that was set up long before."""
    upto = [max((unit.end for unit in layout.conversation.units if unit.side == side and unit.kind in STARTUP), default=0)
            for side in (0, 1)]
    first = max((index for index, segment in enumerate(layout.segments) if segment.begin < upto[segment.side]),
                default=-1)
    return layout.segments[first + 1:]


def impair(layout, draw):
    """Segments after some of the above, and their names."""
    if layout.conversation.old:
        return begun_late(layout), ["begun_late"]
    if draw.random() < 0.25:
        return layout.segments, []
    names = draw.choices(list(ALL), [6, 4, 3, 1, 2, 2, 1, 0.5, 0.5, 2], k=draw.choice([1, 1, 2, 3]))
    # What TCP did comes before what the capture missed: a repetition acknowledges no less than what it repeats, even if
    # the capture lacks the first copy.
    names.sort(key=lambda name: ALL[name] not in ON_THE_WIRE)
    segments = layout.segments
    for name in names:
        segments = ALL[name](layout, segments, draw)
    return segments, names
