# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev in a copy of what it reads, with a PATH that holds only the programs of a test."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cli import LIMIT, SOURCE_DIR

# Programs of the system that ./dev uses; what a test fakes or leaves out is not taken from here.
SYSTEM = ("awk", "bash", "basename", "cat", "cp", "cut", "date", "df", "dirname", "du", "env", "getconf", "git", "grep", "gzip", "head", "id",
          "mkdir", "mktemp", "nproc", "paste", "python3", "readlink", "realpath", "rm", "sed", "sha256sum", "sort", "tail", "tee", "wc")


class DevTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="parley-dev-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.tree, self.bin, self.build = (os.path.join(self.folder, name) for name in ("tree", "bin", "build"))
        os.mkdir(self.tree)
        os.mkdir(self.bin)
        for name in SYSTEM:
            os.symlink(sys.executable if name == "python3" else shutil.which(name), os.path.join(self.bin, name))
        self.copy("dev", "dev.d")

    def copy(self, *names):
        for name in names:
            source, target = os.path.join(SOURCE_DIR, name), os.path.join(self.tree, name)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.isdir(source):
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, target)

    def fake(self, name, script):
        """A program of that name, in place of the system's."""
        path = os.path.join(self.bin, name)
        if os.path.lexists(path):
            os.remove(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + script + "\n")
        os.chmod(path, 0o755)

    def dev(self, *words, **more):
        environment = {"PATH": self.bin, "PARLEY_BUILD": self.build, "HOME": self.folder, "LC_ALL": "C.UTF-8", **more}
        return subprocess.run([os.path.join(self.tree, "dev"), *words], env=environment, capture_output=True, text=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL, check=False)

    def refused(self, done, *fragments):
        """Ends with 3 before anything is compiled, and says why in one sentence."""
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        said = [line for line in done.stderr.splitlines() if line.startswith("dev: ")]
        self.assertEqual(len(said), 1, done.stderr)
        for fragment in fragments:
            self.assertIn(fragment, said[0])
        self.assertNotIn("ninja -C", done.stdout)
