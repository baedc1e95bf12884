// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The keys of scenario files: for each table of the file a list of keys, each with its member and its format. Reading,
// writing, suggestions and the documentation all use these lists.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "sim/scenario/scenario_value.hpp"

namespace parley::sim {

/// One key of a table that describes a T.
template <class T>
struct Key {
  std::string_view key;
  std::string (*form)() = nullptr;  ///< "time", "1..65535", "one of v4, v6, link_local"
  std::string_view text;            ///< for the documentation
  /// Sets the member; returns the error, or nothing.
  std::string (*read)(const DocValue& value, T& out) = nullptr;
  /// As written after "key = "; empty if it has its default.
  std::string (*write)(const T& in) = nullptr;
  /// The default, in the format of write; empty if it is not worth mentioning.
  std::string (*standard)() = nullptr;
  /// Sets the member to its default; null if there is no meaningful one.
  void (*reset)(T& out) = nullptr;
};

std::span<const Key<Scenario>> scenario_keys();
std::span<const Key<ScenarioBounds>> bounds_keys();
std::span<const Key<ScenarioHost>> host_keys();
std::span<const Key<ScenarioHost>> switch_keys();
std::span<const Key<ScenarioHost>> tcp_keys();   ///< in the table `tcp` of a host
std::span<const Key<ScenarioHost>> rnic_keys();  ///< in the table `rnic` of a host
std::span<const Key<ScenarioHost>> hca_keys();   ///< in the table `hca` of a host
std::span<const Key<NicOptions>> nic_keys();     ///< in the tables `nic` of a host
std::span<const Key<ScenarioLink>> link_keys();
std::span<const Key<ScenarioListen>> listen_keys();
std::span<const Key<ScenarioListen>> listen_mpa_keys();  ///< in the table `mpa` of a listen
std::span<const Key<ScenarioConnect>> connect_keys();
std::span<const Key<ScenarioConnect>> connect_mpa_keys();  ///< in the table `mpa` of a connect
std::span<const Key<ScenarioMember>> member_keys();
std::span<const Key<ScenarioSend>> send_keys();
std::span<const Key<ScenarioExit>> exit_keys();
std::span<const Key<ScenarioFault>> fault_keys();

/// True for a fault at a set time, as opposed to one that acts while frames pass: its time key is then `at`.
bool is_momentary(const ScenarioFault& fault);
/// "a-b".
std::string default_link_name(const ScenarioLink& link);

}  // namespace parley::sim
