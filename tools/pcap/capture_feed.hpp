// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Feeds a capture file (classic pcap or pcapng, compressed or not) to a callback packet by packet, through a window of
// bounded size, and reports progress. It returns on any input: damage is reported as an error message, after the
// packets before the damage were delivered.
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
  std::string error;              ///< one line: why the file could not be read to its end; empty if it was
  std::uint64_t packets = 0;      ///< packets given to the callback
  std::uint64_t passed_over = 0;  ///< packets that the filter rejected
  draw::InputFile input{};        ///< the input, for reports; without a digest unless one was requested
};

/// `packet`'s octets are valid until the callback returns.
using OnPacket = std::function<void(const wire::CapturedPacket& packet)>;
/// Octets of the file read so far, and its size; 0 if unknown (a pipe). Called about once per MiB.
using OnFeedProgress = std::function<void(std::uint64_t octets, std::uint64_t total)>;

/// Reads `path` to its end or to the first damage; "-" is standard input. Throws only what a callback throws.
/// With a filter, the callback receives only matching packets. They keep their frame numbers.
FeedResult feed_capture(const std::string& path, const OnPacket& on_packet, const OnFeedProgress& on_progress = {},
                        pcap_driver::PacketFilter* filter = nullptr, bool digest = false);

}  // namespace parley::tools
