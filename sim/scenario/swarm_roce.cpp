// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The RoCE part of a drawn scenario: which hosts use it, the settings of their HCAs, and switches that mark congestion.
// All of it is drawn from a separate generator.
#include <algorithm>
#include <utility>

#include "nic/roce/mtu.hpp"
#include "sim/scenario/scenario_schema.hpp"
#include "sim/scenario/swarm.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t depth_max = 128;       // RoCE: for Reads
constexpr std::uint32_t engines_drawn_in = 4;  // one of this many drawn scenarios
// An attempt whose REQ is answered only by MRAs, or whose REP is always lost: a run has time for one more.
constexpr std::uint32_t tries_of_half_a_minute = 1;

constexpr std::uint32_t queue_most = 1 << 20;

/// A rule that can only hit TCP or its payload.
bool is_of_streams(const ScenarioFault& fault) {
  const FaultRule& rule = fault.rule;
  const bool numbered = rule.match.connection != 0 && !in_a_packet(rule.match.message);
  return of_a_connection(rule.match.message) || numbered || rule.action == FaultAction::corrupt_mpa ||
         rule.action == FaultAction::cut_stream || rule.action == FaultAction::reset;
}

/// Hosts that connections join, directly or through other hosts.
std::vector<std::set<std::string>> groups_of(const Scenario& scenario) {
  std::vector<std::set<std::string>> out;
  for (const ScenarioConnect& connect : scenario.connects) {
    std::set<std::string> group{connect.from, connect.to};
    std::erase_if(out, [&](std::set<std::string>& other) {
      const bool joins = other.contains(connect.from) || other.contains(connect.to);
      if (joins) group.merge(other);
      return joins;
    });
    out.push_back(std::move(group));
  }
  return out;
}

void make_roce(ScenarioHost& host) {
  host.options.engine = NicEngine::roce;
  for (NicOptions& nic : host.options.nics)
    if (nic.engine == NicEngine::iwarp) nic.engine = NicEngine::roce;
}

}  // namespace

/// The file has no MPA-only settings.
bool Swarm::may_be_roce(const std::set<std::string>& group) const {
  const auto has_quirk = [](const mpa::StartupOptions& o) { return !o.play_quirk.empty() || !o.peer_quirk.empty(); };
  bool rejects = true;
  for (const ScenarioListen& listen : s_.listens) {
    if (!group.contains(listen.host)) continue;
    if (has_quirk(listen.mpa)) return false;
    rejects = rejects && listen.reject_every != 0;
  }
  for (const ScenarioConnect& connect : s_.connects) {
    if (!group.contains(connect.from)) continue;
    if (has_quirk(connect.mpa) || (connect.expect == Expect::rejected && !rejects)) return false;
  }
  return std::none_of(s_.hosts.begin(), s_.hosts.end(), [&](const ScenarioHost& host) {
    return group.contains(host.name) && engine_of(host) != NicEngine::iwarp;
  });
}

/// Some of the hosts use RoCE instead of iWARP: of hosts joined by connections, all or none.
void Swarm::draw_engines() {
  const bool drawn = roce_rng_.chance({1, engines_drawn_in}) && s_.bounds.fence &&
                     std::none_of(s_.faults.begin(), s_.faults.end(), is_of_streams);
  if (drawn)
    for (const std::set<std::string>& group : groups_of(s_)) {
      if (!may_be_roce(group) || roce_rng_.chance({1, 4})) continue;
      for (ScenarioHost& host : s_.hosts)
        if (group.contains(host.name)) make_roce(host);
    }
  const auto has = [this](NicEngine engine) {
    return std::any_of(s_.hosts.begin(), s_.hosts.end(),
                       [engine](const ScenarioHost& h) { return !h.is_switch && engine_of(h) == engine; });
  };
  roce_ = has(NicEngine::roce);
  iwarp_ = !roce_ || has(NicEngine::iwarp);
}

