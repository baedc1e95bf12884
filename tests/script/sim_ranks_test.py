# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""mpirun -n N parley sim explore: the report is that of one process, whatever happens to other ranks than 0."""
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

from cli import LIMIT, PARLEY, CliTest, Finished, body, main, needs, run

FAILING = """\
name = "failing"
[[host]]
name = "a"
[[host]]
name = "b"
[[link]]
ends = ["a", "b"]
[[listen]]
host = "b"
reject = true
[[connect]]
from = "a"
to = "b"
"""
OPEN_MPI = ["mpirun.openmpi", "--oversubscribe"]
MPICH = ["mpirun.mpich"]
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def rank_of(pid):
    """Of one of our processes; None of any other."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            variables = dict(line.partition(b"=")[::2] for line in file.read().split(b"\0"))
    except OSError:
        return None
    value = variables.get(b"OMPI_COMM_WORLD_RANK", variables.get(b"PMI_RANK"))
    return None if value is None else int(value)


def below(pid):
    """The processes that this one started, and those that they started."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8") as file:
                children.setdefault(int(file.read().rpartition(")")[2].split()[1]), []).append(int(name))
        except OSError:
            continue
    found = [pid]
    for each in found:
        found += children.get(each, [])
    return found[1:]


@needs("mpirun.openmpi", "mpirun.mpich")
class Ranks(CliTest):
    def ranks(self, launcher, count, *words):
        done = subprocess.run([*launcher, "-n", str(count), PARLEY, "sim", *map(str, words)], capture_output=True, text=True,
                              timeout=LIMIT, check=False, env=ENVIRONMENT)
        return Finished(done.returncode, done.stdout, done.stderr)

    def started(self, launcher, until, *words):
        """Three ranks, and what rank 0 printed up to a line with `until`."""
        with open(self.path("err"), "w", encoding="utf-8") as err:
            process = subprocess.Popen([*launcher, "-n", "3", PARLEY, "sim", *map(str, words)], stdout=subprocess.PIPE, stderr=err,
                                       text=True, env=ENVIRONMENT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        first = ""
        while until not in first:
            line = process.stdout.readline()
            self.assertTrue(line, first)
            first += line
        return process, first

    def rest(self, process):
        """What else it writes, to standard output and standard error."""
        out = process.stdout.read()
        process.wait(timeout=LIMIT)
        with open(self.path("err"), encoding="utf-8") as err:
            return out, err.read()

    def rank(self, process, number):
        return next(pid for pid in below(process.pid) if rank_of(pid) == number)

    def failing(self):
        return self.path("failing.toml", FAILING.encode())

    def test_the_report_is_that_of_one_process(self):
        words = ("explore", self.failing(), "--seeds", "1..200", "--failures", 150)
        whole = run("sim", *words)
        for launcher, count in ((OPEN_MPI, 2), (MPICH, 3)):
            done = self.ranks(launcher, count, *words)
            self.assertEqual(body(done.out), body(whole.out), done.err)
            self.assertEqual(done.code, 1)

    def test_all_runs_pass_and_ranks_may_be_more_than_runs(self):
        whole = self.ok(run("sim", "explore", "lossy_handshake", "--seeds", "1..2", "--swarm"))
        for launcher in (OPEN_MPI, MPICH):
            done = self.ok(self.ranks(launcher, 4, "explore", "lossy_handshake", "--seeds", "1..2", "--swarm", "--jobs", 2))
            self.assertEqual(body(done.out), body(whole.out))

    def test_a_wrong_scenario_is_reported_once(self):
        wrong = self.path("wrong.toml", b"nonsense = 1\n")
        for launcher in (OPEN_MPI, MPICH):
            done = self.ranks(launcher, 2, "explore", wrong, "--seeds", "1..9")
            self.assertEqual(done.code, 2, str(done))
            self.assertEqual(done.err.count("nothing was run"), 1, done.err)

    def test_a_shard_by_ranks(self):
        path = self.path("one.results")
        whole = self.ok(run("sim", "explore", "lossy_handshake", "--seeds", "1..20"))
        for number, launcher in enumerate((OPEN_MPI, MPICH), 1):
            self.ok(self.ranks(launcher, 2, "explore", "lossy_handshake", "--seeds", "1..20", "--shard", f"{number}/2",
                               "--results", path if number == 1 else self.path("two.results")))
        self.assertEqual(body(self.ok(run("sim", "merge", path, self.path("two.results"))).out), body(whole.out))

    def test_a_rank_that_dies_costs_its_runs_once_more(self):
        words = ("explore", self.failing(), "--seeds", "1..3000", "--failures", 0, "--rank-timeout", "4s")
        whole = run("sim", *words)
        process, out = self.started([*OPEN_MPI, "--enable-recovery"], "FAILED", *words)
        victim = self.rank(process, 1)
        os.kill(victim, signal.SIGSTOP)  # with runs that it has not done
        os.kill(victim, signal.SIGKILL)
        rest, err = self.rest(process)
        self.assertEqual(body(out + rest), body(whole.out), err)
        self.assertRegex(err, r"rank 1 \(\S+\) is lost: it was silent for .*; \d+ runs? will be repeated")

    def test_ctrl_c_leaves_a_partial_report(self):
        # mpirun of Open MPI kills rank 0 a second later, which may be too soon on a slow machine.
        process, out = self.started(MPICH, "SHA-256", "explore", "lossy_handshake", "--seeds", "0..0xffffffffffffffff")
        process.send_signal(signal.SIGINT)
        rest, err = self.rest(process)
        self.assertRegex(out + rest, r"seeds?: \d+ passed, 0 failed; \d+ of \d+ were not run", err)

    def test_sigterm_to_rank_0_leaves_the_exit_code_and_junit_of_a_partial_report(self):
        for launcher in (OPEN_MPI, MPICH):
            junit = self.path("partial.xml")
            process, out = self.started(launcher, "event" if launcher is MPICH else "FAILED", "explore", self.failing(), "--seeds", "0..0xffffffffffffffff", "--failures", 0,
                                        "--junit", junit, "--json" if launcher is MPICH else "--jobs=2")
            os.kill(self.rank(process, 0), signal.SIGTERM)
            rest, err = self.rest(process)
            self.assertEqual(process.returncode, 1, out[-1000:] + err)
            self.assertIn("interrupted after", err)
            last = ElementTree.parse(junit).getroot().findall("testsuite/testcase")[-1]
            self.assertRegex(last.find("error").get("message"), r"interrupted after \d+ of \d+ seeds")
            if launcher is MPICH:
                summary = next(line for line in reversed(rest.splitlines()) if '"summary"' in line)
                self.assertIs(json.loads(summary)["interrupted"], True)

    def test_a_rank_that_stops_in_a_message_does_not_stop_rank_0(self):
        # Without single copies the octets of a long message are sent by the rank itself, piece by piece.
        launcher = [*OPEN_MPI, "--mca", "btl_vader_single_copy_mechanism", "none"]
        process, out = self.started(launcher, "FAILED", "explore", self.failing(), "--seeds", "1..4000", "--failures", 0,
                                    "--rank-timeout", "2s")
        victim = self.rank(process, 1)
        self.addCleanup(lambda: process.poll() is None and os.kill(victim, signal.SIGKILL))
        os.kill(victim, signal.SIGSTOP)
        failures, last = out.count("FAILED"), out
        while last and "4000 failed" not in last:
            last = process.stdout.readline()
            failures += "FAILED" in last
        os.kill(victim, signal.SIGKILL)
        self.assertEqual(failures, 4000, self.rest(process)[1])

    def test_a_sweep_passes_although_rank_0_stood_still(self):
        process, out = self.started(OPEN_MPI, "SHA-256", "explore", "lossy_handshake", "--seeds", "0..0xffffffffffffffff",
                                    "--time-budget", "8s", "--rank-timeout", "4s")
        leader = self.rank(process, 0)
        os.kill(leader, signal.SIGSTOP)
        time.sleep(5)  # longer than the time after which a rank is lost
        os.kill(leader, signal.SIGCONT)
        rest, err = self.rest(process)
        self.assertRegex(out + rest, r"seeds?: \d+ passed, 0 failed")
        self.assertEqual(process.returncode, 0, err)

    def test_other_commands_are_refused(self):
        for words in (("run", "lossy_handshake"), ("replay", "lossy_handshake", "--seed", 1), ("storm",), ("merge", "x"),
                      ("shrink", "lossy_handshake", "--seed", 1, "-o", self.path("small.toml"))):
            done = self.ranks(OPEN_MPI, 2, *words)
            self.assertEqual(done.code, 2, str(done))
            self.assertIn("share their runs", done.err)

    def test_a_library_of_another_launcher_is_refused(self):
        done = subprocess.run([PARLEY, "sim", "explore", "lossy_handshake", "--seeds", "1..3"], capture_output=True, text=True, timeout=LIMIT,
                              check=False, env={**ENVIRONMENT, "PMI_SIZE": "4"})
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("mpirun started 4 ranks", done.stderr)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    main()
