// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The faults of a drawn scenario. All of them heal or can be survived (a slower link): random losses end after a time
// window, losses of named messages after a few hits, and a crashed host restarts.
#include <algorithm>
#include <utility>

#include "sim/fault/fault_text.hpp"
#include "sim/scenario/scenario_schema.hpp"
#include "sim/scenario/swarm.hpp"

namespace parley::sim {
namespace {

using namespace std::chrono_literals;

constexpr Duration mild_end = 500ms, wild_end = 4s;

}  // namespace

void Swarm::draw_window(FaultRule& rule) {
  const Duration end = mild_ ? mild_end : wild_end;
  rule.from = Instant(one_in(2) ? Duration{} : time(1us, end / 2));
  rule.until = rule.from + time(10us, end / 2);
}

ScenarioFault Swarm::on_a_link() {
  ScenarioFault fault;
  const ScenarioLink& link = s_.links[rng_.below(s_.links.size())];
  fault.link = link.name.empty() ? default_link_name(link) : link.name;
  fault.way = static_cast<LinkDirection>(rng_.below(3));
  if (fault.way != LinkDirection::both) fault.toward = link.ends[fault.way == LinkDirection::forward ? 1 : 0];
  return fault;
}

const std::string& Swarm::some_host() {
  std::vector<std::size_t> hosts;
  for (std::size_t i = 0; i < s_.hosts.size(); ++i)
    if (!s_.hosts[i].is_switch) hosts.push_back(i);
  return s_.hosts[hosts[rng_.below(hosts.size())]].name;
}

/// A kind of a layer with this role or a higher one.
MessageKind Swarm::some_kind(LayerRole from) {
  const auto spoken = [this](const LayerTable& layer) {
    if (layer.role == LayerRole::neighbours) return s_.neighbours != Neighbours::known;
    return layer.carrier == Carrier::udp ? roce_ : iwarp_;
  };
  const auto some = [this](QpKind qp) {
    return std::any_of(s_.connects.begin(), s_.connects.end(), [qp](const ScenarioConnect& c) { return c.qp == qp; });
  };
  const bool datagrams = some(QpKind::ud) || !s_.sends.empty(), questions = some(QpKind::ud) || some(QpKind::xrc);
  const auto of_datagrams = [=](MessageKind m) {
    return (datagrams && m == MessageKind::roce_datagram) ||
           (questions && (m == MessageKind::cm_sidr_req || m == MessageKind::cm_sidr_rep));
  };
  std::vector<MessageKind> kinds;
  for (const LayerTable* layer : layers())
    for (const KindRow& kind : layer->kinds)
      if (layer->role >= from && spoken(*layer) && (kind.drawn || of_datagrams(kind.kind))) kinds.push_back(kind.kind);
  return kinds[rng_.below(kinds.size())];
}

void Swarm::draw_faults() {
  const bool hosts = std::any_of(s_.hosts.begin(), s_.hosts.end(), [](const ScenarioHost& h) { return !h.is_switch; });
  if (s_.links.empty() || !hosts) return;
  const std::uint64_t count = rng_.below(5);
  for (std::uint64_t i = 0; i < count; ++i) {
    switch (rng_.below(mild_ ? 9 : 12)) {
      case 0:
      case 1:
      case 2: draw_frame_fault(); break;
      case 3: draw_mask(); break;
      case 4: draw_partition(); break;
      case 5: draw_pause(); break;
      case 6: draw_rate(); break;
      case 7:
      case 8: draw_message_fault(); break;
      default: one_in(2) ? draw_crash() : draw_message_fault(); break;
    }
  }
}

void Swarm::draw_frame_fault() {
  ScenarioFault fault = on_a_link();
  FaultRule& rule = fault.rule;
  draw_window(rule);
  const auto percent = static_cast<std::uint32_t>(around(1, 40));
  rule.chance = *parse_ratio(std::to_string(percent) + "%");
  switch (rng_.below(5)) {
    case 0: rule.action = FaultAction::drop; break;
    case 1:
      rule.action = FaultAction::duplicate;
      rule.count = static_cast<std::uint32_t>(rng_.between(1, 3));
      break;
    case 2:
      rule.action = FaultAction::corrupt;
      rule.count = static_cast<std::uint32_t>(rng_.between(1, 4));
      if (!mild_) break;
      // A single bit error never passes the checksums of TCP and UDP, and ARP has no checksum.
      rule.count = 1;
      rule.match.message = some_checked_kind();
      break;
    default:
      rule.action = FaultAction::delay;
      rule.delay = time(1us, mild_ ? 50ms : 2s);
      rule.jitter = one_in(2) ? time(1us, mild_ ? 50ms : 2s) : Duration{};
      rule.reorder = one_in(2);
      break;
  }
  s_.faults.push_back(std::move(fault));
}

void Swarm::draw_mask() {
  ScenarioFault fault = on_a_link();
  draw_window(fault.rule);
  std::uint64_t mask = rng_.next();
  mask &= rng_.next();
  if (one_in(2)) mask &= rng_.next();
  if (one_in(2)) mask &= 0xFFFF;  // set-up only
  fault.rule.mask = mask;
  s_.faults.push_back(std::move(fault));
}

void Swarm::draw_partition() {
  ScenarioFault fault = on_a_link();
  draw_window(fault.rule);
  s_.faults.push_back(std::move(fault));
}

void Swarm::draw_pause() {
  ScenarioFault fault;
  fault.host = some_host();
  fault.rule.action = FaultAction::pause;
  fault.rule.from = Instant(time(1us, mild_ ? mild_end / 2 : 2s));
  ScenarioFault heal = fault;
  heal.rule.action = FaultAction::resume;
  heal.rule.from += time(1us, mild_ ? mild_end / 2 : 2s);
  s_.faults.push_back(std::move(fault));
  s_.faults.push_back(std::move(heal));
}

void Swarm::draw_crash() {
  ScenarioFault fault;
  fault.host = some_host();
  fault.rule.action = FaultAction::crash;
  const Duration down = time(1us, 3s);
  if (one_in(2)) {
    fault.rule.from = Instant(time(1us, 1s));
  } else {  // at a certain step of a connection
    const std::string host = fault.host;
    fault = on_a_link();
    fault.host = host;
    fault.rule.action = FaultAction::crash;
    fault.rule.match.message = some_kind(LayerRole::transport);
    fault.rule.match.nth = static_cast<std::uint32_t>(rng_.between(1, 4));
    fault.rule.match.times = 1;
    fault.rule.delay = one_in(2) ? Duration{} : time(1us, 10ms);
  }
  ScenarioFault heal = fault;
  heal.rule.action = FaultAction::restart;
  if (heal.link.empty())
    heal.rule.from += down;
  else
    heal.rule.delay += down;
  s_.faults.push_back(std::move(fault));
  s_.faults.push_back(std::move(heal));
}

void Swarm::draw_rate() {
  ScenarioFault fault = on_a_link();
  fault.rule.action = FaultAction::set_rate;
  fault.rule.from = Instant(time(1us, 500ms));
  fault.rule.rate_bps = 10'000'000 * pick({1, 10, 100, 1000, 10'000});
  s_.faults.push_back(std::move(fault));
}

/// A fault on a message selected by kind.
void Swarm::draw_message_fault() {
  if (mild_ && hits_left_ == 0) return;
  ScenarioFault fault = on_a_link();
  FaultRule& rule = fault.rule;
  // Losing neighbour discovery twice makes a host unreachable, which is not mild.
  rule.match.message = some_kind(mild_ ? LayerRole::transport : LayerRole::neighbours);
  if (row_of(rule.match.message).numbered) rule.match.fpdu = static_cast<std::uint32_t>(rng_.below(4));
  rule.match.nth = static_cast<std::uint32_t>(rng_.between(1, 3));
  rule.match.times = mild_ ? 1 : static_cast<std::uint32_t>(rng_.between(1, 3));
  switch (rng_.below(mild_ ? 4 : 5)) {
    case 0: rule.action = FaultAction::drop; break;
    case 1: rule.action = FaultAction::duplicate; break;
    case 2:
      rule.action = FaultAction::delay;
      rule.delay = time(1us, mild_ ? 50ms : 4s);
      rule.reorder = one_in(2);
      break;
    case 3: rule.action = FaultAction::corrupt; break;
    default: draw_damage(rule); break;
  }
  if (mild_) --hits_left_;
  s_.faults.push_back(std::move(fault));
}

/// Damage that reaches MPA or RoCE.
void Swarm::draw_damage(FaultRule& rule) {
  rule.match.message = some_kind(iwarp_ ? LayerRole::messages : LayerRole::transport);
  const KindRow& kind = row_of(rule.match.message);
  if (!kind.numbered) rule.match.fpdu = 0;
  if (in_a_packet(rule.match.message)) return draw_packet_damage(rule, kind);
  const bool startup = kind.fields == startup_fields;
  switch (rng_.below(4)) {
    case 0:
      rule.action = FaultAction::corrupt_mpa;
      rule.field =
          startup ? static_cast<MessageField>(rng_.between(0, static_cast<std::uint64_t>(MessageField::private_data)))
                  : static_cast<MessageField>(rng_.between(static_cast<std::uint64_t>(MessageField::length),
                                                           static_cast<std::uint64_t>(MessageField::crc)));
      break;
    case 1:
      rule.action = FaultAction::cut_stream;
      rule.octets = static_cast<std::uint32_t>(rng_.below(40));
      break;
    case 2:
      rule.action = FaultAction::truncate;
      rule.octets = static_cast<std::uint32_t>(rng_.between(14, 100));
      break;
    default: rule.action = FaultAction::reset; break;
  }
}

}  // namespace parley::sim
