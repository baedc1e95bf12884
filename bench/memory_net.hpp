// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The connection manager without a socket: a manager and its provider that connect to themselves through memory, and
// the same octets between two bare startup machines. The difference is the cost of the connection manager.
#pragma once
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/pump.hpp"
#include "bench/harness.hpp"
#include "cm/providers/iwarp/iwarp.hpp"
#include "parley/cm.hpp"

namespace parley::bench {

class MemoryHost {
 public:
  MemoryHost();
  /// For `seconds`: sets up connections, establishes them at both ends, disconnects them gracefully and destroys them.
  Sample connections_for(const mpa::Options& options, double seconds);
  /// The same for `count` connections, all at once.
  void connections(const mpa::Options& options, std::uint64_t count);

  // base/pump.hpp
  void carry_out(const StreamCommand& command);
  void write(StreamId stream);

 private:
  enum class What : std::uint8_t { listening, accepted, connected, bytes, fin, rst };
  struct Delivery {
    What what;
    StreamId to;
    Bytes octets{};
  };
  void deliver(Delivery& delivery);
  void turn();
  void events();

  Instant now_{};
  std::unique_ptr<cm::IwarpProvider> provider_;
  cm::Manager manager_;
  StreamId listener_ = 0, serial_ = 0;
  std::unordered_map<StreamId, StreamId> other_;  // the other end of each stream; 0: it is gone
  std::vector<Delivery> deliveries_, delivering_;
  std::uint64_t initiators_up_ = 0, responders_up_ = 0, ended_ = 0;
};

/// Only the startup machines of both ends, with the same options and private data.
Sample bare_startups(const mpa::Options& options, double seconds);

}  // namespace parley::bench
