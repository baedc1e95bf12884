// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// From a Scenario to its file, and from the schema to its documentation.
#include <fmt/format.h>

#include "sim/scenario/scenario_schema.hpp"

namespace parley::sim {
namespace {

template <class T>
void write_keys(std::string& out, std::span<const Key<T>> keys, const T& in) {
  for (const Key<T>& key : keys)
    if (const std::string value = key.write(in); !value.empty()) out += fmt::format("{} = {}\n", key.key, value);
}

/// A separate table, unless it would be empty.
template <class T>
void write_table(std::string& out, std::string_view name, std::span<const Key<T>> keys, const T& in) {
  std::string inner;
  write_keys(inner, keys, in);
  if (!inner.empty()) out += fmt::format("[{}]\n{}", name, inner);
}

void write_inner(std::string& out, std::string_view name, std::span<const Key<ScenarioHost>> keys,
                 const ScenarioHost& in) {
  std::string inner;
  for (const Key<ScenarioHost>& key : keys)
    if (const std::string value = key.write(in); !value.empty())
      inner += fmt::format("{}{} = {}", inner.empty() ? "" : ", ", key.key, value);
  if (!inner.empty()) out += fmt::format("{} = {{ {} }}\n", name, inner);
}

/// A file states the direction of a fault by the end that receives the affected frames.
ScenarioFault with_toward(const ScenarioFault& fault, const Scenario& scenario) {
  ScenarioFault out = fault;
  if (!out.toward.empty() || out.way == LinkDirection::both) return out;
  for (const ScenarioLink& link : scenario.links)
    if (link.name == out.link || (link.name.empty() && default_link_name(link) == out.link))
      out.toward = link.ends[out.way == LinkDirection::forward ? 1 : 0];
  return out;
}

template <class T>
void document(std::string& out, std::string_view title, std::span<const Key<T>> keys) {
  out += fmt::format("### {}\n\n| key | value | default | meaning |\n|---|---|---|---|\n", title);
  for (const Key<T>& key : keys) {
    const std::string standard = key.standard != nullptr ? key.standard() : std::string();
    const bool dull = standard.empty() || standard == "\"\"";
    out += fmt::format("| `{}` | {} | {} | {} |\n", key.key, key.form(), dull ? "" : fmt::format("`{}`", standard),
                       key.text);
  }
  out += '\n';
}

}  // namespace

std::string to_toml(const Scenario& scenario) {
  std::string out;
  write_keys(out, scenario_keys(), scenario);
  std::string bounds;
  write_keys(bounds, bounds_keys(), scenario.bounds);
  if (!bounds.empty()) out += "\n[bounds]\n" + bounds;
  for (const ScenarioHost& host : scenario.hosts) {
    out += host.is_switch ? "\n[[switch]]\n" : "\n[[host]]\n";
    write_keys(out, host.is_switch ? switch_keys() : host_keys(), host);
    if (host.is_switch) continue;
    write_inner(out, "tcp", tcp_keys(), host);
    write_inner(out, "rnic", rnic_keys(), host);
    write_inner(out, "hca", hca_keys(), host);
    for (const NicOptions& nic : host.options.nics) {
      out += "\n[[host.nic]]\n";
      write_keys(out, nic_keys(), nic);
    }
  }
  for (const ScenarioLink& link : scenario.links) {
    out += "\n[[link]]\n";
    write_keys(out, link_keys(), link);
  }
  for (const ScenarioListen& listen : scenario.listens) {
    out += "\n[[listen]]\n";
    write_keys(out, listen_keys(), listen);
    write_table(out, "listen.mpa", listen_mpa_keys(), listen);
  }
  for (const ScenarioConnect& connect : scenario.connects) {
    out += "\n[[connect]]\n";
    write_keys(out, connect_keys(), connect);
    write_table(out, "connect.mpa", connect_mpa_keys(), connect);
  }
  for (const ScenarioMember& member : scenario.members) {
    out += "\n[[member]]\n";
    write_keys(out, member_keys(), member);
  }
  for (const ScenarioSend& send : scenario.sends) {
    out += "\n[[send]]\n";
    write_keys(out, send_keys(), send);
  }
  for (const ScenarioExit& exit : scenario.exits) {
    out += "\n[[exit]]\n";
    write_keys(out, exit_keys(), exit);
  }
  for (const ScenarioFault& fault : scenario.faults) {
    out += "\n[[fault]]\n";
    write_keys(out, fault_keys(), with_toward(fault, scenario));
  }
  return out;
}

std::string scenario_keys_markdown() {
  std::string out;
  document(out, "Top of the file", scenario_keys());
  document(out, "`[bounds]`", bounds_keys());
  document(out, "`[[host]]`", host_keys());
  document(out, "`tcp = {...}` of a host", tcp_keys());
  document(out, "`rnic = {...}` of a host", rnic_keys());
  document(out, "`hca = {...}` of a host", hca_keys());
  document(out, "`[[host.nic]]` of a host", nic_keys());
  document(out, "`[[switch]]`", switch_keys());
  document(out, "`[[link]]`", link_keys());
  document(out, "`[[listen]]`", listen_keys());
  document(out, "`[listen.mpa]` of a listen", listen_mpa_keys());
  document(out, "`[[connect]]`", connect_keys());
  document(out, "`[connect.mpa]` of a connect", connect_mpa_keys());
  document(out, "`[[member]]`", member_keys());
  document(out, "`[[send]]`", send_keys());
  document(out, "`[[exit]]`", exit_keys());
  document(out, "`[[fault]]`", fault_keys());
  return out;
}

}  // namespace parley::sim
