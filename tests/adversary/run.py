#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds the readers of captures to what a generator knows: who did nothing wrong is not accused.

    tests/adversary/run.py --parley build/bin/parley --valid 1..1000
    tests/adversary/run.py --parley build/bin/parley --valid 77 --keep /tmp/kept

Each seed is one conversation, whole or impaired as captures are; a seed says everything. Standard library only.
"""
import argparse
import collections
import multiprocessing
import os
import pathlib
import random
import re
import sys
import tempfile
import traceback

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parent.parent / "dissectors")]
import conversation  # noqa: E402
import impair  # noqa: E402
import plant  # noqa: E402
import plant_rdmap  # noqa: E402, F401
import plant_setup  # noqa: E402, F401
import plant_stream  # noqa: E402, F401
import said  # noqa: E402
import segments  # noqa: E402
import wire  # noqa: E402

BATCH = 250


class Case:
    """A conversation in a capture, and what its readers must make of it."""

    def __init__(self, seed, number, conversation_, option):
        self.seed, self.number, self.option = seed, number, option
        self.layout = segments.Layout(conversation_, f"{seed} {number}", number)
        self.segments, self.impairments = self.layout.segments, []
        self.base = 0  # the frames that stand before it in its file

    @property
    def ends(self):
        return frozenset(self.layout.names())

    def octets(self):
        return segments.pcap(self.layout.frames(self.segments))


class Valid(Case):
    """Nobody did wrong, whatever the capture lacks."""

    about = ""

    def __init__(self, seed, number, conversation_):
        super().__init__(seed, number, conversation_, f"--valid {seed}")
        self.segments, self.impairments = impair.impair(self.layout, random.Random(f"impair {seed} {number}"))

    def judge(self, found):
        """What is wrong with what was said, a sentence each; and what else was said of a capture that lacks nothing."""
        wrong, odd = [], []
        known = self.layout.conversation.known
        if not self.impairments and known and len(found) != 1:
            wrong.append(f"{len(found)} connections are listed for one")
        for connection, findings in found:
            wrong += [str(finding) for finding in findings if finding.severity == "error"]
            if self.impairments:
                continue
            odd += [finding.kind() for finding in findings if finding.severity == "warning"]
            for key, value in known.items():
                if value is not None and connection[key] != value:
                    wrong.append(f"{key} is {connection[key]!r}, {value!r} is due")
            for side, name in enumerate(("from_initiator", "from_responder")):
                sent = sum(unit.kind == "fpdu" and unit.side == side for unit in self.layout.conversation.units)
                if known and connection[name]["fpdus"] != sent:
                    wrong.append(f"{name} has {connection[name]['fpdus']} FPDUs, {sent} were sent")
        return wrong, odd

    def title(self):
        return f"{self.layout.conversation.style}, {', '.join(self.impairments) or 'whole'}"


# What else may be said of a conversation with one fault: it is true of it, and no fault.
BESIDE = r"did not ask for CRC \(C=0\)"


class Planted(Case):
    """One side broke one rule once."""

    def __init__(self, seed, number, name):
        self.planted = plant.Planted(name, seed)
        self.about = f"{name}: "
        super().__init__(seed, number, self.planted.conversation, f"--kind {name} --planted {seed}")

    def judge(self, found):
        row, planted = self.planted.row, self.planted
        if len(found) != 1:
            return [f"{len(found)} connections are listed for one"], []
        findings = [finding for finding in found[0][1] if finding.severity != "note"]
        places = {self.base + place + 1 for unit in planted.units for place in self.places(unit)}
        due = [finding for finding in findings if finding.severity in row.severity and finding.rule in row.rules and
               finding.side == plant.SIDES[planted.side] and finding.frame in places]
        beside = "|".join(filter(None, (BESIDE, row.beside, planted.conversation.rtr == "frame" and "answered S with S")))
        wrong = [f"also said: {finding}" for finding in findings if finding not in due and not re.search(beside, finding.text)]
        if not due:
            wrong.insert(0, f"not found: {' or '.join(row.severity)} by the {plant.SIDES[planted.side]} at frame {', '.join(map(str, sorted(places)))} "
                            f"[{' or '.join(row.rules)}]")
        return wrong, []

    def places(self, unit):
        if unit.kind == "fin":
            return [index for index, segment in enumerate(self.segments) if segment.side == unit.side and segment.flags & wire.FIN]
        return self.layout.frames_of(unit, self.segments)

    def title(self):
        return f"{self.planted.row.name} by the {plant.SIDES[self.planted.side]}"


def valid_cases(_, seed, number):
    return [Valid(seed, number * 2 + index, one) for index, one in enumerate(conversation.fall_back(seed))]


def planted_cases(options, seed, number):
    kinds = options.kind or list(plant.ROWS)
    return [Planted(seed, number * 2, kinds[seed % len(kinds)])]


MAKE = {"valid": valid_cases, "planted": planted_cases}


def shrink(parley, case, keep):
    """The fewest segments of which the same is said: leaving one out is a loss by the capture, which accuses nobody."""
    path = pathlib.Path(keep) / f"{case.option.strip('-').replace(' --', '_').replace(' ', '_')}_{case.number & 1}.pcap"

    def complaint():
        path.write_bytes(case.octets())
        return {finding.kind() for _, findings in said.check(parley, path).get(case.ends, []) for finding in findings
                if finding.severity == "error"}
    wanted = complaint()
    if wanted and case.impairments:
        size = max(1, len(case.segments) // 2)
        while size:
            place = 0
            while place < len(case.segments):
                before = case.segments
                case.segments = before[:place] + before[place + size:]
                if not complaint() & wanted:
                    case.segments = before
                    place += size
            size //= 2
        complaint()
    return path


def run_batch(task):
    options, make, seeds = task
    failures, odd = [], collections.Counter()
    cases = [case for seed in seeds for case in MAKE[make](options, seed, seed % BATCH)]
    with tempfile.TemporaryDirectory(prefix="parley-adversary-") as folder:
        frames = []
        for case in cases:
            case.base = len(frames)
            frames += case.layout.frames(case.segments)
        path = os.path.join(folder, "batch.pcap")
        with open(path, "wb") as file:
            file.write(segments.pcap(frames))
        found = said.check(options.parley, path)
        failed = set()
        for case in cases:
            wrong, strange = case.judge(found.get(case.ends, []))
            odd.update(strange)
            if wrong:
                failed.add(case.seed)
                failures.append(failure(options, case, wrong))
    return len(set(seeds)) - len(failed), failures, odd


def failure(options, case, wrong):
    """What a person needs to know of it, and the kinds of what is wrong."""
    lines = [f"seed {case.seed} ({case.title()}), frames from {case.base}:", *(f"    {sentence}" for sentence in wrong)]
    lines.append(f"    again: tests/adversary/run.py --parley {options.parley} {case.option} --keep .")
    if options.keep:
        lines.append(f"    kept: {shrink(options.parley, case, options.keep)}")
    return case.seed, "\n".join(lines), [case.about + said.kind(re.sub("frames? [0-9, ]+(: )?", "", sentence)) for sentence in wrong]


def numbers(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parley", default=os.environ.get("PARLEY", "build/bin/parley"), help="the program")
    parser.add_argument("--valid", type=numbers, default=(), metavar="FIRST..LAST", help="seeds of valid conversations")
    parser.add_argument("--planted", type=numbers, default=(), metavar="FIRST..LAST", help="seeds with one violation each")
    parser.add_argument("--kind", action="append", choices=plant.ROWS, metavar="NAME", help="these violations alone")
    parser.add_argument("--kinds", action="store_true", help="list the violations")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="where to leave the smallest capture of each failure")
    parser.add_argument("--odd", action="store_true", help="list the warnings that whole captures drew")
    parser.add_argument("--first", type=int, default=10, metavar="N", help="how many failures to print")
    options = parser.parse_args()
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    if options.kinds:
        print(*plant.ROWS, sep="\n")
        return 0
    tasks = [(options, make, seeds[i:i + BATCH]) for make, seeds in (("valid", options.valid), ("planted", options.planted))
             for i in range(0, len(seeds), BATCH)]
    passed, failed, kinds, odd = 0, 0, collections.Counter(), collections.Counter()
    with multiprocessing.Pool(options.jobs) as pool:
        for good, failures, strange in (pool.imap_unordered(guarded, tasks) if options.jobs > 1 else map(guarded, tasks)):
            passed += good
            odd.update(strange)
            seeds_failed = set()
            for seed, text, wrong in failures:
                seeds_failed.add(seed)
                kinds.update(wrong)
                if failed + len(seeds_failed) <= options.first:
                    print(text, flush=True)
            failed += len(seeds_failed)
    if kinds:
        print("by kind:")
        for kind, times in kinds.most_common():
            print(f"  {times:6} {kind}")
    if options.odd:
        print("warnings about whole captures:")
        for kind, times in odd.most_common():
            print(f"  {times:6} {kind}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def guarded(task):
    try:
        return run_batch(task)
    except Exception:  # what a worker says would otherwise be lost
        traceback.print_exc()
        raise


if __name__ == "__main__":
    sys.exit(main())
