# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev mutate on a sample whose survivors are known. CXX names the compiler."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import build  # noqa: E402
import fates  # noqa: E402
import found  # noqa: E402
import judge  # noqa: E402
import mutants  # noqa: E402
import mutate  # noqa: E402
import operators  # noqa: E402

SAMPLE = HERE / "sample"
CXX = [os.environ.get("CXX", "g++"), "-std=c++20", "-w", "-Wno-narrowing", f"-I{SAMPLE}"]


class SampleBuild:
    """Stands for build.Build: one source, one test program."""

    def __init__(self, work):
        self.work = work
        self.slots = threading.BoundedSemaphore(2)
        self.trace = self.compile(HERE / "trace.cpp", "trace")
        self.tests = self.compile(SAMPLE / "window_test.cpp", "tests")

    def compile(self, source, name):
        out = self.work / f"{name}.o"
        done = subprocess.run([*CXX, "-c", source, "-o", out], stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            raise build.BuildError(done.stderr)
        return out

    def object(self, texts, name):
        source = self.work / f"{name}.cpp"
        source.write_text("".join(texts.values()))
        return self.compile(source, name)

    def together(self, files):
        return [[file] for file in files]

    def has(self, _program, _file):
        return True

    def program(self, _name, out, *objects):
        out = self.work / out
        subprocess.run([*CXX, *objects, self.tests, "-lgtest_main", "-lgtest", "-o", out], check=True)
        return out


class Bounds(unittest.TestCase):
    def run_script(self, script, limit=60):
        return judge.run_bounded(["sh", "-c", script], {"PATH": os.environ["PATH"]}, limit)

    def none_left(self, group):
        end = time.monotonic() + 60  # to die of a signal
        while judge.processes_of(group) > 0:
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)

    def test_status_and_output_of_what_ends(self):
        self.assertEqual(self.run_script("echo said; exit 3"), (3, "said\n"))

    def test_what_runs_for_ever_is_stopped_with_all_that_it_started(self):
        with tempfile.TemporaryDirectory() as folder:
            group = pathlib.Path(folder) / "group"
            with self.assertRaisesRegex(judge.Unbounded, judge.TIME_LIMIT):
                self.run_script(f"echo $$ > {group}; sleep 1000 & sleep 1000", limit=1)
            self.none_left(int(group.read_text()))

    def test_what_starts_too_many_processes_is_stopped(self):
        with tempfile.TemporaryDirectory() as folder:
            group = pathlib.Path(folder) / "group"
            with self.assertRaisesRegex(judge.Unbounded, judge.PROCESS_LIMIT):
                self.run_script(f"echo $$ > {group}; for i in $(seq {judge.PROCESSES_MAX + 1}); do sleep 1000 & done; wait")
            self.none_left(int(group.read_text()))


