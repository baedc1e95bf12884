#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""docs/pictures/rooms.svg: the rooms of cmake/rooms.txt and which may include which.

    python3 -B docs/pictures/rooms.py --write     writes the picture
    python3 -B docs/pictures/rooms.py --check     exits with 1 if the picture is not that of rooms.txt

A room is in a row above those that it may include; its fill is its kind. A line leads from a room to one that it may include,
unless it already reaches that one through another (transitive reduction). Rooms of kind `last` may include all and have no lines.
"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE, PICTURE = "cmake/rooms.txt", "docs/pictures/rooms.svg"
BOX, HEIGHT, GAP, LANE, ROW, MARGIN, HEAD = 118, 36, 26, 30, 80, 28, 84
FILLS = {"api": ("#fff3cd", "public headers"), "pure": ("#d9ecd9", "pure: no clock, socket, thread or file"),
         "system": ("#d6e4f5", "system: sockets, threads, files, clocks"), "last": ("#eeeeee", "may include everything")}


def read(text):
    """{room: (kind, rooms that it may include)} in the order of the table; `include` is implied for all others."""
    rooms = {}
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            room, kind, *uses = line.split()
            rooms[room] = kind, set(uses) | ({"include"} if kind not in ("api", "last") else set())
    return rooms


def reduced(rooms):
    """The same without the rooms that another one of the list may include, directly or not."""
    reach = {}
    for room, (_, uses) in rooms.items():  # the table has each room after those that it uses
        reach[room] = set(uses).union(*(reach[used] for used in uses))
    return {room: {u for u in uses if not any(u in reach[other] for other in uses)} for room, (_, uses) in rooms.items()}


def levels(rooms, lines):
    """The row of each room, counted from below: above those that it may include, and as near to its users as to them."""
    users = {room: [u for u in rooms if room in lines[u]] for room in rooms}
    level = {}
    for room in rooms:
        level[room] = 1 + max((level[used] for used in lines[room]), default=-1)
    for room in reversed(rooms):
        if users[room] and len(users[room]) >= len(lines[room]):
            level[room] = min(level[user] for user in users[room]) - 1
    top = max(level.values()) + 1
    return {room: top if rooms[room][0] == "last" else n for room, n in level.items()}


def ways(rooms, lines, level):
    """(rows, [way of each line]): a line through other rows has a place of its own in each of them, a pair (line, row)."""
    rows = [[room for room in rooms if level[room] == n] for n in range(max(level.values()) + 1)]
    found = []
    for room in rooms:
        for used in sorted(lines[room]):
            between = [((room, used), n) for n in range(level[room] - 1, level[used], -1)]
            for place in between:
                rows[place[1]].append(place)
            found.append([room, *between, used])
    return rows, found


def width_of(place):
    return BOX + GAP if isinstance(place, str) else LANE


def crossings(rows, below):
    count = 0
    for low, high in zip(rows, rows[1:]):
        at = {place: i for i, place in enumerate(low)}
        ends = [(i, at[b]) for i, place in enumerate(high) for b in below.get(place, ())]
        count += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for k, a in enumerate(ends) for b in ends[:k])
    return count


def order(rows, found):
    """Sorts each row so that few lines cross."""
    above, below = {}, {}
    for way in found:
        for a, b in zip(way, way[1:]):
            below.setdefault(a, []).append(b)
            above.setdefault(b, []).append(a)
    best = None
    for sweep in range(24):
        for n in range(1, len(rows)):
            row, fixed, near = (rows[n], rows[n - 1], below) if sweep % 2 == 0 else (rows[-1 - n], rows[-n], above)
            at = {place: i / max(len(fixed) - 1, 1) for i, place in enumerate(fixed)}
            own = {place: i / max(len(row) - 1, 1) for i, place in enumerate(row)}
            middle = {}
            for place in row:
                known = [at[other] for other in near.get(place, ()) if other in at]
                middle[place] = sum(known) / len(known) if known else own[place]
            row.sort(key=lambda place: (middle[place], str(place)))
        count = crossings(rows, below)
        if best is None or count < best[0]:
            best = count, [list(row) for row in rows]
    return best[1], above, below


