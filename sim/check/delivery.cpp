// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
#include "sim/check/delivery.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace parley::sim::check {
namespace {

constexpr std::string_view rule = "RFC 5040 §5.5";

constexpr std::uint64_t mix(std::uint64_t z) {  // splitmix64
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// Generates the octets of a message, eight at a time.
class Pattern {
 public:
  explicit Pattern(const MessageName& name)
      : base_(mix(mix((std::uint64_t{name.attempt} << 1 | static_cast<unsigned>(name.direction)) + 1) + name.message)) {
  }
  std::array<std::uint8_t, 8> word(std::size_t index) const {
    std::uint64_t value = mix(base_ + index * 0x9E3779B97F4A7C15);
    std::array<std::uint8_t, 8> out;
    for (std::uint8_t& octet : out) {
      octet = static_cast<std::uint8_t>(value);
      value >>= 8;
    }
    return out;
  }

 private:
  std::uint64_t base_;
};

}  // namespace

void fill_pattern(const MessageName& name, MutBytes out) {
  const Pattern pattern(name);
  for (std::size_t at = 0; at < out.size(); at += 8) {
    const auto word = pattern.word(at / 8);
    const MutBytes piece = out.subspan(at, std::min<std::size_t>(8, out.size() - at));
    std::copy_n(word.begin(), piece.size(), piece.begin());
  }
}

std::optional<std::size_t> find_mismatch(const MessageName& name, ConstBytes got) {
  const Pattern pattern(name);
  for (std::size_t at = 0; at < got.size(); at += 8) {
    const auto word = pattern.word(at / 8);
    const ConstBytes piece = got.subspan(at, std::min<std::size_t>(8, got.size() - at));
    const auto differs = std::mismatch(piece.begin(), piece.end(), word.begin());
    if (differs.first != piece.end()) return at + static_cast<std::size_t>(differs.first - piece.begin());
  }
  return std::nullopt;
}

void check_message(const MessageName& name, ConstBytes memory, std::size_t length, std::size_t wanted,
                   std::string_view label, Instant at, Judge& judge) {
  const std::string what = fmt::format("message {} {}", name.message + 1, to_string(name.direction));
  if (length != wanted) {
    judge.add(delivery_checker, at, label, fmt::format("{} has {} octets instead of {}", what, length, wanted), rule);
    return;
  }
  const auto wrong = find_mismatch(name, memory.first(std::min(memory.size(), length)));
  if (!wrong) return;
  // A match with a neighbouring message's pattern shows whether data was lost, duplicated or reordered.
  std::string guess;
  for (std::uint64_t other = name.message < 8 ? 0 : name.message - 8; other < name.message + 8; ++other)
    if (other != name.message && !find_mismatch({name.attempt, name.direction, other}, memory.first(length)))
      guess = fmt::format("; it is message {}", other + 1);
  judge.add(delivery_checker, at, label, fmt::format("octet {} of {} of {} is wrong{}", *wrong, wanted, what, guess),
            rule);
}

void check_complete(const Attempt& attempt, Instant now, Judge& judge) {
  const End& i = attempt.initiator;
  const End* r = attempt.responder();
  if (r == nullptr || attempt.corrupted) return;
  // Datagrams may be lost or duplicated, but only for a cause. Duplicates are only visible if messages are long enough
  // to be distinct.
  if (attempt.datagrams && attempt.datagrams_touched()) return;
  const auto missing = [&](const End& to, const End& from, Direction direction) {
    if (to.messages_got > from.messages_sent)
      judge.add(delivery_checker, now, attempt.label,
                fmt::format("{} messages {} were delivered, but {} were sent", to.messages_got, to_string(direction),
                            from.messages_sent),
                rule);
    // Graceful at both ends: all posted messages were delivered (docs/cm.md).
    else if (to.messages_got < from.messages_sent && to.graceful() && from.graceful())
      judge.add(delivery_checker, now, attempt.label,
                fmt::format("both ends closed gracefully, but {} of {} messages {} are missing",
                            from.messages_sent - to.messages_got, from.messages_sent, to_string(direction)),
                "RFC 5044 §7.2");
  };
  missing(*r, i, Direction::to_responder);
  missing(i, *r, Direction::to_initiator);
}

}  // namespace parley::sim::check
