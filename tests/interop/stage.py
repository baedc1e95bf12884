# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the stages of interop have in common: a lab that runs here, and a report for CI."""
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import quoteattr

LAB = Path(__file__).resolve().parent / "lab" / "lab"
MARKER = "conform: case "  # on a console, before the name of the case that begins
# Not the watchdog's complaints, which a busy machine is enough for.
DEATH = re.compile(r"kernel BUG at|BUG: (kernel|unable)|Oops: |general protection fault|Kernel panic")
# A kernel that goes on after an oops takes no connection any more: better that it stops at once.
PANIC_ON_OOPS = "echo 1 >/proc/sys/kernel/panic_on_oops; "


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


def lab_environment(seconds):
    """The lab's limit for a boot, unless the user has set one."""
    return {**os.environ, "LAB_TIMEOUT": os.environ.get("LAB_TIMEOUT", str(seconds))}


def run_pair(work, seconds):
    """Boots both guests and waits until both have ended their scripts, or for so long."""
    subprocess.run([LAB, "pair", work], check=False, env=lab_environment(seconds))


def death(console):
    """What a console says of its kernel's death: the words and the case that was on then, or None."""
    words = case = None
    for line in console.splitlines():
        if words is None and line.startswith(MARKER):
            case = line[len(MARKER):].strip()
        elif words is None and DEATH.search(line):
            words = re.sub(r"^\[ *[0-9.]+\] *", "", line).strip()
        elif words is not None and (where := re.search(r"RIP: [0-9a-f]+:(\w+)\+\S+ (\[\w+\])?", line)):
            return f"{words} in {where[1]} {where[2] or ''}".strip(), case
    return words and (words, case)


def keep_boot(work, number, names):
    """Puts away what this boot has left, so that the next one does not write over it: a.log becomes a.1.log."""
    for name in names:
        if (work / name).exists():
            (work / name).replace(boot_file(work, number, name))


def boot_file(work, number, name):
    stem, _, ending = name.rpartition(".")
    return work / f"{stem}.{number}.{ending}"


def why_lost(work, number):
    """Why a boot came to no end, as far as the consoles and the last line of a log tell."""
    for guest in "ba":
        if found := death(text(boot_file(work, number, f"{guest}.console"))):
            return f"the kernel of guest {guest} died: {found[0]}"
    lines = [line for guest in "ab" for line in text(boot_file(work, number, f"{guest}.log")).splitlines()[-1:]]
    return " | ".join(lines) or "the guests say nothing"


class Boots:
    """Runs cases over as many boots of the guests as it takes, since the kernel under test can stop, and a wire can go dead.

    The case that was on when the guests were lost is begun once more on new ones. If they are lost in it again, it has failed, and
    what follows it goes on.
    """
    MAX = 4  # more would hide a peer that dies of everything

    def __init__(self, work, cases):
        self.work, self.cases = work, cases
        self.left = list(range(len(cases)))
        self.lost = {}      # why, for each time that the guests were lost, by number of the case
        self.boot_of = {}   # number of the boot that a case came to its end in

    def run(self, boot, kept):
        """`boot(number, left)` gives how many of those left came to their end; `kept` are the files that it leaves."""
        for number in range(1, self.MAX + 1):
            if not self.left:
                return
            done = boot(number, [self.cases[case] for case in self.left])
            keep_boot(self.work, number, [*kept, "a.log", "b.log", "a.console", "b.console"])
            self.boot_of.update(dict.fromkeys(self.left[:done], number))
            self.left = self.left[done:]
            if self.left:
                self.lose(number)

    def lose(self, number):
        """The guests were lost in the first of those that are left."""
        case = self.left[0]
        why = why_lost(self.work, number)
        self.lost.setdefault(case, []).append(why)
        print(f"boot {number}: the guests were lost in case {case + 1} of {len(self.cases)}: {why}", flush=True)
        if len(self.lost[case]) == 2:
            self.left = self.left[1:]

    def problems(self, case):
        """Why a case came to no end; nothing if it did."""
        if case in self.boot_of:
            return []
        return self.lost.get(case) or [f"it was not begun in {self.MAX} boots"]


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
