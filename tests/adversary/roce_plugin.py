# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds the Wireshark plugin to what `parley pcap check` says of RoCE: the same findings in the same frames, with the same severity, clause
and sentence, of every rule that one packet, or one packet and its connection's REQ and REP, can break."""
import re

import said
from limit import LIMIT

# Rules that need the packets before or behind: the plugin shows a frame before it knows what follows. Check alone tells them.
CHECK_ALONE = {"cm.transaction", "cm.rep-depths", "cm.after-drep", "cm.mad-packet", "cm.unassigned", "ib.eth-reserved", "ib.message-size", "ib.outstanding", "ib.rnr-wait",
               "ib.rnr-retries", "ib.retries", "ib.nak-ignored", "ib.ack-form", "cm.req-changed", "cm.rep-changed", "cm.comm-id", "cm.restarted", "cm.rtu-before-rep", "cm.after-rej", "cm.early",
               "cm.retries", "ib.sequence", "ib.psn-start", "ib.psn-reused", "ib.payload-changed", "ib.read-psn", "ib.msn", "ib.credit-limit",
               "ib.ack-unsent", "ib.read-response", "ib.response-kind", "ib.atomic-response", "ib.early", "ib.after-end"}
# A known departure is a note of both. Other notes each has by itself.
QUIRK = re.compile(r"\(quirk ([a-z-]+)\)$")
QUIRKS_OF_CHECK = {"retries-for-ever"}  # what several packets show
UDP_OF_IPV6 = "Illegal checksum value (0)"  # Wireshark's own: RoCE has none
# Of a Write of several packets, and of what stands before the first PSN.
OF_SEVERAL = re.compile(r"'s RDMA WRITE announces .* \(frame \d+\)|on a live queue pair")
WRONG = re.compile(r"Wrong ICRC \(IBA §7.8.1\) \[should be 0x([0-9a-f]{8})\]")
ICRC = re.compile(r"(.*) has the ICRC [0-9a-f]{8}; its octets give ([0-9a-f]{8})")


def by_check(report):
    """{(frame, severity, clause, sentence)}"""
    found = set()
    for connection in report["connections"]:
        for finding in connection["findings"]:
            text = finding["text"]
            if finding["severity"] == "note" and (not QUIRK.search(text) or QUIRK.search(text)[1] in QUIRKS_OF_CHECK):
                continue
            if finding.get("key") in CHECK_ALONE or OF_SEVERAL.search(text):
                continue
            if finding.get("key") == "ib.icrc":
                text = "ICRC " + ICRC.fullmatch(text).group(2)
            found.add((finding["frame"], finding["severity"], finding["rule"], text))
    return found


def by_plugin(tshark, path, *options):
    """The same, and {frame: what is an error or a warning there, with or without a clause}."""
    done = tshark.run("-n", "--disable-protocol", "rpcordma", *options, "-r", path, "-Y", "parley.ib && _ws.expert", "-T", "fields",
                      "-E", "aggregator=\x01", "-e", "frame.number", "-e", "_ws.expert.severity", "-e", "_ws.expert.message", timeout=LIMIT)
    if done.returncode or done.stderr.strip():
        raise RuntimeError(f"tshark ended with {done.returncode}: {done.stderr}")
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    found = {(finding.frame, finding.severity, finding.rule, finding.text)
             for finding in said.expert_items("\n".join("\t".join(row[:3]) for row in rows))}
    # The text of a checksum's item is Wireshark's own.
    found |= {(int(row[0]), "error", "IBA §7.8.1", f"ICRC {due}") for row in rows for due in WRONG.findall(row[2])}
    alarms = {int(frame): [text for severity, text in zip(severities.split("\x01"), texts.split("\x01"))
                           if said.SEVERITIES[int(severity)] != "note"] for frame, severities, texts in rows}
    return found, alarms


def blamed_for_a_quirk(shown, alarms):
    """Who departs as it is known to has not failed by that."""
    return [f"plugin: frame {frame}: {text}, beside a known departure" for frame, severity, _, sentence in sorted(shown)
            if severity == "note" and QUIRK.search(sentence) for text in alarms[frame] if text != UDP_OF_IPV6]


def differences(report, shown, less, twice):
    """A sentence for each finding that one of the two alone has. Who sent a packet the plugin need not know. `less`: what those frames
    show the plugin may leave out, for it infers nothing from what is missing. `twice`: what is wrong with a message that was
    captured twice check says once."""
    told = by_check(report)
    nameless = {(frame, severity, rule, re.sub("^the (initiator|responder)", "the sender", text)): text
                for frame, severity, rule, text in told}
    for finding in [finding for finding in shown if finding in nameless]:
        shown = shown - {finding} | {(*finding[:3], nameless[finding])}
    return [f"{who} alone: frame {frame}: {severity}: {text} [{rule}]"
            for who, left, allowed in (("check", told - shown, less), ("plugin", shown - told, twice))
            for frame, severity, rule, text in sorted(left) if frame not in allowed]
