// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "replay/machine.hpp"

namespace parley::replay {

namespace {
constexpr StreamId own_id = 1;  // the machine uses odd numbers for streams that it opens
}

PlayerMachine::PlayerMachine(Player& player, const Address& where, bool listen) : player_(player) {
  StreamCommand command;
  command.kind = listen ? StreamCommand::Kind::listen : StreamCommand::Kind::open;
  command.id = own_id;
  command.address = where;
  command.local = Address::any(where.family, 0);
  command.backlog = 1;
  commands_.push_back(command);
}

void PlayerMachine::tell(StreamCommand::Kind kind, StreamId id) {
  StreamCommand command;
  command.kind = kind;
  command.id = id;
  commands_.push_back(command);
}

// Applies the player's output and close request to the stream.
void PlayerMachine::after() {
  if (stream_ == 0) return;
  if (!player_.output().empty()) ready_ = true;
  const Player::Close close = player_.take_close();
  if (!alive_ || close == Player::Close::none) return;
  switch (close) {
    case Player::Close::none: return;
    case Player::Close::shutdown: return tell(StreamCommand::Kind::shutdown, stream_);
    case Player::Close::close: tell(StreamCommand::Kind::close, stream_); break;
    case Player::Close::reset: tell(StreamCommand::Kind::reset, stream_); break;
  }
  alive_ = ready_ = false;
}

void PlayerMachine::handle_listening(Instant, StreamId, const Address& local) { listening_ = local; }

void PlayerMachine::handle_listen_failed(Instant, StreamId, std::error_code why) {
  failed_ = why;
  player_.fail("cannot listen: " + why.message());
}

void PlayerMachine::handle_connect_failed(Instant, StreamId, std::error_code why) {
  failed_ = why;
  player_.fail("cannot connect: " + why.message());
}

void PlayerMachine::handle_connected(Instant now, StreamId stream, const StreamInfo& info) {
  stream_ = stream;
  alive_ = true;
  info_ = info;
  player_.start(now, info.emss);
  after();
}

bool PlayerMachine::handle_accepted(Instant now, StreamId, StreamId stream, const StreamInfo& info) {
  if (stream_ != 0) return false;
  handle_connected(now, stream, info);
  return true;
}

void PlayerMachine::handle_bytes(Instant now, StreamId stream, ConstBytes in) {
  if (stream != stream_) return;
  player_.handle_bytes(now, in);
  after();
}

void PlayerMachine::handle_end(Instant now, StreamId stream, StreamEnd end) {
  if (stream != stream_) return;
  if (end != StreamEnd::fin) alive_ = ready_ = false;
  player_.handle_end(now, end);
  after();
}

void PlayerMachine::handle_deadline(Instant now) {
  player_.handle_deadline(now);
  after();
}

bool PlayerMachine::poll_command(StreamCommand& out) {
  if (commands_.empty()) return false;
  out = commands_.front();
  commands_.pop_front();
  return true;
}

StreamId PlayerMachine::poll_ready() {
  if (!ready_ || !alive_) return 0;
  ready_ = false;
  return stream_;
}

std::size_t PlayerMachine::gather(StreamId stream, std::span<ConstBytes> out) {
  if (stream != stream_ || out.empty() || player_.output().empty()) return 0;
  out.front() = player_.output();
  return 1;
}

void PlayerMachine::sent(Instant now, StreamId stream, std::size_t n) {
  if (stream != stream_) return;
  player_.written(now, n);
  after();
}

}  // namespace parley::replay
