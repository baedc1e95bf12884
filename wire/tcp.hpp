// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The TCP header as a value (RFC 9293 §3.1), with the options that Parley supports: MSS, window scale and timestamps
// (RFC 7323), SACK-permitted and SACK blocks (RFC 2018).
#pragma once
#include <array>
#include <cstdint>
#include <optional>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "wire/packet.hpp"

namespace parley::wire {

struct TcpHeader {
  std::uint16_t source_port = 0, destination_port = 0;
  std::uint32_t seq = 0, ack = 0;
  std::uint8_t flags = 0;  ///< tcp_flag
  std::uint16_t window = 0;
  std::uint16_t mss = 0;          ///< 0: no option
  std::int8_t window_scale = -1;  ///< -1: no option
  bool sack_permitted = false;
  bool timestamps = false;
  std::uint32_t ts_value = 0, ts_echo = 0;
  struct Block {
    std::uint32_t left = 0, right = 0;
    bool operator==(const Block&) const = default;
  };
  std::uint8_t sack_count = 0;  ///< 0..3; blocks that do not fit next to other options are not written
  std::array<Block, 3> sack{};

  bool syn() const { return (flags & tcp_flag::syn) != 0; }
  bool fin() const { return (flags & tcp_flag::fin) != 0; }
  bool rst() const { return (flags & tcp_flag::rst) != 0; }
  bool has_ack() const { return (flags & tcp_flag::ack) != 0; }
  /// Octets on the wire, options and their padding included: 20..60.
  std::size_t wire_size() const;
};

/// Writes wire_size() octets with checksum 0. `out` must have room for them.
void emit_tcp_header(const TcpHeader& header, MutBytes out);
/// The header, and its size in octets: the payload's offset.
struct TcpParsed {
  TcpHeader header;
  std::size_t size = 0;
};
/// Errors: truncated, malformed (data offset). Unknown options are skipped.
Result<TcpParsed> parse_tcp_header(ConstBytes segment);

/// The RST that answers a segment of no known connection (RFC 9293 §3.10.7.1). Do not send it if `in` has RST.
/// `payload`: octets of data in the segment.
TcpHeader reset_for(const TcpHeader& in, std::size_t payload);

}  // namespace parley::wire
