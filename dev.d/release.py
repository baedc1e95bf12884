# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""What a release of Parley must be, for `./dev release`.

    release.py check            the work tree is clean, one version is in all places, CHANGELOG.md has it: prints the version, or
                                on standard error a line for each fault
    release.py prepare VERSION  writes VERSION to all places and gives the entries of "Unreleased" its name and date

All run in the root of a clone. Exit status: 0 good, 1 faults, 2 usage.
"""
import os
import re
import subprocess
import sys
import time
from pathlib import Path

VERSION = re.compile(r"\d+\.\d+\.\d+")
# Where the version is written: file (or None for every file that git has), what precedes it, how many numbers it has there.
SOURCE = "CMakeLists.txt", r"project\(parley VERSION ", 3
PLACES = (
    SOURCE,
    ("README.md", r"^Version ", 2),
    ("tests/unit/capi/handles_test.cpp", r'EXPECT_STREQ\(parley_version\(\), "', 3),
    (None, r"find_package\(Parley ", 2),
)
UNRELEASED = "## Unreleased"


def git(root, *words):
    return subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True).stdout


def at(place):
    return re.compile(f"({place[1]})" + r"\d+(?:\.\d+)+", re.MULTILINE)


def short(version, place):
    return ".".join(version.split(".")[:place[2]])


def texts(root, place):
    """(name, text) of the files where the version is looked for."""
    names = [place[0]] if place[0] else git(root, "ls-files", "-z").split("\0")[:-1]
    for name in names:
        try:
            yield name, (Path(root) / name).read_text(encoding="utf-8")
        except (UnicodeDecodeError, OSError):
            if place[0]:
                yield name, ""


def version_of(root):
    found = at(SOURCE).search((Path(root) / SOURCE[0]).read_text(encoding="utf-8"))
    return VERSION.search(found[0])[0] if found else ""


def wrong_places(root, version):
    for place in PLACES:
        wanted = short(version, place)
        for name, text in texts(root, place):
            found = list(at(place).finditer(text))
            if place[0] and not found:
                yield f"{name}: has no version; {wanted} must stand behind '{place[1]}'"
            for match in found:
                if match[0] != match[1] + wanted:
                    yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: version {match[0][len(match[1]):]}; must be {wanted}"


def sections(changelog):
    """{heading: the lines of its entries} of the sections of a changelog."""
    found, lines = {}, []
    for line in changelog.splitlines():
        if line.startswith("## "):
            lines = found.setdefault(line, [])
        elif line.startswith("- "):
            lines.append(line)
    return found


def changelog_faults(changelog, version):
    there = sections(changelog)
    dated = re.compile(rf"## {re.escape(version)} - \d{{4}}-\d\d-\d\d")
    heads = [head for head in there if dated.fullmatch(head)]
    if len(heads) != 1 or not there[heads[0]]:
        yield f"CHANGELOG.md: needs one section '## {version} - YYYY-MM-DD' with entries; has {len(heads)}"
    if there.get(UNRELEASED):
        yield f"CHANGELOG.md: {len(there[UNRELEASED])} entries are under Unreleased; a release has none"


def check(root):
    version = version_of(root)
    if not version:
        return [f"{SOURCE[0]}: has no 'project(parley VERSION X.Y.Z'"]
    faults = [f"{line[3:]}: not committed; commit or remove it" for line in git(root, "status", "--porcelain").splitlines()]
    faults += wrong_places(root, version)
    faults += changelog_faults((Path(root) / "CHANGELOG.md").read_text(encoding="utf-8"), version)
    page = f"docs/version-{short(version, (None, '', 2))}.md"
    if not (Path(root) / page).exists():
        faults.append(f"{page}: is missing; it says what is in the version")
    tagged = git(root, "tag", "--list", f"v{version}")
    if tagged and git(root, "rev-parse", f"v{version}^{{commit}}") != git(root, "rev-parse", "HEAD"):
        faults.append(f"v{version}: this tag is on another commit; a released version never changes")
    return faults


def prepare(root, version):
    for place in PLACES:
        for name, text in texts(root, place):
            changed = at(place).sub(lambda found: found[1] + short(version, place), text)
            if changed != text:
                (Path(root) / name).write_text(changed, encoding="utf-8")
                print(f"{name}: version {short(version, place)}")
    path = Path(root) / "CHANGELOG.md"
    text = path.read_text(encoding="utf-8")
    if sections(text).get(UNRELEASED):
        date = time.strftime("%Y-%m-%d", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))))
        path.write_text(text.replace(UNRELEASED + "\n", f"{UNRELEASED}\n\n## {version} - {date}\n", 1), encoding="utf-8")
        print(f"CHANGELOG.md: the entries are under {version}")


def main(words):
    if words == ["check"]:
        faults = check(".")
        for fault in faults:
            print(fault, file=sys.stderr)
        if not faults:
            print(version_of("."))
        return 1 if faults else 0
    if len(words) == 2 and words[0] == "prepare" and VERSION.fullmatch(words[1]):
        prepare(".", words[1])
        return 0
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
