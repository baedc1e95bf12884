# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""Every option that --help names stands in the manual page and in docs/cli.md or a page of its own, and every option that
these name exists."""
import functools
import os
import re
import unittest

from cli import SOURCE_DIR, CliTest, main, run

# Where a command is described; what several share is in docs/cli.md.
PAGES = ("cli.md", "conform.md", "replay.md", "captures.md", "pcap-check.md", "simulator.md", "mpa-rtr.md",
         "wireshark.md", "run.md", "negotiation.md", "operations.md", "mad.md", "ssa.md", "fabric.md", "xrc.md")
# In every command.
COMMON = {"-h", "--help", "--json", "--color", "-v"}  # which the manual explains once, above the commands
OPTION = re.compile(r"(?<![\w-])(--[a-z0-9][a-z0-9-]*|-[A-Za-z0-9])(?![\w-])")


@functools.cache
def helps(path=()):
    """{words of a command: its --help}, for all of them."""
    text = run(*path, "--help").out
    found = {path: text}
    # A footer follows after an empty line; its examples look alike.
    section = text.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    for name in re.findall(r"^  ([a-z]+) ", section, re.MULTILINE):
        found.update(helps((*path, name)))
    return found


def options(text):
    """The options of a --help: those that begin a line. {long or short name: all its names}."""
    found = {}
    for line in text.splitlines():
        names = re.match(r" {2,4}(-[-\w]+(?:\{\w+\})?(?:,-[-\w]+(?:\{\w+\})?)*)(?: |$)", line)
        all_names = re.sub(r"\{\w+\}", "", names.group(1)).split(",") if names else []
        found.update((name, all_names) for name in all_names)
    return found


def man_parts():
    """{heading: text} of the manual; each form of the synopsis is a part of its own, under the command's first word."""
    with open(os.path.join(SOURCE_DIR, "docs", "man", "parley.1"), encoding="utf-8") as file:
        text = file.read()
    parts = {}
    for part in re.split(r"^\.S[hs] ", text, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        parts[heading] = body
    for form in parts.pop("SYNOPSIS").split(".Nm\n")[1:]:
        first = re.match(r"\.Cm (\w+)", form)
        parts[f"parley {first.group(1)}" if first else "parley"] = (
            parts.get(f"parley {first.group(1)}" if first else "parley", "") + form)
    return parts


def man_options(command=None):
    """What the manual says of a command's options, or of all."""
    parts = man_parts()
    if command is None:
        wanted = list(parts)
    else:
        wanted = [f"parley {command}" if command else "parley"]
        if command in ("listen", "connect", "rping", "config"):
            wanted.append("Options of every set-up")
        if command == "ssa":  # "It also has the options that the commands of parley mad share"
            wanted.append("parley mad")
        # "The options of listen and connect that concern the set-up are taken too."
        if command in ("rping", "config"):
            wanted += ["parley listen", "parley connect"]
    found = set()
    # In mdoc, "Fl -quiet" is --quiet, "Fl q" is -q, "Fl vVd" are three.
    for line in re.findall(r"^\..*\bFl\b.*$", "\n".join(parts[name] for name in wanted), re.MULTILINE):
        for word in re.findall(r"\bFl\s+(-?\w[-\w]*)", line):
            found.update(["-" + word] if word.startswith("-") else ["-" + letter for letter in word])
    return found


def page_options():
    found = set()
    for page in PAGES:
        with open(os.path.join(SOURCE_DIR, "docs", page), encoding="utf-8") as file:
            found.update(OPTION.findall(file.read()))
    return found


class Options(CliTest):
    def test_each_option_of_help_is_in_the_manual_and_in_the_pages(self):
        commands = helps()
        self.assertIn(("conform", "mpa", "responder"), commands)
        self.assertIn(("sim", "explore"), commands)
        self.assertIn("--quiet-time", options(commands[("conform", "mpa", "responder")]))
        pages = page_options()
        for path, text in commands.items():
            manual = man_options(path[0] if path else "")
            for where, known in (("docs/man/parley.1", manual), ("docs/*.md", pages)):
                missing = [name for name, names in options(text).items()
                           if name not in COMMON and not known.intersection(names)]
                with self.subTest(" ".join(("parley", *path)), where=where):
                    self.assertEqual(missing, [], f"of parley {' '.join(path)} --help, not in {where}")

    def test_each_option_of_the_manual_exists(self):
        exist = set(COMMON)
        for text in helps().values():
            exist.update(options(text))
        self.assertEqual(sorted(man_options() - exist), [])


if __name__ == "__main__":
    main()
