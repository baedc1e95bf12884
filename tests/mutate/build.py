# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Compiles one changed source and links the test programs of its room with it, in a build directory of its own."""
import fcntl
import json
import os
import pathlib
import re
import resource
import shlex
import subprocess
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "lint"))
from common import ROOM_TABLE  # noqa: E402
COMPILE_SECONDS = 300
BUILD_SECONDS = 3600
MEMORY_MAX = 6 << 30  # octets, of each program started here: a mutant may allocate for ever
# Which rooms' test programs are worth running for another room besides its own, the cheapest first.
ALSO = {
    "base": ("wire", "nic", "cm", "tools", "sim"), "wire": ("mad", "mpa", "nic", "cm", "capture"), "draw": ("capture", "sim"),
    "mpa": ("nic", "cm"), "nic": ("cm", "sim"), "cm": ("sim",), "xrc": ("sim", "drivers"), "mad": ("capi", "drivers", "sim"), "ssa": ("drivers",),
    "capture": ("tools", "sim"), "tester": ("conform", "replay"),
    "replay": ("tools",), "conform": ("tools",), "ops": ("tools",), "sim": ("tools", "replay", "ops"), "drivers": ("tools", "capi"),
}
# The test programs that reach each room with code.
PROGRAMS = {room: (room, *ALSO.get(room, ())) for room, (kind, _) in ROOM_TABLE.items() if kind in ("pure", "system")}
# Sources whose code is a device's: no test program can run it without one. tests/interop/nics runs it on rxe and siw.
ON_DEVICES = ("drivers/rdmacm/", "drivers/verbs/device.cpp", "drivers/verbs/negotiate.cpp", "drivers/verbs/qp.cpp",
              "drivers/verbs/resolve.cpp", "drivers/verbs/xrc.cpp")
# The rooms of a run that names none.
MUTATED = [room for room, (kind, _) in ROOM_TABLE.items() if kind == "pure"] + ["drivers"]


class BuildError(Exception):
    pass


def run(command, seconds, what, **options):
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=seconds, check=False, **options)
    except subprocess.TimeoutExpired:
        raise BuildError(f"{what} took longer than {seconds} s") from None
    return done.returncode, done.stdout


