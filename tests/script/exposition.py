# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""A strict reader of Prometheus' text exposition format 0.0.4, which shares nothing with the program's writer. What a
scraper would only warn of is an error here: families without HELP or TYPE, or in pieces, and samples out of order."""
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
SUFFIXES = {"counter": ("",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}


class Malformed(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Malformed(text)


def unescape(text, quotes):
    known = {"\\": "\\", "n": "\n", '"': '"'} if quotes else {"\\": "\\", "n": "\n"}
    out, at = [], 0
    while at < len(text):
        if text[at] == "\\":
            need(at + 1 < len(text) and text[at + 1] in known, f"an unknown escape in {text!r}")
            out.append(known[text[at + 1]])
            at += 2
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def read_labels(text):
    """The labels behind the brace, and where they end."""
    labels, at = {}, 0
    while True:
        name = LABEL.match(text, at)
        need(name, f"no label's name at {text[at:]!r}")
        need(not name[0].startswith("__"), f"{name[0]} is reserved")
        need(name[0] not in labels, f"{name[0]} twice")
        at = name.end()
        need(text[at:at + 2] == '="', f'no =" behind {name[0]}')
        at += 2
        begin = at
        while at < len(text) and text[at] != '"':
            at += 2 if text[at] == "\\" else 1
        need(at < len(text), f"the value of {name[0]} does not end")
        labels[name[0]] = unescape(text[begin:at], True)
        at += 1
        if text[at:at + 1] == "}":
            return labels, at + 1
        need(text[at:at + 1] == ",", f"neither , nor }} behind {name[0]}")
        at += 1


class Family:
    def __init__(self, name, help_text):
        self.name, self.help, self.type, self.samples = name, help_text, None, []


def read_sample(line, family):
    name = NAME.match(line)
    need(name, f"no name: {line!r}")
    at, labels = name.end(), {}
    if line[at:at + 1] == "{":
        labels, used = read_labels(line[at + 1:])
        at += 1 + used
    need(line[at:at + 1] == " " and NUMBER.fullmatch(line[at + 1:]), f"no plain number at the end of {line!r}")
    need(family is not None and family.type, f"no family for {line!r}")
    suffix = name[0].removeprefix(family.name)
    need(name[0].startswith(family.name) and suffix in SUFFIXES[family.type], f"{name[0]} in family {family.name}")
    value = line[at + 1:]
    family.samples.append((suffix, labels, float(value) if "." in value else int(value)))


def check_histogram(family):
    series = {}
    for suffix, labels, value in family.samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        series.setdefault(key, []).append((suffix, labels.get("le"), value))
    for key, samples in series.items():
        buckets = [(le, value) for suffix, le, value in samples if suffix == "_bucket"]
        rest = {suffix: value for suffix, le, value in samples if suffix != "_bucket" and le is None}
        need([s for s, _, _ in samples] == ["_bucket"] * len(buckets) + ["_sum", "_count"], f"{family.name}{key}: order")
        limits = [float(le) for le, _ in buckets]
        need(limits == sorted(set(limits)) and limits[-1] == float("inf") and buckets[-1][0] == "+Inf",
             f"{family.name}{key}: limits {limits}")
        counts = [value for _, value in buckets]
        need(counts == sorted(counts) and counts[-1] == rest["_count"], f"{family.name}{key}: counts {counts}")
        need(rest["_sum"] == 0 or rest["_count"] > 0, f"{family.name}{key}: a sum of nothing")


def check_family(family):
    need(family.type, f"{family.name} has no type")
    need(len({(s, tuple(sorted(labels.items()))) for s, labels, _ in family.samples}) == len(family.samples),
         f"{family.name}: a sample twice")
    need(len({frozenset(labels) - {"le"} for _, labels, _ in family.samples}) <= 1, f"{family.name}: labels differ")
    if family.type == "counter":
        need(family.name.endswith("_total"), f"{family.name} is a counter and does not end in _total")
    if family.type == "histogram":
        need(family.name.endswith("_seconds"), f"{family.name} does not say its unit")
        check_histogram(family)


def read(text):
    """{name: Family}. Raises Malformed."""
    need(isinstance(text, bytes), "octets are read, not text")
    text = text.decode("utf-8")
    need(text.endswith("\n") and "\r" not in text, "the last line has no end")
    families, family = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, help_text = line[7:].partition(" ")
            need(NAME.fullmatch(name) and name.startswith("parley_"), f"a wrong name: {line!r}")
            need(name not in families, f"{name} is begun twice")
            need(family is None or family.type, "a HELP without a TYPE")
            family = families[name] = Family(name, unescape(help_text, False))
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            need(family is not None and name == family.name and family.type is None and not family.samples,
                 f"a TYPE that is not behind its HELP: {line!r}")
            need(kind in SUFFIXES, f"an unknown type: {line!r}")
            family.type = kind
        else:
            read_sample(line, family)
    for one in families.values():
        check_family(one)
    return families


def value(families, name, suffix="", **labels):
    """Of one sample; None if it is not there."""
    for sample_suffix, sample_labels, number in families[name].samples:
        if sample_suffix == suffix and sample_labels == labels:
            return number
    return None
