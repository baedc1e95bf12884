// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Control requests: attributes of the client's port, and commands.
#include <fmt/format.h>

#include "sim/subnet/sma.hpp"
#include "tools/fabric/server.hpp"

namespace parley::tools {

namespace {

using ibsim::ControlData, ibsim::ControlType;
using namespace sim::subnet;

/// An attribute, as the node's agent returns it.
bool get(State& state, std::uint32_t port, std::uint16_t attribute, std::uint32_t modifier, ControlData& out) {
  return answer_subn(state, {port, false, true, attribute, modifier}, out) == 0;
}

}  // namespace

bool FabricServer::tell(ibsim::Control& control, ClientId client, ControlType type) {
  State& state = subnet_.state();
  const std::uint32_t port = subnet_.port_of(client);
  const Port& at = state.port(port);
  const PlanNode& plan = *state.node_of(at).plan;
  ControlData& data = control.data;
  const std::uint8_t asked = data[0];
  switch (type) {
    case ControlType::port:
      data = ibsim::data_with(at.info.get(PortInfo::lid));
      data[2] = static_cast<std::uint8_t>(at.info.get(PortInfo::port_state));
      return true;
    case ControlType::vendor: data = ibsim::data_with(ibsim::Vendor{plan.vendor, plan.device, 0xA1, 0, 1}); return true;
    case ControlType::gid:
      data = {};
      write_bits(data, 0, 64, at.info.get(PortInfo::gid_prefix));
      write_bits(data, 64, 64, state.port_guid(at));
      return true;
    case ControlType::guid:
      data = {};
      write_bits(data, 0, 64, plan.guid);
      return true;
    case ControlType::node_info: return get(state, port, wire::mad::NodeInfo::attribute, 0, data);
    case ControlType::port_info:
      return get(state, port, PortInfo::attribute, state.port_of(at.node, asked) == nowhere ? at.number : asked, data);
    case ControlType::p_keys: return get(state, port, wire::mad::PKeyTable::attribute, 0, data);
    case ControlType::set_is_sm:
      subnet_.set_is_sm(now(), client, ibsim::message_in<std::uint32_t>(data) != 0);
      return true;
    default: return false;
  }
}

bool FabricServer::command(ibsim::Control& control) {
  const std::string_view text = ibsim::text_in(control.data);
  std::string answer = "done";
  bool good = true;
  if (text == "check-routes") {
    const RouteReport report = check_routes(subnet_.state());
    good = report.good();
    answer = fmt::format("{} of {} routes, at most {} links", report.reached + report.switches_reached,
                         report.pairs + report.switches, report.hops_max);
    for (const std::string& wrong : report.wrong) out_.note(wrong);
  } else if (const auto done = subnet_.add_fault(now(), text); !done) {
    good = false;
    answer = done.error();
  }
  constexpr std::string_view rest = "...";
  if (const std::size_t room = control.data.size() - 1; answer.size() > room) {
    out_.note(answer);
    answer.replace(room - rest.size(), std::string::npos, rest);
  }
  control.data = {};
  std::copy_n(answer.begin(), std::min(answer.size(), control.data.size() - 1), control.data.begin());
  return good;
}

}  // namespace parley::tools
