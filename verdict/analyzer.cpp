// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "verdict/analyzer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes_io.hpp"
#include "base/fnv1a.hpp"

namespace parley::verdict {
namespace {

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15ULL;
  return h ^ (h >> 29);
}

std::uint64_t hash_of(std::uint64_t h, const Address& a) {
  Reader r(a.octets);
  const std::uint64_t high = r.be64(), low = r.be64();
  return mix(mix(mix(h, high), low), a.port);
}

}  // namespace

std::size_t Analyzer::KeyHash::operator()(const Key& k) const { return hash_of(hash_of(0x70A71EF, k.a), k.b); }

void Analyzer::note(std::string text) { report_.notes.push_back(std::move(text)); }

bool Analyzer::seen_before(const wire::CapturedPacket& packet) {
  const std::uint64_t id = *packet.packet_id, digest = fnv1a(packet.octets);
  const auto [it, added] = packet_ids_.try_emplace(id, digest);
  if (!added) {
    ++copies_;
    if (it->second != digest) ++altered_copies_;
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
  // The same packet at another interface is no retransmission, whatever happened to it on its way.
  if (packet.packet_id && seen_before(packet)) return;
  if (packet.octets.size() < packet.original_length) ++report_.cut_packets;
  const wire::PacketView v = wire::parse_packet(packet.link_type, packet.octets, packet.original_length);
  switch (v.kind) {
    case wire::PacketKind::tcp:
      ++report_.tcp_packets;
      if (v.first_fragment) ++report_.fragments;
      return tcp(v.tcp, packet);
    case wire::PacketKind::fragment: ++report_.fragments; return;
    case wire::PacketKind::unsupported:
      ++report_.unsupported_packets;
      report_.unsupported_link_type = packet.link_type;
      return;
    case wire::PacketKind::other:
    case wire::PacketKind::cut:
    case wire::PacketKind::malformed: return;
  }
}

void Analyzer::tcp(const wire::TcpSegmentView& t, const wire::CapturedPacket& packet) {
  // A connection of an end with itself has no two directions to tell apart.
  if (t.source == t.destination) return;
  const bool forward = t.source < t.destination;
  const Key key = forward ? Key{t.source, t.destination} : Key{t.destination, t.source};
  // Before the look-up, since it removes entries; seldom while it has nothing to remove.
  if (connections_.size() > known_max || (live_ >= live_max && t.syn() && not_followed_ % 4096 == 0)) make_room();
  auto [it, added] = connections_.try_emplace(key);
  std::unique_ptr<Connection>& c = it->second;
  const unsigned from = forward ? 0 : 1;
  const bool opening = t.syn() && !t.has_ack();
  if (c && opening && c->is_new_syn(from, t)) {
    retire(c);
    added = true;
  }
  if (!c && !added && !opening) return;  // known to be of no interest
  if (!c) {
    if (live_ >= live_max) {
      ++not_followed_;
      return;
    }
    if (added || opening) ++report_.tcp_connections;
    c = std::make_unique<Connection>(budget_, options_.events, options_.tap);
    ++live_;
  }
  c->packet(from, t, packet.frame, packet.at);
  if (c->not_mpa() || (c->closed() && !c->is_mpa())) {
    c.reset();
    --live_;
  }
}

void Analyzer::retire(std::unique_ptr<Connection>& c) {
  if (c->is_mpa()) {
    if (report_.connections.size() < reports_max)
      report_.connections.push_back(c->finish(false));
    else
      ++not_reported_;
  }
  c.reset();
  --live_;
}

void Analyzer::make_room() {
  // Finished connections make place; those of no interest are forgotten, which costs at most a second look at one.
  for (auto it = connections_.begin(); it != connections_.end();) {
    if (it->second && it->second->closed()) retire(it->second);
    it = it->second ? std::next(it) : connections_.erase(it);
  }
}

FileReport Analyzer::finish() {
  for (auto& [key, c] : connections_)
    if (c) retire(c);
  connections_.clear();
  std::sort(report_.connections.begin(), report_.connections.end(),
            [](const ConnectionReport& a, const ConnectionReport& b) { return a.first_frame < b.first_frame; });
  if (copies_ > 0)
    note(
        fmt::format("{} of {} packets show one again that was captured elsewhere (the same epb_packetid): each is "
                    "judged once, as it was captured first",
                    copies_, report_.packets));
  if (altered_copies_ > 0)
    note(
        fmt::format("{} of those hold other octets than before: altered on the way, so that what answers them may look "
                    "like a fault here",
                    altered_copies_));
  if (report_.fragments > 0)
    note(fmt::format("{} IP fragments carry TCP; fragments are not joined, their octets count as missing",
                     report_.fragments));
  if (report_.cut_packets > 0)
    note(fmt::format("{} packets are cut by the snap length; what they lack is not judged", report_.cut_packets));
  if (report_.unsupported_packets > 0)
    note(fmt::format("{} packets have link type {}, which is not decoded", report_.unsupported_packets,
                     report_.unsupported_link_type));
  if (not_followed_ > 0)
    note(fmt::format("{} packets belong to connections beyond the {} that can be followed at one time", not_followed_,
                     live_max));
  if (not_reported_ > 0)
    note(fmt::format("{} MPA connections beyond the first {} are not listed", not_reported_, reports_max));
  return std::move(report_);
}

}  // namespace parley::verdict
