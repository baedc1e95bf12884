# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Staged QP negotiations, made without any code of Parley's, asked of `parley pcap check`: valid ones whole and impaired as real
captures are, and ones with one broken rule. Prints each seed that failed.

    tests/adversary/neg.py --parley build/bin/parley --seeds 1..2000
"""
import argparse
import json
import multiprocessing
import pathlib
import random
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "dissectors"))

# pylint: disable=wrong-import-position
from limit import LIMIT  # noqa: E402
from neg_broken import violations  # noqa: E402
from neg_wire import Talk, abort, send  # noqa: E402
from wire import ACK, FIN, INITIATOR, PSH, RESPONDER, RST, Capture  # noqa: E402

SIDES = ("initiator", "responder")
BATCH = 250  # negotiations in one capture
# The rule that each sentence is about. Items of an Abort have rules of their own.
RULES = (
    ("the peer speaks another protocol", "neg.magic"), ("the message has version", "neg.version"), ("the message has type", "neg.type"),
    ("the message has stage", "neg.stage"), ("a message of type", "neg.stage"), ("reserved bits", "neg.reserved"),
    ("the message announces", "neg.length"), (".*is cut off$", "neg.item-cut"), (".*must not be skipped$", "neg.item-unknown"),
    ("a Hello where", "neg.hello"), ("a Welcome where", "neg.welcome"), ("a Turn before", "neg.turn-early"),
    (".*after the end of the session$", "neg.after-end"), ("a Turn of the stage", "neg.stage-order"), ("round ", "neg.round"),
    ("a Turn with data", "neg.after-last"), ("the attributes have", "neg.qp-version"), ("1 octet, ", "neg.qp-header"),
    ("item .* are expected$", "neg.qp-item-length"),
    ("the item ", "neg.qp-item-missing"), (".*is not a word", "neg.ready-word"))
OF_AN_ABORT = {"neg.item-cut": "neg.abort-item-cut", "neg.item-unknown": "neg.abort-item-unknown"}


def rule_of(name, words):
    key = next(key for begin, key in RULES if re.match(begin, words))
    return OF_AN_ABORT[key] if name.endswith("of an abort") else key


class Case:
    """One negotiation in a capture of several. `due`: (frame in its own frames, severity, key, side, words) that must be found."""

    def __init__(self, kind, seed):
        self.chance = random.Random(f"{kind} {seed}")
        self.kind, self.seed, self.capture = kind, seed, Capture()
        self.due, self.optional, self.outcome, self.messages = [], False, None, 0
        self.number = 0

    def connection(self, number, handshake=True):
        self.number = number
        chance = self.chance
        made = self.capture.connect(ports=(10000 + number, 7177), v6=chance.random() < 0.2,
                                    first_numbers=(chance.randrange(2**32), chance.randrange(2**32)))
        return made.handshake() if handshake else made


def drawn(case, number, impaired):
    """A valid one, or one that a side gives up."""
    chance, a = case.chance, case.connection(number)
    talk = Talk(chance)
    over = chance.randrange(1, len(talk.bursts)) if chance.random() < 0.25 else len(talk.bursts)
    for side, said in talk.bursts[:over]:
        send(a, side, b"".join(said), chance, impaired)
        case.messages += len(said)
        if chance.random() < 0.3:
            a.ack(1 - side)
    case.outcome = "agreed"
    if over < len(talk.bursts):
        side = talk.bursts[over][0]
        case.outcome = "refused" if side == RESPONDER and over == 1 else "failed"
        if chance.random() < 0.3:  # without a word
            case.outcome = "failed"
            a.segment(side, b"", chance.choice((FIN, RST)) | ACK)
            return
        send(a, side, abort(text=b"enough"), chance, impaired)
        case.messages += 1
    ends = chance.random()
    if ends < 0.7:
        a.close(chance.choice((INITIATOR, RESPONDER)))
    elif ends < 0.8:
        a.segment(INITIATOR, b"", RST | ACK)


def whole(seed, number):
    case = Case("whole", seed)
    drawn(case, number, False)
    return case


def impaired(seed, number):
    """Cut, repeated and reordered; some of the capture is lost, or its beginning, its end, or the ends of its frames."""
    case = Case("impaired", seed)
    drawn(case, number, True)
    chance, frames = case.chance, case.capture.frames
    for _ in range(chance.choice((0, 1, 1, 2))):
        how = chance.randrange(5)
        if how == 0:
            del frames[:chance.randrange(len(frames))]
        elif how == 1:
            del frames[chance.randrange(1, len(frames) + 1):]
        elif how == 2:
            frames[:] = [frame for frame in frames if chance.random() < 0.85] or frames[:1]
        elif how == 3:
            keep = chance.randrange(60, 120)
            frames[:] = [(*frame[:2], keep) for frame in frames]
        elif how == 4 and len(frames) > 3:  # captured out of order
            place = chance.randrange(len(frames) - 1)
            frames[place], frames[place + 1] = frames[place + 1], frames[place]
    case.optional = True
    return case


def planted(seed, number, beside_loss=False):
    case = Case("beside_loss" if beside_loss else "planted", seed)
    chance, a = case.chance, case.connection(number)
    rows = violations()
    name, before, side, wrong, words = rows[seed % len(rows)]
    case.kind += f" ({name})"
    for who, octets in before:
        send(a, who, octets, chance, impaired=seed // len(rows) % 2 > 0)
    first = len(case.capture.frames)
    a.segment(side, wrong, PSH | ACK)
    severity = "warning" if name.endswith("of an abort") else "error"
    case.due.append((len(case.capture.frames), severity, rule_of(name, words), SIDES[side], words))
    a.send(1 - side, abort())
    a.close(1 - side)
    case.outcome = "failed"
    if beside_loss and first > 3:
        place = chance.randrange(first)
        del case.capture.frames[place]
        case.due = [(frame - (place < frame), *rest) for frame, *rest in case.due]
        case.optional = True
    return case


def beside_loss(seed, number):
    return planted(seed, number, True)


MAKE = {"whole": whole, "impaired": impaired, "planted": planted, "beside_loss": beside_loss}


def judge(case, base, found):
    """What is wrong with what was found, in words."""
    if found is None:
        return [] if case.optional else ["no negotiation is listed"]
    wrong = []
    due = {(base + frame, *rest) for frame, *rest in case.due}
    said = {(f["frame"], f["severity"], f.get("key"), f["side"], f["text"]) for f in found["findings"] if f["severity"] != "note"}
    if case.optional:  # without the Hello, nobody knows which stage is the last, and the words say less
        due, said = ({(*each[:2], each[2].replace("after-end", "stage-order"), each[3]) for each in several} for several in (due, said))
    wrong += [f"said: {each}" for each in sorted(said - due)]
    if not case.optional:
        wrong += [f"not said: {each}" for each in sorted(due - said)]
        if found["outcome"] != case.outcome:
            wrong.append(f"the outcome is {found['outcome']}, {case.outcome} is expected")
        told = found["from_initiator"]["messages"] + found["from_responder"]["messages"]
        if not due and told != case.messages:
            wrong.append(f"{told} messages are told, {case.messages} were sent")
        if not due and found["verdict"] != ("failed" if case.outcome == "failed" else "passed"):
            wrong.append(f"the verdict is {found['verdict']}: {found['reason']}")
    elif not due and found["outcome"] not in (case.outcome, "incomplete") and case.outcome != "failed":
        wrong.append(f"the outcome is {found['outcome']}, no octet says so")
    elif not due and case.outcome == "failed" and found["outcome"] not in ("failed", "refused", "incomplete"):
        wrong.append(f"the outcome is {found['outcome']}, no octet says so")
    return wrong


def written(cases, path):
    """All in one capture; where the frames of each begin."""
    capture, bases = Capture(), []
    out = [capture.octets()]
    count = 0
    for case in cases:
        bases.append(count)
        for time, frame, *keep in case.capture.frames:
            kept = frame[:keep[0]] if keep else frame
            seconds, rest = divmod(time, 1_000_000)
            out.append(b"".join(n.to_bytes(4, "little") for n in (seconds, rest, len(kept), len(frame))) + kept)
            count += 1
    path.write_bytes(b"".join(out))
    return bases


def ends(case):
    connection = case.capture.connections[0]
    return frozenset(f"[{address}]:{port}" if connection.v6 else f"{address}:{port}"
                     for address, port in zip(connection.address, connection.port))


def check(parley, path):
    done = subprocess.run([parley, "pcap", "check", "--json", path], capture_output=True, text=True, timeout=LIMIT)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"parley pcap check ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def anonymized(parley, path):
    """The verdicts on the anonymized copy, in the order of frames."""
    copy = path.with_suffix(".anonymized")
    done = subprocess.run([parley, "pcap", "anonymize", "--key", "of the test", path, "-o", copy], capture_output=True, text=True,
                          timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(f"parley pcap anonymize ended with {done.returncode}: {done.stderr}")
    return shape(check(parley, copy))


def shape(report):
    """What an anonymized copy must keep."""
    return [(n["first_frame"], n["outcome"], n["verdict"], n["stages"], n["done_announced"],
             [(f["frame"], f["severity"], f["side"], f["rule"]) for f in n["findings"] if f["severity"] != "note"]) for n in report.get("negotiations", [])]


def batch(task):
    """How many were asked, and a sentence for each that failed."""
    parley, make, seeds = task
    cases = [MAKE[make](seed, number) for number, seed in enumerate(seeds)]
    with tempfile.TemporaryDirectory() as folder:
        return len(cases), failures(parley, pathlib.Path(folder) / "batch.pcap", cases)


def failures(parley, path, cases):
    bases = written(cases, path)
    report = check(parley, path)
    listed = {frozenset((n["initiator"], n["responder"])): n for n in report.get("negotiations", [])}
    failed = []
    for case, base in zip(cases, bases):
        for words in judge(case, base, listed.get(ends(case))):
            failed.append(f"{case.kind}, seed {case.seed}: {words}")
    if report["connections"]:
        failed.append(f"{len(report['connections'])} MPA connections are listed")
    mine, theirs = shape(report), anonymized(parley, path)
    for one, other in zip(mine, theirs):
        if one != other:
            failed.append(f"anonymized, {cases[0].kind}, seeds {cases[0].seed} and on: {other} in place of {one}")
            break
    if len(mine) != len(theirs):
        failed.append(f"anonymized: {len(theirs)} negotiations, not {len(mine)}")
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parley", required=True)
    parser.add_argument("--seeds", default="1..500", help="FROM..TO")
    parser.add_argument("--valid", action="store_true", help="plant nothing")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    begin, end = map(int, args.seeds.split(".."))
    unbroken = {*dict(RULES).values(), *OF_AN_ABORT.values()} - {rule_of(name, words) for name, *_, words in violations()}
    if unbroken:
        print(f"no violation of neg_broken.py breaks {', '.join(sorted(unbroken))}")
        return 1
    seeds, failed, asked = range(begin, end + 1), [], 0
    tasks = [(args.parley, make, seeds[at:at + BATCH]) for make in list(MAKE)[:2 if args.valid else None]
             for at in range(0, len(seeds), BATCH)]
    with multiprocessing.Pool(args.jobs) as pool:
        for count, wrong in pool.imap(batch, tasks):
            asked += count
            failed += wrong
    print("\n".join(failed[:40] + [f"{asked - len(failed)} passed, {len(failed)} failed"]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
