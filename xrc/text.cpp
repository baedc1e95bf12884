// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// Texts for states, events and refusals.
#include "parley/xrc.hpp"

#include <charconv>

#include <fmt/format.h>

namespace parley::xrc {
namespace {

struct RefusalCategory final : std::error_category {
  const char* name() const noexcept override { return "parley-xrc"; }
  std::string message(int value) const override {
    switch (static_cast<Refusal>(value)) {
      case Refusal::none: return "no error";
#define PARLEY_X(name, number, text) \
  case Refusal::name: return text;
        PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
    }
    return "unknown refusal " + std::to_string(value);
  }
  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<Refusal>(value)) {
      case Refusal::none: break;
#define PARLEY_X(name, number, text) \
  case Refusal::name: return std::errc::number;
        PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
    }
    return {value, *this};
  }
};

}  // namespace

const std::error_category& refusal_category() noexcept {
  static const RefusalCategory category;
  return category;
}

std::string to_string(const TgtId& id) {
  return fmt::format("{}@{}.{}", id.qpn, id.generation >> 32, id.generation & 0xFFFFFFFF);
}

std::optional<TgtId> parse_tgt(std::string_view text) {
  std::array<std::uint32_t, 3> numbers{};
  const std::string_view ends("@.");
  std::size_t count = 0;
  for (const char* at = text.data(); count < numbers.size(); ++at) {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(at, end, numbers[count]);
    if (read.ec != std::errc()) return std::nullopt;
    at = read.ptr;
    ++count;
    if (at == end) break;
    if (count > ends.size() || *at != ends[count - 1]) return std::nullopt;
  }
  if (count == 2 || numbers[0] > 0xFFFFFF || (count == 3 && numbers[1] == 0)) return std::nullopt;
  return TgtId{numbers[0], std::uint64_t{numbers[1]} << 32 | numbers[2]};
}

std::string_view to_string(Refusal refusal) {
  switch (refusal) {
    case Refusal::none: return "none";
#define PARLEY_X(name, number, text) \
  case Refusal::name: return #name;
      PARLEY_XRC_REFUSALS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view to_string(State state) {
  switch (state) {
#define PARLEY_X(name, text) \
  case State::name: return #name;
    PARLEY_XRC_STATES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view text_of(State state) {
  switch (state) {
#define PARLEY_X(name, text) \
  case State::name: return text;
    PARLEY_XRC_STATES(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::none: return "none";
#define PARLEY_X(name, text) \
  case EventKind::name: return #name;
      PARLEY_XRC_EVENTS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::string_view text_of(EventKind kind) {
  switch (kind) {
    case EventKind::none: return "nothing";
#define PARLEY_X(name, text) \
  case EventKind::name: return text;
      PARLEY_XRC_EVENTS(PARLEY_X)
#undef PARLEY_X
  }
  return "unknown";
}

std::optional<State> leads_to(EventKind kind) {
  switch (kind) {
    case EventKind::fatal:
    case EventKind::request_error:
    case EventKind::access_error: return State::error;
    case EventKind::peer_gone:
    case EventKind::peer_reused:
    case EventKind::device_removed:
    case EventKind::killed:
    case EventKind::unattended: return State::drain;
    default: return std::nullopt;
  }
}

}  // namespace parley::xrc