/// An HCA sends all posted work at once, and retransmits everything after a loss: if it overflows a queue, little
/// arrives. A mild draw has room for some packets of each connection.
void Swarm::widen_queues() {
  if (!roce_) return;
  const auto is_iwarp = [this](const std::string& name) {
    return std::any_of(s_.hosts.begin(), s_.hosts.end(), [&](const ScenarioHost& h) {
      return h.name == name && !h.is_switch && engine_of(h) != NicEngine::roce;
    });
  };
  std::uint32_t connections = 0;
  for (const ScenarioConnect& connect : s_.connects) connections += connect.count;
  const std::uint32_t packets = 16 * (mild_ ? std::clamp(connections, 1U, 40U) : 1);
  for (ScenarioLink& link : s_.links)
    if (!is_iwarp(link.ends[0]) && !is_iwarp(link.ends[1]))
      link.options.queue_octets =
          std::max(link.options.queue_octets, std::min(queue_most, packets * (link.options.mtu + 14U)));
}

/// Adapts the draw for hosts with RoCE: no MPA, shorter private data, packets that every link accepts.
void Swarm::settle_roce() {
  constexpr std::uint32_t headers = 96;  // in addition to a packet's payload
  constexpr std::size_t request_room = 56, answer_room = 136;
  const auto depths_of = [](const mpa::StartupOptions& drawn) {
    mpa::StartupOptions out;
    out.ird = std::min(drawn.ird, depth_max);
    out.ord = std::min(drawn.ord, depth_max);
    return out;
  };
  Mtu mtu = Mtu::octets_256;
  while (mtu < Mtu::octets_4096 && 2 * nic::roce::octets_of(mtu) + headers <= smallest_mtu_)
    mtu = static_cast<Mtu>(static_cast<int>(mtu) + 1);
  for (ScenarioHost& host : s_.hosts)
    if (!host.is_switch && engine_of(host) == NicEngine::roce) host.options.hca.mtu = mtu;
  widen_queues();
  for (ScenarioListen& listen : s_.listens) {
    if (!has_roce(s_, listen.host)) continue;
    listen.mpa = depths_of(listen.mpa);
    listen.mpa_line = 0;
    listen.private_data.resize(std::min(listen.private_data.size(), answer_room));
  }
  for (ScenarioConnect& connect : s_.connects) {
    if (!has_roce(s_, connect.from)) continue;
    connect.mpa = depths_of(connect.mpa);
    connect.mpa_line = 0;
    connect.private_data.resize(std::min(connect.private_data.size(), request_room));
  }
}

// Requesters wait long enough for a partition of half a second, or for the longest queue.
void Swarm::draw_hca(cm::RoceProviderOptions& hca) {
  const auto one_in = [this](std::uint32_t n) { return roce_rng_.chance({1, n}); };
  if (one_in(3)) hca.ack_timeout = static_cast<std::uint8_t>(roce_rng_.between(16, 18));
  if (one_in(3)) hca.resend_first = std::chrono::milliseconds(10 * roce_rng_.between(1, 20));
  if (one_in(3)) hca.resend_cap = std::max<Duration>(hca.resend_first, 200ms * roce_rng_.between(1, 20));
  if (one_in(3)) hca.traffic_class = 106;
  if (!mild_ && one_in(4)) hca.linger = 1s * roce_rng_.between(3, 10);
}

void Swarm::draw_roce() {
  if (!roce_) return;
  // The same for all: an HCA rejects a peer that requests more than its own limit.
  const Mtu mtu_max = roce_rng_.chance({1, 4}) ? static_cast<Mtu>(roce_rng_.between(1, 5)) : Mtu::octets_4096;
  for (ScenarioHost& host : s_.hosts) {
    if (!host.is_switch && engine_of(host) == NicEngine::roce) {
      draw_hca(host.options.hca);
      host.options.hca.mtu = std::min(host.options.hca.mtu, mtu_max);
    }
    if (host.is_switch && roce_rng_.chance({1, 2}))
      host.switching.ecn_threshold = 1024U * static_cast<std::uint32_t>(roce_rng_.between(1, 256));
  }
}

/// A datagram is one packet, and every HCA must accept it.
std::uint32_t Swarm::datagram_max() const {
  std::uint32_t most = 4096;
  for (const ScenarioHost& host : s_.hosts)
    if (!host.is_switch && engine_of(host) == NicEngine::roce)
      most = std::min(most, nic::roce::octets_of(host.options.hca.mtu));
  return most;
}

void Swarm::fit_datagrams() {
  const std::uint32_t most = datagram_max();
  for (ScenarioConnect& connect : s_.connects)
    if (connect.qp == QpKind::ud) connect.octets = std::min(connect.octets, most);
}

