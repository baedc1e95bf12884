# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs the tests that reach a mutant, the cheapest first, until one fails."""
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import mutants as m
from build import BuildError, ON_DEVICES, PROGRAMS, environment

SLOWER = 10      # times longer than the tests took before is for ever
SECONDS_MIN = 5
SECONDS_FIRST = 2  # the cheapest tests, up to this in all, go first: most mutants die there
TRACE_SECONDS = 600
FILTER_MAX = 100_000  # octets of a command line
NUMBERS = (1 << 16) - 1  # of parley_mutant_reached in trace.cpp
TIME_LIMIT = "time limit"
PROCESS_LIMIT = "process limit"
PROCESSES_MAX = 100  # of one test program with those that it starts
ALL_TESTS = [(30, "*")]  # of a program that was not traced


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

    def all(self):
        return [(seconds, name) for seconds, name, _ in self.tests]


def trace(program, path):
    """Runs the program without any mutant."""
    path.unlink(missing_ok=True)
    try:
        done = subprocess.run([program, "--gtest_brief=1"], env=environment(PARLEY_MUTANT_TRACE=str(path)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=TRACE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{program.name} took longer than {TRACE_SECONDS} s without any mutant") from None
    if done.returncode != 0:
        raise BuildError(f"{program.name} fails without any mutant:\n{done.stdout.decode(errors='replace')[-2000:]}")
    return Trace(path)


def cheap_and_dear(tests):
    """The tests in two runs, for gtest runs those it is given in an order of its own."""
    total, at = 0.0, 0
    while at < len(tests) and (total := total + tests[at][0]) <= SECONDS_FIRST:
        at += 1
    return [part for part in (tests[:at], tests[at:]) if part]


class Unbounded(Exception):
    """A mutant that had to be stopped; the text says why."""


def processes_of(group):
    """How many there are in a process group."""
    count = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        count += int(fields[2]) == group and fields[0] != "Z"  # ended
    return count


def run_bounded(command, environ, limit):
    """Exit status and output. A mutant may run for ever, and where it is about fork(), each process may make others."""
    with tempfile.TemporaryFile() as output:
        # pylint: disable-next=consider-using-with
        process = subprocess.Popen(command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                   start_new_session=True)
        end = time.monotonic() + limit
        try:
            while True:
                try:
                    process.wait(timeout=0.3)
                    break
                except subprocess.TimeoutExpired:
                    pass
                if time.monotonic() > end:
                    raise Unbounded(TIME_LIMIT)
                if processes_of(process.pid) > PROCESSES_MAX:
                    raise Unbounded(PROCESS_LIMIT)
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # what it has left behind, too
            except ProcessLookupError:
                pass
            process.wait()
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")


def run_some(program, tests, number):
    names = ":".join(name for _, name in tests)
    limit = max(SECONDS_MIN, SLOWER * sum(seconds for seconds, _ in tests))
    command = [program, "--gtest_brief=1", "--gtest_fail_fast"]
    if len(names) <= FILTER_MAX:
        command.append(f"--gtest_filter={names}")
    try:
        status, output = run_bounded(command, environment(PARLEY_MUTANT=str(number)), limit)
    except Unbounded as e:
        return str(e)
    if status == 0:
        return None
    failed = re.search(r"^\[  FAILED  \] (\S+?)(?:,| \()", output, re.M)
    return failed[1] if failed else f"exit status {status}"


def without_errors(file, found, errors):
    """Those of a file in whose lines the compiler found nothing."""
    lines = {int(n) for n in re.findall(rf"{re.escape(file)}:(\d+):\d+: error", errors)}
    lines |= {int(n) for n in re.findall(rf"{re.escape(file)}:(\d+):\d+:   required from", errors)}
    return [x for x in found if x.line not in lines]


def unreached(file):
    """What a mutant is that no test runs."""
    return "on devices" if file.startswith(ON_DEVICES) else "not reached"


def programs_of(mutant):
    return [f"test_{p}" for p in PROGRAMS[mutant.file.split("/")[0]]]


class Judge:
    """Sets status (killed, survived, not reached, on devices, does not compile, not run) and killed_by of each mutant.

    All sources of a room are compiled first, each once with its mutants; then each test program is linked with all of
    them and traced once, whatever their number.
    """

    def __init__(self, build, deadline, settled, jobs=1):
        self.build, self.deadline, self.settled, self.jobs = build, deadline, settled, jobs

    def over(self):
        return time.monotonic() > self.deadline

    def run_tests(self, program, tests, number):
        """The test that fails, or none."""
        for part in cheap_and_dear(tests):
            with self.build.slots:
                if failed := run_some(program, part, number):
                    return failed
        return None

    def each(self, function, items):
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.jobs) as pool:
            return list(pool.map(function, items))

    def room(self, sources, chosen):
        """The sources of one room. sources: {file: octets}, chosen: {file: mutants}."""
        every = [x for found in chosen.values() for x in found]
        if len(every) > NUMBERS:
            raise BuildError(f"{len(every)} mutants at once are too many; {NUMBERS} are the most, --sample takes fewer")
        for number, mutant in enumerate(every, 1):
            mutant.status, mutant.number = "not run", number
        if self.over():
            return
        groups = self.build.together(chosen)
        made = self.each(lambda group: self.compile_together(sources, {file: chosen[file] for file in group}), groups)
        objects = {group[0]: built for group, (built, _) in zip(groups, made) if built}
        together = [x for _, found in made for x in found]
        tests = {}  # of each program, as far as it was looked at
        for name in programs_of(every[0]):
            alive = [x for x in together if x.status != "killed"]
            if alive and not self.over():
                tests[name] = self.meet(name, objects, alive)
        alone = [x for x in every if x not in together or (x.status == "not reached" and x.constant)]
        self.each(lambda mutant: self.alone(sources[mutant.file], mutant, tests), alone)
        for mutant in every:
            if mutant.status == "not reached":
                mutant.status = unreached(mutant.file)
            if mutant.status in ("survived", "not reached", "on devices"):
                self.settled(mutant)
        for built in objects.values():
            built.unlink()

    def meet(self, name, objects, alive):
        """One test program meets those that are still alive. All its tests, the cheapest first."""
        linked = [o for file, o in objects.items() if self.build.has(name, file)]
        own = f"{alive[0].room}-{name}"  # other rooms are judged at the same time
        program = self.build.program(name, own, *linked, self.build.trace)
        with self.build.slots:
            traced = trace(program, self.build.work / f"{own}.trace")
        self.each(lambda mutant: self.one(mutant, program, traced.of(mutant.number), mutant.number), alive)
        return traced.all()

    def compile_together(self, sources, chosen):
        """The object with those that compile at once, and these; the others are left for compilations of their own."""
        wanted = {file: [x for x in found if not x.alone] for file, found in chosen.items()}
        name = next(iter(chosen)).replace("/", "_")
        while any(wanted.values()) and not self.over():
            try:
                texts = {file: m.written_together(sources[file], found) for file, found in wanted.items() if found}
                return self.build.object(texts, name), [x for found in wanted.values() for x in found]
            except BuildError as error:
                left = {file: without_errors(file, found, str(error)) for file, found in wanted.items()}
                wanted = left if left != wanted else {}
        return None, []

    def alone(self, octets, mutant, tests):
        mutant.status = "not run"
        if self.over():
            return
        name = f"{mutant.room}-alone-{mutant.number}"
        try:
            made = self.build.object({mutant.file: m.written_alone(octets, mutant)}, name)
        except BuildError:
            mutant.status = "does not compile"
            return
        for program in programs_of(mutant):
            if mutant.status != "killed" and self.build.has(program, mutant.file):
                linked = self.build.program(program, f"{program}-{name}", made, self.build.trace)
                self.one(mutant, linked, tests.get(program, ALL_TESTS), 0)
                linked.unlink()
        made.unlink()

    def one(self, mutant, program, tests, number):
        """Whether these tests kill it. Only who has met all programs, or was killed, has a verdict that counts."""
        if self.over():
            mutant.status = "not run"
        elif not tests:
            mutant.status = "not reached" if mutant.status == "not run" else mutant.status
        elif failed := self.run_tests(program, tests, number):
            mutant.status, mutant.killed_by = "killed", failed
            self.settled(mutant)
        else:
            mutant.status = "survived"
