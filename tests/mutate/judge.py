# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs the tests that reach a mutant, the cheapest first, until one fails."""
import re
import subprocess
import time

import mutants as m
from build import BuildError, PROGRAMS, environment

SLOWER = 10      # times longer than the tests took before is for ever
SECONDS_MIN = 5
TRACE_SECONDS = 600
FILTER_MAX = 100_000  # octets of a command line


class Trace:
    """Which tests of a program reach which mutants, and how long each takes."""

    def __init__(self, path):
        self.tests = []  # (seconds, name, numbers)
        for line in path.read_text().splitlines():
            name, nanoseconds, *numbers = line.split()
            self.tests.append((int(nanoseconds) / 1e9, name, frozenset(map(int, numbers))))
        self.tests.sort(key=lambda t: t[0])

    def of(self, number):
        return [(seconds, name) for seconds, name, numbers in self.tests if number in numbers]


def trace(program, path):
    path.unlink(missing_ok=True)
    try:
        done = subprocess.run([program, "--gtest_brief=1"], env=environment(PARLEY_MUTANT_TRACE=str(path)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TRACE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{program.name} took longer than {TRACE_SECONDS} s without any mutant") from None
    if done.returncode != 0:
        raise BuildError(f"{program.name} fails without any mutant:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return Trace(path)


def run_tests(program, tests, number):
    """The test that fails, or none."""
    names = ":".join(name for _, name in tests)
    limit = max(SECONDS_MIN, SLOWER * sum(seconds for seconds, _ in tests))
    command = [program, "--gtest_brief=1", "--gtest_fail_fast"]
    if len(names) <= FILTER_MAX:
        command.append(f"--gtest_filter={names}")
    try:
        done = subprocess.run(command, env=environment(PARLEY_MUTANT=str(number)), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        return "time limit"
    if done.returncode == 0:
        return None
    failed = re.search(r"^\[  FAILED  \] (\S+?)(?:,| \()", done.stdout.decode(errors="replace"), re.M)
    return failed[1] if failed else f"exit status {done.returncode}"


class Judge:
    def __init__(self, build, deadline, say):
        self.build, self.deadline, self.say = build, deadline, say

    def file(self, file, octets, chosen):
        """Sets status (killed, survived, not reached, does not compile, not run) and killed_by of each."""
        programs = [f"test_{p}" for p in PROGRAMS[file.split("/")[0]]]
        together = [x for x in chosen if not x.alone]
        together, thrown_out = self.compile_together(file, octets, together)
        if together:
            linked = [(name, self.build.program(name, self.build.work / "together.o", self.build.trace))
                      for name in programs]
            traces = {name: trace(path, self.build.work / f"{name}.trace") for name, path in linked}
            for mutant in together:
                self.one(mutant, [(path, traces[name].of(mutant.number), mutant.number) for name, path in linked])
        again = [x for x in together if x.status == "not reached" and x.constant]
        everything = {name: [(t[0], t[1]) for t in traces[name].tests] for name in programs} if together else {}
        for mutant in [x for x in chosen if x.alone] + thrown_out + again:
            self.alone(file, octets, mutant, programs, everything)
        for mutant in chosen:
            if mutant.status in ("survived", "not reached"):
                self.say(mutant)

    def compile_together(self, file, octets, wanted):
        """Those that compile in one source, and those that are left for a compilation of their own."""
        thrown_out = []
        while wanted:
            for number, mutant in enumerate(wanted, 1):
                mutant.number = number
            try:
                self.build.object(file, m.written_together(octets, wanted), "together")
                break
            except BuildError as error:
                lines = {int(n) for n in re.findall(rf"{re.escape(file)}:(\d+):\d+: error", str(error))}
                lines |= {int(n) for n in re.findall(rf"{re.escape(file)}:(\d+):\d+:   required from", str(error))}
                bad = [x for x in wanted if x.line in lines] or wanted
                thrown_out += bad
                wanted = [x for x in wanted if x not in bad]
        return wanted, thrown_out

    def alone(self, file, octets, mutant, programs, everything):
        if time.monotonic() > self.deadline:
            mutant.status = "not run"
            return
        try:
            made = self.build.object(file, m.written_alone(octets, mutant), "alone")
        except BuildError:
            mutant.status = "does not compile"
            return
        self.one(mutant, [(self.build.program(name, made, self.build.trace), everything.get(name) or [(30, "*")], 0)
                          for name in programs])

    def one(self, mutant, runs):
        mutant.status = "not reached"
        for program, tests, number in runs:
            if time.monotonic() > self.deadline:
                mutant.status = "not run"
                return
            if not tests:
                continue
            if failed := run_tests(program, tests, number):
                mutant.status, mutant.killed_by = "killed", failed
                return
            mutant.status = "survived"
