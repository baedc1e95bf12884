# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds the Wireshark plugin to what `parley pcap check` says of RoCE: the same errors, warnings and known departures in the same frames,
with the same severity, clause and sentence."""
import re

import said
from limit import LIMIT

QUIRK = re.compile(r"\(quirk ([a-z-]+)\)$")  # a known departure is a note of both; other notes each has by itself
UDP_OF_IPV6 = "Illegal checksum value (0)"  # Wireshark's own: RoCE has none
WRONG = re.compile(r"Wrong ICRC \(IBA §7.8.1\) \[should be 0x([0-9a-f]{8})\]")
ICRC = re.compile(r"(.*) has the ICRC [0-9a-f]{8}; its octets give ([0-9a-f]{8})")
# Check says once what a side does again and again; the plugin says it in each frame.
HABIT = re.compile(r", in (\d+) packets, the last of them frame (\d+)$")
LATE = re.compile(r"frame (\d+): (the (?:initiator|responder|sender).*)")  # in one pass: where it is proven


def by_check(report):
    """{(frame, severity, clause, sentence)}, and {(severity, clause, sentence): [(first frame, last frame)]} of what comes again."""
    found, again = set(), {}
    for connection in report["connections"]:
        for finding in connection["findings"]:
            text = finding["text"]
            if finding["severity"] == "note" and not QUIRK.search(text):
                continue
            if finding.get("key") == "ib.icrc":
                text = "ICRC " + ICRC.fullmatch(text).group(2)
            habit = HABIT.search(text)
            if habit:
                text = text[:habit.start()]
                again.setdefault((finding["severity"], finding["rule"], text), []).append((finding["frame"], int(habit[2])))
            found.add((finding["frame"], finding["severity"], finding["rule"], text))
    return found, again


def by_plugin(tshark, path, *options):
    """The same, and {frame: what is an error or a warning there, with or without a clause}."""
    done = tshark.run("-n", "--disable-protocol", "rpcordma", *options, "-r", path, "-Y", "parley.ib && _ws.expert", "-T", "fields",
                      "-E", "aggregator=\x01", "-e", "frame.number", "-e", "_ws.expert.severity", "-e", "_ws.expert.message", timeout=LIMIT)
    if done.returncode or done.stderr.strip():
        raise RuntimeError(f"tshark ended with {done.returncode}: {done.stderr}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = set()
    for finding in said.expert_items("\n".join("\t".join(row[:3]) for row in rows)):
        late = LATE.fullmatch(finding.text)
        frame, text = (int(late[1]), late[2]) if late else (finding.frame, finding.text)
        found.add((frame, finding.severity, finding.rule, text))
    # The text of a checksum's item is Wireshark's own.
    found |= {(int(row[0]), "error", "IBA §7.8.1", f"ICRC {due}") for row in rows for due in WRONG.findall(row[2])}
    alarms = {int(frame): [text for severity, text in zip(severities.split("\x01"), texts.split("\x01"))
                           if said.SEVERITIES[int(severity)] != "note"] for frame, severities, texts in rows}
    return found, alarms


def blamed_for_a_quirk(shown, alarms):
    """Who departs as it is known to has not failed by that."""
    return [f"plugin: frame {frame}: {text}, beside a known departure" for frame, severity, _, sentence in sorted(shown)
            if severity == "note" and QUIRK.search(sentence) for text in alarms.get(frame, ()) if text != UDP_OF_IPV6]


def differences(report, shown):
    """A sentence for each finding that one of the two alone has."""
    told, again = by_check(report)
    # Wireshark has no room for long sentences.
    cut = {short: whole for short in shown if short[3].endswith("...")
           for whole in told if whole[:3] == short[:3] and whole[3].startswith(short[3][:-3])}
    shown = {cut.get(finding, finding) for finding in shown}
    repeated = {finding for finding in shown - told
                if any(first <= finding[0] <= last for first, last in again.get(finding[1:], ()))}
    return [f"{who} alone: frame {frame}: {severity}: {text} [{rule}]"
            for who, left in (("check", told - shown), ("plugin", shown - told - repeated)) for frame, severity, rule, text in sorted(left)]
