# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs `parley pcap check --json` on every capture and compares verdict and exit code with the reviewed ones."""
import json
import pathlib
import subprocess
import sys
import tempfile


def run(parley, *args):
    done = subprocess.run([parley, "pcap", "check", *map(str, args)], capture_output=True, text=True, timeout=50)
    return done.returncode, done.stdout, done.stderr


def golden(parley, tests, problems):
    captures = sorted((tests / "captures" / "iwarp").glob("*.pcap"))
    status, out, err = run(parley, "--json", *captures)
    lines = out.splitlines()
    if len(lines) != len(captures) or err:
        problems.append(f"{len(captures)} captures gave {len(lines)} lines, and on standard error: {err!r}")
    for capture, line in zip(captures, lines):
        verdict = json.loads(line)
        verdict["file"] = capture.name
        expected = json.loads((tests / "golden" / "iwarp" / f"{capture.stem}.json").read_text(encoding="utf-8"))
        if verdict != expected:
            problems.append(f"{capture.name}: the verdict is not the reviewed one")
        alone, _, _ = run(parley, capture)
        if alone != (1 if expected["errors"] else 0):
            problems.append(f"{capture.name}: exit code {alone}, errors {expected['errors']}")
    if status != 1:
        problems.append(f"all captures together: exit code {status}, not 1")


def unreadable(parley, tests, problems):
    whole = (tests / "captures" / "iwarp" / "made_01_v1_nomarker.pcap").read_bytes()
    wrong_link = whole[:20] + (197).to_bytes(4, "little") + whole[24:]
    cases = {"truncated": (whole[:-7], "truncated"), "empty": (b"", "empty"), "text": (b"x" * 99, "not a pcap"),
             "link": (wrong_link, "link type 197")}
    with tempfile.TemporaryDirectory() as folder:
        missing = pathlib.Path(folder) / "missing"
        for name, (octets, word) in cases.items():
            (pathlib.Path(folder) / name).write_bytes(octets)
        for path, word in [(missing, "No such file"), *((pathlib.Path(folder) / n, w) for n, (_, w) in cases.items())]:
            for flags in ([], ["--json"]):
                status, out, err = run(parley, *flags, path)
                if status != 3 or word not in err or err.count("\n") != 1:
                    problems.append(f"{path.name}: exit code {status}, standard error {err!r}")
                if flags and "connections" not in json.loads(out):
                    problems.append(f"{path.name}: JSON without connections")


def main():
    parley, tests = sys.argv[1], pathlib.Path(sys.argv[2])
    problems = []
    golden(parley, tests, problems)
    unreadable(parley, tests, problems)
    print("\n".join(problems) or "every verdict is the reviewed one")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
