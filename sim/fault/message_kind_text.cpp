// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include <array>

#include "sim/fault/message_kind.hpp"

namespace parley::sim {
namespace {

// In the order of the enum: its values are the indices.
constexpr std::array<std::string_view, 16> words{
    "any",     "arp_request", "arp_reply", "nd_solicit",  "nd_advert", "tcp_syn", "tcp_syn_ack", "tcp_ack",
    "tcp_fin", "tcp_rst",     "tcp_data",  "mpa_request", "mpa_reply", "mpa_rtr", "fpdu",        "terminate"};
static_assert(words.size() == static_cast<std::size_t>(MessageKind::terminate) + 1);

}  // namespace

std::string_view to_string(MessageKind message) {
  const auto index = static_cast<std::size_t>(message);
  return index < words.size() ? words[index] : "unknown";
}

std::optional<MessageKind> parse_message_kind(std::string_view text) {
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == text) return static_cast<MessageKind>(i);
  return std::nullopt;
}

}  // namespace parley::sim
