# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev install-plugin puts the plugin where tshark finds it, and refuses a Wireshark that could not load it."""
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile
import unittest

import harness


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="parley-install-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bin").mkdir()
        self.drop = []
        # What the command needs of the project, where any user can read it.
        clone = self.folder / "clone"
        for part in "dissectors", "include":
            shutil.copytree(harness.SOURCE / part, clone / part)
        for part in "dev", "CMakeLists.txt":
            shutil.copy(harness.SOURCE / part, clone)
        if os.getuid() == 0:
            self.drop = ["setpriv", f"--reuid={harness.USER}", "--regid=nogroup", "--clear-groups", "--"]
            entry = pwd.getpwnam(harness.USER)
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def program(self, name, says):
        """A program of that name which comes first on the path and says one line."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)

    def dev(self, *arguments):
        env = dict(os.environ, HOME=str(self.folder / "home"), PARLEY_BUILD=str(self.folder / "build"),
                   XDG_CONFIG_HOME=str(self.folder / "home/.config"), PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}")
        return subprocess.run([*self.drop, self.folder / "clone/dev", "install-plugin", *arguments], env=env,
                              capture_output=True, text=True, timeout=300, check=False)

    def test_it_stands_where_tshark_looks_and_is_loaded(self):
        done = self.dev()
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        file = self.folder / f"home/.local/lib/wireshark/plugins/{harness.API}/epan/parley.so"
        self.assertTrue(file.exists(), done.stdout)
        self.assertIn(f"installed {file}", done.stdout)
        self.assertIn("tshark loads it", done.stdout)

    if os.getuid() == 0:
        def test_root_is_told_that_its_wireshark_would_not_load_it(self):
            self.drop = []
            done = self.dev()
            self.assertEqual(done.returncode, 2)
            self.assertIn("or give --system", done.stderr)

    def test_another_tshark_is_refused(self):
        self.program("tshark", "TShark (Wireshark) 4.2.2 (Git v4.2.2 packaged as 4.2.2-1)")
        done = self.dev()
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn(f"the plugin is for Wireshark {harness.API}; {self.folder}/bin/tshark is 4.2.2", done.stderr)

    def test_other_headers_are_refused(self):
        self.program("pkg-config", "4.4.18")
        done = self.dev()
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn(f"the plugin is for Wireshark {harness.API}; the headers here are of 4.4.18", done.stderr)

    def test_an_unknown_option_is_refused(self):
        done = self.dev("--everywhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option --everywhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
