// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/command_tree.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mpa/quirks.hpp"
#include "sim/scenario_value.hpp"
#include "tools/sim_files.hpp"

namespace parley::tools {

namespace {

std::vector<const CLI::App*> commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
}

const CLI::App* command(const CLI::App& app, std::string_view name) {
  for (const CLI::App* sub : commands(app))
    if (sub->get_name() == name) return sub;
  return nullptr;
}

/// A group of options is an App without a name; its options are those of the command around it.
void each_option(const CLI::App& app, const std::function<void(const CLI::Option&)>& visit) {
  for (const CLI::Option* option : app.get_options()) visit(*option);
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); }))
    each_option(*group, visit);
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.emplace_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

/// What the table says of a value: its choices, or the name of its type; of a positional that has none, its own name.
void add_values(const CLI::Option& option, std::string_view begun, const std::string& before, Completion& out) {
  const std::string type = option.get_type_name();
  const std::size_t open = type.find('{'), close = type.find('}');
  std::string kind = type.substr(0, type.find(':'));
  if (kind == "TEXT") kind = option.get_name(true);
  std::vector<std::string> values;
  if (open != std::string::npos && close != std::string::npos) {
    values = split(std::string_view(type).substr(open + 1, close - open - 1));
  } else if (kind.starts_with("FORM")) {
    const bool announced = kind == "FORM,...";  // without those that no flag of revision 2 stands for
    if (!announced) values = {std::string(to_string(mpa::Rtr::none)), std::string(to_string(mpa::Rtr::frame))};
    for (const mpa::Rtr rtr : {mpa::Rtr::send, mpa::Rtr::write, mpa::Rtr::read}) values.emplace_back(to_string(rtr));
  } else if (kind == "QUIRK") {
    for (const mpa::Quirk& quirk : mpa::all_quirks()) values.emplace_back(quirk.name);
  } else if (kind == "SCENARIO") {
    values = shipped_scenarios();
  }
  out.files = kind == "FILE" || kind == "DIR" || kind == "SCENARIO";
  for (const std::string& value : values)
    if (value.starts_with(begun)) out.words.push_back({before + value, {}});
}

void add_options(const CLI::App& app, std::string_view begun, Completion& out) {
  each_option(app, [&](const CLI::Option& option) {
    std::string help = option.get_description();
    std::replace(help.begin(), help.end(), '\n', ' ');
    for (const auto& [dashes, names] : {std::pair{"--", &option.get_lnames()}, std::pair{"-", &option.get_snames()}})
      for (const std::string& name : *names)
        if (const std::string word = dashes + name; word.starts_with(begun)) out.words.push_back({word, help});
  });
}

/// A command line as far as it is finished.
struct Reached {
  const CLI::App* app;
  const CLI::Option* value_of = nullptr;  ///< the option that the next word is the value of
  std::size_t positionals = 0;            ///< words that were neither
  bool options_over = false;              ///< behind "--"
};

void take_option(Reached& at, std::string_view word) {
  const bool is_long = word.starts_with("--");
  if (is_long && word.find('=') != std::string_view::npos) return;
  if (is_long) {
    const CLI::Option* option = at.app->get_option_no_throw(std::string(word));
    if (option != nullptr && takes_value(*option)) at.value_of = option;
    return;
  }
  // "-vVd" are three, and "-C5" has its value in itself.
  for (std::size_t i = 1; i < word.size(); ++i) {
    const CLI::Option* option = at.app->get_option_no_throw({'-', word[i]});
    if (option == nullptr || !takes_value(*option)) continue;
    if (i + 1 == word.size()) at.value_of = option;
    return;
  }
}

void take_word(Reached& at, const std::string& word) {
  if (at.value_of != nullptr) {
    at.value_of = nullptr;
  } else if (word == "--") {
    at.options_over = true;
  } else if (!at.options_over && word.size() > 1 && word.front() == '-') {
    take_option(at, word);
  } else if (const CLI::App* sub = command(*at.app, word); sub != nullptr && !at.options_over) {
    at.app = sub;
    at.positionals = 0;
  } else {
    ++at.positionals;
  }
}

/// The positional that is next; the last one takes all that follow if it takes several.
const CLI::Option* positional(const Reached& at) {
  const CLI::Option* found = nullptr;
  std::size_t left = at.positionals;
  each_option(*at.app, [&](const CLI::Option& option) {
    if (found != nullptr || !option.get_positional()) return;
    const auto room = static_cast<std::size_t>(option.get_items_expected_max());
    if (left < room)
      found = &option;
    else
      left -= room;
  });
  return found;
}

}  // namespace

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : commands(app)) names.push_back(sub->get_name());
  return names;
}

Or<const CLI::App*> find_command(const CLI::App& app, std::span<const std::string> words) {
  const CLI::App* found = &app;
  for (const std::string& word : words) {
    const CLI::App* sub = command(*found, word);
    if (sub == nullptr) return complain(Exit::usage, no_command(*found, word));
    found = sub;
  }
  return found;
}

std::string no_command(const CLI::App& app, std::string_view word) {
  const std::vector<std::string> names = command_names(app);
  if (names.empty()) return fmt::format("'{}' has no command '{}', nor any other", app.get_name(), word);
  const std::string_view meant = sim::nearest(word, {names.begin(), names.end()});
  return fmt::format("no command '{}'; {}there are: {}", word,
                     meant.empty() ? std::string() : fmt::format("did you mean '{}'? ", meant), fmt::join(names, ", "));
}

std::string nearest_option(const CLI::App& app, std::string_view word) {
  std::vector<std::string> names;
  each_option(app, [&](const CLI::Option& option) {
    names.insert(names.end(), option.get_lnames().begin(), option.get_lnames().end());
  });
  if (!word.starts_with("--")) return {};
  word = word.substr(2, word.find('=') == std::string_view::npos ? std::string_view::npos : word.find('=') - 2);
  const std::string_view meant = sim::nearest(word, {names.begin(), names.end()});
  return meant.empty() ? std::string() : fmt::format("--{}", meant);
}

Completion complete(const CLI::App& app, std::span<const std::string> words) {
  Completion out;
  if (words.empty()) return out;
  // What can be explained is what can be run.
  const bool explains = words.size() > 1 && words.front() == "help" && !words.back().starts_with('-');
  if (explains) words = words.subspan(1);
  Reached at{&app};
  for (const std::string& word : words.first(words.size() - 1)) take_word(at, word);
  const std::string& begun = words.back();
  const std::size_t equals = begun.find('=');
  if (at.value_of != nullptr) {
    add_values(*at.value_of, begun, {}, out);
  } else if (!at.options_over && begun.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = at.app->get_option_no_throw(begun.substr(0, equals));
    if (option != nullptr && takes_value(*option))
      add_values(*option, std::string_view(begun).substr(equals + 1), begun.substr(0, equals + 1), out);
  } else if (!at.options_over && begun.starts_with('-')) {
    add_options(*at.app, begun, out);
  } else {
    for (const CLI::App* sub : commands(*at.app))
      if (at.positionals == 0 && sub->get_name().starts_with(begun))
        out.words.push_back({sub->get_name(), sub->get_description()});
    if (const CLI::Option* next = explains ? nullptr : positional(at)) add_values(*next, begun, {}, out);
  }
  return out;
}

}  // namespace parley::tools
