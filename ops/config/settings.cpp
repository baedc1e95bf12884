// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "ops/config/settings.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/scenario/scenario_value.hpp"

namespace parley::ops {
namespace {

using Kind = SettingKind;
constexpr std::string_view on_all = "listen connect rping", on_logging = "listen connect rping serve dial",
                           on_counting = "listen rping serve", on_dialling = "connect dial",
                           on_initiators = "connect rping", on_responders = "listen rping", on_listen = "listen",
                           on_connect = "connect";

// `serve` and `dial` are subcommands of `neg`. Metrics settings do not apply to `connect` and `dial`: many of these may
// run at the same time, and would use the port and the file of the listener.
constexpr Setting table[] = {
    {"log.format", Kind::text, "--log", on_logging, ""},
    {"log.file", Kind::text, "--log-file", on_logging, ""},
    {"log.level", Kind::text, "--log-level", on_logging, ""},
    {"metrics.file", Kind::text, "--metrics", on_counting, ""},
    {"metrics.interval", Kind::time, "--metrics-interval", on_counting, ""},
    {"metrics.http", Kind::text, "--metrics-http", on_counting, ""},
    {"mpa.revision", Kind::number, "--revision", on_all, ""},
    {"mpa.crc", Kind::toggle, "--crc", on_all, "true"},
    {"mpa.markers", Kind::toggle, "--markers", on_all, "false"},
    {"mpa.ird", Kind::depth, "--ird", on_all, ""},
    {"mpa.ord", Kind::depth, "--ord", on_all, ""},
    {"mpa.ird_max", Kind::depth, "--ird-max", on_all, ""},
    {"mpa.private_data_max", Kind::number, "--private-data-max", on_all, ""},
    {"mpa.peer_quirk", Kind::text, "--peer-quirk", on_all, ""},
    {"mpa.rtr", Kind::text, "--rtr", on_initiators, ""},
    {"mpa.rtr_offer", Kind::list, "--rtr-offer", on_initiators, ""},
    {"mpa.rtr_accept", Kind::list, "--rtr-accept", on_responders, ""},
    {"mpa.rtr_expected", Kind::text, "--rtr-expected", on_responders, ""},
    {"timeout.connect", Kind::time, "--connect-timeout", on_connect, ""},
    {"timeout.tcp", Kind::time, "--tcp-timeout", on_initiators, ""},
    {"timeout.reply", Kind::time, "--reply-timeout", on_initiators, ""},
    {"timeout.request", Kind::time, "--request-timeout", on_responders, ""},
    {"timeout.rtr", Kind::time, "--rtr-timeout", on_responders, ""},
    {"timeout.first_fpdu", Kind::time, "--first-fpdu-timeout", on_responders, ""},
    {"timeout.keepalive", Kind::time, "--keepalive", on_all, ""},
    {"timeout.dead_after", Kind::time, "--dead-after", on_all, ""},
    {"retry.rounds", Kind::number, "--rounds", on_dialling, ""},
    {"retry.back_off", Kind::time, "--back-off", on_dialling, ""},
    {"retry.back_off_max", Kind::time, "--back-off-max", on_dialling, ""},
    {"listen.concurrency", Kind::number, "--concurrency", on_listen, ""},
    {"listen.backlog", Kind::number, "--backlog", on_listen, ""},
};

/// The TOML table that contains a setting, and its key there.
std::string_view section_of(const Setting& setting) { return setting.name.substr(0, setting.name.find('.')); }
std::string_view key_of(const Setting& setting) { return setting.name.substr(setting.name.find('.') + 1); }

std::string_view form_of(Kind kind) {
  switch (kind) {
    case Kind::text: return "a text: \"...\"";
    case Kind::time: return "a time with a unit: \"250ms\"";
    case Kind::number: return "a number";
    case Kind::depth: return "a number, or \"none\"";
    case Kind::toggle: return "true or false";
    case Kind::list: return "a list of texts: [\"read\", \"write\"]";
  }
  return "a value";
}

/// The value in the form that the option takes; none if its TOML type is wrong.
std::optional<std::string> option_text(Kind kind, const sim::DocValue& value) {
  using Doc = sim::DocValue::Kind;
  const bool text = value.kind == Doc::text;
  switch (kind) {
    case Kind::text:
    case Kind::time: return text ? std::optional(value.text) : std::nullopt;
    case Kind::toggle:
      return value.kind == Doc::boolean ? std::optional<std::string>(value.boolean ? "true" : "false") : std::nullopt;
    case Kind::depth:
      if (text) return value.text;
      [[fallthrough]];
    case Kind::number: return value.kind == Doc::integer ? std::optional(std::to_string(value.integer)) : std::nullopt;
    case Kind::list: break;
  }
  if (text) return value.text;
  if (value.kind != Doc::array || value.items.empty()) return std::nullopt;
  std::string out;
  for (const sim::DocValue& item : value.items) {
    if (item.kind != Doc::text) return std::nullopt;
    out += (out.empty() ? "" : ",") + item.text;
  }
  return out;
}

/// For a variable, whose value is always text: whether it has the form of `kind`. The option checks the rest.
bool has_form(Kind kind, std::string_view value) {
  if (kind == Kind::toggle) return value == "true" || value == "false";
  return kind != Kind::number || value.find_first_not_of("0123456789") == std::string_view::npos;
}

class FileReader {
 public:
  FileReader(std::string_view name, GivenSettings& out) : name_(name), out_(out) {}

