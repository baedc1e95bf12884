// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Data is delivered once, in order and unchanged. Every octet of a run has a value specific to its attempt, direction,
// message and offset, so lost, duplicated or misplaced data shows at the receiver.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "parley/bytes.hpp"
#include "sim/check/history.hpp"
#include "sim/check/judge.hpp"

namespace parley::sim::check {

/// The checker's name in findings, for messages and for packets to multicast groups.
inline constexpr std::string_view delivery_checker = "delivery";

enum class Direction : std::uint8_t { to_responder, to_initiator };
constexpr std::string_view to_string(Direction d) {
  return d == Direction::to_responder ? "to the responder" : "to the initiator";
}

/// Identifies a message: number of the attempt, direction, number of the message in it.
struct MessageName {
  std::uint32_t attempt = 0;
  Direction direction = Direction::to_responder;
  std::uint64_t message = 0;
};
void fill_pattern(const MessageName& name, MutBytes out);
/// The first octet that differs from what fill_pattern writes.
std::optional<std::size_t> find_mismatch(const MessageName& name, ConstBytes got);

/// A message that its receiver has completed. `length` is from the completion; `memory` is the receive buffer.
void check_message(const MessageName& name, ConstBytes memory, std::size_t length, std::size_t wanted,
                   std::string_view label, Instant at, Judge& judge);
/// At the end of the run: if both ends ended gracefully, no sent message is missing.
void check_complete(const Attempt& attempt, Instant now, Judge& judge);

}  // namespace parley::sim::check
