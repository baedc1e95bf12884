# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley run` as a command: its own options and those of the program, what it says before it starts a program, the environment that it
leaves, and the files that several processes record. What programs do with the device: verbs_test.py and rdmacm_test.py."""
import glob
import os
import platform
import re
import shutil
import struct
import subprocess
import sys
import unittest

import netns
from cli import LIMIT, PARLEY, CliTest, address, main, needs, run

LIBRARY = os.path.realpath(os.path.join(os.path.dirname(PARLEY), "..", "lib", "parley", "libparley_verbs.so"))
# The default route leaves by the second one. An address that is not usable yet is no GID.
INTERFACES = """ip link set lo up
ip link add v1 type veth peer name w1; ip link add v2 type veth peer name w2
for n in 1 2; do ip link set v$n addrgenmode none; ip link set w$n addrgenmode none; ip link set v$n up; done
ip address add 198.18.0.7/24 dev v1; ip address add 192.0.2.7/24 dev v2; ip link set w2 up; ip route add default via 192.0.2.1
ip -6 address add 2001:db8::7/64 dev v2 nodad; ip -6 address add fe80::a/64 dev v2 nodad; ip -6 address add 2001:db8::9/64 dev v1
echo ready; exec cat
"""
OPEN = '''
import ctypes, os
lib = ctypes.CDLL("libibverbs.so.1")
lib.ibv_get_device_list.restype = lib.ibv_open_device.restype = ctypes.c_void_p
device = ctypes.cast(lib.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))[0]
context = lib.ibv_open_device(ctypes.c_void_p(device))
print("opened" if context else "not opened", os.getpid(), flush=True)
lib.ibv_close_device(ctypes.c_void_p(context))
'''
# A process that ends while its child waits for the end of standard input.
FORKS = OPEN.replace("lib.ibv_close_device(", """
if os.fork() == 0:
    os.close(1)
    os.read(0, 1)
    os._exit(0)
