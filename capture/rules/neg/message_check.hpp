// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Checks one message of a staged QP negotiation by itself: its header, its items, and the content of Turns of the
// variants verbs-* and manual. The rules are in docs/negotiation.md, "Rules". The texts are those with which a session
// rejects the same message.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "capture/report.hpp"
#include "parley/bytes.hpp"
#include "wire/neg.hpp"

namespace parley::capture {

/// A rule that a message breaks.
struct NegFault {
  Rule rule;
  std::string text;
};

/// The header of a message (wire/neg.hpp), not validated. Only octets that begin with the magic have one.
struct NegHead {
  std::uint8_t version = 0, type = 0, stage = 0, flags = 0;
  std::uint16_t round = 0, reserved = 0;
  std::uint32_t length = 0;
  bool is(wire::NegType t) const { return type == static_cast<std::uint8_t>(t); }
  bool last() const { return (flags & PARLEY_NEG_FLAG_LAST) != 0; }
  std::size_t size() const { return PARLEY_NEG_HEADER_LEN + std::size_t{length}; }
  /// `in` must have PARLEY_NEG_HEADER_LEN octets.
  static NegHead read(ConstBytes in);
  /// Version and length are valid, so that the end of the message is known.
  bool followable() const;
  /// The first fault for which a session rejects it; none: it is valid.
  std::optional<NegFault> fault() const;
  /// The number of invalid fields. Octets of another protocol have several.
  unsigned oddities() const;
};

/// Whether the Turns of a negotiation have the format of verbs-* and manual.
enum class QpTurns : std::uint8_t { unknown, likely, yes, no };

/// Checks the body of a Hello, Welcome or Abort.
std::optional<NegFault> check_items(ConstBytes body, bool abort);
/// Checks the body of a Turn of verbs-* or manual.
std::optional<NegFault> check_qp_turn(std::uint8_t stage, ConstBytes body);
/// Whether the body of a Turn of stage info looks like verbs-* or manual.
bool like_qp_info(ConstBytes body);
/// Reads the valid items of a Turn of stage info.
QpSeen read_qp_info(ConstBytes body);
/// "RC"; empty if the number is not assigned.
std::string_view qp_transport_text(std::uint8_t transport);
/// "protocol_violation"; empty if the number is not assigned.
std::string_view neg_error_text(std::uint16_t error);
/// Whether this variant of this plug-in uses the Turns of verbs-* and manual.
bool says_qp_turns(std::string_view plugin, std::string_view variant);

/// The last item of a type; nullopt: there is none.
std::optional<ConstBytes> find_item(ConstBytes body, wire::NegItemType type);
/// The printable text of find_item(), at most 1024 octets of it; empty if there is none.
std::string item_text(ConstBytes body, wire::NegItemType type);

}  // namespace parley::capture
