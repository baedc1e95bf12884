// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// RoceConnections: data packets, and the table of connections. roce_connections_cm.cpp has the CM messages.
#include "capture/rules/roce/roce_connections.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/gid_hash.hpp"
#include "base/text.hpp"

namespace parley::capture {

using wire::ib::Service;
using Kind = RoceKey::Kind;

namespace {

RoceKey queue_pair(const Gid& owner, const Gid& peer, std::uint32_t qpn) {
  return {Kind::queue_pair, owner, peer, qpn};
}

RoceKey pair_of(const Gid& a, const Gid& b) { return {Kind::queue_pair, std::min(a, b), std::max(a, b), 0}; }

bool is_response(const RocePacket& p) { return wire::ib::rule_of(p.packet.bth.opcode).response; }

}  // namespace

std::size_t RoceConnections::KeyHash::operator()(const RoceKey& key) const {
  const std::uint64_t number = key.number << 2 | static_cast<std::uint64_t>(key.kind);
  return static_cast<std::size_t>(mix_gid(mix_gid(number, key.a), key.b));
}

RoceConnections::ConnectionSide RoceConnections::at(const RoceKey& key) const {
  const auto it = places_.find(key);
  return it == places_.end() ? ConnectionSide{} : it->second;
}

void RoceConnections::put(const RoceKey& key, RoceConnection& c, Side side) {
  const auto [it, added] = places_.try_emplace(key, ConnectionSide{&c, side});
  if (!added) {
    if (it->second.connection == &c) return;
    RoceConnection* const before = it->second.connection;
    it->second = {&c, side};
    // Without CM messages, only this shows that the earlier use of the queue pair has ended.
    if (key.kind == Kind::queue_pair && !before->has_cm()) retire(before);
  }
  c.keys.push_back(key);
}

void RoceConnections::forget(const RoceKey& key) { places_.erase(key); }

void RoceConnections::learn(RoceConnection& c) {
  for (const Side side : {Side::initiator, Side::responder}) {
    const Gid &mine = c.gid(side), &theirs = c.gid(other(side));
    if (const auto& id = c.exchange().id(side); id && c.has_cm())
      put({c.sidr() ? Kind::sidr : Kind::comm_id, mine, theirs, *id}, c, side);
    if (const auto& qpn = c.qpn(side); qpn && (*qpn > PARLEY_IB_GSI_QPN || !c.has_cm()))
      put(queue_pair(mine, theirs, *qpn), c, side);
  }
  if (const auto id = c.exchange().transaction(); id && !c.sidr())
    put({Kind::transaction, c.gid(Side::initiator), c.gid(Side::responder), *id}, c, Side::initiator);
}

RoceConnection* RoceConnections::begin(const Gid& initiator, const Gid& responder, const RocePacket& p) {
  if (live_.size() >= live_max && !make_room(p.at)) {
    ++not_followed_;
    return nullptr;
  }
  auto c = std::make_unique<RoceConnection>(budget_, initiator, responder, p.network.v2, host_.roce_begins(p.frame));
  c->dropped_before = dropped_before;
  if (watch_ != nullptr) c->watch(*watch_);
  RoceConnection* const out = c.get();
  live_.emplace(out, std::move(c));
  auto& others = pairs_[pair_of(initiator, responder)];
  if (others.size() >= candidates_max) others.erase(others.begin());
  others.push_back(out);
  return out;
}

void RoceConnections::retire(RoceConnection* c) {
  for (const RoceKey& key : c->keys)
    if (const auto it = places_.find(key); it != places_.end() && it->second.connection == c) places_.erase(it);
  if (const auto it = pairs_.find(pair_of(c->gid(Side::initiator), c->gid(Side::responder))); it != pairs_.end()) {
    std::erase(it->second, c);
    if (it->second.empty()) pairs_.erase(it);
  }
  host_.roce_ended(*c);
  live_.erase(c);
}

bool RoceConnections::make_room(Instant now) {
  std::vector<RoceConnection*> done;
  for (const auto& [c, owned] : live_)
    if (c->over() && now - c->last_at() >= over_quiet) done.push_back(c);
  for (RoceConnection* c : done) retire(c);
  return !done.empty();
}

void RoceConnections::end_silent(Instant now, Duration idle) {
  std::vector<RoceConnection*> done;
  for (const auto& [c, owned] : live_)
    if (now - c->last_at() >= (c->over() ? std::min(over_quiet, idle) : idle)) done.push_back(c);
  std::sort(done.begin(), done.end(), [](const auto* a, const auto* b) { return a->last_at() < b->last_at(); });
  for (RoceConnection* c : done) retire(c);
}

void RoceConnections::finish() {
  std::vector<RoceConnection*> left;
  for (const auto& [c, owned] : live_) left.push_back(c);
  std::sort(left.begin(), left.end(), [](const auto* a, const auto* b) { return a->first_frame() < b->first_frame(); });
  for (RoceConnection* c : left) retire(c);
  const auto note = [this](std::uint64_t n, std::string_view rest) {
    if (n > 0) host_.roce_note(fmt::format("{} {}", counted(n, "packet"), rest));
  };
  note(unreadable_ > told_max ? unreadable_ - told_max : 0, "more of RoCE cannot be read");
  note(cut_, "of RoCE cut before the end of the headers; not judged");
  note(fragments_, "of RoCE in IP fragments, which are not joined");
}

void RoceConnections::unreadable(const wire::CapturedPacket& captured, RocePacket& p, const wire::PacketView& view) {
  p.frame = captured.frame;
  p.at = captured.at;
  if (p.bth_at > 0 && malformed(p, captured.octets.subspan(std::min(captured.octets.size(), p.bth_at)), reader_.why()))
    return;
  if (++unreadable_ <= told_max)
    host_.roce_note(fmt::format("{}, {}", reader_.why(),
                                view.cargo == wire::PacketCargo::rocev1 ? "type 0x8915" : "UDP port 4791"));
}

bool RoceConnections::malformed(const RocePacket& p, ConstBytes octets, std::string_view why) {
  const auto bth = wire::ib::Bth::parse(octets);
  if (!bth || p.wire_size < PARLEY_IB_BTH_LEN + PARLEY_IB_ICRC_LEN) return false;
  const ConnectionSide place = at(queue_pair(p.network.destination, p.network.source, bth->dest_qpn));
  if (place.connection == nullptr) return false;
  place.connection->malformed(other(place.side), p.frame, p.at, why);
  return true;
}

void RoceConnections::packet(const wire::PacketView& view, const wire::CapturedPacket& captured) {
  RocePacket p;
  switch (reader_.read(view, captured, p)) {
    case RoceReader::Status::packet: break;
    case RoceReader::Status::cut: ++cut_; return;
    case RoceReader::Status::fragment: ++fragments_; return;
    case RoceReader::Status::other: return;
    case RoceReader::Status::malformed: return unreadable(captured, p, view);
  }
  take(p);
}

void RoceConnections::take(RocePacket& p) {
  if (no_icrc_) p.icrc_due.reset();
  // IBA §9.2.1: a packet with an unassigned opcode is not a datagram.
  const bool datagram = p.service() == Service::ud && wire::ib::rule_of(p.packet.bth.opcode).assigned;
  if (p.packet.bth.dest_qpn == PARLEY_IB_GSI_QPN && datagram) return gsi(p);
  if (p.packet.bth.dest_qpn <= PARLEY_IB_GSI_QPN)
    remember_dropped(p, p.known_payload(), "it is not in a UD SEND Only to QP 1");
  data(p);
}

void RoceConnections::data(const RocePacket& p) {
  ConnectionSide place = find_data(p);
  if (place.connection != nullptr && place.connection->is_of_another(other(place.side), p)) {
    if (place.connection->has_cm())
      forget(queue_pair(p.network.destination, p.network.source, p.packet.bth.dest_qpn));
    else
      retire(place.connection);
    place = {};
  }
  bool news = place.connection == nullptr;
  if (place.connection == nullptr) place = find_partner(p);
  if (place.connection == nullptr) place = begin_data(p);
  if (place.connection == nullptr) return;
  RoceConnection& c = *place.connection;
  const auto name = [&](Side side, std::uint32_t qpn) {
    if (c.qpn(side)) return;
    c.guess_qpn(side, qpn);
    news = true;
  };
  name(place.side, p.packet.bth.dest_qpn);
  if (p.service() == Service::ud && p.headers_known()) name(other(place.side), p.packet.deth.source_qpn);
  if (news) learn(c);
  if (watch_ != nullptr) watch_->data(c, other(place.side), p);
  c.data(other(place.side), p);
}

/// The connection of the packet's destination queue pair.
RoceConnections::ConnectionSide RoceConnections::find_data(const RocePacket& p) {
  const Gid &to = p.network.destination, &from = p.network.source;
  ConnectionSide place = at(queue_pair(to, from, p.packet.bth.dest_qpn));
  if (p.service() != Service::ud || !p.headers_known()) return place;
  // A queue pair of a connection has one peer, and takes no datagrams.
  if (place.connection != nullptr && place.connection->is_live(p.at)) return place;
  // A UD queue pair has many peers: the source must fit as well.
  const auto fits = [&](const ConnectionSide& found, std::uint32_t qpn, Side side) {
    return found.connection != nullptr && (!found.connection->qpn(side) || *found.connection->qpn(side) == qpn);
  };
  if (fits(place, p.packet.deth.source_qpn, other(place.side))) return place;
  const ConnectionSide sender = at(queue_pair(from, to, p.packet.deth.source_qpn));
  if (fits(sender, p.packet.bth.dest_qpn, other(sender.side))) return {sender.connection, other(sender.side)};
  return {};
}

/// A connection with a QPN that is not known yet, to which the packet may belong. None if several are possible.
RoceConnections::ConnectionSide RoceConnections::find_partner(const RocePacket& p) {
  if (p.service() == Service::ud) return {};
  const Gid &to = p.network.destination, &from = p.network.source;
  const auto it = pairs_.find(pair_of(to, from));
  if (it == pairs_.end()) return {};
  ConnectionSide found;
  for (RoceConnection* c : it->second)
    for (const Side side : {Side::initiator, Side::responder}) {
      if (c->gid(side) != to || c->gid(other(side)) != from || c->qpn(side) || c->over() || c->sidr()) continue;
      if (c->has_cm() && !c->may_have(other(side), p)) continue;
      const bool answers = is_response(p) && c->flow(side).may_answer(p.packet.bth.psn);
      const bool was_set_up = c->has_cm() && (c->exchange().rep() != nullptr || c->exchange().rtu().frame != 0);
      const bool same_path = !c->has_cm() && !is_response(p) && c->udp_port() == p.network.source_port &&
                             c->flow(other(side)).empty() && !c->is_of_another(other(side), p);
      if (!answers && !was_set_up && !same_path) continue;
      if (found.connection != nullptr) return {};
      found = {c, side};
    }
  return found;
}

RoceConnections::ConnectionSide RoceConnections::begin_data(const RocePacket& p) {
  const Gid &to = p.network.destination, &from = p.network.source;
  const bool answer = is_response(p);
  RoceConnection* const c = answer ? begin(to, from, p) : begin(from, to, p);
  return {c, answer ? Side::initiator : Side::responder};
}

}  // namespace parley::capture
