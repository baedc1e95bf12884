# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Plants mutants in the C++ of a room, one at a time, and tells which of them no test notices.

A survivor is shown with its file, line and change. It is due a test that fails with it, or, where it changes nothing that
anybody can see, an entry in tests/mutate/equivalents.toml with the reason. docs/mutate.md has more.
Exit status: 0 enough were killed, 1 too few, 2 usage, 3 the machine lacks something or the build fails.
"""
import argparse
import collections
import json
import pathlib
import random
import sys
import time
import tomllib

import build as b
from judge import Judge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EQUIVALENTS = HERE / "equivalents.toml"
FIELDS = ("file", "function", "operator", "before", "after")
JUDGED = ("killed", "survived", "not reached")


def arguments():
    p = argparse.ArgumentParser(prog="./dev mutate", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("room", nargs="?", help="a folder: wire, mpa, nic, cm, capture, ...")
    p.add_argument("--file", action="append", default=[], help="a .cpp file of a room, once or more often")
    p.add_argument("--line", type=int, help="only what begins in this line of the one --file")
    p.add_argument("--sample", type=int, metavar="N", help="only N of the mutants, chosen by the seed")
    p.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample (1)")
    p.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every mutant and its fate there")
    p.add_argument("--threshold", type=float, default=90, metavar="PERCENT", help="of the judged to be killed (90)")
    p.add_argument("--minutes", type=float, default=60, help="end after this; what is left is told as not run (60)")
    p.add_argument("--jobs", type=int, default=1, help="compilers at once for the first build (1)")
    p.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "mutate", help="build directory (build/mutate)")
    args = p.parse_args()
    if bool(args.room) == bool(args.file):
        p.error("name a room, or one --file or more")
    if args.line is not None and len(args.file) != 1:
        p.error("--line goes with one --file")
    if (args.sample is not None and args.sample < 1) or args.minutes <= 0 or args.jobs < 1:
        p.error("--sample, --minutes and --jobs are at least 1")
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
    if args.room not in b.PROGRAMS:
        parser.error(f"no room {args.room}; the rooms are {', '.join(b.PROGRAMS)}")
    return sorted(str(f.relative_to(ROOT)) for f in (ROOT / args.room).rglob("*.cpp"))


def show(mutant):
    print(f"\n{mutant.place()}: {mutant.status}: {mutant.operator} in {mutant.function or 'no function'}\n{mutant.diff()}",
          flush=True)


def pick(args, files, builder):
    """{file: (octets, mutants)} of the chosen ones."""
    import operators  # needs libclang, which the help does not
    sources, all_of_them = {}, []
    for file in files:
        if str(ROOT / file) not in builder.commands:
            print(f"{file}: not compiled here, left out")
            continue
        octets, found = operators.find(ROOT / file, file, builder.arguments(file))
        sources[file] = octets
        all_of_them += [m for m in found if args.line in (None, m.line)]
    total = len(all_of_them)
    if args.sample is not None and args.sample < total:
        all_of_them = random.Random(args.seed).sample(all_of_them, args.sample)
    out = collections.defaultdict(list)
    for mutant in all_of_them:
        out[mutant.file].append(mutant)
    return total, {f: (sources[f], sorted(found, key=lambda m: m.line)) for f, found in sorted(out.items())}


def summary(args, total, chosen, known):
    counts = collections.Counter(m.status for m in chosen)
    judged = sum(counts[s] for s in JUDGED)
    percent = 100 * counts["killed"] / judged if judged else 100
    print(f"\n{len(chosen)} of {total} mutants: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())))
    print(f"{percent:.1f} % of {judged} killed; {args.threshold:g} % are wanted")
    if args.json:
        args.json.write_text(json.dumps({"seed": args.seed, "mutants_in_all": total, "killed_percent": round(percent, 1),
                                         "threshold": args.threshold, "equivalents_known": len(known),
                                         "mutants": [m.as_json() for m in chosen]}, indent=1) + "\n")
    return 0 if percent >= args.threshold else 1


def main():
    parser, args = arguments()
    files = files_of(args, parser)
    try:
        known = equivalents()
        rooms = b.rooms_of(files)
        builder = b.Build(ROOT, args.build.resolve(), args.jobs)
        print(f"building the tests of {', '.join(sorted(rooms))} in {args.build}", flush=True)
        builder.prepare(rooms)
        total, picked = pick(args, files, builder)
        chosen = [m for _, found in picked.values() for m in found]
        if args.list:
            for mutant in chosen:
                print(f"{mutant.place()}: {mutant.operator}\n{mutant.diff()}")
            print(f"{len(chosen)} of {total} mutants")
            return 0
        judge = Judge(builder, time.monotonic() + 60 * args.minutes, show)
        for file, (octets, found) in picked.items():
            wanted = []
            for mutant in found:
                if mutant.key in known:
                    mutant.status = "equivalent"
                else:
                    wanted.append(mutant)
            if wanted:
                judge.file(file, octets, wanted)
            print(f"{file}: {sum(m.status == 'killed' for m in found)} of {len(found)} killed", flush=True)
        return summary(args, total, chosen, known)
    except b.BuildError as error:
        print(f"mutate: {error}", file=sys.stderr)
        return 3
    except ModuleNotFoundError as error:
        print(f"mutate: {error}; Debian's package is python3-clang-14", file=sys.stderr)
        return 3


if __name__ == "__main__":
    sys.exit(main())
