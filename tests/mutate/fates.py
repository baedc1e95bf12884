# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The fates of mutants, written down as they are known, so that a run that was interrupted goes on where it was.

They hold for the tree as it was: one changed source, test or recording, and all begins again.
"""
import hashlib
import json
import sys
import threading

from build import HERE, PROGRAMS

sys.path.append(str(HERE.parent / "lint"))
from common import files  # noqa: E402


def tree_digest(root):
    out = hashlib.sha256(json.dumps(PROGRAMS).encode())
    for path in files(root):
        if path.suffix != ".md" and path.parts[0] != "docs" and path.name != "equivalents.toml":
            out.update(str(path).encode() + b"\0" + hashlib.sha256((root / path).read_bytes()).digest())
    return out.hexdigest()


class Fates:
    def __init__(self, root, path):
        self.path, self.known, self.recalled = path, {}, 0
        self.lock = threading.Lock()
        tree = tree_digest(root)
        lines = path.read_text().splitlines() if path.is_file() else []
        if not lines or lines[0] != tree:
            path.write_text(tree + "\n")
            lines = []
        for line in lines[1:]:
            try:
                key, status, killed_by = json.loads(line)
            except ValueError:
                continue  # the last line of a run that was ended
            self.known[tuple(key)] = status, killed_by

    def recall(self, mutant):
        if fate := self.known.get((*mutant.key, mutant.nth)):
            mutant.status, mutant.killed_by = fate
            self.recalled += 1

    def remember(self, mutant):
        with self.lock, self.path.open("a") as out:
            out.write(json.dumps([[*mutant.key, mutant.nth], mutant.status, mutant.killed_by]) + "\n")