class Sample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.octets, cls.found = operators.find(SAMPLE / "window.cpp", "wire/window.cpp", ["-std=c++20", f"-I{SAMPLE}"])
        cls.build = SampleBuild(pathlib.Path(cls.folder.name))
        build.PROGRAMS["wire"] = ("window",)
        cls.told = []
        judge.Judge(cls.build, time.monotonic() + 60, cls.told.append, jobs=2).room({"wire/window.cpp": cls.octets},
                                                                                    {"wire/window.cpp": cls.found})

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def fate(self, operator, after):
        fitting = [m for m in self.found if m.operator == operator and after in m.after]
        self.assertEqual(len(fitting), 1, [(m.operator, m.after) for m in self.found])
        return fitting[0]

    def test_what_a_test_looks_at_is_killed_and_the_test_is_named(self):
        for operator, after in (("operator", "window.used -= n"), ("swapped sides", "Side::responder"), ("returned constant", "return true; }"),
                                ("condition turned round", "!(window.from")):
            mutant = self.fate(operator, after)
            self.assertEqual(mutant.status, "killed", mutant.diff())
            self.assertRegex(mutant.killed_by, r"^Window\.\w+$")

    def test_what_no_test_looks_at_survives_and_is_told(self):
        survivors = [self.fate("swapped sides", "std::min"), self.fate("operator", "used + more < room")]
        for mutant in survivors:
            self.assertEqual(mutant.status, "survived", mutant.diff())
            self.assertIn(mutant, self.told)

    def test_what_the_compiler_evaluates_is_compiled_alone(self):
        constant, function = self.fate("n to n + 1", "room = twice(5)"), self.fate("operator", "n - n")
        self.assertTrue(constant.alone)
        self.assertTrue(function.constant and not function.alone)
        for mutant in (constant, function):
            self.assertEqual(mutant.status, "killed", mutant.diff())

    def test_each_mutant_has_a_fate_and_is_told_once(self):
        self.assertEqual({m.status for m in self.told}, {"survived", "killed"})
        self.assertEqual(len(self.told), len({id(m) for m in self.told}))
        for mutant in self.found:
            self.assertIn(mutant.status, ("killed", "survived", "does not compile"), mutant.diff())

    def test_a_mutant_is_known_again_when_lines_before_it_change(self):
        moved = pathlib.Path(self.folder.name) / "moved.cpp"
        moved.write_text("// one more line\n" + (SAMPLE / "window.cpp").read_text())
        _, again = operators.find(moved, "wire/window.cpp", ["-std=c++20", f"-I{SAMPLE}"])
        self.assertEqual([m.key for m in again], [m.key for m in self.found])
        self.assertEqual([m.line for m in again], [m.line + 1 for m in self.found])

    def test_nested_mutants_leave_the_lines_where_they_are(self):
        text = mutants.written_together(self.octets, [m for m in self.found if not m.alone])
        self.assertEqual(text.split("#line 1", 1)[1].count("\n") - 1, self.octets.decode().count("\n"))


def mutant(after, file="wire/a.cpp", **more):
    return mutants.Mutant(file, 1, "f", "operator", (), before="a", after=after, **more)


class Building(unittest.TestCase):
    def test_sources_that_are_compiled_as_one_are_compiled_as_one_with_their_mutants(self):
        builder = build.Build(pathlib.Path("/tree"), pathlib.Path("/tree/build"), 1)
        builder.unity = {"/tree/wire/a.cpp": "one.cxx", "/tree/wire/c.cpp": "one.cxx", "/tree/wire/b.cpp": "two.cxx"}
        self.assertEqual(builder.together(["wire/a.cpp", "wire/b.cpp", "wire/c.cpp", "wire/d.cpp"]),
                         [["wire/a.cpp", "wire/c.cpp"], ["wire/b.cpp"], ["wire/d.cpp"]])

    def test_each_room_that_is_mutated_meets_the_tests_of_rooms_above_it(self):
        self.assertEqual([room for room in build.MUTATED if not build.ALSO.get(room)], [])

    def test_an_error_takes_the_mutants_of_its_line_out_and_no_other_files(self):
        found = [mutants.Mutant("wire/a.cpp", line, "f", "operator", ()) for line in (3, 4, 5)]
        errors = "wire/a.cpp:3:1: error: x\nwire/b.cpp:4:1: error: y\nwire/a.cpp:5:2:   required from here\n"
        self.assertEqual([m.line for m in judge.without_errors("wire/a.cpp", found, errors)], [4])

    def test_what_needs_a_device_is_told_apart(self):
        self.assertEqual(judge.unreached("drivers/rdmacm/setup.cpp"), "on devices")
        self.assertEqual(judge.unreached("drivers/verbs/convert.cpp"), "not reached")
        self.assertNotIn("on devices", mutate.JUDGED)


