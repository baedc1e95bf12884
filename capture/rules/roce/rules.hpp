// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
// The findings of one connection of InfiniBand's transport. Its rules are those of parley/wire/rules_ib.h.
#pragma once
#include <string>
#include <string_view>

#include "capture/findings.hpp"
#include "wire/ib/quirks.hpp"

namespace parley::capture {

/// The rows of rules_ib.h among them.
using IbRule = Rule;

/// A frame, and when it was captured.
struct FrameRef {
  std::uint64_t frame = 0;
  Instant at{};
};

/// A capture with several queues may show packets of one moment in another order: what is so near to each other proves
/// no order.
inline constexpr Duration same_moment = std::chrono::milliseconds(1);

/// Of one connection.
class IbFindings {
 public:
  /// `text` goes on after "the initiator" or "the responder".
  void tell(IbRule rule, std::uint64_t frame, Side side, std::string_view text) {
    all_.add(frame, side, rule, std::string("the ") + std::string(to_string(side)) + std::string(text));
  }
  void note(std::uint64_t frame, std::optional<Side> side, std::string text) {
    all_.remark(frame, side, std::move(text));
  }
  /// A departure that a known peer is known for, so that it is no finding: "the responder <text>". The first of each.
  void departs(wire::ib::Departure what, std::uint64_t frame, Side side, std::string_view text) {
    if (departed_.has(what)) return;
    departed_.add({what});
    const wire::ib::DepartureFacts& facts = wire::ib::facts_of(what);
    all_.departure(frame, side, facts,
                   std::string("the ") + std::string(to_string(side)) + std::string(text) + ", as Linux does (quirk " +
                       std::string(facts.name) + ")");
  }
  const Findings& all() const { return all_; }

 private:
  Findings all_;
  wire::ib::DepartureSet departed_;
};

}  // namespace parley::capture
