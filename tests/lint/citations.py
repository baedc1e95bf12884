# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.citations: every MUST that docs/spec/*.toml claims is cited in code and in tests.

A file lists the rules of one document, in our words:

    document = "RFC 5044"
    [[must]]
    section = "7.1.2"
    rule = "4"                 # optional: which rule of the section, cited as "RFC 5044 §7.1.2 rule 4"; of a code in a table also
                               # as "IBA §12.6.7.2 reason 4". Annexes of the IBA are sections: "IBA §A14"
    text = "..."
    tests = ["Suite.Name"]     # optional: tests that must exist for this very rule
    exception = "reason"       # instead of citations

Code cites a rule by holding "RFC 5044 §7.1.2". Tests cite it so too, or by the names in `tests`, which must all exist.
"""
import re
import sys
import tomllib

import common

CODE = ("include", *common.PURE_ROOMS, "drivers", "tools")
TESTS = ("tests",)
KEYS = {"section", "rule", "text", "tests", "exception"}
CITATION = re.compile(r"(RFC \d+|OFA 2007-10 Rtr|IBA) §(A?\d+(?:\.\d+)*)(?: (?:rule|reason) (\d+))?")
WRONG_FORM = re.compile(r"\bRFC ?\d{4},? +(?:[Ss]ection|[Ss]ec\.?) ?\d|\bRFC\d{4} §|\bRFC \d{4}§")
TEST = re.compile(r"\b(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP)\((\w+),\s*(\w+)")


def cited(root, folders):
    """{(document, section, rule or "")}: a citation of 7.1.2 does not stand for 7.1, nor the other way round."""
    found = set()
    for path in common.files(root, folders, (*common.SOURCE_SUFFIXES, ".txt", ".json")):
        for document, section, rule in CITATION.findall(common.read(root, path)):
            found.update({(document, section, ""), (document, section, rule)})
    return found


def test_names(root):
    names = set()
    for path in common.files(root, TESTS, common.SOURCE_SUFFIXES):
        names.update(f"{suite}.{name}" for suite, name in TEST.findall(common.read(root, path)))
    return names


def check_rule(where, document, rule, code, tests, names):
    findings = [f"{where}: unknown key '{key}'" for key in rule.keys() - KEYS]
    findings += [f"{where}: no {key}" for key in ("section", "text") if not rule.get(key)]
    if findings:
        return findings
    label = f"{where}: {document} §{rule['section']}" + (f" rule {rule['rule']}" if "rule" in rule else "")
    if "exception" in rule:
        if len(rule["exception"].split()) < 4:
            findings.append(f"{label}: an exception needs its reason")
        return findings
    key = (document, rule["section"], rule.get("rule", ""))
    if key not in code:
        findings.append(f"{label}: not cited in code: {rule['text']}")
    missing = [name for name in rule.get("tests", []) if name not in names]
    findings += [f"{label}: there is no test {name}" for name in missing]
    if key not in tests and not rule.get("tests"):
        findings.append(f"{label}: not cited in tests: {rule['text']}")
    return findings


def check(root):
    findings = []
    code, tests, names = cited(root, CODE), cited(root, TESTS), test_names(root)
    specs = common.files(root, ["docs/spec"], (".toml",))
    if not specs:
        return ["docs/spec holds no claims"]
    for path in specs:
        try:
            spec = tomllib.loads(common.read(root, path))
        except tomllib.TOMLDecodeError as error:
            findings.append(f"{path}: {error}")
            continue
        for number, rule in enumerate(spec.get("must", []), 1):
            findings += check_rule(f"{path} #{number}", spec.get("document", "?"), rule, code, tests, names)
    for path in common.files(root, (*CODE, *TESTS), common.SOURCE_SUFFIXES):
        for number, line in enumerate(common.read(root, path).splitlines(), 1):
            if match := WRONG_FORM.search(line):
                findings.append(f"{path}:{number}: '{match[0]}' is not written as 'RFC n §a.b'")
    return findings


def self_test():
    claims = """document = "RFC 5044"
[[must]]
section = "7.1.2"
text = "cited on both sides"
[[must]]
section = "8"
text = "cited in code only"
[[must]]
section = "4.4"
text = "cited nowhere"
[[must]]
section = "4.5"
text = "left out"
exception = "the kernel's TCP does it below us"
[[must]]
section = "9"
text = "left out without a reason"
exception = "no"
[[must]]
section = "7.1.2"
text = "names a test that exists and one that does not"
tests = ["Mpa.Closes", "Mpa.Vanished"]
"""
    iba = """document = "IBA"
[[must]]
section = "12.6.7.2"
rule = "8"
text = "cited with its reason"
tests = ["Mpa.Closes"]
[[must]]
section = "12.6.7.2"
rule = "9"
text = "its section is cited, with another reason"
[[must]]
section = "A14"
text = "cited in code, and no test is named"
"""
    tree = {
        "docs/spec/a.toml": claims,
        "docs/spec/b.toml": iba,
        "cm/a.cpp": "// IBA §12.6.7.2 reason 8: nobody listens.\n// IBA §A14: XRC.\n",
        "mpa/a.cpp": "// RFC 5044 §7.1.2: x\n// RFC 5044 §8: y\n// RFC 5044 section 3\n",
        "tests/unit/a_test.cpp": "TEST(Mpa, Closes) {}  // RFC 5044 §7.1.2\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root), "§8: not cited in tests", "§4.4: not cited in code", "§4.4: not cited in tests",
                      "§9: an exception needs", "no test Mpa.Vanished", "mpa/a.cpp:3",
                      "§12.6.7.2 rule 9: not cited in code", "§12.6.7.2 rule 9: not cited in tests", "§A14: not cited in tests")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
