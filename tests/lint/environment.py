# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.environment: what can be linked into a setuid program reads the environment by secure_env() (drivers/secure_env.hpp), and lets
no PATH choose a program before it has asked has_more_rights(). Public headers, which cannot include it, use secure_getenv(3)."""
import re
import sys

import common

HELPER = "drivers/secure_env.hpp"
ROOMS = tuple(room for room, (kind, _) in common.ROOM_TABLE.items() if kind != "last" and room != "tools")
READS = re.compile(r"(?<!\w)(?:secure_)?getenv\s*\(")
SEARCHES = re.compile(r"(?<!\w)(execvpe?|execlp|posix_spawnp|popen)\s*\(|::(system)\s*\(")


def check(root):
    findings = []
    for path in common.files(root, ROOMS, common.SOURCE_SUFFIXES):
        if str(path) == HELPER:
            continue
        text = common.read(root, path)
        asks = "has_more_rights()" in text
        for number, line in enumerate(text.splitlines(), 1):
            code = line.partition("//")[0]
            read = READS.search(code)
            if read and not (str(path).startswith("include/") and read[0].startswith("secure_")):
                findings.append(f"{path}:{number}: getenv; use secure_env() of {HELPER}")
            if (found := SEARCHES.search(code)) and not asks:
                findings.append(f"{path}:{number}: {found[1] or found[2]} follows PATH; ask has_more_rights() first")
    return findings


def self_test():
    tree = {
        "drivers/a.cpp": 'auto a = std::getenv("A");\nauto b = ::secure_getenv ("A");\nauto c = secure_env("A");  // getenv(3)\n',
        "capi/b.cpp": "void f() { ::execvp(a, b); }\nvoid g() { call_system(1); file_system (2); ::execve(a, b, c); }\n",
        "preload/c.cpp": "void f() { if (has_more_rights()) return; posix_spawnp(a); }\n",
        "tools/d.cpp": 'auto a = std::getenv("A");\n',
        "include/parley/e.hpp": 'auto a = ::secure_getenv("A");\nauto b = ::getenv("A");\n',
        HELPER: "return ::secure_getenv(name);\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "drivers/a.cpp:1", "drivers/a.cpp:2", "capi/b.cpp:1", "include/parley/e.hpp:2")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
