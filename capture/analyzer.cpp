// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "capture/analyzer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/fnv1a.hpp"
#include "base/text.hpp"
#include "capture/link_type.hpp"
#include "capture/read/tunnel.hpp"
#include "capture/report/standing.hpp"
#include "capture/report/text.hpp"

namespace parley::capture {
namespace {

/// Memory of a report, with its strings and private data.
std::size_t octets_of(const ConnectionReport& r) {
  std::size_t n = sizeof r + r.end.capacity() + r.judgement.why.capacity();
  for (const auto* s : {&r.request, &r.reply, &r.rtr_frame})
    if (*s) n += (*s)->private_data.capacity();
  for (const Finding& f : r.findings) n += sizeof f + f.rule.capacity() + f.text.capacity();
  if (r.ib) {
    n += sizeof *r.ib + r.ib->gave_up.capacity();
    if (const auto& reject = r.ib->reject) n += reject->private_data.capacity() + reject->ulp_status.capacity();
  }
  for (const LadderEvent& e : r.events) {
    n += sizeof e + e.text.capacity();
    for (const auto& [name, value] : e.fields) n += sizeof(e.fields[0]) + name.size() + value.size();
  }
  return n;
}

// Reports are large: the order is computed first, then each report moves once.
template <class Reports>
void sort_by_first_frame(Reports& reports) {
  std::vector<std::uint32_t> order(reports.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return reports[a].first_frame < reports[b].first_frame; });
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    if (order[i] == i) continue;
    auto first = std::move(reports[i]);
    std::uint32_t to = i;
    for (std::uint32_t from = order[to]; from != i; from = order[to]) {
      reports[to] = std::move(reports[from]);
      order[to] = to;
      to = from;
    }
    reports[to] = std::move(first);
    order[to] = to;
  }
}

}  // namespace

void Analyzer::note(std::string text) { report_.notes.push_back(std::move(text)); }

void Analyzer::unread(std::string why) {
  report_.unread = why;
  note(std::move(why));
}

EventDetail Analyzer::detail_of(std::uint64_t first_frame) const {
  if (!options_.events || drawn_ >= options_.drawn_max) return EventDetail::none;
  if (!options_.only.empty() && !std::binary_search(options_.only.begin(), options_.only.end(), first_frame))
    return EventDetail::none;
  return options_.fields ? EventDetail::fields : EventDetail::lines;
}

bool Analyzer::seen_before(const wire::CapturedPacket& packet) {
  const std::uint64_t id = *packet.packet_id, digest = fnv1a(packet.octets);
  const auto [it, added] = packet_ids_.try_emplace(id, PacketSeen{digest, packet.interface});
  if (!added) {
    PacketSeen& before = it->second;
    // An interface captures a packet once. Two different packets here with one ID: the ID does not identify packets.
    if (before.interface == packet.interface && before.digest != digest) before.of_many = true;
    if (before.of_many) return false;
    ++report_.copies;
    if (before.digest != digest) ++altered_copies_;
    return true;
  }
  if (packet_id_ring_.size() < packet_ids_max) {
    packet_id_ring_.push_back(id);
    return false;
  }
  packet_ids_.erase(packet_id_ring_[packet_id_next_]);
  packet_id_ring_[packet_id_next_] = id;
  packet_id_next_ = (packet_id_next_ + 1) % packet_ids_max;
  return false;
}

void Analyzer::push(const wire::CapturedPacket& packet) {
  ++report_.packets;
  // The same packet at another interface is not a retransmission, even if it was altered on its way.
  if (packet.packet_id && seen_before(packet)) return;
  if (packet.octets.size() < packet.original_length) ++report_.cut_packets;
  wire::CapturedPacket inner = packet;
  wire::PacketView v = wire::parse_packet(packet.link_type, packet.octets, packet.original_length);
  for (std::size_t n = 0; n < tunnels_max; ++n) {
    const auto carried = open_tunnel(v, inner);
    if (!carried) break;
    inner = *carried;
    v = wire::parse_packet(inner.link_type, inner.octets, inner.original_length);
  }
  switch (v.kind) {
    case wire::PacketKind::tcp:
    case wire::PacketKind::other: return dispatch(v, inner);
    case wire::PacketKind::fragment: ++report_.fragments; return;
    case wire::PacketKind::unsupported:
      ++report_.unsupported_packets;
      report_.unsupported_link_type = packet.link_type;
      return;
    case wire::PacketKind::cut:
    case wire::PacketKind::malformed: return;
  }
}

