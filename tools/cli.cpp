// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tools/cli.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/escape.hpp"
#include "tools/output.hpp"

namespace parley::tools {

namespace {

/// CLI11 models a group of options as an App without a name. The group's options belong to the enclosing command.
std::vector<CLI::App*> below(CLI::App& app, bool groups) {
  return app.get_subcommands([groups](CLI::App* sub) { return sub->get_name().empty() == groups; });
}

void add_facts(CLI::App& app, std::vector<OptionFacts>& out) {
  for (const CLI::Option* option : app.get_options()) {
    OptionFacts facts;
    for (const std::string& name : option->get_lnames()) facts.words.push_back("--" + name);
    for (const std::string& name : option->get_snames()) facts.words.push_back("-" + name);
    facts.help = option->get_description();
    facts.type = option->get_type_name();
    if (option->get_positional()) facts.positional = option->get_name(true);
    facts.values_max = static_cast<std::size_t>(option->get_items_expected_max());
    facts.fallback = option->get_default_str();
    out.push_back(std::move(facts));
  }
  for (CLI::App* group : below(app, true)) add_facts(*group, out);
}

void add_given(CLI::App& app, std::vector<std::string>& out) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    for (const std::string& name : option->get_lnames()) out.push_back("--" + name);
    for (const std::string& name : option->get_snames()) out.push_back("-" + name);
  }
  for (CLI::App* group : below(app, true)) add_given(*group, out);
}

/// In front of the words of a rest(): no option begins so.
constexpr char rest_mark = '=';

std::string one_line(std::string text) {
  for (char& c : text)
    if (c == '\n') c = ' ';
  while (!text.empty() && (text.back() == ' ' || text.back() == '.')) text.pop_back();
  return text;
}

