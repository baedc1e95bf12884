# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""lint.walks: the tables of files and functions in the pages about the code are true.

It reads each table that has a column "File" in PAGES. Each file, folder or pattern in that column exists; a name without a folder is in the
folder of the name before it, or in the root. Each name in the column "Function" is in one of the row's files, outside comments, as a function or a type.
What is in capitals stands for a name of the reader's (`drivers/NAME/`). Outside tables each quoted file with a folder exists, and each
quoted unit test (`Suite.Name`, `Suite.*`).
"""
import fnmatch
import re
import sys

import common

PAGES = ("docs/architecture.md", "docs/first-hour.md", "docs/walks.md", "docs/extending.md")
QUOTED = re.compile(r"`([^`]+)`")
PLACEHOLDER = re.compile(r"\b(?:NAME|ROOM|COMMAND|CLASS)\b")
PATH = re.compile(r"[\w.*/-]+")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
NAMED_FILE = re.compile(r"[a-z][\w-]*/[\w./*-]*\.(?:c|cpp|h|hpp|md|py|svg|toml|txt)")
NAMED_TEST = re.compile(r"[A-Z]\w*\*?\.(?:\*|[A-Z]\w*\*?)")
TEST = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)")
IDENTIFIER = re.compile(r"~?[A-Za-z_]\w*(?:::~?\w+)*")


def tables(text):
    """(line, {column: cell}) of each row of each table."""
    header = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("|"):
            header = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if header is None:
            header = cells
        elif not all(set(cell) <= set("-: ") for cell in cells):
            yield number, dict(zip(header, cells))


def paths(root, cell):
    """The files, folders and patterns that a cell names, from the project's root."""
    folder, found = "", []
    for word in QUOTED.findall(cell):
        if not PATH.fullmatch(word) or PLACEHOLDER.search(word) or not ("/" in word or "." in word):
            continue
        path = word if "/" in word or (root / word).is_file() and not files_of(root, folder + word) else folder + word
        folder = path.rpartition("/")[0] + "/"
        found.append(path)
    return found


def files_of(root, path):
    if path.endswith("/") or (root / path).is_dir():
        return [p for p in (root / path).rglob("*") if p.is_file()]
    return list(root.glob(path)) if "*" in path else [p for p in [root / path] if p.is_file()]


def holds(text, name):
    """Whether the code has a function or type of this name; of A::b, also one of A's members in the file of A."""
    *scopes, last = name.removesuffix("()").split("::")
    if any(not re.search(rf"\b{re.escape(scope)}\b", text) for scope in scopes):
        return False
    last = re.escape(last)
    call, type_, row = rf"(?<!\w){last}\s*[({{<]", rf"\b(?:class|struct|enum|concept|using|namespace)\b[^;\n]*\b{last}\b", rf"\bX?\({last}\b"
    return re.search(f"{call}|{type_}|{row}", text) is not None


def unit_tests(root):
    code = "".join(common.read(root, path) for path in common.files(root, ["tests/unit"], (".cpp", ".hpp")))
    return [f"{suite}.{name}" for suite, name in TEST.findall(code)]


def of_text(root, page, tests):
    """Of the files and tests that a page quotes, those that there are not."""
    for number, line in enumerate(common.read(root, page).splitlines(), 1):
        for word in (words.split()[0] for words in QUOTED.findall(line) if words.strip()):
            if NAMED_FILE.fullmatch(word) and (root / word.split("/")[0]).is_dir() and not PLACEHOLDER.search(word) and not line.startswith("|"):
                if word.split("/")[0] not in common.LEFT_OUT and not files_of(root, word):
                    yield f"{page}:{number}: there is no {word}"
            elif NAMED_TEST.fullmatch(word) and not fnmatch.filter(tests, word):
                yield f"{page}:{number}: there is no unit test {word}"


def check(root):
    root = common.Path(root)
    findings, tests = [], unit_tests(root)
    for page in PAGES:
        if not (root / page).is_file():
            continue
        findings += of_text(root, page, tests)
        for number, row in tables(common.read(root, page)):
            if "File" not in row:
                continue
            files = []
            for path in paths(root, row["File"]):
                those = files_of(root, path)
                if not those:
                    findings.append(f"{page}:{number}: there is no {path}")
                files += those
            names = [n for n in QUOTED.findall(row.get("Function", "")) if IDENTIFIER.fullmatch(n.removesuffix("()"))]
            code = "\n".join(COMMENT.sub(" ", f.read_text(encoding="utf-8", errors="replace")) for f in files) if names else ""
            findings += [f"{page}:{number}: no {name} in the row's files" for name in names if files and not holds(code, name)]
    return findings


def self_test():
    page = ("| Step | File | Function |\n|---|---|---|\n| a | `wire/a.cpp`, `b.cpp` | `A::run`, then `walk` |\n| b | `wire/` | `Kind` |\n"
            "| c | `wire/c.cpp` | `run` |\n| d | `wire/a.cpp` | `B::run`, `said` |\n| e | `drivers/NAME/x.cpp`, `wire/*.hpp`, `CMakeLists.txt` | |\n\n`wire/gone.cpp`, `wire/a.cpp`, `Walk.Runs`, `Walk.*`, `Walk.Stops` or\n`ROOM/x.cpp`\n\n| File |\n|---|\n| `none.md` |\n\n| Other |\n|---|\n| `x.cpp` |\n")
    tree = {"docs/walks.md": page, "wire/a.cpp": "void A::run() {}  // said() what it does\n", "wire/b.cpp": "int walk(int);\nenum class Kind : int;\n", "CMakeLists.txt": "", "tests/unit/a_test.cpp": "TEST_F(Walk, Runs) {}\n"}
    with common.made_tree(tree) as root:
        common.expect(check(root), "walks.md:5: there is no wire/c.cpp", "walks.md:6: no B::run", "walks.md:6: no said",
                      "walks.md:7: there is no wire/*.hpp", "walks.md:14: there is no none.md",
                      "walks.md:9: there is no wire/gone.cpp", "walks.md:9: there is no unit test Walk.Stops")


if __name__ == "__main__":
    sys.exit(common.main(check, self_test))