  void read(std::string_view text) {
    sim::Document document = sim::read_document(text, name_);
    for (const sim::ScenarioError& error : document.errors) add_error(error.line, error.column, error.text);
    if (!document.errors.empty()) return;
    for (const sim::DocEntry& entry : document.root.entries) section(entry);
  }

 private:
  std::string place(int line, int column) const {
    return line > 0 ? fmt::format("{}:{}:{}", name_, line, column) : std::string(name_);
  }
  void add_error(int line, int column, std::string text) {
    out_.errors.push_back({place(line, column), std::move(text)});
  }

  void section(const sim::DocEntry& entry) {
    std::vector<std::string_view> known;
    for (const Setting& setting : table)
      if (known.empty() || known.back() != section_of(setting)) known.push_back(section_of(setting));
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      // A top-level key may belong in one of the tables.
      std::string_view home;
      for (const Setting& setting : table)
        if (key_of(setting) == entry.key) home = section_of(setting);
      return unknown(entry, "", home, known, "there are the tables");
    }
    if (entry.value.kind != sim::DocValue::Kind::table)
      return add_error(entry.line, entry.column, fmt::format("{} is a table: write [{}]", entry.key, entry.key));
    for (const sim::DocEntry& inner : entry.value.entries) key(entry.key, inner);
  }

  void key(std::string_view section_name, const sim::DocEntry& entry) {
    std::vector<std::string_view> known;
    std::string_view home;
    for (const Setting& setting : table) {
      if (section_of(setting) != section_name) {
        if (key_of(setting) == entry.key) home = section_of(setting);
        continue;
      }
      if (key_of(setting) == entry.key) return take(setting, entry);
      known.push_back(key_of(setting));
    }
    unknown(entry, fmt::format(" of [{}]", section_name), home, known, "known are");
  }

  /// `home`: the table that has such a key; empty if none has.
  void unknown(const sim::DocEntry& entry, std::string_view where, std::string_view home,
               const std::vector<std::string_view>& known, std::string_view list) {
    const std::string_view meant = sim::nearest(entry.key, known);
    add_error(entry.line, entry.column,
              fmt::format("'{}' is not a setting{}; {}", entry.key.substr(0, 60), where,
                          !home.empty()    ? fmt::format("it belongs in [{}]", home)
                          : !meant.empty() ? fmt::format("did you mean '{}'?", meant)
                                           : fmt::format("{} {}", list, fmt::join(known, ", "))));
  }

  void take(const Setting& setting, const sim::DocEntry& entry) {
    auto value = option_text(setting.kind, entry.value);
    if (!value)
      return add_error(entry.line, entry.column,
                       fmt::format("{} is {}, not {}", setting.name, form_of(setting.kind), describe(entry.value)));
    out_.given.push_back({&setting, std::move(*value), Origin::file, place(entry.line, entry.column)});
  }

  std::string_view name_;
  GivenSettings& out_;
};

}  // namespace

std::span<const Setting> settings() { return table; }

std::string environment_name(const Setting& setting) {
  std::string out = "PARLEY_";
  for (const char c : setting.name) out += c == '.' ? '_' : static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return out;
}

bool applies(const Setting& setting, std::string_view command) {
  std::string_view left = setting.commands;
  while (!left.empty()) {
    const std::string_view word = left.substr(0, left.find(' '));
    if (word == command) return true;
    left.remove_prefix(std::min(word.size() + 1, left.size()));
  }
  return false;
}

std::string_view to_string(Origin origin) {
  switch (origin) {
    case Origin::fallback: return "default";
    case Origin::file: return "file";
    case Origin::environment: return "environment";
    case Origin::command_line: return "command_line";
  }
  return "unknown";
}

const SettingValue* GivenSettings::find(const Setting& setting) const {
  const auto at =
      std::find_if(given.begin(), given.end(), [&](const SettingValue& g) { return g.setting == &setting; });
  return at == given.end() ? nullptr : &*at;
}

GivenSettings read_settings(std::string_view file, std::string_view file_name,
                            const std::function<std::optional<std::string>(const std::string&)>& variable) {
  GivenSettings from_file, out;
  FileReader(file_name, from_file).read(file);
  out.errors = std::move(from_file.errors);
  for (const Setting& setting : table) {
    const std::string name = environment_name(setting);
    auto value = variable(name);
    if (value && value->empty()) value.reset();
    if (value && !has_form(setting.kind, *value))
      out.errors.push_back({name, fmt::format("{} is {}, not '{}'", setting.name, form_of(setting.kind), *value)});
    else if (value)
      out.given.push_back({&setting, std::move(*value), Origin::environment, name});
    else if (const SettingValue* given = from_file.find(setting))
      out.given.push_back(*given);
  }
  return out;
}

std::string meant_variable(std::string_view name) {
  std::vector<std::string> names{"PARLEY_CONFIG"};
  for (const Setting& setting : table) names.push_back(environment_name(setting));
  // Without the common prefix, which would make all names similar.
  constexpr std::string_view prefix = "PARLEY_";
  if (!name.starts_with(prefix) || std::find(names.begin(), names.end(), name) != names.end()) return {};
  std::vector<std::string_view> ends;
  for (const std::string& known : names) ends.push_back(std::string_view(known).substr(prefix.size()));
  const std::string_view meant = sim::nearest(name.substr(prefix.size()), ends);
  return meant.empty() ? std::string() : std::string(prefix) + std::string(meant);
}

}  // namespace parley::ops
