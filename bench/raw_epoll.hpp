// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The limits of the socket benches: plain epoll programs that send the same octets as Parley without interpreting them.
// No parsing, almost no state, no allocation per connection except a table entry.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/harness.hpp"

namespace parley::bench {

/// Octets of each message of a connection set-up, in order; 0: the form has no such message. The content does not
/// matter here.
struct HandshakeOctets {
  std::size_t request = 0;   ///< initiator
  std::size_t reply = 0;     ///< responder
  std::size_t rtr = 0;       ///< initiator: Rtr frame or RTR FPDU
  std::size_t response = 0;  ///< responder: Read Response
};

/// How many connections are in set-up at once in every handshake bench.
inline constexpr int in_flight = 64;

/// Both ends on the calling thread. For `seconds`, connects, exchanges the messages, and closes (initiator first).
Sample raw_connect_and_close(const HandshakeOctets& octets, double seconds);
/// Opens `n` connections and leaves them open; the sample ends with the last exchange. Closing is not measured.
/// With `more`, makes that many further ones while the `n` stay open, and measures only those.
Sample raw_keep_open(const HandshakeOctets& octets, long n, long more = 0);

enum class Threads : std::uint8_t { one, two };

struct BulkOptions {
  std::size_t chunk = 65536;  ///< octets of one send(), or of one RDMA message
  std::uint64_t total = 0;    ///< octets of one segment
  std::string congestion;     ///< TCP_CONGESTION of both ends
  Threads threads = Threads::one;
  bool crc = false;  ///< do what RFC 5044 §4.4 requires of both ends, see raw_bulk
};

/// Sends `total` octets one way; a receiver reads at most 256 KiB at a time, as Parley's driver does. With `crc` the
/// sender computes the CRC32c of each message before it sends it. The receiver computes that of what it read while it
/// copies it to the message's destination, which must not have the octets before the CRC is known. Without `crc`,
/// neither end reads the octets.
Sample raw_bulk(const BulkOptions& options);

struct PingPongOptions {
  std::size_t size = 64;
  long round_trips = 10000;
  std::string congestion;
  Threads threads = Threads::one;
};

/// Each end polls its epoll without sleeping. median_us is the median round trip.
Sample raw_ping_pong(const PingPongOptions& options);

}  // namespace parley::bench
