# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the three readers of captures say: `parley pcap check`, the Wireshark plugin, the ladder's page."""
import html
import json
import os
import pathlib
import re
import subprocess

import rule_table
from limit import LIMIT

SEVERITIES = {8388608: "error", 6291456: "warning", 4194304: "note", 2097152: "note", 1048576: "note"}  # epan/proto.h


# How the plugin, which gives no ids, says what may be said beside any fault. Of other rules the clause is enough.
BESIDE_IN_WORDS = {"mpa.crc-not-asked": r"did not ask for CRC \(C=0\)", "mpa.s-unproven": "S with S",
                   "mpa.no-common-rtr": "no RTR kind in common", "ddp.order": "out of (the )?order"}
TABLE = rule_table.rows(pathlib.Path(__file__).resolve().parents[2])


class Finding:
    """One thing said; `side`: who did it, or None; `rules`: the clauses cited; `id`: the rule's, of a reader that gives it."""

    def __init__(self, frame, severity, rule, text, side=None, key=None):
        self.frame, self.severity, self.rule, self.text, self.side, self.id = frame, severity, rule, text, side, key
        self.rules = frozenset(clauses(rule))

    def __str__(self):
        return f"frame {self.frame}: {self.severity}: {self.text} [{self.rule}]"

    def kind(self):
        return f"{self.severity}: {kind(self.text)} [{self.rule}]"

    def breaks(self, row):
        """Of a row of plant.py: by the rule's id, where the reader gives one, else by its clause."""
        return self.id in row.keys if self.id else bool(self.rules & row.clauses)

    def is_one_of(self, ids):
        """As above."""
        if self.id:
            return self.id in ids
        return any(re.search(BESIDE_IN_WORDS[key], self.text) if key in BESIDE_IN_WORDS else TABLE[key].clause in self.rules
                   for key in ids if key)

    def key(self):
        return self.frame, self.severity, min(self.rules, default="")


def clauses(rule):
    """Each clause by itself: "RFC 5044 §4.4, §8" are two."""
    document = ""
    for part in re.split(r"[,;] ?(?:and )?", rule):
        document = part.split("§")[0].strip() or document
        if part:
            yield f"{document} §{part.split('§')[1]}" if "§" in part else part.strip()


def kind(text):
    """A sentence without its figures."""
    return re.sub(r"(?<![§.\w])(0x[0-9a-fA-F]+|[0-9a-f]{8}|[0-9]+)\b(?! §)", "N", text)


def side_of(text):
    """Who a sentence accuses: the side named first."""
    if text.startswith("the two sides"):
        return None
    found = (re.search(r"\bthe (initiator|responder) answered", text) or
             re.search(r"\b(initiator|responder)\b", text))
    return found.group(1) if found else None


def check(parley, path):
    """{the two ends: [(the connection, [Finding])]} of a capture."""
    done = subprocess.run([parley, "pcap", "check", "--json", path], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"parley pcap check ended with {done.returncode}: {done.stderr}")
    said = {}
    for connection in json.loads(done.stdout)["connections"]:
        findings = [Finding(f["frame"], f["severity"], f["rule"], f["text"], f["side"], f.get("key"))
                    for f in connection["findings"]]
        said.setdefault(frozenset((connection["initiator"], connection["responder"])), []).append((connection, findings))
    return said


def plugin(tshark, path):
    """[Finding] of a capture and {the two ends: [row of the table of connections]}; `tshark` has the plugin.

    What a sentence does not name, the sender of the frame did."""
    done = tshark.run("-n", "-r", path, "-Y", "_ws.expert", "-T", "fields", "-E", "aggregator=\x01", "-e", "frame.number",
                      "-e", "_ws.expert.severity", "-e", "_ws.expert.message", "-z", "parley,conn", timeout=LIMIT)
    if done.returncode or done.stderr.strip():
        raise RuntimeError(f"tshark ended with {done.returncode}: {done.stderr}")
    experts, _, table = done.stdout.partition("\nConn ") if "\nConn " in done.stdout else ("", "", done.stdout[5:])
    rows = {}
    title, *lines = f"Conn {table}".splitlines()
    columns = [(found.group(0).strip(), found.start()) for found in re.finditer(r"\S+( \S+)*", title)]
    for line in filter(str.strip, lines):
        row = cells(columns, line)
        rows.setdefault(frozenset((row["Initiator"], row["Responder"])), []).append(row)
    return list(expert_items(experts)), rows


def cells(columns, line):
    """Words of a column stand below its title: flush with its begin, or with its end where they are numbers."""
    row, at = {}, [(found.group(0), found.start(), found.end()) for found in re.finditer(r"\S+( \S+)*", line)]
    for name, begin in columns:
        end = begin + len(name)
        row[name] = next((text for text, first, last in at if first < end and last > begin), "")
    return row


def expert_items(text):
    for line in text.splitlines():
        frame, severities, messages = line.split("\t")
        for severity, message in zip(severities.split("\x01"), messages.split("\x01")):
            found = re.fullmatch(r"(.*) \[((?:RFC|OFA|IBA) [^]]*)\]", message)
            if found:  # the plugin's cite their clause, those of Wireshark's own dissectors do not
                text, rule = found.groups()
                yield Finding(int(frame), SEVERITIES[int(severity)], rule, text, side_of(text))


def page(parley, path):
    """[Finding] of a capture of at most 60 connections, out of its ladders as a page."""
    to = f"{path}.html"
    done = subprocess.run([parley, "pcap", "ladder", "--html", to, path], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"parley pcap ladder ended with {done.returncode}: {done.stderr}")
    with open(to, encoding="utf-8") as file:
        text = file.read()
    os.unlink(to)
    if "srcdoc=" in text:  # each connection is a page in the page
        text = html.unescape(text)
    for block in re.findall(r"<pre[^>]*>Finding\n(.*?)</pre>", text, re.S):
        fields = dict(line.strip().split(": ", 1) for line in html.unescape(block).splitlines() if ": " in line)
        yield Finding(int(fields["Frame"]), fields["Severity"], fields.get("Rule", ""), fields["What was found"])
