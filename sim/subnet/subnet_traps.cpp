// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Traps (IBA §13.4.9, §14.2.5.1), faults with a time, and other actions of the subnet itself.
#include <algorithm>
#include <utility>

#include "sim/subnet/subnet.hpp"

namespace parley::sim::subnet {

namespace {

using namespace wire::mad;

/// `notice` with the details for its number.
template <class Details>
Datagram trap_of(NoticeType type, NodeType producer, std::uint16_t number, std::uint16_t lid, const Details& details) {
  Notice notice;
  notice.set(Notice::is_generic, true).set(Notice::notice_type, type).set(Notice::node_type, producer);
  notice.set(Notice::trap_number, number).set(Notice::issuer_lid, lid).set(Notice::data_details, details.octets());
  return request<MgmtClass::subn, Method::trap>(notice);
}

constexpr std::uint16_t link_integrity = 129, buffer_overrun = 130, flow_control = 131;

/// Whether one trap replaces the other: same number, and same port if it is about a switch's port.
bool is_same_event(const Datagram& a, const Datagram& b) {
  const auto number = [](const Datagram& mad) { return read_bits(mad, (64 + 4) * 8, 16); };
  if (number(a) != number(b)) return false;
  const auto details = [](const Datagram& mad) { return ConstBytes(mad).subspan(64 + 10, Trap129Details::size); };
  const bool of_port = number(a) >= link_integrity && number(a) <= flow_control;
  return !of_port || std::ranges::equal(details(a), details(b));
}

}  // namespace

void Subnet::send_changes(Instant now) {
  if (!state_.has_changed()) return;
  for (const std::uint32_t node : state_.take_changed()) send_trap_128(now, node);
}

void Subnet::send_trap_128(Instant now, std::uint32_t node) {
  const std::uint32_t port = state_.nodes()[node].first_port;
  const std::uint16_t lid = state_.port(port).info.get(PortInfo::lid);
  send_trap(now, port,
            trap_of(NoticeType::urgent, NodeType::switch_, 128, lid, Trap128Details{}.set(Trap128Details::lid, lid)));
}

void Subnet::send_trap_144(Instant now, std::uint32_t port) {
  const PortInfo& info = state_.port(port).info;
  const std::uint16_t lid = info.get(PortInfo::lid);
  Trap144Details details;
  details.set(Trap144Details::lid, lid).set(Trap144Details::capability_mask, info.get(PortInfo::capability_mask));
  send_trap(now, port, trap_of(NoticeType::informational, state_.node_of(state_.port(port)).type, 144, lid, details));
}

/// IBA §14.2.5.1: traps for link errors. `port`: the port of that link.
void Subnet::send_port_trap(Instant now, std::uint16_t number, std::uint32_t port) {
  const Port& at = state_.port(port);
  const std::uint32_t end = state_.end_port(port);
  const std::uint16_t lid = state_.port(end).info.get(PortInfo::lid);
  Trap129Details details;
  details.set(Trap129Details::lid, lid).set(Trap129Details::port_num, at.number);
  send_trap(now, end, trap_of(NoticeType::urgent, state_.node_of(at).type, number, lid, details));
}

/// IBA §14.2.4.2, §14.2.5.1: reports the requester and the key. At most one each trap_interval, because anyone may
/// cause it.
void Subnet::send_trap_256(const Request& request) {
  constexpr std::size_t modifier_at = 20, attribute_at = 16, m_key_at = 24, dr_slid_at = 32, hop_count_at = 7,
                        back_at = 192;
  const std::uint32_t port = state_.end_port(request.at);
  if (const auto quiet = quiet_.find(port); quiet != quiet_.end() && request.now < quiet->second) return;
  quiet_.insert_or_assign(port, request.now + options_.trap_interval);
  const ConstBytes mad(request.packet.mad);
  Trap256Details details;
  details.set(Trap256Details::lid, request.packet.slid)
      .set(Trap256Details::method, static_cast<Method>(request.method));
  details.set(Trap256Details::attribute_id, static_cast<std::uint16_t>(read_bits(mad, attribute_at * 8, 16)));
  details.set(Trap256Details::attribute_modifier, static_cast<std::uint32_t>(read_bits(mad, modifier_at * 8, 32)));
  details.set(Trap256Details::m_key, read_bits(mad, m_key_at * 8, 64));
  if (request.directed) {
    constexpr std::size_t room = Trap256Details::dr_notice_return_path.count;
    const std::uint8_t hops = mad[hop_count_at];
    details.set(Trap256Details::dr_slid, static_cast<std::uint16_t>(read_bits(mad, dr_slid_at * 8, 16)));
    details.set(Trap256Details::dr_notice, true).set(Trap256Details::dr_path_truncated, hops >= room);
    details.set(Trap256Details::dr_hop_count, hops);
    details.set(Trap256Details::dr_notice_return_path, mad.subspan(back_at, room));
  }
  const std::uint16_t lid = state_.port(port).info.get(PortInfo::lid);
  send_trap(request.now, port,
            trap_of(NoticeType::security, state_.node_of(state_.port(port)).type, 256, lid, details));
}

/// `port`: an end port. Without its own LID and the subnet manager's LID, nothing is sent.
void Subnet::send_trap(Instant now, std::uint32_t port, Datagram mad) {
  const PortInfo& info = state_.port(port).info;
  if (info.get(PortInfo::lid) == 0 || info.get(PortInfo::master_sm_lid) == 0) return;
  std::erase_if(traps_,
                [&](const auto& entry) { return entry.second.node == port && is_same_event(entry.second.mad, mad); });
  const std::uint64_t transaction = transaction_++ & 0xFFFFFFFF;
  write_bits(mad, 64, 64, transaction);
  const Trap trap{port, mad, now + options_.trap_interval, options_.trap_repeats};
  if (traps_.size() < traps_max) traps_.insert_or_assign(transaction, trap);
  deliver_trap(now, trap);
}

void Subnet::deliver_trap(Instant now, const Trap& trap) {
  const PortInfo& info = state_.port(trap.node).info;
  ++statistics_.traps;
  Request request{
      .now = now,
      .from = 0,
      .packet = {.dlid = info.get(PortInfo::master_sm_lid), .slid = info.get(PortInfo::lid), .mad = trap.mad}};
  request.at = walk_by_lid(state_, trap.node, request.packet.dlid, false);
  const Client* const receiver = request.at == nowhere ? nullptr : find_receiver(request.at, request);
  if (receiver == nullptr) return;
  FaultDecision fault;
  if (!faults_.empty()) fault = faults_.judge(trap.mad, state_.port(trap.node).node);
  if (fault.lost) {
    ++statistics_.lost;
    return;
  }
  deliver(now, id_of(*receiver), request.packet, fault.delay);
}

/// By the lower half of the transaction ID: the upper half belongs to the sender's driver.
void Subnet::repress(const Request& request) {
  const auto found = traps_.find(read_bits(request.packet.mad, 96, 32));
  if (found == traps_.end() || found->second.node != state_.end_port(request.at)) return;
  ++statistics_.repressed;
  traps_.erase(found);
}

/// IBA §14.2.4.2: the first violation starts the lease; when it expires, the port is open to all.
void Subnet::note_m_key_violation(const Request& request) {
  const std::uint32_t end = state_.end_port(request.at);
  PortInfo& info = state_.port(end).info;
  ++statistics_.m_key_violations;
  const std::uint16_t count = info.get(PortInfo::m_key_violations);
  if (count != 0xFFFF) info.set(PortInfo::m_key_violations, static_cast<std::uint16_t>(count + 1));
  if (const std::uint16_t lease = info.get(PortInfo::m_key_lease_period); lease != 0)
    leases_.emplace(end, request.now + std::chrono::seconds(lease));
  send_trap_256(request);
}

Instant Subnet::next_deadline() const {
  Instant next = outbox_.empty() ? never : Instant::min();
  if (!delayed_.empty()) next = std::min(next, delayed_.begin()->first);
  if (!timed_.empty()) next = std::min(next, timed_.begin()->first);
  for (const auto& [transaction, trap] : traps_) next = std::min(next, trap.next);
  for (const auto& [port, at] : leases_) next = std::min(next, at);
  return next;
}

void Subnet::handle_deadline(Instant now) {
  for (auto at = delayed_.begin(); at != delayed_.end() && at->first <= now && outbox_.size() < outbox_max;
       at = delayed_.erase(at))
    outbox_.push_back(at->second);
  while (!timed_.empty() && timed_.begin()->first <= now) {
    const std::size_t rule = timed_.begin()->second;
    timed_.erase(timed_.begin());
    apply(now, faults_.rules()[rule]);
  }
  for (auto at = traps_.begin(); at != traps_.end();) {
    Trap& trap = at->second;
    if (trap.next <= now) {
      if (trap.left-- == 0) {
        at = traps_.erase(at);
        continue;
      }
      trap.next = now + options_.trap_interval;
      deliver_trap(now, trap);
    }
    ++at;
  }
  for (auto at = leases_.begin(); at != leases_.end();) {
    if (at->second > now) {
      ++at;
      continue;
    }
    state_.port(at->first).info.set(PortInfo::m_key_protect_bits, 0);
    at = leases_.erase(at);
  }
  send_changes(now);
}

Said<void> Subnet::add_fault(Instant now, std::string_view text) {
  auto rule = parse_fault(text, state_);
  if (!rule) return tl::unexpected(rule.error());
  const auto at = rule->at;
  if (at && *at == Duration::zero()) {
    obey(now, std::move(*rule));
    return {};
  }
  if (faults_.rules().size() >= fault_rules_max) return tl::unexpected<std::string>("too many faults are pending");
  faults_.add(std::move(*rule));
  if (at) timed_.emplace(started_ + *at, faults_.rules().size() - 1);
  return {};
}

/// Executed at once, even if there is no room to store it.
void Subnet::obey(Instant now, FaultRule command) {
  const auto before = std::find_if(commands_.begin(), commands_.end(),
                                   [&](const FaultRule& said) { return said.text == command.text; });
  apply(now, before == commands_.end() ? command : *before);
  send_changes(now);
  if (before == commands_.end() && commands_.size() < fault_rules_max) commands_.push_back(std::move(command));
}

void Subnet::apply(Instant now, FaultRule& rule) {
  ++rule.hits;
  switch (rule.action) {
    case FaultAction::reset: reset(now, rule.match.node); break;
    case FaultAction::down: state_.plug(rule.port, false); break;
    case FaultAction::up: state_.plug(rule.port, true); break;
    case FaultAction::integrity:
      add_one(state_.errors(rule.port).link_integrity);
      send_port_trap(now, link_integrity, rule.port);
      break;
    case FaultAction::overrun:
      add_one(state_.errors(rule.port).overruns);
      send_port_trap(now, buffer_overrun, rule.port);
      break;
    case FaultAction::watchdog: send_port_trap(now, flow_control, rule.port); break;
    default: break;
  }
}

void Subnet::reset(Instant now, std::uint32_t node) {
  const Node& at = state_.nodes()[node];
  state_.reset_node(node);
  const std::uint32_t end = at.ports_end();
  std::erase_if(traps_,
                [&](const auto& entry) { return entry.second.node >= at.first_port && entry.second.node < end; });
  for (auto* const times : {&leases_, &quiet_})
    times->erase(times->lower_bound(at.first_port), times->lower_bound(end));
  for (std::uint32_t port = at.first_port; port < end; ++port)
    if (state_.end_port(port) == port) show_is_sm(now, port);
}

}  // namespace parley::sim::subnet
