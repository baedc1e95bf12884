# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Plants mutants in the C++ of one room or of all, one at a time, and tells which of them no test notices.

A survivor is shown with its file, line and change. It is due a test that fails with it, or, where it changes nothing that
anybody can see, an entry in tests/mutate/equivalents.toml with the reason. docs/mutate.md has more.
Exit status: 0 enough were killed, 1 too few, 2 usage, 3 the machine lacks something or the build fails.
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import pathlib
import sys
import time
import tomllib

import build as b
from fates import Fates
from found import Found
from judge import TIME_LIMIT, Judge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EQUIVALENTS = HERE / "equivalents.toml"
FIELDS = ("file", "function", "operator", "before", "after")
JUDGED = ("killed", "survived", "not reached")
ALL_SAMPLE = 500  # of the mutants of all rooms, where the command line says nothing


def arguments():
    p = argparse.ArgumentParser(prog="./dev mutate", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("rooms", nargs="*", metavar="ROOM",
                   help="wire, mpa, nic, cm, capture, ...; none: the pure rooms and drivers, --sample 500")
    p.add_argument("--file", action="append", default=[], help="a .cpp file of a room, once or more often")
    p.add_argument("--line", type=int, help="only what begins in this line of the one --file")
    p.add_argument("--sample", type=int, metavar="N", help="only N of the mutants, chosen by the seed")
    p.add_argument("--one-source", action="store_true", help="only one source of each room, chosen by the seed")
    p.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (1)")
    p.add_argument("--again", type=pathlib.Path, metavar="FILE",
                   help="what an earlier run killed, as its --json says, counts as killed: only the others are run")
    p.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every mutant and its fate there")
    p.add_argument("--threshold", type=float, default=90, metavar="PERCENT", help="of the judged to be killed (90)")
    p.add_argument("--minutes", type=float, default=120, help="end after this; what is left is told as not run (120)")
    p.add_argument("--jobs", type=int, default=1, help="compilers and test programs at once (1)")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "mutate", help="build directory (build/mutate)")
    p.add_argument("--as-built", action="store_true", help="take the build directory as it is; it is up to date")
    args = p.parse_args()
    if args.rooms and args.file:
        p.error("name rooms or files, not both")
    if args.line is not None and len(args.file) != 1:
        p.error("--line goes with one --file")
    if min(args.sample or 1, args.jobs) < 1 or args.sample == 0 or args.minutes <= 0:
        p.error("--sample, --minutes and --jobs are at least 1")
    if not args.rooms and not args.file:
        args.rooms, args.sample = list(b.MUTATED), args.sample or ALL_SAMPLE
    return p, args


def equivalents():
    """Those that nobody can tell from the program as it is, by what they change; each with its reason."""
    found = {}
    for entry in tomllib.loads(EQUIVALENTS.read_text()).get("equivalent", []):
        if set(entry) != {*FIELDS, "reason"} or not entry["reason"]:
            raise b.BuildError(f"{EQUIVALENTS.name}: an entry has the keys {sorted(entry)}, not {sorted([*FIELDS, 'reason'])}")
        found[tuple(entry[f] for f in FIELDS)] = entry["reason"]
    return found


def files_of(args, parser):
    if args.file:
        files = [pathlib.Path(f).resolve() for f in args.file]
        if missing := [f for f in files if not f.is_file() or f.suffix != ".cpp" or not f.is_relative_to(ROOT)]:
            parser.error(f"{missing[0]} is no .cpp file of this tree")
        return [str(f.relative_to(ROOT)) for f in files]
    for room in args.rooms:
        if room not in b.PROGRAMS:
            parser.error(f"no room {room}; the rooms are {', '.join(b.PROGRAMS)}")
    return sorted(str(f.relative_to(ROOT)) for room in args.rooms for f in (ROOT / room).rglob("*.cpp"))


def one_of_each_room(files, seed):
    """The first of each room, in the order that the seed makes."""
    rooms = {}
    for file in sorted(files, key=lambda f: hashlib.sha256(f"{seed} {f}".encode()).digest()):
        rooms.setdefault(file.split("/")[0], file)
    return sorted(rooms.values())


def show(mutant):
    print(f"\n{mutant.place()}: {mutant.status}: {mutant.operator} in {mutant.function or 'no function'}\n{mutant.diff()}",
          flush=True)


def rank(seed, mutant):
    """A mutant's place in the order that the seed makes. It does not depend on other mutants, so that a sample stays nearly
    the same while the program changes."""
    return hashlib.sha256(json.dumps([seed, *mutant.key, mutant.nth]).encode()).digest()


def pick(args, files, builder):
    """How many mutants each room has, and {file: mutants} of the chosen ones."""
    compiled = [f for f in files if str(ROOT / f) in builder.commands]
    if args.one_source:
        compiled = files = one_of_each_room([f for f in compiled if not f.startswith(b.ON_DEVICES)], args.seed)
    for file in sorted(set(files) - set(compiled)):
        print(f"{file}: not compiled here, left out")
    found = Found(ROOT, builder.folder / "found", args.jobs).of({f: builder.arguments(f) for f in compiled})
    every, same = [], collections.Counter()
    for mutant in (m for file in compiled for m in found[file] if args.line in (None, m.line)):
        mutant.nth = same[mutant.key]
        same[mutant.key] += 1
        every.append(mutant)
    totals = collections.Counter(m.room for m in every)
    if args.sample is not None:
        every = sorted(every, key=lambda m: rank(args.seed, m))[:args.sample]
    out = collections.defaultdict(list)
    for mutant in sorted(every, key=lambda m: (m.file, m.line)):
        out[mutant.file].append(mutant)
    return totals, dict(out)


