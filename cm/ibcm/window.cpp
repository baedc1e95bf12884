// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "cm/ibcm/window.hpp"

namespace parley::cm::ibcm {

std::optional<std::uint64_t> Window::enter(const Gid& peer, ConnectionId id) {
  const At at = peers_.try_emplace(peer).first;
  if (turns_.empty() && outstanding_ < outstanding_max_ && at->second.outstanding < per_peer_) {
    ++outstanding_;
    ++at->second.outstanding;
    return 0;
  }
  if (waiting_ >= waiting_max_) {
    settle(at);
    return std::nullopt;
  }
  ++waiting_;
  at->second.waiting.emplace(++places_, id);
  const std::uint64_t place = places_;
  settle(at);
  return place;
}

void Window::leave(const Gid& peer) {
  const At at = peers_.find(peer);
  if (at == peers_.end() || at->second.outstanding == 0) return;
  --at->second.outstanding;
  --outstanding_;
  settle(at);
}

void Window::withdraw(const Gid& peer, std::uint64_t place) {
  const At at = peers_.find(peer);
  if (at == peers_.end() || at->second.waiting.erase(place) == 0) return;
  --waiting_;
  settle(at);
}

std::optional<ConnectionId> Window::next() {
  while (outstanding_ < outstanding_max_ && !turns_.empty()) {
    const At at = peers_.find(turns_.front());
    turns_.pop_front();
    Peer& peer = at->second;
    peer.has_turn = false;
    if (peer.waiting.empty()) {  // they were withdrawn
      settle(at);
      continue;
    }
    const ConnectionId id = peer.waiting.begin()->second;
    peer.waiting.erase(peer.waiting.begin());
    --waiting_;
    ++peer.outstanding;
    ++outstanding_;
    settle(at);
    return id;
  }
  return std::nullopt;
}

// A peer in turns_ stays in the table until next() has removed its turn.
void Window::settle(At at) {
  Peer& peer = at->second;
  if (!peer.has_turn && !peer.waiting.empty() && peer.outstanding < per_peer_) {
    peer.has_turn = true;
    turns_.push_back(at->first);
  }
  if (peer.outstanding == 0 && peer.waiting.empty() && !peer.has_turn) peers_.erase(at);
}

}  // namespace parley::cm::ibcm
