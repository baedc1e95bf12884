# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.format: every source file stands as clang-format 14 writes it (./dev fmt does that)."""
import re
import shutil
import subprocess
import sys
from pathlib import Path

import common


def check(root):
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not program:
        return ["clang-format is not installed (Debian: clang-format)"]
    paths = [str(path) for path in common.files(root, common.CODE_FOLDERS, common.SOURCE_SUFFIXES)]
    run = subprocess.run([program, "--dry-run", "-Werror", "--style=file", *paths], cwd=root, capture_output=True,
                         text=True, check=False)
    found = sorted(set(re.findall(r"(?m)^(\S+?):\d+:\d+: error", run.stderr)))
    if run.returncode != 0 and not found:
        return [run.stderr.strip()]
    return [f"{path}: differs from clang-format (./dev fmt)" for path in found]


def self_test():
    style = common.read(Path(__file__).resolve().parents[2], ".clang-format")
    tree = {".clang-format": style, "mpa/good.cpp": "int f() { return 1; }\n", "mpa/bad.cpp": "int  f( ){return 1 ;}\n",
            "docs/examples/bad.cpp": "int  f( ){return 1 ;}\n"}
    with common.made_tree(tree) as root:
        common.expect(check(root), "docs/examples/bad.cpp", "mpa/bad.cpp")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
