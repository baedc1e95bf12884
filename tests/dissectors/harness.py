# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs tshark as a user does who has, or has not, put the plugin into the personal plugin folder.

PARLEY_PLUGIN        the plugin, parley.so
PARLEY_TSHARK        tshark (its editcap and randpkt beside it or on the path)
PARLEY_PLUGIN_API    what stands in the name of Wireshark's plugin folder: 4.0
PARLEY_PRELOAD       a library that the plugin needs before all others, such as that of AddressSanitizer
PARLEY_FORK          fork_at_open.so: with it one tshark reads all captures that are read with the same options, in a child each;
                     without it a tshark starts for each
"""
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PLUGIN = pathlib.Path(os.environ["PARLEY_PLUGIN"])
TSHARK = os.environ.get("PARLEY_TSHARK", "tshark")
API = os.environ.get("PARLEY_PLUGIN_API", "4.0")
PRELOAD = os.environ.get("PARLEY_PRELOAD", "")
FORK = os.environ.get("PARLEY_FORK", "")
CANNOT = 97  # exit status, of fork_at_open.c
SERVERS = 3  # tsharks that wait for captures at once; each has 150 MB
USER = "nobody"
LIMIT = 600  # seconds for any one run: only a hang takes as long, on a slow machine with a sanitizer too

# What no capture may cause. "Dissector bug" and assertions of GLib are printed by Wireshark itself.
CRASH = re.compile(r"Dissector bug|DISSECTOR_ASSERT|GLib[^ ]*-(CRITICAL|WARNING|ERROR)|Err  file|AddressSanitizer|"
                   r"runtime error:|Assertion|Segmentation|assertion '", re.I)


# The formats of gui.column.format.
COLUMNS = {"frame.number": "%m", "_ws.col.Protocol": "%p", "_ws.col.Info": "%i", "_ws.col.Source": "%s"}
FLAGS = {"True": "1", "False": "0"}  # 4.2 and later print flags as words


class Server:
    """A tshark with fork_at_open.so that has been started; it reads what stands at its capture's path each time that it is asked."""

    def __init__(self, command, folder):
        self.texts = tempfile.TemporaryFile(), tempfile.TemporaryFile()  # standard output and standard error
        self.socket, other = socket.socketpair()
        with other:
            self.process = subprocess.Popen(command, stdin=other, stdout=self.texts[0], stderr=self.texts[1], cwd=folder,
                                            start_new_session=True)
        self.waits = self.answer(LIMIT) is not None
        self.places = [file.seek(0, os.SEEK_END) for file in self.texts]  # behind what it said before it waited

    def answer(self, timeout):
        """The exit status of a child, or None: tshark has ended."""
        self.socket.settimeout(timeout)
        try:
            octets = self.socket.recv(4, socket.MSG_WAITALL)
        except TimeoutError as limit:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise subprocess.TimeoutExpired(self.process.args, timeout) from limit
        return os.waitstatus_to_exitcode(struct.unpack("i", octets)[0]) if len(octets) == 4 else None

    def run(self, timeout, whole):
        """As subprocess.run of the command with text=True and errors="replace"; None if the capture cannot be opened.

        `whole`: tshark frees all that it has before it ends."""
        status = None
        if self.waits:
            self.socket.sendall(b"w" if whole else b"q")
            status = self.answer(timeout)
        if status is None:  # it ended for a reason of its own
            self.waits, status = False, self.process.wait(timeout=timeout)
        if status == CANNOT:
            return None
        return subprocess.CompletedProcess(self.process.args, status, *map(self.said, self.texts, self.places))

    @staticmethod
    def said(file, place):
        """The offset in the file is tshark's as well."""
        file.seek(0)
        octets = file.read()
        file.truncate(file.seek(place))
        return octets.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")

    def end(self):
        self.socket.close()
        self.process.wait(timeout=LIMIT)
        for file in self.texts:
            file.close()


