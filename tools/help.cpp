// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// `parley help` and `parley completion`. Both read the table of commands and have no lists of their own.
#include <memory>

#include <fmt/format.h>

#include "tools/command.hpp"
#include "tools/command_tree.hpp"

namespace parley::tools {

namespace {

// The scripts run the program itself at each press of Tab, so that they always match its version.
// bash splits "--option=value" at the "="; the script joins the parts again.
constexpr std::string_view bash_script =
    R"(# Completion of the parley command for bash: source <(parley completion bash)
_parley() {
  local line words=() i
  COMPREPLY=()
  for ((i = 1; i <= COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == "=" && ${#words[@]} -gt 0 ]]; then
      words[-1]+="="
      if ((i < COMP_CWORD)); then words[-1]+=${COMP_WORDS[++i]}; fi
    else
      words+=("${COMP_WORDS[i]}")
    fi
  done
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      compopt -o default
    else
      line=${line%%$'\t'*}
      if [[ $line == --*=* ]]; then line=${line#*=}; fi
      COMPREPLY+=("$line")
    fi
  done < <("$1" completion bash -- "${words[@]}" 2>/dev/null)
}
complete -F _parley parley
)";

constexpr std::string_view zsh_script = R"(#compdef parley
# Completion of the parley command for zsh: source <(parley completion zsh), behind compinit
_parley() {
  local line files=0
  local -a found shown
  while IFS= read -r line; do
    if [[ $line == ":files" ]]; then
      files=1
    else
      found+=("${line%%$'\t'*}")
      shown+=("${line/$'\t'/  }")
    fi
  done < <("${words[1]}" completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)
  compadd -l -d shown -a found
  if ((files)); then _files; fi
}
# Read from a directory of $fpath, this file is the function itself, and asked at once.
if [[ ${funcstack[1]} == _parley ]]; then _parley "$@"; else compdef _parley parley; fi
)";

struct HelpArgs {
  std::vector<std::string> words;
};

int run_help(const Command& root, const HelpArgs& args, Output& out) {
  const auto command = find_command(root, args.words);
  if (!command) return out.error(command.error().exit, command.error().text);
  std::string text = command->explained();
  text.pop_back();  // out.text adds the newline
  out.verbatim(text);
  return code(Exit::ok);
}

struct CompletionArgs {
  std::string shell;
  std::vector<std::string> words;
};

int run_completion(const Command& root, const CompletionArgs& args, Output& out) {
  if (args.words.empty()) {
    std::string_view script = args.shell == "bash" ? bash_script : zsh_script;
    script.remove_suffix(1);
    out.verbatim(script);
    return code(Exit::ok);
  }
  const Completion next = complete(root, args.words);
  for (const Candidate& c : next.words) out.verbatim(c.help.empty() ? c.word : c.word + "\t" + c.help);
  if (next.files) out.verbatim(":files");
  return code(Exit::ok);
}

}  // namespace

void register_help(Command app, Context& context) {
  auto args = std::make_shared<HelpArgs>();
  Command sub = app.subcommand("help", "Explain a command, as its --help does");
  sub.option("command", args->words, "The command, and its subcommand").type("COMMAND");
  sub.footer("Examples:\n  parley help connect\n  parley help pcap check");
  sub.run([args, app, &context] { return run_help(app, *args, context.out); });
}

void register_completion(Command app, Context& context) {
  auto args = std::make_shared<CompletionArgs>();
  Command sub = app.subcommand("completion", "Print the completion of this command for a shell");
  sub.option("shell", args->shell, "The shell").one_of({"bash", "zsh"}).required();
  sub.option("word", args->words, "After --: print the completions of the last word; for the completion script");
  sub.footer(
      "Examples:\n"
      "  source <(parley completion bash)                              for this shell\n"
      "  parley completion bash > ~/.local/share/bash-completion/completions/parley\n"
      "  parley completion zsh > ~/.zfunc/_parley                      a directory in $fpath");
  sub.run([args, app, &context] { return run_completion(app, *args, context.out); });
}

}  // namespace parley::tools
