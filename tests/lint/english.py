# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.english: comments and messages use the words of the field, not the old habits of this project.

english_counts.txt has one line for each room: how many of these its comments and strings may have. A room with more
fails, and so does a room with fewer until the line is lowered: `english.py ROOT --lower` does that, and never raises one.
`english.py ROOT --list ROOM` prints the places.
"""
import re
import sys
from pathlib import Path

import common

IN_MESSAGES = "is expected, must"
# What the expression finds, and what to write.
HABITS = (
    (r"\b(?:whence|thence)\b", "from where"),
    (r"\b(?:whoever|whosoever)\b", "the caller, the peer, the process"),
    (r"\bnobody\b", "no peer, no process, not"),
    (r"\bnaught\b", "nothing, 0"),
    (r"\bin vain\b", "without success"),
    (r"\b(?:afresh|anew)\b", "again"),
    (r"\b(?:that|those) which\b", "what, the one that"),
    (r"\b(?:is|are|was|were|be) had\b", "is available"),
    (r"(?:^|[.:;] )Of (?!course\b)(?=[a-z])", "subject, verb, object"),
    (r"\b(?:is|are|was|were|be|been) told\b(?! apart)", "is notified, is reported"),
    (r"\btells? of\b", "reports"),
    (r"\b(?:is|are|was|were) due\b(?! to\b)", IN_MESSAGES),  # in a comment a timer may be due
    (r"\bbeside\b", "next to, in addition to, compared with"),
    (r"\bstands? (?:in|for|at|alone|before|behind|where)\b", "is, replaces"),
    (r"(?<!here )\b(?:is|are) no (?!longer\b|more\b|such\b|room\b|limit\b)(?=[A-Za-z'{])", "is not a"),
    (r"\blets? go\b", "releases"),
    (r"(?:^|[,;:] )who (?!has\b)(?=[a-z]+s\b)", "the peer that, the process that"),
)
PATTERN = re.compile("|".join(f"(?P<h{i}>{expression})" for i, (expression, _) in enumerate(HABITS)), re.MULTILINE)
PROSE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)\'', re.DOTALL)
MARGIN = re.compile(r"^(?:///?<?|/\*+|\"|'|[ \t]*\*)[ \t]*", re.MULTILINE)
FOLDERS = (*(room for room in common.ROOMS if room != "tests"), "dissectors")
TABLE = Path("tests/lint/english_counts.txt")


def room_of(path):
    return path.parts[0]


def findings_of(root):
    """(room, text) of each habit that is found."""
    for path in common.files(root, FOLDERS, common.SOURCE_SUFFIXES):
        text = common.read(root, path)
        for piece in PROSE.finditer(text):
            words = MARGIN.sub("", piece[0])
            for match in PATTERN.finditer(words):
                instead = HABITS[int(match.lastgroup[1:])][1]
                if instead is IN_MESSAGES and not piece[0].startswith('"'):
                    continue
                line = text.count("\n", 0, piece.start()) + 1 + words.count("\n", 0, match.start())
                found = match[0].lstrip(".:;, ")
                yield room_of(path), f"{path}:{line}: '{found}': write {instead}"


def allowed_in(root):
    lines = common.read(root, TABLE).splitlines()
    return {room: int(count) for room, count in (line.split() for line in lines if line and not line.startswith("#"))}


def by_room(root):
    found = {}
    for room, text in findings_of(root):
        found.setdefault(room, []).append(text)
    return found


def check(root, *options):
    found, allowed = by_room(root), allowed_in(root)
    if options and options[0] == "--list":
        return found.get(options[1], [])
    if options == ("--lower",):
        return lower(root, found, allowed)
    findings = []
    for room in sorted({*found, *allowed}):
        have, may = found.get(room, []), allowed.get(room, 0)
        if len(have) > may:
            findings.append(f"{room}: {len(have)} old habits in comments and messages, {may} allowed by {TABLE}. "
                            f"Among these:")
            findings += have
        elif len(have) < may:
            findings.append(f"{room}: {len(have)} old habits, {may} allowed: run tests/lint/english.py . --lower")
    return findings


def lower(root, found, allowed):
    head = [line for line in common.read(root, TABLE).splitlines() if line.startswith("#")]
    rows = [f"{room:<11}{min(may, len(found.get(room, [])))}" for room, may in allowed.items()]
    (Path(root) / TABLE).write_text("\n".join([*head, *(row for row in rows if not row.endswith(" 0"))]) + "\n",
                                    encoding="utf-8")
    return []


def self_test():
    tree = {
        "mpa/a.cpp": '// It is not there: nobody knows.\nint nobody = 0;\nauto t = "{} is no address";\n',
        "mpa/b.hpp": "/// Of what is sent, the headers.\n/// A course of action; there is no limit, and the peer is no longer there.\n",
        "cm/c.cpp": "// The peer is told.\n",
        "nic/d.cpp": "// Correct.\n",
        str(TABLE): "# room count\ncm 1\nnic 2\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "mpa: 3 old habits", "mpa/a.cpp:1: 'nobody'", "mpa/a.cpp:3: 'is no '",
                      "mpa/b.hpp:1: 'Of '", "nic: 0 old habits, 2 allowed")
        check(root, "--lower")
        if common.read(root, TABLE) != "# room count\ncm         1\n":
            raise AssertionError(f"lowered to {common.read(root, TABLE)}")
        common.expect(check(root), "mpa: 3", "mpa/a.cpp:1", "mpa/a.cpp:3", "mpa/b.hpp:1")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