def places(rows, above, below):
    """The x of each place: near to the places that it is joined to, and apart from those beside it."""
    x = {}
    for row in rows:
        at = 0.0
        for place in row:
            x[place] = at + width_of(place) / 2
            at += width_of(place)
    for sweep in range(60):
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = []
            for place in row:
                near = [x[other] for other in (*above.get(place, ()), *below.get(place, ()))]
                wanted.append(sum(near) / len(near) if near else sum(x[other] for other in above) / len(above))
            right, left = list(wanted), list(wanted)
            for i in range(1, len(row)):
                right[i] = max(right[i], right[i - 1] + (width_of(row[i]) + width_of(row[i - 1])) / 2)
            for i in range(len(row) - 2, -1, -1):
                left[i] = min(left[i], left[i + 1] - (width_of(row[i]) + width_of(row[i + 1])) / 2)
            for i, place in enumerate(row):
                x[place] = (left[i] + right[i]) / 2
    start = min(x[place] - width_of(place) / 2 for place in x)
    return {place: at - start for place, at in x.items()}


def curve(way, x, y):
    """From the lower edge of the first room to the upper edge of the last one, upright where it passes a row."""
    path = [f"M{x[way[0]]:.0f} {y(way[0]) + HEIGHT}"]
    for a, b in zip(way, way[1:]):
        top, bottom = y(a) + HEIGHT, y(b)
        bend = (bottom - top) / 2
        path.append(f"C{x[a]:.0f} {top + bend:.0f} {x[b]:.0f} {bottom - bend:.0f} {x[b]:.0f} {bottom}")
        if not isinstance(b, str):
            path.append(f"V{bottom + HEIGHT}")
    return " ".join(path)


def legend(width):
    out = []
    for i, (fill, words) in enumerate(FILLS.values()):
        left, top = MARGIN + i % 2 * (width - 2 * MARGIN) // 2, 16 + i // 2 * 24
        out.append(f'<rect x="{left}" y="{top}" width="18" height="14" rx="3" fill="{fill}" stroke="#666666"/>')
        out.append(f'<text x="{left + 26}" y="{top + 12}" font-size="12" fill="#333333">{words}</text>')
    return out


def draw(text):
    rooms = read(text)
    lines = reduced(rooms)
    level = levels(rooms, lines)
    rows, found = ways(rooms, lines, level)
    rows, above, below = order(rows, found)
    x = {place: round(MARGIN + at) for place, at in places(rows, above, below).items()}
    width = round(max(x[place] + width_of(place) / 2 for place in x)) + MARGIN
    height = HEAD + (len(rows) - 1) * ROW + HEIGHT + MARGIN

    def y(place):
        return HEAD + (len(rows) - 1 - (level[place] if isinstance(place, str) else place[1])) * ROW

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'role="img" font-family="DejaVu Sans, Verdana, Arial, sans-serif">',
           "<title>The rooms, and which may include which</title>",
           "<!-- Written by docs/pictures/rooms.py from cmake/rooms.txt. -->",
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>', *legend(width)]
    out += [f'<path d="{curve(way, x, y)}" fill="none" stroke="#7d8590" stroke-width="1.3"/>' for way in found]
    for room, (kind, _) in rooms.items():
        out.append(f'<rect x="{x[room] - BOX // 2}" y="{y(room)}" width="{BOX}" height="{HEIGHT}" rx="6" fill="{FILLS[kind][0]}" '
                   'stroke="#555555"/>')
        name = "include/parley" if room == "include" else room
        out.append(f'<text x="{x[room]}" y="{y(room) + 23}" font-size="14" text-anchor="middle" fill="#111111">{name}</text>')
    return "\n".join([*out, "</svg>"]) + "\n"


def stale(root):
    """Whether the picture below `root` is not that of the table there."""
    picture = Path(root) / PICTURE
    wanted = draw((Path(root) / TABLE).read_text(encoding="utf-8"))
    return not picture.is_file() or picture.read_text(encoding="utf-8") != wanted


def main(words):
    if words == ["--write"]:
        (ROOT / PICTURE).write_text(draw((ROOT / TABLE).read_text(encoding="utf-8")), encoding="utf-8")
        return 0
    if words == ["--check"]:
        if stale(ROOT):
            print(f"{PICTURE} is not the picture of {TABLE}: python3 -B docs/pictures/rooms.py --write", file=sys.stderr)
        return int(stale(ROOT))
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
