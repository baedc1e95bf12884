# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Decides what a case of the interop matrix is worth: exit codes, words, `parley pcap check`, stock tshark."""
import json
import subprocess
from dataclasses import dataclass, field

import captures
import guest_calls


@dataclass
class Verdict:
    name: str
    seconds: float = 0.0
    attempts: int = 0
    connections: int = 0
    wakeups: int = 0  # connections that met siw's lost wake-up, confirmed from their captures
    notes: str = ""
    problems: list = field(default_factory=list)

    @property
    def passed(self):
        return not self.problems


def tail(text, lines=4):
    return " | ".join(line.strip() for line in text.strip().splitlines()[-lines:]) or "(no output)"


class Judge:
    def __init__(self, parley):
        self.parley = parley  # None: stock rping plays Parley, and only tshark looks at the captures

    def case(self, case, attempts):
        verdict = Verdict(case.name, attempts=len(attempts))
        if not attempts:
            verdict.problems.append("did not run")
            return verdict
        final = attempts[-1]
        verdict.seconds = final.get("seconds", 0.0)
        verdict.connections = sum(captures.streams(attempt["capture"]) for attempt in attempts)
        for earlier in attempts[:-1]:
            self.earlier(earlier, verdict)
        self.exits(case, final, verdict)
        if case.kind == "v1" and not final["error"]:
            self.revision_1(case, final, verdict)
        if verdict.passed:
            self.wire(case, final, verdict)
        if verdict.wakeups:
            verdict.notes += f"; siw's lost wake-up survived {verdict.wakeups} time(s)"
        return verdict

    def wakeups(self, attempt):
        return captures.wakeups_lost(attempt["capture"], guest_b_only=bool(self.parley))

    def earlier(self, attempt, verdict):
        """A failed attempt is forgiven only when its capture shows that siw slept."""
        if lost := self.wakeups(attempt):
            verdict.wakeups += lost
        else:
            client = attempt["client"] or {"status": None, "text": ""}
            verdict.problems.append(f"an earlier attempt failed, and not by siw's lost wake-up: {attempt['error'] or ''} "
                                    f"client status {client['status']}: {tail(client['text'])} ({attempt['file']})")

    def exits(self, case, attempt, verdict):
        if attempt["error"]:
            verdict.problems.append(attempt["error"])
            return
        if case.kind != "rping":
            return
        for side, command in (("client", attempt["commands"][1]), ("server", attempt["commands"][0])):
            outcome = attempt[side]
            if not guest_calls.ended_well(command, outcome):
                how = "was killed at the time limit" if outcome["status"] is None else f"ended with {outcome['status']}"
                verdict.problems.append(f"{side} '{command}' {how}: {tail(outcome['text'])}")
        lost = self.wakeups(attempt)
        verdict.wakeups += lost
        if verdict.problems and lost:
            verdict.problems.append("this was siw's lost wake-up, on the last attempt as well")

    def revision_1(self, case, attempt, verdict):
        """Revision 1 carries no IRD and ORD: set-up and Sends work, and Parley must say what is missing."""
        to_siw = case.direction == "to-siw"
        ours, stock = (attempt["client"], attempt["server"]) if to_siw else (attempt["server"], attempt["client"])
        if to_siw and "Received rkey" not in stock["text"]:
            verdict.problems.append(f"stock rping never got Parley's Send: {tail(stock['text'])}")
        if self.parley and not ("IRD" in ours["text"] and "ORD" in ours["text"]):
            verdict.problems.append(f"Parley does not say that IRD and ORD are missing: {tail(ours['text'])}")
        if self.parley and ours["status"] is None:
            verdict.problems.append("Parley hung instead of reporting the missing IRD and ORD")

    def wire(self, case, attempt, verdict):
        frames = attempt["capture"].frames
        if not frames:
            verdict.problems.append("the capture holds no frame of this connection")
            return
        self.tshark(case, attempt, verdict)
        if self.parley:
            self.pcap_check(case, attempt, verdict)

    @staticmethod
    def tshark(case, attempt, verdict):
        # tshark hands every short Send to its RPC-over-RDMA guess, which then calls it malformed: a Send of fewer than
        # 16 octets, an RTR Send of none. That guess is not about our octets, so this one protocol is off. Guesses come before
        # ports: a client's may be that of another protocol.
        command = ["tshark", "-n", "-r", str(attempt["file"]), "--disable-protocol", "rpcordma",
                   "-o", "tcp.reassemble_out_of_order:TRUE", "-o", "tcp.try_heuristic_first:TRUE",
                   "-Y", "iwarp_mpa || _ws.malformed", "-T", "fields", "-e", "frame.number", "-e", "_ws.malformed"]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode != 0:
            verdict.problems.append(f"tshark ended with {run.returncode}: {tail(run.stderr)}")
            return
        seen = 0
        for line in run.stdout.splitlines():
            number, malformed = (line.split("\t") + [""])[:2]
            ours = attempt["capture"].frames[int(number) - 1].ours
            seen += ours
            if malformed and ours:
                verdict.problems.append(f"tshark calls our frame {number} malformed ({malformed}) in {attempt['file']}")
        if seen < (1 if case.kind == "v1" else 2):
            verdict.problems.append(f"tshark recognised only {seen} iWARP frame(s) of ours in {attempt['file']}")

    def pcap_check(self, case, attempt, verdict):
        run = subprocess.run([self.parley, "pcap", "check", "--json", str(attempt["file"])], capture_output=True,
                             text=True, check=False)
        try:
            connections = json.loads(run.stdout)["connections"]
        except (ValueError, KeyError):
            verdict.problems.append(f"parley pcap check ended with {run.returncode}: {tail(run.stderr or run.stdout)}")
            return
        # Parley itself connects again when siw sleeps; what counts is the last connection, and no fault of ours in any.
        if not 1 <= len(connections) <= 1 + verdict.wakeups:
            verdict.problems.append(f"parley pcap check sees {len(connections)} connections in {attempt['file']}")
            return
        found = connections[-1]
        frames = attempt["capture"].frames
        peers = 0
        for finding in (finding for connection in connections for finding in connection["findings"]):
            if finding["severity"] != "error":
                continue
            if frames[finding["frame"] - 1].ours:
                verdict.problems.append(f"parley pcap check blames our frame {finding['frame']}: {finding['rule']}: "
                                        f"{finding['text']} ({attempt['file']})")
            else:
                peers += 1
        self.parameters(case, found, verdict)
        verdict.notes = (f"rev {found['revision']} {'CRC' if found['crc'] else 'no CRC'} rtr {found['rtr']} "
                         f"ird {found['ird']} ord {found['ord']}") + (f"; {peers} departure(s) of siw" if peers else "")

    @staticmethod
    def parameters(case, found, verdict):
        """What was agreed must follow from how siw was set."""
        expected = {"outcome": "established", "revision": case.version}
        if case.siw["mpa_crc_required"]:
            expected["crc"] = True
        for key, value in expected.items():
            if found[key] != value:
                verdict.problems.append(f"{key} is {found[key]}, expected {value}")
        if case.direction == "from-siw" and case.siw["peer_to_peer"] and found["rtr"] not in ("read", "write"):
            verdict.problems.append(f"siw asked for peer-to-peer and no RTR came of it (rtr {found['rtr']})")