/// The reader of a kind of packets: TCP streams, a UDP port, an Ethertype. A new protocol needs a reader here, rules in
/// rules/ and a part of the report.
struct Analyzer::FlowReader {
  wire::PacketCargo flow;
  void (Analyzer::*read)(const wire::PacketView& packet, const wire::CapturedPacket& captured);
};

void Analyzer::dispatch(const wire::PacketView& packet, const wire::CapturedPacket& captured) {
  static constexpr FlowReader readers[] = {
      {wire::PacketCargo::tcp, &Analyzer::read_tcp},
      {wire::PacketCargo::rocev2, &Analyzer::read_roce<&OtherPackets::rocev2>},
      {wire::PacketCargo::rocev1, &Analyzer::read_roce<&OtherPackets::rocev1>},
      {wire::PacketCargo::udp, &Analyzer::count<&OtherPackets::udp>},
  };
  for (const FlowReader& reader : readers)
    if (reader.flow == packet.cargo) return (this->*reader.read)(packet, captured);
}

template <std::uint64_t OtherPackets::*Counter>
void Analyzer::count(const wire::PacketView&, const wire::CapturedPacket&) {
  ++(report_.other.*Counter);
}

void Analyzer::read_tcp(const wire::PacketView& packet, const wire::CapturedPacket& captured) {
  ++report_.tcp_packets;
  if (packet.first_fragment) ++report_.fragments;
  tcp(packet.tcp, captured);
}

void Analyzer::tcp(const wire::TcpSegmentView& t, const wire::CapturedPacket& packet) {
  // The two directions of a connection of an end to itself cannot be told apart.
  if (t.source == t.destination) return;
  const bool forward = t.source < t.destination;
  const Key key = forward ? Key{t.source, t.destination} : Key{t.destination, t.source};
  // make_room() removes entries, so it must run before the look-up. It runs rarely if it cannot free anything.
  if (connections_.size() > known_max || (live_ >= live_max && t.syn() && report_.not_followed % 4096 == 0))
    make_room();
  auto [it, added] = connections_.try_emplace(key);
  Known& known = it->second;
  Slot*& c = known.slot;
  const unsigned from = forward ? 0 : 1;
  const bool opening = t.syn() && !t.has_ack();
  if (negotiation(key, known, added || opening, from, t, packet)) return;
  if (c != nullptr && opening && (*c)->is_new_syn(from, t)) {
    retire(c);
    added = true;
  }
  if (c == nullptr && !added && !opening) {
    if (known.may_be_mpa) pick_up(key, known, from, t, packet);
    return;
  }
  if (c == nullptr) {
    known.may_be_mpa = false;
    if (live_ >= live_max) {
      ++report_.not_followed;
      return;
    }
    if (added || opening) ++report_.tcp_connections;
    c = take_slot();
    c->emplace(budget_, EventLimits{detail_of(packet.frame), options_.events_max}, set_ups(), options_.tap);
    (*c)->dropped_before = dropped_before_;
    if ((*c)->with_events()) ++drawn_;
    ++live_;
  }
  MpaConnection& connection = **c;
  const bool was_closed = connection.closed();
  connection.packet(from, t, packet.frame, packet.at);
  if (connection.not_mpa() || (connection.closed() && !connection.is_mpa())) {
    if (connection.with_events()) --drawn_;
    known.may_be_mpa = connection.may_lack_set_up();
    drop(c);
    if (known.may_be_mpa) pick_up(key, known, from, t, packet);
    return;
  }
  if (!was_closed && connection.closed()) closed_now(key, packet.at);
}

void Analyzer::closed_now(const Key& key, Instant now) {
  closed_.push_back(key);
  retire_closed(now);
}

