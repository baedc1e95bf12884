// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// One message of a staged QP negotiation by itself: its header, its items, and what the Turns of the variants verbs-* and
// manual hold. The rules are those of docs/negotiation.md, "Rules"; the sentences are those with which a session refuses the
// same.
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

/// What a header of wire/neg.hpp says, faults included: only octets that begin with the magic have one.
struct NegHead {
  std::uint8_t version = 0, type = 0, stage = 0, flags = 0;
  std::uint16_t round = 0, reserved = 0;
  std::uint32_t length = 0;
  bool is(wire::NegType t) const { return type == static_cast<std::uint8_t>(t); }
  bool last() const { return (flags & PARLEY_NEG_FLAG_LAST) != 0; }
  std::size_t size() const { return PARLEY_NEG_HEADER_LEN + std::size_t{length}; }
  /// PARLEY_NEG_HEADER_LEN octets.
  static NegHead read(ConstBytes in);
  /// Of version and length alone: what follows can be told apart.
  bool followable() const;
  /// What keeps a session from taking it.
  std::optional<NegFault> fault() const;
  /// Parts of it that cannot be: octets of something else have several.
  unsigned oddities() const;
};

/// Whether the Turns of a negotiation are those of verbs-* and manual.
enum class QpTurns : std::uint8_t { unknown, likely, yes, no };

/// The body of a Hello, Welcome or Abort.
std::optional<NegFault> check_items(ConstBytes body, bool abort);
/// The body of a Turn of verbs-* or manual.
std::optional<NegFault> check_qp_turn(std::uint8_t stage, ConstBytes body);
/// A Turn of info looks like one of those.
bool like_qp_info(ConstBytes body);
/// As much of it as can be read.
QpSeen read_qp_info(ConstBytes body);
/// "RC"; empty if there is none of that number.
std::string_view qp_transport_text(std::uint8_t transport);
/// "protocol_violation"; empty if there is none of that number.
std::string_view neg_error_text(std::uint16_t error);
/// Of a plug-in of that name, that variant says what verbs-* say.
bool says_qp_turns(std::string_view plugin, std::string_view variant);

/// The first item of a type; nullopt: there is none.
std::optional<ConstBytes> find_item(ConstBytes body, wire::NegItemType type);
/// Its text, fit to be printed; empty if there is none.
std::string item_text(ConstBytes body, wire::NegItemType type);

}  // namespace parley::capture