class Sampling(unittest.TestCase):
    def test_other_mutants_do_not_change_a_mutants_rank(self):
        some = [mutant(str(n)) for n in range(100)]
        chosen = {m.after for m in sorted(some, key=lambda m: mutate.rank(1, m))[:10]}
        more = sorted([*some, mutant("new")], key=lambda m: mutate.rank(1, m))[:10]
        self.assertLessEqual(len(chosen - {m.after for m in more}), 1)
        self.assertNotEqual(chosen, {m.after for m in sorted(some, key=lambda m: mutate.rank(2, m))[:10]})

    def test_one_source_is_taken_of_each_room(self):
        files = ["cm/a.cpp", "cm/b.cpp", "mpa/a.cpp", "nic/a.cpp"]
        self.assertEqual([f.split("/")[0] for f in mutate.one_of_each_room(files, 1)], ["cm", "mpa", "nic"])
        self.assertGreater(len({tuple(mutate.one_of_each_room(files, seed)) for seed in range(9)}), 1)

    def test_where_nothing_was_judged_nothing_was_killed(self):
        self.assertEqual(mutate.percent_killed([]), 0)
        self.assertEqual(mutate.percent_killed([mutants.Mutant("wire/a.cpp", 1, "f", "operator", (), status="equivalent")]), 0)

    def test_what_was_found_is_kept_until_a_source_changes(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "wire").mkdir()
            source = root / "wire" / "window.cpp"
            source.write_text((SAMPLE / "window.cpp").read_text())
            arguments = {"wire/window.cpp": ["-std=c++20", f"-I{SAMPLE}"]}
            first = found.Found(root, root / "kept", 1).of(arguments)["wire/window.cpp"]
            self.assertEqual(found.Found(root, root / "kept", 1).known("wire/window.cpp", *arguments.values()), first)
            source.write_text(source.read_text().replace("++window.initiators", "window.initiators += 2"))
            self.assertIsNone(found.Found(root, root / "kept", 1).known("wire/window.cpp", *arguments.values()))

    def test_an_interrupted_run_goes_on_while_the_tree_is_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            root, path = pathlib.Path(folder) / "tree", pathlib.Path(folder) / "fates"
            root.mkdir()
            (root / "a.cpp").write_text("1")
            killed, survived, again = (mutant("b", status="killed", killed_by="T.a"), mutant("c", status="survived"),
                                       mutant("b"))
            for each in (killed, survived):
                fates.Fates(root, path).remember(each)
            fates.Fates(root, path).recall(again)
            self.assertEqual((again.status, again.killed_by), ("killed", "T.a"))
            (root / "a.cpp").write_text("2")
            fresh = mutant("b")
            fates.Fates(root, path).recall(fresh)
            self.assertEqual(fresh.status, "")

    def test_again_takes_over_what_was_killed_and_nothing_else(self):
        killed, survived = mutant("b", status="killed"), mutant("c", status="survived")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "run.json"
            path.write_text(json.dumps({"mutants": [killed.as_json(), survived.as_json()]}))
            now = [mutant("b"), mutant("c"), mutant("d")]
            self.assertEqual(mutate.take_over(path, now), 1)
            self.assertEqual([m.status for m in now], ["killed", "", ""])
            path.write_text("no JSON")
            with self.assertRaisesRegex(build.BuildError, "--again"):
                mutate.take_over(path, now)


class CommandLine(unittest.TestCase):
    def run_it(self, *words):
        return subprocess.run([sys.executable, "-B", HERE / "mutate.py", *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, check=False)

    def test_what_cannot_be_is_refused_in_words(self):
        for words, part in ((["wire", "--file", "wire/rdmap.cpp"], "not both"), (["nowhere"], "no room nowhere; the rooms are"),
                            (["--file", "wire/none.cpp"], "is no .cpp file of this tree"),
                            (["wire", "--line", "3"], "--line goes with one --file"),
                            (["wire", "--sample", "0"], "at least 1"), (["--jobs", "0"], "at least 1")):
            done = self.run_it(*words)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(part, done.stdout)

    def test_the_help_names_the_exit_status(self):
        self.assertIn("Exit status: 0", self.run_it("--help").stdout)


if __name__ == "__main__":
    unittest.main()