class Tshark:
    """A home with or without the plugin; a context manager. Tests that run as root run tshark as nobody."""

    def __init__(self, plugin):
        self.plugin = plugin

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="parley-tshark-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        self.serves = bool(FORK)
        self.whole = False  # whether a tshark has freed all that it had
        self.known = {}  # {options: fields that were asked for}
        self.servers = {}  # {arguments: Server}, the one that was asked last at the end
        if FORK:
            shutil.copy(FORK, self.folder)
        if self.plugin:
            epan = self.home / ".local/lib/wireshark/plugins" / API / "epan"
            epan.mkdir(parents=True)
            shutil.copy(PLUGIN, epan / "parley.so")
        self.readable(self.folder)
        return self

    def __exit__(self, *_):
        for server in self.servers.values():
            server.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def readable(self, folder):
        """For the other user; a build folder may be closed to it."""
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755 if path.is_dir() or path.suffix == ".so" else 0o644)
        if os.getuid() == 0:
            entry = pwd.getpwnam(USER)
            os.chown(self.home, entry.pw_uid, entry.pw_gid)

    def file(self, name, octets):
        """A capture that tshark's user can read."""
        path = self.folder / name
        path.write_bytes(octets)
        path.chmod(0o644)
        return path

    def command(self, *arguments, program=TSHARK, preload=()):
        env = [f"HOME={self.home}", "LC_ALL=C.UTF-8", "TZ=UTC", f"XDG_CONFIG_HOME={self.home}/.config",
               f"PATH={os.environ['PATH']}"]
        if PRELOAD and self.plugin:
            preload = (PRELOAD, *preload)
            env += ["ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0", "UBSAN_OPTIONS=print_stacktrace=1"]
        if preload:
            env.append("LD_PRELOAD=" + ":".join(map(str, preload)))
        drop = ["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", "--"] if os.getuid() == 0 else []
        return [*drop, "env", "-i", *env, program, *map(str, arguments)]

    def run(self, *arguments, timeout=LIMIT, **more):
        done = self.served(list(arguments), timeout) if self.serves and "-r" in arguments and not more else None
        return done or subprocess.run(self.command(*arguments, **more), capture_output=True, text=True, timeout=timeout,
                              errors="replace", cwd=self.folder)

    def served(self, arguments, timeout):
        """The capture comes under a path that is the same each time, to a tshark that was started with these options. None: it
        cannot be opened."""
        place, path = arguments.index("-r") + 1, self.folder / "served"
        path.unlink(missing_ok=True)
        path.symlink_to(arguments[place])
        arguments[place] = path
        key = tuple(map(str, arguments))
        server = self.servers.pop(key, None)
        if server is None:
            if len(self.servers) == SERVERS:
                self.servers.pop(next(iter(self.servers))).end()
            server = Server(self.command(*arguments, preload=(self.folder / pathlib.Path(FORK).name,)), self.folder)
        try:
            done = server.run(timeout, whole=not self.whole)
        except BaseException:
            server.end()
            raise
        self.whole = True
        if server.waits:
            self.servers[key] = server
        else:
            server.end()
            self.serves = done is not None  # fork_at_open.c does not know the structures of this Wireshark
        return done

    def asked(self, options, fields):
        """These fields and those that were asked for before with the same options, so that a tshark that waits serves again."""
        if not FORK:
            return fields
        known = self.known.setdefault(tuple(options), {})
        known.update(dict.fromkeys(fields))
        return list(known)

    def fields(self, capture, fields, options=()):
        """{frame number: {field: [values]}} of the frames that have one of the fields."""
        columns = [] if API == "4.0" else [field for field in fields if field in COLUMNS]
        asked = self.asked(options, [field for field in fields if field not in columns])
        arguments = [part for field in asked for part in ("-e", field)]
        done = self.run("-n", "-r", capture, *options, "-T", "json", "-e", "frame.number", *arguments)
        if done.returncode or done.stderr.strip():
            raise AssertionError(f"tshark said {done.returncode}: {done.stderr}")
        shown = self.columns(capture, columns, options) if columns else {}
        frames = {}
        for packet in json.loads(done.stdout):
            layers = {name: [FLAGS.get(value, value) for value in values] for name, values in packet["_source"]["layers"].items()}
            number = layers.pop("frame.number")[0]
            layers = {name: values for name, values in layers.items() if name in fields}
            layers.update(shown.get(number, {}))
            if layers:
                frames[number] = layers
        return frames

    def columns(self, capture, columns, options):
        """{frame number: {column: [text]}} of all frames, as in the packet list.

        From Wireshark 4.2 on, the fields _ws.col.* have what was there before the postdissectors."""
        formats = ",".join(f'"{name}","{COLUMNS[name]}"' for name in ("frame.number", *columns))
        done = self.run("-n", "-r", capture, *options, "-T", "tabs", "-o", f"gui.column.format:{formats}")
        if done.returncode or done.stderr.strip():
            raise AssertionError(f"tshark said {done.returncode}: {done.stderr}")
        rows = (as_before_4_6(line).split("\t") for line in done.stdout.split("\n") if line)
        return {number.strip(): {name: [text.strip()] for name, text in zip(columns, texts) if text.strip()} for number, *texts in rows}


def as_before_4_6(info):
    """4.6 calls a segment that fills a hole a retransmission, earlier versions call it out of order."""
    return info.replace("[TCP Retransmission]", "[TCP Out-Of-Order]")


def captures():
    """Every capture of the repository."""
    return sorted([*(SOURCE / "tests/captures").rglob("*.pcap*"), *(HERE / "captures").glob("*.pcap"),
                   *(HERE / "adversarial").glob("*.pcap")])
