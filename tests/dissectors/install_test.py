# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""./dev install-plugin puts the plugin where tshark finds it, and refuses a Wireshark that could not load it."""
import os
import pathlib
import pwd
import re
import shutil
import struct
import subprocess
import tempfile
import unittest

import harness


def for_another_minor_version(octets):
    """The plugin as if it had been built for the next minor version of Wireshark; that, and the plugin's octets."""
    def run(option):
        command = "readelf", option, "-W", harness.PLUGIN
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    address = int(re.search(r"([0-9a-f]{16}) +\d+ OBJECT +GLOBAL +DEFAULT +\d+ plugin_want_minor", run("-s"))[1], 16)
    number = r"0x([0-9a-f]+) +"
    for segment in re.findall(f"LOAD +{number}{number}0x[0-9a-f]+ +{number}", run("-l")):
        place, begin, length = (int(text, 16) for text in segment)
        if begin <= address < begin + length:
            at = place + address - begin
            minor = struct.unpack_from("<i", octets, at)[0] + 1
            return minor, octets[:at] + struct.pack("<i", minor) + octets[at + 4:]
    raise AssertionError("plugin_want_minor is in no segment")


VERSIONS = harness.SOURCE / "dissectors/versions.txt"
KNOWN = [line.split()[0] for line in VERSIONS.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]


class AnotherVersion(unittest.TestCase):
    def test_wireshark_says_so_in_a_line_and_goes_on(self):
        capture = (harness.HERE / "captures/reads.pcap").read_bytes()
        with harness.Tshark(True) as tshark:
            plugin, = tshark.home.rglob("parley.so")
            minor, octets = for_another_minor_version(plugin.read_bytes())
            plugin.write_bytes(octets)
            done = tshark.run("-n", "-r", tshark.file("reads.pcap", capture))
            version = f"Wireshark version {harness.API.split('.')[0]}.{minor}"
            self.assertEqual(done.stderr, f"tshark: The plugin 'parley.so' was compiled for {version}\n")
            self.assertEqual(done.returncode, 0)
            self.assertIn("DDP/RDMA", done.stdout)


ROOMS = "base", "wire", "draw", "mpa", "capture"


def give_to_user(folder):
    """Root's tests run the command as another user, who owns what it writes to."""
    if os.getuid() == 0:
        entry = pwd.getpwnam(harness.USER)
        for path in (folder, *folder.rglob("*")):
            os.chown(path, entry.pw_uid, entry.pw_gid)


