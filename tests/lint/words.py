# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.words: nothing unfinished is left in the tree, and nothing of one machine."""
import re
import sys

import common

# Written in halves, so that this file passes itself.
UNFINISHED = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK", "GTEST" + "_SKIP"]
SWITCHED_OFF = "DISABLED" + "_"  # GoogleTest does not run a test of such a name
PRIVATE = ["/wo" + "rk/", "/ro" + "ot/", "/ho" + "me/", "/tmp" + "/b-"]
UNMERGED = "<" * 7 + "|" + ">" * 7  # what git leaves where two changes met
PATTERN = re.compile(rf"^(?:{UNMERGED}) |\b(?:{'|'.join(UNFINISHED)})\b|\b{SWITCHED_OFF}|"
                     rf"(?<![\w.}}])(?:{'|'.join(map(re.escape, PRIVATE))})")
TEXT_SUFFIXES = (*common.SOURCE_SUFFIXES, ".py", ".sh", ".cmake", ".txt", ".md", ".toml", ".json", ".1", ".7", "")
# The text of a licence is not ours to change.
LEFT_OUT = ("LICENSES/",)


def check(root):
    findings = []
    for path in common.files(root, None, TEXT_SUFFIXES):
        if str(path).startswith(LEFT_OUT) or path.parts[0].startswith("build"):
            continue
        text = common.read(root, path)
        if "\0" in text:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := PATTERN.search(line):
                findings.append(f"{path}:{number}: '{match[0]}'")
    return findings


def self_test():
    tree = {
        "mpa/a.cpp": f"// {UNFINISHED[0]}: later\nint todo_list;\n",
        "docs/b.md": f"See {PRIVATE[0]}shared, but not src{PRIVATE[2]}x.\n",
        "tests/c_test.cpp": f"TEST(A, {SWITCHED_OFF}B) {{}}\n",
        "docs/d.md": f"one\n{'>' * 7} other\n",
        "LICENSES/x.txt": f"{UNFINISHED[2]}\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "mpa/a.cpp:1", "docs/b.md:1", "tests/c_test.cpp:1", "docs/d.md:2")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
