# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.promises: names that docs/promises.md promises are still there: rule ids, conformance cases, keys of scenarios and of JSON.

promised.txt has them, one group to a line; a JSON key that each object of its kind has ends in `!`. New names need no line there:
`promises.py ROOT --add` adds those of a release, and never removes one.
"""
import json
import re
import sys
from pathlib import Path

import common
import rule_table

TABLE = Path("tests/lint/promised.txt")
HEAD = "# Names that later versions keep (docs/promises.md). Written by promises.py . --add at a release; never remove a released one.\n"
CASE = re.compile(r"(?m)^\| \d+\w* \| `([\w-]+)` \|")
KEYS = re.compile(r"(?ms)^constexpr Key<\w+> (\w+)_table\[\] = \{(.*?)^\};")
FIRST_WORD = re.compile(r'[({]\s*"([a-z][a-z0-9_]*)"\s*,')


def keys_of_json(node, place, found):
    """{place: keys} of a schema; a key of `required` ends in `!`."""
    if isinstance(node, list):
        for item in node:
            keys_of_json(item, place, found)
    elif isinstance(node, dict):
        properties = node.get("properties")
        if isinstance(properties, dict):
            required = node.get("required", [])
            found.setdefault(place, set()).update(key + "!" * (key in required) for key in properties)
        for name, item in node.items():
            if name in ("properties", "$defs") and isinstance(item, dict):
                for key, inner in item.items():
                    keys_of_json(inner, f"{place}.{key}" if name == "properties" else key, found)
            else:
                keys_of_json(item, place, found)


def present(root):
    """{group: names} of the source tree."""
    root, found = Path(root), {}
    for row in rule_table.rows(root):
        found.setdefault(f"rule {row.split('.')[0]}", set()).add(row)
    found["case"] = set(CASE.findall(common.read(root, "docs/conform.md")))
    for path in sorted((root / "sim/scenario").glob("*.cpp")):
        for table, body in KEYS.findall(path.read_text(encoding="utf-8")):
            found.setdefault(f"scenario {table}", set()).update(FIRST_WORD.findall(body))
    for path in sorted((root / "docs/schema").glob("*.json")):
        of_schema = {}
        keys_of_json(json.loads(path.read_text(encoding="utf-8")), "", of_schema)
        found.update({f"json {path.stem} {place or '-'}": keys for place, keys in of_schema.items()})
    return found


def promised(root):
    lines = common.read(root, TABLE).splitlines()
    return {group: set(names.split()) for group, names in (line.split(": ", 1) for line in lines if line and line[0] != "#")}


def check(root, *options):
    here, table = present(root), promised(root)
    if options == ("--add",):
        groups = {group: here.get(group, set()) | table.get(group, set()) for group in {*here, *table}}
        rows = [f"{group}: {' '.join(sorted(names))}\n" for group, names in sorted(groups.items()) if names]
        (Path(root) / TABLE).write_text(HEAD + "".join(rows), encoding="utf-8")
        return []
    return [f"{group}: '{name}' is promised and gone (docs/promises.md)" for group, names in sorted(table.items())
            for name in sorted(names) if name not in here.get(group, ()) and name + "!" not in here.get(group, ())]


def self_test():
    rule = 'X({}, "{}", "RFC 1 §1", error, side, "One."),\n'
    tree = {
        "include/parley/wire/rules_mpa.h": rule.format("mpa_crc", "mpa.crc") + rule.format("mpa_new", "mpa.new"),
        "docs/conform.md": "| 1 | `plain-v1` | RFC 1 |\n",
        "docs/schema/sim.json": '{"$defs": {"run": {"properties": {"seed": {}, "ends": {"properties": {"at_s": {}}}}, "required": ["seed"]}}}',
        "sim/scenario/keys.cpp": 'constexpr Key<S> host_table[] = {\n    key<Text, &S::name>("name", "text"),\n    part<&S::x>(\n'
                                 '        "ring", "frames, \\"x\\", y"),\n    Key<S>{"ends", form},\n};\n',
        str(TABLE): "# names\nrule mpa: mpa.crc\ncase: plain-v1\njson sim run: seed! ends\njson sim run.ends: at_s\nscenario host: name ring ends\n",
    }
    with common.made_tree(tree) as root:
        common.expect(check(root))
        (root / TABLE).write_text("rule mpa: mpa.old\ncase: x\njson sim run: ends! seed\njson sim gone: a\nscenario host: text\n", encoding="utf-8")
        common.expect(check(root), "rule mpa: 'mpa.old'", "case: 'x'", "json sim run: 'ends!'", "json sim gone: 'a'", "scenario host: 'text'")
        check(root, "--add")
        if "rule mpa: mpa.crc mpa.new mpa.old\n" not in common.read(root, TABLE):
            raise AssertionError(common.read(root, TABLE))
        common.expect(check(root), "rule mpa: 'mpa.old'", "case: 'x'", "json sim run: 'ends!'", "json sim gone: 'a'", "scenario host: 'text'")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
