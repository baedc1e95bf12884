# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Conversations over RoCEv2 and the InfiniBand CM, made without any code of Parley's, asked of `parley pcap check`: valid ones whole
and impaired as real captures are, and ones in which one rule is broken once. Prints each seed that failed.

    tests/adversary/roce.py --parley build/bin/parley --seeds 1..2000 [--kind planted] [--row ib.msn:low]

With --plugin the Wireshark plugin is asked too, and has to say what check says.
"""
import argparse
import collections
import copy
import json
import multiprocessing
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "dissectors"), str(HERE.parent / "lint")]
import roce_broken_answers  # noqa: E402: these add to the rows, and so does what they import
import roce_broken_messages  # noqa: E402, F401
import roce_broken_packets  # noqa: E402, F401
import roce_plugin  # noqa: E402
import roce_quirks  # noqa: E402
import roce_wire as w  # noqa: E402
from limit import LIMIT  # noqa: E402
from roce_broken_cm import ROWS, WARNINGS  # noqa: E402
from roce_talk import PLENTY, SIDES, Talk  # noqa: E402

QPS = {w.RC: "rc", w.UC: "uc", w.UD: "ud", w.XRC: "xrc"}
BATCH = 100  # conversations in one capture
# What no loss makes of an outcome.
NEVER = {"established": {"rejected", "failed"}, "rejected": {"established", "failed"}, "failed": {"established", "rejected"}}


class Case:
    """A conversation in a capture of several. `frames`: (time, packet, octets kept)."""

    def __init__(self, kind, seed, number, transport=None):
        self.kind, self.seed, self.chance = kind, seed, random.Random(f"{kind} {seed}")
        chance = self.chance
        net = number + 1
        v6 = chance.random() < 0.3
        addresses = [f"2001:db8::{net:x}:{side + 1}" if v6 else f"10.{net >> 8}.{net & 255}.{side + 1}" for side in (0, 1)]
        hosts = [w.Host(side, address, chance) for side, address in enumerate(addresses)]
        version, tag = chance.random() < 0.1, chance.choice((0, 0, 0, 0, 5))
        for host in hosts:
            host.v1, host.vlan = version, tag
        self.ends = addresses
        self.talk = Talk(chance, hosts, chance.choice((w.RC, w.RC, w.RC, w.UC, w.UD, w.XRC)) if transport is None else transport, 10**9)
        self.due, self.optional = None, False
        # Of one that shows a known departure: what is found all the same, [(packet, rule)], and the packets that show the departure.
        self.blamed, self.shown = None, []

    def judge_table(self, found):
        return judge_table(self, found)

    def frame(self):
        self.frames = [(packet.time, packet, 1 << 16) for packet in self.talk.sent]
        return self


class Crowd(Case):
    """Several connections between two hosts at once, which either may begin."""

    def __init__(self, seed, number):
        super().__init__("crowd", seed, number)
        chance, first = self.chance, self.talk
        self.talks, self.optional, own_ports = [], chance.random() < 0.6, chance.random() < 0.5
        for _ in range(chance.randrange(2, 6)):
            hosts = [copy.copy(host) for host in chance.choice((first.hosts, first.hosts[::-1]))]
            for side, host in enumerate(hosts):
                host.side = side
            talk = Talk(chance, hosts, chance.choice((w.RC, w.RC, w.UC, w.UD, w.XRC)), first.time + chance.randrange(30_000))
            talk.ports = [chance.randrange(0xC000, 0x10000) for _ in hosts] if own_ports else None
            talk.talk()
            self.talks.append(talk)
        self.frames = [(packet.time, packet, 1 << 16) for packet in self.in_order()]
        if self.optional:
            impair(self.frames, chance, (0, 1, 1, 2))

    def in_order(self):
        """The packets of all by time. The management packets of a host, also those that the tap did not see, have one sequence of PSNs."""
        seen = {id(packet) for talk in self.talks for packet in talk.sent}
        every = sorted((packet for talk in self.talks for packet in talk.sent + talk.missed), key=lambda packet: packet.time)
        psns = {address: self.chance.randrange(2**24) for address in self.ends}
        for packet in every:
            if packet.qpn == 1:
                address = str(packet.host.address)
                packet.psn = psns[address] = (psns[address] + 1) % 2**24
        return [packet for packet in every if id(packet) in seen]

    def judge_table(self, found):
        if self.optional:
            return []
        due = sorted((talk.outcome, QPS[talk.transport], talk.service_name, talk.retries, talk.messages) for talk in self.talks)
        told = sorted((c["outcome"], c["qp"], c["service"], c["retries"], c["from_initiator"]["messages"] + c["from_responder"]["messages"])
                      for c in found)
        return [] if due == told else [f"the connections are {told}, {due} are expected"]


def crowd(seed, number):
    return Crowd(seed, number)


def valid(seed, number):
    case = Case("valid", seed, number)
    case.talk.talk()
    return case.frame()


def impaired(seed, number):
    """Repeated and reordered; some of the capture is lost, or its beginning, its end, the ends of its frames, or one answer alone."""
    case = Case("impaired", seed, number)
    case.talk.talk()
    case.frame()
    case.optional = True
    if case.chance.random() < 0.3:
        lose_answer(case.frames, case.chance)
    else:
        impair(case.frames, case.chance, range(1, 6))
    return case


def reused(seed, number):
    """The capture lacks the end of a connection. A queue pair of it is used again at once, for another service."""
    chance = random.Random(f"transport {seed}")
    case = Case("reused", seed, number, chance.choice((w.RC, w.UC, w.XRC)))
    talk, chance = case.talk, case.chance
    talk.set_up()
    talk.exchange(chance.randrange(1, 6))
    talk.wait(20, chance.choice((100, 900_000, 3_000_000)))
    owner, service = chance.randrange(2), chance.choice([each for each in QPS if each != talk.transport] + [w.UD])
    queue = talk.queues[1 - owner]
    psn = chance.choice((queue.psn, chance.randrange(2**24))) if service == w.UD else queue.psn + chance.randrange(2**20, 2**22)
    ext = {w.UD: struct.pack(">II", chance.randrange(2**31), chance.randrange(2, 2**24)), w.XRC: bytes(4)}.get(service, b"")
    for i in range(chance.randrange(1, 30)):
        talk.put(1 - owner, service | 4, talk.qpn[owner], (psn + i) % 2**24, ext, bytes(4 * chance.randrange(9))).kind = "send_only"
        talk.wait(5, chance.choice((50, 5000, 400_000)))
    case.frame()
    case.optional = True
    impair(case.frames, chance, (0, 0, 1, 2))
    return case


def lose_answer(frames, chance):
    """Which leaves no gap."""
    answers = [place for place, (_, packet, _) in enumerate(frames) if packet.kind in w.RESPONSES]
    if answers and len(frames) > 1:
        del frames[chance.choice(answers)]


def impair(frames, chance, times, losses=True):
    paths_differ = False
    for _ in range(chance.choice(times)):
        how = chance.randrange(10) if losses else chance.choice((1, 5, 7, 8))
        if how == 0:
            frames[:] = frames[chance.randrange(len(frames)):]
        elif how == 1 and len(frames) > 1:  # captured twice
            place = chance.randrange(len(frames))
            time, packet, keep = frames[place]
            frames.insert(place + 1, (time + 1, packet, keep))
        elif how == 2:
            frames[:] = frames[:chance.randrange(1, len(frames) + 1)]
        elif how == 3:
            frames[:] = [frame for frame in frames if chance.random() < 0.85] or frames[:1]
        elif how == 4:
            keep = chance.randrange(50, 340)
            frames[:] = [(time, packet, min(keep, kept)) for time, packet, kept in frames]
        elif how == 5 and len(frames) > 2:  # captured in another order, by two queues
            place = chance.randrange(len(frames) - 1)
            (t1, p1, k1), (t2, p2, k2) = frames[place:place + 2]
            if t2 - t1 < 500:
                frames[place:place + 2] = [(t1, p2, k2), (t2, p1, k1)]
        elif how == 7 and not paths_differ:  # one of the paths is longer
            slow = chance.choice([(packet.side, packet.qpn) for _, packet, _ in frames])
            late, paths_differ = chance.randrange(20_000), True
            frames[:] = sorted(((time + late * ((packet.side, packet.qpn) == slow), packet, keep) for time, packet, keep in frames),
                               key=lambda frame: frame[0])
        elif how == 8:  # captured by many queues
            frames[:] = sorted(((time + chance.randrange(1500), packet, keep) for time, packet, keep in frames), key=lambda frame: frame[0])
        elif how == 6:
            lose_answer(frames, chance)
        elif how == 9 and len(frames) > 1:  # any one
            del frames[chance.randrange(len(frames))]


def planted(seed, number, row=None, beside_loss=False):
    names = [row] if row else list(ROWS)
    name = names[seed % len(names)]
    play, transports = ROWS[name]
    chance = random.Random(f"transport {seed}")
    case = Case("beside loss" if beside_loss else "planted", seed, number, chance.choice(transports))
    case.kind += f" ({name})"
    case.talk.codes = PLENTY  # what breaks another rule may send more than it would
    packet = play(case.talk)
    case.frame()
    case.due = (packet, name.split(":")[0], packet.side)
    return lossy(case) if beside_loss else case


def lossy(case):
    """Another packet than that which shows it is missing."""
    case.optional = True
    others = [place for place, frame in enumerate(case.frames) if frame[1] is not case.due[0]]
    if others:
        del case.frames[case.chance.choice(others)]
    impair(case.frames, case.chance, (0, 1), losses=False)
    return case


def beside_loss(seed, number, row=None):
    return planted(seed, number, row, True)


def quirk(seed, number, row=None, beside_loss=False):
    """A known departure, which is no finding."""
    names = [row] if row else [name for name in roce_quirks.ROWS if not beside_loss or name not in roce_quirks.WHOLE]
    name = names[seed % len(names)]
    play, transports = roce_quirks.ROWS[name]
    chance = random.Random(f"transport {seed}")
    case = Case("beside loss, quirk" if beside_loss else "quirk", seed, number, chance.choice(transports))
    case.kind += f" ({name})"
    case.talk.codes = PLENTY
    shown, case.blamed = play(case.talk)
    case.frame()
    case.shown = shown if isinstance(shown, list) else [shown]
    case.due = (case.shown[0], name.split(":")[0], case.shown[0].side)
    return lossy(case) if beside_loss else case


def quirk_beside_loss(seed, number, row=None):
    return quirk(seed, number, row, True)


MAKE = {"valid": valid, "impaired": impaired, "reused": reused, "crowd": crowd, "planted": planted, "beside_loss": beside_loss, "quirk": quirk,
        "quirk_beside_loss": quirk_beside_loss}


def due_frames(case, base):
    return [base + place for place, frame in enumerate(case.frames, 1) if frame[1] is case.due[0]]


def comes_with(case, finding):
    """A finding about the other side that the planted fault brings with it."""
    _, key, side = case.due
    other = finding[3] == SIDES[1 - side]
    return other and (finding[2] in roce_broken_answers.ALSO.get(key, ()) or key in roce_broken_answers.ALSO.get(finding[2], ()))


def judge_findings(case, base, found):
    if case.blamed is not None:
        return roce_quirks.judge(case, base, found)
    said = [(f["frame"], f["severity"], f.get("key"), f["side"], f["text"])
            for connection in found for f in connection["findings"] if f["severity"] != "note"]
    if case.due is None:
        return [f"said: {each}" for each in said]
    _, key, side = case.due
    frames = due_frames(case, base)
    severity = "warning" if key in WARNINGS else "error"
    right = [each for each in said if each[0] in frames and each[1:4] == (severity, key, SIDES[side])]
    wrong = [f"also said: {each}" for each in said
             if each not in right and (each[1] == "error" or not case.optional) and not comes_with(case, each)]
    if case.optional:  # the loss may hide it, or the captured half of a fault
        return [words for words in wrong if f"'{key}'" not in words]
    if not right:
        wrong.insert(0, f"not found: {severity} {key} by the {SIDES[side]} at {frames}")
    return wrong


def judge_table(case, found):
    talk, wrong = case.talk, []
    for connection in found:
        if case.optional and case.due is None and connection["outcome"] in NEVER[talk.outcome]:
            wrong.append(f"the outcome is {connection['outcome']}, no octet says so")
    if case.optional:
        return wrong
    if len(found) != 1:
        return [f"{len(found)} connections are listed"]
    connection = found[0]
    due = {"outcome": talk.outcome, "qp": QPS[talk.transport], "service": talk.service_name}
    if case.due is None:
        due.update(retries=talk.retries, verdict="failed" if talk.outcome == "failed" else connection["verdict"])
        if talk.outcome == "established" and talk.transport != w.UD:
            due.update(ird=0 if talk.transport == w.XRC else talk.depth, ord=talk.depth)
        told = connection["from_initiator"]["messages"] + connection["from_responder"]["messages"]
        if told != talk.messages:
            wrong.append(f"{told} messages are told, {talk.messages} were sent")
        if talk.outcome != "failed" and connection["verdict"] == "failed":
            wrong.append(f"the verdict is failed: {connection['reason']}")
        for side, name in enumerate(SIDES):
            if not connection[name].startswith(case.ends[side]) and not connection[name].startswith(f"[{case.ends[side]}]"):
                wrong.append(f"{name} is {connection[name]}")
    elif case.blamed is not None or case.due[1] in ("cm.service", "cm.path-mtu", "ib.icrc", "ib.service"):
        due = {"outcome": talk.outcome}
    return wrong + [f"{key} is {connection[key]!r}, {value!r} is expected" for key, value in due.items() if connection[key] != value]


def check(parley, path):
    done = subprocess.run([*parley, "pcap", "check", "--json", path], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"parley pcap check ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout.splitlines()[0])


def shape(report):
    """What an anonymized copy must keep."""
    return [(c["first_frame"], c["outcome"], c["verdict"], c["qp"], c["retries"], c["ird"], c["ord"],
             [(f["frame"], f["severity"], f["side"], f["rule"]) for f in c["findings"] if f["severity"] != "note"])
            for c in report["connections"]]


def anonymized(parley, path):
    copy = path.with_suffix(".anonymized")
    done = subprocess.run([*parley, "pcap", "anonymize", "--key", "of the test", path, "-o", copy], capture_output=True, text=True,
                          timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(f"parley pcap anonymize ended with {done.returncode}: {done.stderr}")
    return shape(check(parley, copy))


def plugin_differs(plugin, octets, report, cases, bases):
    """One tshark for all cases: to start it costs more than to read them."""
    os.environ["PARLEY_PLUGIN"] = os.path.abspath(plugin)
    import harness
    with harness.Tshark(plugin=True) as tshark:
        path = tshark.file("batch.pcap", octets)
        once, _ = roce_plugin.by_plugin(tshark, path)
        shown, alarms = roce_plugin.by_plugin(tshark, path, "-2")
    cut = {(*finding[:3], finding[3][:150]) for finding in once} - {(*finding[:3], finding[3][:150]) for finding in shown}
    if cut:  # what only the end of the capture shows is in the second pass alone
        yield f"{cases[0].kind}, seeds {cases[0].seed} and on: the first pass alone shows {sorted(cut)[:2]}", cases[0].kind
    for words in roce_plugin.differences(report, shown) + roce_plugin.blamed_for_a_quirk(shown, alarms):
        frame = int(words.split("frame ")[1].split(":")[0])
        case = cases[max(place for place, base in enumerate(bases) if base < frame)]
        yield f"{case.kind}, seed {case.seed}: {words}", case.kind


def host_of(end):
    return end[1:end.index("]")] if end.startswith("[") else end.split(":")[0]


def batch(task):
    args, make, seeds = task
    make = MAKE[make]
    cases = [make(seed, number, args.row) if args.row else make(seed, number) for number, seed in enumerate(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "batch.pcap"
        bases, frames = [], []
        for case in cases:
            bases.append(len(frames))
            frames += [(time, packet.octets(), keep) for time, packet, keep in case.frames]
        octets = w.pcap(frames)
        path.write_bytes(octets)
        report = check(args.parley, path)
        listed = collections.defaultdict(list)
        for connection in report["connections"]:
            listed[frozenset((host_of(connection["initiator"]), host_of(connection["responder"])))].append(connection)
        failed = []
        for case, base in zip(cases, bases):
            found = listed.get(frozenset(case.ends), [])
            words = judge_findings(case, base, found) + case.judge_table(found)
            if words:
                failed.append((f"{case.kind}, seed {case.seed}: " + "; ".join(words[:4]), case.kind))
                if args.keep:
                    (pathlib.Path(args.keep) / f"roce_{case.kind.split()[0]}_{case.seed}.pcap").write_bytes(
                        w.pcap([(time, packet.octets(), keep) for time, packet, keep in case.frames]))
        if args.plugin:
            failed += plugin_differs(args.plugin, octets, report, cases, bases)
        if args.anonymize:
            mine, theirs = shape(report), anonymized(args.parley, path)
            wrong = [f"{other} in place of {one}" for one, other in zip(mine, theirs) if one != other]
            if wrong or len(mine) != len(theirs):
                failed.append((f"anonymized, {cases[0].kind}, seeds {cases[0].seed} and on: {wrong[:1] or len(theirs)}", "anonymized"))
    return len(cases), failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parley", required=True, type=lambda text: text.split())
    parser.add_argument("--seeds", default="1..500", help="FROM..TO")
    parser.add_argument("--kind", action="append", choices=MAKE)
    parser.add_argument("--row", choices=[*ROWS, *roce_quirks.ROWS], help="plant this alone")
    parser.add_argument("--anonymize", action="store_true", help="ask of anonymized copies too")
    parser.add_argument("--plugin", metavar="FILE", help="hold the Wireshark plugin to what check says")
    parser.add_argument("--keep", help="a folder for the captures of what failed")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    begin, end = map(int, args.seeds.split(".."))
    seeds = range(begin, end + 1)
    of_row = ["planted", "beside_loss"] if args.row in ROWS else ["quirk", "quirk_beside_loss"]
    kinds = args.kind or (of_row if args.row else list(MAKE))
    of_kind = {kind: seeds[::4] if kind == "crowd" and not args.kind else seeds for kind in kinds}  # a crowd is several
    tasks = [(args, kind, those[at:at + BATCH]) for kind, those in of_kind.items() for at in range(0, len(those), BATCH)]
    asked, failed = 0, []
    with multiprocessing.Pool(args.jobs) as pool:
        for count, wrong in pool.imap(batch, tasks):
            asked += count
            failed += wrong
    by_kind = collections.Counter(kind for _, kind in failed)
    print("\n".join([text for text, _ in failed[:40]] + [f"  {n:6} {kind}" for kind, n in by_kind.most_common()] +
                    [f"{asked - len(failed)} passed, {len(failed)} failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
