# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Plants the faults of list.toml and proves that a simulated run finds each.

`mutate.py list` prints "name;file" for each mutant, for CMake. `mutate.py write NAME OUT` copies the mutant's source
with its text replaced; the text must occur exactly once. `mutate.py judge NAME --mutant PROGRAM --parley PROGRAM` runs
the mutant's command with both: the program as it is must pass, the mutant must fail and its checker must complain.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KEYS = {"name", "meaning", "file", "text", "replacement", "command", "checker"}
SECONDS = 900  # for one run: only a hang takes as long, on a slow machine too
TIME = "bound of time"  # as a checker: the run is not over when it has to be


def mutants():
    """By name, in file order; text and replacement are lists of the same length."""
    found = {}
    for mutant in tomllib.loads((HERE / "list.toml").read_text())["mutant"]:
        name = mutant.get("name", "without a name")
        if set(mutant) != KEYS:
            raise SystemExit(f"mutant {name}: has the keys {sorted(mutant)}, not {sorted(KEYS)}")
        if name in found or not re.fullmatch(r"[a-z_]+", name):
            raise SystemExit(f"mutant {name}: named twice, or not in small letters")
        for key in ("text", "replacement"):
            mutant[key] = [mutant[key]] if isinstance(mutant[key], str) else mutant[key]
        if len(mutant["text"]) != len(mutant["replacement"]):
            raise SystemExit(f"mutant {name}: {len(mutant['text'])} texts for {len(mutant['replacement'])} replacements")
        found[name] = mutant
    return found


def mutated(mutant, source):
    for text, replacement in zip(mutant["text"], mutant["replacement"]):
        if (count := source.count(text)) != 1:
            raise SystemExit(f"mutant {mutant['name']}: its text occurs {count} times in {mutant['file']}, not once:\n{text}\n"
                             "write the text in tests/mutants/list.toml as the source says it now")
        source = source.replace(text, replacement)
    return source


def write(mutant, out):
    changed = mutated(mutant, (ROOT / mutant["file"]).read_text())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(changed)


def run(program, command):
    """(exit status, output); a program that does not end has failed with neither."""
    environment = {**os.environ, "NO_COLOR": "1"}
    try:
        done = subprocess.run([program, *command.split()], cwd=ROOT, env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None, f"not over after {SECONDS} s"
    return done.returncode, done.stdout.decode(errors="replace")


def judge(mutant, mutant_program, parley):
    command = mutant["command"]
    status, output = run(parley, command)
    if status != 0:
        return f"parley {command} does not pass without the fault (exit status {status}):\n{output}"
    status, output = run(mutant_program, command)
    said = "not over at its bound \\(time\\)" if mutant["checker"] == TIME else mutant["checker"] + " at"
    complaint = re.search(rf"^ +{said}.*$", output, re.MULTILINE)
    if status != 1 or not complaint:
        return (f"nobody saw that {mutant['file']} is broken: {mutant['meaning']}\n"
                f"parley {command}: exit status {status}, and no complaint of '{mutant['checker']}':\n{output}")
    print(f"{mutant['name']}: {mutant['meaning']}\nfound by parley {command}:\n{complaint[0]}")
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    actions = parser.add_subparsers(dest="action", required=True)
    actions.add_parser("list")
    writer = actions.add_parser("write")
    writer.add_argument("name")
    writer.add_argument("out", type=pathlib.Path)
    judger = actions.add_parser("judge")
    judger.add_argument("name")
    judger.add_argument("--mutant", required=True)
    judger.add_argument("--parley", required=True)
    arguments = parser.parse_args()
    known = mutants()
    if arguments.action == "list":
        print("\n".join(f"{m['name']};{m['file']}" for m in known.values()))
        return 0
    mutant = known.get(arguments.name)
    if mutant is None:
        raise SystemExit(f"there is no mutant {arguments.name}")
    if arguments.action == "write":
        write(mutant, arguments.out)
        return 0
    if failure := judge(mutant, arguments.mutant, arguments.parley):
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
