# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Runs tshark as a user does who has, or has not, put the plugin into the personal plugin folder.

PARLEY_PLUGIN        the plugin, parley.so
PARLEY_TSHARK        tshark (its editcap and randpkt beside it or on the path)
PARLEY_PLUGIN_API    what stands in the name of Wireshark's plugin folder: 4.0
PARLEY_PRELOAD       a library that the plugin needs before all others, such as that of AddressSanitizer
"""
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent.parent
PLUGIN = pathlib.Path(os.environ["PARLEY_PLUGIN"])
TSHARK = os.environ.get("PARLEY_TSHARK", "tshark")
API = os.environ.get("PARLEY_PLUGIN_API", "4.0")
PRELOAD = os.environ.get("PARLEY_PRELOAD", "")
USER = "nobody"
LIMIT = 600  # seconds for any one run: only a hang takes as long, on a slow machine with a sanitizer too

# What no capture may cause. "Dissector bug" and assertions of GLib are printed by Wireshark itself.
CRASH = re.compile(r"Dissector bug|DISSECTOR_ASSERT|GLib[^ ]*-(CRITICAL|WARNING|ERROR)|Err  file|AddressSanitizer|"
                   r"runtime error:|Assertion|Segmentation|assertion '", re.I)


# The formats of gui.column.format.
COLUMNS = {"frame.number": "%m", "_ws.col.Protocol": "%p", "_ws.col.Info": "%i", "_ws.col.Source": "%s"}
FLAGS = {"True": "1", "False": "0"}  # 4.2 and later print flags as words


class Tshark:
    """A home with or without the plugin; a context manager. Tests that run as root run tshark as nobody."""

    def __init__(self, plugin):
        self.plugin = plugin

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="parley-tshark-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        if self.plugin:
            epan = self.home / ".local/lib/wireshark/plugins" / API / "epan"
            epan.mkdir(parents=True)
            shutil.copy(PLUGIN, epan / "parley.so")
        self.readable(self.folder)
        return self

    def __exit__(self, *_):
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

    def command(self, *arguments, program=TSHARK):
        env = [f"HOME={self.home}", "LC_ALL=C.UTF-8", "TZ=UTC", f"XDG_CONFIG_HOME={self.home}/.config",
               f"PATH={os.environ['PATH']}"]
        if PRELOAD and self.plugin:
            env += [f"LD_PRELOAD={PRELOAD}", "ASAN_OPTIONS=detect_leaks=0:verify_asan_link_order=0",
                    "UBSAN_OPTIONS=print_stacktrace=1"]
        drop = ["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", "--"] if os.getuid() == 0 else []
        return [*drop, "env", "-i", *env, program, *map(str, arguments)]

    def run(self, *arguments, timeout=LIMIT, **more):
        return subprocess.run(self.command(*arguments, **more), capture_output=True, text=True, timeout=timeout,
                              errors="replace", cwd=self.folder)

    def fields(self, capture, fields, options=()):
        """{frame number: {field: [values]}} of the frames that have one of the fields."""
        columns = [] if API == "4.0" else [field for field in fields if field in COLUMNS]
        arguments = [part for field in fields if field not in columns for part in ("-e", field)]
        done = self.run("-n", "-r", capture, *options, "-T", "json", "-e", "frame.number", *arguments)
        if done.returncode or done.stderr.strip():
            raise AssertionError(f"tshark said {done.returncode}: {done.stderr}")
        shown = self.columns(capture, columns, options) if columns else {}
        frames = {}
        for packet in json.loads(done.stdout):
            layers = {name: [FLAGS.get(value, value) for value in values] for name, values in packet["_source"]["layers"].items()}
            number = layers.pop("frame.number")[0]
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