bool Analyzer::is_mpa_port(const Key& key) const {
  return std::any_of(options_.mpa_ports.begin(), options_.mpa_ports.end(),
                     [&](std::uint16_t port) { return key.a.port == port || key.b.port == port; });
}

// Checks whether a segment of a connection that is not followed belongs to MPA without a captured set-up.
void Analyzer::pick_up(const Key& key, Known& known, unsigned from, const wire::TcpSegmentView& t,
                       const wire::CapturedPacket& packet) {
  PickUps::PickUp found = pick_ups_.segment(key, from, t, packet.frame, packet.at);
  if (found.segments.empty()) {
    if (options_.mpa_ports.empty() || !is_mpa_port(key) || !plausible_fpdu(t.payload)) return;
    found.segments.push_back({t, {}, packet.frame, packet.at});
    found.fpdu.crc = false;
  }
  if (live_ >= live_max) {
    ++report_.not_followed;
    return;
  }
  known.slot = take_slot();
  MpaConnection& connection = known.slot->emplace(
      budget_, EventLimits{detail_of(found.segments.front().frame), options_.events_max}, set_ups(), options_.tap);
  connection.dropped_before = dropped_before_;
  if (connection.with_events()) ++drawn_;
  ++live_;
  connection.pick_up(from, found.fpdu);
  for (const PickUps::KeptSegment& k : found.segments) connection.packet(from, k.segment, k.frame, k.at);
  if (connection.not_mpa()) {
    if (connection.with_events()) --drawn_;
    drop(known.slot);
  } else if (connection.closed()) {
    closed_now(key, packet.at);
  }
}

Analyzer::Slot* Analyzer::take_slot() {
  if (free_.empty()) return &slots_.emplace_back();
  Slot* slot = free_.back();
  free_.pop_back();
  return slot;
}

void Analyzer::drop(Slot*& c) {
  c->reset();
  free_.push_back(c);
  c = nullptr;
  --live_;
}

void Analyzer::retire(Slot*& c) {
  (*c)->stop_waiting();
  if ((*c)->is_mpa()) {
    const std::uint64_t dropped = (*c)->whole() ? 0 : report_.dropped - (*c)->dropped_before;
    ConnectionReport r = (*c)->finish();
    r.dropped = dropped;
    list(std::move(r));
  }
  drop(c);
}

// One TCP connection may hold many rejected set-ups. Each counts as a connection in the bounds of the report.
EventLimits Analyzer::set_up_rejected(MpaConnection& connection, ConnectionReport&& report, bool whole,
                                      std::uint64_t next) {
  report.dropped = whole ? 0 : report_.dropped - connection.dropped_before;
  connection.dropped_before = dropped_before_;
  list(std::move(report));
  const EventLimits events{detail_of(next), options_.events_max};
  if (events.detail != EventDetail::none) ++drawn_;
  return events;
}

// A closed connection is kept for a while, because packets may arrive late or be captured out of order. It is kept
// longer if it lacks octets. Its verdict takes much less memory than its state.
void Analyzer::retire_closed(Instant now) {
  while (closed_.size() > closed_few) {
    const auto it = connections_.find(closed_.front());
    const bool there = it != connections_.end() && it->second.followed() && it->second.closed();
    if (there && closed_.size() <= closed_max && !it->second.settled() && now - it->second.last_at() < closed_quiet)
      return;
    closed_.pop_front();
    if (!there) continue;
    it->second.may_be_mpa = it->second.may_be_negotiation = false;  // late packets are not another connection
    retire(it->second);
  }
}

// Connections are listed until 3/4 of the memory is used. The rest is for those with errors or warnings.
void Analyzer::list(ConnectionReport&& r) {
  options_.policy.apply(r.findings, report_.ignored);
  r.judgement = judge(r, options_.fail_on);
  if (options_.on_connection) {
    report_.taken.add(r);
    options_.on_connection(std::move(r));
    return;
  }
  const std::size_t octets = octets_of(r);
  const std::size_t errors = r.count(Severity::error), warnings = r.count(Severity::warning);
  const std::size_t all = options_.events ? ladder_octets_max : options_.report_octets_max;
  const std::size_t room = errors + warnings > 0 ? all : all / 4 * 3;
  if (report_.connections.size() < reports_max && reports_octets_ + octets <= room) {
    reports_octets_ += octets;
    report_.connections.push_back(std::move(r));
    return;
  }
  report_.unlisted.add(r);
}

