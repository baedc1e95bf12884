#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Holds the readers of captures to what a generator knows: who did nothing wrong is not accused, who did is found.

    tests/adversary/run.py --parley build/bin/parley --valid 1..100000 --jobs 2
    tests/adversary/run.py --planted 1..2200 --plugin build/dissectors/parley.so --html
    tests/adversary/run.py --kind crc_wrong --planted 1..50 --keep /tmp/kept

A seed of --valid is a conversation in which nobody did wrong, whole or impaired as captures are. A seed of --planted is
one with a single violation, of the kinds in turn. A seed says everything. Standard library only.
"""
import argparse
import collections
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "dissectors"), str(HERE.parent / "lint")]
import case as cases_  # noqa: E402
import plant  # noqa: E402
import said  # noqa: E402
import segments  # noqa: E402

BATCH = 250  # conversations in a file: starting a program costs more than reading one
PAGE = 40  # of them on a page: it draws at most 60, and some are several


class Readers:
    """What each reader says of a file, by case."""

    def __init__(self, options):
        self.parley, self.html, self.tshark = options.parley, options.html, None
        if options.plugin:
            os.environ["PARLEY_PLUGIN"] = os.path.abspath(options.plugin)
            import harness
            self.tshark = harness.Tshark(plugin=True)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="parley-adversary-")
        if self.tshark:
            self.tshark.__enter__()
        return self

    def __exit__(self, *_):
        self.folder.cleanup()
        if self.tshark:
            self.tshark.__exit__()

    def write(self, cases):
        frames = []
        for case in cases:
            case.base = len(frames)
            frames += case.layout.frames(case.segments)
        path = os.path.join(self.folder.name, "batch.pcap")
        with open(path, "wb") as file:
            file.write(segments.pcap(frames))
        return path

    def read(self, cases):
        """[(case, {reader: [Finding]}, what is wrong beyond that)]"""
        if self.html:
            pages = {case: findings for begin in range(0, min(len(cases), PAGE), PAGE)
                     for case, findings in by_case(cases[begin:begin + PAGE], said.page(
                         self.parley, self.write(cases[begin:begin + PAGE])))}
            pages = {case: sorted(map(str, findings)) for case, findings in pages.items()}
            bases = {case: case.base for case in pages}
        path = self.write(cases)
        checked = said.check(self.parley, path)
        shown = table = None
        if self.tshark:
            with open(path, "rb") as file:
                findings, table = said.plugin(self.tshark, self.tshark.file("batch.pcap", file.read()))
            shown = dict(by_case(cases, findings))
        ends = collections.Counter(case.ends for case in cases)
        for case in cases:
            found = [(connection, findings) for connection, findings in checked.get(case.ends, [])
                     if case.base < connection["last_frame"] <= case.base + len(case.segments)]
            readers = {"check": [finding for _, findings in found for finding in findings]}
            wrong = case.judge_table([connection for connection, _ in found])
            if shown is not None:
                readers["plugin"] = shown[case]
                wrong += differences(case, readers)
                if ends[case.ends] == 1:  # rows of connections that share their ports cannot be told from one another
                    wrong += table_differs(case, [connection for connection, _ in found], table.get(case.ends, []))
            if self.html and case in pages:
                wrong += page_differs(case, readers["check"], pages[case], bases[case])
            yield case, readers, wrong


def by_case(cases, findings):
    findings = list(findings)
    for case in cases:
        yield case, [finding for finding in findings if case.holds(finding)]


def differences(case, readers):
    """Where two readers of a capture that lacks nothing differ, one of them is wrong."""
    if case.impairments:
        return []
    keys = {reader: collections.Counter(finding.key() for finding in findings if finding.severity != "note")
            for reader, findings in readers.items()}
    wrong = []
    for one, other in (("check", "plugin"), ("plugin", "check")):
        for finding in readers[one]:
            if finding.severity != "note" and keys[one][finding.key()] > keys[other][finding.key()]:
                wrong.append(f"{one} alone: {finding}")
    return wrong


COLUMNS = {"Outcome": lambda c: c["outcome"].replace("_", " "), "Rev": lambda c: c["revision"], "Errors": lambda c: severity(c, "error"),
           "Warnings": lambda c: severity(c, "warning"), "FPDUs>": lambda c: c["from_initiator"]["fpdus"],
           "<FPDUs": lambda c: c["from_responder"]["fpdus"], "Msgs>": lambda c: c["from_initiator"]["messages"],
           "<Msgs": lambda c: c["from_responder"]["messages"], "Request ms": lambda c: step(c, "request"),
           "Reply ms": lambda c: step(c, "reply"), "First FPDU ms": lambda c: step(c, "first_fpdu"),
           "IRD/ORD": lambda c: f"{c['ird']}/{c['ord']}" if c["depths_negotiated"] else None}


def severity(connection, name):
    return sum(finding["severity"] == name for finding in connection["findings"])


def step(connection, name):
    value = connection["steps_ms"][name]
    return "-" if value is None else f"{value:.3f}"


def table_differs(case, connections, rows):
    """What the plugin's table and check's say of a connection of which nothing is missing."""
    if case.impairments or not all(connection["mpa"]["request"] for connection in connections):
        return []  # where FPDUs begin is not known then: each finds some
    if len(rows) != len(connections):
        return [f"the plugin's table has {len(rows)} rows, check lists {len(connections)} connections"]
    return [f"the plugin's table says {name} {row[name]}, check {value}"
            for connection, row in zip(connections, rows)
            for name, value in ((name, due(connection)) for name, due in COLUMNS.items())
            if value is not None and str(value) != min(row[name].split(", "))]  # revisions of Request and Reply


def page_differs(case, checked, page, base):
    """The page is drawn from what check found; its file is another one, with other frame numbers."""
    shift = base - case.base
    due = sorted(str(said.Finding(finding.frame + shift, finding.severity, finding.rule, re.sub(
        r"\bframe (\d+)", lambda found: f"frame {int(found.group(1)) + shift}", finding.text))) for finding in checked)
    return [f"the page alone: {text}" for text in page if text not in due] + [
        f"not on the page: {text}" for text in due if text not in page]


def shrink(readers, case, keep):
    """The fewest segments of which the same is said: leaving one out is a loss by the capture, which accuses nobody."""
    name = case.option.strip("-").replace(" --", "_").replace(" ", "_")
    path = pathlib.Path(keep) / f"{name}_{case.layout.number & 1}.pcap"

    def complaint():
        (_, found, wrong), = readers.read([case])
        return {*wrong, *((reader, finding.kind()) for reader, findings in found.items() for finding in findings
                          if finding.severity == "error")}
    wanted = complaint() if case.impairments and isinstance(case, cases_.Valid) else ()
    size = len(case.segments) // 2 if wanted else 0
    while size:
        place = 0
        while place < len(case.segments):
            before = case.segments
            case.segments = before[:place] + before[place + size:]
            if not complaint() & wanted:
                case.segments = before
                place += size
        size //= 2
    path.write_bytes(case.octets())
    return path


def run_batch(task):
    options, make, seeds = task
    cases = [case for seed in seeds for case in cases_.MAKE[make](seed, seed % BATCH, options.kind)]
    wholes = [case.without_impairments() for case in cases if options.warnings and case.impairments]
    failures, odd = [], collections.Counter()
    with Readers(options) as readers:
        everything = list(readers.read(cases + wholes))
        warned = {case: {reader: warnings(findings) for reader, findings in found.items()}
                  for case, found, _ in everything}
        for case, found, wrong in everything[:len(cases)]:
            for reader, findings in found.items():
                wrong += [f"{reader}: {sentence}" for sentence in case.judge(findings, reader)]
            if options.warnings and case.impairments:
                wrong += [f"{reader}: the whole capture draws no {warning}" for reader, seen in warned[case].items()
                          for warning in seen - warned[case.whole][reader]]
            if not case.impairments and make == "valid":
                odd.update(finding.kind() for finding in found["check"] if finding.severity == "warning")
            if wrong:
                failures.append(failure(options, readers, case, wrong))
    return len(seeds) - len({seed for seed, _, _ in failures}), failures, odd


def warnings(findings):
    return {finding.kind() for finding in findings if finding.severity == "warning"}


def guarded(task):
    try:
        return run_batch(task)
    except Exception:  # what a worker says would otherwise be lost
        traceback.print_exc()
        raise


def failure(options, readers, case, wrong):
    """What a person needs to know of it, and the kinds of what is wrong."""
    lines = [f"seed {case.seed} ({case.title()}), frames from {case.base + 1}:",
             *(f"    {sentence}" for sentence in wrong)]
    more = f" --plugin {options.plugin}" * bool(options.plugin) + " --html" * options.html
    lines.append(f"    again: tests/adversary/run.py --parley {options.parley} {case.option}{more} --keep .")
    if options.keep:
        lines.append(f"    kept: {shrink(readers, case, options.keep)}")
    kinds = [case.about + said.kind(re.sub("frames? [0-9, ]+(: )?", "", sentence)) for sentence in wrong]
    return case.seed, "\n".join(lines), kinds


def numbers(text):
    first, _, last = text.partition("..")
    return range(int(first), int(last or first) + 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parley", default=os.environ.get("PARLEY", "build/bin/parley"), help="the program")
    parser.add_argument("--valid", type=numbers, default=(), metavar="FIRST..LAST", help="seeds without a violation")
    parser.add_argument("--planted", type=numbers, default=(), metavar="FIRST..LAST", help="seeds with one violation")
    parser.add_argument("--beside-loss", type=numbers, default=(), metavar="FIRST..LAST",
                        help="seeds with one violation, of which the capture lacks a segment elsewhere")
    parser.add_argument("--kind", action="append", choices=plant.ROWS, metavar="NAME", help="plant these alone")
    parser.add_argument("--kinds", action="store_true", help="list the kinds of violations")
    parser.add_argument("--plugin", metavar="FILE", help="ask tshark with this plugin too")
    parser.add_argument("--html", action="store_true", help=f"ask the ladders as a page too, for {PAGE} of {BATCH}")
    parser.add_argument("--warnings", action="store_true",
                        help="allow impaired captures no warning but those of the whole ones")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", metavar="DIR", help="where to leave the smallest capture of each failure")
    parser.add_argument("--odd", action="store_true", help="list the warnings about whole valid captures")
    parser.add_argument("--first", type=int, default=10, metavar="N", help="how many failures to print")
    return parser.parse_args()


def main():
    options = arguments()
    if options.kinds:
        print(*plant.ROWS, sep="\n")
        return 0
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
    tasks = [(options, make, seeds[i:i + BATCH])
             for make, seeds in (("valid", options.valid), ("planted", options.planted),
                                ("beside_loss", options.beside_loss))
             for i in range(0, len(seeds), BATCH)]
    passed, failed, kinds, odd = 0, 0, collections.Counter(), collections.Counter()
    with multiprocessing.Pool(options.jobs) as pool:
        for good, failures, strange in pool.imap_unordered(guarded, tasks):
            passed += good
            odd.update(strange)
            seeds_failed = set()
            for seed, text, wrong in failures:
                seeds_failed.add(seed)
                kinds.update(wrong)
                if failed + len(seeds_failed) <= options.first:
                    print(text, flush=True)
            failed += len(seeds_failed)
    for title, counted in (("by kind:", kinds), ("warnings about whole captures:", odd if options.odd else ())):
        if counted:
            print(title)
            for kind, times in counted.most_common():
                print(f"  {times:6} {kind}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
