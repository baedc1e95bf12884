# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the stages of interop have in common: a lab that runs here, and a report for CI."""
import os
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

LAB = Path(__file__).resolve().parent / "lab" / "lab"


def cannot_run(reason):
    """Ends the program: with 3, in CI as a failure."""
    print(f"interop cannot run here: {reason}")
    if os.environ.get("CI"):
        print("in CI that is a failure\n0 passed, 1 failed")
        sys.exit(1)
    sys.exit(3)


def need_program(path, advice):
    if not os.access(path, os.X_OK):
        cannot_run(f"no {path} ({advice})")


def need_lab():
    if subprocess.run([LAB, "prepare"], check=False).returncode != 0:
        cannot_run("the lab is not ready, see above")


def text(path):
    """What a guest left there; nothing, if it did not come to that."""
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def write_junit(path, suite, cases):
    """`cases`: name, seconds and what is wrong with it, which is nothing if it has passed."""
    failed = sum(bool(problems) for _, _, problems in cases)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>',
             f'<testsuite name="{suite}" tests="{len(cases)}" failures="{failed}">']
    for name, seconds, problems in cases:
        lines.append(f'  <testcase classname="{suite}" name={quoteattr(name)} time="{seconds:.2f}">')
        if problems:
            lines.append(f"    <failure message={quoteattr('; '.join(problems))}/>")
        lines.append("  </testcase>")
    path.write_text("\n".join(lines + ["</testsuite>", ""]))
