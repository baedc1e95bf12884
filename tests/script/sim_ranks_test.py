# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""mpirun -n N parley sim explore: the report is that of one process, whatever happens to other ranks than 0."""
import os
import signal
import subprocess

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
        victim = next(pid for pid in below(process.pid) if rank_of(pid) == 1)
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


if __name__ == "__main__":
    main()
