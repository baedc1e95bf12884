# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.rules: every finding about a capture is a row of the table of rules (include/parley/wire/rules.h), and every row is
emitted by code, broken once by a generated conversation, and listed in docs/pcap-check.md.

    python3 -B tests/lint/rules.py --write .     writes the tables of docs/pcap-check.md anew
"""
import re
import sys
from pathlib import Path

import common
import rule_table

MANUAL = "docs/pcap-check.md"
# What stands between two of these lines in the manual is written by this lint; the words are the first parts of ids.
TABLE = re.compile(r"(<!-- rules: ([a-z ]+) -->\n).*?(<!-- end of rules -->\n)", re.S)
PLANTERS = ("plant", "roce_broken", "neg")
EMITTERS = ("capture/rules", "capture/read")
# Findings are made by capture/findings.*, out of a rule, a known departure or a remark without a clause.
MADE_BY_HAND = re.compile(r"\bfindings\.(push_back|emplace_back|insert)\(|\bFinding\{")
MAKERS = ("capture/findings.hpp", "capture/findings.cpp")
# Rules that no conversation of tests/adversary breaks, and why. A list to shrink: a rule that is broken there must leave it.
NOT_PLANTED = {
    "mpa.second-reply": "nothing tells a second Reply from the ULP's octets but a whole TCP history; tests/unit/capture/corners_test.cpp breaks it",
    "rdmap.read-gap": "needs a response of which a part never comes; tests/unit/capture/gaps_test.cpp breaks it",
    "rdmap.reset-early": "needs control of the acknowledgments; tests/unit/capture/rules_test.cpp breaks it",
    "tcp.changed": "conversations have no TCP of their own; tests/unit/capture/check_test.cpp breaks it",
    "ib.icrc-unmade": "every packet of a side breaks it, and a row is one packet; tests/unit/capture/verdicts_test.cpp breaks it",
    "neg.after-abort": "its sentence gives a frame; tests/dissectors/neg_test.py breaks it",
    "neg.cut": "a FIN breaks it, and rows of neg_broken.py are octets; tests/unit/capture/negotiation_test.cpp breaks it",
}


def table(root, kinds):
    wanted = kinds.split()
    texts = rule_table.needs(root)
    lines = ["| key | rule | severity | what it demands | a capture needs |", "|---|---|---|---|---|"]
    for row in rule_table.rows(root).values():
        if row.id.split(".")[0] in wanted:
            lines.append(f"| `{row.id}` | {row.clause} | {row.severity} | {row.sentence} | {texts[row.needs]} |")
    return "\n".join(lines) + "\n"


def with_tables(root, manual):
    return TABLE.sub(lambda found: found[1] + "\n" + table(root, found[2]) + "\n" + found[3], manual)


def of_rows(rows):
    sentences = {}
    for row in rows.values():
        if not re.fullmatch(r"[a-z]+\.[a-z0-9]+(-[a-z0-9]+)*", row.id) or row.name != re.sub("[.-]", "_", row.id):
            yield f"{row.id}: an id is 'word.words-with-dashes', and its name the same with _; it is '{row.name}'"
        if not row.sentence.endswith("."):
            yield f"{row.id}: the sentence does not end with a full stop"
        if row.sentence in sentences:
            yield f"{row.id}: has the sentence of {sentences[row.sentence]}"
        sentences[row.sentence] = row.id


def check(root, not_planted=NOT_PLANTED):
    rows = rule_table.rows(root)
    findings = list(of_rows(rows))
    known = {row.name for row in rows.values()}
    findings += [f"{name}: the row cannot be read by tests/lint/rule_table.py" for name in rule_table.names(root) if name not in known]
    code = {path: common.read(root, path) for path in common.files(root, ["capture"], (".cpp", ".hpp"))}
    emitted = {name for path, text in code.items() if str(path).startswith(EMITTERS)
               for name in re.findall(r"\b(?:Ib)?Rule::(\w+)", text)}
    for path, text in code.items():
        if str(path) not in MAKERS and (found := MADE_BY_HAND.search(text)):
            findings.append(f"{path}: '{found[0]}' makes a finding beside the table")
    planted = "".join(common.read(root, path) for path in common.files(root, ["tests/adversary"], (".py",))
                      if path.name.startswith(PLANTERS))
    # Their other lists of ids begin no row.
    planted = re.sub(r'(?m)^(?:WARNINGS|CHECK_ALONE) = \{(?:.|\n)*?\}', "", planted)
    for row in rows.values():
        if row.name not in emitted:
            findings.append(f"{row.id}: no code emits it")
        broken = re.search(rf'"{re.escape(row.id)}[":]', planted) is not None
        if broken and row.id in not_planted:
            findings.append(f"{row.id}: is broken in tests/adversary now; strike it from NOT_PLANTED")
        if not broken and row.severity != "note" and row.id not in not_planted:
            findings.append(f"{row.id}: no conversation of tests/adversary breaks it")
    findings += [f"{key}: is in NOT_PLANTED and no rule" for key in not_planted if key not in rows]
    manual = common.read(root, MANUAL)
    if with_tables(root, manual) != manual:
        findings.append(f"{MANUAL}: the tables of rules are out of date: python3 -B tests/lint/rules.py --write .")
    kinds = {kind for found in TABLE.finditer(manual) for kind in found[2].split()}
    findings += [f"{MANUAL}: has no table of {kind}" for kind in sorted({key.split('.')[0] for key in rows} - kinds)]
    return findings


def self_test():
    header = "include/parley/wire/rules_a.h"
    row = '#define A(X) \\\n  X(mpa_crc, "mpa.crc", "RFC 5044 §4.4", error, payload, \\\n    "It is right.") \\\n  %s\n'
    tree = {
        "include/parley/wire/rules.h": '#define N(X) X(payload, "all octets")\n',
        header: row % 'X(mpa_pad, "mpa.pad", "RFC 5044 §4.1", error, payload, "It is " \\\n    "\\"0\\".")',
        "capture/rules/a.cpp": "f.add(1, side, Rule::mpa_crc, text);\nr.findings.push_back({});\n",
        "tests/adversary/plant.py": 'Row("crc", change, "mpa.crc")\n',
        MANUAL: "<!-- rules: mpa -->\n<!-- end of rules -->\nrest\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root, {}), "'findings.push_back(' makes", "mpa.pad: no code emits it",
                      "mpa.pad: no conversation", "out of date")
        manual = with_tables(root, tree[MANUAL])
        assert '| `mpa.pad` | RFC 5044 §4.1 | error | It is "0". | all octets |\n' in manual and manual.endswith("rest\n")
        assert with_tables(root, manual) == manual
    good = {**tree, MANUAL: manual, "capture/rules/a.cpp": "IbRule::mpa_crc, Rule::mpa_pad",
            "tests/adversary/plant.py": '"mpa.crc" "mpa.pad:of 3"'}
    with common.made_tree(good) as root:
        common.expect(check(root, {}))
        common.expect(check(root, {"mpa.crc": "why", "mpa.gone": "why"}), "mpa.crc: is broken in", "mpa.gone: is in NOT_PLANTED")
    for wrong, words in (('X(pad, "mpa.pad", "RFC 5044 §4.1", error, payload, "Other.")', ("an id is",)),
                         ('X(mpa_pad, "mpa.pad", "RFC 5044 §4.1", error, payload, "It is right.")', ("has the sentence",)),
                         ('X(mpa_pad, "mpa.pad", "RFC 5044 §4.1", error, payload)', ("mpa_pad: the row cannot",))):
        with common.made_tree({**good, header: row % wrong}) as root:
            found = check(root, {})
            assert all(any(word in each for each in found) for word in words), found


def write(root):
    path = Path(root) / MANUAL
    path.write_text(with_tables(root, path.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(write(sys.argv[2]) if sys.argv[1:2] == ["--write"] and len(sys.argv) == 3 else common.main(check, self_test))