def percent_killed(found):
    judged = [m for m in found if m.status in JUDGED]
    return 100 * sum(m.status == "killed" for m in judged) / len(judged) if judged else 0


def table(totals, chosen):
    """A line for each room, and one for all."""
    columns = ("killed", "survived", "not reached", "on devices", "equivalent", "does not compile", "not run")
    print("\n" + f"{'room':10}{'mutants':>9}{'sample':>8}" + "".join(f"{c:>{len(c) + 2}}" for c in columns) + "  % killed")
    rows = [(room, totals[room], [m for m in chosen if m.room == room]) for room in totals]
    for name, total, found in [*rows, ("all", sum(totals.values()), chosen)]:
        counts = collections.Counter(m.status for m in found)
        print(f"{name:10}{total:9}{len(found):8}" + "".join(f"{counts[c]:{len(c) + 2}}" for c in columns)
              + f"{percent_killed(found):10.1f}")


def summary(args, totals, chosen, taken_over):
    table(totals, chosen)
    percent, judged = percent_killed(chosen), sum(m.status in JUDGED for m in chosen)
    if late := sum(m.killed_by == TIME_LIMIT for m in chosen):
        print(f"{late} of the killed took too long")
    if taken_over:
        print(f"{taken_over} of the killed were killed in the run of {args.again}, and were not run again")
    print(f"{percent:.1f} % of {judged} killed; {args.threshold:g} % are wanted")
    if args.json:
        args.json.write_text(json.dumps({"seed": args.seed, "mutants_in_all": sum(totals.values()),
                                         "killed_percent": round(percent, 1), "threshold": args.threshold,
                                         "mutants": [m.as_json() for m in chosen]}, indent=1) + "\n")
    return 0 if percent >= args.threshold else 1


def take_over(path, chosen):
    """Those that an earlier run killed."""
    try:
        earlier = json.loads(path.read_text())["mutants"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise b.BuildError(f"--again {path}: not what an earlier --json wrote: {error}") from None
    killed = collections.Counter(tuple(m[f] for f in FIELDS) for m in earlier if m["status"] == "killed")
    total = collections.Counter(tuple(m[f] for f in FIELDS) for m in earlier)
    taken = 0
    for mutant in chosen:
        if killed[mutant.key] and killed[mutant.key] == total[mutant.key]:
            mutant.status, mutant.killed_by, taken = "killed", "the run before", taken + 1
    return taken


def judge_them(args, builder, chosen):
    """Gives each mutant its fate, and says how many were taken over from another run."""
    known, fates = equivalents(), Fates(ROOT, builder.work / "fates.jsonl")
    taken_over = take_over(args.again, chosen) if args.again else 0
    for mutant in chosen:
        if mutant.key in known:
            mutant.status = "equivalent"
        elif not mutant.status:
            fates.recall(mutant)
        if mutant.status in ("survived", "not reached"):
            show(mutant)
    if recalled := fates.recalled:
        print(f"{recalled} were judged by an earlier run of this same tree", flush=True)

    def settled(mutant):
        fates.remember(mutant)
        if mutant.status in ("survived", "not reached"):
            show(mutant)

    wanted = collections.defaultdict(lambda: collections.defaultdict(list))
    for mutant in chosen:
        if not mutant.status:
            wanted[mutant.room][mutant.file].append(mutant)
    judge = Judge(builder, time.monotonic() + 60 * args.minutes, settled, args.jobs)

    def one_room(room):
        judge.room({file: (ROOT / file).read_bytes() for file in wanted[room]}, wanted[room])
        found = [m for m in chosen if m.room == room]
        print(f"\n{room}: {sum(m.status == 'killed' for m in found)} of {len(found)} killed", flush=True)

    # As many at once as fill the processors while one of them links or traces.
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs + 1) as pool:
        list(pool.map(one_room, sorted(wanted, key=list(b.PROGRAMS).index)))
    return taken_over


def main():
    parser, args = arguments()
    files = files_of(args, parser)
    try:
        equivalents()
        rooms = b.rooms_of(files)
        builder = b.Build(ROOT, args.build.resolve(), args.jobs)
        print(f"{'taking' if args.as_built else 'building'} the tests of {', '.join(sorted(rooms))} in {args.build}",
              flush=True)
        builder.prepare(rooms, args.as_built)
        totals, picked = pick(args, files, builder)
        chosen = [m for found in picked.values() for m in found]
        if args.list:
            for mutant in chosen:
                print(f"{mutant.place()}: {mutant.operator}\n{mutant.diff()}")
            print(f"{len(chosen)} of {sum(totals.values())} mutants")
            return 0
        print(f"{len(chosen)} of {sum(totals.values())} mutants, in {len(picked)} files", flush=True)
        return summary(args, totals, chosen, judge_them(args, builder, chosen))
    except b.BuildError as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 3
    except ModuleNotFoundError as error:
        print(f"mutate: {error}; Debian's package is python3-clang-14", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
