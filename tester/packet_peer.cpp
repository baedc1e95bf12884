// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "tester/packet_peer.hpp"

#include <algorithm>

#include "base/after.hpp"

namespace parley::tester {

void PacketPeer::start(Instant now, Task<void> script) {
  now_ = now;
  wait_.reset();
  script_ = std::move(script);
  script_.start();
  advance(now);
}

void PacketPeer::stop() {
  wait_.reset();
  script_ = {};
}

void PacketPeer::suspend(Wait& wait, std::coroutine_handle<> who) {
  wait_ = Suspended{&wait, who, after(now_, wait.patience_)};
}

void PacketPeer::advance(Instant now) {
  now_ = std::max(now_, now);
  while (wait_ && (wait_->wait->ready_() || now_ >= wait_->deadline)) {
    const auto who = wait_->who;
    wait_.reset();
    who.resume();
  }
}

Task<std::optional<Address>> PacketPeer::bind(Address to, Duration patience) {
  co_return co_await bind(PacketCommand{.local = Address::any(to.family, 0), .peer = to}, patience);
}

Task<std::optional<Address>> PacketPeer::bind_at(Address local, Duration patience) {
  co_return co_await bind(PacketCommand{.local = local, .peer = Address::any(local.family, 0)}, patience);
}

Task<std::optional<Address>> PacketPeer::bind(PacketCommand command, Duration patience) {
  local_.reset();
  bind_failed_ = false;
  why_ = "no answer from the system";
  command.id = ++serial_;
  commands_.push_back(command);
  co_await until([this] { return local_.has_value() || bind_failed_; }, patience);
  co_return local_;
}

void PacketPeer::send(const PacketPath& path, ConstBytes packet) {
  if (unsent_.size() >= unsent_max || packet.size() > packet_max) return;
  unsent_.push_back({path, Bytes(packet.begin(), packet.end())});
}

ReceivedPacket PacketPeer::take() {
  ReceivedPacket packet = std::move(received_.front());
  received_.pop_front();
  return packet;
}

void PacketPeer::handle_bound(Instant now, BindId id, const Address& local) {
  if (id == serial_) local_ = local;
  advance(now);
}

void PacketPeer::handle_bind_failed(Instant now, BindId id, const Error& why, const Address&) {
  if (id == serial_) {
    bind_failed_ = true;
    why_ = why.message();
  }
  advance(now);
}

void PacketPeer::handle_packet(Instant now, const PacketPath& from, ConstBytes packet) {
  if (received_.size() < received_max)
    received_.push_back({std::max(now_, now), from.peer, from.local, Bytes(packet.begin(), packet.end())});
  advance(now);
}

void PacketPeer::handle_unreachable(Instant now, const PacketPath&, std::error_code why) {
  unreachable_ = why.message();
  advance(now);
}

bool PacketPeer::poll_command(PacketCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

std::size_t PacketPeer::poll_packet(Instant, PacketPath& to, MutBytes out) {
  if (unsent_.empty()) return 0;
  const Unsent packet = std::move(unsent_.front());
  unsent_.pop_front();
  to = packet.path;
  std::copy(packet.octets.begin(), packet.octets.end(), out.begin());
  return packet.octets.size();
}

}  // namespace parley::tester
