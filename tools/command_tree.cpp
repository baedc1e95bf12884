// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/command_tree.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "capture/rule.hpp"
#include "mpa/quirks.hpp"
#include "sim/scenario/scenario_value.hpp"
#include "tools/sim/sim_files.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::tools {

namespace {

std::optional<Command> command(const Command& app, std::string_view name) {
  for (const Command& sub : app.commands())
    if (sub.name() == name) return sub;
  return std::nullopt;
}

/// The option of this name, if it takes a value.
std::optional<OptionFacts> option_with_value(const Command& app, std::string_view word) {
  for (const OptionFacts& option : app.options())
    if (std::find(option.words.begin(), option.words.end(), word) != option.words.end())
      return option.values_max > 0 ? std::optional(option) : std::nullopt;
  return std::nullopt;
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.emplace_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

/// Adds the candidates for an option's value: the choices in its type, or those of the type's name (for TEXT, the
/// positional's name).
void add_values(const OptionFacts& option, std::string_view begun, const std::string& before, Completion& out) {
  const std::string& type = option.type;
  const std::size_t open = type.find('{'), close = type.find('}');
  std::string kind = type.substr(0, type.find(':'));
  if (kind == "TEXT") kind = option.positional;
  std::vector<std::string> values;
  if (open != std::string::npos && close != std::string::npos) {
    values = split(std::string_view(type).substr(open + 1, close - open - 1));
  } else if (kind.starts_with("FORM")) {
    const bool announced = kind == "FORM,...";  // only forms that have a flag in MPA revision 2
    if (!announced) values = {std::string(to_string(mpa::Rtr::none)), std::string(to_string(mpa::Rtr::frame))};
    for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) values.emplace_back(to_string(rtr));
  } else if (kind == "QUIRK") {
    for (const mpa::Quirk& quirk : mpa::all_quirks()) values.emplace_back(quirk.name);
    for (const wire::ib::Quirk& quirk : wire::ib::all_quirks()) values.emplace_back(quirk.name);
  } else if (kind == "RULE" || kind == "RULE=SEVERITY") {
    for (const capture::RuleFacts& row : capture::all_rules())
      values.push_back(std::string(row.id) + (kind == "RULE" ? "" : "="));
  } else if (kind == "SCENARIO") {
    values = shipped_scenarios();
  }
  out.files = kind == "FILE" || kind == "DIR" || kind == "SCENARIO" || kind == "PROGRAM";
  for (const std::string& value : values)
    if (value.starts_with(begun)) out.words.push_back({before + value, {}});
}

void add_options(const Command& app, std::string_view begun, Completion& out) {
  for (const OptionFacts& option : app.options()) {
    std::string help = option.help;
    std::replace(help.begin(), help.end(), '\n', ' ');
    for (const std::string& word : option.words)
      if (word.starts_with(begun)) out.words.push_back({word, help});
  }
}

/// The state of a command line that is being completed.
struct CompletionState {
  Command app;
  std::optional<OptionFacts> value_of = {};  ///< the option that takes the next word as its value
  std::size_t positionals = 0;               ///< words that were neither options nor values
  bool options_over = false;                 ///< after "--"
};

void on_option(CompletionState& at, std::string_view word) {
  if (word.starts_with("--")) {
    if (word.find('=') == std::string_view::npos) at.value_of = option_with_value(at.app, word);
    return;
  }
  // "-vVd" is three options; "-C5" contains its value.
  for (std::size_t i = 1; i < word.size(); ++i) {
    const auto option = option_with_value(at.app, std::string{'-', word[i]});
    if (!option) continue;
    if (i + 1 == word.size()) at.value_of = option;
    return;
  }
}

void on_word(CompletionState& at, const std::string& word) {
  if (at.value_of) {
    at.value_of.reset();
  } else if (word == "--") {
    at.options_over = true;
  } else if (!at.options_over && word.size() > 1 && word.front() == '-') {
    on_option(at, word);
  } else if (const auto sub = command(at.app, word); sub && !at.options_over) {
    at.app = *sub;
    at.positionals = 0;
  } else {
    ++at.positionals;
    at.options_over = at.options_over || at.app.has_rest();
  }
}

/// The next positional. The last one takes all remaining words if it accepts several.
std::optional<OptionFacts> positional(const CompletionState& at) {
  std::size_t left = at.positionals;
  for (const OptionFacts& option : at.app.options()) {
    if (option.positional.empty()) continue;
    if (left < option.values_max) return option;
    left -= option.values_max;
  }
  return std::nullopt;
}

/// The new name of a renamed command; empty if `word` was never a command here.
std::string moved(const std::string& path, std::string_view word) {
  const bool role = word == "responder" || word == "initiator";
  return path == "parley conform" && role ? fmt::format("parley conform mpa {}", word) : std::string();
}

}  // namespace

