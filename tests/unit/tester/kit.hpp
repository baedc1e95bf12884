// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// A driver of the test's own: what it is told to do stays in lists, and what happens is the test's to say.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/pump.hpp"
#include "tester/scripted_peer.hpp"

namespace parley::tester {

inline Address address_of(std::uint8_t last, std::uint16_t port) { return Address::v4(192, 0, 2, last, port); }

struct Driven {
  ScriptedPeer peer;
  Instant now = Instant(std::chrono::seconds(1));
  std::vector<StreamCommand> commands;
  Bytes written;
  std::size_t write_max = 1 << 20;  ///< octets that the stream takes at once

  void carry_out(const StreamCommand& command) { commands.push_back(command); }
  void write(StreamId id) {
    ConstBytes piece;
    if (peer.gather(id, std::span(&piece, 1)) != 1) return;
    const ConstBytes taken = piece.first(std::min(piece.size(), write_max));
    written.insert(written.end(), taken.begin(), taken.end());
    peer.sent(now, id, taken.size());
  }
  void drain() { pump(peer, *this); }
  std::size_t count(StreamCommand::Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(commands.begin(), commands.end(), [kind](const auto& c) { return c.kind == kind; }));
  }

  /// Runs the script up to its first wait.
  void start(Task<void> script) {
    peer.start(now, std::move(script));
    drain();
  }
  void after(Duration time) {
    now += time;
    peer.handle_deadline(now);
    drain();
  }
  void connected(StreamId id) {
    peer.handle_connected(now, id, {address_of(1, 40000), address_of(2, 7471), 1460});
    drain();
  }
  void bytes(StreamId id, ConstBytes in) {
    peer.handle_bytes(now, id, in);
    drain();
  }
  void end(StreamId id, StreamEnd how) {
    peer.handle_end(now, id, how);
    drain();
  }
};

/// A script that connects and goes on as the test says; the first stream has the number 1.
inline Task<void> connect_then(ScriptedPeer& peer, std::function<Task<void>(TcpStream&)> rest) {
  TcpStream* tcp = co_await peer.connect(address_of(2, 7471), std::chrono::seconds(5));
  if (tcp != nullptr) co_await rest(*tcp);
}

}  // namespace parley::tester
