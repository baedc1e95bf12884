# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the readers of captures say: `parley pcap check`, as findings by connection."""
import json
import re
import subprocess


class Finding:
    """One thing said about one connection; `side`: who did it, or None."""

    def __init__(self, frame, severity, rule, text, side=None):
        self.frame, self.severity, self.rule, self.text, self.side = frame, severity, rule, text, side

    def __str__(self):
        return f"frame {self.frame}: {self.severity}: {self.text} [{self.rule}]"

    def kind(self):
        return f"{self.severity}: {kind(self.text)} [{self.rule}]"


def kind(text):
    """A sentence without its figures."""
    return re.sub(r"(?<!§)(?<![.\d])\b(0x[0-9a-fA-F]+|[0-9]+)\b(?!\.)", "N", text)


def side_of(text):
    """Who a sentence accuses: the side named first."""
    found = re.search(r"\bthe (initiator|responder) answered", text) or re.search(r"\b(initiator|responder)\b", text)
    return found.group(1) if found else None


def ends(connection):
    return frozenset((connection["initiator"], connection["responder"]))


def check(parley, path):
    """{the two ends: (the connection, [Finding])} of a capture."""
    done = subprocess.run([parley, "pcap", "check", "--json", path], capture_output=True, text=True, timeout=600)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"parley pcap check ended with {done.returncode}: {done.stderr}")
    said = {}
    for connection in json.loads(done.stdout)["connections"]:
        findings = [Finding(f["frame"], f["severity"], f["rule"], f["text"], f.get("side") or side_of(f["text"]))
                    for f in connection["findings"]]
        said.setdefault(ends(connection), []).append((connection, findings))
    return said
