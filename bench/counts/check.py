#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""check.py PROGRAM TABLE [--write]: the instructions of the hot paths, counted by callgrind, against a table.

A path that takes over 3 % more than its line says fails; one that takes over 3 % less is reported, so that its line may follow.
--write writes the table anew. --self-test shows on made input that the comparison can fail."""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOLERANCE = 0.03


def parse_table(text):
    """{path: instructions}; comments and empty lines are skipped."""
    table = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) != 2 or not words[1].isdigit() or words[0] in table:
            raise SystemExit(f"counts.txt:{number}: a line is a path and its instructions, each path once: {line!r}")
        table[words[0]] = int(words[1])
    return table


def compare(table, counted):
    """(failures, notes) of counted instructions {path: number} beside the table."""
    failures, notes = [], []
    for path, now in counted.items():
        due = table.get(path)
        if due is None:
            failures.append(f"{path}: {now} instructions, and no line in the table")
        elif now > due * (1 + TOLERANCE):
            failures.append(f"{path}: {now} instructions, {100 * (now / due - 1):.1f} % more than {due}")
        elif now < due * (1 - TOLERANCE):
            notes.append(f"{path}: {now} instructions, {100 * (1 - now / due):.1f} % fewer than {due}: let its line follow")
    failures += [f"{path}: in the table, but not counted" for path in table if path not in counted]
    return failures, notes


def count(program):
    """{path: instructions of one operation}. Callgrind's profiles name the path that made the program write them."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "profile"
        # Valgrind passes on whether the CPU has AVX2, and the C library copies accordingly, in up to 6 % fewer instructions.
        # Here it copies as on a CPU without AVX2, whatever the sizes of the caches are.
        tunables = ("glibc.cpu.hwcaps=-AVX2_Usable,-AVX2,-AVX,-ERMS,-AVX_Fast_Unaligned_Load,-BMI2",
                    "glibc.cpu.x86_non_temporal_threshold=0xc0000", "glibc.cpu.x86_rep_movsb_threshold=0x800")
        environment = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "LD_BIND_NOW": "1",
                       "GLIBC_TUNABLES": ":".join(tunables)}
        run = subprocess.run(["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", program],
                             capture_output=True, text=True, env=environment)
        if run.returncode != 0:
            raise SystemExit(f"{program} under valgrind: exit status {run.returncode}\n{run.stdout}{run.stderr}")
        operations = dict(line.split() for line in run.stdout.splitlines())
        counted = {}
        for profile in Path(folder).glob("profile.*"):
            text = profile.read_text()
            trigger = re.search(r"^desc: Trigger: Client Request: (\S+)$", text, re.M)
            total = re.search(r"^(?:totals|summary): (\d+)", text, re.M)
            if trigger and total:
                counted[trigger[1]] = round(int(total[1]) / int(operations[trigger[1]]))
        return {path: counted[path] for path in operations}


def self_test():
    table = parse_table("# comment\na 1000\nb 1000\n")
    assert compare(table, {"a": 1030, "b": 970}) == ([], [])
    failures, notes = compare(table, {"a": 1031, "b": 969})
    assert [line.split(":")[0] for line in failures] == ["a"] and [line.split(":")[0] for line in notes] == ["b"]
    failures, _ = compare(table, {"a": 1000, "c": 5})
    assert sorted(line.split(":")[0] for line in failures) == ["b", "c"]
    for wrong in ("a\n", "a b\n", "a 1\na 2\n"):
        try:
            parse_table(wrong)
        except SystemExit:
            continue
        raise AssertionError(wrong)
    print("the comparison can fail")


def main(arguments):
    if arguments == ["--self-test"]:
        return self_test()
    program, table_path = arguments[0], Path(arguments[1])
    text = table_path.read_text()
    counted = count(program)
    for path, instructions in counted.items():
        print(f"{path:24}{instructions:>10}")
    if arguments[2:] == ["--write"]:
        head = "".join(line + "\n" for line in text.splitlines() if line.startswith("#"))
        table_path.write_text(head + "".join(f"{path} {n}\n" for path, n in counted.items()))
        return None
    failures, notes = compare(parse_table(text), counted)
    for line in notes + failures:
        print(line)
    return f"{len(failures)} paths grew, or lack a line; if that is meant, change their lines in the same commit: --write" if failures else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
