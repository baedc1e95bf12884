// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The limits of the socket benches: plain epoll programs that send the same octets as Parley does and know nothing of
// what they mean. No parsing, no state worth the name, no allocation per connection beyond a table entry.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/harness.hpp"

namespace parley::bench {

/// Octets of each message of a connection set-up, in order; 0 where the form has none. What they are is Parley's
/// affair.
struct HandshakeOctets {
  std::size_t request = 0;   ///< initiator
  std::size_t reply = 0;     ///< responder
  std::size_t rtr = 0;       ///< initiator: Rtr frame or RTR FPDU
  std::size_t response = 0;  ///< responder: Read Response
};

/// How many connections are in set-up at once in every handshake bench.
inline constexpr int in_flight = 64;

/// Both ends on the calling thread. Connects, exchanges, closes (initiator first), for `seconds`.
Sample raw_connect_and_close(const HandshakeOctets& octets, double seconds);
/// Opens `n` connections and leaves them open; the sample ends with the last exchange. Closing is not measured.
/// With `more`, so many further ones are made while the `n` stay open, and only those are measured.
Sample raw_keep_open(const HandshakeOctets& octets, long n, long more = 0);

enum class Threads : std::uint8_t { one, two };

struct BulkOptions {
  std::size_t chunk = 65536;  ///< octets of one send(), or of one RDMA message
  std::uint64_t total = 0;    ///< octets of one segment
  std::string congestion;     ///< TCP_CONGESTION of both ends
  Threads threads = Threads::one;
  bool crc = false;  ///< do what RFC 5044 §4.4 demands of both ends, see raw_bulk
};

/// `total` octets one way; a receiver reads at most 256 KiB at a time, as Parley's driver does. With `crc` the sender
/// takes the CRC32c of each message before it sends it, and the receiver that of what it read while it copies it to the
/// place where a message belongs: before the CRC is known nothing may lie there. Without, nobody looks at the octets.
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
