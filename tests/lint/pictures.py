# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.pictures: docs/pictures/rooms.svg is what docs/pictures/rooms.py draws from cmake/rooms.txt."""
import sys
from pathlib import Path

import common

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs" / "pictures"))
import rooms  # noqa: E402


def check(root):
    if not rooms.stale(root):
        return []
    return [f"{rooms.PICTURE}: it is not the picture of {rooms.TABLE}: python3 -B docs/pictures/rooms.py --write"]


def self_test():
    table = "include api\nbase pure\nwire pure base\nmpa pure wire base\ntests last\n"
    with common.made_tree({rooms.TABLE: table, rooms.PICTURE: rooms.draw(table)}) as root:
        common.expect(check(root))
        (root / rooms.TABLE).write_text(table.replace("mpa pure wire base", "mpa pure base"), encoding="utf-8")
        common.expect(check(root), "not the picture")
    # mpa reaches base through wire, and each room has a box.
    assert rooms.reduced(rooms.read(table))["mpa"] == {"wire"}
    assert rooms.draw(table).count("<path ") == 3 and rooms.draw(table).count(">mpa</text>") == 1


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
