# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds what --json prints against docs/schema. Only the words of JSON Schema that stand there are known, so that a schema
with another is noticed; and stricter than for a reader of the JSON, a key that no schema names is wrong."""
import functools
import json
import os
import re

FOLDER = os.path.join(os.environ.get("PARLEY_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", "..")), "docs", "schema")
KNOWN = {"$ref", "type", "enum", "const", "properties", "required", "items", "anyOf", "oneOf", "$defs", "title", "description",
         "$schema", "pattern"}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
# Which file describes the JSON of a command.
FILES = {"listen": "connections", "connect": "connections", "rping": "connections", "demo": "connections",
         "pcap check": "pcap-check", "pcap live": "pcap-live", "pcap ladder": "pcap-ladder", "pcap matrix": "pcap-matrix",
         "pcap anonymize": "pcap-anonymize", "quirks": "quirks", "replay": "replay", "conform": "conform-mpa", "sim": "sim"}


@functools.cache
def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


def resolve(ref, file):
    name, _, path = ref.partition("#")
    name = name or file
    found = load(name)
    for part in path.split("/")[1:]:
        found = found[part]
    return found, name


def is_type(value, name):
    if name in ("integer", "number"):
        return not isinstance(value, bool) and isinstance(value, int if name == "integer" else (int, float))
    return isinstance(value, TYPES[name])


def problems(value, schema, file, place="$"):
    """What is wrong, as a list of sentences."""
    if unknown := set(schema) - KNOWN:
        return [f"{file}: words that tests/script/schema.py does not know: {unknown}"]
    if "$ref" in schema:
        target, target_file = resolve(schema["$ref"], file)
        return problems(value, target, target_file, place)
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return problems_of_choice(value, schema[word], file, place)
    found = []
    if "const" in schema and value != schema["const"]:
        found.append(f"{place} is {value!r}, not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place} is {value!r}, none of {schema['enum']}")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        return found + [f"{place} is {value!r}, no {' or '.join(types)}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place} is {value!r}, not of the form {schema['pattern']}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{place} lacks {key}" for key in schema.get("required", []) if key not in value]
        found += [f"{place}.{key} is not in {file}" for key in value if key not in known]
        for key in known.keys() & value.keys():
            found += problems(value[key], known[key], file, f"{place}.{key}")
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            found += problems(item, schema["items"], file, f"{place}[{i}]")
    return found


def problems_of_choice(value, choices, file, place):
    """Those of the choice that fits best: of the event that it is, if it is one."""
    best = None
    for choice in choices:
        found = problems(value, choice, file, place)
        wrong_kind = any(p.startswith(f"{place}.event ") or p == f"{place} lacks event" for p in found)
        rank = (wrong_kind, len(found))
        if best is None or rank < best[0]:
            best = rank, found
    return best[1]


def file_of(command):
    words = [word for word in command if not word.startswith("-")]
    for length in (2, 1):
        if " ".join(words[:length]) in FILES:
            return FILES[" ".join(words[:length])] + ".json"
    return None


def check(command, line):
    """Fails for a line of JSON that the command should not have printed."""
    if (name := file_of([str(word) for word in command])) is not None:
        found = problems(json.loads(line), load(name), name)
        assert not found, f"docs/schema/{name}: {found[:5]}\nof {line[:2000]}"


def check_all(command, out):
    if "--json" in [str(word) for word in command]:
        for line in out.splitlines():
            if line.startswith("{"):
                check(command, line)
