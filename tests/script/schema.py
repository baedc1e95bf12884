# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds what --json prints against docs/schema. Only the words of JSON Schema that stand there are known, so that a schema
with another is noticed; and stricter than for a reader of the JSON, a key that no schema names is wrong."""
import functools
import json
import os
import re

FOLDER = os.path.join(os.environ.get("PARLEY_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "..", "..")), "docs", "schema")
KNOWN = {"$ref", "type", "enum", "const", "examples", "properties", "required", "items", "anyOf", "oneOf", "allOf", "if", "then",
         "$defs", "title", "description", "$schema", "$id", "pattern", "additionalProperties"}
URN = "urn:parley:schema:"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
# Which file describes the JSON of a command.
FILES = {"listen": "connections", "connect": "connections", "rping": "connections", "udping": "connections", "demo": "connections",
         "pcap check": "pcap-check", "pcap live": "pcap-live", "pcap ladder": "pcap-ladder", "pcap matrix": "pcap-matrix",
         "pcap anonymize": "pcap-anonymize", "pcap rules": "pcap-rules", "quirks": "quirks", "replay": "replay", "conform": "conform-mpa", "sim": "sim",
         "neg": "neg", "xrc": "xrc", "xrcd": "xrc", "mad": "mad", "ssa": "mad",
         "ssad": "ssa", "ssa status": "ssa", "ssa tree": "ssa", "ssa epoch": "ssa", "fabric": "fabric", "doctor": "doctor", "config": "config", "cmtime": "cmtime"}


@functools.cache
def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return json.load(file)


def resolve(ref, file):
    name, _, path = ref.partition("#")
    name = name.removeprefix(URN) + ".json" if name else file
    found = load(name)
    for part in path.split("/")[1:]:
        found = found[part]
    return found, name


def is_type(value, name):
    if name in ("integer", "number"):
        return not isinstance(value, bool) and isinstance(value, int if name == "integer" else (int, float))
    return isinstance(value, TYPES[name])


def parts(schema, file):
    """What must hold too, with its file: what is referred to, and what several have."""
    if "$ref" in schema:
        yield resolve(schema["$ref"], file)
    for part in schema.get("allOf", []):
        yield part, file


def keys(schema, file):
    """Those that an object may have."""
    found = set(schema.get("properties", {}))
    for part, part_file in parts(schema, file):
        found |= keys(part, part_file)
    return found


def is_open(schema, file):
    """Whether others look at an object's keys: additionalProperties, or each of several choices."""
    return any(word in schema for word in ("additionalProperties", "anyOf", "oneOf")) or any(is_open(*part) for part in parts(schema, file))


def problems(value, schema, file, place="$", whole=True, below=True):
    """What is wrong, as a list of sentences. The schema names all keys of the value if it is `whole` and not one part of
    several, and of what stands in the value if it is so `below`."""
    if unknown := set(schema) - KNOWN:
        return [f"{file}: words that tests/script/schema.py does not know: {unknown}"]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return problems_of_choice(value, schema[word], file, place)
    found = []
    for part, part_file in parts(schema, file):
        found += problems(value, part, part_file, place, False, below)
    if "if" in schema and not problems(value, schema["if"], file, place, False, False):
        found += problems(value, schema["then"], file, place, False, False)
    if "const" in schema and value != schema["const"]:
        found.append(f"{place} is {value!r}, not {schema['const']!r}")
    # A reader takes other words than the examples; we print none that is not among them.
    words = schema.get("enum", schema.get("examples"))
    if words is not None and value not in words:
        found.append(f"{place} is {value!r}, none of {words}")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, t) for t in types):
        return found + [f"{place} is {value!r}, no {' or '.join(types)}"]
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{place} is {value!r}, not of the form {schema['pattern']}")
    if isinstance(value, dict):
        known = schema.get("properties", {})
        found += [f"{place} lacks {key}" for key in schema.get("required", []) if key not in value]
        if "additionalProperties" in schema:
            for key in value.keys() - known.keys():
                found += problems(value[key], schema["additionalProperties"], file, f"{place}.{key}")
        elif whole and not is_open(schema, file):
            found += [f"{place}.{key} is not in {file}" for key in value if key not in keys(schema, file)]
        for key in known.keys() & value.keys():
            found += problems(value[key], known[key], file, f"{place}.{key}", below, below)
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
