// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The meanings of AETH and timer codes.
#include <fmt/format.h>

#include <iterator>

#include "wire/ib/packet.hpp"

namespace parley::wire::ib {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t rnr_timers[32] = {PARLEY_IB_RNR_TIMERS};  // in units of 10 us
constexpr std::uint16_t credits[31] = {PARLEY_IB_CREDITS};

}  // namespace

std::string_view to_string(Nak nak) {
  switch (nak) {
#define PARLEY_X(name, code, text) \
  case Nak::name: return text;
    PARLEY_IB_NAKS(PARLEY_X)
#undef PARLEY_X
  }
  return "reserved NAK code";
}

Duration rnr_timer(std::uint8_t code) { return microseconds(10) * rnr_timers[code & PARLEY_IB_SYNDROME_VALUE]; }

std::optional<std::uint16_t> credits_of(std::uint8_t code) {
  if (code >= std::size(credits)) return std::nullopt;
  return credits[code];
}

Duration timeout_of(std::uint8_t code) {
  return std::chrono::nanoseconds(std::int64_t{4096} << (code & PARLEY_IB_SYNDROME_VALUE));
}

std::string syndrome_text(std::uint8_t syndrome) {
  const auto value = static_cast<std::uint8_t>(syndrome & PARLEY_IB_SYNDROME_VALUE);
  switch (syndrome & ~PARLEY_IB_SYNDROME_VALUE) {
    case PARLEY_IB_SYNDROME_ACK:
      if (const auto n = credits_of(value)) return fmt::format("ACK, {} credit{}", *n, *n == 1 ? "" : "s");
      return "ACK";
    case PARLEY_IB_SYNDROME_RNR_NAK: {
      const std::uint32_t hundredths = rnr_timers[value];
      return fmt::format("RNR NAK, {}.{:02} ms", hundredths / 100, hundredths % 100);
    }
    case PARLEY_IB_SYNDROME_NAK: return fmt::format("NAK: {}", to_string(static_cast<Nak>(value)));
    default: return fmt::format("reserved syndrome 0x{:02X}", syndrome);
  }
}

}  // namespace parley::wire::ib
