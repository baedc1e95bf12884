// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Runs a Player on streams: connects or listens, uses one connection and refuses others.
#pragma once
#include <deque>

#include "replay/player.hpp"

namespace parley::replay {

class PlayerMachine final : public StreamMachine {
 public:
  /// Connects to `where`, or listens there and plays over the first connection that arrives.
  PlayerMachine(Player& player, const Address& where, bool listen);

  /// The address on which it listens, once known.
  const std::optional<Address>& listening() const { return listening_; }
  const std::optional<StreamInfo>& stream() const { return info_; }
  /// Why it could not connect or listen; no error: it did not fail.
  const std::error_code& failed() const { return failed_; }
  /// Everything is played and written, or it failed.
  bool over() const { return failed_ || (player_.done() && commands_.empty() && player_.output().empty()); }

  void handle_listening(Instant now, StreamId listener, const Address& local) override;
  void handle_listen_failed(Instant now, StreamId listener, std::error_code why) override;
  void handle_connected(Instant now, StreamId stream, const StreamInfo& info) override;
  void handle_connect_failed(Instant now, StreamId stream, std::error_code why) override;
  bool handle_accepted(Instant now, StreamId listener, StreamId stream, const StreamInfo& info) override;
  void handle_bytes(Instant now, StreamId stream, ConstBytes in) override;
  void handle_end(Instant now, StreamId stream, StreamEnd end) override;
  void handle_deadline(Instant now) override;
  bool poll_command(StreamCommand& out) override;
  StreamId poll_ready() override;
  std::size_t gather(StreamId stream, std::span<ConstBytes> out) override;
  void sent(Instant now, StreamId stream, std::size_t n) override;
  Instant next_deadline() const override { return player_.next_deadline(); }

 private:
  void after();
  void tell(StreamCommand::Kind kind, StreamId id);

  Player& player_;
  StreamId stream_ = 0;
  bool alive_ = false, ready_ = false;
  std::optional<Address> listening_;
  std::optional<StreamInfo> info_;
  std::error_code failed_;
  std::deque<StreamCommand> commands_;  // at most a handful: one to begin, two to end
};

}  // namespace parley::replay