Or<Command> find_command(const Command& app, std::span<const std::string> words) {
  Command found = app;
  for (const std::string& word : words) {
    const auto sub = command(found, word);
    if (!sub) return command_error(Exit::usage, no_command(found, word));
    found = *sub;
  }
  return found;
}

std::string no_command(const Command& app, std::string_view word) {
  std::vector<std::string> names;
  for (const Command& sub : app.commands()) names.push_back(sub.name());
  if (names.empty()) return fmt::format("'{}' has no command '{}', nor any other", app.name(), word);
  if (const std::string now = moved(app.path(), word); !now.empty())
    return fmt::format("'{} {}' is now '{}'", app.path(), word, now);
  const std::string_view meant = sim::nearest(word, {names.begin(), names.end()});
  return fmt::format("no command '{}'; {}there are: {}", word,
                     meant.empty() ? std::string() : fmt::format("did you mean '{}'? ", meant), fmt::join(names, ", "));
}

std::string nearest_option(const Command& app, std::string_view word) {
  if (!word.starts_with("--")) return {};
  std::vector<std::string> names;
  for (const OptionFacts& option : app.options())
    for (const std::string& name : option.words)
      if (name.starts_with("--")) names.push_back(name.substr(2));
  word = word.substr(2, word.find('=') == std::string_view::npos ? std::string_view::npos : word.find('=') - 2);
  const std::string_view meant = sim::nearest(word, {names.begin(), names.end()});
  return meant.empty() ? std::string() : fmt::format("--{}", meant);
}

std::size_t words_before_rest(const Command& app, std::span<const std::string> words) {
  CompletionState at{app};
  for (std::size_t i = 0; i < words.size(); ++i) {
    on_word(at, words[i]);
    if (at.app.has_rest() && at.positionals > 0) return i;
  }
  return words.size();
}

Completion complete(const Command& app, std::span<const std::string> words) {
  Completion out;
  if (words.empty()) return out;
  // `parley help` takes the same command names as the command line itself.
  const bool explains = words.size() > 1 && words.front() == "help" && !words.back().starts_with('-');
  if (explains) words = words.subspan(1);
  CompletionState at{app};
  for (const std::string& word : words.first(words.size() - 1)) on_word(at, word);
  const std::string& begun = words.back();
  const std::size_t equals = begun.find('=');
  if (at.value_of) {
    add_values(*at.value_of, begun, {}, out);
  } else if (!at.options_over && begun.starts_with("--") && equals != std::string::npos) {
    if (const auto option = option_with_value(at.app, begun.substr(0, equals)))
      add_values(*option, std::string_view(begun).substr(equals + 1), begun.substr(0, equals + 1), out);
  } else if (!at.options_over && begun.starts_with('-')) {
    add_options(at.app, begun, out);
  } else {
    for (const Command& sub : at.app.commands())
      if (at.positionals == 0 && sub.name().starts_with(begun)) out.words.push_back({sub.name(), sub.help()});
    if (const auto next = explains ? std::nullopt : positional(at)) add_values(*next, begun, {}, out);
  }
  return out;
}

}  // namespace parley::tools
