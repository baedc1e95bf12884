# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""judge.py [SCENARIO [SEED]]: runs a scenario, records it, and prints the verdict on each connection in the capture."""
import pathlib
import sys
import tempfile

from parley import tool


def main(scenario="drop_reply", seed=1):
    with tempfile.TemporaryDirectory() as folder:
        capture = pathlib.Path(folder, "run.pcapng")
        passed, _ = tool.run_scenario(scenario, seed, "--pcapng", capture)
        print(f"{scenario}: {'passed' if passed else 'failed'}")
        verdict = tool.check_capture(capture)
        for connection in verdict["connections"]:
            print(f"{connection['initiator']} > {connection['responder']}: {connection['verdict']}")
            for finding in connection["findings"]:
                print(f"  frame {finding['frame']}: {finding['severity']}: {finding['text']}")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
