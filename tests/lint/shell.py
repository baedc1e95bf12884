# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.shell: every shell script passes shellcheck."""
import shutil
import subprocess
import sys

import common

SHELLS = ("#!/bin/bash", "#!/bin/sh", "#!/usr/bin/env bash", "#!/bin/busybox sh")


def scripts(root):
    return [path for path in common.files(root)
            if path.suffix == ".sh" or (path.suffix == "" and common.read(root, path).startswith(SHELLS))]


def check(root):
    if not shutil.which("shellcheck"):
        return ["shellcheck is not installed (Debian: shellcheck)"]
    findings = []
    for path in scripts(root):
        run = subprocess.run(["shellcheck", "-f", "gcc", str(path)], cwd=root, capture_output=True, text=True, check=False)
        findings += (run.stdout + run.stderr).splitlines()
    return findings


def self_test():
    with common.made_tree({"bad": "#!/bin/bash\nrm $1\n", "good.sh": "#!/bin/bash\nrm \"$1\"\n", "a.txt": "rm $1\n"}) as root:
        common.expect(check(root), "bad:2")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
