// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Recognises FPDUs (RFC 5044 §4) of connections whose set-up is not in the capture. It keeps the segments that may hold
// the first FPDU of a connection until it is whole. It expects an FPDU at the beginning of a TCP segment (§5: senders
// align them). A correct CRC32c and a valid DDP and RDMAP header prove it, so that other traffic is not taken for MPA.
#pragma once
#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "parley/address.hpp"
#include "parley/bytes.hpp"
#include "parley/time.hpp"
#include "wire/packet.hpp"

namespace parley::capture {

/// Both ends of a TCP connection, in an order that does not depend on the direction.
struct ConnectionKey {
  Address a, b;
  bool operator==(const ConnectionKey&) const = default;
};
struct ConnectionKeyHash {
  std::size_t operator()(const ConnectionKey& k) const;
};

/// How to read octets that begin with an FPDU.
struct ProvenFpdu {
  bool markers = false;
  std::uint32_t phase = 0;  ///< stream position of its first octet modulo the marker interval (RFC 5044 §4.3)
  bool crc = true;          ///< false: accepted without a correct CRC, since the port is in AnalyzerOptions::mpa_ports
};

struct FpduProof {
  enum class Outcome : std::uint8_t { none, more, proven };
  Outcome is = Outcome::none;
  std::uint32_t wanted = 0;  ///< more: the octets needed to decide
  ProvenFpdu fpdu;
};
/// Whether an FPDU begins at the first of these octets.
FpduProof prove_fpdu(ConstBytes in);
/// Whether an FPDU may begin here, judged by its length and its DDP header alone.
bool plausible_fpdu(ConstBytes in);

class PickUps {
 public:
  struct KeptSegment {
    wire::TcpSegmentView segment;  ///< its payload refers to `octets`
    Bytes octets;
    std::uint64_t frame = 0;
    Instant at{};
  };
  struct PickUp {
    std::vector<KeptSegment> segments;  ///< in order; empty: no FPDU is proven (yet)
    ProvenFpdu fpdu;
  };
  /// Examines a segment of a connection that is not followed.
  PickUp segment(const ConnectionKey& key, unsigned from, const wire::TcpSegmentView& t, std::uint64_t frame,
                 Instant at);

 private:
  struct Watched {
    ConnectionKey key;
    unsigned from = 0;
    std::uint32_t next_seq = 0;
    std::size_t have = 0, wanted = 0;
    std::vector<KeptSegment> segments;
  };
  using Watches = std::list<Watched>;                // the oldest first
  static constexpr std::size_t watched_max = 64;     // few segments of other traffic look like the start of an FPDU
  static constexpr std::size_t kept_max = 4 << 20;   // octets kept for all connections
  static constexpr std::size_t segments_max = 2048;  // segments kept for one connection

  void drop(Watches::iterator watch);
  void keep(Watched& w, const wire::TcpSegmentView& t, std::uint64_t frame, Instant at);

  Watches watches_;
  std::unordered_map<ConnectionKey, Watches::iterator, ConnectionKeyHash> by_ends_[2];  // by direction
  std::size_t kept_ = 0;
};

}  // namespace parley::capture
