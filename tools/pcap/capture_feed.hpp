// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Feeds a capture file, classic pcap or pcapng, packed or not, packet by packet to a callback through a window of
// bounded size, and tells how far it is. Whatever the file holds, it returns: damage is an error in words after the
// packets before it.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "draw/provenance.hpp"
#include "drivers/pcap/filter.hpp"
#include "wire/pcapng.hpp"

namespace parley::tools {

/// How a feed ended.
struct FeedResult {
  std::string error;              ///< why the file could not be read (to its end), as one line; empty when it was
  std::uint64_t packets = 0;      ///< how many the callback was given
  std::uint64_t passed_over = 0;  ///< by the filter
  draw::InputFile input{};        ///< what was read, for reports; without digest if none was asked for
};

/// The packet's octets live until the callback returns.
using OnPacket = std::function<void(const wire::CapturedPacket& packet)>;
/// Octets of the file read so far, of how many; a total of 0 is unknown (a pipe). Called about once per mebibyte.
using OnFeedProgress = std::function<void(std::uint64_t octets, std::uint64_t total)>;

/// Reads `path` to its end or to its first damage; "-" is standard input. Never throws of its own.
/// With a filter, only the packets that pass it are given; they keep their numbers.
FeedResult feed_capture(const std::string& path, const OnPacket& on_packet, const OnFeedProgress& on_progress = {},
                        pcap_driver::PacketFilter* filter = nullptr, bool digest = false);

}  // namespace parley::tools
