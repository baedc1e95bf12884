// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/subnet/subnet.hpp"

#include <utility>

#include "sim/subnet/sma.hpp"

namespace parley::sim::subnet {

namespace {

using wire::mad::is_smp;
using wire::mad::Method;
using wire::mad::MgmtClass;

constexpr auto directed_subn = static_cast<std::uint8_t>(MgmtClass::subn_directed);
constexpr auto perf = static_cast<std::uint8_t>(MgmtClass::perf);
constexpr std::uint16_t status_bad_version = 0x04;

// Octets of the headers, IBA §13.4.3 and §14.2.1.2.
constexpr std::size_t class_at = 1, version_at = 2, method_at = 3, status_at = 4, hop_pointer_at = 6, hop_count_at = 7,
                      tid_at = 8, attribute_at = 16, modifier_at = 20, m_key_at = 24, dr_slid_at = 32, dr_dlid_at = 34,
                      data_at = 64, path_at = 128, back_at = 192;

std::uint16_t number_at(ConstBytes mad, std::size_t octet) {
  return static_cast<std::uint16_t>(read_bits(mad, octet * 8, 16));
}
bool is(std::uint8_t method, Method what) { return method == static_cast<std::uint8_t>(what); }

bool wants_answer(std::uint8_t method) { return !wire::mad::is_answer(method) && !is(method, Method::send); }

}  // namespace

Subnet::Subnet(Plan plan, const SubnetOptions& options, Instant now)
    : options_(options), state_(std::move(plan)), faults_(options.seed, options.loss, options.delay), started_(now) {}

void Subnet::handle_send(Instant now, ClientId from, const Packet& packet) {
  if (!is_attached(from)) return;
  ++statistics_.sent;
  Request request{.now = now, .from = from, .packet = packet};
  const wire::mad::Datagram& mad = request.packet.mad;
  request.method = mad[method_at];
  request.response = (request.method & PARLEY_IB_MAD_RESPONSE) != 0;
  request.directed = mad[class_at] == directed_subn;
  request.packet.status = 0;
  if (mad[0] != PARLEY_IB_MAD_BASE_VERSION) {
    ++statistics_.malformed;
    return;
  }
  request.at = carry(request);
  if (request.at == nowhere) {
    ++statistics_.undeliverable;
    bounce(request);
  } else {
    arrive(request);
  }
  send_changes(now);
}

/// To its destination port.
std::uint32_t Subnet::carry(Request& request) {
  const std::uint32_t port = clients_[request.from].port;
  const PortInfo& own = state_.port(state_.end_port(port)).info;
  if (request.directed) return carry_directed(request);
  if (!has_lid(own, request.packet.slid)) request.packet.slid = own.get(PortInfo::lid);
  return walk_by_lid(state_, port, request.packet.dlid, !is_smp(request.packet.mad[class_at]));
}

std::uint32_t Subnet::carry_directed(Request& request) {
  wire::mad::Datagram& mad = request.packet.mad;
  const unsigned hops = mad[hop_count_at], pointer = mad[hop_pointer_at];
  const bool back = (mad[status_at] & 0x80) != 0;
  if (hops >= PARLEY_MAD_PATH_MAX || back != request.response || (pointer != 0 && !(back && pointer == hops + 1))) {
    ++statistics_.malformed;
    return nowhere;
  }
  const std::uint16_t slid = number_at(mad, dr_slid_at), dlid = number_at(mad, dr_dlid_at);
  const bool begins_by_lid = (back ? dlid : slid) != PARLEY_MAD_PERMISSIVE_LID;
  const std::uint16_t last_lid = back ? slid : dlid;
  std::uint32_t at = clients_[request.from].port;
  if (begins_by_lid) at = walk_by_lid(state_, at, request.packet.dlid, false);
  request.entered = at;
  if (at == nowhere) return nowhere;
  const MutBytes octets(mad);
  at = back ? walk_back(state_, at, octets.subspan(back_at), hops)
            : walk_directed(state_, at, octets.subspan(path_at, PARLEY_MAD_PATH_MAX), hops, octets.subspan(back_at),
                            request.trail);
  request.left = at;
  if (at != nowhere && last_lid != PARLEY_MAD_PERMISSIVE_LID) at = walk_by_lid(state_, at, last_lid, false);
  return at;
}

void Subnet::arrive(Request& request) {
  const std::uint32_t node = state_.port(request.at).node;
  FaultDecision fault;
  if (!faults_.empty())
    fault = faults_.judge(request.packet.mad, request.response ? state_.port(clients_[request.from].port).node : node);
  if (fault.reset != nowhere) reset(request.now, fault.reset);
  if (fault.lost || fault.reset != nowhere) {
    ++statistics_.lost;
    bounce(request);
    return;
  }
  request.delay = fault.delay;
  if (fault.twice) {
    ++statistics_.duplicated;
    Request first = request;
    hand_over(first, fault.busy);
  }
  hand_over(request, fault.busy);
}

/// To its receiver.
void Subnet::hand_over(Request& request, bool busy) {
  if (is_smp(request.packet.mad[class_at]) && is(request.method, Method::trap_repress))
    repress(request);
  else if (!is_for_agent(request))
    forward(request);
  else if (enter_vl15(request))
    answer_by_agent(request, busy);
  else
    bounce(request);
}

/// VL15 has no flow control (IBA §7.9): an SMP that finds no buffer is dropped and counted. Others wait for their turn.
bool Subnet::enter_vl15(Request& request) {
  if (faults_.empty() || !is_smp(request.packet.mad[class_at])) return true;
  const std::uint32_t node = state_.port(request.at).node;
  FaultRule* const rule = faults_.vl15_of(node);
  if (rule == nullptr) return true;
  ++rule->seen;
  Instant& until = occupied_[node];
  until = std::max(until, request.now);
  if (until - request.now > rule->delay * (rule->buffers - 1)) {
    ++rule->hits;
    ++statistics_.lost;
    add_one(state_.errors(request.at).vl15_dropped);
    return false;
  }
  until += rule->delay;
  request.delay += until - request.now;
  return true;
}

bool Subnet::is_for_agent(const Request& request) const {
  const std::uint8_t mgmt_class = request.packet.mad[class_at];
  if (request.response) return false;
  if (mgmt_class == perf) return true;
  return is_smp(mgmt_class) && !is(request.method, Method::trap) &&
         number_at(request.packet.mad, attribute_at) != wire::mad::SmInfo::attribute;
}

/// Returns the status of the answer, whose data it writes into the MAD.
std::uint16_t Subnet::ask_agent(const Request& request, bool key_fits, MutBytes mad) {
  const bool set = is(request.method, Method::set);
  if (mad[version_at] != 1) return status_bad_version;
  if (!set && !is(request.method, Method::get)) return status_unsupported_method;
  const AgentRequest asked{request.at, set, key_fits, number_at(mad, attribute_at),
                           static_cast<std::uint32_t>(read_bits(mad, modifier_at * 8, 32))};
  if (mad[class_at] == perf) return answer_perf(state_, asked, mad.subspan(data_at, 192));
  return answer_subn(state_, asked, mad.subspan(data_at, 64));
}

void Subnet::answer_by_agent(Request& request, bool busy) {
  wire::mad::Datagram& mad = request.packet.mad;
  KeyCheck key{true, true};
  if (is_smp(mad[class_at])) {
    key = check_m_key(state_, request.at, is(request.method, Method::set), read_bits(mad, m_key_at * 8, 64));
    if (key.fits) leases_.erase(state_.end_port(request.at));
    if (!key.allowed) {
      note_m_key_violation(request);
      bounce(request);
      return;
    }
  }
  const Packet asked = request.packet;
  const std::uint32_t node = state_.port(request.at).node;
  const std::uint16_t status = busy ? PARLEY_MAD_STATUS_BUSY : ask_agent(request, key.fits, mad);
  if (busy) ++statistics_.busy;
  if (status != 0) ++statistics_.refused;
  mad[method_at] = static_cast<std::uint8_t>(Method::get_resp);
  write_bits(mad, status_at * 8, 16, status | (request.directed ? 0x8000U : 0U));
  FaultDecision fault;
  if (!faults_.empty()) fault = faults_.judge(mad, node);
  const bool arrives = way_back(request);
  if (fault.reset != nowhere) reset(request.now, fault.reset);
  if (fault.lost || fault.reset != nowhere || !arrives) {
    ++(arrives ? statistics_.lost : statistics_.undeliverable);
    request.packet = asked;
    bounce(request);
    return;
  }
  ++statistics_.answered;
  std::swap(request.packet.dlid, request.packet.slid);
  std::swap(request.packet.dqp, request.packet.sqp);
  deliver(request.now, request.from, request.packet, request.delay + fault.delay);
  if (!fault.twice) return;
  ++statistics_.duplicated;
  deliver(request.now, request.from, request.packet, request.delay + fault.delay);
}

/// Whether a node's answer reaches the client.
bool Subnet::way_back(Request& request) {
  const std::uint32_t client = clients_[request.from].port;
  const ConstBytes mad(request.packet.mad);
  const auto reaches = [&](std::uint32_t from, std::uint16_t lid, std::uint32_t to, bool data) {
    const std::uint32_t at = walk_by_lid(state_, from, lid, data);
    return at != nowhere && state_.end_port(at) == state_.end_port(to);
  };
  if (!request.directed) return reaches(request.at, request.packet.slid, client, !is_smp(mad[class_at]));
  if (number_at(mad, dr_dlid_at) != PARLEY_MAD_PERMISSIVE_LID &&
      !reaches(request.at, state_.port(state_.end_port(request.left)).info.get(PortInfo::lid), request.left, false))
    return false;
  if (request.trail.hops > 0 && !state_.carries(state_.port(request.trail.out[request.trail.hops - 1]).peer, false))
    return false;
  count_back(state_, request.trail);
  const std::uint16_t slid = number_at(mad, dr_slid_at);
  return slid == PARLEY_MAD_PERMISSIVE_LID || reaches(request.entered, slid, client, false);
}

void Subnet::forward(Request& request) {
  const Client* const receiver = find_receiver(request.at, request);
  if (receiver == nullptr) {
    ++statistics_.undeliverable;
    bounce(request);
    return;
  }
  ++statistics_.forwarded;
  wire::mad::Datagram& mad = request.packet.mad;
  const Packet asked = request.packet;
  if (!request.response) write_bits(mad, tid_at * 8, 16, request.from);  // by which the answer is routed back
  const std::uint64_t tid = read_bits(mad, tid_at * 8, 64);
  if (request.response)
    open_.erase({request.from, tid});
  else if (expects_bounce(request))
    remember(id_of(*receiver), tid, {request.from, asked});
  if (request.directed) mad[hop_pointer_at] = request.response ? 0 : static_cast<std::uint8_t>(mad[hop_count_at] + 1);
  deliver(request.now, id_of(*receiver), request.packet, request.delay);
}

const Subnet::Client* Subnet::find_receiver(std::uint32_t port, const Request& request) const {
  const std::uint32_t end = state_.end_port(port);
  const ConstBytes mad(request.packet.mad);
  const std::uint8_t mgmt_class = mad[class_at];
  const auto is_here = [&](const Client& client) { return client.attached && state_.end_port(client.port) == end; };
  if (request.response) {
    const std::size_t id = number_at(mad, tid_at);
    return id < clients_.size() && is_here(clients_[id]) ? &clients_[id] : nullptr;
  }
  // A Report goes from subnet administration to a subscriber (IBA §13.4.11).
  const bool to_administration =
      mgmt_class == static_cast<std::uint8_t>(MgmtClass::subn_adm) && !is(request.method, Method::report);
  const bool managers_only = is_smp(mgmt_class) || to_administration;
  const Client* best = nullptr;
  unsigned best_rank = 0;
  for (const Client& client : clients_) {
    if (!is_here(client)) continue;
    const unsigned rank = request.packet.dqp > 1 && client.qp == request.packet.dqp ? 4
                          : client.receives[mgmt_class]                             ? 3
                          : client.is_sm                                            ? 2
                          : managers_only                                           ? 0
                                                                                    : 1;
    if (rank == 0 || rank < best_rank || (best != nullptr && rank == best_rank && client.number < best->number))
      continue;
    best = &client;
    best_rank = rank;
  }
  return best;
}

void Subnet::remember(ClientId receiver, std::uint64_t tid, Open open) {
  if (open_.size() >= open_max) open_.erase(open_.begin());
  open_.insert_or_assign({receiver, tid}, std::move(open));
}

bool Subnet::expects_bounce(const Request& request) const {
  return wants_answer(request.method) && !clients_[request.from].own_timers;
}

/// A client without timers would wait for ever: it gets its request back.
void Subnet::bounce(Request& request) {
  if (!expects_bounce(request)) return;
  request.packet.status = status_undeliverable;
  deliver(request.now, request.from, request.packet, {});
}

void Subnet::deliver(Instant now, ClientId to, const Packet& packet, Duration delay) {
  const bool late = delay > Duration::zero();
  if (late ? delayed_.size() >= delayed_max : outbox_.size() >= outbox_max) {
    ++statistics_.overflows;
  } else if (late) {
    ++statistics_.delayed;
    delayed_.emplace(now + delay, Delivery{to, packet});
  } else {
    outbox_.push_back({to, packet});
  }
}

bool Subnet::poll_transmit(Delivery& out) {
  while (taken_ < outbox_.size()) {
    out = outbox_[taken_++];
    if (is_attached(out.to)) return true;
  }
  outbox_.clear();
  taken_ = 0;
  return false;
}

}  // namespace parley::sim::subnet
