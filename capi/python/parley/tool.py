# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the command `parley` does: scenarios, and verdicts on captures. PARLEY names the command, if it is not in PATH. All results are
its JSON (docs/schema), and what could not be done is a ToolError."""
import json
import os
import subprocess


class ToolError(Exception):
    """The command could not do it: exit status 2 (usage) or 3 (environment). `status`, and its message."""

    def __init__(self, status, text):
        self.status = status
        super().__init__(text)


def events(*arguments, timeout=None):
    """(exit status, its JSON events) of `parley ARGUMENTS --json`. Status 0: good, 1: failed or findings."""
    command = [os.environ.get("PARLEY") or "parley", *map(str, arguments), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode not in (0, 1):
        raise ToolError(done.returncode, done.stderr.strip() or f"{' '.join(command)} ended with {done.returncode}")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def check_capture(path, *options):
    """The verdict on a capture file (`parley pcap check`): a dict with `connections` and their findings."""
    return events("pcap", "check", path, *options)[1][-1]


def run_scenario(path, seed=None, *options):
    """(passed, events) of a scenario, by its file or its name (`parley sim run`)."""
    status, told = events("sim", "run", path, *(() if seed is None else ("--seed", seed)), *options)
    return status == 0, told
