# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev release, in a small repository of the files that have the version."""
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest

from dev_kit import DevTest

PARTS = ("CMakeLists.txt", "README.md", "CHANGELOG.md", "docs/install.md", "docs/c.md", "docs/examples/CMakeLists.txt",
         "tests/unit/capi/handles_test.cpp", "cmake/ParleyConfig.cmake.in", "cmake/commit.cmake", "cmake/commit.txt", ".gitattributes")
DAY = "1796083200"  # 2026-12-01
PAGE = "docs/version-9.8.md"
FIND = "find_package(Parley"


class Release(DevTest):
    prepared = None  # a copy of the tree at version 9.8.7, made once

    @classmethod
    def tearDownClass(cls):
        if cls.prepared:
            shutil.rmtree(cls.prepared)

    def setUp(self):
        super().setUp()
        self.fake("dpkg-query", 'for word; do echo "$word=installed"; done')
        self.fake("apt-get", "exit 1")
        if not self.prepared:
            self.begin()

    def begin(self):
        self.copy(*PARTS)
        self.write(PAGE, "# What is in version 9.8\n")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def git(self, *words):
        user = ("-c", "user.name=test", "-c", "user.email=test@localhost")
        # Not the repository and the settings of the caller, which may be a hook.
        environment = {"PATH": os.environ["PATH"], "HOME": self.folder, "GIT_CONFIG_NOSYSTEM": "1"}
        return subprocess.run(["git", "-C", self.tree, *user, *words], env=environment, capture_output=True, text=True, check=True).stdout

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "test: a state")

    def write(self, name, text):
        with open(os.path.join(self.tree, name), "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, name):
        with open(os.path.join(self.tree, name), encoding="utf-8") as file:
            return file.read()

    def prepare(self):
        if self.prepared:
            shutil.rmtree(self.tree)
            shutil.copytree(self.prepared, self.tree, symlinks=True)
            return
        done = self.dev("release", "--prepare", "9.8.7", SOURCE_DATE_EPOCH=DAY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.commit()
        Release.prepared = tempfile.mkdtemp(prefix="parley-dev-")
        shutil.copytree(self.tree, self.prepared, symlinks=True, dirs_exist_ok=True)

    def faults(self):
        """(file, line if there is one) of each fault that --check finds."""
        done = self.dev("release", "--check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        *lines, last = done.stderr.splitlines()
        self.assertIn("this is not a release", last)
        return [re.match(r"([^:]*)(?::(\d+))?: ", line).groups() for line in lines]

    def test_a_release_is_prepared_from_unreleased_entries(self):
        if self.prepared:
            shutil.rmtree(self.prepared)
            Release.prepared = None
            self.begin()
        self.assertIn(("CHANGELOG.md", None), self.faults())
        entries = self.read("CHANGELOG.md").count("\n- ")
        self.prepare()
        done = self.dev("release", "--check")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("version 9.8.7", done.stdout)
        self.assertIn(FIND + " 9.8 ", self.read("docs/examples/CMakeLists.txt"))
        self.assertEqual(self.read("CHANGELOG.md").count("\n- "), entries)
        self.assertIn("\n## Unreleased\n\n## 9.8.7 - 2026-12-01\n", self.read("CHANGELOG.md"))

    def test_each_fault_is_named(self):
        self.prepare()
        c_page = self.read("docs/c.md")
        self.write("docs/c.md", c_page.replace(FIND + " 9.8", FIND + " 9.7", 1))
        os.remove(os.path.join(self.tree, PAGE))
        self.write("CHANGELOG.md", self.read("CHANGELOG.md").replace("## Unreleased\n", "## Unreleased\n\n- one more\n"))
        self.commit()
        self.write("note", "")
        line = str(c_page[:c_page.index(FIND)].count("\n") + 1)
        self.assertEqual(self.faults(), [("note", None), ("docs/c.md", line), ("CHANGELOG.md", None), (PAGE, None)])

    def test_a_released_version_stays_on_its_commit(self):
        self.prepare()
        self.git("tag", "v9.8.7")
        self.assertEqual(self.dev("release", "--check").returncode, 0)
        self.write("note", "")
        self.commit()
        self.assertEqual(self.faults(), [("v9.8.7", None)])

    def test_two_runs_give_the_same_tarball(self):
        self.prepare()
        name, octets = "parley-9.8.7", []
        for _ in range(2):
            done = self.dev("release", "--skip-test", "--source-only")
            self.assertEqual(done.returncode, 0, done.stderr)
            folder = os.path.join(self.build, "release", name)
            self.assertEqual(sorted(os.listdir(folder)), ["SHA256SUMS", name + ".tar.gz"])
            with open(os.path.join(folder, name + ".tar.gz"), "rb") as file:
                octets.append(file.read())
            with open(os.path.join(folder, "SHA256SUMS"), encoding="ascii") as sums:
                self.assertEqual(sums.read(), f"{hashlib.sha256(octets[-1]).hexdigest()}  {name}.tar.gz\n")
            os.utime(os.path.join(self.tree, "README.md"), (1, 1))  # the tarball's times are the commit's
        self.assertEqual(octets[0], octets[1])

    @unittest.skipUnless(shutil.which("cmake"), "needs cmake")
    def test_a_build_of_the_tarball_knows_its_commit(self):
        self.prepare()
        self.assertEqual(self.dev("release", "--skip-test", "--source-only").returncode, 0)
        archive = os.path.join(self.build, "release/parley-9.8.7/parley-9.8.7.tar.gz")
        subprocess.run(["tar", "-xzf", archive, "-C", self.folder], check=True)
        source, header = os.path.join(self.folder, "parley-9.8.7"), os.path.join(self.folder, "commit.hpp")
        subprocess.run(["cmake", f"-DSOURCE={source}", f"-DHEADER={header}", "-P", os.path.join(source, "cmake/commit.cmake")], check=True)
        with open(header, encoding="ascii") as file:
            self.assertEqual(file.read(), f'#define PARLEY_COMMIT "{self.git("rev-parse", "HEAD")[:12]}"\n')

    def test_it_tests_and_packages_a_clean_clone(self):
        """The real build is that of ./dev test and ./dev packages; here a program of the clone stands for each."""
        self.prepare()
        self.write("dev.d/release.sh", self.read("dev.d/release.sh").replace("./dev", "./fake_dev"))
        self.write("fake_dev", '#!/bin/bash\necho "ran $1 in $PWD with $SOURCE_DATE_EPOCH"\nmkdir -p "$PARLEY_BUILD/packages"\n'
                   'echo "$1" >"$PARLEY_BUILD/packages/libparley1_9.8.7-1_amd64.deb"\nexit "${FAKE_STATUS:-0}"\n')
        os.chmod(os.path.join(self.tree, "fake_dev"), 0o755)
        self.commit()
        clone, epoch = os.path.join(self.build, "release/clone"), self.git("log", "-1", "--format=%ct").strip()
        done = self.dev("release")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(re.findall(r"(?m)^ran .*$", done.stdout),
                         [f"ran test in {clone} with ", f"ran stress in {clone} with ", f"ran packages in {clone} with {epoch}"])
        with open(os.path.join(self.build, "release/parley-9.8.7/SHA256SUMS"), encoding="ascii") as sums:
            self.assertEqual([line.split()[1] for line in sums], ["libparley1_9.8.7-1_amd64.deb", "parley-9.8.7.tar.gz"])
        failed = self.dev("release", FAKE_STATUS="1")
        self.assertEqual(failed.returncode, 1)
        self.assertFalse(os.path.exists(os.path.join(self.build, "release/parley-9.8.7/SHA256SUMS")))

    def test_wrong_words(self):
        for words in (["--prepare"], ["--prepare", "0.2"], ["--fast"]):
            self.assertEqual(self.dev("release", *words).returncode, 2, words)


if __name__ == "__main__":
    unittest.main()