class Build:
    def __init__(self, root, folder, jobs):
        self.root, self.folder, self.jobs = root, folder, jobs
        self.slots = threading.BoundedSemaphore(jobs)  # compilers, linkers and test programs at once
        self.work = folder / "mutants"
        self.commands = {}
        self.unity = {}  # of a source that is compiled with others of its room, the file that includes them

    def must(self, command, seconds, what):
        status, output = run(command, seconds, what)
        if status != 0:
            raise BuildError(f"{what} failed:\n{output[-3000:]}")
        return output

    def prepare(self, rooms, as_built=False):
        """The program as it is, without optimisation that costs more than it saves, and without sanitizers; or a build that
        is there and up to date."""
        self.work.mkdir(parents=True, exist_ok=True)
        self.lock = (self.work / "lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BuildError(f"{self.folder} is in use by another run; name another with --build") from None
        programs = sorted({f"test_{p}" for room in rooms for p in PROGRAMS[room]})
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, resource.getrlimit(resource.RLIMIT_AS)[1]))
        if not as_built:
            self.configure_and_make(programs)
        if not (self.folder / "compile_commands.json").is_file():
            raise BuildError(f"{self.folder} is no build directory")
        for entry in json.loads((self.folder / "compile_commands.json").read_text()):
            self.add_command(pathlib.Path(entry["file"]), shlex.split(entry["command"]))
        self.links = {name: self.link_of(name) for name in programs}
        self.trace = self.compile({next(p for p in self.commands if "/tests/unit/" in p): HERE / "trace.cpp"}, "trace")

    def add_command(self, file, words):
        if words[words.index("-o") + 1].startswith("tests/threads/"):
            return  # the rooms again, under ThreadSanitizer
        self.commands.setdefault(str(file), words)
        if file.parent.name == "Unity":
            for source in re.findall(r'^#include "(.+\.cpp)"$', file.read_text(), re.M):
                self.commands.setdefault(source, words)
                self.unity.setdefault(source, str(file))

    def link_of(self, name):
        last = self.must(["ninja", "-C", str(self.folder), "-t", "commands", name], 60, "ninja").splitlines()
        link = next(line for line in reversed(last) if f"-o tests/{name}" in line)
        link = link[link.index("&& ") + 3:link.rindex("&&")] if "&& " in link else link
        return shlex.split(link.split(" && ")[0])

    def configure_and_make(self, programs):
        self.must(["cmake", "-S", str(self.root), "-B", str(self.folder), "-G", "Ninja", "-DCMAKE_BUILD_TYPE=None",
                   "-DCMAKE_CXX_FLAGS=-O1", "-DPARLEY_TESTS=ON", "-DPARLEY_UNITY=ON"], 300, "cmake")
        self.must(["ninja", "-C", str(self.folder), "-j", str(self.jobs), *programs], BUILD_SECONDS, "the build")

    def compile(self, sources, name):
        """The object of these sources, which are compiled as one; each stands for another: {path: path}. For what does not
        compile, an error with what the compiler says."""
        out = self.work / f"{name}.o"
        source, instead_of = next((s, i) for i, s in sources.items())
        command = list(self.commands[instead_of])
        if together := self.unity.get(instead_of):
            text = pathlib.Path(together).read_text()
            for other, changed in sources.items():
                text = text.replace(f'#include "{other}"', f'#include "{changed}"')
            source, instead_of = self.work / f"{name}.unity.cpp", together
            source.write_text(text)
        for i, word in enumerate(command):
            if word in ("-o", "-MF", "-MT"):
                command[i + 1] = str(out) + ("" if word == "-o" else ".d")
        command = [str(source) if w == instead_of else w.replace("-O2", "-O1") for w in command if w not in ("-Werror", "-g1")]
        at = command.index("-c")
        with self.slots:
            status, output = run([*command[:at], "-w", "-Wno-narrowing", *command[at:]], COMPILE_SECONDS,
                                 f"compiling {source.name}", cwd=self.folder)
        if status != 0:
            raise BuildError(output)
        return out

    def arguments(self, file):
        """What libclang has to know to read the file."""
        path = str(self.root / file)
        if path not in self.commands:
            raise BuildError(f"{file} is no source that the build compiles; only .cpp files of rooms are mutated")
        words = self.commands[path]
        out = [w for w in words if w.startswith(("-I", "-D", "-std"))]
        return out + [w for i, v in enumerate(words) if v == "-isystem" for w in words[i:i + 2]]

    def object(self, texts, name):
        """Of sources that the build compiles as one, or of one: {file: text}."""
        changed = {}
        for file, text in texts.items():
            changed[str(self.root / file)] = source = self.work / f"{name}.{file.replace('/', '_')}"
            source.write_text(text)
        return self.compile(changed, name)

    def together(self, files):
        """The files by what is compiled as one."""
        out = {}
        for file in files:
            out.setdefault(self.unity.get(str(self.root / file), file), []).append(file)
        return list(out.values())

    def has(self, name, file):
        """Whether the test program is linked with the library of the source."""
        words = self.commands[str(self.root / file)]
        library = re.search(r"CMakeFiles/(\w+)\.dir/", words[words.index("-o") + 1])[1]
        return any(w.endswith(f"lib{library}.a") for w in self.links[name])

    def program(self, name, out, *objects):
        """Linked with these objects before the libraries, which then have nothing to add; it is called `out`."""
        out = self.work / out
        command = list(self.links[name])
        at = command.index("-o")
        command[at + 1] = str(out)
        command[at:at] = [str(o) for o in objects]
        with self.slots:
            status, output = run(command, COMPILE_SECONDS, f"linking {name}", cwd=self.folder)
        if status != 0:
            raise BuildError(f"{name} could not be linked:\n{output[-2000:]}")
        return out


def rooms_of(files):
    found = {pathlib.PurePath(f).parts[0] for f in files}
    if unknown := sorted(found - set(PROGRAMS)):
        raise BuildError(f"no test programs are known for {', '.join(unknown)}; the rooms are {', '.join(PROGRAMS)}")
    return found


def environment(**more):
    return {**os.environ, "GTEST_COLOR": "no", "NO_COLOR": "1", **more}