/// The message for arguments that the parser did not consume. The value that follows an unknown option is not reported.
std::string too_much(const std::vector<std::string>& left) {
  const auto option =
      std::find_if(left.begin(), left.end(), [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (option == left.end()) return fmt::format("unexpected argument '{}'", fmt::join(left, " "));
  if (*option == "--transport" || option->starts_with("--transport="))
    return "there is no option --transport: this version has iWARP alone";
  return fmt::format("there is no option {}", *option);
}

template <class T>
CLI::Validator in_range(T least, T most) {
  const auto wrong = [least, most](const std::string& text) {
    T value{};
    if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
    return fmt::format("'{}' is not a number from {} to {}", printable(text, false), least, most);
  };
  return {wrong, CLI::Range(least, most).get_description()};
}

CLI::Validator among(std::vector<std::string> values) {
  const std::string description = CLI::IsMember(values).get_description();
  const auto wrong = [values = std::move(values)](const std::string& text) {
    if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
    return fmt::format("'{}' is not one of {}", printable(text, false), fmt::join(values, ", "));
  };
  return {wrong, description};
}

/// Rewrites CLI11's conversion message, "Could not convert: --port = x".
std::string not_a_number(const std::string& said) {
  const std::string_view text = said;
  const std::size_t colon = text.find(": "), equals = text.find(" = ");
  if (colon == text.npos || equals == text.npos || equals < colon) return said;
  return fmt::format("{}: '{}' is not a number, or too large", text.substr(colon + 2, equals - colon - 2),
                     printable(text.substr(equals + 3), false));
}

}  // namespace

Option Option::required() { return Option(*option_->required()); }
Option Option::type(const std::string& name) { return Option(*option_->type_name(name)); }
Option Option::shows_default() { return Option(*option_->capture_default_str()); }
Option Option::shows_default(const std::string& text) { return Option(*option_->default_str(text)); }
Option Option::range(int least, int most) { return Option(*option_->check(in_range(least, most))); }
Option Option::range(unsigned least, unsigned most) { return Option(*option_->check(in_range(least, most))); }
Option Option::range(std::size_t least, std::size_t most) { return Option(*option_->check(in_range(least, most))); }
Option Option::one_of(std::vector<std::string> values) { return Option(*option_->check(among(std::move(values)))); }
Option Option::one_of_numbers(std::vector<int> values) {
  std::vector<std::string> texts;
  for (const int value : values) texts.push_back(std::to_string(value));
  return Option(*option_->check(among(std::move(texts))));
}
Option Option::check(Check check) { return Option(*option_->check(std::move(check))); }
Option Option::delimiter(char between) { return Option(*option_->delimiter(between)); }
Option Option::repeatable() { return Option(*option_->allow_extra_args(false)); }
Option Option::needs(Option other) { return Option(*option_->needs(other.option_)); }
Option Option::excludes(Option other) { return Option(*option_->excludes(other.option_)); }
Option Option::when_given(std::function<void()> then) {
  return Option(*option_->each([then = std::move(then)](const std::string&) { then(); }));
}

template <class T>
Option Command::add(const std::string& names, T& value, const std::string& help) {
  return Option(*app_->add_option(names, value, help));
}

Option Command::option(const std::string& names, std::string& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, std::vector<std::string>& values, const std::string& help) {
  return add(names, values, help);
}
Option Command::option(const std::string& names, std::vector<std::uint16_t>& values, const std::string& help) {
  return add(names, values, help);
}
Option Command::option(const std::string& names, std::uint16_t& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, unsigned& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, std::uint64_t& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, int& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, double& value, const std::string& help) {
  return add(names, value, help);
}
Option Command::option(const std::string& names, std::optional<std::uint64_t>& value, const std::string& help) {
  return add(names, value, help);
}

template <class T>
Option Command::add_checked(const std::string& names, std::function<std::string(const T&)> take,
                            const std::string& help) {
  const auto option = std::make_shared<CLI::Option*>(nullptr);
  *option = app_->add_option_function<T>(
      names,
      [take = std::move(take), option](const T& value) {
        if (const std::string wrong = take(value); !wrong.empty())
          throw CLI::ValidationError((*option)->get_name(), wrong);
      },
      help);
  return Option(**option);
}

Option Command::option(const std::string& names, Option::Check take, const std::string& help) {
  return add_checked(names, std::move(take), help);
}
Option Command::option(const std::string& names, std::function<std::string(const std::vector<std::string>&)> take,
                       const std::string& help) {
  return add_checked(names, std::move(take), help);
}

Option Command::option(const std::string& names, std::function<void(std::uint16_t)> take, const std::string& help) {
  return Option(*app_->add_option_function<std::uint16_t>(names, take, help));
}

Option Command::flag(const std::string& names, bool& value, const std::string& help) {
  return Option(*app_->add_flag(names, value, help));
}
Option Command::flag(const std::string& names, std::function<void()> given, const std::string& help) {
  return Option(*app_->add_flag_callback(names, std::move(given), help));
}
Option Command::count(const std::string& names, unsigned& times, const std::string& help) {
  return Option(*app_->add_flag(names, times, help));
}

// CLI11 would split a value such as "[a,b]". So parse() hands each of these words over behind a mark.
Option Command::rest(const std::string& name, std::vector<std::string>& words, const std::string& help) {
  app_->positionals_at_end();
  const auto take = [&words](const std::vector<std::string>& marked) {
    for (const std::string& word : marked) words.push_back(word.substr(1));
    return std::string();
  };
  return option(name, take, help);
}
bool Command::has_rest() const { return app_->get_positionals_at_end(); }

Command Command::subcommand(const std::string& name, const std::string& help) {
  return Command(*app_->add_subcommand(name, help), *context_);
}
void Command::requires_subcommand() { app_->require_subcommand(1); }

Command Command::one_of(const std::string& name, const std::string& help) {
  CLI::Option_group* group = app_->add_option_group(name, help);
  group->require_option(1);
  return Command(*group, *context_);
}

void Command::footer(const std::string& text) { app_->footer(text); }

void Command::run(std::function<int()> work, std::function<std::string()> wrong) {
  app_->callback([work = std::move(work), wrong = std::move(wrong), context = context_] {
    if (const std::string words = wrong ? wrong() : std::string(); !words.empty()) throw CLI::ValidationError(words);
    context->run = work;
  });
}

void Command::before_parsing(std::function<void()> work) {
  app_->preparse_callback([work = std::move(work)](std::size_t) { work(); });
}

std::string Command::preset(const std::string& option, const std::string& value) {
  CLI::Option* found = app_->get_option_no_throw(option);
  if (found == nullptr) return fmt::format("{} has no {}", path(), option);
  std::string wrong;
  try {
    found->clear();
    found->add_result(value);
    found->run_callback();
  } catch (const CLI::ConversionError&) {
    wrong = fmt::format("'{}' is not a number, or too large", value);
  } catch (const CLI::Error& error) {
    wrong = one_line(error.what());
    if (const std::string name = found->get_name() + ": "; wrong.starts_with(name)) wrong.erase(0, name.size());
  }
  found->clear();
  if (wrong.empty() && found->get_items_expected_max() > 0) found->default_str(printable(value, false));
  return wrong;
}

std::string Command::name() const { return app_->get_name(); }
std::string Command::help() const { return app_->get_description(); }

std::string Command::path() const {
  std::string path;
  for (const CLI::App* app = app_; app != nullptr; app = app->get_parent())
    path = app->get_name() + (path.empty() ? "" : " " + path);
  return path;
}

std::string Command::explained() const {
  // App::help() would descend into a chosen subcommand.
  return app_->get_formatter()->make_help(app_, path(), CLI::AppFormatMode::Normal);
}

std::vector<Command> Command::commands() const {
  std::vector<Command> out;
  for (CLI::App* sub : below(*app_, false)) out.push_back(Command(*sub, *context_));
  return out;
}

std::vector<OptionFacts> Command::options() const {
  std::vector<OptionFacts> out;
  add_facts(*app_, out);
  return out;
}

std::vector<std::string> Command::given() const {
  std::vector<std::string> out;
  add_given(*app_, out);
  return out;
}

Command Command::chosen() const {
  const auto here = app_->get_subcommands();
  return here.empty() ? *this : Command(*here.back(), *context_).chosen();
}

std::vector<std::string> Command::left() const { return app_->remaining(); }

CommandLine::CommandLine(const std::string& name, const std::string& about, const std::string& version,
                         Context& context)
    : app_(std::make_unique<CLI::App>(about, name)), context_(context) {
  app_->set_version_flag("--version", version);
  app_->require_subcommand(0, 1);
}
CommandLine::~CommandLine() = default;

Command CommandLine::root() { return Command(*app_, context_); }

CommandLine::Parsed CommandLine::parse(int argc, const char* const* argv, std::size_t own, std::ostream& out) {
  std::vector<std::string> words;  // the last one first, as CLI11 takes them
  for (std::size_t i = static_cast<std::size_t>(argc); i-- > 1;)
    words.push_back(i <= own ? argv[i] : rest_mark + std::string(argv[i]));
  try {
    app_->parse(std::move(words));
    return Parsed::good;
  } catch (const CLI::ExtrasError&) {
    wrong_ = too_much(app_->remaining(true));
    return Parsed::wrong;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {  // --help or --version
      app_->exit(error, out, out);
      return Parsed::told;
    }
    const bool number = dynamic_cast<const CLI::ConversionError*>(&error) != nullptr;
    wrong_ = number ? not_a_number(one_line(error.what())) : one_line(error.what());
    return Parsed::wrong;
  }
}

}  // namespace parley::tools
