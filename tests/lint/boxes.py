# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.boxes: docs/neg-framework.md has each box of the negotiation framework's diagram once, in order, and names tests that
exist: unit tests, tests of tests/script, and cases of tests/interop/nics.
"""
import html
import re
import string
import sys
from pathlib import Path

import citations
import common

PAGE = "docs/neg-framework.md"
LETTERS = string.ascii_uppercase
BOXES = [letter * times for times in (1, 2, 3) for letter in LETTERS] + ["AAAA"]
ROW = re.compile(r"\| ([A-Z]+) \|.*\|.*\| (.*) \|$")


def script_tests(root):
    names = set()
    for path in common.files(root, ["tests/script"], (".py",)):
        names.update(f"{path.stem}.{test}" for test in re.findall(r"def (test_\w+)\(self", common.read(root, path)))
    return names


def lab_cases():
    """Names of tests/interop/nics, as its --list prints them."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "interop"))
    import nics_cases  # noqa: PLC0415 (only where the page names cases of the lab)
    return {case.name for case in nics_cases.plan()}


def check(root, cases=lab_cases):
    findings, boxes = [], []
    known = citations.test_names(root) | script_tests(root) | cases()
    for number, line in enumerate(html.unescape(common.read(root, PAGE)).splitlines(), 1):
        row = ROW.match(line)
        named = re.findall(r"`([^`]*)`", row[2]) if row else []
        if row:
            boxes.append(row[1])
            findings += [] if named else [f"{PAGE}:{number}: box {row[1]} names no test"]
        else:  # of the text, what looks like a test
            named = [name for name in re.findall(r"`([^`]*)`", line)
                     if re.fullmatch(r"\w+_test\.test_\w+[a-z]|(rxe|siw|roce)\.[\w.-]*\w", name)]
        findings += [f"{PAGE}:{number}: there is no test {name}" for name in named if name not in known]
    if boxes != BOXES:
        missing = [box for box in BOXES if box not in boxes]
        findings.append(f"{PAGE}: boxes {', '.join(missing) or 'are all there, but not once and in order'}"
                        + (" are not there" if missing else ""))
    return findings


def self_test():
    def page(change):
        rows = {box: "`Neg.Works`" for box in BOXES}
        change(rows)
        return "".join(f"| {box} | x | y | {tests} |\n" for box, tests in rows.items())

    def found(change, more=""):
        tree = {PAGE: page(change) + more, "tests/unit/cm/neg_test.cpp": "TEST(Neg, Works) {}\n",
                "tests/script/neg_test.py": "    def test_ends(self):\n"}
        with common.made_tree(tree) as root:
            return check(root, lambda: {"rxe.neg.rc"})

    common.expect(found(lambda rows: None, "`neg_test.test_ends`, `rxe.neg.rc` and `neg_test.test_...`\n"))
    common.expect(found(lambda rows: rows.pop("KKK")), "boxes KKK are not there")
    common.expect(found(lambda rows: rows.update(B=rows.pop("B"))), "not once and in order")
    common.expect(found(lambda rows: rows.update(C="`Neg.Vanished`, `neg_test.test_ends`")), "no test Neg.Vanished")
    common.expect(found(lambda rows: rows.update(D="nothing")), "box D names no test")
    common.expect(found(lambda rows: None, "`rxe.neg.gone`\n"), "no test rxe.neg.gone")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
