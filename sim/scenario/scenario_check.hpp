// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The checks of a scenario, before their findings are assigned to lines: parse_scenario knows the line of each key; a
// scenario built in code has none.
#pragma once
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/scenario/scenario.hpp"

namespace parley::sim {

enum class Section : std::uint8_t { scenario, bounds, host, link, listen, connect, member, send, exit, fault };

struct ScenarioProblem {
  Section section = Section::scenario;
  std::size_t index = 0;  ///< in the scenario's vector
  std::string key;        ///< may be empty
  std::string text;
};

/// By Section: for each element of the scenario's vector the index of the table in the file that made it. Empty: each
/// table made one element.
using SectionOrigins = std::array<std::vector<std::size_t>, 10>;

/// What cannot be checked because a required key was not read.
struct UncheckedParts {
  bool hosts = false;    ///< a host or switch whose name is not known
  bool counts = false;   ///< a host whose count is not known
  bool links = false;    ///< a link whose name or ends are not known
  bool nics = false;     ///< a NIC whose name is not known
  bool engines = false;  ///< a host whose engine is not known
  bool listens = false;  ///< a listener whose address or port is not known
};

/// At most 1,000 problems. If one table made several elements, the problems of a key are those of the first element that
/// has any.
std::vector<ScenarioProblem> find_faults(const Scenario& scenario, const UncheckedParts& unchecked,
                                         const SectionOrigins& origins = {});

std::string host_name_taken(std::string_view name);
std::string link_name_taken(std::string_view name);

}  // namespace parley::sim
