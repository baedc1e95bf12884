# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
"""`parley help`, words that are nearly commands, and what the shells offer at Tab, asked of bash itself."""
import os
import re
import subprocess

from cli import LIMIT, PARLEY, CliTest, main, needs, run

# What bash does when Tab is pressed: it finds the function that is registered, tells it the words, and takes COMPREPLY.
# Its own division of a line into words (at blanks, "=" and ":") is given with the words.
PRESS_TAB = r"""
PATH=$1:$PATH; shift
source <(parley completion bash) || exit 1
compopt() { printf '(%s)\n' "$*"; }     # works only inside a real Tab
COMP_WORDS=(parley "$@") COMP_CWORD=$#
[[ $(complete -p parley) == *"-F _parley parley" ]] || exit 1
_parley parley "${@: -1}" "${@: -2:1}"
printf '%s\n' "${COMPREPLY[@]}"
"""


def tab(*words):
    """What bash offers behind `parley WORDS`, of which the last is begun."""
    done = subprocess.run(["bash", "--norc", "-c", PRESS_TAB, "bash", os.path.dirname(PARLEY), *words],
                          capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.returncode == 0 and not done.stderr, done.stderr
    return done.stdout.split("\n")[:-1]


def commands(*path):
    section = run(*path, "--help").out.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    return re.findall(r"^  ([a-z]+) ", section, re.MULTILINE)


class Help(CliTest):
    def test_it_is_the_same_text_as_the_option(self):
        for path in ((), ("connect",), ("pcap",), ("pcap", "check"), ("sim", "run"), ("help",)):
            self.assertEqual(self.ok(run("help", *path)).out, self.ok(run(*path, "--help")).out, path)

    def test_a_word_that_is_no_command(self):
        self.refused(run("help", "pcap", "chekc"), 2, "no command 'chekc'", "did you mean 'check'?")
        self.refused(run("help", "quirks", "siw"), 2, "'quirks' has no command 'siw'")


class Meant(CliTest):
    def test_commands_and_subcommands(self):
        self.refused(run("pcap", "chekc", "x.pcap"), 2, "parley pcap: no command 'chekc'; did you mean 'check'?",
                     "there are: check, ladder")
        self.refused(run("conect"), 2, "did you mean 'connect'?")
        self.refused(run("matr"), 2, "no command 'matr'; there are: ")
        self.refused(run("pcap", "matr"), 2, "did you mean 'matrix'?")

    def test_a_command_of_an_earlier_version_tells_the_new_one(self):
        for role in ("responder", "initiator"):
            now = f"'parley conform {role}' is now 'parley conform mpa {role}'"
            self.refused(run("conform", role, "--list"), 2, now)
            self.refused(run("help", "conform", role), 2, now)

    def test_options(self):
        self.refused(run("pcap", "check", "--quite", "x.pcap"), 2, "--quite", "did you mean '--quiet'?")
        self.refused(run("rping", "-s", "--jsno"), 2, "did you mean '--json'?")
        self.assertNotIn("did you mean", run("rping", "-s", "--nothing-like-it").err)


class Bash(CliTest):
    def test_commands(self):
        self.assertEqual(tab(""), commands())
        self.assertEqual(tab("con"), ["connect", "conform", "config"])
        self.assertEqual(tab("pcap", ""), commands("pcap"))
        self.assertEqual(tab("pcap", "ch"), ["check"])
        self.assertEqual(tab("help", "pc"), ["pcap"])
        self.assertEqual(tab("help", "pcap", "ch"), ["check"])
        self.assertEqual(tab("help", "pcap", "check", ""), [""])

    def test_options(self):
        self.assertEqual(tab("pcap", "check", "--js"), ["--json"])
        self.assertIn("--rtr-offer", tab("connect", "--rtr", "read", "--rtr-"))
        self.assertEqual(set(tab("rping", "-")) & {"-s", "-c", "--json"}, {"-s", "-c", "--json"})
        self.assertNotIn("--rtr-accept", tab("connect", "--rtr-"))

    def test_values(self):
        self.assertEqual(tab("replay", "--role", ""), ["initiator", "responder"])
        self.assertEqual(tab("replay", "--role", "=", "res"), ["responder"])  # --role=res
        self.assertEqual(tab("replay", "--role", "="), ["initiator", "responder"])
        self.assertEqual(tab("connect", "--rtr", ""), ["none", "frame", "send", "write", "read"])
        self.assertEqual(tab("listen", "--rtr-accept", ""), ["send", "write", "read"])
        self.assertEqual(tab("listen", "--play-quirk", "siw-n"), ["siw-no-a"])
        self.assertEqual(tab("quirks", "erd"), ["erdma"])
        self.assertEqual(tab("connect", "--timeout", ""), [""])
        self.assertEqual(tab("completion", "z"), ["zsh"])

    def test_files_and_scenarios(self):
        self.assertEqual(tab("pcap", "check", ""), ["(-o default)", ""])
        self.assertEqual(tab("pcap", "check", "-q", "a.pcap", "b"), ["(-o default)", ""])
        self.assertEqual(tab("listen", "--pcapng", ""), ["(-o default)", ""])
        self.assertEqual(tab("sim", "run", "lossy_h"), ["(-o default)", "lossy_handshake"])
        self.assertEqual(tab("pcap", "check", "--", "-"), ["(-o default)", ""])


class Zsh(CliTest):
    def test_the_words_come_with_their_explanation(self):
        lines = self.ok(run("completion", "zsh", "--", "pcap", "ch")).out.splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["check"])
        self.assertIn("Verdict per MPA connection", lines[0].split("\t")[1])

    @needs("zsh")
    def test_zsh_takes_the_script(self):
        script = self.path("_parley", run("completion", "zsh").out.encode())
        done = subprocess.run(["zsh", "-f", "-n", script], capture_output=True, text=True, timeout=LIMIT, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_no_other_shell(self):
        self.refused(run("completion", "fish"), 2, "fish")


if __name__ == "__main__":
    main()