lib.ibv_close_device(""")
# A process that has the device until the end of standard input.
WAITS = OPEN.replace("lib.ibv_close_device(", "os.read(0, 1)\nlib.ibv_close_device(")
MACHINES = {"x86_64": "x86-64", "aarch64": "AArch64"}
OTHER = (b"\x3e\0", "x86-64") if platform.machine() == "aarch64" else (b"\xb7\0", "AArch64")


def with_elf(offset, octets):
    """A real program, in which these octets of the file differ."""
    with open(shutil.which("true"), "rb") as file:
        content = bytearray(file.read())
    content[offset:offset + len(octets)] = octets
    return bytes(content)


def loader_of(content):
    """Of an ELF file: where its program header of the dynamic loader is, and where the loader's name is and its length."""
    table, size, count = struct.unpack_from("<Q", content, 32)[0], *struct.unpack_from("<HH", content, 54)
    for at in range(table, table + size * count, size):
        kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", content, at)
        if kind == 3:
            return at, offset, length
    raise AssertionError("a static program")


def loader():
    """The dynamic loader of this machine's programs."""
    content = with_elf(0, b"")
    _, offset, length = loader_of(content)
    return content[offset:offset + length - 1].decode()


def with_loader(path):
    """The same program with another dynamic loader."""
    content = bytearray(with_elf(0, b""))
    at, offset, length = loader_of(content)
    content[offset:offset + length] = path.encode().ljust(length, b"\0")
    struct.pack_into("<Q", content, at + 32, len(path) + 1)
    return bytes(content)


class Run(CliTest):
    def said(self, *words, env=None):
        done = subprocess.run([PARLEY, *map(str, words)], capture_output=True, text=True, timeout=LIMIT, check=False,
                              env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def executable(self, name, content):
        path = self.path(name, content)
        os.chmod(path, 0o755)
        return path

    def test_an_infiniband_port_needs_an_address_with_a_lid(self):
        show = ("sh", "-c", "echo $PARLEY_VERBS_LINK_LAYER")
        self.assertEqual(self.said("run", "-a", "127.0.0.1", "--link-layer", "infiniband", *show), "infiniband\n")
        for where in ("::1", "127.0.192.0"):
            self.refused(run("run", "-a", where, "--link-layer", "infiniband", *show), 3, f"{where} has no LID: ")

    def test_options_after_the_program_are_the_programs(self):
        for command in ("run", "verbs"):
            self.assertEqual(self.said(command, "echo", "-v", "--pcapng", "--env", "--", "--help", "", "[a,b]"),
                             "-v --pcapng --env -- --help  [a,b]\n")
        for ours in ((), ("--",), ("-a", "127.0.0.1"), ("-a127.0.0.1", "--"), ("-a", "127.0.0.1", "-a", "127.0.0.3,::1"),
                     ("--address=127.0.0.1",)):
            with self.subTest(ours):
                self.assertEqual(self.said("run", *ours, "echo", "-a", "x"), "-a x\n")
        self.assertEqual(self.said("run", "--", "env", "--version").split()[0], "env")

    def test_addresses_and_what_is_inherited(self):
        show = ("sh", "-c", "echo $PARLEY_VERBS_ADDRESS; echo $PARLEY_VERBS_LOG; echo $LD_PRELOAD")
        self.assertEqual(self.said("run", "-a", "127.0.0.1", "-a", "127.0.0.3,127.0.0.5", *show).splitlines(),
                         ["127.0.0.1,127.0.0.3,127.0.0.5", "", LIBRARY])
        inner = ("-a", "127.0.0.1", "-v", PARLEY, "run")
        self.assertEqual(self.said("run", *inner, *show).splitlines(), ["127.0.0.1", "1", LIBRARY])
        self.assertEqual(self.said("run", *inner, "-a", "127.0.0.9", *show).splitlines(), ["127.0.0.9", "1", LIBRARY])
        self.assertEqual(self.said("run", *show, env={"LD_PRELOAD": "libm.so.6"}).splitlines()[2], LIBRARY + ":libm.so.6")

    def test_the_gids_are_reported(self):
        done = run("run", "-v", "-a", "127.0.0.5,192.0.2.77,127.0.0.5", "true")
        self.assertEqual(done.err.splitlines(), ["parley0: GID 0: 127.0.0.5 (lo)", "parley0: GID 1: 192.0.2.77 (no interface)"])
        self.assertEqual(run("run", "-v", "-a", "[::1]", "true").err.splitlines(), ["parley0: GID 0: ::1 (lo)"])

    @unittest.skipIf(netns.WHY_NOT, netns.WHY_NOT)
    def test_the_gids_of_a_machine_with_two_interfaces(self):
        host = netns.made_by(self, INTERFACES)
        host.says("ready")
        said = run("run", "-v", "true", inside=netns.inside(host.process.pid)).err
        link = re.search(r"fe80::a%\d+", said)[0]
        self.assertEqual(re.findall(r"GID \d+: (\S+ \S+)", said), [
            "192.0.2.7 (v2)", "198.18.0.7 (v1)", "2001:db8::7 (v2)", f"{link} (v2)", "127.0.0.1 (lo)", "::1 (lo)"])

    def test_the_environment_for_a_shell(self):
        folder = os.path.dirname(self.path("it's here/x"))
        os.makedirs(folder, exist_ok=True)
        self.assertTrue(os.path.isdir(folder))
        script = f'''cd "{folder}"; eval "$("{PARLEY}" run --env -v -a 127.0.0.1,::1 --pcapng 'a $b.pcapng')"
            env | grep -E "^(LD_PRELOAD|PARLEY_VERBS)" | sort; sh -c "echo from below"'''
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.stdout.splitlines(), [f"LD_PRELOAD={LIBRARY}", "PARLEY_VERBS_ADDRESS=127.0.0.1,::1", "PARLEY_VERBS_LOG=1",
                                                    f"PARLEY_VERBS_PCAPNG={folder}/a $b.pcapng", "from below"], done)

    def test_a_shell_in_which_programs_find_the_device(self):
        script = f'for i in 1 2; do "{sys.executable}" -B -c "$0"; done'
        said = self.said("run", "-a", address(1), "sh", "-c", script, OPEN)
        self.assertEqual([line.split()[0] for line in said.splitlines()], ["opened"] * 2)

    def test_each_process_records_a_file_of_its_own(self):
        name = self.path("x.pcapng", b"of an earlier run")
        script = f'for i in 1 2; do "{sys.executable}" -B -c "$0"; done'
        pids = [line.split()[1] for line in self.said("run", "-a", address(1), "--pcapng", name, "sh", "-c", script, OPEN).splitlines()]
        found = sorted(glob.glob(name.replace("x.pcapng", "x*")))
        self.assertEqual(found, sorted([name, name.replace(".pcapng", f".{pids[1]}.pcapng")]))
        for file in found:
            with open(file, "rb") as content:
                self.assertEqual(content.read(4), b"\n\r\r\n", file)
        marked = self.path("%p-y.pcapng")
        pids = [line.split()[1] for line in self.said("run", "-a", address(1), "--pcapng", marked, "sh", "-c", script, OPEN).splitlines()]
        self.assertEqual(sorted(glob.glob(marked.replace("%p", "*"))), sorted(marked.replace("%p", pid) for pid in pids))

    def test_a_file_behind_a_symbolic_link(self):
        os.makedirs(self.path("other/below"))
        os.symlink(self.path("other/below"), self.path("link"))
        with open(self.path("other/x.pcapng"), "wb") as file:
            file.write(b"of an earlier run")
        subprocess.run([PARLEY, "run", "-a", address(1), "--pcapng", "link/../x.pcapng", sys.executable, "-B", "-c", OPEN], check=True,
                       timeout=LIMIT, cwd=self.path(""), stdout=subprocess.DEVNULL)
        with open(self.path("other/x.pcapng"), "rb") as file:
            self.assertEqual(file.read(4), b"\n\r\r\n")
        self.assertFalse(os.path.exists(self.path("x.pcapng")))

    def test_a_folder_that_was_removed(self):
        os.mkdir(self.path("removed"))
        script = f'cd "{self.path("removed")}"; rmdir "$PWD"; exec "{PARLEY}" run --pcapng %p.pcapng true'
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("%p.pcapng: No such file or directory", done.stderr)

    def begin(self, name, script):
        """A process that records, once it has opened the device."""
        process = subprocess.Popen([PARLEY, "run", "-a", address(1), "--pcapng", name, sys.executable, "-B", "-c", script],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, LIMIT)
        self.addCleanup(process.stdin.close)
        self.assertEqual(process.stdout.readline().split()[0], "opened")
        return process

    def test_a_forked_child_does_not_keep_the_file(self):
        name = self.path("x.pcapng")
        self.begin(name, FORKS).wait(LIMIT)
        done = run("run", "-a", address(1), "--pcapng", name, sys.executable, "-B", "-c", OPEN)
        self.assertEqual((done.code, done.err), (0, ""))
        self.assertEqual(glob.glob(self.path("x*")), [name])

    def test_a_file_that_another_process_records(self):
        name = self.path("x.pcapng")
        self.begin(name, WAITS)
        done = run("run", "-a", address(2), "--pcapng", name, sys.executable, "-B", "-c", OPEN)
        self.assertEqual(done.code, 0, done)
        self.assertIn(f"{name}: another process is recording it", done.err)
        self.assertEqual(len(glob.glob(self.path("x.*.pcapng"))), 1)

    def test_files_that_cannot_be_written(self):
        """The program works without the device's files, and without its recording."""
        program = f"""{OPEN}
try:
    open("/sys/class/infiniband/parley0/node_guid").read()
except FileNotFoundError:
    print("no file")
"""
        command = [PARLEY, "run", "-v", "-a", address(1), sys.executable, "-B", "-c", program]
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True, env={**os.environ, "TMPDIR": "/nonexistent"})
        self.assertEqual(re.sub(r"\d+", "N", done.stdout), "opened N\nno file\n")
        self.assertIn("the files of the device: no folder", done.stderr)
        # No file may have an octet.
        limited = ["sh", "-c", 'trap "" XFSZ; ulimit -f 0; exec "$@"', "sh", *command[:2], "--pcapng", self.path("x.pcapng"), *command[2:]]
        done = subprocess.run(limited, capture_output=True, text=True, timeout=LIMIT, check=True)
        self.assertIn("opened", done.stdout)
        self.assertIn("parley run: the recording ends: File too large", done.stderr)
        self.assertIn("the files of the device: the temporary folder (TMPDIR) has no space", done.stderr)

    def test_programs_that_cannot_be_preloaded(self):
        name = os.path.basename(LIBRARY)
        own = MACHINES.get(platform.machine(), "")
        self.refused(run("run", self.executable("other", with_elf(18, OTHER[0]))), 3, f"it is for {OTHER[1]}, and {name} is for {own}")
        self.refused(run("run", self.executable("damaged", with_elf(54, b"\1\0"))), 3, "its ELF headers are damaged")
        musl = self.executable("musl", with_loader("/lib/ld-musl-x86_64.so"))
        self.refused(run("run", musl), 3, "it has another C library: its loader is /lib/ld-musl-x86_64.so")
        no_loader = f"/x/{os.path.basename(loader())}"
        gone = self.executable("gone", with_loader(no_loader))
        self.refused(run("run", gone), 3, f"its loader {no_loader}: No such file or directory")
        script = self.executable("script", f"#! {gone} -x\n".encode())
        self.refused(run("run", script), 3, f"{script}: its interpreter {gone}: its loader")
        self.assertEqual(self.said("run", self.executable("good", b"#!/bin/sh\necho $0 $1\n"), "-v").split()[1], "-v")
        self.assertEqual(self.said("run", self.executable("plain", b"echo no interpreter\n")), "no interpreter\n")

    def test_the_dynamic_loader_as_a_command(self):
        self.assertEqual(self.said("run", loader(), shutil.which("sh"), "-c", "echo $LD_PRELOAD"), LIBRARY + "\n")

    @needs("gcc")
    def test_a_static_program(self):
        source, program = self.path("m.c", b"int main(void) { return 0; }\n"), self.path("static")
        subprocess.run(["gcc", "-static", "-o", program, source], check=True, timeout=LIMIT)
        self.refused(run("run", program), 3, f"{program}: it is statically linked", "parley run --env")

    @needs("setpriv")
    def test_programs_with_more_rights(self):
        if os.getuid() != 0:
            self.skipTest("only root can make a program setuid to another user")
        for mode, said in ((0o4755, "it is setuid"), (0o2755, "it is setgid")):
            program = self.executable("program", with_elf(0, b""))
            os.chmod(program, mode)
            for folder in (program, os.path.dirname(program)):
                os.chmod(folder, os.stat(folder).st_mode | 0o755)
            other = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups")
            self.refused(run("run", program, inside=other), 3, said, "LD_PRELOAD")
            self.assertEqual(run("run", program, inside=(*other, "--no-new-privs")).code, 0)
            self.assertEqual(run("run", program).code, 0, "its owner gains nothing")

    def test_a_build_without_the_library_names_the_one_that_has_it(self):
        """./dev demo builds the command alone."""
        program = shutil.copy(os.path.realpath(PARLEY), self.path("parley"))
        done = subprocess.run([program, "run", "true"], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn("libparley_verbs.so was not found: ./dev build makes it", done.stderr)

    def test_what_is_wrong_with_the_command(self):
        for command in ("run", "verbs"):
            self.refused(run(command), 2, "PROGRAM", f"try 'parley {command} --help'")
            self.refused(run(command, "no-such-program"), 3, "no-such-program: No such file or directory")
        self.refused(run("run", "-x", "true"), 2, "there is no option -x")
        self.refused(run("run", "--env", "true"), 2, "--env runs no program")
        self.refused(run("run", self.path("plain", b"text")), 3, "Permission denied: it is not an executable file")
        self.refused(run("run", "/"), 3, "Permission denied: it is not an executable file")
        for empty in ("", ",", "127.0.0.1,", ",127.0.0.1", "127.0.0.1,,::1"):
            self.refused(run("run", "-a", empty, "true"), 2, f"'{empty}' has an empty address")
        self.refused(run("run", "-a", "no address", "true"), 3, "no address: host is neither an address nor a name")
        self.refused(run("run", "--pcapng", "/no/such/folder/x", "true"), 3, "/no/such/folder/x: No such file or directory")


main()