void Analyzer::make_room() {
  // Retires closed connections and forgets those that are not followed. A forgotten one may be examined a second time.
  for (auto it = connections_.begin(); it != connections_.end();) {
    Known& known = it->second;
    if (known.followed() && known.closed()) retire(known);
    if (!known.followed()) forget_negotiation(known);
    it = known.followed() ? std::next(it) : connections_.erase(it);
  }
}

void Analyzer::sort_reports() {
  sort_by_first_frame(report_.connections);
  sort_by_first_frame(report_.negotiations);
}

void Analyzer::report_unlisted() {
  if (const NegotiationTally& n = report_.unlisted_negotiations; n.negotiations > 0)
    note(fmt::format("{} more QP negotiations were judged but are not listed: {} errors, {} warnings", n.negotiations,
                     n.findings[static_cast<std::size_t>(Severity::error)],
                     n.findings[static_cast<std::size_t>(Severity::warning)]));
  const ConnectionTally& u = report_.unlisted;
  if (u.connections == 0) return;
  std::string outcomes;
  for (std::size_t i = 0; i < u.outcomes.size(); ++i)
    if (u.outcomes[i] > 0)
      outcomes +=
          fmt::format("{}{} {}", outcomes.empty() ? "" : ", ", u.outcomes[i], to_string(static_cast<Outcome>(i)));
  note(fmt::format(
      "{} more {}connections were judged but are not listed: one report holds {} at most, in {} KiB; "
      "{}; {} FPDUs, {} errors, {} warnings, {} notes",
      u.connections,
      u.ib == 0               ? "MPA "
      : u.ib == u.connections ? "RoCE "
                              : "",
      reports_max, options_.report_octets_max >> 10, outcomes, u.fpdus,
      u.findings[static_cast<std::size_t>(Severity::error)], u.findings[static_cast<std::size_t>(Severity::warning)],
      u.findings[static_cast<std::size_t>(Severity::note)]));
}

FileReport Analyzer::finish() {
  // In file order, because the report may not have room for all.
  std::vector<Known*> left;
  for (auto& [key, known] : connections_) {
    if (known.negotiation) {  // octets that are held back may show whether it is a negotiation
      known.negotiation->stop_waiting();
      negotiation_found(key, known, true, {});
    }
    if (known.followed()) left.push_back(&known);
  }
  std::sort(left.begin(), left.end(),
            [](const Known* a, const Known* b) { return a->first_frame() < b->first_frame(); });
  for (Known* each : left) retire(*each);
  connections_.clear();
  closed_.clear();
  finish_roce();
  sort_reports();
  if (report_.copies > 0)
    note(
        fmt::format("{} of {} packets show one again that was captured elsewhere (the same epb_packetid): each is "
                    "judged once, as it was captured first",
                    report_.copies, report_.packets));
  if (altered_copies_ > 0)
    note(
        fmt::format("{} of those {} other octets than before: altered on the way, so that what answers them may look "
                    "like a fault here",
                    altered_copies_, altered_copies_ == 1 ? "holds" : "hold"));
  if (report_.fragments > 0)
    note(fmt::format("{} of TCP; fragments are not joined, their octets count as missing",
                     counted(report_.fragments, "IP fragment")));
  if (report_.cut_packets > 0)
    note(fmt::format("{} cut by the snap length; what is lacking is not judged",
                     counted(report_.cut_packets, "packet")));
  if (report_.unsupported_packets > 0)
    note(fmt::format("{} of link type {}, which is not decoded", counted(report_.unsupported_packets, "packet"),
                     link_type_text(report_.unsupported_link_type)));
  if (report_.not_followed > 0)
    note(fmt::format("{} to connections beyond the {} that can be followed at one time",
                     counted(report_.not_followed, "packet") + (report_.not_followed == 1 ? " belongs" : " belong"),
                     live_max));
  report_unlisted();
  report_.judgement = judge(report_, options_.expect);
  return std::move(report_);
}

}  // namespace parley::capture
