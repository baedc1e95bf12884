// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Settings from files, variables and options, and `parley config`.
#include "tools/ops/config.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "base/escape.hpp"
#include "drivers/secure_env.hpp"
#include "tools/command.hpp"
#include "tools/command_tree.hpp"

namespace parley::tools {
namespace {

constexpr std::size_t config_file_max = (1U << 20) + 1;  // one octet more than the TOML reader accepts

std::optional<std::string> variable(const std::string& name) {
  const char* value = secure_env(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

struct ConfigFile {
  std::string name;
  bool named = false;  ///< named by the user: an error if it is missing
};

/// --config, else PARLEY_CONFIG, else the system's file. An empty PARLEY_CONFIG selects no file.
ConfigFile config_file(const std::string& named) {
  if (!named.empty()) return {named, true};
  if (const auto name = variable("PARLEY_CONFIG")) return {*name, true};
  return {std::string(default_config_file), false};
}

Or<std::string> read_config(const ConfigFile& from) {
  if (from.name.empty()) return std::string();
  errno = 0;
  std::ifstream file(from.name, std::ios::binary);
  std::string content(config_file_max, '\0');
  if (file) file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.is_open() || file.bad()) {
    if (!from.named && errno == ENOENT) return std::string();
    return command_error(Exit::environment, fmt::format("{}: cannot be read: {}", printable(from.name, false),
                                                        std::strerror(errno == 0 ? EIO : errno)));
  }
  content.resize(static_cast<std::size_t>(file.gcount()));
  return content;
}

/// A file may contain any characters, and the text goes to a terminal.
std::string words_of(const ops::SettingError& error) { return printable(error.to_string(), false); }

std::string more_text(std::size_t errors) {
  return errors > 1 ? fmt::format(" (and {} more: 'parley config' shows all)", errors - 1) : std::string();
}

/// Sets the defaults of the command's options. Errors stop the command only when it runs, so that --help always works.
void preset(Command sub, Context& context) {
  const auto loaded = load_settings(context.config_file);
  if (!loaded) {
    context.refused = {loaded.error().exit, loaded.error().text};
    return;
  }
  std::vector<ops::SettingError> errors = loaded->errors;
  for (const ops::SettingValue& given : loaded->given) {
    if (!ops::applies(*given.setting, sub.name())) continue;
    const std::string wrong = sub.preset(std::string(given.setting->option), given.value);
    if (!wrong.empty()) errors.push_back({given.where, fmt::format("{}: {}", given.setting->name, wrong)});
  }
  if (!errors.empty()) context.refused = {Exit::usage, words_of(errors[0]) + more_text(errors.size())};
}

void add_config_option(Command sub) {
  const auto known = [](const std::string&) { return std::string(); };  // config_file_named() has found it already
  sub.option("--config", known, "Settings for options that are not given ('parley config')").type("FILE");
}

// ---- parley config -----------------------------------------------------------------------------------------------

struct ConfigArgs {
  std::map<const ops::Setting*, std::string> given;  ///< on the command line; for flags only whether they were given
  std::map<const ops::Setting*, bool> toggles;
};

/// The option as defined in the first of its commands.
std::optional<OptionFacts> facts_of(const Command& root, const ops::Setting& setting) {
  const std::string first(setting.commands.substr(0, setting.commands.find(' ')));
  for (const Command& command : root.commands()) {
    if (command.name() != first) continue;
    for (const OptionFacts& facts : command.options())
      if (std::find(facts.words.begin(), facts.words.end(), setting.option) != facts.words.end()) return facts;
  }
  return std::nullopt;
}

/// What is wrong with a value, by the rules of the option in each command that has it; empty if nothing is.
std::string judge(const Command& root, const ops::Setting& setting, const std::string& value) {
  for (Command command : root.commands())
    if (ops::applies(setting, command.name()))
      if (std::string wrong = command.preset(std::string(setting.option), value); !wrong.empty()) return wrong;
  return {};
}

void show(const ops::SettingValue& value, Output& out) {
  const ops::Setting& setting = *value.setting;
  const std::string shown = value.value.empty() ? "-" : value.value;
  out.text(printable(fmt::format("{:<22} {:<26} {}", setting.name, shown, value.where), false));
  Json commands = Json::array();
  using Name = std::pair<std::string_view, std::string_view>;
  for (const auto& [word, command] : {Name{"listen", "listen"}, Name{"connect", "connect"}, Name{"rping", "rping"},
                                      Name{"serve", "neg-serve"}, Name{"dial", "neg-dial"}})
    if (ops::applies(setting, word)) commands.push_back(command);
  out.object({{"event", "setting"},
              {"name", setting.name},
              {"value", value.value},
              {"origin", ops::to_string(value.origin)},
              {"where", value.where},
              {"environment", ops::environment_name(setting)},
              {"option", setting.option},
              {"commands", std::move(commands)}});
}

/// Reports environment variables that look like misspelt settings.
void note_misspelt(Output& out) {
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view whole = *at, name = whole.substr(0, whole.find('='));
    if (const std::string meant = ops::meant_variable(name); !meant.empty())
      out.note(fmt::format("note: {} is not a setting; did you mean {}?", printable(name, false), meant));
  }
}

int run_config(const ConfigArgs& args, const Command& root, Context& context) {
  Output& out = context.out;
  const auto loaded = load_settings(context.config_file);
  if (!loaded) return out.error(loaded.error().exit, loaded.error().text);
  std::vector<ops::SettingError> errors = loaded->errors;
  std::vector<ops::SettingValue> values;
  for (const ops::Setting& setting : ops::settings()) {
    const auto facts = facts_of(root, setting);
    ops::SettingValue value{&setting, std::string(setting.fallback), ops::Origin::fallback, "default"};
    if (facts && setting.fallback.empty()) value.value = facts->fallback;
    if (const ops::SettingValue* given = loaded->find(setting)) value = *given;
    if (const auto given = args.given.find(&setting); given != args.given.end()) {
      value = {&setting, given->second, ops::Origin::command_line, std::string(setting.option)};
      if (const auto flag = args.toggles.find(&setting); flag != args.toggles.end())
        value.value = flag->second ? "true" : "false";
    }
    if (value.origin != ops::Origin::fallback)
      if (const std::string wrong = judge(root, setting, value.value); !wrong.empty())
        errors.push_back({value.where, fmt::format("{}: {}", setting.name, wrong)});
    values.push_back(std::move(value));
  }
  for (const ops::SettingValue& value : values) show(value, out);
  note_misspelt(out);
  for (std::size_t i = 1; i < errors.size(); ++i) out.note(words_of(errors[i]));
  if (!errors.empty()) return out.error(Exit::usage, words_of(errors[0]));
  return code(Exit::ok);
}

/// Adds each setting's option, so that `parley config` shows that the command line takes precedence. Values are checked
/// later, all together.
void add_all_options(Command sub, const Command& root, ConfigArgs& args) {
  for (const ops::Setting& setting : ops::settings()) {
    const auto facts = facts_of(root, setting);
    if (!facts) continue;
    const std::string option(setting.option);
    if (setting.kind == ops::SettingKind::toggle) {
      sub.flag(option + ",!--no-" + option.substr(2), args.toggles[&setting], facts->help)
          .when_given([&args, &setting] { args.given[&setting]; });
      continue;
    }
    const auto take = [&args, &setting](const std::string& value) {
      args.given[&setting] = value;
      return std::string();
    };
    const std::string type = facts->type.substr(0, facts->type.find(' '));
    sub.option(option, take, facts->help).type(type.empty() || type.find('{') != std::string::npos ? "VALUE" : type);
  }
}

}  // namespace

std::string config_file_named(int argc, const char* const* argv) {
  std::string named;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word == "--config" && i + 1 < argc) named = argv[++i];
    if (word.starts_with("--config=")) named = word.substr(9);
  }
  return named;
}

Or<ops::GivenSettings> load_settings(const std::string& named_file) {
  const ConfigFile from = config_file(named_file);
  const auto content = read_config(from);
  if (!content) return tl::unexpected(content.error());
  return ops::read_settings(*content, from.name, variable);
}

void add_settings(Command sub, Context& context) {
  add_config_option(sub);
  sub.before_parsing([sub, &context] { preset(sub, context); });
}

void register_config(Command app, Context& context) {
  auto args = std::make_shared<ConfigArgs>();
  Command sub = app.subcommand("config", "Show each setting with its value and its source");
  add_config_option(sub);
  add_all_options(sub, app, *args);
  add_json_flag(sub, context);
  sub.footer(
      "Examples:\n"
      "  parley config                            what listen, connect and rping start from here\n"
      "  parley config --config ./parley.toml     checks a file\n"
      "  PARLEY_MPA_IRD=8 parley config --json");
  sub.run([args, app, &context] { return run_config(*args, app, context); });
}

}  // namespace parley::tools