/// Draws number, length and rate of datagrams; joins and leaves stay as they are. The number of received datagrams
/// depends on all that and on the faults, so the file's numbers no longer apply.
void Swarm::draw_groups() {
  const std::uint32_t most = datagram_max();
  for (ScenarioMember& member : s_.members) member.expect.reset();
  for (ScenarioSend& send : s_.sends) {
    send.messages = static_cast<std::uint32_t>(roce_rng_.below(41));
    send.octets = static_cast<std::uint32_t>(roce_rng_.between(ScenarioSend::octets_min, most));
    if (roce_rng_.chance({1, 2})) send.interval = std::chrono::microseconds(roce_rng_.below(2000));
    if (mild_ || roce_rng_.chance({1, 2})) continue;
    send.at = Instant(std::chrono::microseconds(roce_rng_.below(100'000)));
  }
}

/// An XRC service sends nothing itself, messages are identified by their first octets, and the initiator disconnects.
void Swarm::fit_xrc() {
  for (ScenarioListen& listen : s_.listens) {
    if (listen.qp != QpKind::xrc) continue;
    listen.private_data.clear();
    listen.accept_after = {};
  }
  for (ScenarioConnect& connect : s_.connects) {
    if (connect.qp != QpKind::xrc) continue;
    connect.octets = std::clamp(connect.octets, ScenarioConnect::xrc_octets_min, ScenarioConnect::xrc_octets_max);
    connect.closer = ClosingSide::initiator;
  }
}

/// A kind of message that its receiver discards if one bit is wrong.
MessageKind Swarm::some_checked_kind() {
  if (!roce_) return MessageKind::tcp_data;
  return iwarp_ && roce_rng_.chance({1, 2}) ? MessageKind::tcp_data : MessageKind::roce_packet;
}

/// Damage that reaches the transport or the connection manager.
void Swarm::draw_packet_damage(FaultRule& rule, const KindRow& kind) {
  std::vector<MessageField> fields;
  for (auto f = MessageField::key; f <= MessageField::status; f = static_cast<MessageField>(static_cast<int>(f) + 1))
    if (kind.packet_fields.has(f)) fields.push_back(f);
  rule.action = FaultAction::corrupt_roce;
  rule.field = fields[rng_.below(fields.size())];
}

/// Counts and private data were drawn without regard to the listeners' limits.
void Swarm::make_room() {
  constexpr std::size_t room_beside_offer = 48;
  for (ScenarioListen& listen : s_.listens)
    if (has_roce(s_, listen.host)) make_room(listen);
  for (const ScenarioHost& host : s_.hosts) {
    if (!host.options.hca.offer_retry_after) continue;
    for (ScenarioConnect& connect : s_.connects)
      if (connect.from == host.name && connect.private_data.size() > room_beside_offer)
        connect.private_data.resize(room_beside_offer);
  }
  limit_tries();
}

/// If more connections arrive than there is room for, half-open ones are evicted, and others are refused more often
/// than they retry. A mild draw therefore has room for all, or connections for which any end is accepted, as in wild
/// ones.
void Swarm::make_room(ScenarioListen& listen) {
  std::uint64_t come = 0;
  std::vector<ScenarioConnect*> clients;
  for (ScenarioConnect& connect : s_.connects) {
    if (connect.to != listen.host || connect.port != listen.port) continue;
    clients.push_back(&connect);
    come += std::uint64_t{connect.count} * (1 + connect.retries);
  }
  if (come <= listen.pending_max) return;
  if (mild_ && roce_rng_.chance({1, 2})) {
    listen.pending_max = std::max(listen.pending_max, ScenarioListen{}.pending_max);
    return;
  }
  for (ScenarioConnect* client : clients) {
    client->expect = Expect::settled;
    client->retries = std::min(client->retries, tries_of_half_a_minute);
  }
}

/// If a fault of the file hits every message for ever, no attempt can succeed.
void Swarm::limit_tries() {
  const bool endless = std::any_of(s_.faults.begin(), s_.faults.end(), [](const ScenarioFault& fault) {
    return fault.rule.match.times == 0 && fault.rule.until == never && !fault.rule.mask;
  });
  if (!endless) return;
  for (ScenarioConnect& connect : s_.connects)
    if (has_roce(s_, connect.from) && connect.expect == Expect::settled)
      connect.retries = std::min(connect.retries, tries_of_half_a_minute);
}

}  // namespace parley::sim
