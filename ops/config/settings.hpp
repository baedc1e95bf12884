// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The table of settings: what a file and the environment may give commands as defaults. Each is an option of theirs, and
// has one name everywhere: `mpa.ird` is `ird` in the table [mpa] of the file, PARLEY_MPA_IRD in the environment, and
// --ird on the command line. Which values an option takes is the option's own rule; here is judged only what TOML says
// of them. docs/operations.md
//
// Commands that judge (sim, pcap, replay, conform) are none of those that a setting names: what they find must not
// depend on a file that somebody put on the machine.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace parley::ops {

/// How TOML writes a value.
enum class SettingKind : std::uint8_t {
  text,    ///< "..."
  time,    ///< "250ms": a text with a unit
  number,  ///< 32
  depth,   ///< 32, or "none"
  toggle,  ///< true
  list,    ///< ["read", "write"], or "read"
};

struct Setting {
  std::string_view name;
  SettingKind kind;
  std::string_view option;
  std::string_view commands;  ///< "listen rping": those that take it
  std::string_view fallback;  ///< where --help says none
};
std::span<const Setting> settings();
/// "PARLEY_MPA_IRD"
std::string environment_name(const Setting& setting);
/// Whether `command`, as "rping", takes it.
bool applies(const Setting& setting, std::string_view command);

enum class Origin : std::uint8_t { fallback, file, environment, command_line };
std::string_view to_string(Origin origin);

/// A value that was given for a setting, as the option takes it.
struct Given {
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
  std::vector<Given> given;  ///< each setting at most once, in the order of the table
  std::vector<SettingError> errors;

  const Given* find(const Setting& setting) const;
};

/// What the file says, and the environment in its place. Both are read to their ends, whatever is wrong with them.
/// `file` is what stands in it; `variable` gives the value of a variable, or nothing if it is not set. A variable that
/// is set to nothing counts as not set.
GivenSettings read_settings(std::string_view file, std::string_view file_name,
                            const std::function<std::optional<std::string>(const std::string&)>& variable);

/// Of variables whose names begin with PARLEY_: the one that this was probably meant to be; empty if it is one, or none
/// is near.
std::string meant_variable(std::string_view name);

}  // namespace parley::ops
