# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev on a machine that lacks something: one sentence before anything is compiled, with what to do."""
import os
import unittest

from dev_kit import DevTest

REAL_CAT = "/bin/cat"
NO_MIRROR = "W: Failed to fetch http://mirror.invalid/x: Temporary failure resolving 'mirror.invalid'"


class Machine(DevTest):
    def setUp(self):
        super().setUp()
        self.fake("dpkg-query", 'for word; do echo "$word=installed"; done')
        self.fake("apt-get", "exit 1")
        self.fake("id", "echo 0")
        self.fake("cmake", "exit 0")
        self.fake("ninja", 'echo "ninja $*"')
        self.fake("nproc", "echo 2")
        self.fake("df", "echo Avail; echo 64000")
        self.memory(64000)
        os.makedirs(os.path.join(self.build, "bin"))
        demo = os.path.join(self.build, "bin/parley")
        with open(demo, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho shown\n")
        os.chmod(demo, 0o755)

    def memory(self, available_mib, limit="max"):
        """What /proc/meminfo and the container's limit say."""
        self.fake("cat", 'if [ "$1" = /proc/meminfo ]; then printf "MemTotal: 64000000 kB\\nMemAvailable: '
                  f'{available_mib * 1024} kB\\nSwapFree: 0 kB\\n{limit}\\n"; else exec {REAL_CAT} "$@"; fi')

    def packages(self, update, install, code=100):
        """No package is installed; apt-get prints this, and ends so."""
        self.fake("dpkg-query", "exit 1")
        self.fake("apt-get", f'case $1 in update) echo "{update}" ;; *) echo "{install}"; exit {code} ;; esac')

    def cached(self, words):
        """What CMake has written to the build folder."""
        with open(os.path.join(self.build, "CMakeCache.txt"), "w", encoding="utf-8") as file:
            file.write(words)

    def options(self, *command):
        """What the command gives to CMake."""
        self.fake("cmake", 'echo "$@" >"$HOME/cmake"')
        done = self.dev(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(self.folder, "cmake"), encoding="utf-8") as words:
            return words.read().split()

    def test_with_all_that_is_needed_it_builds(self):
        done = self.dev("demo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue(done.stdout.endswith("shown\n"), done.stdout)

    def test_another_distribution_without_compilers(self):
        for name in ("apt-get", "dpkg-query", "ninja"):
            os.remove(os.path.join(self.bin, name))
        self.refused(self.dev("build"), "has no apt-get: install c++ ninja pkg-config", "docs/install.md", "container of Debian 12")

    def test_another_distribution_with_compilers(self):
        os.remove(os.path.join(self.bin, "apt-get"))
        for name in ("c++", "pkg-config"):
            self.fake(name, "exit 0")
        done = self.dev("demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("has no apt-get: going on with what is installed (docs/install.md, Other systems)", done.stderr)

    def test_another_release_of_the_distribution(self):
        self.packages("", "E: Unable to locate package libexpected-dev")
        self.refused(self.dev("demo"), "has no package libexpected-dev;", "docs/install.md, Other systems")
        self.packages("", "E: Package 'python3-clang-14' has no installation candidate")
        self.refused(self.dev("mutate"), "has no package python3-clang-14;")

    def test_no_network(self):
        self.packages(NO_MIRROR, "E: Unable to locate package g++")
        self.refused(self.dev("demo"), "no network: ", "http_proxy", "g++ cmake")

    def test_no_room_for_packages(self):
        self.packages("", "E: You don't have enough free space in /var/cache/apt/archives/.")
        self.refused(self.dev("demo"), "no room for packages", "apt-get install g++")

    def test_another_failure_of_apt(self):
        self.packages("", "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 1")
        self.refused(self.dev("demo"), "Could not get lock /var/lib/dpkg/lock-frontend")

    def test_installed_packages_are_no_failure(self):
        self.packages(NO_MIRROR, "", code=0)
        done = self.dev("demo")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("installing Debian packages: g++ cmake", done.stdout)

    def test_no_root(self):
        self.packages("", "", code=0)
        self.fake("id", "echo 1000")
        self.refused(self.dev("demo"), "not root and no sudo; as root: apt-get install g++ cmake")
        self.fake("sudo", "exit 1")
        self.refused(self.dev("demo"), "sudo refuses; as root: apt-get install g++ cmake")

    def test_a_small_disk(self):
        self.fake("df", "echo Avail; echo 2048")
        self.refused(self.dev("test"), "./dev test takes 9500 MiB of disk", "2048 MiB are free", "PARLEY_BUILD names another folder")
        self.assertEqual(self.dev("demo").returncode, 0)
        self.fake("df", "echo Avail; echo 100")
        self.refused(self.dev("demo"), "100 MiB are free")

    def test_little_memory_takes_one_compiler(self):
        self.fake("nproc", "echo 4")
        self.memory(2000)
        done = self.dev("demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dev: 2000 MiB of memory are available: compiling with 1 at a time", done.stderr)
        self.assertIn("-j 1 parley", done.stdout)
        self.memory(64000, limit=2000 << 20)
        self.assertIn("dev: 2000 MiB of memory are available", self.dev("demo").stderr)
        done = self.dev("demo", PARLEY_JOBS="3")
        self.assertEqual(done.stderr, "")
        self.assertIn("-j 3 parley", done.stdout)

    def test_less_memory_compiles_fewer_files_at_once(self):
        self.fake("nproc", "echo 4")
        for mib, files, of_tests in ((64000, 24, 96), (8000, 24, 24), (1000, 4, 4)):
            self.memory(mib)
            self.assertLessEqual({f"-DPARLEY_UNITY_FILES={files}", f"-DPARLEY_UNITY_TEST_FILES={of_tests}"}, set(self.options("demo")))
        self.cached("PARLEY_UNITY_FILES:STRING=4\nPARLEY_UNITY_TEST_FILES:STRING=4\n")
        for mib in (1000, 64000):  # with another number all would be compiled again
            self.memory(mib)
            self.assertLessEqual({"-DPARLEY_UNITY_FILES=4", "-DPARLEY_UNITY_TEST_FILES=4"}, set(self.options("demo")))

    def test_a_folder_with_large_tests_takes_fewer_compilers(self):
        self.fake("nproc", "echo 4")
        self.cached("PARLEY_UNITY_FILES:STRING=24\nPARLEY_UNITY_TEST_FILES:STRING=96\n")
        self.memory(7000)
        done = self.dev("demo")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("compiling with 2 at a time", done.stderr)

    def test_the_demo_of_a_new_tree_is_not_optimised(self):
        self.assertIn("-DPARLEY_OPTIMIZE=OFF", self.options("demo"))
        for cached, optimize in (("PARLEY_OPTIMIZE:BOOL=OFF\n", "OFF"), ("PARLEY_OPTIMIZE:BOOL=ON\n", "ON"), ("", "ON")):
            self.cached(cached)
            self.assertIn(f"-DPARLEY_OPTIMIZE={optimize}", self.options("demo"))

    def test_too_little_memory(self):
        self.memory(300)
        self.refused(self.dev("demo"), "300 MiB of memory are available", "add swap")


if __name__ == "__main__":
    unittest.main()
