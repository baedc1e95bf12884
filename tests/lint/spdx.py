# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.spdx: every source, script and build file names the licence in its first lines."""
import re
import sys

import common

OURS = "SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later"
WIRESHARK = "SPDX-License-Identifier: GPL-2.0-or-later"  # code that links with Wireshark
SUFFIXES = (*common.SOURCE_SUFFIXES, ".py", ".sh", ".cmake", ".toml")


def wanted(path, text):
    return path.suffix in SUFFIXES or path.name == "CMakeLists.txt" or text.startswith("#!")


def check(root):
    findings = []
    for path in common.files(root):
        if path.suffix not in (*SUFFIXES, ".txt", ""):
            continue
        text = common.read(root, path)
        if not wanted(path, text):
            continue
        licence = WIRESHARK if path.parts[0] == "dissectors" else OURS
        if not any(re.search(re.escape(licence) + r"(\s|$)", line) for line in text.splitlines()[:3]):
            findings.append(f"{path}: no '{licence}' in the first three lines")
    return findings


def self_test():
    tree = {
        "mpa/good.cpp": f"// {OURS}\n",
        "mpa/bad.cpp": "int x;\n",
        "mpa/half.cpp": "// SPDX-License-Identifier: BSD-2-Clause\n",
        "run": "#!/bin/bash\necho\n",
        "dissectors/d.c": f"/* {WIRESHARK} */\n",
        "docs/a.md": "words\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "mpa/bad.cpp", "mpa/half.cpp", "run:")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
