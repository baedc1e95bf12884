// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/pending.hpp"

#include <algorithm>
#include <utility>

namespace parley::cm {
namespace {

/// Places beyond pending_max, for networks that have no pending connection.
std::uint32_t share(std::uint32_t pending_max) { return std::min(pending_max / 8, 0xFFFFFFFF - pending_max); }

}  // namespace

Pending::Listener::Listener(std::uint32_t max) : pending_max(max), admission(max + share(max), share(max)) {}

Pending::Listener* Pending::find(EndpointId listener) const {
  const auto at = listeners_.find(listener);
  return at == listeners_.end() ? nullptr : at->second.get();
}

Pending::Listener* Pending::listener_of(EndpointId connection) const {
  const Endpoint* endpoint = ids_.find(connection);
  return endpoint == nullptr || endpoint->listener == 0 ? nullptr : find(endpoint->listener);
}

void Pending::open(EndpointId listener, std::uint32_t pending_max) {
  listeners_.emplace(listener, std::make_unique<Listener>(pending_max));
  order_.push_back(listener);
}

void Pending::close(EndpointId listener) {
  if (listeners_.erase(listener) != 0) std::erase(order_, listener);
}

std::uint32_t Pending::limit_of(EndpointId listener) const {
  const Listener* l = find(listener);
  return l == nullptr ? 0 : l->pending_max;
}

Pending::Answer Pending::admit(EndpointId id, const Address& peer) {
  Listener* l = listener_of(id);
  if (l == nullptr) return {};
  const Admission::Answer answer = l->admission.arrive(peer, id);
  if (!answer.ticket) return {};
  ids_.find(id)->pending = answer.ticket;
  if (Endpoint* evicted = ids_.find(answer.gave_way)) evicted->pending = {};
  return {true, answer.gave_way};
}

void Pending::our_turn(EndpointId id) {
  Endpoint* endpoint = ids_.find(id);
  if (endpoint == nullptr) return;
  silent_.leave(std::exchange(endpoint->silent, {}));
  if (Listener* l = listener_of(id)) l->admission.hold(endpoint->pending);
}

void Pending::peers_turn(EndpointId id) {
  const Endpoint* endpoint = ids_.find(id);
  if (Listener* l = listener_of(id)) l->admission.release(endpoint->pending);
}

void Pending::await_first_message(EndpointId id, const Address& peer) {
  leave(id);
  if (Endpoint* endpoint = ids_.find(id)) endpoint->silent = silent_.arrive(peer, id).ticket;
}

void Pending::leave(EndpointId id) {
  Endpoint* endpoint = ids_.find(id);
  if (endpoint == nullptr) return;
  if (endpoint->silent) silent_.leave(std::exchange(endpoint->silent, {}));
  if (!endpoint->pending) return;
  const Admission::Ticket ticket = std::exchange(endpoint->pending, {});
  if (Listener* l = find(endpoint->listener)) l->admission.leave(ticket);
}

EndpointId Pending::make_room() {
  Listener* most = nullptr;
  for (const EndpointId id : order_) {
    Listener* l = find(id);
    if (most == nullptr || l->admission.half_open() > most->admission.half_open()) most = l;
  }
  EndpointId who = most == nullptr ? 0 : most->admission.give_way();
  if (who == 0) who = silent_.give_way();
  if (Endpoint* endpoint = ids_.find(who)) endpoint->pending = endpoint->silent = {};  // its place is already free
  return who;
}

TurnedAwayPeers* Pending::turned(EndpointId listener) {
  Listener* l = find(listener);
  return l == nullptr ? nullptr : &l->turned;
}

}  // namespace parley::cm
