// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of settings: defaults of commands that a file and the environment may set. Each setting is an option with
// one name everywhere: `mpa.ird` is `ird` in the table [mpa] of the file, PARLEY_MPA_IRD in the environment, and --ird
// on the command line. The option itself checks its values; this code checks only their TOML types. See
// docs/operations.md.
//
// Settings do not apply to commands that give verdicts (sim, pcap, replay, conform): their results must not depend on a
// file on the machine.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley::ops {

/// How a value is written in TOML.
enum class SettingKind : std::uint8_t {
  text,    ///< "..."
  time,    ///< "250ms": text with a unit
  number,  ///< 32
  depth,   ///< 32, or "none"
  toggle,  ///< true
  list,    ///< ["read", "write"], or "read"
};

struct Setting {
  std::string_view name;
  SettingKind kind;
  std::string_view option;
  std::string_view commands;  ///< "listen rping": the commands that have it
  std::string_view fallback;  ///< the value if --help shows no default
};
std::span<const Setting> settings();
/// "PARLEY_MPA_IRD"
std::string environment_name(const Setting& setting);
/// Whether the setting applies to `command` ("rping").
bool applies(const Setting& setting, std::string_view command);

enum class Origin : std::uint8_t { fallback, file, environment, command_line };
std::string_view to_string(Origin origin);

/// A given value of a setting, in the form that the option takes.
struct SettingValue {
  const Setting* setting = nullptr;
  std::string value;
  Origin origin = Origin::fallback;
  std::string where;  ///< "/etc/rdma/parley.toml:3:1", "PARLEY_MPA_IRD"
};

struct SettingError {
  std::string where;
  std::string text;
  std::string to_string() const { return where + ": " + text; }
};

struct GivenSettings {
  std::vector<SettingValue> given;  ///< each setting at most once, in the order of the table
  std::vector<SettingError> errors;

  const SettingValue* find(const Setting& setting) const;
};

/// The settings of the file and of the environment, which takes precedence. Both are read completely even if they
/// contain errors. `file` is the content of the file. `variable` returns the value of an environment variable, or
/// nothing if it is not set. An empty variable counts as not set.
GivenSettings read_settings(std::string_view file, std::string_view file_name,
                            const std::function<std::optional<std::string>(const std::string&)>& variable);

/// For a variable whose name begins with PARLEY_: the variable that was probably meant. Empty if the name is correct or
/// none is near.
std::string meant_variable(std::string_view name);

}  // namespace parley::ops