def engine_for(folder):
    """The engine that the build under test compiled, where any user can read it; the text of a file for PARLEY_ENGINE."""
    folder.mkdir()
    copies = []
    for line in (harness.PLUGIN.parent / "engine.link").read_text().splitlines():
        file = pathlib.Path(line)
        copies.append(shutil.copy(file, folder) if file.suffix == ".a" else line)
    return "".join(f"{line}\n" for line in copies)


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tree = pathlib.Path(tempfile.mkdtemp(prefix="parley-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.tree)
        # What the command needs of the project, where any user can read it.
        for part in ("dissectors", "include", "cmake", "dev.d", *ROOMS):
            shutil.copytree(harness.SOURCE / part, cls.tree / "clone" / part)
        for part in "dev", "CMakeLists.txt":
            shutil.copy(harness.SOURCE / part, cls.tree / "clone")
        (cls.tree / "engine.link").write_text(engine_for(cls.tree / "engine"))
        (cls.tree / "build/bin").mkdir(parents=True)
        give_to_user(cls.tree)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="parley-install-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "bin").mkdir()
        self.command = self.tree / "build/bin/parley"
        self.command.write_text("#!/bin/sh\necho 'interface {value=parley-of-the-test}{display=stands there}'\n")
        self.command.chmod(0o755)
        self.drop = ["setpriv", f"--reuid={harness.USER}", "--regid=nogroup", "--clear-groups", "--"] if os.getuid() == 0 else []
        give_to_user(self.folder)

    def program(self, name, says):
        """A program of that name which comes first on the path and says one line."""
        path = self.folder / "bin" / name
        path.write_text(f"#!/bin/sh\necho '{says}'\n")
        path.chmod(0o755)

    def dev(self, *arguments):
        # What the compiler makes of the plugin is tested elsewhere: here it need not optimise.
        env = dict(os.environ, CMAKE_BUILD_TYPE="None", HOME=str(self.folder / "home"), PARLEY_BUILD=str(self.tree / "build"), PARLEY_ENGINE=str(self.tree / "engine.link"),
                   XDG_CONFIG_HOME=str(self.folder / "home/.config"), PATH=f"{self.folder / 'bin'}:{os.environ['PATH']}")
        return subprocess.run([*self.drop, self.tree / "clone/dev", "install-plugin", *arguments], env=env,
                              capture_output=True, text=True, timeout=harness.LIMIT, check=False)

    def test_it_stands_where_tshark_looks_and_is_loaded(self):
        done = self.dev()
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        file = self.folder / f"home/.local/lib/wireshark/plugins/{harness.API}/epan/parley.so"
        self.assertTrue(file.exists(), done.stdout)
        self.assertIn(f"installed {file}", done.stdout)
        self.assertIn("tshark loads it", done.stdout)
        self.the_profile_colours(done.stdout)
        extcap = self.folder / "home/.local/lib/wireshark/extcap"
        self.assertIn(f"start Wireshark with WIRESHARK_EXTCAP_DIR={extcap}\n", done.stdout)
        self.assertEqual((extcap / "parley-extcap").read_text(), self.command.read_text())
        env = dict(os.environ, WIRESHARK_EXTCAP_DIR=str(extcap))
        listed = subprocess.run([*self.drop, "tshark", "-D"], env=env, capture_output=True, text=True, timeout=harness.LIMIT, check=False)
        self.assertIn(". parley-of-the-test (stands there)\n", listed.stdout)

    def the_profile_colours(self, said):
        profile = self.folder / "home/.config/wireshark/profiles/Parley"
        self.assertIn(f"installed {profile}: ", said)
        env = dict(os.environ, HOME=str(self.folder / "home"), XDG_CONFIG_HOME=str(self.folder / "home/.config"), LC_ALL="C.UTF-8")
        for capture, due in (("captures/bad_crc.pcap", {"RDMA: set-up and end", "RDMA: a MUST is broken", "RDMA: data"}),
                             ("../captures/roce/rxe61_sidr_stale_abort.pcap", {"RDMA: set-up and end", "RDMA: refused or ended"})):
            file = self.folder / "shown.pcap"
            file.write_bytes((harness.HERE / capture).read_bytes())
            file.chmod(0o644)
            shown = subprocess.run([*self.drop, "tshark", "-n", "-C", "Parley", "-r", file, "--color", "-T", "fields", "-e", "frame.coloring_rule.name"],
                                   env=env, capture_output=True, text=True, timeout=harness.LIMIT, check=False)
            self.assertNotIn("Could not compile", shown.stderr)  # a rule whose filter is none
            self.assertLessEqual(due, set(shown.stdout.splitlines()), shown.stderr)

    def test_without_the_command_there_are_no_interfaces(self):
        """A profile that is there stays as it is."""
        profile = self.folder / "home/.config/wireshark/profiles/Parley"
        profile.mkdir(parents=True)
        (profile / "colorfilters").write_text("# mine\n")
        give_to_user(self.folder / "home")
        self.command.unlink()
        done = self.dev()
        self.assertEqual((profile / "colorfilters").read_text(), "# mine\n")
        self.assertIn(f"the profile {profile} is there and stays as it is", done.stdout)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn(f"no interfaces of Parley's in Wireshark: {self.command} is not there", done.stdout)
        self.assertFalse((self.folder / "home/.local/lib/wireshark/extcap").exists())

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
        self.assertIn(f"the headers are of Wireshark {harness.API}; {self.folder}/bin/tshark is 4.2.2", done.stderr)

    def test_other_headers_are_refused(self):
        self.program("pkg-config", "4.2.18")
        done = self.dev()
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn(f"the plugin is for Wireshark {', '.join(KNOWN)}; the headers here are of 4.2.18", done.stderr)

    def test_cmake_leaves_the_plugin_out_where_other_headers_are(self):
        self.program("pkg-config", "4.2.18")
        done = subprocess.run(["cmake", "-S", harness.SOURCE / "dissectors", "-B", self.folder / "cmake",
                               f"-DPKG_CONFIG_EXECUTABLE={self.folder}/bin/pkg-config"], capture_output=True, text=True, check=True)
        line = f"it is for Wireshark {', '.join(KNOWN)} and the development files are of 4.2.18"
        self.assertIn(f"-- Wireshark plugin: not built, {line}\n", done.stdout)

    def test_without_an_engine_its_rooms_are_compiled(self):
        """Of the rooms only the first, for time; ./dev wireshark compiles all."""
        build = self.folder / "alone"
        subprocess.run(["cmake", "-S", harness.SOURCE / "dissectors", "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None"], capture_output=True, check=True)
        subprocess.run(["ninja", "-C", build, "parley_base"], capture_output=True, check=True)
        planned = subprocess.run(["ninja", "-C", build, "-t", "commands", "parley_wireshark"], capture_output=True, text=True, check=True)
        link = planned.stdout.splitlines()[-1]
        for room in ROOMS:
            self.assertIn(f"libparley_{room}.a", link)
        self.assertIn("capture/engine/engine_c.cpp", "".join(path.read_text() for path in build.rglob("unity_*.cxx")))

    def test_an_unknown_option_is_refused(self):
        done = self.dev("--everywhere")
        self.assertEqual(done.returncode, 2)
        self.assertIn("unknown option --everywhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
