# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The table of rules that captures are judged by, include/parley/wire/rules.h, as Python reads it."""
import re
from collections import namedtuple
from pathlib import Path

FOLDER = "include/parley/wire"
LITERAL = r'"(?:\\.|[^"\\\n])+"'
ROW = re.compile(rf'\bX\((\w+), "([^"\n]+)", "([^"\n]+)", (\w+), (\w+),[\s\\]*({LITERAL}(?:[\s\\]*{LITERAL})*)\)')
NEED = re.compile(r'\bX\((\w+), "([^"\n]+)"\)')

Row = namedtuple("Row", "name id clause severity needs sentence")


def rows(root):
    """{id: Row} in the order of the files."""
    found = {}
    for path in sorted((Path(root) / FOLDER).glob("rules_*.h")):
        for match in ROW.finditer(path.read_text(encoding="utf-8")):
            row = Row(*match.groups())
            sentence = "".join(part[1:-1] for part in re.findall(LITERAL, row.sentence))
            found[row.id] = row._replace(sentence=sentence.replace('\\"', '"'))
    return found


def names(root):
    """Of all that looks like a row, whether rows() can read it or not."""
    return [name for path in sorted((Path(root) / FOLDER).glob("rules_*.h"))
            for name in re.findall(r"\bX\((\w+),", path.read_text(encoding="utf-8"))]


def needs(root):
    """{name: text} of what a capture must hold."""
    text = (Path(root) / FOLDER / "rules.h").read_text(encoding="utf-8")
    return dict(NEED.findall(text))
