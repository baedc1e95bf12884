# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""docs/schema describes what --json prints. cli.py holds every line that any of these tests sees against it; here it is what
the others do not ask for, and that a wrong line is found."""
import glob
import json
import os
import re

import schema
from cli import SOURCE_DIR, CliTest, main, run

CAPTURES = sorted(glob.glob(os.path.join(SOURCE_DIR, "tests", "captures", "**", "*.pcap"), recursive=True))


def subschemas(value):
    """Every object in a schema that is one itself."""
    if "properties" in value:
        for inner in value["properties"].values():
            yield from subschemas(inner)
    for word in ("anyOf", "oneOf", "allOf"):
        for inner in value.get(word, []):
            yield from subschemas(inner)
    for inner in value.get("$defs", {}).values():
        yield from subschemas(inner)
    for word in ("items", "additionalProperties"):
        if word in value:
            yield from subschemas(value[word])
    for word in ("if", "then"):
        if word in value:
            yield from subschemas(value[word])
    yield value


def without_unit(schemas):
    """Keys of numbers with fractions that do not say what they count, nor stand in an object whose key does."""
    for key, value in schemas.items():
        if not re.search(r"_(us|ms|s)$|_per_", key):
            if value.get("type") == "number":
                yield key
            yield from without_unit(value.get("properties", {}))
            yield from without_unit(value.get("items", {}).get("properties", {}))


def duplicates(files):
    """Definitions and keys that say the same in several places, and could be said in one."""
    seen = {}
    for name in files:
        for part in subschemas(schema.load(name)):
            if "properties" in part and len(json.dumps(part)) > 120:
                seen.setdefault(json.dumps(part, sort_keys=True), []).append(name)
    return [f"{names}: {text[:200]}" for text, names in seen.items() if len(names) > 1]


class Schemas(CliTest):
    def test_each_is_well_formed_and_named_in_the_docs(self):
        with open(os.path.join(SOURCE_DIR, "docs", "cli.md"), encoding="utf-8") as file:
            docs = file.read()
        files = sorted(name for name in os.listdir(schema.FOLDER) if name.endswith(".json"))
        self.assertEqual(set(files), {"common.json", "log.json", *(f"{name}.json" for name in schema.FILES.values())})
        for name in files:
            self.assertTrue(f"(schema/{name})" in docs, name)
            self.assertEqual(schema.load(name)["$id"], schema.URN + name.removesuffix(".json"))
            for part in subschemas(schema.load(name)):
                self.assertEqual(set(part) - schema.KNOWN, set(), name)
                if part.get("type") == "object":
                    self.assertLessEqual(set(part.get("required", [])), schema.keys(part, name), name)
                if "$ref" in part:
                    self.assertIsInstance(schema.resolve(part["$ref"], name)[0], dict)
        self.assertEqual(duplicates(files), [])

    def test_each_key_is_in_the_docs(self):
        docs = ""
        for name in ("cli", "pcap-check", "captures", "replay", "trace", "negotiation", "mad", "fabric", "xrc", "ssa"):
            with open(os.path.join(SOURCE_DIR, "docs", f"{name}.md"), encoding="utf-8") as file:
                docs += file.read()
        words = set(re.findall(r"\w+", docs))
        for name in sorted(os.listdir(schema.FOLDER)):
            if name.endswith(".json"):
                known = {key for part in subschemas(schema.load(name)) for key in part.get("properties", {})}
                self.assertEqual(known - words, set(), f"of {name}, not in docs/cli.md or a page that it names")

    def test_times_name_their_unit_and_words_have_no_spaces(self):
        for name in sorted(os.listdir(schema.FOLDER)):
            if not name.endswith(".json"):
                continue
            for part in subschemas(schema.load(name)):
                for word in part.get("enum", []) + part.get("examples", []):
                    self.assertRegex(str(word), r"^[\w.-]+$", name)
            self.assertEqual(list(without_unit(schema.load(name).get("$defs", {}))), [], name)

    def test_wrong_lines_are_found(self):
        line = json.loads(run("sim", "check", "lossy_handshake", "--json").out.splitlines()[0])
        for wrong in ({**line, "event": "scenarios"}, {**line, "name": 7}, {**line, "colour": "red"},
                      {key: value for key, value in line.items() if key != "file"}):
            with self.assertRaises(AssertionError):
                schema.check(["sim", "check"], json.dumps(wrong))
        schema.check(["sim", "check"], json.dumps(line))

    def test_another_transport_breaks_no_reader(self):
        """A connection without any key of MPA's is right, if it is not MPA's."""
        capture = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", "siw_v2_p2p_write_rtr.pcap")
        line = json.loads(run("pcap", "check", "--json", capture).out)
        for key in ("mpa", "revision", "crc", "markers", "rtr"):
            del line["connections"][0][key]
        for place, key in ((("steps_ms",), "first_fpdu"), (("from_initiator",), "fpdus"), (("from_responder",), "fpdus")):
            del line["connections"][0][place[0]][key]
        file = "pcap-check.json"
        lacking = schema.problems(line, schema.load(file), file)
        for key in ("mpa", "revision", "crc", "markers", "rtr", "first_fpdu", "fpdus"):
            self.assertTrue(any(problem.endswith(f"lacks {key}") for problem in lacking), (key, lacking))
        line["connections"][0].update(transport="roce", protocol="ib-cm")
        # What we ourselves print is held to the examples; to a reader they are no bound.
        self.assertEqual([problem for problem in schema.problems(line, schema.load(file), file)
                          if "none of ['iwarp']" not in problem and "none of ['mpa']" not in problem], [])

    def test_captures(self):
        self.assertGreater(len(CAPTURES), 10)
        unread = self.path("not-a-capture.pcap", b"x" * 99)
        for command in ("check", "ladder", "matrix"):
            self.assertIn("{", run("pcap", command, "--json", *CAPTURES).out)
            self.assertEqual(run("pcap", command, "--json", unread).code, 3)

    def test_simulation(self):
        failing = self.path("failing.toml", b"""[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
reject = true
[[connect]]
from = "a"
to = "b"
""")
        for words in (("run", failing, "--ladder"), ("run", "duplicate_and_reorder_storm", "--ladder"),
                      ("run", "lossy_handshake", "--pcapng", self.path("a.pcapng"), "--html", self.path("a.html")),
                      ("replay", "lossy_handshake", "--seed", "7", "--swarm", "--drop-mask", "5"),
                      ("explore", failing, "--seeds", "1..3", "--shard", "1/2"), ("exhaust", "handshake_v2_read", "--packets", "3"),
                      ("shrink", failing, "--seed", "1", "-o", self.path("small.toml")), ("list",),
                      ("storm", "--nodes", "4", "--ppn", "1", "--pattern", "ring"), ("storm", "--nodes", "4", "--roce")):
            self.assertIn('{"event":', run("sim", *words, "--json").out)
        line = json.loads(run("sim", "run", "lossy_handshake", "--json").out.splitlines()[0])
        schema.check(["sim"], json.dumps({**line, "verdict": "stopped", "end": "stopped"}))  # by Ctrl-C

    def test_management_datagrams(self):
        folder = os.path.join(SOURCE_DIR, "tests", "fuzz", "corpus", "mad")
        for name in sorted(name for name in os.listdir(folder) if name.startswith("real_")):
            with open(os.path.join(folder, name), "rb") as file:
                run("mad", "decode", file.read()[1:].hex(), "--json")
        run("mad", "decode", "01" * 30, "--json")
        run("mad", "decode", "01", "--json")
        good = json.loads(run("mad", "decode", "01" * 24, "--json").out)
        for wrong in ({"records": [{"lid": {"value": "5", "name": None}}]}, {"header": {"lid": None}}, {"status": 3}):
            with self.assertRaises(AssertionError):
                schema.check(["mad"], json.dumps({**good, **wrong}))

    def test_replay_and_quirks(self):
        file = os.path.join(SOURCE_DIR, "tests", "captures", "iwarp", "siw_v2_p2p_write_rtr.pcap")
        for role in ("initiator", "responder"):
            for against in ("sim:parley", "sim:erdma"):
                run("replay", file, "-n", "all", "--role", role, "--against", against, "--json", "-v")
        run("quirks", "--json")
        run("conform", "mpa", "initiator", "--list", "--json")


if __name__ == "__main__":
    main()
