# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What the lints share: the list of the project's files, and the way a lint reports and is tested.

A lint is a module with check(root) -> list of findings, and self_test() -> None, which shows with made input that
the lint can fail. `<lint>.py ROOT` runs the first, `<lint>.py --self-test` the second.
"""
import contextlib
import sys
import tempfile
from pathlib import Path



def read_rooms(table):
    """cmake/rooms.txt: {room: (kind, what it may use)}, in its order."""
    rooms = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            room, kind, *uses = line.split()
            rooms[room] = kind, {"include", room, *uses}
    everything = set(rooms) - {room for room, (kind, _) in rooms.items() if kind == "last"}
    for room, (kind, _) in rooms.items():
        if kind == "last":
            rooms[room] = kind, everything | {room}
    return rooms


ROOM_TABLE = read_rooms(Path(__file__).resolve().parents[2] / "cmake" / "rooms.txt")
PURE_ROOMS = tuple(room for room, (kind, _) in ROOM_TABLE.items() if kind == "pure")
ROOMS = tuple(ROOM_TABLE)
CODE_FOLDERS = (*ROOMS, "dissectors", "docs/examples")
SOURCE_SUFFIXES = (".cpp", ".hpp", ".h", ".c")
LEFT_OUT = {"build", ".git", ".cache", "__pycache__", "corpus"}


def files(root, folders=None, suffixes=None):
    """The project's files below root in a fixed order, as paths relative to root."""
    root = Path(root)
    found = []
    for start in folders or [""]:
        for path in (root / start).rglob("*"):
            relative = path.relative_to(root)
            if path.is_file() and not any(p in LEFT_OUT or p.startswith("build") for p in relative.parts[:-1]) \
                    and path.name not in LEFT_OUT:  # in a work tree of git's, .git is a file
                if suffixes is None or path.suffix in suffixes:
                    found.append(relative)
    return sorted(found)


def sources(root):
    return files(root, ROOMS, SOURCE_SUFFIXES)


def read(root, path):
    return (Path(root) / path).read_text(encoding="utf-8", errors="replace")


@contextlib.contextmanager
def made_tree(contents):
    """A throw-away project tree for self-tests: {path: text}."""
    with tempfile.TemporaryDirectory() as folder:
        for path, text in contents.items():
            target = Path(folder) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        yield Path(folder)


def expect(findings, *fragments):
    """Self-test assertion: exactly one finding per fragment, in any order, each containing its fragment."""
    left = list(findings)
    for fragment in fragments:
        match = next((f for f in left if fragment in f), None)
        if match is None:
            raise AssertionError(f"no finding with '{fragment}' in {findings}")
        left.remove(match)
    if left:
        raise AssertionError(f"findings that nobody expected: {left}")


def main(check, self_test):
    if sys.argv[1:] == ["--self-test"]:
        self_test()
        print("the lint finds what it should, and only that")
        return 0
    if len(sys.argv) < 2:
        print("usage: <lint>.py ROOT [...] | --self-test", file=sys.stderr)
        return 2
    findings = check(*sys.argv[1:])
    for finding in findings:
        print(finding)
    print(f"{len(findings)} finding(s)")
    return 1 if findings else 0
