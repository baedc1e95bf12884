// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Codec of the messages of Parley's staged QP negotiation (parley/wire/neg.h, docs/negotiation.md).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parley/bytes.hpp"
#include "parley/result.hpp"
#include "parley/wire/neg.h"

namespace parley::wire {

enum class NegType : std::uint8_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_NEG_TYPES(PARLEY_X)
#undef PARLEY_X
};
enum class NegItemType : std::uint16_t {
#define PARLEY_X(name, value, text) name = value,
  PARLEY_NEG_ITEMS(PARLEY_X)
#undef PARLEY_X
};
/// "hello", "welcome", "turn", "abort"; "unknown" for any other value.
std::string_view to_string(NegType type);
/// "none", "info", "ready", "done"; "unknown".
std::string_view neg_stage_text(std::uint8_t stage);

/// A message header. parse() validates it, so it can be printed.
struct NegHeader {
  NegType type = NegType::turn;
  std::uint8_t stage = 0;
  std::uint8_t flags = 0;
  std::uint16_t round = 0;   ///< the sender's round within the stage, from 1; 0 outside of stages
  std::uint32_t length = 0;  ///< octets that follow

  bool last() const { return (flags & PARLEY_NEG_FLAG_LAST) != 0; }
  bool operator==(const NegHeader&) const = default;
  /// Errors: truncated below 16 octets; malformed: magic, type, stage or reserved bits; unsupported: another version.
  static Result<NegHeader> parse(ConstBytes in);
  void emit(MutBytes out) const;  ///< 16 octets
};
/// The message at the start of a buffer; `body` is a view into the buffer.
struct NegMessage {
  NegHeader header;
  ConstBytes body;

  std::size_t size() const { return PARLEY_NEG_HEADER_LEN + body.size(); }
  /// Errors: as NegHeader::parse; also truncated if the body is incomplete.
  static Result<NegMessage> parse(ConstBytes in);
};
/// True while `head` can still become the start of a message.
bool may_become_neg_magic(ConstBytes head);

struct NegItem {
  NegItemType type{};
  ConstBytes value;
  std::string_view text() const { return {reinterpret_cast<const char*>(value.data()), value.size()}; }
};
/// Returns the items of known types, as views into `in`. Errors: malformed: an item is cut off; unsupported: an unknown
/// critical item.
Result<std::vector<NegItem>> parse_neg_items(ConstBytes in);
/// Appends an item; a value longer than 65535 octets is truncated.
void add_neg_item(Bytes& out, NegItemType type, ConstBytes value);
void add_neg_item(Bytes& out, NegItemType type, std::string_view value);

}  // namespace parley::wire
