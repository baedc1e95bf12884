# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""The mutants of many sources. Reading a source takes seconds, so what was found is kept until it or a header changes."""
import concurrent.futures
import hashlib
import json

from mutants import Mutant, Site

OWN = ("file", "line", "function", "operator", "alone", "constant", "before", "after")


def digest(path, known):
    """Of a file's contents; known remembers those looked at in this run."""
    if path not in known:
        try:
            known[path] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
        except FileNotFoundError:
            known[path] = ""
    return known[path]


def read(task):
    """In a process of its own: what libclang finds in one source."""
    import operators  # needs libclang, which the help does not
    path, file, arguments = task
    _, found, includes = operators.find_with_includes(path, file, arguments)
    return found, includes


def packed(mutant):
    sites = [[s.begin, s.end, s.parts, s.statement] for s in mutant.sites]
    return {**{f: getattr(mutant, f) for f in OWN}, "sites": sites}


def unpacked(entry):
    sites = tuple(Site(begin, end, tuple(p if isinstance(p, str) else tuple(p) for p in parts), statement)
                  for begin, end, parts, statement in entry["sites"])
    return Mutant(**{f: entry[f] for f in OWN}, sites=sites)


class Found:
    def __init__(self, root, folder, jobs):
        self.root, self.folder, self.jobs = root, folder, jobs
        self.digests = {}

    def kept(self, file):
        return self.folder / (file.replace("/", "_") + ".json")

    def known(self, file, arguments):
        """What was found before, if nothing changed since that bears on it."""
        try:
            entry = json.loads(self.kept(file).read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        here = {name: digest(self.root / name, self.digests) for name in entry["inputs"]}
        if here != entry["inputs"] or entry["arguments"] != arguments:
            return None
        return [unpacked(m) for m in entry["mutants"]]

    def keep(self, file, arguments, found, includes):
        own = [self.root / file, *(self.root / i for i in includes)]
        finder = (self.root / "tests" / "mutate" / name for name in ("mutants.py", "operators.py"))
        inputs = {str(p.relative_to(self.root)): digest(p, self.digests)
                  for p in (*own, *finder) if p.is_relative_to(self.root)}
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kept(file).write_text(json.dumps({"arguments": arguments, "inputs": inputs,
                                               "mutants": [packed(m) for m in found]}))

    def of(self, arguments):
        """{file: its mutants} of {file: what libclang has to know to read it}."""
        out = {file: self.known(file, words) for file, words in arguments.items()}
        missing = [file for file, found in out.items() if found is None]
        with concurrent.futures.ProcessPoolExecutor(max_workers=self.jobs) as pool:
            tasks = [(self.root / file, file, arguments[file]) for file in missing]
            for file, (found, includes) in zip(missing, pool.map(read, tasks)):
                self.keep(file, arguments[file], found, includes)
                out[file] = found
        return out
