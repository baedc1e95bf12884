// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Parley on plain TCP sockets: a software RNIC, its connection manager and a socket driver in one object.
// No root, no kernel module, no NIC.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "parley/host.hpp"
#include "parley/iwarp.hpp"

namespace parley {

/// Settings for all connections of a host. Settings per connection: cm::ConnectOptions, cm::ListenOptions (backlog,
/// pending_max), mpa::Options (timeouts).
struct TcpHostOptions {
  std::string congestion;  ///< TCP_CONGESTION of every socket; empty: the system's default
  std::size_t receive_buffer =
      256 << 10;                     ///< bytes read at once, shared by all streams; 1 to 1 GiB, at least 2048 are used
  std::size_t streams_max = 65536;   ///< TCP connections at once; at least 1
  cm::ManagerOptions manager{};      ///< ids alive at once, seed of the waits between attempts
  cm::IwarpProviderOptions iwarp{};  ///< closing of connections, tagged offsets
};

/// One step of a stream as seen at the socket, for ladder diagrams and pcapng writers.
struct TapRecord {
  Instant at;
  Address local, peer;
  enum class Kind : std::uint8_t {
    connected,
    accepted,
    sent,
    received,
    fin_sent,
    fin_received,
    rst_sent,
    rst_received
  };
  Kind kind = Kind::connected;
  ConstBytes octets{};  ///< sent, received: valid during the call only
};
using Tap = std::function<void(const TapRecord&)>;

class TcpHost : public Host {
 public:
  /// Errors: invalid_argument, unsupported (congestion control unknown to the system), no_space (no descriptors).
  static Result<std::unique_ptr<TcpHost>> open(const TcpHostOptions& options = {});
  /// `tap` is called with each step and all octets; no cost if not set.
  virtual void set_tap(Tap tap) = 0;
};

}  // namespace parley
