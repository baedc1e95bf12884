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

    def over(self):
        return time.monotonic() > self.deadline

    def file(self, file, octets, chosen):
        """Sets status (killed, survived, not reached, does not compile, not run) and killed_by of each."""
        for mutant in chosen:
            mutant.status = "not run"
        if self.over():
            return
        programs = [f"test_{p}" for p in PROGRAMS[file.split("/")[0]]]
        together, left = self.compile_together(file, octets, [x for x in chosen if not x.alone])
        left += [x for x in chosen if x.alone]
        tests = {}  # of each program, as far as it was looked at
        for name in programs if together else ():
            open_ones = [x for x in together if x.status != "killed"]
            if self.over():
                for mutant in open_ones:
                    mutant.status = "not run"
            if not open_ones or self.over():
                break
            program = self.build.program(name, self.build.work / "together.o", self.build.trace)
            traced = trace(program, self.build.work / f"{name}.trace")
            tests[name] = [(seconds, test) for seconds, test, _ in traced.tests]
            for mutant in open_ones:
                self.one(mutant, program, traced.of(mutant.number), mutant.number)
        left += [x for x in together if x.status == "not reached" and x.constant]
        for mutant in left:
            self.alone(file, octets, mutant, programs, tests)
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

    def alone(self, file, octets, mutant, programs, tests):
        mutant.status = "not run"
        if self.over():
            return
        try:
            made = self.build.object(file, m.written_alone(octets, mutant), "alone")
        except BuildError:
            mutant.status = "does not compile"
            return
        for name in programs:
            if mutant.status != "killed":
                self.one(mutant, self.build.program(name, made, self.build.trace), tests.get(name, [(30, "*")]), 0)

    def one(self, mutant, program, tests, number):
        """Whether these tests kill it. Only who has met all programs, or was killed, has a verdict that counts."""
        if self.over():
            mutant.status = "not run"
        elif not tests:
            mutant.status = "not reached" if mutant.status == "not run" else mutant.status
        elif failed := run_tests(program, tests, number):
            mutant.status, mutant.killed_by = "killed", failed
        else:
            mutant.status = "survived"
