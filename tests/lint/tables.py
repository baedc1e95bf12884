# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.tables: codes of the wire and their texts stand once, in include/parley/wire: rates, MTUs, reasons, statuses, timers.

Elsewhere in the code, but for tests, a table of four or more rows {number, "text"} is a second statement of one, and so is a run of six of the
numbers of a table of numbers (PARLEY_IB_RNR_TIMERS).
"""
import re
import sys

import common

HOME = "include/parley/wire"
ROW = r'\{\s*(?:0x[0-9A-Fa-f]+|\d+)\s*,\s*"[^"\n]*"\s*\}'
ROWS = re.compile(rf"{ROW}(?:\s*,\s*{ROW}){{3,}}")
NUMBERS = re.compile(r"(#define (PARLEY_\w+) *)((?:[\s\\]*\d+,)+[\s\\]*\d+)\n")
RUN = 6


def number_tables(root):
    """{name: numbers} of the lists of plain numbers."""
    tables = {}
    for path in common.files(root, [HOME], (".h",)):
        for _, name, numbers in NUMBERS.findall(common.read(root, path)):
            tables[name] = re.findall(r"\d+", numbers)
    return tables


def runs(tables):
    """{run of numbers: name of the table}; runs that count up one by one are of no table."""
    found = {}
    for name, numbers in tables.items():
        for at in range(len(numbers) - RUN + 1):
            run = numbers[at:at + RUN]
            if int(run[-1]) - int(run[0]) != RUN - 1:
                found.setdefault(tuple(run), name)
    return found


def check(root):
    findings, known = [], runs(number_tables(root))
    patterns = [(re.compile(r"(?<![\d.])" + r",\s*".join(run) + r"(?![\d.])"), name) for run, name in known.items()]
    for path in common.files(root, common.CODE_FOLDERS, common.SOURCE_SUFFIXES):
        if str(path).startswith((HOME, "tests")):
            continue
        text = common.read(root, path)
        for match in ROWS.finditer(text):
            findings.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a table of codes and texts, which belongs "
                            f"in {HOME}: {match[0][:40]}...")
        name = next((name for pattern, name in patterns if pattern.search(text)), None)
        if name:
            findings.append(f"{path}: numbers of {name}, which stand in {HOME}")
    return findings


def self_test():
    codes = "#define PARLEY_T \\\n  1, 2, 3, 4, 6, 8, 12, \\\n      16\n#define PARLEY_IB_MTUS(X) X(m256, 1, \"256\")\n"
    rates = '{{2, "2.5 Gbit/s"}, {3, "10 Gbit/s"},\n {4, "30 Gbit/s"}, {0x5, "5 Gbit/s"}};\n'
    tree = {f"{HOME}/codes.h": codes, "dissectors/ib/a.c": f"int x;\nstatic const value_string rates[] = {rates}",
            "wire/a.cpp": "int timers[] = {2, 3, 4, 6, 8,\n  12};\n", "wire/b.cpp": "int few[] = {1, 2, 3, 4, 6}, more[] = {3, 4, 6, 8};\n",
            "wire/c.cpp": '{1, "one"}, {2, "two"}, {3, "three"}, {0, NULL}\n', "tests/unit/a_test.cpp": rates, "wire/d.cpp": "f(112, 2, 3, 4, 6, 8, 125);\n"}
    with common.made_tree(tree) as root:
        common.expect(check(root), "dissectors/ib/a.c:2: a table of codes and texts", "wire/a.cpp: numbers of PARLEY_T")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
